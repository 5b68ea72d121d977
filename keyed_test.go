package hashedwheel

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Random operations on a few keys, on virtual time, are compared with a map after each step. Each value ends at the
// right time and in the right way.
func TestKeyedModel(t *testing.T) {
	rnd := newRand(t)
	for range sized(2, 10, 200) {
		virtual(t, func(t *testing.T) {
			const tick = 10 * time.Millisecond
			const limit = 6
			timer := newTimer(t, WithTick(tick), WithMaxPending(limit))
			start := time.Now()
			type entry struct{ value, until int } // the boundary at which it expires
			model := map[int]entry{}
			ends := map[int]int{} // how often each value has expired since the last comparison
			var mu sync.Mutex
			k := NewKeyed(timer, func(key, value int) {
				mu.Lock()
				defer mu.Unlock()
				ends[value]++
			})
			now := func() int { return int(time.Since(start) / tick) }
			for n := range 3000 {
				key := rnd.IntN(10)
				delay := time.Duration(rnd.IntN(120)-5) * time.Millisecond
				until := int(boundaryAt(time.Since(start)+max(delay, 1), tick) / tick)
				e, known := model[key]
				op := rnd.IntN(6)
				if rnd.IntN(200) == 0 {
					op = 6
				}
				switch op {
				case 0, 1:
					err := k.Set(key, n, delay)
					if !known && len(model) == limit {
						require.ErrorIs(t, err, ErrTooManyPending)
						break
					}
					require.NoError(t, err)
					model[key] = entry{n, until}
				case 2:
					require.Equal(t, known, k.Move(key, delay))
					if known {
						model[key] = entry{e.value, until}
					}
				case 3:
					value, ok := k.Remove(key)
					require.Equal(t, known, ok)
					require.Equal(t, e.value, value)
					delete(model, key)
				case 4:
					pass(time.Duration(rnd.IntN(25)) * time.Millisecond)
					want := map[int]int{}
					for key, e := range model {
						if e.until <= now() {
							want[e.value]++
							delete(model, key)
						}
					}
					mu.Lock()
					require.Equal(t, want, ends)
					clear(ends)
					mu.Unlock()
				case 5:
					value, ok := k.Touch(key, delay)
					require.Equal(t, known, ok)
					require.Equal(t, e.value, value)
					if known {
						model[key] = entry{e.value, until}
					}
				case 6:
					require.Equal(t, len(model), k.Clear())
					clear(model)
				}
				value, ok := k.Get(key)
				e, known = model[key]
				if value != e.value || ok != known || k.Len() != len(model) || timer.Pending() != len(model) {
					t.Fatalf("key %d is %d, %t, of %d, %d pending; should be %d, %t, of %d",
						key, value, ok, k.Len(), timer.Pending(), e.value, known, len(model))
				}
			}
			values := map[int]int{}
			for key, e := range model {
				values[key] = e.value
			}
			require.Equal(t, values, maps.Collect(k.All()))
			checkStats(t, timer)

			// After Stop, entries that were pending stay. Set, Move and Touch fail.
			require.Len(t, timer.Stop(), len(model))
			for key, value := range values {
				if k.Len() <= len(model)/2 {
					break
				}
				require.False(t, k.Move(key, tick))
				_, touched := k.Touch(key, tick)
				require.False(t, touched)
				require.ErrorIs(t, k.Set(key, -1, tick), ErrStopped)
				got, ok := k.Get(key)
				require.True(t, ok)
				require.Equal(t, value, got)
				got, ok = k.Remove(key)
				require.True(t, ok)
				require.Equal(t, value, got)
				_, ok = k.Remove(key)
				require.False(t, ok)
			}
			require.Equal(t, len(model)/2, k.Clear())
			require.Zero(t, k.Len())
		})
	}
}

// A Set that is refused changes no value and no deadline, and adds no key.
func TestKeyedRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxPending(1))
		got := make(chan string, 1)
		k := NewKeyed(timer, func(key int, value string) { got <- fmt.Sprint(key, value) })
		require.NoError(t, k.Set(1, "a", 5*tick))
		require.ErrorIs(t, k.Set(2, "b", tick), ErrTooManyPending)
		require.Equal(t, 1, k.Len())
		require.NoError(t, k.Set(1, "c", 3*tick), "a Set of a known key takes no slot")
		pass(3 * tick)
		require.Equal(t, "1c", <-got)
		require.NoError(t, k.Set(2, "b", tick))
		require.EqualValues(t, 1, timer.Stats().Rejected)
		timer.Stop()
		require.ErrorIs(t, k.Set(2, "d", tick), ErrStopped)
		require.EqualValues(t, 2, timer.Stats().Rejected)
		require.Equal(t, map[int]string{2: "b"}, maps.Collect(k.All()))

		floats := NewKeyed(newTimer(t), func(float64, int) {})
		require.ErrorContains(t, floats.Set(math.NaN(), 1, tick), "does not equal itself")
		require.Zero(t, floats.Len())
	})
}

