//go:build unix

package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// try presses a button beside the text, and waits until its settings are in force.
func (b *browser) try(name, controls string) {
	b.t.Helper()
	script[any](b, "document.querySelector(arguments[0]).click()", "[data-try="+name+"]")
	b.eventually(name+" is in force", func() bool { return script[string](b, controlsShown) == controls })
	rings := controls[len(controls)-4:][:1] // such as 3 of "20 3 64"
	if strings.HasSuffix(controls, "512") || strings.HasSuffix(controls, "256") {
		rings = "1"
	}
	b.eventually("the table shows it", func() bool {
		return fmt.Sprint(script[int](b, "return document.getElementById('rings').rows.length")) == rings
	})
}

// presets are the buttons and what the controls show when each is in force.
var presets = [][2]string{
	{"start", "2,000 80 % 100 ms 2 min 20 3 64"},
	{"single", "2,000 80 % 100 ms 2 min 20 1 64"},
	{"busy", "100,000 99 % 1 s 5 s 10 1 512"},
	{"sparse", "3 0 % 500 ms 5 s 20 1 256"},
	{"none", "0 0 % 500 ms 5 s 20 1 256"},
	{"slow", "2,000 80 % 5 s 1 min 1000 1 64"},
}

// TestBrowserReadout points at buckets.
func TestBrowserReadout(t *testing.T) {
	_, b := visit(t)
	for _, css := range []string{"#stage", "#controls", ".numbers"} {
		require.LessOrEqual(t, script[float64](b, "return document.querySelector(arguments[0]).getBoundingClientRect().bottom", css), 900.0,
			"%s is visible without scrolling", css)
	}
	hint := b.shown("#readout")
	require.Contains(t, hint, "Point at a bucket")
	require.NotContains(t, hint, "Tap")
	require.Contains(t, b.shown("#hub"), "pending")
	require.Zero(t, script[float64](b, outlineAt)) // no bucket has an outline

	half := script[float64](b, "return document.getElementById('wheel').clientWidth / 2")
	for _, tt := range []struct {
		ring, slot int
		radius     float64 // as a part of half the width
		turn       float64 // clockwise from the top
	}{
		{3, 0, 0.87, 0.5 / 64}, {3, 16, 0.87, 16.5 / 64}, {2, 32, 0.69, 32.5 / 64}, {1, 48, 0.5, 48.5 / 64}, {1, 63, 0.5, 63.5 / 64},
	} {
		sin, cos := math.Sincos(2 * math.Pi * tt.turn)
		x, y := math.Round(half*tt.radius*sin), math.Round(-half*tt.radius*cos)
		b.pointAt("mouse", int(x), int(y))
		where := fmt.Sprintf("Ring %d, bucket %d: ", tt.ring, tt.slot)
		b.eventually("the sentence begins with "+where, func() bool { return strings.HasPrefix(b.shown("#readout"), where) })
		require.Regexp(t, fmt.Sprintf(`^ring %d [\d,]+ in bucket %d (hand in \d.*|now)$`, tt.ring, tt.slot), b.shown("#hub"))
		require.Equal(t, 1.0, script[float64](b, outlineAt, x, y), "the bucket has an outline")
		require.Equal(t, 0.0, script[float64](b, outlineAt, -x, -y), "the opposite bucket has none")
	}
	b.shot("pointed")
	for ring, says := range map[float64]string{0.5: "expires when the hand", 0.69: "moves one ring inward"} {
		b.pointAt("mouse", int(-half*ring), 0)
		b.eventually("the sentence says "+says, func() bool { return strings.Contains(b.shown("#readout"), says) })
	}

	b.pointAt("mouse", 0, 0)
	b.eventually("the hub shows all timeouts again", func() bool { return strings.Contains(b.shown("#hub"), "pending") })
	require.Equal(t, hint, b.shown("#readout"))
	require.Zero(t, script[float64](b, outlineAt))
	require.Empty(t, b.console())
}

