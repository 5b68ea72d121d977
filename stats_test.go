package hashedwheel

import (
	"bytes"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/octave"
)

// Each task is in the histogram once, whether it comes due alone or with others.
func TestLatenessIsMeasured(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		for n := range 10 {
			_, err := timer.AfterFunc(time.Millisecond, nop)
			require.NoError(t, err)
			pass(5 * time.Millisecond)
			require.EqualValues(t, n+1, timer.Stats().Lateness.Count())
		}
		for _, n := range []int{2, chunkLen - 1, chunkLen, chunkLen + 1, 4 * chunkLen, 8*chunkLen + 5} {
			before := timer.Stats().Lateness
			timer.tasks.Limit = -1 // so that all wait before the first runs
			for range n {
				_, err := timer.AfterFunc(time.Millisecond, nop)
				require.NoError(t, err)
			}
			pass(2 * time.Millisecond)
			require.Equal(t, n, timer.tasks.Waiting())
			timer.tasks.Limit = 0
			timer.tasks.Add(&Timeout{timer: timer}) // it is not pending, but a runner comes
			pass(3 * time.Millisecond)
			lateness := timer.Stats().Lateness
			require.EqualValues(t, n, lateness.Sub(before).Count())
			require.Equal(t, octave.UpperBound(octave.Class(time.Millisecond)), lateness.Quantile(1), "they had to wait for a tick")
		}
	})
}

// Tasks that wait for their turn run late, each by the length of one task more than the task before it.
func TestLatenessOfWaiting(t *testing.T) {
	for _, executor := range []func(func()) error{nil, func(run func()) error { go run(); return nil }} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1), WithExecutor(executor))
			giveBack := hold(t, timer)
			const n, long = 65, time.Second
			for range n {
				_, err := timer.AfterFunc(time.Millisecond, func() { time.Sleep(long) })
				require.NoError(t, err)
			}
			timer.worker.round() // so that they come due together
			giveBack()
			pass((n + 1) * long)
			lateness := timer.Stats().Lateness
			require.Equal(t, octave.UpperBound(octave.Class((n-1)*long)), lateness.Quantile(1))
			// Slow tasks are taken one by one, and each is measured.
			require.EqualValues(t, n, lateness.Count())
			require.Equal(t, n*(n-1)/2*long, lateness.Sum())
			require.Equal(t, octave.UpperBound(octave.Class((n-1)/2*long)), lateness.Quantile(0.5))
		})
	}
}

// Stats and Buckets report how many timeouts each bucket holds, on both levels, while the hand moves on.
func TestStatsOfLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithWheelSize(8), WithLevels(2))
		require.Nil(t, timer.Stats().Levels)
		require.Nil(t, timer.Buckets(0))
		for _, ticks := range []int{3, 3, 4, 8, 20, 21} {
			_, err := timer.AfterFunc(time.Duration(ticks)*tick, nop)
			require.NoError(t, err)
		}
		canceled, err := timer.AfterFunc(4*tick, nop)
		require.NoError(t, err)
		pass(tick + tick/2)
		// Placed at tick 0 or 1. On level 1 a bucket is for 4 ticks.
		require.Equal(t, []LevelStats{{Hand: 1, Occupied: 3, Timeouts: 5}, {Hand: 0, Occupied: 1, Timeouts: 2}}, timer.Stats().Levels)
		require.Equal(t, []int{1, 0, 0, 2, 2, 0, 0, 0}, timer.Buckets(0))
		require.Equal(t, []int{0, 0, 0, 0, 0, 2, 0, 0}, timer.Buckets(1))
		require.Nil(t, timer.Buckets(-1))
		require.Nil(t, timer.Buckets(2))

		require.True(t, canceled.Cancel())
		pass(tick)
		require.Equal(t, []int{1, 0, 0, 2, 1, 0, 0, 0}, timer.Buckets(0))
		pass(4 * tick)
		levels := timer.Stats().Levels
		require.Contains(t, []int{4, 5, 6}, levels[0].Hand, "nothing was due after tick 4")
		levels[0].Hand = 0
		require.Equal(t, []LevelStats{{Hand: 0, Occupied: 1, Timeouts: 1}, {Hand: 1, Occupied: 1, Timeouts: 2}}, levels)

		pass(time.Second)
		require.Nil(t, timer.Stats().Levels, "nothing is pending")
		require.Nil(t, timer.Buckets(0))
		_, err = timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		pass(tick)
		require.Equal(t, 1, timer.Stats().Levels[1].Timeouts)
		timer.Stop()
		require.Nil(t, timer.Stats().Levels)
	})
}

