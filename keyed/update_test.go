package keyed

import (
	"maps"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

func add1(n int) int { return n + 1 }

// Update changes the value and not the deadline, and does nothing if there is no such key. Deadline is the boundary.
func TestMapUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		got := make(chan int, 1)
		m := New(timer, func(_ string, value int) { got <- value })
		never := func(int) int { t.Error("there is no such key"); return 0 }
		_, ok := m.Update("a", never)
		require.False(t, ok)
		at, ok := m.Deadline("a")
		require.False(t, ok)
		require.Zero(t, at)
		start := time.Now()
		require.NoError(t, m.Set("a", 1, 5*tick-1))
		for n := 2; n <= 4; n++ {
			pass(tick)
			value, ok := m.Update("a", add1)
			require.True(t, ok)
			require.Equal(t, n, value)
			at, ok := m.Deadline("a")
			require.True(t, ok)
			require.Equal(t, 5*tick, at.Sub(start))
		}
		pass(2 * tick)
		require.Equal(t, 4, <-got)
		_, ok = m.Update("a", never)
		require.False(t, ok)
		_, ok = m.Deadline("a")
		require.False(t, ok)
		require.NoError(t, m.Set("a", 1, hour))
		timer.Stop()
		_, ok = m.Update("a", never)
		require.False(t, ok)
		_, ok = m.Deadline("a")
		require.False(t, ok)
		require.Equal(t, map[string]int{"a": 1}, maps.Collect(m.All()))
	})
}

// While f runs, the entry ends, or is changed. F runs without a lock, so it does all of that itself. Each value has one
// end.
func TestMapUpdateMeetsOthers(t *testing.T) {
	type result struct {
		ok      bool
		left    map[string]int
		expired []int
	}
	for name, tt := range map[string]struct {
		during func(m *Map[string, int], timer *hashedwheel.Timer)
		want   result
	}{
		"nothing": {func(m *Map[string, int], _ *hashedwheel.Timer) {}, result{true, map[string]int{"a": 10}, nil}},
		"reads": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Get("a")
			m.GetOrSet("a", 2, hour)
			m.Deadline("a")
			m.Len()
			m.All()(func(string, int) bool { return true })
		}, result{true, map[string]int{"a": 10}, nil}},
		"Touch": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Touch("a", 2*hour)
			pass(hour)
		}, result{true, map[string]int{"a": 10}, nil}},
		"another key": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Set("b", 2, hour)
			m.Update("b", add1)
			m.RemoveIf("b", func(int) bool { return false })
		}, result{true, map[string]int{"a": 10, "b": 3}, nil}},
		"another key that panics": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			defer func() { recover() }()
			m.Set("b", 2, hour)
			m.Update("b", func(int) int { panic("on purpose") })
		}, result{true, map[string]int{"a": 10, "b": 2}, nil}},
		"Set": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Set("a", 2, hour)
		}, result{true, map[string]int{"a": 2}, nil}},
		"Set, Remove and Set": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Set("a", 2, hour)
			m.Remove("a")
			m.Set("a", 3, hour)
		}, result{true, map[string]int{"a": 3}, nil}},
		"Remove": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Remove("a")
		}, result{false, map[string]int{}, nil}},
		"Remove and Set": {func(m *Map[string, int], _ *hashedwheel.Timer) { // which uses the item again
			m.Remove("a")
			m.Set("a", 2, hour)
		}, result{false, map[string]int{"a": 2}, nil}},
		"Clear": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Clear()
		}, result{false, map[string]int{}, nil}},
		"Clear and Set": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Clear()
			m.Set("a", 2, hour)
		}, result{false, map[string]int{"a": 2}, nil}},
		"expiry": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			pass(hour)
		}, result{false, map[string]int{}, []int{1}}},
		"expiry and Set": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			pass(hour)
			m.Set("a", 2, hour)
		}, result{false, map[string]int{"a": 2}, []int{1}}},
		"Stop": {func(m *Map[string, int], timer *hashedwheel.Timer) {
			timer.Stop()
		}, result{false, map[string]int{"a": 1}, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t)
				var got result
				m := New(timer, func(_ string, value int) { got.expired = append(got.expired, value) })
				require.NoError(t, m.Set("a", 1, hour))
				value, ok := m.Update("a", func(value int) int {
					require.Equal(t, 1, value)
					tt.during(m, timer)
					return 10
				})
				if got.ok = ok; ok {
					require.Equal(t, 10, value)
				} else {
					require.Zero(t, value)
				}
				got.left = maps.Collect(m.All())
				require.Equal(t, tt.want, got)
				require.Empty(t, m.shard("a").updates)
			})
		})
	}
}

