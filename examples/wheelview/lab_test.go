package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var quiet = loadSettings{Rate: 0, Canceled: 0.5, MinDelayMs: 100, MaxDelayMs: 1000}

// closed returns a new lab. When the test ends, the lab is closed and its sums are checked.
func closed(t *testing.T, w wheelSettings, load loadSettings) *lab {
	t.Helper()
	l, err := newLab(w, load)
	require.NoError(t, err)
	t.Cleanup(func() {
		s := l.close()
		require.NoError(t, s.check())
	})
	return l
}

// pass advances virtual time by d, and returns when everything that came due is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// requireSums checks that the levels of a snapshot are the sums of their buckets, and returns the
// number of timeouts in all of them.
func requireSums(t *testing.T, v snapshot) (inBuckets int) {
	t.Helper()
	for _, level := range v.Levels {
		sum, occupied := 0, 0
		for _, n := range level.Buckets {
			sum += n
			if n > 0 {
				occupied++
			}
		}
		require.Len(t, level.Buckets, v.Wheel.Size)
		require.Equal(t, level.Timeouts, sum)
		require.Equal(t, level.Occupied, occupied)
		require.GreaterOrEqual(t, level.Hand, 0)
		require.Less(t, level.Hand, v.Wheel.Size)
		inBuckets += sum
	}
	return inBuckets
}

func TestSnapshotOfKnownTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := closed(t, wheelSettings{TickMs: 10, Levels: 3, Size: 16}, quiet)
		s := sampler{lab: l}
		timer := l.rig.Load().timer
		v := s.snapshot()
		require.Zero(t, v.Pending)
		require.Empty(t, v.Levels, "there is no wheel yet")
		require.Zero(t, v.Lateness.Count)

		// With 16 buckets the first ring reaches 160 ms, the second 1.28 s, the third 10.24 s.
		var far []*hashedwheel.Timeout
		arm := func(n int, delay time.Duration) {
			for range n {
				to, err := timer.AfterFunc(delay, func() {})
				require.NoError(t, err)
				far = append(far, to)
			}
		}
		arm(1, 100*time.Millisecond)
		synctest.Wait() // the worker has taken the first timeout, and waits for the next tick
		arm(2, 100*time.Millisecond)
		arm(5, 800*time.Millisecond)
		arm(7, 9*time.Second)
		v = s.snapshot()
		require.Equal(t, 15, v.Pending)
		require.Equal(t, 14, v.Queued, "the wheel has not read the queue again yet")
		require.EqualValues(t, 15, v.Counts.Scheduled)

		pass(10 * time.Millisecond)
		v = s.snapshot()
		require.Equal(t, v.Pending, requireSums(t, v))
		require.Zero(t, v.Queued)
		require.Len(t, v.Levels, 3)
		for i, want := range []int{3, 5, 7} {
			require.Equal(t, want, v.Levels[i].Timeouts)
			require.Equal(t, 1, v.Levels[i].Occupied)
		}
		require.Equal(t, 3, v.Levels[0].Buckets[10], "due at tick 10")

		for _, to := range far[len(far)-4:] {
			require.True(t, to.Cancel())
		}
		v = s.snapshot()
		require.Equal(t, 11, v.Pending, "a canceled timeout is not pending from then on")
		pass(10 * time.Millisecond)
		v = s.snapshot()
		require.Equal(t, v.Pending, requireSums(t, v))
		require.Equal(t, 3, v.Levels[2].Timeouts, "the canceled timeout has left its bucket at the next tick")
		require.EqualValues(t, 4, v.Counts.Canceled)

		pass(80 * time.Millisecond)
		v = s.snapshot()
		require.Equal(t, v.Pending, requireSums(t, v))
		require.EqualValues(t, 3, v.Counts.Expired)
		measured := v.Lateness.Count
		require.NotZero(t, measured)
		require.LessOrEqual(t, measured, uint64(3), "each task is measured at most once")
		later := sampler{lab: l} // a page that has just been opened
		require.Equal(t, measured, later.snapshot().Lateness.Count)
		require.Less(t, v.Lateness.Max, 1000.0, "virtual time makes nothing late")

		pass(10 * time.Second)
		v = s.snapshot()
		require.Zero(t, v.Pending)
		require.Empty(t, v.Levels)
		require.EqualValues(t, 11, v.Counts.Expired)
		require.NotZero(t, v.Lateness.Count)
		sum := uint64(0)
		for _, c := range v.Lateness.Classes {
			sum += c.N
		}
		require.EqualValues(t, v.Lateness.Count, sum)

		pass(lateSpan)
		v = s.snapshot()
		require.EqualValues(t, 11, v.Counts.Expired)
		require.Zero(t, v.Lateness.Count, "no task has started in the last ten seconds")
	})
}

func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := closed(t, wheelSettings{TickMs: 10, Levels: 2, Size: 64},
			loadSettings{Rate: 1000, Canceled: 0.75, MinDelayMs: 100, MaxDelayMs: 400})
		s := sampler{lab: l}
		for range 150 { // 10 seconds
			pass(frame)
			s.snapshot()
		}
		v := s.snapshot()
		require.LessOrEqual(t, v.Pending, requireSums(t, v)+v.Queued)
		require.InDelta(t, 10_000, v.Counts.Scheduled, 10)
		require.Equal(t, v.Counts.Scheduled, v.Counts.Expired+v.Counts.Canceled+uint64(v.Pending))
		require.InDelta(t, 0.75, float64(v.Counts.Canceled)/float64(v.Counts.Expired+v.Counts.Canceled), 0.05)
		require.InDelta(t, 1000, v.Rates.Scheduled, 30)
		require.InDelta(t, 750, v.Rates.Canceled, 100)
		require.InDelta(t, 250, v.Rates.Expired, 100)
		require.InDelta(t, 100, v.Rates.Wakeups, 30, "about one for each tick")
		require.Zero(t, v.Early)

		require.NoError(t, l.changeLoad(func(s *loadSettings) error { s.Rate = 0; return nil }))
		pass(time.Second)
		before := s.snapshot()
		require.Zero(t, before.Pending, "all have ended")
		pass(time.Minute)
		after := s.snapshot()
		require.Equal(t, before.Counts, after.Counts, "no load, and no wake-up")
	})
}

