//go:build unix

package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	desktop = look{1280, 800, "light", false}
	phone   = look{390, 844, "light", false}
)

// TestBrowser looks at the page in a browser, and uses it.
func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	url := site(t)
	for _, tt := range []struct {
		name string
		test func(t *testing.T, b *browser, url string)
	}{
		{"story", testStory}, {"looks", testLooks}, {"mouse", testMouse}, {"keys", testKeys},
		{"block", testBlock}, {"still", testStill}, {"race", testRace},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func(outer *testing.T) { b.t = outer }(b.t)
			b.t = t
			tt.test(t, b, url)
			require.Empty(t, b.console())
		})
	}
}

// testStory waits for what the first twenty seconds show.
func testStory(t *testing.T, b *browser, url string) {
	b.open(url, desktop)
	require.Contains(t, b.text("steps"), "3.2 s / 20 ms = tick 160, 160 mod 64 = bucket 32.")
	b.eventually("it fires", func() bool { return b.text("fired-at") != "" })
	require.Regexp(t, `^It ran \d+\.\d ms after its tick\.$`, b.text("fired-at"))
	require.Regexp(t, `^\d+(\.\d)? ms$`, b.text("late"))
	require.GreaterOrEqual(t, b.number("tick"), 160.0, "never early")
	require.Equal(t, 1.0, b.number("fired"))
	b.eventually("another one is canceled", func() bool { return b.number("canceled") > 0 })
	require.Regexp(t, `^Tick \d+ mod 64 = bucket \d+\.$`, b.text("second"))
	b.eventually("the flood", func() bool { return b.number("pending") > 100 })
	step := func() string { return script[string](b, "return document.querySelector('li.now h2').textContent") }
	b.eventually("the last step", func() bool { return step() == "Your turn" })
	b.eventually("most are canceled", func() bool { return b.number("share-seen") >= 80 })
	for _, color := range []string{"--now", "--later", "--fired", "--hand"} {
		b.eventually("something is drawn in "+color, func() bool { return script[int](b, drawnIn, color) > 20 })
	}
	require.Greater(t, b.number("fired"), 1.0)
	b.save("flood-light")
	b.look(look{1280, 800, "dark", false})
	b.eventually("it is drawn in dark colors", func() bool { return script[int](b, drawnIn, "--ring") > 1000 })
	b.save("flood-dark")

	script[any](b, "document.getElementById('replay').click()")
	b.eventually("it starts again", func() bool { return step() == "A timeout drops in" && b.number("fired") == 0 })
}

// testLooks checks the layout at both sizes and in both color schemes.
func testLooks(t *testing.T, b *browser, url string) {
	for _, page := range []string{"", "race.html"} {
		backgrounds := map[string]bool{}
		for _, l := range []look{desktop, {1280, 800, "dark", false}, {960, 700, "light", false}, phone, {390, 844, "dark", false}} {
			name := fmt.Sprintf("%s %d %s", page, l.width, l.scheme)
			b.open(url+page, l)
			if page == "" {
				b.eventually("the page is alive", func() bool { return b.text("mod") != "loading" })
				setRate(b, 75)
				b.eventually("the flood", func() bool { return b.number("pending") > 100 })
				b.eventually("figures", func() bool { return b.number("share-seen") > 0 && b.text("late") != "–" })
				script[any](b, longTexts)
			}
			b.save(fmt.Sprintf("look-%s-%d-%s", page, l.width, l.scheme))
			assert.Empty(t, script[[]string](b, overlaps), name)
			assert.Empty(t, script[[]string](b, lowContrast), name)
			assert.LessOrEqual(t, script[int](b, "return document.documentElement.scrollWidth"), l.width, name)
			backgrounds[script[string](b, "return getComputedStyle(document.body).backgroundColor")] = true
			if page != "" {
				continue
			}
			assert.Empty(t, script[[]string](b, onTheDial), name)
			dial, section := box(b, "#dial"), box(b, "section")
			if l.width > phone.width {
				assert.Less(t, dial.X+dial.Width, section.X, "%s: beside it", name)
			}
			switch l.width {
			case desktop.width:
				assert.Greater(t, dial.Height, 0.88*float64(l.height), name)
				assert.LessOrEqual(t, script[int](b, "return document.documentElement.scrollHeight"), l.height, name)
			case phone.width:
				assert.Greater(t, dial.Width, 0.9*float64(l.width), name)
				assert.Equal(t, dial.X, section.X, "%s: one column", name)
				assert.LessOrEqual(t, dial.Y+dial.Height, section.Y, "%s: one column", name)
			}
		}
		assert.Len(t, backgrounds, 2, "light and dark")
	}
}