// RemoveIf removes the key if f says so, and does nothing otherwise. After Stop it works on the keys that were left.
func TestMapRemoveIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		m := New(timer, func(key string, _ int) { t.Error(key, "has expired") })
		never := func(int) bool { t.Error("there is no such key"); return true }
		is := func(want int, calls *int) func(int) bool {
			return func(value int) bool { *calls++; return value == want }
		}
		check := func(key string, want, value int, ok bool) {
			t.Helper()
			calls := 0
			got, removed := m.RemoveIf(key, is(want, &calls))
			require.Equal(t, ok, removed)
			require.Equal(t, value, got)
			require.Equal(t, 1, calls)
		}
		_, ok := m.RemoveIf("a", never)
		require.False(t, ok)
		require.NoError(t, m.Set("a", 1, 5*tick))
		before, _ := m.Deadline("a")
		check("a", 2, 0, false)
		after, _ := m.Deadline("a")
		require.Equal(t, before, after)
		check("a", 1, 1, true)
		require.Zero(t, m.Len())
		_, ok = m.RemoveIf("a", never)
		require.False(t, ok)
		require.NotNil(t, m.shard("a").spare)
		pass(5 * tick)
		require.Equal(t, hashedwheel.Stats{Accepted: 1, Canceled: 1}, outcomes(timer))

		require.NoError(t, m.Set("b", 2, hour))
		require.NoError(t, m.Set("c", 3, hour))
		left := timer.Stop()
		check("b", 3, 0, false)
		check("b", 2, 2, true)
		require.Nil(t, m.shard("b").spare, "the caller of Stop knows the item")
		for _, to := range left {
			if !m.isLeft(to, "c") {
				to.Task().Run(to)
			}
		}
		require.Equal(t, map[string]int{"c": 3}, maps.Collect(m.All()))
		_, ok = m.RemoveIf("b", never)
		require.False(t, ok)
	})
}

// TouchIf moves the deadline if f says so, and does nothing otherwise. F gets the value and the deadline.
func TestMapTouchIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		var ends []int
		m := New(timer, func(_ string, value int) { ends = append(ends, value) })
		never := func(int, time.Time) bool { t.Error("there is no such key"); return true }
		_, ok := m.TouchIf("a", tick, never)
		require.False(t, ok)
		start := time.Now()
		require.NoError(t, m.Set("a", 1, 5*tick))
		sooner := func(delay, before time.Duration) bool {
			t.Helper()
			calls := 0
			value, touched := m.TouchIf("a", delay, func(value int, deadline time.Time) bool {
				calls++
				require.Equal(t, 1, value)
				require.Equal(t, before, deadline.Sub(start))
				return time.Now().Add(delay).Before(deadline)
			})
			require.Equal(t, 1, calls)
			if touched {
				require.Equal(t, 1, value)
			} else {
				require.Zero(t, value)
			}
			return touched
		}
		require.False(t, sooner(6*tick, 5*tick))
		require.False(t, sooner(5*tick, 5*tick))
		require.True(t, sooner(3*tick, 5*tick))
		_, ok = m.Touch("a", math.MaxInt64)
		require.True(t, ok)
		_, ok = m.TouchIf("a", 10*tick, func(int, time.Time) bool { pass(5 * tick); return true })
		require.True(t, ok)
		deadline, ok := m.Deadline("a")
		require.True(t, ok)
		require.Equal(t, 15*tick, deadline.Sub(start), "from when f has returned")
		pass(10*tick - 1)
		require.Equal(t, 1, m.Len())
		pass(1)
		require.Equal(t, []int{1}, ends)
		_, ok = m.TouchIf("a", tick, never)
		require.False(t, ok)
		require.NoError(t, m.Set("a", 1, hour))
		timer.Stop()
		_, ok = m.TouchIf("a", tick, never)
		require.False(t, ok)
	})
}

