package keyed

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A wrong option panics with a message that names it, its value and what is allowed. A nil Option is ignored.
func TestWrongOptions(t *testing.T) {
	timer := newTimer(t)
	for want, opt := range map[string]Option{
		"keyed: WithConcurrency(-1): the limit must be positive, or 0 for none": WithConcurrency(-1),
		"keyed: WithJitter(-0.1): the fraction must be 0 to 1":                  WithJitter(-0.1),
		"keyed: WithJitter(1.5): the fraction must be 0 to 1":                   WithJitter(1.5),
		"keyed: WithJitter(NaN): the fraction must be 0 to 1":                   WithJitter(math.NaN()),
	} {
		require.PanicsWithValue(t, want, func() { New[int, int](timer, nil, opt) })
	}
	New[int, int](timer, nil, nil, WithConcurrency(0), WithJitter(0), WithJitter(1))
}

// calls records calls of expired, each of which takes a time.
type calls struct {
	took time.Duration

	mu      sync.Mutex
	began   time.Time
	running int
	most    int             // calls at once
	starts  []time.Duration // since began
	keys    map[int]int     // how often expired was called for each
}

func (c *calls) expired(key, _ int) {
	c.mu.Lock()
	c.running++
	c.most = max(c.most, c.running)
	c.starts = append(c.starts, time.Since(c.began))
	if c.keys == nil {
		c.keys = make(map[int]int)
	}
	c.keys[key]++
	c.mu.Unlock()
	time.Sleep(c.took)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

// At most so many calls run as the limit of the map allows, and each of the others starts as soon as one has ended. The keys
// that wait are gone. They delay no other task of the timer, and cost no goroutine.
func TestConcurrency(t *testing.T) {
	for name, opts := range map[string][]hashedwheel.Option{
		"runners": nil,
		"limit":   {hashedwheel.WithMaxConcurrency(3)},
		"pool":    {hashedwheel.WithExecutor(func(run func()) error { go run(); return nil })},
		"full":    {hashedwheel.WithMaxPending(1001)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n, keys, took = 2, 1000, 50 * tick
				timer := newTimer(t, opts...)
				c := calls{took: took, began: time.Now()}
				m := New(timer, c.expired, WithConcurrency(n))
				for key := range keys {
					require.NoError(t, m.Set(key, key, 10*tick))
				}
				pass(15 * tick) // the first call holds up others for a moment, until there are more runners
				require.Zero(t, m.Len())
				require.Empty(t, maps.Collect(m.All()))
				_, ok := m.Get(keys - 1)
				require.False(t, ok)
				st := timer.Stats()
				require.Zero(t, st.Pending)
				require.Zero(t, st.Due)
				require.EqualValues(t, keys, st.Expired)
				require.Equal(t, n, st.Running)
				require.LessOrEqual(t, st.Runners, n+1)
				for range 100 {
					start := time.Now()
					done := make(chan time.Duration, 1)
					_, err := timer.AfterFunc(3*tick/2, func() { done <- time.Since(start) })
					require.NoError(t, err)
					require.Less(t, <-done, 5*tick/2, "another task of the timer")
				}
				pass(hour)
				require.Equal(t, n, c.most)
				require.Len(t, c.keys, keys)
				require.Len(t, c.starts, keys)
				for i, start := range c.starts[:n] {
					require.GreaterOrEqual(t, start, 10*tick, "call %d", i)
					require.Less(t, start, 12*tick, "call %d", i) // the pool sees within two ticks that the first one blocks
				}
				for i, start := range c.starts[n:] { // at once, or when the pool sees that its task is behind one that blocks
					require.GreaterOrEqual(t, start-c.starts[i], took, "call %d", i+n)
					require.Less(t, start-c.starts[i], took+tick, "call %d", i+n)
				}
				st = timer.Stats()
				require.EqualValues(t, keys+100, st.Expired)
				require.Zero(t, st.Due)
				require.Zero(t, st.Pending)
			})
		})
	}
}

