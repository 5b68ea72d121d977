package crossing

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Tests under load, on real time.

// A watchdog arms one timeout after another, and waits for each to fire. If one does not fire for so long
// that only a lost wake-up or a deadlock can be the reason, it crashes the program.
type watchdog struct {
	worst      time.Duration // the largest lateness, to be read after stop
	over, done chan struct{}
}

func watch(timer *hashedwheel.Timer) *watchdog {
	w := &watchdog{over: make(chan struct{}), done: make(chan struct{})}
	go w.run(timer)
	return w
}

func (w *watchdog) run(timer *hashedwheel.Timer) {
	const delay = 20 * time.Millisecond
	defer close(w.done)
	for {
		select {
		case <-w.over:
			return
		default:
		}
		start := time.Now()
		fired := make(chan time.Time, 1)
		if _, err := timer.AfterFunc(delay, func() { fired <- time.Now() }); err != nil {
			time.Sleep(time.Millisecond) // too many are pending
			continue
		}
		select {
		case <-w.over: // the timer may have been stopped
			return
		case at := <-fired:
			w.worst = max(w.worst, at.Sub(start)-delay)
		case <-time.After(testkit.Patience):
			panic(fmt.Sprintf("no progress for %v: %+v", testkit.Patience, timer.Stats()))
		}
	}
}

func (w *watchdog) stop() {
	close(w.over)
	<-w.done
}

// Eight goroutines arm and cancel as fast as they can, without a limit, and with a limit that is just large
// enough for them and the watchdog. No timeout of theirs is refused, none is lost, and the watchdog's timeouts
// fire meanwhile.
func TestFlood(t *testing.T) {
	longest := testkit.Sized(50, 400, 400) // delay, in milliseconds
	for _, limit := range []int{0, 8_001} {
		timer := newTimer(t, hashedwheel.WithTick(10*time.Millisecond), hashedwheel.WithMaxPending(limit))
		w := watch(timer)
		var users sync.WaitGroup
		var armed, canceled, ran atomic.Int64
		for range 8 {
			users.Go(func() {
				ring := make([]*hashedwheel.Timeout, 1000)
				n, c := 0, 0
				for end := time.Now().Add(testkit.Sized[time.Duration](1, 2, 3) * testkit.StressTime(t)); n%100 != 0 || time.Now().Before(end); n++ {
					old := &ring[n%len(ring)]
					if *old != nil && (*old).Cancel() {
						c++
					}
					var err error
					*old, err = timer.AfterFunc(time.Duration(n%longest)*time.Millisecond, func() { ran.Add(1) })
					if err != nil {
						t.Error(err)
						return
					}
					testkit.Spin()
				}
				armed.Add(int64(n))
				canceled.Add(int64(c))
			})
		}
		users.Wait()
		w.stop()
		require.Eventually(t, func() bool { return timer.Pending() == 0 }, testkit.Patience, time.Millisecond)
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, armed.Load(), canceled.Load()+ran.Load())
		t.Logf("limit %d: %d armed, %d canceled, %d expired; the watchdog's timeouts were late by up to %v",
			limit, armed.Load(), canceled.Load(), ran.Load(), w.worst)
	}
}

// Thousands of timers are each used a little, and then stopped, shut down or dropped at a random moment. No
// goroutine, no timer and no memory is left of them.
func TestLifeCycles(t *testing.T) {
	least, most := testkit.Sized(100, 200, 200), testkit.Sized(100, 5000, 100_000)
	r := testkit.Rand(t)
	goroutines, heap := runtime.NumGoroutine(), testkit.HeapInUse()
	var dropped []weak.Pointer[hashedwheel.Timer]
	var ends [3]int
	for range testkit.NewShare(t).Rounds(least, most) {
		timer, err := hashedwheel.New(hashedwheel.WithTick(time.Duration(1+r.IntN(500))*time.Microsecond), hashedwheel.WithLevels(1+r.IntN(3)), hashedwheel.WithWheelSize(8))
		require.NoError(t, err)
		armed := r.IntN(5)
		for range armed {
			to, err := timer.AfterFunc(time.Duration(r.IntN(300))*time.Microsecond, nop)
			require.NoError(t, err)
			if r.IntN(2) == 0 {
				to.Cancel()
			}
		}
		for range r.IntN(100) {
			runtime.Gosched()
		}
		end := r.IntN(3)
		ends[end]++
		switch end {
		case 0:
			timer.Stop()
		case 1:
			_, err := timer.Shutdown(t.Context())
			require.NoError(t, err)
		default:
			dropped = append(dropped, weak.Make(timer))
		}
	}
	awaitGoroutines(t, goroutines)
	left := func() (n int) {
		for _, p := range dropped {
			if p.Value() != nil {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { runtime.GC(); return left() == 0 }, testkit.Patience, 10*time.Millisecond)
	clear(dropped)
	dropped = nil
	require.Less(t, testkit.HeapInUse(), heap+1<<20)
	t.Logf("%d stopped, %d shut down, %d dropped", ends[0], ends[1], ends[2])
}

// awaitGoroutines waits until the number of goroutines is no larger than before.
func awaitGoroutines(t *testing.T, before int) {
	t.Helper()
	for start := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(start), testkit.Patience, "%d goroutines are left, of %d before", runtime.NumGoroutine(), before)
	}
}