// TestBrowserTouch uses a finger instead of a mouse.
func TestBrowserTouch(t *testing.T) {
	_, b := visit(t)
	b.touch(390, 844, "light")
	b.eventually("the hint is about tapping", func() bool { return strings.HasPrefix(b.shown("#readout"), "Tap a bucket") })
	require.NotContains(t, b.shown("main"), "Point at")
	b.pointAt("touch", 140, 6)
	b.eventually("a tap shows the bucket", func() bool { return strings.HasPrefix(b.shown("#readout"), "Ring 3, bucket 16: ") })
	was := b.number("scheduled")
	b.eventually("the page goes on", func() bool { return b.number("scheduled") != was })
	require.Contains(t, b.shown("#hub"), "in bucket 16", "the readout stays when the finger is lifted")
	require.Equal(t, 1.0, script[float64](b, outlineAt, 140, 6))
	require.True(t, script[bool](b, hubFits), "the readout fits into the hub")
	b.shot("touched")
	b.pointAt("touch", 0, 0)
	b.eventually("a tap on the hub ends it", func() bool { return strings.Contains(b.shown("#hub"), "pending") })
	require.Empty(t, b.console())
}

// TestBrowserLabels reads the texts on the rings and beside the scale.
func TestBrowserLabels(t *testing.T) {
	_, b := visit(t)
	labels := func() []string {
		return script[[]string](b, "return [...document.querySelectorAll('#labels text')].map((e) => e.textContent)")
	}
	require.Equal(t, []string{
		"one bucket 20 ms, one turn 1.28 s", "one bucket 640 ms, one turn 41 s", "one bucket 20.5 s, one turn 21.8 min",
	}, labels())
	for _, width := range []int{1280, 390} {
		b.look(width, 900, "light")
		b.eventually("the labels lie outside their rings", func() bool { return script[bool](b, labelsOutside, 64) })
		require.Empty(t, script[[]string](b, lowContrast))
	}
	b.click(`#tick option[value="50"]`)
	b.eventually("the labels follow the tick", func() bool { return labels()[0] == "one bucket 50 ms, one turn 3.2 s" })
	b.try("single", presets[1][1])
	b.eventually("a single label", func() bool { l := labels(); return len(l) == 1 && l[0] == "one bucket 20 ms, one turn 1.28 s" })
	require.True(t, script[bool](b, labelsOutside, 64))

	require.Contains(t, b.shown(".legend"), "logarithmic scale")
	require.Equal(t, []int{0, 5, 10, 15}, script[[]int](b, `
		return import("/wheel.js").then(({ Wheel }) => [1, 10, 100, 1000].map((n) => Wheel.prototype.shade.call({ top: 1000 }, n)));`),
		"ten times as many timeouts are always the same number of shades further")
	for _, kind := range []string{"is placed", "expires", "hand", "present"} {
		require.Contains(t, b.shown(".key"), kind)
	}
}

// TestBrowserLatenessLines finds the lines at one tick and at two.
func TestBrowserLatenessLines(t *testing.T) {
	_, b := visit(t)
	for _, width := range []int{1280, 390} {
		b.look(width, 900, "light")
		for name, micros := range map[string]float64{"slow": 1e6, "start": 20e3} {
			script[any](b, "document.querySelector(arguments[0]).click()", "[data-try="+name+"]")
			// A bar is an octave, so the two lines are one bar apart. The first line is so many bars from the left.
			var columns []float64
			b.eventually(fmt.Sprintf("%s at width %d has two lines in the right places", name, width), func() bool {
				columns = script[[]float64](b, linesDrawn)
				return len(columns) == 2 && math.Abs((columns[0]/(columns[1]-columns[0])-1)-math.Log2(micros/1.024)) < 1.2
			})
			require.Less(t, columns[1], script[float64](b, "return document.getElementById('lateness').clientWidth - 60"), "the name of the line fits")
		}
	}
	require.Contains(t, b.shown(".late"), "one tick and two ticks")
}

