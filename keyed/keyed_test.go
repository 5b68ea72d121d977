package keyed

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// An entry of the model: a value, and the number of the boundary at which it expires.
type entry struct{ value, until int }

// Random operations on a few keys, on virtual time, are compared with a map after each step. Each value ends at the
// right time and in the right way.
func TestMapModel(t *testing.T) {
	rnd := newRand(t)
	for range newShare(t).Rounds(2, sized(4, 20, 400)) {
		synctest.Test(t, func(t *testing.T) {
			const tick = 10 * time.Millisecond
			const limit = 6
			timer := newTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithMaxPending(limit))
			start := time.Now()
			model := map[int]entry{}
			ends := map[int]int{} // how often each value has expired since the last comparison
			var mu sync.Mutex
			m := New(timer, func(_, value int) {
				mu.Lock()
				defer mu.Unlock()
				ends[value]++
			})
			for n := range 3000 {
				key := rnd.IntN(10)
				delay := time.Duration(rnd.IntN(120)-5) * time.Millisecond
				until := int((time.Since(start) + max(delay, 1) + tick - 1) / tick)
				e, known := model[key]
				op := rnd.IntN(6)
				if rnd.IntN(200) == 0 {
					op = 6
				}
				switch op {
				case 0, 1:
					var got int
					var present bool
					var err error
					if op == 0 {
						err = m.Set(key, n, delay)
					} else {
						got, present, err = m.GetOrSet(key, n, delay)
						require.Equal(t, known, present)
					}
					switch {
					case !known && len(model) == limit:
						require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
						require.Zero(t, got)
					case present:
						require.NoError(t, err)
						require.Equal(t, e.value, got)
					default:
						require.NoError(t, err)
						model[key] = entry{n, until}
					}
				case 2, 3:
					value, ok := m.Touch(key, delay)
					require.Equal(t, known, ok)
					require.Equal(t, e.value, value)
					if known {
						model[key] = entry{e.value, until}
					}
				case 4:
					value, ok := m.Remove(key)
					require.Equal(t, known, ok)
					require.Equal(t, e.value, value)
					delete(model, key)
				case 5:
					pass(time.Duration(rnd.IntN(25)) * time.Millisecond)
					want := map[int]int{}
					for key, e := range model {
						if e.until <= int(time.Since(start)/tick) {
							want[e.value]++
							delete(model, key)
						}
					}
					mu.Lock()
					require.Equal(t, want, ends)
					clear(ends)
					mu.Unlock()
				case 6:
					require.Equal(t, len(model), m.clear())
					clear(model)
				}
				value, ok := m.Get(key)
				e, known = model[key]
				if value != e.value || ok != known || m.Len() != len(model) || timer.Pending() != len(model) {
					t.Fatalf("key %d is %d, %t, of %d, %d pending; should be %d, %t, of %d",
						key, value, ok, m.Len(), timer.Pending(), e.value, known, len(model))
				}
			}
			values := map[int]int{}
			for key, e := range model {
				values[key] = e.value
			}
			require.Equal(t, values, maps.Collect(m.All()))
		})
	}
}

// GetOrSet returns the value that is present, and leaves its deadline as it is.
func TestMapGetOrSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New[string, int](newTimer(t, hashedwheel.WithMaxPending(1)), nil)
		check := func(value int, delay time.Duration, want int, present bool) {
			t.Helper()
			got, ok, err := m.GetOrSet("a", value, delay)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, present, ok)
		}
		check(1, 5*tick, 1, false)
		check(2, time.Hour, 1, true)
		got, ok, err := m.GetOrSet("b", 9, tick)
		require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
		require.False(t, ok)
		require.Zero(t, got)
		pass(5*tick - 1)
		check(3, 0, 1, true)
		pass(1)
		check(4, tick, 4, false)
		pass(tick)
		require.Zero(t, m.Len())
	})
}