// While f runs, the entry ends, or is changed. Another call that moves the deadline counts as later.
func TestMapTouchIfMeetsOthers(t *testing.T) {
	type result struct {
		ok      bool
		left    map[string]int
		expires time.Duration // after f
		expired []int
	}
	is := func(value int) map[string]int { return map[string]int{"a": value} }
	for name, tt := range map[string]struct {
		during func(m *Map[string, int], timer *hashedwheel.Timer)
		want   result // if f returns true
		not    result // if it returns false
	}{
		"nothing": {func(*Map[string, int], *hashedwheel.Timer) {},
			result{true, is(1), 2 * hour, nil}, result{false, is(1), hour, nil}},
		"reads": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Get("a")
			m.GetOrSet("a", 2, 3*hour)
			m.Deadline("a")
			m.TouchAt("a", time.Time{})
		}, result{true, is(1), 2 * hour, nil}, result{false, is(1), hour, nil}},
		"Touch": {func(m *Map[string, int], _ *hashedwheel.Timer) { m.Touch("a", 5*hour) },
			result{true, is(1), 5 * hour, nil}, result{false, is(1), 5 * hour, nil}},
		"TouchAt to the same": {func(m *Map[string, int], _ *hashedwheel.Timer) { m.TouchAt("a", time.Now().Add(hour)) },
			result{true, is(1), hour, nil}, result{false, is(1), hour, nil}},
		"Touch and expiry": {func(m *Map[string, int], _ *hashedwheel.Timer) { m.Touch("a", tick); pass(tick) },
			result{false, map[string]int{}, 0, []int{1}}, result{false, map[string]int{}, 0, []int{1}}},
		"another key": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Set("b", 2, hour)
			m.Touch("b", tick)
			m.TouchIf("b", hour, func(int, time.Time) bool { return true })
			m.Remove("b")
		}, result{true, is(1), 2 * hour, nil}, result{false, is(1), hour, nil}},
		"SetAt": {func(m *Map[string, int], _ *hashedwheel.Timer) { m.SetAt("a", 2, time.Now().Add(3*hour)) },
			result{true, is(2), 3 * hour, nil}, result{false, is(2), 3 * hour, nil}},
		"Remove and Set": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Remove("a")
			m.Set("a", 2, 3*hour)
		}, result{false, is(2), 3 * hour, nil}, result{false, is(2), 3 * hour, nil}},
		"Touch and Clear": {func(m *Map[string, int], _ *hashedwheel.Timer) { m.Touch("a", 5*hour); m.Clear() },
			result{false, map[string]int{}, 0, nil}, result{false, map[string]int{}, 0, nil}},
		"expiry": {func(*Map[string, int], *hashedwheel.Timer) { pass(hour) },
			result{false, map[string]int{}, 0, []int{1}}, result{false, map[string]int{}, 0, []int{1}}},
		"Stop": {func(_ *Map[string, int], timer *hashedwheel.Timer) { timer.Stop() },
			result{false, is(1), 0, nil}, result{false, is(1), 0, nil}},
		"Touch and Stop": {func(m *Map[string, int], timer *hashedwheel.Timer) { m.Touch("a", 2*hour); timer.Stop() },
			result{false, is(1), 0, nil}, result{false, is(1), 0, nil}},
	} {
		for _, touch := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					timer := newTimer(t)
					var got result
					m := New(timer, func(_ string, value int) { got.expired = append(got.expired, value) })
					require.NoError(t, m.Set("a", 1, hour))
					value, ok := m.TouchIf("a", 2*hour, func(value int, _ time.Time) bool {
						require.Equal(t, 1, value)
						tt.during(m, timer)
						return touch
					})
					if got.ok = ok; ok {
						require.Equal(t, 1, value)
					} else {
						require.Zero(t, value)
					}
					got.left = maps.Collect(m.All())
					if deadline, ok := m.Deadline("a"); ok {
						got.expires = time.Until(deadline)
					}
					if touch {
						require.Equal(t, tt.want, got)
					} else {
						require.Equal(t, tt.not, got)
					}
					require.Empty(t, m.shard("a").updates)
					m.Clear()
				})
			})
		}
	}
}