// The limit of a map holds for it alone, and a map without a limit has none.
func TestConcurrencyOfTwoMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		counts := []*calls{{took: tick}, {took: tick}, {took: tick}}
		for i, c := range counts {
			m := New(timer, c.expired, WithConcurrency([]int{1, 3, 0}[i]))
			for key := range 9 {
				require.NoError(t, m.Set(key, key, tick))
			}
		}
		pass(100 * tick)
		require.Equal(t, 1, counts[0].most)
		require.Equal(t, 3, counts[1].most)
		require.Equal(t, 9, counts[2].most)
	})
}

// After Stop the calls that wait still come, at most n at a time, and Shutdown waits for them. Keys that have not expired are left.
func TestConcurrencyShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		c := calls{took: 50 * tick}
		m := New(timer, c.expired, WithConcurrency(2))
		for key := range 100 {
			require.NoError(t, m.Set(key, key, tick))
		}
		pass(60 * tick) // the calls of two have returned, and two run
		require.NoError(t, m.Set(200, 0, hour))
		left, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Len(t, c.keys, 100)
		require.Len(t, c.starts, 100)
		require.Equal(t, 2, c.most)
		require.Equal(t, map[int]int{200: 0}, maps.Collect(m.All()))
		for range 2 {
			left[0].Task().Run(left[0])
		}
		require.Len(t, c.starts, 101)
		require.Zero(t, m.Len())
	})
}

// Stop comes while a call ends, and while keys come due and wait, on real time. Each key has one end, and no call starts after
// Shutdown.
func TestConcurrencyStopRace(t *testing.T) {
	rnd := newRand(t)
	all, returned := 0, 0
	for end := time.Now().Add(stressTime(t) / 2); goesOn(end, returned > 0 && returned < all); {
		timer := newTimer(t, hashedwheel.WithTick(20*time.Microsecond))
		c := calls{}
		m := New(timer, c.expired, WithConcurrency(1+rnd.IntN(2)))
		const keys = 200
		for key := range keys {
			require.NoError(t, m.Set(key, key, time.Duration(rnd.IntN(200))*time.Microsecond))
		}
		yield(rnd.IntN(300))
		if rnd.IntN(2) == 0 {
			time.Sleep(time.Duration(rnd.IntN(400)) * time.Microsecond)
		}
		left, err := timer.Shutdown(context.Background())
		require.NoError(t, err)
		require.Equal(t, keys, len(c.starts)+len(left))
		require.Equal(t, len(left), m.Len())
		require.Len(t, c.keys, len(c.starts))
		all += keys
		returned += len(left)
	}
	t.Logf("%d of %d left", returned, all)
}

// A call that panics, and one that ends its goroutine, gives its permit back.
func TestConcurrencyAfterPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := 0
		timer := newTimer(t, hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) { panics++ }))
		var order []int
		m := New(timer, func(key, _ int) {
			time.Sleep(tick)
			order = append(order, key)
			switch key % 3 {
			case 0:
				panic("on purpose")
			case 1:
				runtime.Goexit()
			}
		}, WithConcurrency(1))
		for key := range 30 {
			require.NoError(t, m.Set(key, key, tick))
		}
		time.Sleep(31 * tick)
		synctest.Wait()
		require.Len(t, order, 30)
		require.Equal(t, 10, panics)
		slices.Sort(order)
		require.Len(t, slices.Compact(order), 30)
	})
}

// Calls that end their goroutine do not nest, however many wait. Each comes on a goroutine of its own, without what another call
// has set on its goroutine. One runs at a time, and Shutdown waits for all of them.
func TestCallsThatEndTheirGoroutineDoNotNest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 200
		timer := newTimer(t)
		depth, least, running, n := 0, math.MaxInt, 0, 0
		m := New(timer, func(int, int) {
			running++
			assert.Equal(t, 1, running)
			pcs := make([]uintptr, 1000)
			stack := runtime.Callers(0, pcs)
			depth, least = max(depth, stack), min(least, stack)
			assert.False(t, debug.SetPanicOnFault(true), "set by another call")
			time.Sleep(tick)
			running--
			n++
			runtime.Goexit()
		}, WithConcurrency(1))
		for key := range keys {
			require.NoError(t, m.Set(key, key, tick))
		}
		pass(10 * tick)
		require.Equal(t, 1, timer.Stats().Running)
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, keys, n)
		require.Zero(t, running)
		require.Less(t, depth, least+10)
	})
}

