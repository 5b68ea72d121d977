package keyed

import (
	"maps"
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

const hour = time.Hour

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
		}, result{true, map[string]int{"a": 10, "b": 3}, nil}},
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
		"Update": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			m.Update("a", add1)
		}, result{false, map[string]int{"a": 2}, nil}},
		"Update that panics": {func(m *Map[string, int], _ *hashedwheel.Timer) {
			defer func() { recover() }()
			m.Update("a", func(int) int { panic("on purpose") })
		}, result{true, map[string]int{"a": 10}, nil}},
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

// Updates of one key run one after another, and wait for each other. One of another key does not wait, and neither does
// one inside an Update, so that it cannot wait for itself. A panic and a Goexit in f change nothing.
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

		// Two goroutines update two keys, each the other one's inside.
		results := map[string]bool{}
		var mu sync.Mutex
		for _, keys := range []string{"ab", "ba"} {
			all.Go(func() {
				_, outer := m.Update(keys[:1], func(value int) int {
					time.Sleep(tick)
					_, inner := m.Update(keys[1:], add1)
					mu.Lock()
					defer mu.Unlock()
					results["inside "+keys] = inner
					return -1
				})
				mu.Lock()
				defer mu.Unlock()
				results[keys] = outer
			})
		}
		all.Wait()
		t.Log(results)
		require.True(t, results["inside ab"] || results["inside ba"])
		for i := range m.shards {
			require.Empty(t, m.shards[i].updates)
		}
	})
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
