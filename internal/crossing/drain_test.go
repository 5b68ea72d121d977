package crossing

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// Goroutines have given the worker a backlog, and go on to arm, cancel and move timeouts. Stop comes in the middle of the drain.
// Each arming ends once: its task runs, Cancel is true, or Stop returns the timeout.
func TestStopInADrain(t *testing.T) {
	testkit.NeedsThreads(t)
	r := testkit.Rand(t)
	length := 2 * testkit.StressTime(t)
	most := max(min(int(length/time.Microsecond), 2_000_000), 20_000)
	rounds, drains, armed, returned := 0, 0, int64(0), 0
	for end := time.Now().Add(length); testkit.GoesOn(end, drains > 0); rounds++ {
		tick := []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}[r.IntN(3)]
		timer, err := hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithLevels(1+r.IntN(2)))
		require.NoError(t, err)
		kind, n := r.IntN(3), most/4+r.IntN(most)
		stoppers := make([]*stopper, 1+r.IntN(4))
		var prepared, users sync.WaitGroup
		var begin atomic.Bool
		prepared.Add(len(stoppers))
		for i := range stoppers {
			s := &stopper{timer: timer, r: rand.New(rand.NewPCG(r.Uint64(), 0))}
			stoppers[i] = s
			users.Go(func() {
				s.drained(kind, n/len(stoppers), &prepared, &begin)
				s.runGently()
			})
		}
		prepared.Wait()
		if kind != 0 {
			waitFor(func() bool { return queued(timer) < n/10 }, placing/2)
		}
		begin.Store(true)
		highest, soon := 0, time.Now().Add(min(length, 3*time.Second))
		for q := queued(timer); q >= highest-highest/50 && time.Now().Before(soon); q = queued(timer) {
			highest = max(q, highest)
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Duration(r.Int64N(int64(n) * 100))) // the drain takes about 100 ns for each
		if q := queued(timer); q > n/50 {
			drains++
		}
		left := timer.Stop()
		users.Wait()
		_, err = timer.Shutdown(context.Background()) // for the tasks that have been started
		require.NoError(t, err)
		returned += len(left)
		for _, to := range left {
			c := to.Task().(*counted)
			c.returned++
			c.canceled -= claimed(t, to)
		}
		wrong := 0
		for _, s := range stoppers {
			for _, c := range s.all {
				if c.armed != c.runs.Load()+c.canceled+c.returned {
					if wrong++; wrong == 1 {
						t.Errorf("%v: armed %d times, ran %d, canceled %d, returned %d", c.timeout, c.armed, c.runs.Load(), c.canceled, c.returned)
					}
				}
				armed += c.armed
			}
		}
		require.Zero(t, wrong, "with a wrong end, of %d; kind %d, tick %v", n, kind, tick)
		st := timer.Stats()
		require.Zero(t, st.Pending)
		testkit.CheckCounts(t, st)
	}
	t.Logf("%d rounds of up to %d, of which %d in a drain; %d armed, %d returned", rounds, most*5/4, drains, armed, returned)
}

// drained arms n timeouts. With kind 1 or 2 it lets the worker place them, and then moves most of them to an earlier tick, or
// cancels them.
func (s *stopper) drained(kind, n int, prepared *sync.WaitGroup, begin *atomic.Bool) {
	for i := 0; i < n && s.arm(); i++ {
		if kind != 0 {
			s.all[len(s.all)-1].timeout.Move(placing)
		}
	}
	prepared.Done()
	for !begin.Load() {
		runtime.Gosched()
	}
	for _, c := range s.all {
		switch {
		case kind == 0 || s.r.IntN(10) == 0:
		case kind == 2:
			if c.timeout.Cancel() {
				c.canceled++
			}
		default:
			c.timeout.Move(placing / 2) // many expire if Stop comes late
		}
	}
}

// runGently arms and uses timeouts until the timer is stopped, and sleeps in between, so that the worker drains the queue.
func (s *stopper) runGently() {
	for {
		for n := s.r.IntN(20); n > 0; n-- {
			if !s.arm() {
				return
			}
		}
		for n := s.r.IntN(40); n > 0 && len(s.all) > 0; n-- {
			if !s.use(s.all[s.r.IntN(len(s.all))]) {
				return
			}
		}
		time.Sleep(time.Duration(s.r.Int64N(int64(200 * time.Microsecond))))
	}
}

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