// A panic handler that panics ends the program at once, although keys wait. If it does not, because an executor recovers the panic,
// the calls for them come.
func TestPanicHandlerPanicsWhileKeysWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, hashedwheel.WithPanicHandler(func(_ *hashedwheel.Timeout, value any, _ []byte) { panic(value) }))
		var left []*hashedwheel.Timeout
		var n atomic.Int32
		m := New(timer, func(int, int) {
			if n.Load() > 0 {
				time.Sleep(tick)
				n.Add(1)
				return
			}
			n.Add(1)
			for _, to := range left[1:] {
				to.Task().Run(to) // they wait
			}
			panic(errOnPurpose)
		}, WithConcurrency(1))
		const keys = 5
		for key := range keys {
			require.NoError(t, m.Set(key, key, hour))
		}
		left = timer.Stop()
		require.Len(t, left, keys)
		require.PanicsWithValue(t, errOnPurpose, func() { left[0].Task().Run(left[0]) })
		require.EqualValues(t, 1, n.Load())
		pass(keys * tick)
		require.EqualValues(t, keys, n.Load())
	})
}

// Calls use the map while keys wait, also Clear, which leaves the keys that wait to expired.
func TestConcurrencyFromInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		var m *Map[string, int]
		var ends []string
		m = New(timer, func(key string, value int) {
			ends = append(ends, fmt.Sprint(key, value))
			m.Clear()
			assert.NoError(t, m.Set("x", value, hour), "removed by the next call")
			if value < 10 {
				assert.NoError(t, m.Set(key, value+10, tick))
				time.Sleep(2 * tick) // it is due now, and waits
				assert.Equal(t, 1, m.Len())
				assert.NoError(t, m.Set(key, value+20, 0))
				time.Sleep(2 * tick)
			}
		}, WithConcurrency(1))
		require.NoError(t, m.Set("a", 1, tick))
		require.NoError(t, m.Set("b", 2, tick))
		pass(hour / 2)
		slices.Sort(ends)
		require.Equal(t, []string{"a1", "a11", "a21", "b12", "b2", "b22"}, ends)
		require.Equal(t, 1, m.Len())
	})
}

// A call that uses its key again and again makes the others wait no longer than for their turn.
func TestConcurrencyIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		var m *Map[int, int]
		var order []int
		m = New(timer, func(key, _ int) {
			order = append(order, key)
			if !timer.IsStopped() {
				assert.NoError(t, m.Set(key, 0, 0))
			}
			time.Sleep(3 * tick)
		}, WithConcurrency(1))
		for key := range 5 {
			require.NoError(t, m.Set(key, 0, tick))
		}
		time.Sleep(100*tick + tick/2) // while a call sleeps
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Greater(t, len(order), 25)
		for i := range len(order) - 5 {
			require.Equal(t, order[i], order[i+5])
		}
		require.ElementsMatch(t, []int{0, 1, 2, 3, 4}, order[5:10])
	})
}

// Lives are longer by up to the fraction of the delay, each by another, and never shorter.
func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, delay, fraction = 1000, 1000 * tick, 0.2
		timer := newTimer(t)
		start := time.Now()
		at := make(map[int]time.Duration)
		var mu sync.Mutex
		m := New(timer, func(key, _ int) {
			mu.Lock()
			defer mu.Unlock()
			at[key] = time.Since(start)
		}, WithJitter(fraction))
		told := make(map[int]time.Duration)
		set := map[string]func(key int){
			"Set":      func(key int) { require.NoError(t, m.Set(key, 0, delay)) },
			"GetOrSet": func(key int) { _, _, err := m.GetOrSet(key, 0, delay); require.NoError(t, err) },
			"replace": func(key int) {
				require.NoError(t, m.Set(key, 0, hour))
				require.NoError(t, m.Set(key, 1, delay))
			},
			"Touch": func(key int) {
				require.NoError(t, m.Set(key, 0, hour))
				_, ok := m.Touch(key, delay)
				require.True(t, ok)
			},
			"TouchIf": func(key int) {
				require.NoError(t, m.Set(key, 0, hour))
				_, ok := m.TouchIf(key, delay, func(int, time.Time) bool { return true })
				require.True(t, ok)
			},
		}
		for name, set := range set {
			start = time.Now()
			clear(at)
			for key := range keys {
				set(key)
				deadline, ok := m.Deadline(key)
				require.True(t, ok)
				told[key] = deadline.Sub(start)
			}
			time.Sleep(delay + delay/2)
			synctest.Wait()
			require.Equal(t, told, at, "%s: what Deadline has told", name)
			different := make(map[time.Duration]bool)
			sum := time.Duration(0)
			for _, life := range at {
				require.GreaterOrEqual(t, life, delay, name)
				require.LessOrEqual(t, life, delay+delay/5+tick, name)
				different[life] = true
				sum += life
			}
			require.Greater(t, len(different), 150, name) // 197 of 201 ticks on average
			require.InDelta(t, 1.1, float64(sum)/keys/float64(delay), 0.02, name)
		}
	})
}

