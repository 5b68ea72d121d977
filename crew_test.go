package hashedwheel

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// liveRunners returns how many goroutines run tasks, or are on their way to their first one.
func (c *crew[T]) liveRunners() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hands
}

// listed returns the items on the list.
func (c *crew[T]) listed() (all []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none T
	for _, k := range c.due.chunks[c.due.head:] {
		for _, item := range k.items {
			if item != none {
				all = append(all, item)
			}
		}
	}
	return all
}

// watched reports whether the crew is watched.
func (c *crew[T]) watched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watching
}

// numbers is a host whose items are numbers. Its tasks do nothing.
type numbers struct{ positions }

var _ host[int] = numbers{}

func (numbers) claim(int, bool) claim     { return claimed }
func (numbers) run(int)                   {}
func (numbers) ran(int) bool              { return false }
func (numbers) requeue(int)               {}
func (numbers) panicked(int, any, []byte) {}

// The watch ends when a check could do nothing: nothing waits, no runner may be added, or the timer is stopped. Until
// then it would wake the processor up sixteen times a tick.
func TestWatchEnds(t *testing.T) {
	const tick = time.Millisecond
	arm := func(t *testing.T, n int, f func(), opts ...Option) *Timer {
		timer := newTimer(t, append(opts, WithTick(tick))...)
		timer.tasks.eager, timer.tasks.share = 1, 1 // one runner, which takes as many as it can
		for range n {
			_, err := timer.AfterFunc(2*tick, f) // all are in a bucket by then
			require.NoError(t, err)
		}
		pass(2 * tick)
		return timer
	}
	virtual(t, func(t *testing.T) {
		timer := arm(t, 10, nop)
		require.False(t, timer.tasks.watched(), "all have run")

		release := make(chan struct{})
		block := func() { <-release }
		timer = arm(t, 40, block)
		require.True(t, timer.tasks.watched(), "a runner has a group")
		pass(2 * tick)
		require.Equal(t, 40, timer.Stats().Running)
		require.False(t, timer.tasks.watched(), "nothing waits")
		require.Zero(t, timer.tasks.progress.step, "the next ones that block are new")

		timer = arm(t, 40, block, WithMaxConcurrency(2))
		pass(2 * tick)
		require.Equal(t, 38, timer.Pending())
		require.False(t, timer.tasks.watched(), "at the limit")

		timer = arm(t, 40, block)
		require.Len(t, timer.Stop(), 39)
		require.False(t, timer.tasks.watched(), "stopped")
		close(release)
	})
}

// While a runner waits for a processor, checks are as far apart as patientInterval, however short the tick is.
// Otherwise they would keep it from getting one.
func TestWatchIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(checksPerTick)) // so the interval is a nanosecond
		c := &timer.tasks
		var checks atomic.Int64
		c.mu.Lock()
		c.watch = time.AfterFunc(c.interval, func() { checks.Add(1); c.check() })
		c.watching = true
		c.hands, c.fresh = 1, 1
		c.due.add(&Timeout{timer: timer}) // it is not pending
		c.mu.Unlock()
		pass(10 * patientInterval)
		require.EqualValues(t, 10, checks.Load())
		go c.work()
		synctest.Wait()
		require.Zero(t, c.liveRunners())
	})
}

// A runner at the limit takes a group, and the first task of the group blocks. Then the other runner gets the rest. When
// the timeouts came due the crew was not watched, because no runner could be added.
func TestGroupTakenAtTheLimit(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(2))
		timer.tasks.share = 1
		a, b, c := blockOne(t, timer), blockOne(t, timer), make(chan struct{})
		pass(5 * tick)
		var begun, ended atomic.Int64
		for range 11 {
			_, err := timer.AfterFunc(0, func() {
				if begun.Add(1) == 1 {
					<-c
				}
				ended.Add(1)
			})
			require.NoError(t, err)
		}
		pass(3 * tick)
		require.False(t, timer.tasks.watched())
		close(a)
		pass(tick)
		require.EqualValues(t, 1, begun.Load())
		close(b)
		synctest.Wait()
		require.EqualValues(t, 10, ended.Load())
		close(c)
	})
}

// While a runner has a group, chunks are not merged, because the positions of the group might be used again. Then the
// order would be lost, and so would the position of each item.
func TestMergeWaitsForGroups(t *testing.T) {
	at := positions{}
	var c crew[int]
	c.init(numbers{at}, time.Second)
	var want []int
	for i := range 200 {
		at[i+1] = c.due.next
		c.due.add(i + 1)
		want = append(want, i+1)
	}
	const size = 16
	a, b := c.due.take(size), c.due.take(size)
	c.holding = []*runner[int]{nil} // a runner still has the group b
	c.due.giveBack(a)
	for item := 2; item <= 62; item++ {
		if item <= size || item > 2*size {
			c.remove(item, at[item])
		}
	}
	c.due.giveBack(b)
	c.holding = nil
	c.due.check(t)
	want = append(append(want[:1:1], want[size:2*size]...), want[62:]...)
	for _, k := range c.due.chunks[c.due.head:] {
		for slot, item := range k.items {
			require.True(t, item == 0 || at.isAt(item, k.base+uint32(slot)))
		}
	}
	require.Equal(t, want, c.due.takeAll())
}

// After a thousand tasks that blocked, few runners are kept for reuse.
func TestFewRunnersAreKept(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		release := make(chan struct{})
		for range 1000 {
			_, err := timer.AfterFunc(0, func() { <-release })
			require.NoError(t, err)
		}
		pass(3 * time.Millisecond)
		require.Equal(t, 1000, timer.Stats().Running)
		close(release)
		synctest.Wait()
		require.Len(t, timer.tasks.spare, maxEager)
	})
}