// SetAt and TouchAt end a life where ResetAt would, exactly, with and without a key. Jitter does not change it. The zero Time
// changes nothing.
func TestMapSetAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		m := New[string, int](timer, nil, WithJitter(1))
		var like hashedwheel.Timeout
		timer.Bind(&like, hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}))
		pass(hour + tick/3)
		ahead := []time.Duration{
			math.MinInt64, -hour, -tick, -1, 0, 1, tick/3*2 - 1, tick / 3 * 2, tick, hour + tick/3*2 - 1, hour + tick/3*2 + 1, math.MaxInt64,
		}
		for _, before := range []time.Duration{-1, tick, 2 * hour} { // the deadline that the key had; or none
			for _, d := range ahead {
				at := time.Now().Add(d)
				_, err := like.ResetAt(at)
				require.NoError(t, err)
				m.Clear()
				for _, touch := range []bool{false, true} {
					if before > 0 {
						require.NoError(t, m.SetAt("a", 1, time.Now().Add(before)))
					}
					if touch && before > 0 {
						value, ok := m.TouchAt("a", at)
						require.True(t, ok)
						require.Equal(t, 1, value)
					} else {
						require.NoError(t, m.SetAt("a", 2, at))
					}
					deadline, ok := m.Deadline("a")
					require.True(t, ok)
					require.Equal(t, like.Deadline(), deadline, "%v ahead, before %v", d, before)
				}
			}
		}
		m.Clear()
		require.NoError(t, m.SetAt("a", 1, time.Now().Add(5*tick)))
		require.Error(t, m.SetAt("a", 2, time.Time{}))
		require.Error(t, m.SetAt("b", 2, time.Time{}))
		value, ok := m.TouchAt("a", time.Time{})
		require.False(t, ok)
		require.Zero(t, value)
		_, ok = m.TouchAt("b", time.Now().Add(hour))
		require.False(t, ok)
		pass(5 * tick)
		require.Equal(t, map[string]int{"a": 1}, maps.Collect(m.All()))
		pass(tick)
		require.Zero(t, m.Len())
		_, ok = m.TouchAt("a", time.Now().Add(hour))
		require.False(t, ok)
		like.Cancel()
		timer.Stop()
		require.ErrorIs(t, m.SetAt("a", 1, time.Now().Add(hour)), hashedwheel.ErrStopped)
	})
}

// A deadline with a monotonic reading is exact on real time too: one at a boundary does not become the next one, although time
// passes during the call.
func TestMapSetAtBoundary(t *testing.T) {
	m := New[string, int](newTimer(t, hashedwheel.WithTick(20*time.Microsecond)), nil)
	require.NoError(t, m.Set("a", 1, hour))
	boundary, ok := m.Deadline("a")
	require.True(t, ok)
	check := func(what string) {
		t.Helper()
		got, ok := m.Deadline("a")
		require.True(t, ok)
		require.Zero(t, got.Sub(boundary), what)
	}
	for range 100 {
		require.NoError(t, m.Set("a", 2, 2*hour))
		require.NoError(t, m.SetAt("a", 3, boundary))
		check("SetAt")
		_, ok = m.Touch("a", 2*hour)
		require.True(t, ok)
		_, ok = m.TouchAt("a", boundary)
		require.True(t, ok)
		check("TouchAt")
		m.Clear()
		require.NoError(t, m.SetAt("a", 4, boundary))
		check("SetAt of a new key")
	}
	m.Clear()
}

// A Set that is refused changes no value and no deadline, and adds no key.
func TestMapRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, hashedwheel.WithMaxPending(1))
		got := make(chan string, 1)
		m := New(timer, func(key int, value string) { got <- fmt.Sprint(key, value) })
		require.NoError(t, m.Set(1, "a", 5*tick))
		require.ErrorIs(t, m.Set(2, "b", tick), hashedwheel.ErrTooManyPending)
		require.Equal(t, 1, m.Len())
		require.NoError(t, m.Set(1, "c", 3*tick), "a Set of a known key takes no slot")
		pass(3 * tick)
		require.Equal(t, "1c", <-got)
		require.NoError(t, m.Set(2, "b", tick))
		require.EqualValues(t, 1, timer.Stats().RejectedFull)

		floats := New[float64, int](newTimer(t), nil)
		require.ErrorIs(t, floats.Set(math.NaN(), 1, tick), errNotEqual)
		_, ok, err := floats.GetOrSet(math.NaN(), 1, tick)
		require.ErrorIs(t, err, errNotEqual)
		require.False(t, ok)
		require.Zero(t, floats.Len())
	})
}