// A runner has claimed the timeout of an entry, but has not removed the entry from the map yet. The entry ends by its
// expiry: Move, Touch, Get and Remove do not find it, and a Set begins a new entry.
func TestKeyedMeetsExpiry(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newFakedTimer(t, WithTick(tick))
		got := make(chan int, 10)
		k := NewKeyed(timer, func(_ string, value int) { got <- value })
		claim := func(value int) *item[string, int] {
			require.NoError(t, k.Set("a", value, time.Hour))
			it := k.shard("a").items["a"]
			it.timeout.word.Store(withStatus(it.timeout.word.Load(), expired)) // as a runner does
			return it
		}
		first := claim(1)
		require.False(t, k.Move("a", tick))
		_, ok := k.Touch("a", tick)
		require.False(t, ok)
		_, ok = k.Get("a")
		require.False(t, ok)
		_, ok = k.Remove("a")
		require.False(t, ok)
		require.NoError(t, k.Set("a", 2, 5*tick))
		first.Run(&first.timeout)
		require.Equal(t, 1, <-got)
		require.Equal(t, 1, k.Len(), "the new entry is still there")
		pass(5 * tick)
		require.Equal(t, 2, <-got)
		require.Zero(t, k.Len())

		last := claim(3)
		last.Run(&last.timeout)
		require.Equal(t, 3, <-got)
		require.Zero(t, k.Len())
	})
}

// The panic handler gets the timeout of an entry and may reset it. That has no effect on the Keyed, because the entry
// has ended.
func TestKeyedTimeoutIsReset(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		var calls atomic.Int32
		timer := newTimer(t, WithTick(tick), WithPanicHandler(func(to *Timeout, _ any, _ []byte) {
			_, err := to.Reset(tick)
			assert.NoError(t, err)
		}))
		k := NewKeyed(timer, func(int, int) { calls.Add(1); panic("on purpose") })
		require.NoError(t, k.Set(1, 1, tick))
		pass(10 * tick)
		require.EqualValues(t, 1, calls.Load())
		require.Zero(t, timer.Pending())
	})
}

// The callback may use the Keyed, and so may a loop over it.
func TestKeyedFromInside(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var k *Keyed[string, int]
		var rounds atomic.Int32
		k = NewKeyed(timer, func(key string, value int) {
			assert.NotContains(t, maps.Collect(k.All()), key, "the entry is gone before the callback")
			if rounds.Add(1) < 5 {
				assert.NoError(t, k.Set(key, value+1, tick))
			}
		})
		require.NoError(t, k.Set("a", 0, tick))
		pass(10 * tick)
		require.EqualValues(t, 5, rounds.Load())

		for i := range 100 {
			require.NoError(t, k.Set(fmt.Sprint(i), i, time.Hour))
		}
		seen := 0
		for key, value := range k.All() {
			require.Equal(t, fmt.Sprint(value), key)
			_, ok := k.Remove(key)
			require.True(t, ok)
			seen++
		}
		require.Equal(t, 100, seen)
		require.Zero(t, k.Len())
		require.NoError(t, k.Set("a", 1, tick))
		require.NoError(t, k.Set("b", 1, tick))
		for range k.All() {
			break
		}
	})
}

// However an entry ends, its key and its value can be garbage collected. The memory of very many entries is freed too.
func TestKeyedKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		type thing struct{ _ [64]byte }
		k := NewKeyed(timer, func(*thing, *thing) {})
		var held []weak.Pointer[thing]
		set := func(delay time.Duration) *thing {
			key, value := new(thing), new(thing)
			held = append(held, weak.Make(key), weak.Make(value))
			require.NoError(t, k.Set(key, value, delay))
			return key
		}
		for range 100 {
			set(tick)
			_, ok := k.Remove(set(time.Hour))
			require.True(t, ok)
			key := set(time.Hour)
			require.NoError(t, k.Set(key, nil, tick))
		}
		for range 100 {
			set(time.Hour)
		}
		k.Clear()
		pass(3 * tick)
		runtime.GC()
		for _, p := range held {
			require.Nil(t, p.Value())
		}
		require.Zero(t, k.Len())

		many := NewKeyed(timer, func(int, int) {})
		before := heapInUse()
		for i := range 100_000 {
			require.NoError(t, many.Set(i, i, tick))
		}
		pass(3 * tick)
		require.Zero(t, many.Len())
		require.NoError(t, many.Set(1, 1, tick))
		after := heapInUse()
		t.Logf("%d bytes more than before", int64(after)-int64(before))
		require.Less(t, int64(after)-int64(before), int64(1<<20))
	})
}

