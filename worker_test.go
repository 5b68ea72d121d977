package hashedwheel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// queueLen counts what is on the queue. The worker must be at rest.
func (q *queue) queueLen() (n int) {
	for i := range q.stripes {
		for to := q.stripes[i].head.Load(); to != nil && to != closed; to = to.link {
			n++
		}
	}
	return n
}

// A timer with nothing pending has no worker, and the next timeout gets it one again.
func TestWorkerEndsWhenNothingIsPending(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		w := &timer.worker
		require.EqualValues(t, absent, w.presence.Load())
		for range 3 {
			fired := false
			_, err := timer.AfterFunc(time.Minute, func() { fired = true })
			require.NoError(t, err)
			to, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			require.EqualValues(t, awake, w.presence.Load())
			pass(time.Second)
			require.EqualValues(t, asleep, w.presence.Load())
			pass(time.Minute)
			require.True(t, fired)
			require.EqualValues(t, asleep, w.presence.Load())
			require.True(t, to.Cancel())
			pass(time.Second)
			require.EqualValues(t, absent, w.presence.Load())
			require.Nil(t, w.wheel)
			require.Zero(t, timer.Pending())
		}
	})
}

// Promise 19: within a second, also where the tick is longer than that.
func TestWorkerEndsSoonWithALongTick(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		for _, wait := range []time.Duration{0, time.Minute} {
			var all []*Timeout
			for _, delay := range []time.Duration{time.Minute, 100 * time.Hour} {
				to, err := timer.AfterFunc(delay, nop)
				require.NoError(t, err)
				all = append(all, to)
			}
			pass(wait)
			for _, to := range all {
				require.True(t, to.Cancel())
			}
			pass(time.Second)
			require.EqualValues(t, absent, timer.worker.presence.Load(), "canceled after %v", wait)
		}

		// And it sleeps while something is pending.
		_, err := timer.AfterFunc(30*time.Minute, nop)
		require.NoError(t, err)
		pass(time.Minute)
		require.EqualValues(t, asleep, timer.worker.presence.Load())
		pass(2 * time.Hour)
		require.Zero(t, timer.Pending())
	})
}

// While nothing is due the worker does not look. It would take what is on the queue, though
// nobody has summoned it.
func TestWorkerSleepsThroughEmptyTicks(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithWheelSize(8))
		fired := 0
		_, err := timer.AfterFunc(time.Hour, func() { fired++ })
		require.NoError(t, err)
		pass(time.Second)
		require.EqualValues(t, asleep, timer.worker.presence.Load())

		probe := &Timeout{timer: timer, task: TaskFunc(func(*Timeout) {})}
		probe.word.Store(withStatus(queued, canceled))
		s := timer.queue.stripe(probe)
		s.push(probe)
		pass(59 * time.Minute)
		require.Same(t, probe, s.head.Load(), "the worker was awake")
		timer.worker.nudge() // and if it is, that is seen
		synctest.Wait()
		require.Nil(t, s.head.Load())
		pass(time.Minute)
		require.Equal(t, 1, fired)
		require.Nil(t, s.head.Load())
	})
}

// An earlier timeout is on time although the worker sleeps for a later one.
func TestEarlierTimeoutWakesTheWorker(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		for range 10 {
			pass(time.Second + 300*time.Microsecond)
			start, elapsed := time.Now(), time.Duration(0)
			want := timer.clock.boundary(timer.clock.due(timer.clock.elapsed(), 5*time.Millisecond)) - timer.clock.elapsed()
			_, err := timer.AfterFunc(5*time.Millisecond, func() { elapsed = time.Since(start) })
			require.NoError(t, err)
			pass(10 * time.Millisecond)
			require.Equal(t, want, elapsed)
		}
	})
}

// A queue that grows long is taken before the tick is over, so that what was canceled does
// not pile up.
func TestLongQueueIsTakenEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		limit := summonEvery * len(timer.queue.stripes)
		for range 10 {
			for range limit {
				to, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				require.True(t, to.Cancel())
			}
			synctest.Wait()
			require.Less(t, timer.queue.queueLen(), limit)
		}
		require.Zero(t, timer.Pending())
	})
}