// After Stop nothing expires and nothing is found, but what was left can still be released.
func TestMapAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		m := New(timer, func(key, _ int) { t.Error("key", key, "has expired") })
		left := map[int]int{}
		for key := range 10 {
			require.NoError(t, m.Set(key, 100+key, 5*tick))
			left[key] = 100 + key
		}
		require.Len(t, timer.Stop(), 10)
		pass(10 * tick)
		for key := range 11 { // the last one was never there
			value, ok := m.Get(key)
			require.False(t, ok)
			require.Zero(t, value)
			value, ok = m.Touch(key, tick)
			require.False(t, ok)
			require.Zero(t, value)
			require.ErrorIs(t, m.Set(key, -1, tick), hashedwheel.ErrStopped)
			value, ok, err := m.GetOrSet(key, -1, tick)
			require.ErrorIs(t, err, hashedwheel.ErrStopped)
			require.False(t, ok)
			require.Zero(t, value)
		}
		require.Equal(t, left, maps.Collect(m.All()))
		require.Equal(t, 10, m.Len())
		for key := range 4 {
			value, ok := m.Remove(key)
			require.True(t, ok)
			require.Equal(t, left[key], value)
			_, ok = m.Remove(key)
			require.False(t, ok)
		}
		require.Equal(t, 6, m.clear())
		require.Zero(t, m.clear())
		require.Zero(t, m.Len())
		require.Equal(t, hashedwheel.Stats{Accepted: 10, Returned: 10, RejectedStopped: 22}, outcomes(timer))

		empty := New[int, int](timer, nil) // with the timer stopped already
		require.ErrorIs(t, empty.Set(1, 1, tick), hashedwheel.ErrStopped)
		require.Zero(t, empty.Len())
	})
	t.Run("run", func(t *testing.T) {
		synctest.Test(t, testRunAfterStop)
	})
	t.Run("race", testRunAfterStopRace)
}

// The caller of Stop may run the tasks of the timeouts that it got. A value expires then, unless it was removed.
func testRunAfterStop(t *testing.T) {
	timer := newTimer(t)
	var ends []string
	m := New(timer, func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
	run := func(left []*hashedwheel.Timeout) {
		for _, to := range left {
			to.Task().Run(to)
			to.Task().Run(to)
		}
	}
	require.NoError(t, m.Set("a", 1, time.Hour))
	require.NoError(t, m.Set("b", 2, time.Hour))
	left := timer.Stop()
	_, ok := m.Remove("a")
	require.True(t, ok)
	require.Nil(t, m.shard("a").spare, "the caller of Stop knows the item")
	run(left)
	require.Equal(t, []string{"b2"}, ends)
	_, ok = m.Remove("b")
	require.False(t, ok)
	require.Zero(t, m.Len())

	timer = newTimer(t)
	m = New(timer, func(string, int) { t.Error("the value has been removed") })
	require.NoError(t, m.Set("a", 1, time.Hour))
	left = timer.Stop()
	require.Equal(t, 1, m.clear())
	run(left)
}

// The caller of Stop runs a task while the value is removed and another one is set. The value has one end. The race
// detector watches.
func testRunAfterStopRace(t *testing.T) {
	rnd := newRand(t)
	removed, expired := 0, 0
	for end := time.Now().Add(stressTime(t) / 10); goesOn(end, removed > 0 && expired > 0); {
		timer, err := hashedwheel.New()
		require.NoError(t, err)
		ends := 0
		m := New(timer, func(key string, value int) {
			assert.Equal(t, "a", key)
			assert.Equal(t, 1, value)
			ends++
		})
		require.NoError(t, m.Set("a", 1, time.Hour))
		left := timer.Stop()
		require.Len(t, left, 1)
		var wg sync.WaitGroup
		wg.Go(func() { left[0].Task().Run(left[0]) })
		yield(rnd.IntN(3))
		_, ok := m.Remove("a")
		assert.ErrorIs(t, m.Set("b", 2, time.Hour), hashedwheel.ErrStopped)
		wg.Wait()
		if ok {
			removed++
			require.Zero(t, ends)
		} else {
			expired++
			require.Equal(t, 1, ends)
		}
		require.Zero(t, m.Len())
	}
	t.Logf("%d removed, %d expired", removed, expired)
}

// setExpired sets a key whose timeout has expired, and whose task has not come to take the lock. It returns a
// function that runs the task.
func setExpired(t *testing.T, m *Map[string, int], key string, value int) (run func()) {
	s := m.shard(key)
	it := &item[string, int]{shard: s, key: key, value: value}
	m.timer.Bind(&it.timeout, hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}))
	_, err := it.timeout.Reset(0)
	require.NoError(t, err)
	pass(tick)
	require.True(t, it.timeout.IsExpired())
	if s.items == nil {
		s.items = map[string]*item[string, int]{}
	}
	s.items[key] = it
	return func() { it.Run(&it.timeout) }
}