// The queue holds a timeout that was armed, that is to be removed, or that is to be moved to an earlier tick. A
// Reset to a later tick adds nothing to the queue, nor does a Reset of a timeout that is already on it.
func TestStatsOfQueue(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Second
		timer := newTimer(t, WithTick(tick))
		w := &timer.worker
		giveBack := hold(t, timer)
		queued := func(want int) {
			t.Helper()
			require.Equal(t, want, timer.Stats().Queued)
		}
		var all []*Timeout
		for range 10 {
			to, err := timer.AfterFunc(100*tick, nop)
			require.NoError(t, err)
			all = append(all, to)
		}
		queued(10)
		all[0].Cancel()
		_, err := all[1].Reset(10 * tick)
		require.NoError(t, err)
		queued(10)
		w.round()
		queued(0)
		all[2].Cancel()
		queued(1)
		_, err = all[3].Reset(50 * tick)
		require.NoError(t, err)
		queued(2)
		_, err = all[4].Reset(200 * tick)
		require.NoError(t, err)
		queued(2)
		_, err = all[2].Reset(tick)
		require.NoError(t, err)
		queued(2)
		_, err = all[0].Reset(tick)
		require.NoError(t, err)
		queued(3)
		w.round()
		queued(0)
		all[5].Cancel()
		stopHeld(timer, giveBack)
		queued(0)
	})
}

func TestStatsOfRunners(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		for range 3 {
			_, err := timer.AfterFunc(0, func() { time.Sleep(time.Second) })
			require.NoError(t, err)
		}
		pass(100 * time.Millisecond)
		require.Equal(t, 3, timer.Stats().Runners)
		require.Equal(t, 3, timer.Stats().Running)
		pass(time.Second)
		require.Zero(t, timer.Stats().Runners)
		require.Zero(t, timer.Stats().Running)
	})
}

// logged returns an option that sets a logger, and the buffer that this logger writes to.
func logged() (Option, *bytes.Buffer) {
	var log bytes.Buffer
	return WithLogger(slog.New(slog.NewTextHandler(&log, nil))), &log
}

// A timeout is reset while it waits for its turn, and its new tick has passed when its turn comes. Then it
// goes through the queue again. The worker did not cause this lateness, and so logs nothing.
func TestWaitingForATurnIsNotALateWorker(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), option)
		arm := func(delay, length time.Duration) *Timeout {
			to, err := timer.AfterFunc(delay, func() { time.Sleep(length) })
			require.NoError(t, err)
			return to
		}
		arm(tick, 5*time.Second)
		pass(2 * tick)
		arm(tick, 10*tick)
		x := arm(tick, 0)
		pass(50 * tick)
		arm(90*tick, 10*tick)
		_, err := x.Reset(100 * tick)
		require.NoError(t, err)
		pass(6 * time.Second)
		require.Empty(t, log.String())
		require.Zero(t, timer.Pending())
	})
}

// A reader of the stripes may miss that a repeating timeout was counted as armed again, and yet see that this
// was taken back. Even then Accepted is not less than what has ended, and no count is below zero.
func TestCountsAreNotNegative(t *testing.T) {
	for _, c := range []struct{ accepted, ended, want, pending uint64 }{
		{^uint64(0), 0, 0, 0}, // the reader saw only that the first timeout was taken back
		{9, 10, 10, 0},
		{10, 10, 10, 0},
		{12, 10, 12, 2},
	} {
		st := ends{expired: c.ended}.stats(c.accepted)
		require.Equal(t, Stats{Accepted: c.want, Pending: int(c.pending), Expired: c.ended}, st)
	}
}

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
	for tries := 0; ; tries++ {
		partly := 0 // how often the test has seen the worker in the middle of the queue
		synctest.Test(t, func(t *testing.T) { partly = levelsOfABusyWorker(t) })
		if partly > 0 || runtime.GOMAXPROCS(0) == 1 {
			return
		}
		require.Less(t, tries, 100) // on a busy machine the test may not get a processor meanwhile
	}
}

func levelsOfABusyWorker(t *testing.T) (partly int) {
	const tick, far = time.Second, 200_000
	due := 2 * 256
	timer := newTimer(t, WithTick(tick), WithWheelSize(4096))
	w := &timer.worker
	hold(t, timer)
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
	arm(due, 5*tick) // in the middle, so that the worker places others before these
	arm(far/2, 5000*tick)
	time.Sleep(5 * tick) // so long that producers pause
	during(func(levels []LevelStats) {
		if levels != nil && levels[0].Timeouts > 0 && levels[0].Timeouts < far {
			partly++
		}
	})
	require.Equal(t, far, timer.Pending())
	require.Equal(t, LevelStats{Hand: 5, Occupied: 1, Timeouts: far}, timer.Stats().Levels[0])
	require.Equal(t, far, timer.Buckets(0)[5000%4096])

	time.Sleep(4995 * tick)
	before, after := LevelStats{Hand: 5, Occupied: 1, Timeouts: far}, LevelStats{Hand: 5000 % 4096}
	during(func(levels []LevelStats) {
		// A reader may see some fields from before and some from after.
		require.Contains(t, []int{before.Timeouts, after.Timeouts}, levels[0].Timeouts)
	})
	require.EqualValues(t, far+due, timer.Stats().Expired)
	require.Equal(t, after, timer.Stats().Levels[0])
	return partly
}
