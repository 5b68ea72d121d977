package hashedwheel

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A Keyed without a callback removes entries when they expire, and nothing panics.
func TestKeyedWithoutCallback(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		cache := NewKeyed[string, int](timer, nil)
		require.NoError(t, cache.Set("a", 1, 3*tick))
		require.NoError(t, cache.Set("b", 2, 5*tick))
		pass(3*tick - 1)
		require.Equal(t, map[string]int{"a": 1, "b": 2}, maps.Collect(cache.All()))
		pass(1)
		require.Equal(t, map[string]int{"b": 2}, maps.Collect(cache.All()))
		pass(2 * tick)
		require.Zero(t, cache.Len())
		st := timer.Stats()
		require.EqualValues(t, 2, st.Expired)
		require.Zero(t, st.Panics)
	})
}

// Stats counts the timeouts of a Keyed as the documentation of Keyed says.
func TestKeyedStats(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		k := NewKeyed[int, int](timer, nil)
		for range 2 {
			for key := range 10 {
				require.NoError(t, k.Set(key, key, 5*tick))
				require.True(t, k.Move(key, 3*tick))
				_, ok := k.Touch(key, 4*tick)
				require.True(t, ok)
			}
			pass(2 * tick)
		}
		require.Equal(t, Stats{Pending: 10, Accepted: 10}, outcomes(timer))
		k.Remove(0)
		require.True(t, k.Move(1, 0))
		pass(tick)
		require.Equal(t, Stats{Pending: 8, Accepted: 10, Expired: 1, Canceled: 1}, outcomes(timer))
		require.NoError(t, k.Set(0, 0, time.Hour))
		require.Equal(t, 9, k.Clear())
		require.NoError(t, k.Set(0, 0, time.Hour))
		require.Len(t, timer.Stop(), 1)
		require.Equal(t, Stats{Accepted: 12, Expired: 1, Canceled: 10, Returned: 1}, outcomes(timer))
	})
}

// Touch makes a sliding limit: a key that is touched in time stays for another delay, and expires exactly then.
func TestKeyedTouch(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick, limit = time.Millisecond, 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var ends moments
		k := NewKeyed(timer, func(key, value string) { ends.note() })
		start := time.Now()
		require.NoError(t, k.Set("a", "x", limit))
		for range 5 {
			pass(limit - tick)
			value, ok := k.Touch("a", limit)
			require.True(t, ok)
			require.Equal(t, "x", value)
		}
		value, ok := k.Touch("b", limit)
		require.False(t, ok)
		require.Zero(t, value)
		require.Equal(t, 1, k.Len(), "Touch adds no key")
		pass(2 * limit)
		require.Equal(t, []time.Duration{5*(limit-tick) + limit}, ends.since(start))
		value, ok = k.Touch("a", limit)
		require.False(t, ok)
		require.Zero(t, value)
		require.Zero(t, timer.Pending())
		require.EqualValues(t, 1, timer.Stats().Accepted)
	})
}

// Touch returns the value whose deadline it has moved, even if the value expires or is replaced at the same moment. A
// value that Touch has returned does not expire at its old deadline.
func TestKeyedTouchIsOneStep(t *testing.T) {
	rnd := newRand(t)
	timer := newTimer(t, WithTick(20*time.Microsecond))
	var mu sync.Mutex
	expired := map[int]bool{}
	k := NewKeyed(timer, func(_, value int) {
		mu.Lock()
		defer mu.Unlock()
		expired[value] = true
	})
	spin := func(n int) {
		for range n {
			runtime.Gosched()
		}
	}
	var touched []int // old values
	later, missed, value := 0, 0, 0
	for end := time.Now().Add(stressTime(t)); goesOn(end, len(touched) > 0 && later > 0 && missed > 0); {
		value += 2
		old, next := value, value+1
		require.NoError(t, k.Set(1, old, time.Duration(rnd.IntN(40))*time.Microsecond))
		before, wait := rnd.IntN(100), rnd.IntN(100)
		var wg sync.WaitGroup
		wg.Go(func() {
			spin(before)
			assert.NoError(t, k.Set(1, next, time.Hour))
		})
		spin(wait)
		got, ok := k.Touch(1, time.Hour)
		wg.Wait()
		switch {
		case !ok:
			missed++
		case got == old:
			touched = append(touched, old)
		default:
			require.Equal(t, next, got)
			later++
		}
		got, ok = k.Get(1)
		require.True(t, ok)
		require.Equal(t, next, got)
		k.Remove(1)
	}
	require.Positive(t, missed)
	require.Positive(t, later)
	require.NotEmpty(t, touched)
	_, err := timer.Shutdown(t.Context())
	require.NoError(t, err)
	for _, old := range touched {
		require.False(t, expired[old], "value %d was touched", old)
	}
	t.Logf("touched %d old values and %d new ones, and missed the key %d times; %d expired", len(touched), later, missed, len(expired))
}