// The timeout of an entry has expired, but its task has not removed the entry yet. The entry ends by its expiry:
// Touch, Get and Remove do not find it, and Set and GetOrSet begin a new entry.
func TestMapMeetsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan int, 10)
		m := New(newTimer(t), func(_ string, value int) { got <- value })
		expire := setExpired(t, m, "a", 1)
		_, ok := m.Touch("a", tick)
		require.False(t, ok)
		_, ok = m.Get("a")
		require.False(t, ok)
		_, ok = m.Remove("a")
		require.False(t, ok)
		require.NoError(t, m.Set("a", 2, 5*tick))
		expire()
		require.Equal(t, 1, <-got)
		require.Equal(t, 1, m.Len(), "the new entry is still there")
		pass(5 * tick)
		require.Equal(t, 2, <-got)
		require.Zero(t, m.Len())

		expire = setExpired(t, m, "a", 3)
		value, ok, err := m.GetOrSet("a", 4, time.Hour)
		require.NoError(t, err)
		require.False(t, ok)
		require.Equal(t, 4, value)
		expire()
		require.Equal(t, 3, <-got)
		value, ok = m.Remove("a")
		require.True(t, ok)
		require.Equal(t, 4, value)

		setExpired(t, m, "a", 5)()
		require.Equal(t, 5, <-got)
		require.Zero(t, m.Len())
	})
}

// Clear does not count an entry that has expired and is still in the map, and expired is called for it. A value that
// is set for the key meanwhile stays.
func TestMapClearMeetsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []string
		m := New(newTimer(t), func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
		expire := setExpired(t, m, "a", 1)
		require.NoError(t, m.Set("b", 2, time.Hour))
		require.Equal(t, 1, m.clear())
		require.Zero(t, m.Len())
		require.NoError(t, m.Set("a", 3, time.Hour))
		expire()
		require.Equal(t, []string{"a1"}, ends)
		require.Equal(t, map[string]int{"a": 3}, maps.Collect(m.All()))
	})
}

// The panic handler gets the timeout of an entry and may reset it. That has no effect on the Map, because the entry
// has ended.
func TestMapTimeoutIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		timer := newTimer(t, hashedwheel.WithPanicHandler(func(to *hashedwheel.Timeout, _ any, _ []byte) {
			_, err := to.Reset(tick)
			assert.NoError(t, err)
		}))
		m := New(timer, func(int, int) { calls.Add(1); panic("on purpose") })
		require.NoError(t, m.Set(1, 1, tick))
		pass(10 * tick)
		require.EqualValues(t, 1, calls.Load())
		require.Zero(t, timer.Pending())
		require.Zero(t, m.Len())
	})
}

