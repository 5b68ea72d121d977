package pool

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Several goroutines add and remove tasks, ask for counts and runs, and close the pool at a random moment. Each task
// runs, is removed or is returned by Close: exactly one of these, as the fake host checks. The test runs on real time.
func TestRace(t *testing.T) {
	seeds := newRand(t)
	var ran, removed, left int64
	seen := func() bool { return ran > 0 && removed > 0 && left > 0 }
	for end := time.Now().Add(stressTime(t)); goesOn(end, seen()); {
		t.Run("", func(t *testing.T) { // finish checks each round
			h := newFake(t, 50*time.Microsecond)
			h.pool.Limit = []int{0, 0, 1, 2, 5}[seeds.IntN(5)]
			switch seeds.IntN(4) {
			case 0:
				h.executor(func(run func()) error { go run(); return nil })
			case 1:
				h.executor(wild)
			}
			toss := seeds.IntN(2) == 0
			h.fed = !toss && seeds.IntN(2) == 0
			var gone atomic.Int64
			var users, askers sync.WaitGroup
			stop := make(chan struct{})
			for range 3 {
				r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
				users.Go(func() {
					var all []*task
					for range 300 {
						w := newWild(r)
						if toss {
							if !h.toss(w) {
								return
							}
							all = append(all, w)
							continue
						}
						if !h.addOpen(w) {
							return
						}
						all = append(all, w)
						if old := all[r.IntN(len(all))]; r.IntN(3) == 0 && h.remove(old) {
							gone.Add(1)
						}
					}
				})
			}
			ask := rand.New(rand.NewPCG(seeds.Uint64(), 0))
			askers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					h.pool.Running()
					h.pool.Waiting()
					if all := h.order(); len(all) > 0 {
						for _, over := range h.runsOf(all[ask.IntN(len(all))]) {
							<-over
						}
					}
					runtime.Gosched()
				}
			})
			time.Sleep(time.Duration(seeds.IntN(1500)) * time.Microsecond)
			if seeds.IntN(2) == 0 {
				users.Wait()
			}
			left += int64(len(h.close()))
			users.Wait()
			<-h.pool.UntilIdle()
			close(stop)
			askers.Wait()
			ran += h.claims.Load()
			removed += gone.Load()
		})
	}
	t.Logf("%d ran, %d were removed, %d were left", ran, removed, left)
	require.True(t, seen())
}

// newWild returns a task that may block, run again, panic, or end its goroutine.
func newWild(r *rand.Rand) *task {
	how, again := r.IntN(40), r.IntN(8)
	w := &task{f: func() {
		switch how {
		case 0:
			time.Sleep(100 * time.Microsecond)
		case 1:
			panic("task")
		}
		exit(how == 2)
	}}
	if r.IntN(5) == 0 {
		w.next = func() bool {
			again--
			exit(again == 3)
			return again > 0
		}
	}
	return w
}

// exit ends the goroutine on a condition.
func exit(on bool) {
	if on {
		runtime.Goexit()
	}
}

// wild is an executor that fails in all ways.
func wild(run func()) error {
	switch rand.IntN(5) {
	case 0:
		panic("closed")
	case 1:
		run()
	case 2:
		run()
		return errors.New("too late")
	case 3:
		return errors.New("full")
	default:
		go run()
		run()
	}
	return nil
}

// addOpen is add unless the pool is closed.
func (h *fake) addOpen(w *task) bool {
	h.gate.Lock()
	defer h.gate.Unlock()
	if h.closed.Load() {
		return false
	}
	h.remember([]*task{w})
	h.put(w)
	h.feeder.Flush()
	return true
}
