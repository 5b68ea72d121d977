package keyed

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// All methods, expiry and Stop race for the same few keys, on real time. Each value that was set ends exactly once.
func TestMapRace(t *testing.T) {
	for name, opts := range map[string][]hashedwheel.Option{
		"runners":          nil,
		"one":              {hashedwheel.WithMaxConcurrency(1)},
		"limit":            {hashedwheel.WithMaxPending(4)},
		"pool":             {hashedwheel.WithExecutor(func(run func()) error { go run(); return nil })},
		"limit of the map": nil,
	} {
		t.Run(name, func(t *testing.T) {
			rnd := newRand(t)
			var expired, removed, cleared, replaced, found, left, waited int
			end := time.Now().Add(stressTime(t) / 2)
			seen := func() bool {
				return expired > 0 && removed > 0 && cleared > 0 && replaced > 0 && found > 0 && left > 0
			}
			for goesOn(end, seen()) {
				r := race{t: t, timer: newTimer(t, append(opts, hashedwheel.WithTick(20*time.Microsecond))...)}
				if name == "limit of the map" {
					r.opt = WithConcurrency(1 + rnd.IntN(2))
				}
				r.run(rnd)
				st := r.timer.Stats()
				expired += int(st.Expired)
				removed += int(r.removed.Load())
				cleared += int(r.cleared.Load())
				replaced += r.replaced
				found += int(r.found.Load())
				left += int(st.Returned)
				waited += r.waited
			}
			t.Logf("%d expired, %d removed, %d cleared, %d replaced, %d found, %d left, %d of them waited",
				expired, removed, cleared, replaced, found, left, waited)
			require.True(t, seen(), "the test did not see every outcome")
		})
	}
}

const raceOps, racers, raceKeys = 300, 4, 5

// A race is a round of TestMapRace.
type race struct {
	t     *testing.T
	timer *hashedwheel.Timer
	opt   Option
	m     *Map[int, int]

	// For each value: its key, whether it was stored, and how often it has ended. No call reports that a Set has
	// replaced a value, or which values Clear has removed.
	keyOf  [racers * raceOps]atomic.Int32
	stored [racers * raceOps]atomic.Bool
	ends   [racers * raceOps]atomic.Int32

	removed, removedIf, cleared, found atomic.Int32
	replaced, waited                   int
}

func (r *race) run(rnd *rand.Rand) {
	t := r.t
	slow := rnd.IntN(2) == 0 // with a limit, others are due and wait
	r.m = New(r.timer, func(_, value int) {
		r.ends[value].Add(1)
		if slow && value%8 == 0 {
			time.Sleep(50 * time.Microsecond)
		}
	}, r.opt)
	var users sync.WaitGroup
	for p := range racers {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		users.Go(func() {
			for n := range raceOps {
				r.act(rnd, p*raceOps+n)
			}
		})
	}
	quiet := rnd.IntN(2) == 0
	if quiet {
		users.Wait()
	}
	timeouts, err := r.timer.Shutdown(t.Context())
	require.NoError(t, err)
	for key := range raceKeys {
		_, ok := r.m.Get(key)
		require.False(t, ok, "after Stop")
	}
	users.Wait()
	behind := slices.Collect(maps.Values(maps.Collect(r.m.All())))
	for _, to := range timeouts {
		it := to.Task().(*item[int, int])
		if _, waited := it.shard.overdue[it]; waited { // it was due when its key was set again
			behind = append(behind, it.value)
			r.waited++
		}
	}
	stored, missing := 0, 0
	for value := range r.ends {
		n := int(r.ends[value].Load())
		if slices.Contains(behind, value) {
			n++
		}
		require.LessOrEqual(t, n, 1, "value %d", value)
		switch {
		case !r.stored[value].Load():
			require.Zero(t, n, "value %d", value)
		case n == 0:
			stored++
			missing++
		default:
			stored++
		}
	}
	// Each value that was stored armed a timeout, or replaced another value. RemoveIf may return a value that was replaced.
	r.replaced = missing - int(r.cleared.Load())
	st := r.timer.Stats()
	late := stored - r.replaced - int(st.Accepted) // how many RemoveIf has returned that were replaced meanwhile
	require.GreaterOrEqual(t, late, 0)
	require.LessOrEqual(t, late, int(r.removedIf.Load()))
	if quiet {
		require.EqualValues(t, int(r.removed.Load()+r.removedIf.Load()+r.cleared.Load())-late, st.Canceled)
		require.EqualValues(t, len(behind), st.Returned)
	}
}

