package hashedwheel

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Stats, Pending and String do not take the lock of the worker, which it may hold for long.
func TestStatsDoesNotWaitForTheWorker(t *testing.T) {
	timer := newTimer(t)
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	timer.worker.mu.Lock()
	defer timer.worker.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = timer.Stats(), timer.Pending(), timer.String()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("Stats waits")
	}
}

// Stats reports the levels also while the worker is busy. While the worker goes through the queue, Stats reports
// the present state. While the worker hands over the timeouts of one boundary, it reports the state before that.
// When the worker is at rest, the report is exact.
func TestLevelsOfABusyWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, far = time.Second, 200_000
		due := 2 * 256
		timer := newTimer(t, WithTick(tick), WithWheelSize(4096))
		w := &timer.worker
		w.presence.Store(awake) // so that nobody starts a worker
		arm := func(n int, delay time.Duration) {
			for range n {
				_, err := timer.AfterFunc(delay, nop)
				require.NoError(t, err)
			}
		}
		// during calls f with the levels again and again while the worker does a round.
		during := func(f func(levels []LevelStats)) {
			var over atomic.Bool
			var round sync.WaitGroup
			round.Go(func() { w.round(); over.Store(true) })
			for !over.Load() {
				f(timer.Stats().Levels)
				runtime.Gosched()
			}
			round.Wait()
			synctest.Wait()
		}

		arm(far/2, 5000*tick)
		arm(due, tick) // in the middle, so that the worker places others before these
		arm(far/2, 5000*tick)
		time.Sleep(tick)
		partly := 0
		during(func(levels []LevelStats) {
			if levels != nil && levels[0].Timeouts > 0 && levels[0].Timeouts < far {
				partly++
			}
		})
		if runtime.GOMAXPROCS(0) > 1 {
			require.NotZero(t, partly)
		}
		require.Equal(t, far, timer.Pending())
		require.Equal(t, LevelStats{Hand: 1, Occupied: 1, Timeouts: far}, timer.Stats().Levels[0])
		require.Equal(t, far, timer.Buckets(0)[5000%4096])

		time.Sleep(4999 * tick)
		before, after := LevelStats{Hand: 1, Occupied: 1, Timeouts: far}, LevelStats{Hand: 5000 % 4096}
		during(func(levels []LevelStats) {
			// A reader may see some fields from before and some from after.
			require.Contains(t, []int{before.Timeouts, after.Timeouts}, levels[0].Timeouts)
		})
		require.EqualValues(t, far+due, timer.Stats().Expired)
		require.Equal(t, after, timer.Stats().Levels[0])
		w.presence.Store(absent)
	})
}

// The test measures how long Stats takes while ten million timeouts are armed, are placed in buckets, cascade, and
// come due within one second. It logs quantiles and the longest call, which includes whatever else the machine did.
// It runs only if HASHEDWHEEL_LARGE is set, and takes 2 GB.
func TestStatsOfTenMillion(t *testing.T) {
	if os.Getenv("HASHEDWHEEL_LARGE") == "" {
		t.Skip("set HASHEDWHEEL_LARGE=1 to run it")
	}
	const n, lead = 10_000_000, 60 * time.Second
	for _, c := range []struct {
		name string
		opts []Option
	}{
		{"levels=1", nil},
		{"levels=3", []Option{WithLevels(3), WithWheelSize(64)}},
		{"concurrency=1", []Option{WithMaxConcurrency(1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			timer := newTimer(t, append(c.opts, WithTick(10*time.Millisecond))...)
			base := time.Now()
			stop := make(chan struct{})
			var took [3][]time.Duration // while timeouts are armed; while all are pending; while they run
			var phase atomic.Int32
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Microsecond):
					}
					p, start := phase.Load(), time.Now()
					timer.Stats()
					took[p] = append(took[p], time.Since(start))
				}
			})
			for i := range n {
				_, err := timer.NewTimeoutAt(plainFunc(nop), base.Add(lead+time.Duration(i%1000)*time.Millisecond))
				require.NoError(t, err)
			}
			phase.Store(1)
			require.Less(t, time.Since(base), lead, "the machine is too slow")
			time.Sleep(time.Until(base.Add(lead)))
			phase.Store(2)
			for timer.Pending() > 0 {
				time.Sleep(10 * time.Millisecond)
			}
			close(stop)
			wg.Wait()
			for p, name := range []string{"arming", "waiting", "running"} {
				slices.Sort(took[p])
				q := func(of float64) time.Duration { return took[p][int(of*float64(len(took[p])-1))] }
				t.Logf("%s: %d calls, p50 %v, p99 %v, p99.9 %v, max %v", name, len(took[p]), q(0.5), q(0.99), q(0.999), q(1))
			}
		})
	}
}
