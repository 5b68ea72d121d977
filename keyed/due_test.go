package keyed

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// hanging calls test with timers that start no task, because one hangs that has all runners. Release ends it.
func hanging(t *testing.T, test func(t *testing.T, timer *hashedwheel.Timer, release func())) {
	for name, newOptions := range map[string]func() []hashedwheel.Option{
		"limit": func() []hashedwheel.Option { return []hashedwheel.Option{hashedwheel.WithMaxConcurrency(1)} },
		"executor": func() []hashedwheel.Option {
			one := make(chan struct{}, 1)
			return []hashedwheel.Option{hashedwheel.WithExecutor(func(run func()) error {
				go func() { one <- struct{}{}; run(); <-one }()
				return nil
			})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, newOptions()...)
				released := make(chan struct{})
				_, err := timer.AfterFunc(0, func() { <-released })
				require.NoError(t, err)
				pass(tick)
				release := sync.OnceFunc(func() { close(released); time.Sleep(hour); synctest.Wait() })
				defer release()
				test(t, timer, release)
			})
		})
	}
}

// Past its deadline no call finds a key, and none brings it back, although a task hangs. Only expired comes later, once
// for each value.
func TestMapExpiresWhileTasksWait(t *testing.T) {
	hanging(t, func(t *testing.T, timer *hashedwheel.Timer, release func()) {
		var ends []string
		m := New(timer, func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
		require.NoError(t, m.Set("a", 1, 20*tick))
		require.NoError(t, m.Set("b", 2, 20*tick))
		require.NoError(t, m.Set("c", 3, 2*hour))
		time.Sleep(20*tick - 1)
		require.Equal(t, 3, m.Len())
		time.Sleep(time.Nanosecond)
		for range 2 {
			synctest.Wait()
			_, ok := m.Get("a")
			require.False(t, ok)
			_, ok = m.Touch("a", hour)
			require.False(t, ok)
			_, ok = m.TouchAt("a", time.Now().Add(hour))
			require.False(t, ok)
			_, ok = m.TouchIf("a", hour, func(int, time.Time) bool { t.Error("there is no such key"); return true })
			require.False(t, ok)
			_, ok = m.Deadline("a")
			require.False(t, ok)
			_, ok = m.Update("a", func(int) int { t.Error("there is no such key"); return 0 })
			require.False(t, ok)
			_, ok = m.RemoveIf("a", func(int) bool { t.Error("there is no such key"); return true })
			require.False(t, ok)
			_, ok = m.Remove("a")
			require.False(t, ok)
			require.Equal(t, 1, m.Len())
			require.Equal(t, map[string]int{"c": 3}, maps.Collect(m.All()))
			time.Sleep(3 * time.Second)
		}
		value, present, err := m.GetOrSet("a", 4, 2*hour)
		require.NoError(t, err)
		require.False(t, present)
		require.Equal(t, 4, value)
		require.NoError(t, m.Set("b", 5, tick)) // due soon, and waits too
		pass(time.Second)
		require.NoError(t, m.SetAt("b", 6, time.Now().Add(2*hour)))
		require.Equal(t, map[string]int{"a": 4, "b": 6, "c": 3}, maps.Collect(m.All()))
		require.Empty(t, ends)
		release()
		slices.Sort(ends)
		require.Equal(t, []string{"a1", "b2", "b5"}, ends)
		require.Equal(t, map[string]int{"a": 4, "b": 6, "c": 3}, maps.Collect(m.All()))
		require.Equal(t, 3, m.Len())
		pass(2 * hour)
		require.Len(t, ends, 6)
		require.Zero(t, m.Len())
	})
}

// A key is due and is set again while the f of an Update runs. The result is dropped, also for the new value.
func TestMapUpdateWhileTasksWait(t *testing.T) {
	hanging(t, func(t *testing.T, timer *hashedwheel.Timer, release func()) {
		var ends []int
		m := New(timer, func(_ string, value int) { ends = append(ends, value) })
		require.NoError(t, m.Set("a", 1, tick))
		require.NoError(t, m.Set("b", 2, tick))
		_, ok := m.Update("a", func(int) int { pass(tick); return 10 })
		require.False(t, ok)
		require.NoError(t, m.Set("a", 3, tick))
		_, ok = m.Update("a", func(int) int {
			pass(tick)
			assert.NoError(t, m.Set("a", 4, 2*hour))
			return 20
		})
		require.False(t, ok)
		release()
		slices.Sort(ends)
		require.Equal(t, []int{1, 2, 3}, ends)
		require.Equal(t, map[string]int{"a": 4}, maps.Collect(m.All()))
	})
}

// Clear does not count keys that are due and wait. Expired is called for them, and a new value stays.
func TestMapClearWhileTasksWait(t *testing.T) {
	hanging(t, func(t *testing.T, timer *hashedwheel.Timer, release func()) {
		var ends []string
		m := New(timer, func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
		require.NoError(t, m.Set("a", 1, tick))
		require.NoError(t, m.Set("b", 2, tick))
		require.NoError(t, m.Set("c", 3, hour))
		pass(tick)
		require.Equal(t, 1, m.clear())
		require.Zero(t, m.clear())
		require.Zero(t, m.Len())
		require.NoError(t, m.Set("a", 4, 2*hour))
		release()
		slices.Sort(ends)
		require.Equal(t, []string{"a1", "b2"}, ends)
		require.Equal(t, map[string]int{"a": 4}, maps.Collect(m.All()))
	})
}

// Past its deadline no call finds a key, and none brings it back, although the worker is late. Only expired comes later,
// once for each value.
func TestMapExpiresWhileTheWorkerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		var ends []string
		m := New(timer, func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
		for value, key := range []string{"a", "b", "c", "d"} {
			require.NoError(t, m.Set(key, value+1, 20*tick))
		}
		require.NoError(t, m.Set("e", 5, 2*hour))
		release := holdUp(t, timer)
		time.Sleep(20*tick - 1)
		value, ok := m.Get("a")
		require.True(t, ok, "its deadline lies ahead")
		require.Equal(t, 1, value)
		for _, late := range []time.Duration{1, 2 * time.Second} {
			time.Sleep(late)
			_, ok = m.Get("a")
			require.False(t, ok, "Get")
			_, ok = m.Touch("a", hour)
			require.False(t, ok, "Touch")
			_, ok = m.TouchAt("a", time.Now().Add(hour))
			require.False(t, ok, "TouchAt")
			_, ok = m.TouchIf("a", hour, func(int, time.Time) bool { t.Error("there is no such key"); return true })
			require.False(t, ok, "TouchIf")
			_, ok = m.Deadline("a")
			require.False(t, ok, "Deadline")
			_, ok = m.Update("a", func(int) int { t.Error("there is no such key"); return 0 })
			require.False(t, ok, "Update")
			_, ok = m.RemoveIf("a", func(int) bool { t.Error("there is no such key"); return true })
			require.False(t, ok, "RemoveIf")
			_, ok = m.Remove("a")
			require.False(t, ok, "Remove")
			require.Equal(t, map[string]int{"e": 5}, maps.Collect(m.All()), "All")
		}
		value, present, err := m.GetOrSet("b", 6, 2*hour)
		require.NoError(t, err)
		require.False(t, present, "GetOrSet")
		require.Equal(t, 6, value)
		require.NoError(t, m.Set("c", 7, 2*hour))
		require.NoError(t, m.Set("d", 8, tick)) // late too, and replaced again
		pass(tick)
		require.NoError(t, m.SetAt("d", 9, time.Now().Add(2*hour)))
		require.Empty(t, ends)
		release()
		require.NoError(t, m.Set("f", 10, 2*hour))
		pass(tick)
		slices.Sort(ends)
		require.Equal(t, []string{"a1", "b2", "c3", "d4", "d8"}, ends)
		require.Equal(t, map[string]int{"b": 6, "c": 7, "d": 9, "e": 5, "f": 10}, maps.Collect(m.All()))
		require.Equal(t, 5, m.Len())
		pass(2 * hour)
		require.Len(t, ends, 10)
		require.Zero(t, m.Len())
	})
}

