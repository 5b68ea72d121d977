//go:build unix

package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBrowser looks at the page in a browser, and uses it.
func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	url := site(t)
	for name, test := range map[string]func(t *testing.T, b *browser, url string){
		"story": testStory, "looks": testLooks, "nothing moves": testNothingMoves, "flood": testFlood, "clicks": testClicks, "block": testBlock,
		"still": testStill,
	} {
		t.Run(name, func(t *testing.T) {
			defer func(outer *testing.T) { b.t = outer }(b.t)
			b.t = t
			b.look(1280, 800, "light", "no-preference")
			test(t, b, url)
			require.Empty(t, b.console())
		})
	}
}

// testStory waits for what the first sixteen seconds show.
func testStory(t *testing.T, b *browser, url string) {
	b.open(url)
	script[any](b, `window.written = new Set();
		const write = CanvasRenderingContext2D.prototype.fillText;
		CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
			written.add(text);
			write.call(this, text, ...at);
		}`)
	for _, text := range []string{"hand: now", "a timeout", "due at tick 160,", `in \d+ ticks`, "it fires", "canceled"} {
		b.eventually("the dial says "+text, func() bool {
			return script[bool](b, "return [...written].some((text) => text.match(`^${arguments[0]}$`))", text)
		})
	}
	require.Contains(t, b.text("steps"), "3.2 s / 20 ms = tick 160, 160 mod 64 = bucket 32.")
	b.eventually("it fires", func() bool { return b.text("fired-at") != "" })
	require.Regexp(t, `^It ran \d+\.\d ms after its tick\.$`, b.text("fired-at"))
	require.Regexp(t, `^\d+(\.\d)? ms$`, b.text("late"))
	require.GreaterOrEqual(t, b.number("tick"), 160.0, "never early")
	b.eventually("another one is canceled", func() bool { return b.number("canceled") > 0 })
	require.Regexp(t, `^Tick \d+ mod 64 = bucket \d+\.$`, b.text("second"))
	step := func() string { return script[string](b, "return document.querySelector('li.now h2').textContent") }
	b.eventually("the last step", func() bool { return step() == "Your turn" })
	b.eventually("most are canceled", func() bool { return b.number("share-seen") >= 80 })
	for _, color := range []string{"--due", "--later", "--fired", "--hand"} {
		b.eventually("something is drawn in "+color, func() bool { return script[int](b, drawnIn, color) > 20 })
	}
	b.look(1280, 800, "dark", "no-preference")
	b.eventually("it is drawn in dark colors", func() bool { return script[int](b, drawnIn, "--ring") > 1000 })
	script[any](b, "written.clear()")
	b.eventually("it is drawn again", func() bool { return script[int](b, drawnIn, "--due") > 20 })
	require.Empty(t, script[[]string](b, "return [...written]"), "no text lies on the flood")
	script[any](b, "document.getElementById('replay').click()")
	b.eventually("it starts again", func() bool { return step() == "A timeout drops in" && b.number("fired") == 0 })
}

// testLooks checks the layout, at several sizes and in both color schemes.
func testLooks(t *testing.T, b *browser, url string) {
	backgrounds := map[string]bool{}
	for _, width := range []int{1280, 960, 390} {
		for _, scheme := range []string{"light", "dark"} {
			name := fmt.Sprintf("%d %s", width, scheme)
			height := map[int]int{1280: 800, 960: 600, 390: 844}[width]
			b.look(width, height, scheme, "no-preference")
			start(b, url, 75)
			b.eventually("figures", func() bool { return b.number("share-seen") > 0 && b.text("late") != "–" })
			script[any](b, `const id = (name) => document.getElementById(name);
				id("fired-at").textContent = "It ran 123.4 ms after its tick.";
				id("second").textContent = "Tick 450 mod 64 = bucket 62.";
				id("said").textContent = "20 tasks block. The others start as before, on other goroutines.";`)
			b.save("look " + name)
			assert.Contains(t, script[string](b, "return document.querySelector('.note').innerText"), "after their tick", name)
			assert.Empty(t, script[[]string](b, textBoxes+badText), name)
			assert.LessOrEqual(t, script[int](b, "return document.documentElement.scrollWidth"), width, name)
			backgrounds[script[string](b, "return getComputedStyle(document.body).backgroundColor")] = true
			assert.Empty(t, script[[]string](b, textBoxes+onTheDial), name)
			assert.Greater(t, script[float64](b, contrast, "--due", "--later"), 3.0, "%s: this turn and a later one", name)
			dial, section := box(b, "#dial"), box(b, "section")
			switch width {
			case 1280:
				assert.Greater(t, dial["height"], 0.88*float64(height), name)
				assert.Less(t, dial["right"], section["x"], "%s: beside it", name)
				assert.LessOrEqual(t, script[int](b, "return document.documentElement.scrollHeight"), height, name)
			case 390:
				assert.Greater(t, dial["width"], 0.9*float64(width), name)
				assert.Equal(t, dial["x"], section["x"], "%s: one column", name)
				assert.LessOrEqual(t, dial["bottom"], section["y"], "%s: one column", name)
				for step := range 5 {
					script[any](b, `const now = arguments[0];
						document.querySelectorAll("#steps li").forEach((li, i) => li.classList.toggle("now", i === now))`, step)
					b.save(fmt.Sprintf("step %d %s", step+1, name))
					for _, button := range []string{"#block", "#replay"} {
						assert.Less(t, box(b, button)["bottom"], 760.0, "%s, step %d: the bars of a browser take the rest", name, step+1)
					}
				}
			}
		}
	}
	assert.Len(t, backgrounds, 2, "light and dark")
}

