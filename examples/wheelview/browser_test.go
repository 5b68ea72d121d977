//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A site is the program, serving on a port that stays the same when it is started again.
type site struct {
	t    *testing.T
	addr string
	end  func() // returns when it has ended
}

func newSite(t *testing.T) *site {
	s := &site{t: t, addr: "127.0.0.1:0"}
	s.start()
	t.Cleanup(func() { s.end() })
	return s
}

func (s *site) start() {
	s.t.Helper()
	ln, err := net.Listen("tcp", s.addr)
	require.NoError(s.t, err)
	s.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		sums, err := show(ctx, ln)
		if err != nil || sums.check() != nil {
			s.t.Errorf("the program ended with %v, %v", err, sums.check())
		}
	}()
	s.end = func() {
		cancel()
		<-done
	}
}

// visit opens the page and waits until it is live.
func visit(t *testing.T) (*site, *browser) {
	b := startBrowser(t)
	s := newSite(t)
	b.look(1280, 900, "light")
	b.open("http://" + s.addr + "/")
	b.eventually("the page is live and has drawn", func() bool {
		return b.text("status") == "live" && b.number("pending") > 0
	})
	return s, b
}

// picture returns the pixels of a canvas, as a data URL.
func (b *browser) picture(id string) string {
	b.t.Helper()
	return script[string](b, "return document.getElementById(arguments[0]).toDataURL()", id)
}

// TestBrowserPage looks at the page without touching it.
func TestBrowserPage(t *testing.T) {
	_, b := visit(t)

	// The numbers move, the drawing too.
	require.Empty(t, script[[]string](b, sameID), "no two elements have the same id")
	for _, id := range []string{"scheduled", "canceled", "expired", "wakeups", "goroutines"} {
		b.eventually(id+" is positive", func() bool { return b.number(id) > 0 })
	}
	for _, id := range []string{"scheduled", "pending", "rings"} {
		was := b.text(id)
		b.eventually(id+" changes", func() bool { return b.text(id) != was })
	}
	for _, id := range []string{"p50", "p99", "max"} {
		b.eventually(id+" is a time", func() bool { return strings.HasSuffix(b.text(id), "s") })
	}
	require.Equal(t, "0", b.text("early"))
	for _, id := range []string{"wheel", "lateness", "legend"} {
		require.Greater(t, script[int](b, distinctColors, id), 3, "canvas %s is drawn", id)
	}
	for color, least := range map[string]int{"--ink": 100, "--hand": 150, "--empty": 1000, "--low": 100} { // number, hands, buckets
		b.eventually(fmt.Sprintf("%d pixels of %s", least, color), func() bool { return script[int](b, drawnIn, "wheel", color) >= least })
	}
	for _, id := range []string{"wheel", "lateness"} {
		was := b.picture(id)
		b.eventually("the drawing "+id+" changes", func() bool { return b.picture(id) != was })
	}
	require.Equal(t, 3.0, script[float64](b, "return document.getElementById('rings').rows.length"))

	// Pointing at the ring that is outermost says what is in it.
	b.command("POST", "/actions", map[string]any{"actions": []any{map[string]any{
		"type": "pointer", "id": "mouse", "parameters": map[string]string{"pointerType": "mouse"},
		"actions": []any{map[string]any{"type": "pointerMove", "duration": 0,
			"origin": map[string]string{elementKey: strings.TrimPrefix(b.element("#wheel"), "/element/")},
			"x":      0, "y": -script[int](b, "return Math.round(document.getElementById('wheel').clientWidth / 2 * 0.9)")}},
	}}}, nil)
	b.eventually("the readout is of ring 3", func() bool { return strings.HasPrefix(b.text("readout"), "Ring 3, bucket ") })

	require.Empty(t, script[[]string](b, withoutLabel), "each control has a label")
	require.Equal(t, 1.0, script[float64](b, "return document.querySelectorAll('[role=status]').length"))
	b.requireKeyboard()

	time.Sleep(3 * time.Second) // for the pictures: lines with something to show
	b.shot("light")
	light := script[string](b, "return getComputedStyle(document.body).backgroundColor")
	lightHand := script[string](b, "return getComputedStyle(document.documentElement).getPropertyValue('--hand')")
	requireContrast(b, "light")
	b.look(1280, 900, "dark")
	b.eventually("the dark page is another one", func() bool {
		return script[string](b, "return getComputedStyle(document.body).backgroundColor") != light
	})
	require.NotEqual(t, lightHand, script[string](b, "return getComputedStyle(document.documentElement).getPropertyValue('--hand')"))
	b.eventually("the dark wheel is drawn in dark colors", func() bool { return script[int](b, drawnIn, "wheel", "--empty") > 0 })
	requireContrast(b, "dark")
	b.shot("dark")

	for _, theme := range []string{"light", "dark"} {
		b.look(360, 740, theme)
		time.Sleep(500 * time.Millisecond)
		b.shot("narrow-" + theme)
	}
	width := script[[]int](b, "const e = document.documentElement; return [innerWidth, e.clientWidth, e.scrollWidth]")
	require.Equal(t, 360, width[0])
	require.LessOrEqual(t, width[2], width[1], "no horizontal scrolling")
	require.Empty(t, script[[]string](b, outside), "nothing sticks out")
	b.eventually("the wheel fits", func() bool {
		return script[bool](b, "const c = document.getElementById('wheel'); return c.width === c.clientWidth && c.clientWidth > 250")
	})
	require.Empty(t, b.console())
}