// Move, Touch, and Set of a known key allocate nothing, for all types of keys.
func TestKeyedAllocations(t *testing.T) {
	timer := newTimer(t)
	testKeyedAllocations(t, timer, 1)
	testKeyedAllocations(t, timer, "a string")
	testKeyedAllocations(t, timer, [2]string{"a", "b"})
	testKeyedAllocations(t, timer, new(int))
	testKeyedAllocations(t, timer, struct {
		p *int
		s string
	}{new(int), "x"})
	testKeyedAllocations[any](t, timer, "in an interface")
}

func testKeyedAllocations[K comparable](t *testing.T, timer *Timer, key K) {
	k := NewKeyed(timer, func(K, int) {})
	require.NoError(t, k.Set(key, 1, time.Hour))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		k.Set(key, 2, time.Hour)
		k.Move(key, 2*time.Hour)
		k.Touch(key, 3*time.Hour)
		k.Touch(key, time.Hour)
	}), "%T", key)
	added := testing.AllocsPerRun(1000, func() {
		k.Remove(key)
		k.Set(key, 2, time.Hour)
	})
	require.EqualValues(t, 1, added, "%T", key)
	k.Remove(key)
}

// Set, Move, Touch, Remove, Clear, expiry and Stop race for the same few keys, on real time. Each value that was set
// ends exactly once.
func TestKeyedRace(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			rnd := newRand(t)
			var expired, removed, cleared, replaced, left int
			deadline := time.Now().Add(stressTime(t) / 2)
			seen := func() bool { return expired > 0 && removed > 0 && cleared > 0 && replaced > 0 }
			for goesOn(deadline, seen()) {
				timer := newTimer(t, append(opts, WithTick(20*time.Microsecond))...)
				const ops, producers, keys = 300, 4, 5
				// How often each value has ended. No call reports that a Set has replaced a value, so the
				// replaced values are those that are missing at the end.
				var ends [producers * ops]atomic.Int32
				var set [producers * ops]atomic.Bool
				var keyOf [producers * ops]atomic.Int32
				var clearedNow atomic.Int32
				k := NewKeyed(timer, func(key, value int) { ends[value].Add(1) })
				var wg sync.WaitGroup
				for p := range producers {
					seed := rnd.Uint64()
					wg.Go(func() {
						rnd := rand.New(rand.NewPCG(seed, 0))
						for n := range ops {
							key, delay := rnd.IntN(keys), time.Duration(rnd.IntN(60))*time.Microsecond
							switch rnd.IntN(5) {
							case 0, 1:
								value := p*ops + n
								keyOf[value].Store(int32(key))
								if k.Set(key, value, delay) == nil {
									set[value].Store(true)
								}
							case 2:
								k.Move(key, delay)
							case 3:
								if value, ok := k.Remove(key); ok {
									ends[value].Add(1)
								}
							case 4:
								if value, ok := k.Touch(key, delay); ok {
									assert.EqualValues(t, key, keyOf[value].Load())
								}
							}
							if rnd.IntN(30) == 0 {
								clearedNow.Add(int32(k.Clear()))
							}
							if rnd.IntN(10) == 0 {
								time.Sleep(time.Duration(rnd.IntN(50)) * time.Microsecond)
							}
						}
					})
				}
				quiet := rnd.IntN(2) == 0
				if quiet {
					wg.Wait()
				}
				back, err := timer.Shutdown(t.Context())
				require.NoError(t, err)
				wg.Wait()
				behind := maps.Collect(k.All())
				require.LessOrEqual(t, len(behind), len(back)) // Remove may have removed some after Stop
				st := timer.Stats()
				replacedNow := -int(clearedNow.Load()) // cleared values are missing too
				for value := range ends {
					n := int(ends[value].Load())
					if slices.Contains(slices.Collect(maps.Values(behind)), value) {
						n++
					}
					require.LessOrEqual(t, n, 1, "value %d", value)
					switch {
					case !set[value].Load():
						require.Zero(t, n)
					case n == 0:
						replacedNow++
					}
				}
				// Each Set either armed a timeout or replaced a value.
				armed := 0
				for value := range set {
					if set[value].Load() {
						armed++
					}
				}
				if quiet {
					require.EqualValues(t, armed-replacedNow, st.Accepted)
				} else {
					// During Stop, a Set may replace an entry whose timeout Stop has already taken.
					require.GreaterOrEqual(t, int(st.Accepted), armed-replacedNow)
					require.LessOrEqual(t, int(st.Accepted), armed-replacedNow+len(back))
				}
				expired += int(st.Expired)
				removed += int(st.Canceled) - int(clearedNow.Load())
				cleared += int(clearedNow.Load())
				replaced += replacedNow
				left += len(back)
				checkStats(t, timer)
			}
			t.Logf("%d expired, %d removed, %d cleared, %d replaced, %d left behind", expired, removed, cleared, replaced, left)
			require.True(t, seen(), "the test did not see every outcome")
		})
	}
}
