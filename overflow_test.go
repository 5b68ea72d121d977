package hashedwheel

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test runs up to the last tick of a clock. Timeouts that are due before the end expire in time. Timeouts that
// are due after it never expire, and Stop returns them. With a tick below a microsecond the bits of the word end
// first, after 104 days for a nanosecond. With longer ticks the range of a Duration ends first, after 292 years.
func TestLastTick(t *testing.T) {
	for _, tick := range []time.Duration{1, 7, time.Millisecond, time.Hour} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick))
			c := &timer.clock
			const left = 1000 // ticks
			old := c.boundary(c.last) - left*tick
			c.start = time.Now().Add(-old)
			require.Equal(t, c.last-left, c.now())
			start := time.Now()
			var fired moments
			arm := func(delay time.Duration) *Timeout {
				to, err := timer.AfterFunc(delay, fired.note)
				require.NoError(t, err)
				return to
			}
			never := []*Timeout{arm(left*tick + 1), arm(math.MaxInt64), arm(2 * left * tick)}
			for _, ticks := range []time.Duration{0, 1, 2, 500, 999, 1000} {
				arm(ticks * tick)
			}
			moved := arm(left*tick + 1)
			_, err := moved.Reset(3 * tick)
			require.NoError(t, err)
			never = append(never, arm(5*tick))
			_, err = never[3].Reset(left*tick + 1)
			require.NoError(t, err)

			pass(left * tick)
			require.Equal(t, []time.Duration{tick, tick, 2 * tick, 3 * tick, 500 * tick, 999 * tick, 1000 * tick}, fired.since(start))
			never = append(never, arm(0), arm(tick)) // there are no more boundaries
			pass(min(10*left*tick, time.Hour))
			require.Len(t, fired.all(), 7)
			require.ElementsMatch(t, never, timer.Stop())
		})
	}
}

// When counters wrap around, the timer still works, because it uses only their differences.
func TestCountersWrap(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newFakedTimer(t, WithTick(time.Millisecond))
		const before = math.MaxUint64 - 5
		for i := range timer.queue.stripes {
			s := &timer.queue.stripes[i]
			for _, c := range []*atomic.Uint64{&s.armed, &s.pushedAgain, &s.rearmed, &s.canceled} {
				c.Store(before)
			}
			timer.worker.taken.Add(before)
			timer.worker.taken.Add(before)
			timer.tasks.started.Add(before)
		}
		timer.returned.Store(0)
		timer.tasks.progress.taken = math.MaxInt - 5
		timer.worker.due.next = math.MaxUint32 - 5
		for range 3 {
			for range 20 {
				_, err := timer.AfterFunc(time.Millisecond, nop)
				require.NoError(t, err)
				to, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				require.True(t, to.Cancel())
				_, err = to.Reset(time.Hour)
				require.NoError(t, err)
			}
			require.Equal(t, 40, timer.Pending())
			pass(5 * time.Millisecond)
			require.Equal(t, 20, timer.Pending())
			require.Zero(t, timer.Stats().Queued)
			timer.cancelAll(t)
			pass(5 * time.Millisecond)
			require.Zero(t, timer.Pending())
		}
		// Tasks that block need runners. Their number is computed from the same counters.
		for range 50 {
			_, err := timer.AfterFunc(0, func() { time.Sleep(time.Hour) })
			require.NoError(t, err)
		}
		pass(10 * time.Millisecond)
		require.Equal(t, 50, timer.Stats().Running)
		pass(time.Hour)
	})
}

// cancelAll cancels the timeouts in the wheel.
func (t *Timer) cancelAll(tb testing.TB) {
	t.worker.mu.Lock()
	var all []*Timeout
	t.worker.wheel.each(func(to *Timeout) { all = append(all, to) })
	t.worker.mu.Unlock()
	for _, to := range all {
		require.True(tb, to.Cancel())
	}
}