// testNothingMoves changes the step and all texts that change. The controls stay where they are, also on a phone.
func testNothingMoves(t *testing.T, b *browser, url string) {
	for _, width := range []int{1280, 960, 390} {
		b.look(width, 800, "light", "no-preference")
		start(b, url, 0)
		before := box(b, "#block")
		for _, texts := range [][]string{
			{"", "", "", "0", "–"},
			{"It ran 123.4 ms after its tick.", "Tick 450 mod 64 = bucket 62.",
				"20 tasks block. The others start as before, on other goroutines.", "123,456,789", "12345 ms"},
		} {
			for step := range 5 {
				script[any](b, `const [now, texts] = arguments;
					["fired-at", "second", "said", "fired", "late"].forEach((id, i) => document.getElementById(id).textContent = texts[i]);
					document.querySelectorAll("#steps li").forEach((li, i) => li.classList.toggle("now", i === now))`, step, texts)
				assert.InDelta(t, before["top"], box(b, "#block")["top"], 0.5, "%d, step %d, %q", width, step+1, texts)
			}
		}
	}
}

// testFlood looks at the circles of a flood: none lies on another one.
func testFlood(t *testing.T, b *browser, url string) {
	for _, width := range []int{1280, 390} {
		b.look(width, 840, "light", "no-preference")
		start(b, url, 75) // a thousand a second
		b.eventually("many are pending", func() bool { return b.number("pending") > 500 && b.number("fired") > 20 })
		script[any](b, `window.frames = [];
			const p = CanvasRenderingContext2D.prototype, { arc, clearRect } = p;
			p.clearRect = function (...at) { frames.push([]); clearRect.apply(this, at); };
			p.arc = function (x, y, r, from, to) {
				if (to - from > 6) frames.at(-1)?.push([x, y, r]);
				arc.apply(this, arguments);
			};`)
		b.eventually("frames", func() bool { return script[int](b, "return frames.length") > 50 })
		overlaps := script[[][]float64](b, `return frames.slice(1, -1).flatMap((circles) => circles.flatMap(([x, y, r], i) =>
			circles.slice(i + 1).filter(([u, v, s]) => Math.hypot(x - u, y - v) > 0.01 && Math.hypot(x - u, y - v) < r + s)
				.map(([u, v, s]) => [x, y, r, u, v, s]))).slice(0, 3);`)
		require.Empty(t, overlaps, "%d: x, y and radius of two circles", width)
		require.Greater(t, script[int](b, "return frames.at(-2).length"), 200)
	}
}