// TestBrowserFlights checks the dots of timeouts that land and expire.
func TestBrowserFlights(t *testing.T) {
	_, b := visit(t)
	// The wheel has 16 buckets and two levels. The hand goes from slot 14 to slot 1, and passes slot 15, which
	// holds 4 timeouts, and slot 0.
	type move struct{ Level, Slot int }
	type moves struct {
		Landed, Left []move
		Expired      int
	}
	diff := func(before, after string) (m moves) {
		return script[moves](b, "return import('/flights.js').then(({ moves }) => moves(JSON.parse(arguments[0]), JSON.parse(arguments[1])))", before, after)
	}
	at := func(ticks, expired int, levels string) string {
		return fmt.Sprintf(`{"wheel": {"size": 16}, "ticks": %d, "counts": {"expired": %d}, "levels": [%s]}`, ticks, expired, levels)
	}
	low := `{"hand": 14, "buckets": [0,0,0,7,0,0,0,0,0,0,0,0,0,0,0,4]}, {"hand": 1, "buckets": [0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0]}`
	high := `{"hand": 1, "buckets": [0,0,0,8,2,0,0,0,0,0,0,0,0,0,0,0]}, {"hand": 2, "buckets": [0,0,0,0,0,0,0,0,0,3,0,0,0,0,0,0]}`
	require.Equal(t, moves{[]move{{0, 3}, {0, 4}, {1, 9}}, []move{{0, 15}}, 4}, diff(at(14, 10, low), at(17, 14, high)))
	require.Equal(t, moves{[]move{}, []move{{0, 15}, {0, 3}}, 11}, diff(at(14, 10, low), at(40, 21, "")), "the hand went more than a turn, and then the wheel was empty")
	require.Equal(t, moves{[]move{}, []move{{0, 14}}, 1}, diff(at(14, 0, low), at(14, 1, low)), "the timeout was in no bucket of either snapshot")
	require.Equal(t, moves{[]move{}, []move{}, 0}, diff(at(14, 0, low), at(14, 0, low)))

	dots := func(color string) int { return script[int](b, drawnIn, "flights", color) }
	for _, color := range []string{"--scheduled", "--expired"} {
		b.eventually("dots of "+color, func() bool { return dots(color) > 20 })
	}
	none := func() bool { return dots("--scheduled") == 0 && dots("--expired") == 0 }
	b.media("prefers-reduced-motion", "reduce")
	b.eventually("no dots fly when less motion is asked for", none)
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		require.True(t, none())
	}
	b.media("prefers-reduced-motion", "no-preference")
	b.eventually("the dots fly again", func() bool { return !none() })
	b.try("sparse", presets[3][1])
	b.try("none", presets[4][1])
	b.eventually("nothing is placed and nothing expires: none fly", func() bool { return b.number("pending") == 0 && none() })
}

// TestBrowserNothingJumps checks that everything stays at its place under each preset.
func TestBrowserNothingJumps(t *testing.T) {
	_, b := visit(t)
	for _, width := range []int{1280, 900, 390} {
		b.look(width, 900, "light")
		b.try(presets[0][0], presets[0][1])
		wheel, was := script[[]float64](b, boxOf, "wheel"), script[map[string]string](b, boxes)
		require.Greater(t, wheel[2], 250.0)
		require.Greater(t, len(was), 80)
		stays := func(when string) {
			t.Helper()
			require.Equal(t, wheel, script[[]float64](b, boxOf, "wheel"), "the wheel at width %d, %s", width, when)
			now := script[map[string]string](b, boxes)
			var moved []string
			for what, box := range was {
				if now[what] != box {
					moved = append(moved, fmt.Sprintf("%s: from %s to %s", what, box, now[what]))
				}
			}
			require.Empty(t, moved, "at width %d, %s", width, when)
			require.Len(t, now, len(was))
		}
		for _, preset := range presets[1:] {
			b.try(preset[0], preset[1])
			stays(preset[0])
		}
		b.pointAt("mouse", 3, -int(wheel[2]*0.42))
		b.eventually("a readout", func() bool { return strings.HasPrefix(b.shown("#readout"), "Ring 1, bucket 0: ") })
		stays("with a readout")
		b.pointAt("mouse", 0, 0)
		b.keys("#tasks", "0", true)
		b.click("#block")
		b.eventually("a message", func() bool { return b.text("message") != "" })
		stays("with a message")
		b.keys("#tasks", "1", true)
		b.press(keyEnter)
		b.eventually("no message", func() bool { return b.text("message") == "" })
	}
}

// TestBrowserTryScrolls presses a button that is below the visible part of the page.
func TestBrowserTryScrolls(t *testing.T) {
	_, b := visit(t)
	inView := func() bool {
		return script[bool](b, "const r = document.getElementById('wheel').getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight")
	}
	for _, motion := range []string{"no-preference", "reduce"} {
		for _, size := range [][2]int{{1280, 900}, {390, 844}} {
			b.look(size[0], size[1], "light")
			b.media("prefers-reduced-motion", motion)
			script[any](b, "document.querySelector('[data-try=single]').scrollIntoView({block: 'end', behavior: 'instant'})")
			require.False(t, inView())
			b.click("[data-try=single]")
			b.eventually("the wheel is in view", inView)
		}
	}
}