// Jitter keeps a delay that is zero or less, and one that is too long stays so.
func TestJitterOfExtremes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		m := New[int, int](timer, nil, WithJitter(1))
		for key, delay := range []time.Duration{math.MinInt64, -hour, 0} {
			require.Equal(t, delay, m.longer(delay))
			require.NoError(t, m.Set(key, 0, delay))
		}
		pass(tick)
		require.Zero(t, m.Len())
		for key := range 100 {
			for _, delay := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 3 * 2} {
				require.GreaterOrEqual(t, m.longer(delay), delay)
			}
			require.NoError(t, m.Set(key, 0, math.MaxInt64))
		}
		pass(1000 * hour)
		require.Equal(t, 100, m.Len())
		m.Clear()
	})
}

// Keys that wait for hung calls are in Stats, and the log says so after a second and then about once a minute, with how many, since
// when, and for which limit. When none waits, it says so once. The checks become rare, so that a bubble in which the calls never return
// ends in a deadlock.
func TestKeysThatWaitAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		timer := newTimer(t, hashedwheel.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		release := make(chan struct{})
		end := sync.OnceFunc(func() { close(release) })
		defer end()
		m := New(timer, func(int, int) { <-release }, WithConcurrency(4))
		other := New(timer, func(int, int) {}, WithConcurrency(4)) // has nothing that waits
		for i := range 260 {
			require.NoError(t, m.Set(i, i, time.Second))
		}
		require.NoError(t, other.Set(1, 1, time.Second))
		pass(1100 * time.Millisecond)
		st := timer.Stats()
		require.Equal(t, 256, st.KeysWaiting)
		require.Equal(t, []int{0, 0, 4}, []int{st.Pending, st.Due, st.Running})
		pass(2*time.Minute + 30*time.Second)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 3)
		for i, line := range lines {
			require.Regexp(t, `msg="hashedwheel: keys wait for WithConcurrency\(4\): as many calls of expired are in progress" waiting=256 late=`+
				[]string{`1\.?\d*s`, `1m\d.*s`, `2m\d.*s`}[i], line)
		}
		wakeups := timer.Stats().Wakeups
		pass(200 * 365 * 24 * time.Hour)
		require.Less(t, timer.Stats().Wakeups-wakeups, uint64(200))
		log.Reset()
		end()
		pass(100 * 365 * 24 * time.Hour) // until the next check
		require.Zero(t, timer.Stats().KeysWaiting)
		require.Regexp(t, `^.*msg="hashedwheel: keys no longer wait" lasted=\S+\n$`, log.String())
	})
}

// The timer knows a Map only while keys wait in it. A Map that is dropped is collected.
func TestMapWhoseKeysWaitedIsCollected(t *testing.T) {
	timer := newTimer(t)
	dropped := func() weak.Pointer[limit[int, int]] {
		release := make(chan struct{})
		var called sync.WaitGroup
		called.Add(3)
		m := New(timer, func(int, int) { <-release; called.Done() }, WithConcurrency(1))
		for i := range 3 {
			require.NoError(t, m.Set(i, i, 0))
		}
		require.Eventually(t, func() bool { return timer.Stats().KeysWaiting == 2 }, testkit.Patience, time.Millisecond)
		close(release)
		called.Wait()
		return weak.Make(m.limit)
	}()
	require.Eventually(t, func() bool { runtime.GC(); return dropped.Value() == nil }, testkit.Patience, 10*time.Millisecond)
}
