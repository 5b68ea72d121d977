package hashedwheel

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

// A timeout has come due, and no runner has time for it. It is reset to a later tick. At that tick it waits for
// its turn again, and it runs as soon as a runner is free, because the worker has been notified.
func TestPutOffWhileItWaits(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		for _, at := range []bool{false, true} {
			timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
			start := time.Now()
			_, err := timer.AfterFunc(tick, func() { time.Sleep(10*tick + tick/2) })
			require.NoError(t, err)
			c := new(request)
			timer.Init(&c.timeout, c)
			_, err = c.timeout.Reset(2 * tick)
			require.NoError(t, err)
			pass(3 * tick)
			if at {
				_, err = c.timeout.ResetAt(start.Add(6 * tick))
			} else {
				_, err = c.timeout.Reset(3 * tick)
			}
			require.NoError(t, err)
			for range 20 {
				_, err = timer.AfterFunc(time.Hour, nop) // so that the worker is awake, and works only at boundaries
				require.NoError(t, err)
				pass(tick)
			}
			require.Equal(t, []time.Duration{11*tick + tick/2}, c.ran.since(start))
			timer.Stop()
		}
	})
}

// ResetAt also moves a timeout to an earlier deadline.
func TestResetAtEarlier(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		c := new(request)
		timer.Init(&c.timeout, c)
		for i, d := range []time.Duration{time.Hour, 50 * tick, 70 * tick, 60 * tick} {
			active, err := c.timeout.ResetAt(start.Add(d))
			require.NoError(t, err)
			require.Equal(t, i > 0, active)
			pass(2 * tick)
		}
		pass(time.Hour)
		require.Equal(t, []time.Duration{60 * tick}, c.ran.since(start))
	})
}

// Timeouts in structs that are armed for the first time, or again after producers have dropped them, are
// pruned like new ones. The worker, whose tick is an hour, does nothing.
func TestEmbeddedArePruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		oneStripe(timer)
		keep, err := timer.AfterFunc(10*time.Hour, nop)
		require.NoError(t, err)
		synctest.Wait() // from here the worker waits for the next boundary
		calls := make([]request, 5000)
		for i := range calls {
			timer.Init(&calls[i].timeout, &calls[i])
		}
		most := 0
		for round := range 4 {
			for i := range calls {
				to := &calls[i].timeout
				active, err := to.Reset(10 * time.Hour)
				require.NoError(t, err)
				require.False(t, active)
				require.Equal(t, 2, timer.Pending())
				require.True(t, to.Cancel())
				most = max(most, timer.queue.length(&timer.worker))
			}
			require.LessOrEqual(t, most, minKept+2*pruneEvery, "round %d", round)
		}
		require.True(t, keep.Cancel())
	})
}

// A repeating timeout of a group runs at the same times as one without a group. It counts from the exact initial
// delay, not from a boundary, because its first arming is not a Reset.
func TestFixedRateInAGroupIsExact(t *testing.T) {
	const tick, delay, period = 10 * time.Millisecond, 13 * time.Millisecond, 25 * time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		var ran moments
		_, err := NewGroup(timer).ScheduleAtFixedRate(TaskFunc(func(*Timeout) { ran.note() }), delay, period)
		require.NoError(t, err)
		pass(time.Second)
		var want []time.Duration
		for due := delay; due <= time.Second; due += period {
			if at := boundaryAt(due, tick); at <= time.Second {
				want = append(want, at)
			}
		}
		require.Equal(t, want, ran.since(start))
	})
}

// If a member of a group is armed again while it is still on the queue, it joins the group's list again.
func TestMemberIsArmedOnTheQueue(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	timer.worker.presence.Store(awake) // so that no worker starts and takes the timeout off the queue
	defer timer.worker.presence.Store(absent)
	g := NewGroup(timer)
	to, err := g.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	for range 3 {
		require.True(t, to.Cancel())
		require.NotZero(t, to.word.Load()&queued)
		_, err := to.Reset(time.Hour)
		require.NoError(t, err)
		checkGroup(t, g, 1)
	}
	require.Equal(t, 1, g.Close())
	_, err = to.Reset(time.Hour)
	require.ErrorIs(t, err, ErrGroupClosed)
}

