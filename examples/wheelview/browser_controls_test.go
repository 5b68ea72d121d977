//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBrowserControls changes everything that can be changed, with keys and clicks.
func TestBrowserControls(t *testing.T) {
	_, b := visit(t)

	// 2,000 a second, and three positions up.
	require.Equal(t, "2,000", b.text("rate-out"))
	b.keys("#rate", keyRight+keyRight+keyRight, false)
	require.Equal(t, "20,000", b.text("rate-out"))
	b.eventually("the load is higher", func() bool { return b.number("scheduled") > 6000 })
	require.Equal(t, "20,000", b.text("rate-out"), "the slider stays where it was set")
	require.Equal(t, "20,000", script[string](b, "return document.getElementById('rate').getAttribute('aria-valuetext')"))

	// Moving the longest delay below the shortest moves both.
	b.keys("#max-delay", strings.Repeat(keyLeft, 20), false)
	b.eventually("the delays are short", func() bool {
		return b.text("max-delay-out") == "10 ms" && b.text("min-delay-out") == "10 ms"
	})
	b.keys("#share", strings.Repeat(keyLeft, 10), false)
	require.Equal(t, "70 %", b.text("share-out"))
	b.eventually("more expire", func() bool { return b.number("expired") > 1500 })

	// Tasks that block need runners, and delay no other tasks.
	require.Less(t, b.number("runners"), 40.0)
	b.keys("#tasks", "40", true)
	b.keys("#seconds", "4", true)
	b.click("#block")
	b.eventually("40 tasks block, and the others go on", func() bool {
		return b.number("expired") > 500 && b.number("running") >= 40 && b.number("runners") >= 40
	})
	b.shot("blocked")
	b.eventually("the blocked tasks return", func() bool { return b.number("running") < 40 && b.number("runners") < 40 })

	// Another tick is another timer, under the same load.
	b.click(`#tick option[value="50"]`)
	b.eventually("there is a second timer", func() bool { return strings.Contains(b.text("generation"), "timer 2") })
	b.eventually("its tick is shown", func() bool { return strings.Contains(b.text("rings"), "50 ms") })
	require.Equal(t, "20,000", b.text("rate-out"))
	b.eventually("the load goes on", func() bool { return b.number("scheduled") > 6000 })
	b.eventually("the timer wakes up less often", func() bool { n := b.number("wakeups"); return n > 0 && n < 45 })
	b.click(`#levels option[value="1"]`)
	b.eventually("there is one ring", func() bool {
		return script[int](b, "return document.getElementById('rings').rows.length") == 1
	})
	b.click(`#size option[value="512"]`)
	b.eventually("the ring has 512 buckets", func() bool { return strings.Contains(b.text("rings"), "/512") })

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
	b.eventually("the initial settings are back", func() bool {
		return script[string](b, controlsShown) == "2,000 80 % 100 ms 2 min 20 3 64"
	})
	require.Empty(t, b.console())

	// If the server refuses a change, the page says why and marks the field. The browser also writes to the console.
	b.keys("#tasks", "0", true)
	b.click("#block")
	b.eventually("the page says what is wrong", func() bool {
		return b.text("message") == "Not changed: tasks is 0: allowed is 1 to 1000."
	})
	require.Equal(t, "true", script[string](b, "return document.getElementById('tasks').getAttribute('aria-invalid')"))
	b.shot("refused")
	b.keys("#tasks", "1", true)
	b.press(keyEnter)
	b.eventually("the message goes after a valid change", func() bool { return b.text("message") == "" })
	for _, e := range b.console() {
		require.Contains(t, e, "400 (Bad Request)")
	}
}