// testMouse clicks on a bucket, and on the timeout that it has armed.
func testMouse(t *testing.T, b *browser, url string) {
	quiet(b, url)
	dial := box(b, "#dial")
	at := func(bucket int, part float64) (x, y float64) { // of the way from the middle to the rim
		angle := 2 * math.Pi * (float64(bucket)/buckets - 0.25)
		radius := (dial.Width/2 - 24) * part
		return dial.X + dial.Width/2 + radius*math.Cos(angle), dial.Y + dial.Height/2 + radius*math.Sin(angle)
	}
	b.click(at(20, 0.3))
	require.Empty(t, b.text("said"), "there is no bucket")
	b.eventually("a click arms, and a click on the dot cancels", func() bool {
		b.click(at(20, 0.95)) // the last row: the timeout goes to the first one
		require.Regexp(t, `^[\d.]+ s: tick [\d,]+ mod 64 = bucket 20\.$`, b.text("said"))
		b.click(at(20, 0.47+0.53/20))
		return b.number("canceled") >= 1
	})
	require.Equal(t, "Canceled.", b.text("said"))
}

// testKeys does the same with the keyboard.
func testKeys(t *testing.T, b *browser, url string) {
	quiet(b, url)
	script[any](b, "document.querySelector('canvas').focus()")
	b.press("Enter")
	require.Empty(t, b.text("said"), "no bucket is chosen")
	for range 3 {
		b.press("ArrowRight")
	}
	b.press("ArrowLeft")
	b.eventually("Enter arms, and Delete cancels", func() bool {
		b.press("Enter")
		require.Regexp(t, `mod 64 = bucket 2\.$`, b.text("said"))
		script[any](b, nextFrame)
		b.press("Delete")
		return b.number("canceled") >= 1
	})
}

// testBlock blocks tasks, and sees others fire meanwhile.
func testBlock(t *testing.T, b *browser, url string) {
	quiet(b, url)
	setRate(b, 75)
	type seen struct{ Blocking, Fired float64 }
	look := func() seen {
		return script[seen](b, `const n = (id) => parseInt(document.getElementById(id).textContent.replaceAll(",", "")) || 0;
			return { blocking: n("said"), fired: n("fired") };`)
	}
	b.eventually("others fire while at least 20 tasks block", func() bool {
		script[any](b, "document.getElementById('block').click()")
		var first seen
		b.eventually("they block", func() bool { first = look(); return first.Blocking >= 20 })
		var last seen
		b.eventually("others fire", func() bool { last = look(); return last.Fired > first.Fired+10 })
		return last.Blocking >= 20
	})
	require.Contains(t, b.text("said"), "The others start as before")
	b.eventually("they are drawn", func() bool {
		script[any](b, "document.getElementById('block').click()")
		return script[int](b, drawnIn, "--blocked") > 100
	})
	b.save("block")
}

// testStill asks for less motion: the page is drawn once a second.
func testStill(t *testing.T, b *browser, url string) {
	const countFrames = `const f = hashedwheel.frame; window.drawn = [];
		hashedwheel.frame = () => { drawn.push(performance.now()); return f(); };`
	frames := func() []float64 { return script[[]float64](b, "return drawn") }
	moving := desktop
	moving.still = true
	b.open(url, moving)
	b.eventually("the page is alive", func() bool { return b.text("mod") != "loading" })
	script[any](b, countFrames)
	b.eventually("it is drawn", func() bool { return len(frames()) >= 4 })
	drawn := frames()
	require.GreaterOrEqual(t, drawn[3]-drawn[0], 2900.0)
	b.look(desktop)
	b.eventually("it moves", func() bool {
		drawn = frames()
		return drawn[len(drawn)-1]-drawn[len(drawn)-4] < 900
	})
}

// testRace runs the race to its end.
func testRace(t *testing.T, b *browser, url string) {
	b.open(url+"race.html", desktop)
	b.eventually("the race ends", func() bool { return b.text("lap") == "Finished." })
	rows := script[[][]string](b, `return [...document.querySelectorAll("#rows tr")].map((tr) =>
		[...tr.cells].map((td) => td.className + td.textContent))`)
	require.Len(t, rows, 3)
	for i, row := range rows {
		require.Equal(t, []string{"10", "1,000", "100,000"}[i], row[0])
		for _, cell := range row[1:3] {
			require.Regexp(t, `^(ahead)?[1-9]\d+ ns$`, cell)
		}
		for _, cell := range row[3:] {
			require.Regexp(t, `^(ahead)?\d+\.\d ms$`, cell)
		}
	}
	require.Contains(t, script[string](b, "return document.body.textContent"), "share one thread")
	b.save("race")
}