// TestBrowserControls changes everything that can be changed, with keys and clicks.
func TestBrowserControls(t *testing.T) {
	_, b := visit(t)

	// 2,000 a second, and three positions up.
	require.Equal(t, "2,000", b.text("rate-out"))
	b.keys("#rate", keyRight+keyRight+keyRight, false)
	require.Equal(t, "20,000", b.text("rate-out"))
	b.eventually("the load is higher", func() bool { return b.number("scheduled") > 6000 })
	require.Equal(t, "20,000", b.text("rate-out"), "it stays where it was set")
	require.Equal(t, "20,000", script[string](b, "return document.getElementById('rate').getAttribute('aria-valuetext')"))

	// The longest delay takes the shortest along.
	b.keys("#max-delay", strings.Repeat(keyLeft, 20), false)
	b.eventually("the delays are short", func() bool {
		return b.text("max-delay-out") == "10 ms" && b.text("min-delay-out") == "10 ms"
	})
	b.keys("#share", strings.Repeat(keyLeft, 10), false)
	require.Equal(t, "70 %", b.text("share-out"))
	b.eventually("more expire", func() bool { return b.number("expired") > 1500 })

	// Tasks that block need runners, and hold up nobody.
	require.Less(t, b.number("runners"), 40.0)
	b.keys("#tasks", "40", true)
	b.keys("#seconds", "4", true)
	b.click("#block")
	b.eventually("40 tasks block", func() bool { return b.number("running") >= 40 && b.number("runners") >= 40 })
	b.shot("blocked")
	require.Greater(t, b.number("expired"), 500.0, "the others go on")
	b.eventually("they return", func() bool { return b.number("running") < 40 && b.number("runners") < 40 })

	// Another tick is another timer, under the same load.
	b.click(`#tick option[value="50"]`)
	b.eventually("there is a second timer", func() bool { return strings.Contains(b.text("generation"), "timer 2") })
	b.eventually("its tick is shown", func() bool { return strings.Contains(b.text("rings"), "50 ms") })
	require.Equal(t, "20,000", b.text("rate-out"))
	b.eventually("the load goes on", func() bool { return b.number("scheduled") > 6000 })
	b.eventually("it wakes up less", func() bool { n := b.number("wakeups"); return n > 0 && n < 45 })
	b.click(`#levels option[value="1"]`)
	b.eventually("there is one ring", func() bool {
		return script[int](b, "return document.getElementById('rings').rows.length") == 1
	})
	b.click(`#size option[value="512"]`)
	b.eventually("it has 512 buckets", func() bool { return strings.Contains(b.text("rings"), "/512") })

	// The buttons beside the text.
	b.click("[data-try=busy]")
	b.eventually("100,000 a second", func() bool { return b.text("rate-out") == "100,000" && b.number("scheduled") > 20_000 })
	time.Sleep(time.Second)
	b.shot("busy")
	b.click("[data-try=sparse]")
	b.eventually("3 a second", func() bool {
		n := b.number("wakeups")
		return b.text("rate-out") == "3" && n > 0 && n < 20
	})
	b.shot("sparse")
	b.click("[data-try=none]")
	b.eventually("nothing is pending, and no wake-up", func() bool {
		return b.number("pending") == 0 && b.number("wakeups") == 0 && b.number("scheduled") == 0
	})
	b.shot("none")
	b.click("[data-try=slow]")
	b.eventually("a tick of a second", func() bool { return strings.Contains(b.text("rings"), "1 s") && b.number("queued") > 500 })
	b.click("[data-try=single]")
	b.eventually("a single ring", func() bool { return strings.Contains(b.text("rings"), "/64") && b.text("rate-out") == "2,000" })
	b.click("[data-try=start]")
	b.eventually("what it starts with", func() bool {
		return script[string](b, controlsShown) == "2,000 80 % 100 ms 2 min 20 3 64"
	})
	require.Empty(t, b.console())

	// What the server refuses is said, by field. The browser notes it on the console too.
	b.keys("#tasks", "0", true)
	b.click("#block")
	b.eventually("the page says what is wrong", func() bool {
		return b.text("message") == "Not changed: tasks is 0: allowed is 1 to 1000."
	})
	require.Equal(t, "true", script[string](b, "return document.getElementById('tasks').getAttribute('aria-invalid')"))
	b.shot("refused")
	b.keys("#tasks", "1", true)
	b.press(keyEnter)
	b.eventually("it is forgotten when all is well", func() bool { return b.text("message") == "" })
	for _, e := range b.console() {
		require.Contains(t, e, "400 (Bad Request)")
	}
}