// No wake-up is lost: a timeout armed at any moment relative to the worker's going to rest,
// ending or starting fires. Were one lost, it would wait for nobody.
func TestNoLostWakeUp(t *testing.T) {
	timer := newTimer(t, WithTick(time.Microsecond))
	fired := make(chan struct{}, 1)
	far, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	r := newRand(t)
	for end := time.Now().Add(stressTime(t)); time.Now().Before(end); {
		for range 100 {
			_, err := timer.AfterFunc(0, func() { fired <- struct{}{} })
			require.NoError(t, err)
			if r.IntN(2) == 0 { // whether the worker sleeps or ends
				far.Cancel()
			} else {
				_, err := far.Reset(time.Hour)
				require.NoError(t, err)
			}
			select {
			case <-fired:
			case <-time.After(10 * time.Second):
				t.Fatalf("not fired: presence %d, %d on the queue", timer.worker.presence.Load(), timer.queue.queueLen())
			}
			// About as long as the worker takes to look once more and go to rest.
			for spin, start := time.Duration(r.IntN(100_000)), time.Now(); time.Since(start) < spin; {
				if r.IntN(8) == 0 {
					runtime.Gosched()
				}
			}
		}
	}
}

// The worker that goes to rest looks at the queue once more, at each stripe of it.
func TestRestLooksAtTheQueue(t *testing.T) {
	for _, pending := range []bool{false, true} {
		timer := newTimer(t, WithTick(time.Hour))
		w := &timer.worker
		for i := range timer.queue.stripes {
			w.presence.Store(awake)
			w.wheel = newWheel(8, 1, 5)
			if pending { // so it would sleep, and otherwise end
				w.wheel.place(testTimeout(9), 9)
			}
			timer.queue.stripes[i].push(&Timeout{timer: timer, task: TaskFunc(func(*Timeout) {})})
			until, gone := w.rest(6)
			require.False(t, gone)
			require.EqualValues(t, 6, until)
			require.EqualValues(t, awake, w.presence.Load())
			timer.queue.stripes[i].take()

			if !pending {
				w.wheel = newWheel(8, 1, 5) // as run does
			}
			until, gone = w.rest(6)
			require.Equal(t, !pending, gone)
			if pending {
				require.EqualValues(t, 9, until)
			}
			w.presence.Store(absent)
		}
	}
}

// A nudge is not lost on a worker that is only about to wait.
func TestNudgeBeforeWait(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	w := &timer.worker
	w.presence.Store(asleep)
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.EqualValues(t, awake, w.presence.Load())
	w.wait(time.NewTimer(time.Hour), 24*time.Hour) // or the test runs into its timeout
	w.presence.Store(absent)
}

// A timeout that was reset to a moment that has come when the worker gets to it leaves its
// bucket, and is due.
func TestSettleOverdue(t *testing.T) {
	timer := newTimer(t)
	w := &timer.worker
	w.wheel = newWheel(8, 1, 5)
	to := testTimeout(50)
	w.wheel.place(to, 50)
	to.word.Store(pendingAt(queued, 3))
	w.settle(to)
	require.Equal(t, []*Timeout{to}, w.batch.due)
	require.Zero(t, to.bucket)
	require.Zero(t, w.wheel.count)
	w.wheel.check(t)
	w.batch = nil
}

// However many summon a worker that is not there, one starts. Two would end in a panic at Stop.
func TestOneWorkerStarts(t *testing.T) {
	for end := time.Now().Add(stressTime(t)); time.Now().Before(end); {
		timer := newTimer(t, WithTick(time.Millisecond))
		var users sync.WaitGroup
		var ready atomic.Int64
		for range 2 {
			users.Go(func() {
				for ready.Add(1); ready.Load() < 2; {
				}
				_, err := timer.AfterFunc(time.Hour, nop)
				assert.NoError(t, err)
			})
		}
		users.Wait()
		require.Len(t, timer.Stop(), 2)
	}
}
