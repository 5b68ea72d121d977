package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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

func (r *record) all() map[string][]made {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.calls)
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

// boundary returns the first tick boundary at or after d.
func boundary(d, tick time.Duration) time.Duration { return (d + tick - 1) / tick * tick }

func newTimer(t *testing.T, opts ...hashedwheel.Option) *hashedwheel.Timer {
	t.Helper()
	timer, err := hashedwheel.New(append(opts, hashedwheel.WithTick(10*ms))...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

// randomly runs a test of random operations in a few bubbles.
func randomly(t *testing.T, f func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	for range 4 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
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

// Random operations on a few keys are compared with a simple model at each step.
func TestThrottleModel(t *testing.T) {
	for _, trailing := range []bool{false, true} {
		randomly(t, func(t *testing.T, rng *rand.Rand) {
			const tick, interval = 10 * ms, 73 * ms
			r := newRecord()
			timer := newTimer(t)
			th := NewThrottle(timer, interval, trailing, r.call)
			type interv struct {
				until time.Duration
				kept  bool
				value int
			}
			model := map[string]*interv{}
			want := map[string][]made{}
			kept := 0
			for n := range 2000 {
				now := time.Since(r.began)
				if rng.IntN(4) > 0 {
					key := fmt.Sprint(rng.IntN(6))
					got, err := th.Call(key, n)
					require.NoError(t, err)
					m := model[key]
					require.Equal(t, m == nil, got)
					switch {
					case m == nil:
						want[key] = append(want[key], made{n, now})
						model[key] = &interv{until: boundary(now+interval, tick)}
					case trailing:
						if !m.kept {
							kept++
						}
						m.kept, m.value = true, n
					}
				} else {
					most := 40 * ms
					if rng.IntN(10) == 0 {
						most = 400 * ms
					}
					pass(time.Duration(rng.Int64N(int64(most))))
					now = time.Since(r.began)
					for key, m := range model {
						for m.until <= now && m.kept {
							want[key] = append(want[key], made{m.value, m.until})
							*m = interv{until: m.until + boundary(interval, tick)}
							kept--
						}
						if m.until <= now {
							delete(model, key)
						}
					}
					require.Equal(t, want, r.all())
				}
				require.Equal(t, kept, th.Kept())
				require.Equal(t, len(model), th.busy())
				require.Equal(t, len(model), timer.Pending())
			}
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
		require.Equal(t, map[string][]made{"a": {{1, 0}}, "b": {{1, 0}, {1, 0}}}, r.all())
		require.Equal(t, 1, th.Kept(), "it counts the call that was not made")
	})

	// The timer is stopped during the call.
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		var th *Throttle[string, int]
		th = NewThrottle(timer, 100*ms, true, func(key string, value int) {
			th.Call(key, 2)
			timer.Stop()
		})
		made1, err := th.Call("a", 1)
		require.True(t, made1)
		require.ErrorIs(t, err, hashedwheel.ErrStopped)
		require.Zero(t, th.busy())
		require.Zero(t, th.Kept())
	})
}

// Many goroutines use a few keys in real time. No two calls of a key overlap or are
// closer than the interval.
func TestThrottleInParallel(t *testing.T) {
	const interval = 3 * ms
	timer, err := hashedwheel.New(hashedwheel.WithTick(ms))
	require.NoError(t, err)
	defer timer.Stop()
	var calls, wrong atomic.Int64
	var busy [3]atomic.Bool
	var ended [3]time.Time // without a lock, because calls of a key do not overlap
	th := NewThrottle(timer, interval, true, func(key, _ int) {
		if busy[key].Swap(true) || !ended[key].IsZero() && time.Since(ended[key]) < interval {
			wrong.Add(1)
		}
		calls.Add(1)
		ended[key] = time.Now()
		busy[key].Store(false)
	})
	var callers sync.WaitGroup
	for i := range 6 {
		callers.Go(func() {
			for began := time.Now(); time.Since(began) < 200*ms; {
				th.Call(i%3, i)
				time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			}
		})
	}
	callers.Wait()
	require.Eventually(t, func() bool { return th.Kept() == 0 }, far, ms)
	_, err = timer.Shutdown(t.Context())
	require.NoError(t, err)
	require.Zero(t, wrong.Load())
	require.Positive(t, calls.Load())
}