// A TouchIf waits for an Update of its key, and f gets what the Update has left. A Touch during an Update does not count for the
// TouchIf that follows.
func TestMapTouchIfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New[string, int](newTimer(t), nil)
		require.NoError(t, m.Set("a", 1, hour))
		start := time.Now()
		var all sync.WaitGroup
		m.Update("a", func(value int) int {
			all.Go(func() {
				value, ok := m.TouchIf("a", 3*hour, func(value int, deadline time.Time) bool {
					assert.Equal(t, 2, value)
					assert.Equal(t, 2*hour, deadline.Sub(start))
					return true
				})
				assert.True(t, ok)
				assert.Equal(t, 2, value)
			})
			synctest.Wait()
			m.Touch("a", 2*hour)
			return value + 1
		})
		all.Wait()
		deadline, _ := m.Deadline("a")
		require.Equal(t, 3*hour, deadline.Sub(start))
		require.Panics(t, func() { m.TouchIf("a", hour, func(int, time.Time) bool { panic("on purpose") }) })
		require.Empty(t, m.shard("a").updates)
		m.Clear()
	})
}

// isLeft reports whether a timeout is that of a key that is in the Map.
func (m *Map[K, V]) isLeft(to *hashedwheel.Timeout, key K) bool {
	it := m.shard(key).items[key]
	return it != nil && &it.timeout == to
}

// While f runs, the entry ends, or is changed. Each value has one end.
func TestMapRemoveIfMeetsOthers(t *testing.T) {
	type result struct {
		ok      bool
		left    map[string]int
		expired []int
	}
	for name, tt := range map[string]struct {
		during func(m *Map[string, int], timer *hashedwheel.Timer)
		want   result
	}{
		"nothing": {func(*Map[string, int], *hashedwheel.Timer) {}, result{true, map[string]int{}, nil}},
		"reads": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Get("a")
			m.GetOrSet("a", 2, hour)
			m.All()(func(string, int) bool { return true })
		}, result{true, map[string]int{}, nil}},
		"Touch": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Touch("a", 2*hour)
			pass(hour)
		}, result{true, map[string]int{}, nil}},
		"Set": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Set("a", 2, hour)
		}, result{true, map[string]int{"a": 2}, nil}},
		"Remove": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Remove("a")
		}, result{false, map[string]int{}, nil}},
		"Remove and Set": {func(m *Map[string, int], _ *hashedwheel.Timer) { // which uses the item again
			m.Remove("a")
			m.Set("a", 2, hour)
		}, result{false, map[string]int{"a": 2}, nil}},
		"Clear and Set": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Clear()
			m.Set("a", 2, hour)
		}, result{false, map[string]int{"a": 2}, nil}},
		"another key": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Set("b", 2, hour)
			m.Update("b", add1)
			m.RemoveIf("b", func(value int) bool { return value == 3 })
		}, result{true, map[string]int{}, nil}},
		"expiry": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			pass(hour)
		}, result{false, map[string]int{}, []int{1}}},
		"expiry and Set": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			pass(hour)
			m.Set("a", 2, hour)
		}, result{false, map[string]int{"a": 2}, []int{1}}},
		"Stop": {func(_ *Map[string, int], timer *hashedwheel.Timer) {
			timer.Stop()
		}, result{true, map[string]int{}, nil}},
		"Stop and Run": {func(_ *Map[string, int], timer *hashedwheel.Timer) {
			for _, to := range timer.Stop() {
				to.Task().Run(to)
			}
		}, result{false, map[string]int{}, []int{1}}},
	} {
		for _, remove := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					timer := newTimer(t)
					var got result
					m := New(timer, func(_ string, value int) { got.expired = append(got.expired, value) })
					require.NoError(t, m.Set("a", 1, hour))
					value, ok := m.RemoveIf("a", func(value int) bool {
						require.Equal(t, 1, value)
						tt.during(m, timer)
						return remove
					})
					if got.ok = ok; ok {
						require.Equal(t, 1, value)
					} else {
						require.Zero(t, value)
					}
					got.left = maps.Collect(m.All())
					want := tt.want
					if !remove && want.ok {
						want.ok = false
						if len(want.left) == 0 {
							want.left = map[string]int{"a": 1}
						}
					}
					require.Equal(t, want, got)
					require.Empty(t, m.shard("a").updates)
				})
			})
		}
	}
}