// On the other side of a bubble no clock tells whether a key has expired. No call finds it there after the worker has reached
// its deadline.
func TestMapExpiresOnTheOtherSide(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithMaxConcurrency(1))
	released := make(chan struct{})
	defer close(released)
	started := make(chan struct{})
	_, err := timer.AfterFunc(0, func() { close(started); <-released })
	require.NoError(t, err)
	<-started // otherwise it may be this one that is due
	m := New[string, int](timer, nil)
	require.NoError(t, m.Set("a", 1, tick))
	require.NoError(t, m.Set("b", 2, hour))
	require.Eventually(t, func() bool { return timer.Stats().Due == 1 }, patience, tick)
	synctest.Test(t, func(t *testing.T) {
		_, ok := m.Get("a")
		require.False(t, ok)
		value, ok := m.Get("b")
		require.True(t, ok)
		require.Equal(t, 2, value)
		require.Equal(t, map[string]int{"b": 2}, maps.Collect(m.All()))
	})
}

// A key expires while the f of an Update or a TouchIf runs and the worker is late. The result is dropped.
func TestMapUpdateWhileTheWorkerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		m := New[string, int](timer, nil)
		require.NoError(t, m.Set("a", 1, 20*tick))
		holdUp(t, timer)
		_, ok := m.Update("a", func(int) int { pass(10 * tick); return 10 })
		require.True(t, ok)
		_, ok = m.TouchIf("a", hour, func(int, time.Time) bool { pass(10 * tick); return true })
		require.False(t, ok)
		require.NoError(t, m.Set("b", 1, 20*tick))
		_, ok = m.Update("b", func(int) int { pass(20 * tick); return 10 })
		require.False(t, ok)
	})
}

