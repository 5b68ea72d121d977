package hashedwheel

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every two and every three of what can happen to a timeout, at the same time, on real time and in
// many rounds. What came out must be what some order of them, one after another, would give: then
// exactly one of those that end it has won. TestExplore searches all orders of their steps.
func TestOutcomes(t *testing.T) {
	kinds := []string{"cancel", "reset", "expiry", "stop", "push"}
	for i, a := range kinds {
		for j, b := range kinds[:i] {
			t.Run(a+"+"+b, func(t *testing.T) { testOutcomes(t, a, b) })
			for _, c := range kinds[:j] {
				t.Run(a+"+"+b+"+"+c, func(t *testing.T) { testOutcomes(t, a, b, c) })
			}
		}
	}
}

// An outcome is what is known after a round.
type outcome struct {
	canceled bool   // Cancel returned true
	reset    string // what Reset returned
	pushed   string // what NewTimeout returned, of another timeout
	ran      int
	returned bool // Stop returned it
	status   uint64
	others   int // pending or returned, of those that were pushed
}

// then does one thing after all that has led to an outcome.
func (o outcome) then(kind string, stopped bool) outcome {
	switch waits := o.status == pending; {
	case kind == "cancel" && waits:
		o.canceled, o.status = true, canceled
	case kind == "reset" && stopped:
		o.reset = ErrStopped.Error()
	case kind == "reset":
		o.reset = fmt.Sprint(waits)
		o.status = pending
	case kind == "expiry" && waits && o.reset == "": // a Reset has put it off
		o.ran++
		o.status = expired
	case kind == "stop" && waits:
		o.returned, o.status = true, canceled
	case kind == "push" && stopped:
		o.pushed = ErrStopped.Error()
	case kind == "push":
		o.pushed = "ok"
		o.others++
	}
	return o
}

// orders adds what comes of all orders of kinds, after an outcome.
func orders(all map[outcome]int, o outcome, kinds []string, stopped bool) {
	if len(kinds) == 0 {
		all[o] = 0
	}
	for i, kind := range kinds {
		next := o
		if kind != "expiry" || !stopped { // after Stop nothing expires
			next = o.then(kind, stopped)
		}
		orders(all, next, slices.Delete(slices.Clone(kinds), i, i+1), stopped || kind == "stop")
	}
}

func testOutcomes(t *testing.T, kinds ...string) {
	seen := make(map[outcome]int) // how often each was seen; those that are allowed are there
	orders(seen, outcome{status: pending}, kinds, false)
	r := newRand(t)
	rounds := 0
	for end := time.Now().Add(stressTime(t) / 10); time.Now().Before(end) || rounds < 20; rounds++ {
		o := runOutcome(t, kinds, r.IntN(100))
		_, allowed := seen[o]
		require.True(t, allowed, "%+v; allowed are %+v", o, seen)
		seen[o]++
	}
	var lines []string
	for o, n := range seen {
		lines = append(lines, fmt.Sprintf("%6d %+v", n, o))
	}
	slices.Sort(lines)
	t.Logf("%d rounds\n%s", rounds, strings.Join(lines, "\n"))
}

// runOutcome is one round. The timeout comes due while the others are at it, if it is to expire.
func runOutcome(t *testing.T, kinds []string, spin int) (o outcome) {
	const tick = 20 * time.Microsecond
	timer := newTimer(t, WithTick(tick))
	delay := time.Hour
	if slices.Contains(kinds, "expiry") {
		delay = time.Duration(spin) * time.Microsecond / 2
	}
	var ran, pushedRan int
	var mu sync.Mutex // of these two
	to, err := timer.AfterFunc(delay, func() {
		mu.Lock()
		defer mu.Unlock()
		ran++
	})
	require.NoError(t, err)
	var other *Timeout
	var left []*Timeout
	start := make(chan struct{})
	var users sync.WaitGroup
	for i, kind := range kinds {
		users.Go(func() {
			<-start
			for range spin * i {
				runtime.Gosched()
			}
			switch kind {
			case "cancel":
				o.canceled = to.Cancel()
			case "reset":
				active, err := to.Reset(time.Hour)
				if o.reset = fmt.Sprint(active); err != nil {
					o.reset = err.Error()
				}
			case "stop":
				left = timer.Stop()
			case "push":
				var err error
				other, err = timer.AfterFunc(time.Hour, func() {
					mu.Lock()
					defer mu.Unlock()
					pushedRan++
				})
				if o.pushed = "ok"; err != nil {
					o.pushed = err.Error()
				}
			}
		})
	}
	close(start)
	users.Wait()
	// If it is still to expire, it does so soon.
	for status(to.word.Load()) == pending && time.Until(to.Deadline()) < time.Minute && !timer.IsStopped() {
		runtime.Gosched()
	}
	for timer.Stats().Running > 0 {
		runtime.Gosched()
	}
	mu.Lock()
	defer mu.Unlock()
	o.ran = ran
	o.status = status(to.word.Load())
	require.Zero(t, pushedRan)
	o.returned = slices.Contains(left, to)
	if other != nil && (slices.Contains(left, other) || status(other.word.Load()) == pending) {
		o.others++
	}
	st := timer.Stats()
	require.Equal(t, st.Accepted, st.Expired+st.Canceled+st.Returned+uint64(st.Pending), "%+v", st)
	require.EqualValues(t, ran, st.Expired)
	to.Cancel()
	if other != nil {
		other.Cancel()
	}
	require.Zero(t, timer.Pending())
	return o
}