// A promised is a task of TestTenMillion. It needs no allocation of its own.
type promised struct {
	deadline time.Duration // since base
	late     time.Duration // how long after the deadline it started; 0 until then
	base     *time.Time
	ran      *atomic.Int64
}

func (p *promised) Run(*hashedwheel.Timeout) {
	if p.late != 0 {
		panic("run twice")
	}
	p.late = time.Since(*p.base) - p.deadline
	p.ran.Add(1)
}

// Ten million timeouts are pending. Half of them are canceled, and the others are due within a minute. None is lost or
// early. The test runs on real time, because it measures how late they are. It takes four minutes and 2 GB, and runs
// only if HASHEDWHEEL_LARGE is set.
func TestTenMillion(t *testing.T) {
	if os.Getenv("HASHEDWHEEL_LARGE") == "" {
		t.Skip("set HASHEDWHEEL_LARGE=1 to run it")
	}
	const (
		n      = 10_000_000
		tick   = 10 * time.Millisecond
		lead   = 20 * time.Second // time to arm and cancel them
		spread = time.Minute
	)
	for levels := 1; levels <= 3; levels++ {
		t.Run(fmt.Sprint("levels=", levels), func(t *testing.T) {
			timer := newTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithLevels(levels))
			all, handles := make([]promised, n), make([]*hashedwheel.Timeout, n)
			var ran atomic.Int64
			before := testkit.HeapInUse()
			base := time.Now()
			producers := runtime.GOMAXPROCS(0)
			var wg sync.WaitGroup
			for part := range producers {
				wg.Go(func() {
					for i := part; i < n; i += producers {
						deadline := lead + rand.N(spread)
						all[i] = promised{deadline: deadline, base: &base, ran: &ran}
						var err error
						if handles[i], err = timer.NewTimeout(&all[i], deadline-time.Since(base)); err != nil {
							panic(err)
						}
					}
				})
			}
			wg.Wait()
			armed := time.Since(base)
			time.Sleep(2 * tick)
			perTimeout := float64(testkit.HeapInUse()-before) / n
			start := time.Now()
			for part := range producers {
				wg.Go(func() {
					for i := 2 * part; i < n; i += 2 * producers {
						if !handles[i].Cancel() {
							panic("not pending any more: the machine is too slow for the lead")
						}
						handles[i] = nil
					}
				})
			}
			wg.Wait()
			canceled := time.Since(start)
			require.Less(t, time.Since(base), lead)
			require.Equal(t, n/2, timer.Pending())

			machine := lateSleeps(tick, base.Add(lead+spread+time.Second))
			require.EqualValues(t, n/2, ran.Load())
			require.Zero(t, timer.Pending())
			var late []time.Duration
			for i := range all {
				if i%2 == 0 {
					require.Zero(t, all[i].late, "a canceled timeout has run")
				} else {
					late = append(late, all[i].late)
				}
			}
			slices.Sort(late)
			q := func(of float64) time.Duration { return quantile(late, of) }
			t.Logf("armed in %v, half canceled in %v, %.0f B per timeout; late: min %v, p50 %v, p99 %v, p99.9 %v, max %v; a sleep: p99 %v",
				armed.Round(time.Millisecond), canceled.Round(time.Millisecond), perTimeout, q(0), q(0.5), q(0.99), q(0.999), q(1), quantile(machine, 0.99))
			require.Positive(t, late[0])
			require.Less(t, q(0.99), tick+5*time.Millisecond+quantile(machine, 0.99))
		})
	}
}

// lateSleeps sleeps again and again until end. It returns by how much each sleep was too long, sorted. The machine adds
// as much to any timer.
func lateSleeps(length time.Duration, end time.Time) (late []time.Duration) {
	for start := time.Now(); start.Before(end); start = time.Now() {
		time.Sleep(length)
		late = append(late, time.Since(start)-length)
	}
	slices.Sort(late)
	return late
}

// quantile returns the value below which a part of the sorted values lies.
func quantile(sorted []time.Duration, part float64) time.Duration {
	return sorted[int(part*float64(len(sorted)-1))].Round(time.Microsecond)
}
