package crossing

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// The tests in this file give the worker of a timer hundreds of thousands of timeouts at once. They run on real time, because
// in a bubble time stands still while the worker drains them.

// A backlog is what the worker has to drain: n timeouts of which the worker has placed each before, or none, and what is done with
// all of them at once.
type backlog struct {
	name   string
	placed bool
	begin  func(to *hashedwheel.Timeout) error
}

var backlogs = []backlog{
	{"new ones", false, func(to *hashedwheel.Timeout) error { return resetTo(to, time.Hour) }},
	{"kept ones, reset to earlier", true, func(to *hashedwheel.Timeout) error { return resetTo(to, time.Minute) }},
	{"placed ones, canceled", true, func(to *hashedwheel.Timeout) error { to.Cancel(); return nil }},
}

func resetTo(to *hashedwheel.Timeout, delay time.Duration) error {
	_, err := to.Reset(delay)
	return err
}

// prepare returns a function that gives the backlog to the worker, on four goroutines, so that the worker gets little processor
// time meanwhile.
func (b backlog) prepare(t *testing.T, timer *hashedwheel.Timer, n int) (begin func()) {
	all := make([]hashedwheel.Timeout, n)
	each := func(f func(to *hashedwheel.Timeout) error) {
		var users sync.WaitGroup
		for part := range slices.Chunk(all, (n+3)/4) {
			users.Go(func() {
				for i := range part {
					if err := f(&part[i]); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		users.Wait()
	}
	each(func(to *hashedwheel.Timeout) error {
		timer.Bind(to, hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}))
		return nil
	})
	if b.placed {
		// The worker places at once what is due soon. When it comes upon one that was put off, it places it for the new deadline.
		soon := placing + time.Duration(n)*time.Microsecond
		end := time.Now().Add(soon + 10*timer.Tick())
		each(func(to *hashedwheel.Timeout) error { return resetTo(to, soon) })
		waitFor(func() bool { return queued(timer) == 0 }, soon/4)
		each(func(to *hashedwheel.Timeout) error { return resetTo(to, time.Hour) })
		time.Sleep(time.Until(end))
		waitFor(func() bool { return queued(timer) == 0 }, 3*time.Second)
	}
	runtime.GC() // otherwise a collection would begin in many drains
	return func() { each(b.begin) }
}

// placing is a delay that is so short that the worker places a timeout soon, and long enough to put it off before it is due.
const placing = 100 * time.Millisecond

// waitFor waits until something holds, but not for longer than most.
func waitFor(holds func() bool, most time.Duration) {
	for end := time.Now().Add(most); !holds() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

func queued(timer *hashedwheel.Timer) int { return int(timer.Stats().Queued) }

// lateness has how late timeouts of one delay were, and beside them those of package time.
type lateness struct {
	mu             sync.Mutex
	library, plain []time.Duration
}

func (l *lateness) note(all *[]time.Duration, from time.Time, delay time.Duration) {
	late := time.Since(from) - delay
	l.mu.Lock()
	defer l.mu.Unlock()
	*all = append(*all, late)
}

// probe arms timeouts of one delay until over is true, and waits until all have run.
func (l *lateness) probe(t *testing.T, timer *hashedwheel.Timer, delay time.Duration, over *atomic.Bool) {
	armed := 0
	for ; !over.Load(); armed++ {
		from := time.Now()
		time.AfterFunc(delay, func() { l.note(&l.plain, from, delay) })
		if _, err := timer.AfterFunc(delay, func() { l.note(&l.library, from, delay) }); err != nil {
			t.Error(err)
			return
		}
		time.Sleep(time.Millisecond)
	}
	waitFor(func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.library) == armed && len(l.plain) == armed
	}, testkit.Patience)
	slices.Sort(l.library)
	slices.Sort(l.plain)
}

// Timeouts that are due soon are late by at most two ticks while the worker drains a backlog, apart from what the machine adds:
// as much as to timeouts of package time, and a little for two more goroutines that have to run. Other programs stop
// the worker alone now and then. So the upper quartile counts, for each delay, and a drain in which it was too late is repeated.
func TestNearInADrain(t *testing.T) {
	testkit.NeedsThreads(t)
	if testing.Short() && testkit.StressTime(t) < time.Second && !testkit.RaceDetector() {
		t.Skip("takes seconds: runs without -short, and with the race detector, because these drains find races")
	}
	const tick = time.Millisecond
	delays := []time.Duration{0, tick / 2, 3 * tick}
	for _, i := range testkit.Rand(t).Perm(len(backlogs))[:testkit.Sized(1, 3, 3)] {
		b := backlogs[i]
		t.Run(b.name, func(t *testing.T) {
			most := testkit.Sized(300_000, 800_000, 2_000_000)
			if testkit.StressTime(t) >= time.Second {
				most = 2_000_000
			}
			if testkit.RaceDetector() {
				most /= 8
			}
			n := most
			if b.placed {
				n /= 4 // to place them takes time
			}
			var failure string
			for range 20 {
				timer := newTimer(t, hashedwheel.WithTick(tick))
				begin := b.prepare(t, timer, n)
				all := make([]lateness, len(delays))
				var over atomic.Bool
				var probes sync.WaitGroup
				begin() // this keeps the processors busy, so the probes come after it
				from := time.Now()
				for i := range all {
					probes.Go(func() { all[i].probe(t, timer, delays[i], &over) })
				}
				for end := from.Add(3 * time.Second); queued(timer) > 1000 && time.Now().Before(end); {
					time.Sleep(5 * time.Millisecond) // to count them takes a processor for a millisecond
				}
				took := time.Since(from)
				over.Store(true)
				probes.Wait()
				timer.Stop()
				long, late := true, ""   // the drain was long enough to make something late
				var beside time.Duration // of one with a delay: package time runs the others without a wait
				for i := range all {
					if plain := all[i].plain; len(plain) > 0 {
						beside = max(beside, plain[len(plain)*3/4])
					}
				}
				bound := 2*tick + 2*beside + tick
				for i := range all {
					library, plain := all[i].library, all[i].plain
					if len(library) == 0 {
						long = false
						continue
					}
					high := library[len(library)*3/4]
					long = long && bound < took/4 && len(library) >= 8
					text := fmt.Sprintf("delay %v: %d late by %v (upper quartile) and %v (worst); of package time by %v and %v\n", delays[i],
						len(library), high, library[len(library)-1], plain[len(plain)*3/4], plain[len(plain)-1])
					t.Logf("drained %d in %v; %s", n, took, text)
					if high > bound && !testkit.RaceDetector() { // with it, the worker is ten times as slow, and these drains find races
						late += text
					}
				}
				switch {
				case late != "":
					failure = late
				case long || n == most:
					return
				}
				n = most
			}
			require.Empty(t, failure, "near timeouts are late in each drain")
		})
	}
}
