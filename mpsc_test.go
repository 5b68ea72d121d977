package hashedwheel

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/seat"
)

// There are twice as many stripes as processors, rounded up to a power of two, within bounds.
func TestStripes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for procs, want := range map[int]int{1: 8, 4: 8, 5: 16, 32: 64, 128: 256, 1000: 256} {
		if oneThread {
			procs, want = 1, 8 // the platform has only one processor
		}
		runtime.GOMAXPROCS(procs)
		require.Equal(t, want, defaultStripes(), "%d processors", procs)
	}
}

// Two goroutines that are busy on the same stripe at the same time separate.
func TestChangeStripe(t *testing.T) {
	needsThreads(t) // with one thread goroutines do not collide
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	timer := newTimer(t, WithTick(time.Hour))
	q := &timer.queue
	setStripes(timer, 2)
	q.seats = new(seat.Table)
	for i := range q.seats {
		q.seats[i].Store(uint32(i % 2)) // all on the first stripe
	}
	var quit atomic.Bool
	var users sync.WaitGroup
	for range 2 {
		users.Go(func() {
			for !quit.Load() {
				to, err := timer.AfterFunc(time.Hour, nop)
				if err != nil {
					panic(err)
				}
				to.Cancel()
			}
		})
	}
	apart := false
	for end := time.Now(); goesOn(end, apart); {
		time.Sleep(time.Millisecond) // real time, because the goroutines must run at the same time
		apart = q.stripes[1].accepted() > 0
	}
	quit.Store(true)
	users.Wait()
	require.True(t, apart)
	require.Zero(t, timer.Pending())
}

// No timeout is lost when very many goroutines arm a few each, on all stripes.
func TestManyGoroutines(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	const n = 5000
	var ran atomic.Int64
	var canceled atomic.Int64
	var users sync.WaitGroup
	for range n {
		users.Go(func() {
			var all []*Timeout
			for range 4 {
				to, err := timer.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, func() { ran.Add(1) })
				if err != nil {
					panic(err)
				}
				all = append(all, to)
			}
			runtime.Gosched()
			for _, to := range all[:2] {
				if to.Cancel() {
					canceled.Add(1)
				}
			}
		})
	}
	users.Wait()
	require.Eventually(t, func() bool { return ran.Load()+canceled.Load() == 4*n }, patience, time.Millisecond)
	used := 0
	for i := range timer.queue.stripes {
		if timer.queue.stripes[i].accepted() > 0 {
			used++
		}
	}
	require.Greater(t, used, 1)
}