// Of a RemoveIf and an Update of the same key one waits for the other. A panic in f removes nothing.
func TestMapRemoveIfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New[string, int](newTimer(t), nil)
		require.NoError(t, m.Set("a", 0, hour))
		start := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { m.Update("a", func(value int) int { time.Sleep(tick); return value + 1 }) })
			all.Go(func() { m.RemoveIf("a", func(value int) bool { time.Sleep(tick); return false }) })
		}
		all.Go(func() {
			defer func() { assert.NotNil(t, recover()) }()
			m.RemoveIf("a", func(int) bool { panic("on purpose") })
		})
		all.Go(func() { m.RemoveIf("a", func(int) bool { runtime.Goexit(); return true }) })
		all.Wait()
		require.Equal(t, 6*tick, time.Since(start))
		require.Equal(t, map[string]int{"a": 3}, maps.Collect(m.All()))
		require.Empty(t, m.shard("a").updates)
	})
}

// Updates of one key run one after another, and wait for each other. One of another key does not wait. A panic and a Goexit in
// f change nothing.
func TestMapUpdatesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New[string, int](newTimer(t), nil)
		require.NoError(t, m.Set("a", 0, hour))
		require.NoError(t, m.Set("b", 0, hour))
		start := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				var update interface {
					Update(string, func(int) int) (int, bool)
				} = m
				_, ok := update.Update("a", func(value int) int { time.Sleep(tick); return value + 1 })
				assert.True(t, ok)
			})
		}
		all.Go(func() {
			defer func() { assert.NotNil(t, recover()) }()
			m.Update("a", func(int) int { panic("on purpose") })
		})
		all.Go(func() { m.Update("a", func(int) int { runtime.Goexit(); return 0 }) })
		synctest.Wait()
		_, ok := m.Update("b", add1)
		require.True(t, ok)
		require.Zero(t, time.Since(start), "another key")
		all.Wait()
		require.Equal(t, 10*tick, time.Since(start))
		require.Equal(t, map[string]int{"a": 10, "b": 1}, maps.Collect(m.All()))
		for i := range m.shards {
			require.Empty(t, m.shards[i].updates)
		}
	})
}

// Updates of one key that are called inside Updates and RemoveIfs of other keys and Maps wait like any other, and none is lost.
// On real time.
func TestMapUpdateInsideOthers(t *testing.T) {
	const goroutines, each = 8, 2000
	timer := newTimer(t)
	totals := New[string, int](timer, nil)
	others := New[int, string](timer, nil)
	require.NoError(t, totals.Set("total", 0, hour))
	count := func() {
		_, ok := totals.Update("total", func(value int) int { runtime.Gosched(); return value + 1 })
		assert.True(t, ok)
	}
	var all sync.WaitGroup
	for g := range goroutines {
		key := string(rune('a' + g))
		require.NoError(t, others.Set(g, "", hour))
		require.NoError(t, totals.Set(key, 0, hour))
		all.Go(func() {
			for i := range each {
				switch i % 3 {
				case 0:
					others.Update(g, func(value string) string { count(); return value })
				case 1:
					others.RemoveIf(g, func(string) bool { count(); return false })
				case 2:
					totals.Update(key, func(value int) int { count(); return value + 1 })
				}
			}
		})
	}
	all.Wait()
	total, ok := totals.Get("total")
	require.True(t, ok)
	require.Equal(t, goroutines*each, total)
}

