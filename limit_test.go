package hashedwheel

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slotsInUse returns how many slots of the limit are in use.
func (t *Timer) slotsInUse() int { return int(t.limit.inUse.Load()) }

// Each limit is exact: n timeouts are accepted, one more is refused, and each one that ends makes room for one.
func TestLimitIsExact(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 100, 10_000} {
		timer := newTimer(t, WithTick(time.Hour), WithMaxPending(limit))
		var all []*Timeout
		for range 3 {
			for len(all) < limit {
				to, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				all = append(all, to)
			}
			_, err := timer.AfterFunc(time.Hour, nop)
			require.ErrorIs(t, err, ErrTooManyPending)
			require.Equal(t, limit, timer.Pending())
			for _, to := range all[limit/3:] {
				require.True(t, to.Cancel())
			}
			all = all[:limit/3]
		}
		require.Equal(t, limit/3, timer.slotsInUse())
	}
}

// Goroutines arm and cancel timeouts. Where the limit is as high as the most that they hold, none is refused. Where it
// is lower, some are, and the limit is never exceeded.
func TestLimitRace(t *testing.T) {
	const users = 8
	for _, most := range []int{1, 3, 1250} { // that one goroutine holds
		t.Run("enough", func(t *testing.T) { require.Zero(t, raceForSlots(t, users, most, users*most)) })
		t.Run("too few", func(t *testing.T) { require.NotZero(t, raceForSlots(t, users, most, (users*most+1)/2)) })
	}
}

// raceForSlots has users arm up to most timeouts each, and returns how many were refused.
func raceForSlots(t *testing.T, users, most, limit int) int64 {
	timer := newTimer(t, WithTick(time.Hour), WithMaxPending(limit))
	var held, refused atomic.Int64
	var wg sync.WaitGroup
	seeds := newRand(t)
	for range users {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		wg.Go(func() {
			for end := time.Now().Add(stressTime(t) / 4); goesOn(end, limit == users*most || refused.Load() > 0); {
				var mine []*Timeout
				for range 1 + r.IntN(most) {
					to, err := timer.AfterFunc(time.Hour, nop)
					if err != nil {
						assert.ErrorIs(t, err, ErrTooManyPending)
						refused.Add(1)
						break
					}
					mine = append(mine, to)
					assert.LessOrEqual(t, held.Add(1), int64(limit))
				}
				runtime.Gosched()
				for _, to := range mine {
					held.Add(-1)
					assert.True(t, to.Cancel())
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, timer.slotsInUse())
	return refused.Load()
}