// act calls a method, and perhaps another one. A Set uses the given value.
func (r *race) act(rnd *rand.Rand, value int) {
	key, delay := rnd.IntN(raceKeys), time.Duration(rnd.IntN(60))*time.Microsecond
	check := func(value int, ok bool) {
		if ok {
			r.found.Add(1)
			assert.EqualValues(r.t, key, r.keyOf[value].Load())
		}
	}
	switch rnd.IntN(8) {
	case 0, 1:
		r.keyOf[value].Store(int32(key))
		if r.m.Set(key, value, delay) == nil {
			r.stored[value].Store(true)
		}
	case 2:
		r.keyOf[value].Store(int32(key))
		got, present, err := r.m.GetOrSet(key, value, delay)
		check(got, present)
		if !present && err == nil {
			r.stored[value].Store(true)
		}
	case 3:
		if value, ok := r.m.Remove(key); ok {
			r.removed.Add(1)
			r.ends[value].Add(1)
		}
	case 4:
		check(r.m.Touch(key, delay))
	case 5:
		check(r.m.Get(key))
	case 6:
		check(r.m.Update(key, func(value int) int { return value }))
	case 7:
		if value, ok := r.m.RemoveIf(key, func(value int) bool { return value%2 == 0 }); ok {
			r.removedIf.Add(1)
			r.ends[value].Add(1)
		}
	}
	if rnd.IntN(30) == 0 {
		r.cleared.Add(int32(r.m.clear()))
	}
	if rnd.IntN(10) == 0 {
		time.Sleep(time.Duration(rnd.IntN(50)) * time.Microsecond)
	}
}

// Goroutines set keys while others call Clear. Each key is either removed and counted by Clear, or it is still there
// and its timeout is pending.
func TestMapClearRace(t *testing.T) {
	rnd := newRand(t)
	timer := newTimer(t)
	m := New(timer, func(key, _ int) { t.Error("not due for hours", key) })
	cleared, kept := 0, 0
	for end := time.Now().Add(stressTime(t) / 2); goesOn(end, cleared > 0 && kept > 0); {
		const producers, keys = 3, 200
		var now atomic.Int64
		var wg sync.WaitGroup
		for p := range producers {
			rnd := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			wg.Go(func() {
				for i := range keys {
					assert.NoError(t, m.Set(p*keys+i, i, time.Hour))
					if rnd.IntN(50) == 0 {
						now.Add(int64(m.clear()))
					}
				}
			})
		}
		wg.Wait()
		left := maps.Collect(m.All())
		require.Equal(t, producers*keys, int(now.Load())+len(left))
		require.Equal(t, len(left), timer.Pending())
		for key, value := range left {
			require.Equal(t, key%keys, value)
			_, ok := m.Touch(key, 2*time.Hour)
			require.True(t, ok)
		}
		require.Equal(t, len(left), m.clear())
		require.Zero(t, timer.Pending())
		cleared += int(now.Load())
		kept += len(left)
	}
	t.Logf("%d cleared while others called Set, %d kept", cleared, kept)
	require.Positive(t, cleared)
	require.Positive(t, kept)
}

// No call finds a key past its deadline, or brings it back, and each value expires once, although the worker is often late.
// On real time.
func TestMapDeadlineRace(t *testing.T) {
	rnd := newRand(t)
	timer := newTimer(t, hashedwheel.WithTick(20*time.Microsecond))
	var expired atomic.Int64
	m := New(timer, func(int, int) { expired.Add(1) })
	found, gone, removed := 0, 0, 0
	for end := time.Now().Add(stressTime(t) / 2); goesOn(end, found > 0 && gone > 100); {
		require.NoError(t, m.Set(1, 1, time.Duration(rnd.IntN(100))*time.Microsecond))
		deadline, ok := m.Deadline(1)
		for call := rnd.IntN(6); ok; yield(1) {
			before := time.Now()
			switch call {
			case 0:
				_, ok = m.Get(1)
			case 1:
				_, ok = m.Touch(1, tick)
			case 2:
				_, ok = m.Deadline(1)
			case 3:
				_, ok = m.Update(1, func(value int) int { return value })
			case 4:
				_, ok = maps.Collect(m.All())[1]
			case 5:
				if _, ok = m.Remove(1); ok {
					removed++
				}
			}
			if !ok {
				break
			}
			found++
			require.True(t, before.Before(deadline), "call %d, %v late", call, before.Sub(deadline))
			if call == 1 || call == 5 {
				call = 0
				deadline, ok = m.Deadline(1)
			}
		}
		gone++
	}
	left, err := timer.Shutdown(t.Context()) // of values that were due and waited
	require.NoError(t, err)
	t.Logf("%d values, found %d times, %d removed, %d left", gone, found, removed, len(left))
	require.EqualValues(t, gone, removed+int(expired.Load())+len(left))
}
