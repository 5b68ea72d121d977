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

// slotsInUse returns how many slots of the limit are in use. It is exact only while none is being
// taken or freed.
func (t *Timer) slotsInUse() int {
	t.limit.mu.Lock()
	defer t.limit.mu.Unlock()
	free := t.limit.reserve.Load()
	for i := range t.queue.stripes {
		free += t.queue.stripes[i].slots.Load()
	}
	return int(t.limit.max - free)
}

// All slots can be used from any stripe, wherever they were freed. Some limits are near 8, the least number of
// stripes. With the largest, a stripe gets many slots at a time.
func TestSlotsAreFoundAnywhere(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 8, 9, 100, 1000, 10_000} {
		timer := newTimer(t, WithTick(time.Hour), WithMaxPending(limit))
		stripes := timer.queue.stripes
		r := newRand(t)
		for range 20 {
			for n := range limit {
				s := &stripes[r.IntN(len(stripes))]
				require.True(t, timer.takeSlot(s), "the %dth of %d", n, limit)
			}
			for i := range stripes {
				require.False(t, timer.takeSlot(&stripes[i]))
			}
			for range limit {
				timer.freeSlot(&stripes[r.IntN(len(stripes))])
			}
		}
		require.Zero(t, timer.slotsInUse())
	}
}

// Goroutines take and free slots on all stripes. If there are as many slots as they need at most, none is refused. If
// there are fewer, the limit is never exceeded.
func TestSlotsRace(t *testing.T) {
	const users, each = 8, 3
	t.Run("enough", func(t *testing.T) { require.Zero(t, raceForSlots(t, users, each, users*each)) })
	t.Run("too few", func(t *testing.T) { require.NotZero(t, raceForSlots(t, users, each, users)) })
}

// raceForSlots has users take up to each slots at a time, and returns how often they were refused one.
func raceForSlots(t *testing.T, users, each, limit int) (refused int64) {
	timer := newTimer(t, WithTick(time.Hour), WithMaxPending(limit))
	stripes := timer.queue.stripes
	var inUse, refusals atomic.Int64
	var wg sync.WaitGroup
	seeds := newRand(t)
	for range users {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		wg.Go(func() {
			for end := time.Now().Add(stressTime(t) / 2); goesOn(end, limit == users*each || refusals.Load() > 0); {
				taken := 0
				for range 1 + r.IntN(each) {
					if !timer.takeSlot(&stripes[r.IntN(len(stripes))]) {
						refusals.Add(1)
						break
					}
					taken++
					assert.LessOrEqual(t, inUse.Add(1), int64(limit))
				}
				if r.IntN(8) == 0 {
					runtime.Gosched()
				}
				for range taken {
					inUse.Add(-1)
					timer.freeSlot(&stripes[r.IntN(len(stripes))])
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, timer.slotsInUse())
	return refusals.Load()
}
