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

// slotsInUse returns how many slots of the limit are in use. It is exact at rest. Otherwise it may count slots that are
// just being freed.
func (t *Timer) slotsInUse() int {
	t.limit.mu.Lock()
	defer t.limit.mu.Unlock()
	free := t.limit.reserve.Load()
	for i := range t.queue.stripes {
		free += t.queue.stripes[i].slots.Load()
	}
	return int(t.limit.max - free)
}

// All slots can be used from any stripe, wherever they were freed. The limits are near the number of stripes, and near
// the number of slots that a stripe gets at a time.
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

// Goroutines take and free slots on all stripes. There are as many slots as they need at most. So none is refused, and
// the limit is never exceeded.
func TestSlotsRace(t *testing.T) {
	const users, each = 8, 3
	timer := newTimer(t, WithTick(time.Hour), WithMaxPending(users*each))
	stripes := timer.queue.stripes
	var inUse atomic.Int64
	var wg sync.WaitGroup
	seeds := newRand(t)
	for range users {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		wg.Go(func() {
			for end := time.Now().Add(stressTime(t)); time.Now().Before(end); {
				n := 1 + r.IntN(each)
				for range n {
					if !assert.True(t, timer.takeSlot(&stripes[r.IntN(len(stripes))])) {
						return
					}
					assert.LessOrEqual(t, inUse.Add(1), int64(users*each))
				}
				if r.IntN(8) == 0 {
					runtime.Gosched()
				}
				for range n {
					inUse.Add(-1)
					timer.freeSlot(&stripes[r.IntN(len(stripes))])
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, timer.slotsInUse())
}
