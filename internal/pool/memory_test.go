package pool

import (
	"context"
	"math"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

// A mill is a pool whose tasks do little, and which is idle between two bursts of items.
type mill struct {
	*Pool[int]
	feeder Feeder[int]
	left   atomic.Int64 // items that have not run
}

func newMill() *mill {
	m := new(mill)
	warmUp()
	m.Pool, m.feeder = newLight(time.Second, func(int) {
		m.left.Add(-1)
		runtime.Gosched() // so that several runners are in tasks at the same time
	})
	m.Procs = maxProcs // however many processors there are
	m.Labels = pprof.WithLabels(context.Background(), pprof.Labels("a", "b"))
	return m
}

// feed hands over a burst of n items through the feeder. If quick, each chunk runs before the next one is added.
func (m *mill) feed(n int, quick bool) {
	m.left.Add(int64(n))
	for item := range n {
		m.feeder.Add(item + 1)
		if quick && m.feeder.chunk == nil {
			for m.left.Load() > int64(n-item-1) {
				runtime.Gosched()
			}
		}
	}
	m.feeder.Flush()
	m.await()
}

// add adds a burst of n items, one after another.
func (m *mill) add(n int) {
	m.left.Add(int64(n))
	for item := range n {
		m.Add(item + 1)
	}
	m.await()
}

// await waits until all items have run and all runners have ended. It allocates nothing.
func (m *mill) await() {
	for goroutines := 1; goroutines > 0 || m.left.Load() > 0; runtime.Gosched() {
		_, goroutines = m.Running()
	}
}

// warmUp makes the runtime keep goroutines and room for timers. To start the first ones allocates.
func warmUp() {
	var all sync.WaitGroup
	for range 4 * maxProcs {
		timer := time.AfterFunc(time.Hour, func() {})
		all.Go(func() {
			runtime.Gosched()
			timer.Stop()
		})
	}
	all.Wait()
}

// mallocs returns how many objects f allocates after two garbage collections, at least, in many tries: on a busy machine the
// runtime allocates often.
func mallocs(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for tries := 0; tries < 100 && least > 0; tries++ {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return least
}

// sizes are sizes of bursts. The first is the largest.
var sizes = []int{16 * chunkLen, 1, 64, 500, 1, 65, 20}

// When a pool has had a burst of items, other bursts that are not larger need no memory. Garbage collections take nothing
// away.
func TestBurstsNeedNoMemory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that no runner has a processor while the test adds items
	for name, burst := range map[string]func(m *mill, n int){
		"feeder":        func(m *mill, n int) { m.feed(n, false) },
		"feeder, quick": func(m *mill, n int) { m.feed(n, true) },
		"add":           (*mill).add,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMill()
			for range sized(2, 5, 50) {
				for _, n := range sizes {
					require.Zero(t, mallocs(func() { burst(m, n) }), "%d items", n)
				}
			}
		})
	}
}

// What a pool keeps for reuse keeps nothing else alive: no item and no pool. It is bounded.
func TestMemoryKeepsNothingAlive(t *testing.T) {
	m := new(Memory[*task])
	var pool weak.Pointer[fake]
	var item weak.Pointer[task]
	synctest.Test(t, func(t *testing.T) {
		h := &fake{t: t}
		h.pool.Init(h, time.Second, m)
		h.feeder = NewFeeder(&h.pool)
		w := new(task)
		h.fed = true
		h.add(w)
		h.addFunc(32, nil)
		synctest.Wait() // until the goroutine of the runner has ended
		pool, item = weak.Make(h), weak.Make(w)
	})
	runtime.GC()
	require.Nil(t, pool.Value())
	require.Nil(t, item.Value())

	require.NotEmpty(t, m.chunks)
	for range 2 * maxSpare {
		m.keep(&chunk[*task]{items: make([]*task, 0, chunkLen)})
	}
	require.Len(t, m.chunks, maxSpare)
}

// After a thousand tasks that blocked, and a long list, an idle pool keeps small arrays.
func TestIdlePoolKeepsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		h.blind = true
		h.pool.Limit = 1000
		h.addFunc(1000, func() { time.Sleep(time.Minute) })
		pass(3 * time.Millisecond)
		require.EqualValues(t, 1000, h.active.Load())
		h.addFunc(2*keptLen*chunkLen, nil)
		pass(time.Hour)
		p := &h.pool
		p.mu.Lock()
		defer p.mu.Unlock()
		require.LessOrEqual(t, max(cap(p.runners), cap(p.list.chunks)), keptLen)
		require.Len(t, p.spare, maxProcs)
		for _, rn := range p.spare {
			require.Nil(t, rn.item)
		}
		require.Nil(t, h.feeder.chunk)
	})
}
