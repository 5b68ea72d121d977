package main

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// A record has the calls of each key, and when they were made.
type record struct {
	began time.Time
	mu    sync.Mutex
	calls map[string][]made
}

type made struct {
	value int
	at    time.Duration
}

func newRecord() *record { return &record{began: time.Now(), calls: make(map[string][]made)} }

func (r *record) call(key string, value int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[key] = append(r.calls[key], made{value, time.Since(r.began)})
}

func (r *record) of(key string) []made {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[key]
}

// busy returns the number of keys that are in a call or an interval. It has a
// lock because virtual time, when it passes, does not order memory.
func (th *Throttle[K, V]) busy() int {
	th.mu.Lock()
	defer th.mu.Unlock()
	return len(th.keys)
}

// pass lets virtual time pass, and waits until all tasks that were due have run.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func newTimer(t *testing.T, opts ...hashedwheel.Option) *hashedwheel.Timer {
	t.Helper()
	timer, err := hashedwheel.New(append(opts, hashedwheel.WithTick(10*ms))...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

func TestThrottle(t *testing.T) {
	for _, trailing := range []bool{false, true} {
		t.Run(fmt.Sprint("trailing=", trailing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecord()
				th := NewThrottle(newTimer(t), 95*ms, trailing, r.call)
				call := func(key string, value int, want bool) {
					made, err := th.Call(key, value)
					require.NoError(t, err)
					require.Equal(t, want, made)
				}
				call("a", 1, true)
				pass(20 * ms)
				call("a", 2, false)
				call("b", 3, true)
				pass(80*ms - 1)
				call("a", 4, false)
				pass(1)
				if !trailing {
					require.Zero(t, th.Kept())
					call("a", 5, true)
					require.Equal(t, []made{{1, 0}, {5, 100 * ms}}, r.of("a"))
				} else {
					require.Equal(t, []made{{1, 0}, {4, 100 * ms}}, r.of("a"))
					call("a", 5, false)
					require.Equal(t, 1, th.Kept())
					pass(time.Second)
					require.Equal(t, []made{{1, 0}, {4, 100 * ms}, {5, 200 * ms}}, r.of("a"))
				}
				pass(time.Second)
				require.Zero(t, th.Kept())
				require.Zero(t, th.busy())
				require.Equal(t, []made{{3, 20 * ms}}, r.of("b"))
				call("b", 6, true)
			})
		})
	}
}

// An interval begins at the end of a call, and calls do not overlap.
func TestThrottleOfLongCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord()
		th := NewThrottle(newTimer(t), 100*ms, true, func(key string, value int) {
			r.call(key, value)
			time.Sleep(250 * ms)
		})
		go th.Call("a", 1)
		pass(200 * ms)
		th.Call("a", 2) // during the call
		pass(100 * ms)
		th.Call("a", 3)
		pass(200 * ms)
		th.Call("a", 4) // during the next call, which the timer makes
		pass(2 * time.Second)
		require.Equal(t, []made{{1, 0}, {3, 350 * ms}, {4, 700 * ms}}, r.of("a"))
	})
}

// A call comes after the interval has expired, and before end has the lock. It
// belongs to that interval.
func TestThrottleMeetsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord()
		timer := newTimer(t)
		th := NewThrottle(timer, 100*ms, true, r.call)
		var ended *throttled[int]
		th.ends = keyed.New(timer, func(_ string, k *throttled[int]) { ended = k }) // the test calls end itself
		th.Call("a", 1)
		pass(150 * ms)
		made1, err := th.Call("a", 2)
		require.NoError(t, err)
		require.False(t, made1)
		th.end("a", ended)
		require.Equal(t, []made{{1, 0}, {2, 150 * ms}}, r.of("a"))
		require.Equal(t, 1, timer.Pending(), "the next interval")
	})
}

// After a panic of a call, the key is not locked, and its interval still applies.
func TestThrottlePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord()
		panics := 0
		timer := newTimer(t, hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) { panics++ }))
		th := NewThrottle(timer, 100*ms, true, func(key string, value int) {
			r.call(key, value)
			panic(value)
		})
		require.PanicsWithValue(t, 1, func() { th.Call("a", 1) })
		made1, err := th.Call("a", 2)
		require.NoError(t, err)
		require.False(t, made1)
		pass(300 * ms)
		require.Equal(t, 1, panics)
		require.Equal(t, []made{{1, 0}, {2, 100 * ms}}, r.of("a"))
		require.Zero(t, th.busy())
	})
}

func TestThrottleRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord()
		timer := newTimer(t, hashedwheel.WithMaxPending(1))
		th := NewThrottle(timer, 100*ms, true, r.call)
		for _, key := range []string{"a", "b", "b"} { // the timer refuses the interval of b
			made1, err := th.Call(key, 1)
			require.True(t, made1)
			if key == "b" {
				require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
			}
		}
		th.Call("a", 2)
		require.Equal(t, 1, th.Kept())
		timer.Stop()
		made1, err := th.Call("c", 1)
		require.ErrorIs(t, err, hashedwheel.ErrStopped)
		require.False(t, made1)
		pass(time.Second)
		require.Equal(t, []made{{1, 0}}, r.of("a"))
		require.Equal(t, []made{{1, 0}, {1, 0}}, r.of("b"))
		require.Equal(t, 1, th.Kept(), "it counts the call that was not made")
	})
}
