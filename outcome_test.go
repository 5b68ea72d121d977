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

// Two or three operations on a timeout happen at the same time, in every combination, on real time and in many
// rounds. The outcome must be one that some order of the operations, one after another, would give. So each arming
// has at most one end. One of the operations, push, arms another timeout. TestExplore searches the orders of their
// steps.
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
	pushed   string // what NewTimeout returned for another timeout
	ran      int
	returned bool // Stop returned it
	status   uint64
	others   int // how many other timeouts are pending or returned
}

// then returns the outcome after one more operation.
func (o outcome) then(kind string, stopped bool) outcome {
	switch waits := o.status == pending; {
	case kind == "cancel" && waits:
		o.canceled, o.status = true, canceled
	case kind == "reset" && stopped:
		o.reset = ErrStopped.Error()
	case kind == "reset":
		o.reset = fmt.Sprint(waits)
		o.status = pending
	case kind == "expiry" && waits && o.reset == "": // unless a Reset has moved the deadline
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

// orders adds the outcomes of all orders of the kinds, starting from an outcome.
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
	seen := make(map[outcome]int) // how often each outcome was seen; the keys are the allowed outcomes
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

// runOutcome runs one round. If expiry is among the kinds, the timeout is due during the other operations.
func runOutcome(t *testing.T, kinds []string, spin int) (o outcome) {
	const tick = 20 * time.Microsecond
	timer := newTimer(t, WithTick(tick))
	delay := time.Hour
	if slices.Contains(kinds, "expiry") {
		delay = time.Duration(spin) * time.Microsecond / 2
	}
	var ran, pushedRan int
	var mu sync.Mutex // guards ran and pushedRan
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
	// If the timeout has yet to expire, it does so soon.
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