// The callback may use the Map, and so may a loop over it.
func TestMapFromInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *Map[string, int]
		var rounds atomic.Int32
		m = New(newTimer(t), func(key string, value int) {
			assert.NotContains(t, maps.Collect(m.All()), key, "the entry is gone before the callback")
			if rounds.Add(1) < 5 {
				assert.NoError(t, m.Set(key, value+1, tick))
			}
		})
		require.NoError(t, m.Set("a", 0, tick))
		pass(10 * tick)
		require.EqualValues(t, 5, rounds.Load())

		for i := range 100 {
			require.NoError(t, m.Set(fmt.Sprint(i), i, time.Hour))
		}
		seen := 0
		for key, value := range m.All() {
			require.Equal(t, fmt.Sprint(value), key)
			_, ok := m.Remove(key)
			require.True(t, ok)
			seen++
		}
		require.Equal(t, 100, seen)
		require.Zero(t, m.Len())
		require.NoError(t, m.Set("a", 1, tick))
		require.NoError(t, m.Set("b", 1, tick))
		for range m.All() {
			break
		}
	})
}

// A Map without a callback removes entries when they expire, and nothing panics.
func TestMapWithoutCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		m := New[string, int](timer, nil)
		require.NoError(t, m.Set("a", 1, 3*tick))
		require.NoError(t, m.Set("b", 2, 5*tick))
		pass(3*tick - 1)
		require.Equal(t, map[string]int{"a": 1, "b": 2}, maps.Collect(m.All()))
		pass(1)
		require.Equal(t, map[string]int{"b": 2}, maps.Collect(m.All()))
		pass(2 * tick)
		require.Zero(t, m.Len())
		require.Equal(t, hashedwheel.Stats{Accepted: 2, Expired: 2}, outcomes(timer))
	})
}

// Stats counts each key as one timeout.
func TestMapStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		m := New[int, int](timer, nil)
		for range 2 {
			for key := range 10 {
				require.NoError(t, m.Set(key, key, 5*tick))
				_, ok := m.Touch(key, 4*tick)
				require.True(t, ok)
				_, ok, err := m.GetOrSet(key, key, tick)
				require.NoError(t, err)
				require.True(t, ok)
			}
			pass(2 * tick)
		}
		require.Equal(t, hashedwheel.Stats{Pending: 10, Accepted: 10}, outcomes(timer))
		m.Remove(0)
		m.Touch(1, 0)
		pass(tick)
		require.Equal(t, hashedwheel.Stats{Pending: 8, Accepted: 10, Expired: 1, Canceled: 1}, outcomes(timer))
		require.NoError(t, m.Set(0, 0, time.Hour))
		require.Equal(t, 9, m.clear())
		require.NoError(t, m.Set(0, 0, time.Hour))
		require.Len(t, timer.Stop(), 1)
		require.Equal(t, hashedwheel.Stats{Accepted: 12, Expired: 1, Canceled: 10, Returned: 1}, outcomes(timer))
	})
}

// Touch makes a sliding limit: a key that is touched in time stays for another delay, and expires exactly then.
func TestMapTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * tick
		timer := newTimer(t)
		start := time.Now()
		ends := make(chan time.Duration, 10)
		m := New(timer, func(string, string) { ends <- time.Since(start) })
		require.NoError(t, m.Set("a", "x", limit))
		for range 5 {
			pass(limit - tick)
			value, ok := m.Touch("a", limit)
			require.True(t, ok)
			require.Equal(t, "x", value)
		}
		value, ok := m.Touch("b", limit)
		require.False(t, ok)
		require.Zero(t, value)
		require.Equal(t, 1, m.Len(), "Touch adds no key")
		pass(2 * limit)
		require.Len(t, ends, 1)
		require.Equal(t, 5*(limit-tick)+limit, <-ends)
		value, ok = m.Touch("a", limit)
		require.False(t, ok)
		require.Zero(t, value)
		require.Equal(t, hashedwheel.Stats{Accepted: 1, Expired: 1}, outcomes(timer))
	})
}