// quiet opens the page and stops its story.
func quiet(b *browser, url string) {
	b.t.Helper()
	b.open(url, desktop)
	b.eventually("the page is alive", func() bool { return b.text("mod") != "loading" })
	setRate(b, 0)
}

// setRate moves the slider of the load.
func setRate(b *browser, value int) {
	b.t.Helper()
	script[any](b, `const e = document.getElementById("rate"); e.value = arguments[0]; e.dispatchEvent(new Event("input"))`, value)
}

type rect struct{ X, Y, Width, Height float64 }

func box(b *browser, css string) rect {
	b.t.Helper()
	return script[rect](b, "return document.querySelector(arguments[0]).getBoundingClientRect()", css)
}

const (
	longTexts = `
		const fill = (id, text) => document.getElementById(id).textContent = text;
		fill("fired-at", "It ran 123.4 ms after its tick.");
		fill("second", "Tick 450 mod 64 = bucket 62.");
		fill("said", "20 tasks block. The others start as before, on other goroutines.");`

	nextFrame = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"

	// drawnIn returns how many pixels of the dial have a color.
	drawnIn = `
		const c = document.querySelector("canvas");
		const pixels = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
		const hex = getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim();
		const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
		const color = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
		return pixels.filter((p) => p === color).length;`

	// textBoxes finds the boxes of all pieces of text.
	textBoxes = `
		const boxes = [];
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let node; (node = walk.nextNode()); ) {
			if (!node.data.trim()) continue;
			const range = document.createRange();
			range.selectNodeContents(node);
			for (const r of range.getClientRects()) if (r.width > 1) boxes.push({ r, e: node.parentElement, text: node.data.trim() });
		}`

	// overlaps finds pieces of text that lie on each other or on a control, or that stick out.
	overlaps = textBoxes + `
		const bad = [];
		for (const e of document.querySelectorAll("input, #dial")) boxes.push({ r: e.getBoundingClientRect(), e, text: e.id });
		boxes.forEach((a, i) => {
			const room = a.e.closest("dl div, td, th, button, main").getBoundingClientRect();
			if (a.r.left < room.left - 0.5 || a.r.right > room.right + 0.5) bad.push(a.text + " sticks out");
			for (const b of boxes.slice(i + 1)) {
				if (a.e.contains(b.e) && a.e !== b.e || b.e.contains(a.e) && a.e !== b.e) continue;
				const x = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
				const y = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
				if (x > 1 && y > 1) bad.push(a.text + " on " + b.text);
			}
		});
		return bad;`

	// onTheDial finds labels of the dial that lie on its buckets, or on the tasks that block around the hub.
	onTheDial = textBoxes + `
		const d = document.querySelector("#dial").getBoundingClientRect();
		const [x, y, outer] = [d.x + d.width / 2, d.y + d.height / 2, d.width / 2 - 24];
		return boxes.filter(({ e }) => e.closest("#dial")).filter(({ r, e }) => {
			const dx = [r.left - x, r.right - x], dy = [r.top - y, r.bottom - y];
			const near = ([a, b]) => a * b < 0 ? 0 : Math.min(Math.abs(a), Math.abs(b));
			const far = ([a, b]) => Math.max(Math.abs(a), Math.abs(b));
			return e.closest("#hub") ? Math.hypot(far(dx), far(dy)) > outer * 0.47 * 0.85 : Math.hypot(near(dx), near(dy)) < outer;
		}).map(({ text }) => text);`

	// lowContrast finds text whose contrast to what is behind it is less than 4.5.
	lowContrast = textBoxes + `
		const parse = (s) => s.match(/[\d.]+/g).map(Number);
		const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
			.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
		const behind = (e) => {
			const c = parse(getComputedStyle(e).backgroundColor);
			return c.length < 4 || c[3] > 0 || !e.parentElement ? c : behind(e.parentElement);
		};
		return boxes.map(({ e, text }) => {
			const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
			return [(a + 0.05) / (b + 0.05), text];
		}).filter(([ratio]) => ratio < 4.5).map(String);`
)
