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

// A site is the running program. Its port stays the same when it is started again.
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

	// The numbers and the drawing change.
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
	for color, least := range map[string]int{"--hand": 150, "--empty": 1000, "--low": 100} { // hands, buckets
		b.eventually(fmt.Sprintf("%d pixels of %s", least, color), func() bool { return script[int](b, drawnIn, "wheel", color) >= least })
	}
	for _, id := range []string{"wheel", "lateness"} {
		was := b.picture(id)
		b.eventually("the drawing "+id+" changes", func() bool { return b.picture(id) != was })
	}
	require.Equal(t, 3.0, script[float64](b, "return document.getElementById('rings').rows.length"))

	require.Empty(t, script[[]string](b, withoutLabel), "each control has a label")
	require.Equal(t, 1.0, script[float64](b, "return document.querySelectorAll('[role=status]').length"))
	b.requireKeyboard()

	time.Sleep(3 * time.Second) // so that the lines in the pictures show something
	b.shot("light")
	light := script[string](b, "return getComputedStyle(document.body).backgroundColor")
	lightHand := script[string](b, "return getComputedStyle(document.documentElement).getPropertyValue('--hand')")
	requireContrast(b, "light")
	b.look(1280, 900, "dark")
	b.eventually("the dark page has another background", func() bool {
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
	b.eventually("the page connects again by itself", func() bool { return b.text("status") == "live" })
	require.False(t, script[bool](b, "return document.body.classList.contains('lost')"))
	was := b.picture("wheel")
	b.eventually("the drawing goes on", func() bool { return b.picture("wheel") != was })
}

// requireKeyboard checks that the Tab key gets to all controls, and that the focus is visible.
func (b *browser) requireKeyboard() {
	b.t.Helper()
	want := script[[]string](b, "return [...document.querySelectorAll('input, select, button')].map((e) => e.id || e.dataset.try)")
	require.Len(b.t, want, 16)
	got := map[string]bool{}
	for range want {
		b.press(keyTab)
		at := script[[]string](b, "const e = document.activeElement; return [e.id || e.dataset.try, getComputedStyle(e).outlineStyle]")
		require.Equal(b.t, "solid", at[1], "the focus on %s is visible", at[0])
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