// Clear and Stop meet keys that have expired while the worker is late. Clear counts none of them, and leaves them for expired,
// or for Stop. Stop also returns the timeout of a value that was set again.
func TestMapClearAndStopWhileTheWorkerIsLate(t *testing.T) {
	for _, stop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimer(t)
			var ends []string
			m := New(timer, func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
			require.NoError(t, m.Set("a", 1, 20*tick))
			require.NoError(t, m.Set("b", 2, 20*tick))
			require.NoError(t, m.Set("c", 3, hour))
			release := holdUp(t, timer)
			pass(20 * tick)
			require.Equal(t, 1, m.clear(), "c")
			require.NoError(t, m.Set("a", 4, hour))
			release()
			if stop {
				for _, to := range timer.Stop() {
					to.Task().Run(to)
				}
				slices.Sort(ends)
				require.Equal(t, []string{"a1", "a4", "b2"}, ends)
				require.Zero(t, m.Len())
				return
			}
			require.NoError(t, m.Set("d", 5, hour))
			pass(tick)
			slices.Sort(ends)
			require.Equal(t, []string{"a1", "b2"}, ends)
			require.Equal(t, map[string]int{"a": 4, "d": 5}, maps.Collect(m.All()))
		})
	}
}

// A value that is due and waits holds its slot, and a new value of its key needs another one.
func TestMapSlotsWhileTasksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, hashedwheel.WithMaxPending(1), hashedwheel.WithMaxConcurrency(1))
		released := make(chan struct{})
		_, err := timer.AfterFunc(0, func() { <-released })
		require.NoError(t, err)
		pass(tick)
		expired := 0
		m := New(timer, func(string, int) { expired++ })
		require.NoError(t, m.Set("a", 1, tick))
		pass(tick)
		require.ErrorIs(t, m.Set("a", 2, hour), hashedwheel.ErrTooManyPending)
		_, _, err = m.GetOrSet("a", 2, hour)
		require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
		require.Zero(t, m.Len())
		close(released)
		pass(tick)
		require.Equal(t, 1, expired)
		require.NoError(t, m.Set("a", 2, hour))
	})
}

// Stop returns the timeouts of keys that are due and wait. The keys are left in the Map, unless they were set again.
func TestMapStopWhileTasksWait(t *testing.T) {
	hanging(t, func(t *testing.T, timer *hashedwheel.Timer, release func()) {
		var ends []string
		m := New(timer, func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
		require.NoError(t, m.Set("a", 1, tick))
		require.NoError(t, m.Set("b", 2, tick))
		require.NoError(t, m.Set("c", 3, tick))
		require.NoError(t, m.Set("d", 4, hour))
		pass(tick)
		require.NoError(t, m.Set("c", 5, hour))
		m.Clear() // not of a and b, which are due
		require.NoError(t, m.Set("d", 6, hour))
		left := timer.Stop()
		require.Len(t, left, 4)
		release()
		require.Empty(t, ends)
		require.Equal(t, map[string]int{"a": 1, "b": 2, "d": 6}, maps.Collect(m.All()))
		require.Equal(t, 3, m.Len())
		_, ok := m.Get("a")
		require.False(t, ok)
		require.ErrorIs(t, m.Set("a", 7, hour), hashedwheel.ErrStopped)
		value, ok := m.Remove("a")
		require.True(t, ok)
		require.Equal(t, 1, value)
		for _, to := range left {
			to.Task().Run(to)
		}
		slices.Sort(ends)
		require.Equal(t, []string{"b2", "c3", "d6"}, ends)
		require.Zero(t, m.Len())
	})
}

// A panic in expired is reported and counted, and the values behind it expire, although they have waited.
func TestMapPanicWhileTasksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var values []any
		timer := newTimer(t, hashedwheel.WithMaxConcurrency(1),
			hashedwheel.WithPanicHandler(func(_ *hashedwheel.Timeout, value any, _ []byte) { values = append(values, value) }))
		m := New(timer, func(int, int) { time.Sleep(time.Second); panic(errOnPurpose) })
		for key := range 3 {
			require.NoError(t, m.Set(key, 0, tick))
		}
		pass(tick)
		require.Zero(t, m.Len())
		pass(3 * time.Second)
		require.Equal(t, []any{errOnPurpose, errOnPurpose, errOnPurpose}, values)
		require.EqualValues(t, 3, timer.Stats().Panics)
	})
}

var errOnPurpose = errors.New("on purpose")