// After Stop no timeout can be armed, even if it was on the queue during Stop, pending or canceled.
func TestStopLeavesNoneOnTheQueue(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	timer.worker.presence.Store(awake) // so that no worker starts and takes the timeouts off the queue
	calls := make([]request, 4)
	for i := range calls {
		timer.Init(&calls[i].timeout, &calls[i])
		_, err := calls[i].timeout.Reset(time.Hour)
		require.NoError(t, err)
		if i%2 == 0 {
			require.True(t, calls[i].timeout.Cancel())
		}
	}
	timer.worker.presence.Store(absent)
	require.Len(t, timer.Stop(), 2)
	for i := range calls {
		to := &calls[i].timeout
		for _, reset := range []func() (bool, error){
			func() (bool, error) { return to.Reset(time.Hour) },
			func() (bool, error) { return to.ResetAt(time.Now().Add(time.Hour)) },
		} {
			active, err := reset()
			require.ErrorIs(t, err, ErrStopped)
			require.False(t, active)
		}
		require.False(t, to.Move(time.Hour))
		require.True(t, to.IsCanceled())
	}
	require.Zero(t, timer.Pending())
}

// A struct that is dropped can be garbage collected by the second boundary after its timeout has ended, however it
// has ended and however often it was armed. A struct whose timeout was never armed can be collected at once.
func TestEmbeddedAreReleased(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick), WithWheelSize(8))
		keep, err := timer.AfterFunc(time.Hour, nop) // so that the worker does not end
		require.NoError(t, err)
		dropped := make(map[string]weak.Pointer[request])
		drop := func(name string, use func(to *Timeout)) {
			c := new(request)
			timer.Init(&c.timeout, c)
			dropped[name] = weak.Make(c)
			use(&c.timeout)
		}
		arm := func(to *Timeout, delay time.Duration) {
			_, err := to.Reset(delay)
			require.NoError(t, err)
		}
		drop("idle", func(*Timeout) {})
		runtime.GC()
		require.Nil(t, dropped["idle"].Value())

		drop("bucket", func(to *Timeout) { arm(to, time.Hour); pass(2 * tick); require.True(t, to.Cancel()) })
		drop("bucket, again and again", func(to *Timeout) {
			for range 50 {
				arm(to, time.Hour)
				pass(tick)
				require.True(t, to.Cancel())
			}
			arm(to, 2*time.Hour)
			require.True(t, to.Cancel())
		})
		drop("expired, again and again", func(to *Timeout) {
			for range 20 {
				arm(to, 0)
				pass(tick)
				require.True(t, to.IsExpired())
			}
		})
		drop("queue", func(to *Timeout) { arm(to, time.Hour); require.True(t, to.Cancel()) })
		drop("queue, again and again", func(to *Timeout) {
			for range 300 {
				arm(to, time.Hour)
				require.True(t, to.Cancel())
			}
		})
		drop("expires", func(to *Timeout) { arm(to, 0) })
		drop("put off, and back", func(to *Timeout) {
			for range 10 {
				_, err := to.ResetAt(time.Now().Add(time.Hour))
				require.NoError(t, err)
				_, err = to.ResetAt(time.Now())
				require.NoError(t, err)
			}
			require.True(t, to.Cancel())
		})
		pass(2 * tick)
		runtime.GC()
		for name, p := range dropped {
			require.Nil(t, p.Value(), name)
		}
		require.True(t, keep.Cancel())
	})
}

// A timeout is armed again by its own task, and its runs overlap.
func TestEmbeddedFromInside(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		var ran moments
		var to Timeout
		timer.Init(&to, TaskFunc(func(self *Timeout) {
			ran.note()
			if len(ran.all()) < 5 {
				active, err := self.Reset(2 * tick)
				require.False(t, active)
				require.NoError(t, err)
			}
			time.Sleep(3 * tick)
		}))
		_, err := to.Reset(tick)
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, []time.Duration{tick, 3 * tick, 5 * tick, 7 * tick, 9 * tick}, ran.since(start))
		require.Zero(t, timer.Stats().Running)
	})
}