// Clear removes all keys, and frees their timeouts and slots. The Keyed can be used afterwards.
func TestKeyedClear(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick, keys = time.Millisecond, 100
		timer := newTimer(t, WithTick(tick), WithMaxPending(keys))
		ends := make(chan int, 3*keys)
		var k *Keyed[int, int]
		k = NewKeyed(timer, func(key, value int) {
			ends <- value
			if key == -1 {
				assert.Equal(t, keys-1, k.Clear(), "from inside")
			}
		})
		require.Zero(t, k.Clear())
		for i := range keys {
			require.NoError(t, k.Set(i, i, time.Duration(i+1)*tick))
		}
		pass(10 * tick)
		require.Len(t, ends, 10)
		require.Equal(t, keys-10, k.Clear())
		require.Zero(t, k.Clear())
		require.Zero(t, k.Len())
		require.Zero(t, timer.Pending())
		for i := range keys {
			_, ok := k.Get(i)
			require.False(t, ok)
			require.False(t, k.Move(i, tick))
			require.NoError(t, k.Set(i-1, i+1000, 20*tick), "all slots are free")
		}
		require.NoError(t, k.Set(-1, 999, 10*tick))
		pass(time.Hour)
		require.Len(t, ends, 11, "since the first Clear, only the entry whose callback clears the others has expired")
		require.Zero(t, k.Len())
		require.EqualValues(t, keys-10+keys-1, timer.Stats().Canceled)
	})
}

// A runner has claimed the timeout of an entry, but has not removed the entry from the map yet. Clear does not count
// such an entry, and expired is called for it. A value that is set for the key meanwhile stays.
func TestKeyedClearMeetsExpiry(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newFakedTimer(t, WithTick(tick))
		var ends []string
		k := NewKeyed(timer, func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
		require.NoError(t, k.Set("a", 1, time.Hour))
		require.NoError(t, k.Set("b", 2, time.Hour))
		it := k.shard("a").items["a"]
		it.timeout.word.Store(withStatus(it.timeout.word.Load(), expired)) // as a runner does
		require.Equal(t, 1, k.Clear())
		require.Zero(t, k.Len())
		require.NoError(t, k.Set("a", 3, time.Hour))
		it.Run(&it.timeout)
		require.Equal(t, []string{"a1"}, ends)
		require.Equal(t, map[string]int{"a": 3}, maps.Collect(k.All()))
	})
}

// Goroutines set keys while others call Clear. Each key is either removed and counted by Clear, or it is still there
// and its timeout is pending. The test runs on real time.
func TestKeyedClearRace(t *testing.T) {
	rnd := newRand(t)
	timer := newTimer(t, WithTick(time.Millisecond))
	k := NewKeyed(timer, func(key, _ int) { t.Error("not due for hours", key) })
	cleared, kept := 0, 0
	for end := time.Now().Add(stressTime(t) / 2); goesOn(end, cleared > 0 && kept > 0); {
		const producers, keys = 3, 200
		var now atomic.Int64
		var wg sync.WaitGroup
		for p := range producers {
			seed := rnd.Uint64()
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, 0))
				for i := range keys {
					assert.NoError(t, k.Set(p*keys+i, i, time.Hour))
					if rnd.IntN(50) == 0 {
						now.Add(int64(k.Clear()))
					}
				}
			})
		}
		wg.Wait()
		left := maps.Collect(k.All())
		require.Equal(t, producers*keys, int(now.Load())+len(left))
		require.Equal(t, len(left), timer.Pending())
		for key, value := range left {
			require.Equal(t, key%keys, value)
			require.True(t, k.Move(key, 2*time.Hour))
		}
		require.Equal(t, len(left), k.Clear())
		require.Zero(t, timer.Pending())
		cleared += int(now.Load())
		kept += len(left)
	}
	t.Logf("%d cleared while others called Set, %d kept", cleared, kept)
	require.Positive(t, cleared)
	require.Positive(t, kept)
}