// Clear removes all keys, and frees their timeouts and slots. The Map can be used afterwards.
func TestMapClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 100
		timer := newTimer(t, hashedwheel.WithMaxPending(keys))
		ends := make(chan int, 3*keys)
		var m *Map[int, int]
		m = New(timer, func(key, value int) {
			ends <- value
			if key == -1 {
				assert.Equal(t, keys-1, m.clear(), "from inside")
			}
		})
		require.Zero(t, m.clear())
		for i := range keys {
			require.NoError(t, m.Set(i, i, time.Duration(i+1)*tick))
		}
		pass(10 * tick)
		require.Len(t, ends, 10)
		require.Equal(t, keys-10, m.clear())
		require.Zero(t, m.clear())
		require.Zero(t, m.Len())
		require.Zero(t, timer.Pending())
		for i := range keys {
			_, ok := m.Get(i)
			require.False(t, ok)
			_, ok = m.Touch(i, tick)
			require.False(t, ok)
			require.NoError(t, m.Set(i-1, i+1000, 20*tick), "all slots are free")
		}
		require.NoError(t, m.Set(-1, 999, 10*tick))
		pass(time.Hour)
		require.Len(t, ends, 11, "since the first Clear, only the entry whose callback clears the others has expired")
		require.Zero(t, m.Len())
		require.EqualValues(t, keys-10+keys-1, timer.Stats().Canceled)
	})
}

// However an entry ends, its key and its value can be garbage collected. The memory of very many entries is freed too.
func TestMapKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		type thing struct{ _ [64]byte }
		m := New[*thing, *thing](timer, nil)
		var held []weak.Pointer[thing]
		set := func(delay time.Duration) *thing {
			key, value := new(thing), new(thing)
			held = append(held, weak.Make(key), weak.Make(value))
			require.NoError(t, m.Set(key, value, delay))
			return key
		}
		for range 100 {
			set(tick)
			_, ok := m.Remove(set(time.Hour))
			require.True(t, ok)
			key := set(time.Hour)
			require.NoError(t, m.Set(key, nil, tick))
		}
		for range 100 {
			set(time.Hour)
		}
		m.Clear()
		_, ok := m.Remove(set(time.Hour)) // leaves a spare item
		require.True(t, ok)
		pass(2 * time.Second)
		runtime.GC()
		for _, p := range held {
			require.Nil(t, p.Value())
		}
		require.Zero(t, m.Len())

		many := New[int, int](timer, nil)
		before := heapInUse()
		for i := range 100_000 {
			if err := many.Set(i, i, tick); err != nil {
				t.Fatal(err)
			}
		}
		pass(3 * tick)
		require.Zero(t, many.Len())
		require.NoError(t, many.Set(1, 1, tick))
		after := heapInUse()
		t.Logf("%d bytes more than before", int64(after)-int64(before))
		require.Less(t, int64(after)-int64(before), int64(2<<20)) // they took over 10 MB
	})
}

// A timer that is dropped without Stop is garbage collected after the last key has expired. The test runs on real
// time, because a bubble keeps its timers.
func TestMapDroppedTimerIsCollected(t *testing.T) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
	require.NoError(t, err)
	gone := make(chan struct{})
	runtime.AddCleanup(timer, func(gone chan struct{}) { close(gone) }, gone)
	require.NoError(t, New[string, int](timer, nil).Set("a", 1, tick))
	timer = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	}, patience, tick)
}

// Only the first keys allocate, for all types of keys. A key that was removed leaves its item to the next one.
func TestMapAllocations(t *testing.T) {
	timer := newTimer(t)
	testAllocations(t, timer, 1)
	testAllocations(t, timer, "a string")
	testAllocations(t, timer, [2]string{"a", "b"})
	testAllocations(t, timer, new(int))
	testAllocations(t, timer, struct {
		p *int
		s string
	}{new(int), "x"})
	testAllocations[any](t, timer, "in an interface")
}

func testAllocations[K comparable](t *testing.T, timer *hashedwheel.Timer, key K) {
	m := New[K, int](timer, nil)
	require.NoError(t, m.Set(key, 1, time.Hour))
	deadline := time.Now().Add(2 * time.Hour)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		m.Set(key, 2, time.Hour)
		m.GetOrSet(key, 3, time.Hour)
		m.Touch(key, 3*time.Hour)
		m.Touch(key, time.Hour)
		m.SetAt(key, 4, deadline)
		m.TouchAt(key, deadline)
		m.Get(key)
	}), "%T", key)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		m.Remove(key)
		m.Set(key, 2, time.Hour)
	}), "%T", key)
	m.Remove(key)
}