// TestSlowLoad has a load of less than one timeout in a pulse.
func TestSlowLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := closed(t, wheelSettings{TickMs: 10, Levels: 1, Size: 16},
			loadSettings{Rate: 3, Canceled: 0, MinDelayMs: 100, MaxDelayMs: 100})
		pass(10*time.Second + 50*time.Millisecond)
		s := sampler{lab: l}
		require.InDelta(t, 30, s.snapshot().Counts.Scheduled, 1)
	})
}

func TestDelays(t *testing.T) {
	s := loadSettings{MinDelayMs: 100, MaxDelayMs: 10_000}
	rng := newRand(t)
	short := 0
	for range 10_000 {
		d := s.draw(rng)
		require.GreaterOrEqual(t, d, 100*time.Millisecond)
		require.LessOrEqual(t, d, 10*time.Second)
		if d < time.Second {
			short++
		}
	}
	require.InDelta(t, 5000, short, 300, "half of them are in the first of two decades")
}

func TestBlockedTasksHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		l := closed(t, wheelSettings{TickMs: 10, Levels: 1, Size: 64}, quiet)
		s := sampler{lab: l}
		require.NoError(t, l.block(blockage{Tasks: 50, Seconds: 5}))
		start := time.Now()
		var ran time.Time
		_, err := l.rig.Load().timer.AfterFunc(5*time.Millisecond, func() { ran = time.Now() })
		require.NoError(t, err)
		pass(5 * tick)
		require.False(t, ran.IsZero(), "the task runs although 50 tasks before it block")
		require.LessOrEqual(t, ran.Sub(start), 3*tick)
		v := s.snapshot()
		require.EqualValues(t, 50, v.Blocked)
		require.Equal(t, 50, v.Running)
		require.GreaterOrEqual(t, v.Runners, 50)

		wrong := new(fieldError)
		for range 5 {
			err = l.block(blockage{Tasks: 1000, Seconds: 5})
		}
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "tasks", wrong.Field)
		require.EqualValues(t, 4050, s.snapshot().Blocked, "refused tasks do not count")

		pass(6 * time.Second)
		v = s.snapshot()
		require.Zero(t, v.Blocked)
		require.Zero(t, v.Running)
		require.Zero(t, v.Runners)
	})
}

func TestChangeOfWheel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := loadSettings{Rate: 500, Canceled: 0, MinDelayMs: 60_000, MaxDelayMs: 60_000}
		l := closed(t, wheelSettings{TickMs: 10, Levels: 1, Size: 64}, load)
		old := l.rig.Load()
		require.NoError(t, l.block(blockage{Tasks: 3, Seconds: 30}))
		pass(2 * time.Second)
		pending := old.timer.Pending()
		require.InDelta(t, 1000, pending, 3)

		start := time.Now()
		require.NoError(t, l.changeWheel(func(s *wheelSettings) error { s.TickMs = 50; return nil }))
		require.Zero(t, time.Since(start), "the change waits for nothing, not even for tasks that block")
		require.True(t, old.timer.IsStopped())
		require.True(t, old.answers.IsStopped())
		require.Zero(t, old.blocked.Load())

		s := sampler{lab: l}
		v := s.snapshot()
		require.Equal(t, wheelSettings{TickMs: 50, Levels: 1, Size: 64}, v.Wheel)
		require.Equal(t, load, v.Load, "the load is as it was")
		require.EqualValues(t, pending, v.HandedBack)
		require.Equal(t, 2, v.Timer)
		pass(2 * time.Second)
		require.InDelta(t, 1000, s.snapshot().Pending, 3, "the load goes on")

		now := l.rig.Load()
		require.NoError(t, l.changeWheel(func(*wheelSettings) error { return nil }))
		require.Same(t, now, l.rig.Load(), "no change, no new timer")
	})
}

// TestCloseLeavesNothing closes a lab under load, on real time.
func TestCloseLeavesNothing(t *testing.T) {
	here := goleak.IgnoreCurrent()
	l, err := newLab(wheelSettings{TickMs: 1, Levels: 2, Size: 128},
		loadSettings{Rate: 50_000, Canceled: 0.9, MinDelayMs: 1, MaxDelayMs: 1000})
	require.NoError(t, err)
	require.NoError(t, l.block(blockage{Tasks: 20, Seconds: 30}))
	for _, tick := range []int{2, 5} {
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, l.changeWheel(func(s *wheelSettings) error { s.TickMs = tick; return nil }))
	}
	time.Sleep(100 * time.Millisecond)
	s := l.close()
	goleak.VerifyNone(t, here)
	require.NoError(t, s.check())
	require.Equal(t, 3, s.timers)
	require.Positive(t, s.expired)
	require.Positive(t, s.canceled)
	require.Positive(t, s.returned)
}