// A goroutine that updates a key again and again makes others wait for their turn, and not longer. The turns come in the order of the
// calls.
func TestMapUpdateStarvesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New[string, int](newTimer(t), nil)
		require.NoError(t, m.Set("a", 0, hour))
		const long = 3 * starvingAfter
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			for range 10 {
				m.Update("a", func(value int) int { time.Sleep(long); return value })
			}
		})
		synctest.Wait()
		var ended [5]time.Duration
		for i := range ended {
			all.Go(func() {
				m.Update("a", func(value int) int { time.Sleep(long); return value + 1 })
				ended[i] = time.Since(start)
			})
			synctest.Wait()
		}
		all.Wait()
		require.Equal(t, [5]time.Duration{2 * long, 3 * long, 4 * long, 5 * long, 6 * long}, ended)
		require.Empty(t, m.shard("a").updates)
	})
}

// While calls wait, the key is removed and set again, or removed. Each waiting call finds what is there at its turn.
func TestMapUpdatesFindWhatIsThere(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := New[string, int](newTimer(t), nil)
			require.NoError(t, m.Set("a", 1, hour))
			start := time.Now()
			var all sync.WaitGroup
			all.Go(func() {
				_, ok := m.Update("a", func(int) int {
					time.Sleep(tick)
					m.Remove("a")
					if again {
						assert.NoError(t, m.Set("a", 10, hour))
					}
					return 2
				})
				assert.False(t, ok)
			})
			synctest.Wait()
			for range 5 {
				all.Go(func() {
					_, ok := m.Update("a", add1)
					assert.Equal(t, again, ok)
				})
				all.Go(func() {
					_, ok := m.RemoveIf("a", func(value int) bool { assert.GreaterOrEqual(t, value, 10); return value == 0 })
					assert.False(t, ok)
				})
			}
			all.Wait()
			require.Equal(t, tick, time.Since(start))
			want := map[string]int{}
			if again {
				want["a"] = 15
			}
			require.Equal(t, want, maps.Collect(m.All()))
			require.Empty(t, m.shard("a").updates)
		})
	}
}

// Entries are counted up until they expire. None expires twice, none is brought back, and no step is lost. On real time.
func TestMapUpdateRace(t *testing.T) {
	rnd := newRand(t)
	timer := newTimer(t, hashedwheel.WithTick(20*time.Microsecond))
	var last atomic.Int64
	ends := make(chan int64, 2)
	m := New(timer, func(_ int, value int64) { ends <- value })
	steps := 0
	for end := time.Now().Add(stressTime(t) / 2); goesOn(end, steps > 100); {
		last.Store(0)
		require.NoError(t, m.Set(1, 0, time.Duration(20+rnd.IntN(100))*time.Microsecond))
		var users sync.WaitGroup
		for range 3 {
			users.Go(func() {
				for {
					runtime.Gosched() // on js/wasm nothing preempts this loop
					value, ok := m.Update(1, func(value int64) int64 { return value + 1 })
					if !ok {
						return
					}
					assert.Positive(t, value)
					last.Add(1)
				}
			})
		}
		users.Wait()
		require.Equal(t, last.Load(), <-ends)
		steps += int(last.Load())
		require.Zero(t, m.Len())
		require.Empty(t, ends)
	}
	t.Logf("%d steps", steps)
	require.Empty(t, m.shard(1).updates)
}