// A nil Timer, a zero Timer and a zero Map panic with a clear message. The first panic leaves no lock held.
func TestZeroMap(t *testing.T) {
	arguments := map[string][]any{
		"All":      {},
		"Clear":    {},
		"Close":    {},
		"Deadline": {1},
		"Get":      {1},
		"GetOrSet": {1, 2, time.Hour},
		"Len":      {},
		"Remove":   {1},
		"RemoveIf": {1, func(int) bool { return true }},
		"Set":      {1, 2, time.Hour},
		"SetAt":    {1, 2, time.Time{}},
		"Touch":    {1, time.Hour},
		"TouchAt":  {1, time.Time{}},
		"TouchIf":  {1, time.Hour, func(int, time.Time) bool { return true }},
		"Update":   {1, func(int) int { return 0 }},

		"WaitRunning": {t.Context()},
	}
	zero := new(Map[int, int])
	methods := reflect.TypeOf(zero)
	require.Equal(t, len(arguments), methods.NumMethod())
	for name, args := range arguments {
		in := []reflect.Value{}
		for _, arg := range args {
			in = append(in, reflect.ValueOf(arg))
		}
		for range 2 {
			require.PanicsWithValue(t, "keyed: the Map was not made by New", func() {
				reflect.ValueOf(zero).MethodByName(name).Call(in)
			}, name)
		}
	}
	require.PanicsWithValue(t, "keyed: New: nil Timer", func() { New[int, int](nil, nil) })
	require.PanicsWithValue(t, "hashedwheel: the Timer was not made by New", func() {
		New[int, int](new(hashedwheel.Timer), nil)
	})
}

// A timer from outside a bubble panics inside, and the other way round. That leaves no key, no value and no lock held.
func TestMapOutsideItsBubble(t *testing.T) {
	remove := func(m *Map[int, *[64]byte]) { // leaves a spare item
		require.NoError(t, m.Set(1, nil, time.Hour))
		_, ok := m.Remove(1)
		require.True(t, ok)
	}
	misuse := func(t *testing.T, m *Map[int, *[64]byte]) {
		var held []weak.Pointer[[64]byte]
		value := func() *[64]byte {
			value := new([64]byte)
			held = append(held, weak.Make(value))
			return value
		}
		require.Panics(t, func() { m.Set(1, value(), time.Hour) })
		require.Panics(t, func() { m.GetOrSet(1, value(), time.Hour) })
		require.Zero(t, m.Len())
		_, ok := m.Get(1)
		require.False(t, ok)
		runtime.GC()
		for _, p := range held {
			require.Nil(t, p.Value())
		}
		runtime.KeepAlive(m)
	}
	outside := New[int, *[64]byte](newTimer(t), nil)
	remove(outside)
	var inside *Map[int, *[64]byte]
	synctest.Test(t, func(t *testing.T) {
		misuse(t, outside)
		inside = New[int, *[64]byte](newTimer(t), nil)
		remove(inside)
	})
	misuse(t, inside)
}

// A nil function panics with a clear message, also if the key is not there.
func TestNilFunctions(t *testing.T) {
	timer, err := hashedwheel.New()
	require.NoError(t, err)
	defer timer.Stop()
	m := New[int, int](timer, nil)
	require.NoError(t, m.Set(1, 1, time.Hour))
	for key := range 2 {
		require.PanicsWithValue(t, "keyed: Map.Update: nil function", func() { m.Update(key, nil) })
		require.PanicsWithValue(t, "keyed: Map.RemoveIf: nil function", func() { m.RemoveIf(key, nil) })
		require.PanicsWithValue(t, "keyed: Map.TouchIf: nil function", func() { m.TouchIf(key, time.Hour, nil) })
	}
	require.Equal(t, 1, m.Len())
}