// TestBrowserReducedMotion asks for less motion.
func TestBrowserReducedMotion(t *testing.T) {
	_, b := visit(t)
	pictures := func() int {
		seen := map[string]bool{}
		for start := time.Now(); time.Since(start) < 2*time.Second; {
			seen[b.picture("wheel")] = true
		}
		return len(seen)
	}
	b.eventually("the wheel moves", func() bool { return pictures() > 5 })
	b.media("prefers-reduced-motion", "reduce")
	b.eventually("the wheel is drawn once a second", func() bool { n := pictures(); return n > 1 && n <= 4 })
}

// TestBrowserServerGone ends the program and starts it again.
func TestBrowserServerGone(t *testing.T) {
	s, b := visit(t)
	s.end()
	b.eventually("the page says so", func() bool { return strings.HasPrefix(b.text("status"), "The server is gone") })
	require.True(t, script[bool](b, "return document.body.classList.contains('lost')"))
	b.shot("gone")
	s.start()
	b.eventually("it is back by itself", func() bool { return b.text("status") == "live" })
	require.False(t, script[bool](b, "return document.body.classList.contains('lost')"))
	was := b.picture("wheel")
	b.eventually("the drawing goes on", func() bool { return b.picture("wheel") != was })
}

// requireKeyboard checks that the Tab key gets to all controls, and that one sees where.
func (b *browser) requireKeyboard() {
	b.t.Helper()
	want := script[[]string](b, "return [...document.querySelectorAll('input, select, button')].map((e) => e.id || e.dataset.try)")
	require.Len(b.t, want, 16)
	got := map[string]bool{}
	for range want {
		b.press(keyTab)
		at := script[[]string](b, "const e = document.activeElement; return [e.id || e.dataset.try, getComputedStyle(e).outlineStyle]")
		require.Equal(b.t, "solid", at[1], "the focus on %s is seen", at[0])
		got[at[0]] = true
	}
	for _, id := range want {
		require.True(b.t, got[id], "Tab gets to %s", id)
	}
}

func requireContrast(b *browser, theme string) {
	b.t.Helper()
	require.Empty(b.t, script[[]string](b, lowContrast), "text of less contrast than 4.5 in the %s theme", theme)
}

// elementKey is how WebDriver names a reference to an element.
const elementKey = "element-6066-11e4-a52e-4f735466cecf"

// The scripts that look at the page.
const (
	distinctColors = `
		const c = document.getElementById(arguments[0]);
		const seen = new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer));
		return seen.size;`

	drawnIn = `
		const c = document.getElementById(arguments[0]);
		const pixels = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
		const hex = getComputedStyle(document.documentElement).getPropertyValue(arguments[1]).trim();
		const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
		const color = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
		return pixels.filter((p) => p === color).length;`

	controlsShown = `
		return [...document.querySelectorAll("output")].map((e) => e.textContent)
			.concat([...document.querySelectorAll("select")].map((e) => e.value)).join(" ");`

	sameID = `
		const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
		return ids.filter((id, i) => ids.indexOf(id) !== i);`

	withoutLabel = `
		return [...document.querySelectorAll("input, select")].filter((e) => !(e.labels.length > 0 && e.labels[0].textContent.trim())).map((e) => e.id);`

	outside = `
		return [...document.querySelectorAll("body *")].filter((e) => {
			const box = e.getBoundingClientRect();
			return box.width > 1 && (box.right > innerWidth + 0.5 || box.left < -0.5);
		}).map((e) => e.tagName + "#" + e.id);`

	lowContrast = `
		const parse = (s) => s.match(/[\d.]+/g).map(Number);
		const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
			.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
		const behind = (e) => {
			for (; e; e = e.parentElement) {
				const c = parse(getComputedStyle(e).backgroundColor);
				if (c.length < 4 || c[3] > 0) return c;
			}
			return [255, 255, 255];
		};
		const low = [];
		for (const e of document.querySelectorAll("body, body *")) {
			const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
			if (!text && !e.matches("input:not([type=range]), select") || e.closest("noscript, option")) continue;
			const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
			const ratio = (a + 0.05) / (b + 0.05);
			if (ratio < 4.5) low.push(e.tagName + "#" + e.id + " " + ratio.toFixed(2) + " " + e.textContent.slice(0, 20));
		}
		return low;`
)