// testClicks arms and cancels timeouts, with the mouse and with keys.
func testClicks(t *testing.T, b *browser, url string) {
	start(b, url, 0)
	dial := box(b, "#dial")
	click := func(bucket int, part float64) { // of the way from the middle to the rim
		angle, radius := 2*math.Pi*(float64(bucket)/buckets-0.25), (dial["width"]/2-24)*part
		x, y := dial["x"]+dial["width"]/2+radius*math.Cos(angle), dial["y"]+dial["height"]/2+radius*math.Sin(angle)
		for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
			b.cdp("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})
		}
	}
	click(20, 0.3)
	require.Empty(t, b.text("said"), "there is no bucket")
	b.eventually("a click arms, and a click on the dot cancels", func() bool {
		click(20, 0.95) // the last row: the timeout goes to the first one
		require.Regexp(t, `^[\d.]+ s: tick [\d,]+ mod 64 = bucket 20\.$`, b.text("said"))
		click(20, 0.47+0.53/20)
		return b.text("said") == "Canceled."
	})
	b.eventually("it is counted", func() bool { return b.number("canceled") >= 1 })

	start(b, url, 0)
	press := func(key string) {
		for _, kind := range []string{"keyDown", "keyUp"} {
			b.cdp("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key})
		}
	}
	script[any](b, "document.querySelector('canvas').focus()")
	for _, key := range []string{"Enter", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"} {
		press(key)
		require.Empty(t, b.text("said"), key)
	}
	b.eventually("Enter arms, and Delete cancels", func() bool {
		press("Enter")
		require.Regexp(t, `mod 64 = bucket 2\.$`, b.text("said"))
		press("Delete")
		return b.number("canceled") >= 1
	})
}

// testBlock blocks tasks, and sees others fire meanwhile.
func testBlock(t *testing.T, b *browser, url string) {
	start(b, url, 75)
	b.eventually("others fire while at least 20 tasks block", func() bool {
		script[any](b, "document.getElementById('block').click()")
		b.eventually("they block", func() bool { return b.number("said") >= 20 })
		fired := b.number("fired")
		b.eventually("others fire", func() bool { return b.number("fired") > fired+10 })
		return b.number("said") >= 20 && script[int](b, drawnIn, "--blocked") > 100
	})
}

// testStill asks for less motion: the page is drawn once a second.
func testStill(t *testing.T, b *browser, url string) {
	b.look(1280, 800, "light", "reduce")
	start(b, url, 0)
	script[any](b, `const f = hashedwheel.frame; window.drawn = [];
		hashedwheel.frame = () => { drawn.push(performance.now()); return f(); };`)
	frames := func() []float64 { return script[[]float64](b, "return drawn.slice(-4)") }
	b.eventually("it is drawn", func() bool { return len(frames()) == 4 })
	drawn := frames()
	require.GreaterOrEqual(t, drawn[3]-drawn[0], 2000.0)
	b.look(1280, 800, "light", "no-preference")
	b.eventually("it moves", func() bool { drawn = frames(); return drawn[3]-drawn[0] < 900 })
}

// start opens the page, and ends its story by moving the slider of the load.
func start(b *browser, url string, load int) {
	b.open(url)
	b.eventually("the page is alive", func() bool { return b.text("mod") != "loading" })
	script[any](b, "rate.value = arguments[0]; rate.dispatchEvent(new Event('input'))", load)
}

// box returns where an element is.
func box(b *browser, css string) map[string]float64 {
	const rect = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"
	return script[map[string]float64](b, rect, css)
}

// Scripts that look at the page.
const (
	// drawnIn returns how many pixels of the dial have a color.
	drawnIn = `
		const c = document.querySelector("canvas");
		const pixels = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
		const hex = getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim();
		const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
		const color = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
		return pixels.filter((p) => p === color).length;`

	// contrast returns the contrast of two colors of the style sheet.
	contrast = `
		const style = getComputedStyle(document.documentElement);
		const light = (name) => [1, 3, 5].map((i) => parseInt(style.getPropertyValue(name).trim().slice(i, i + 2), 16) / 255)
			.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
			.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0.05);
		const ratio = light(arguments[0]) / light(arguments[1]);
		return Math.max(ratio, 1 / ratio);`

	// textBoxes finds the boxes of all pieces of text. The other scripts begin with it.
	textBoxes = `
		const boxes = [];
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let node; (node = walk.nextNode()); ) {
			if (!node.parentElement.checkVisibility({ visibilityProperty: true })) continue;
			const range = document.createRange();
			range.selectNodeContents(node);
			const [e, text] = [node.parentElement, node.data.trim()];
			for (const r of range.getClientRects()) if (text && r.width > 1) boxes.push({ r, e, text });
		}`

	// badText finds text of low contrast, text that lies on other text or on a control, and text that sticks out.
	badText = `
		const bad = [];
		const parse = (s) => s.match(/[\d.]+/g).map(Number);
		const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
			.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
		const behind = (e) => {
			const c = parse(getComputedStyle(e).backgroundColor);
			return c.length < 4 || c[3] > 0 || !e.parentElement ? c : behind(e.parentElement);
		};
		for (const { e, text } of boxes) {
			const [x, y] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
			if ((x + 0.05) / (y + 0.05) < 4.5) bad.push(text + " has low contrast");
		}
		for (const e of document.querySelectorAll("input, #dial")) boxes.push({ r: e.getBoundingClientRect(), e, text: "-" });
		boxes.forEach((a, i) => {
			const room = a.e.closest("dl div, button, main").getBoundingClientRect();
			if (a.r.left < room.left - 0.5 || a.r.right > room.right + 0.5) bad.push(a.text + " sticks out");
			for (const b of boxes.slice(i + 1)) {
				if (a.e !== b.e && (a.e.contains(b.e) || b.e.contains(a.e))) continue;
				const x = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
				const y = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
				if (x > 1 && y > 1) bad.push(a.text + " on " + b.text);
			}
		});
		return bad;`

	// onTheDial finds labels of the dial that lie on its buckets, or on the tasks that block around the hub.
	onTheDial = `
		const d = document.querySelector("#dial").getBoundingClientRect();
		const [x, y, outer] = [d.x + d.width / 2, d.y + d.height / 2, d.width / 2 - 24];
		return boxes.filter(({ e }) => e.closest("#dial")).filter(({ r, e }) => {
			const dx = [r.left - x, r.right - x], dy = [r.top - y, r.bottom - y];
			const near = ([a, b]) => a * b < 0 ? 0 : Math.min(Math.abs(a), Math.abs(b));
			const far = ([a, b]) => Math.max(Math.abs(a), Math.abs(b));
			return e.closest("#hub") ? Math.hypot(far(dx), far(dy)) > outer * 0.4 : Math.hypot(near(dx), near(dy)) < outer;
		}).map(({ text }) => text);`
)
