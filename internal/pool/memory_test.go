package pool

import (
	"context"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
		runtime.Gosched() // so that several runners have batches at the same time
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
		if quick && (m.feeder.chunk == nil || m.feeder.chunk.n == 0) {
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

// mallocs returns how many objects f allocates after two garbage collections.
func mallocs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// sizes are sizes of bursts that a pool is prepared for when it has seen the largest.
var sizes = []int{1, 64, 500, maxReady * chunkLen, 1, 65, 20}

// A feeder that has handed over a burst of items hands over bursts that are not larger, and the pool runs their tasks,
// without an allocation. That holds even if the first burst never needed more than a chunk at a time, and later ones
// wait for a processor as a whole. Garbage collections take nothing away.
func TestFeederNeedsNoMemory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that no runner has a processor while the test adds items
	m := newMill()
	m.feed(maxReady*chunkLen, true)
	for range sized(2, 5, 50) {
		for _, n := range sizes {
			require.Zero(t, mallocs(func() { m.feed(n, false) }), "%d items", n)
		}
	}
}

// The same holds for the first items of a timer, which come one at a time. The feeder hands over its only chunk, and
// needs another for the second item before a runner has returned the first chunk.
func TestSecondItemNeedsNoMemory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := newMill()
	m.left.Add(3)
	m.feeder.Add(1)
	m.feeder.Flush()
	require.Zero(t, mallocs(func() {
		m.feeder.Add(2)
		m.feeder.Flush()
		m.feeder.Add(3)
		m.feeder.Flush()
	}))
	m.await()
}

// Add allocates only if more items wait than ever before.
func TestAddNeedsNoMemory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := newMill()
	for range 2 {
		for _, n := range sizes {
			m.add(n)
		}
	}
	for _, n := range sizes {
		least := mallocs(func() { m.add(n) })
		for range 4 { // because the runtime allocates now and then on a busy machine
			least = min(least, mallocs(func() { m.add(n) }))
		}
		require.Zero(t, least, "%d items", n)
	}
}

// After a list that was very long, short bursts still need no memory.
func TestNoMemoryAfterALongList(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := newMill()
	m.feed(100*chunkLen, false)
	for _, n := range sizes {
		require.Zero(t, mallocs(func() { m.feed(n, false) }), "%d items", n)
	}
}

// requireTrimmed checks that a feeder and its pool keep nothing for reuse.
func requireTrimmed[T comparable](t *testing.T, f *Feeder[T]) {
	t.Helper()
	p := f.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Nil(t, f.chunk)
	require.True(t, p.due.chunks == nil && p.due.head == 0)
	require.Nil(t, p.due.spare)
	require.Nil(t, p.runners)
	require.Nil(t, p.batched)
	require.Nil(t, p.watch)
}

// When an idle pool has been trimmed it keeps nothing for reuse. Then it works again, and needs memory only once.
func TestTrim(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := newMill()
	m.feeder.Trim()
	requireTrimmed(t, &m.feeder)
	for range 3 {
		m.feed(500, true)
		require.NotNil(t, m.feeder.chunk)
		require.NotEmpty(t, m.due.spare)
		require.NotEmpty(t, m.runners)
		require.NotNil(t, m.watch)
		require.Zero(t, mallocs(func() { m.feed(500, false) }))
		m.feeder.Trim()
		requireTrimmed(t, &m.feeder)
	}
}

// Calls that have been made keep nothing after Trim, nor does an executor whose functions have been submitted.
func TestTrimCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		x := h.executor(func(run func()) error { run(); return nil })
		x.calls.Call(func() {})
		h.addFunc(10, nil)
		synctest.Wait()
		for _, calls := range []*Calls{x.calls, &x.submitters} {
			f := NewFeeder(&calls.pool)
			require.NotEmpty(t, calls.pool.runners)
			calls.Trim()
			requireTrimmed(t, &f)
			calls.Call(func() {})
			synctest.Wait()
			require.NotEmpty(t, calls.pool.runners)
		}
		x.Trim()
		require.Nil(t, x.submitters.pool.runners)
	})
}

// Trim keeps items that the feeder has collected, and items on the list.
func TestTrimKeepsItems(t *testing.T) {
	var p Pool[int]
	p.Init(numbers{}, time.Second)
	p.Limit = -1 // nothing runs
	f := NewFeeder(&p)
	f.Add(1)
	f.Trim()
	require.Equal(t, 1, f.chunk.n)
	f.Flush()
	f.Add(2)
	f.Trim()
	require.Equal(t, 1, f.chunk.n)
	f.Flush()
	f.Trim()
	require.Equal(t, []int{1, 2}, p.Close())
	require.True(t, p.due.chunks == nil && p.due.spare == nil, "a closed list keeps nothing")
	f.Add(3)
	f.Trim()
	f.Flush()
	require.Nil(t, p.due.spare, "a closed pool is not prepared")
}

// Trim leaves the watch alone while it is armed.
func TestTrimWhileWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no check comes but that of the test
		var p Pool[int]
		p.Init(numbers{}, time.Second)
		p.due.add(1)
		p.keepWatch()
		p.Remove(1, 0)
		p.Trim()
		require.True(t, p.watching)
		p.onWatch()
		require.False(t, p.watching)
		p.Trim()
		require.Nil(t, p.watch)
	})
}

// If Trim is called while a task is in progress, the rest is freed when the task is over, unless an item is added
// before.
func TestTrimDuringATask(t *testing.T) {
	for _, added := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newFake(t, time.Millisecond)
			h.fed = true
			h.addFunc(500, func() { time.Sleep(time.Second) })
			pass(time.Minute)
			h.addFunc(1, func() { time.Sleep(time.Hour) })
			synctest.Wait()
			kept := func() [3]int {
				p := &h.pool
				p.mu.Lock()
				defer p.mu.Unlock()
				return [3]int{len(p.runners) - p.live, len(p.due.spare), p.live}
			}
			h.trim()
			require.Equal(t, [3]int{0, 0, 1}, kept())
			if added {
				h.addFunc(1, nil)
				synctest.Wait()
			}
			pass(2 * time.Hour)
			require.Zero(t, h.runners())
			if !added {
				requireTrimmed(t, &h.feeder)
				return
			}
			require.NotZero(t, kept()[0])
			h.trim()
			requireTrimmed(t, &h.feeder)
		})
	}
}

// Any goroutine may trim a pool while items are added and run. The test runs on real time, because it tests a race.
func TestTrimRace(t *testing.T) {
	needsThreads(t)
	m := newMill()
	var trimmer sync.WaitGroup
	var end atomic.Bool
	trimmer.Go(func() {
		for !end.Load() {
			m.Trim()
			runtime.Gosched()
		}
	})
	r := newRand(t)
	for range newShare(t).Rounds(50, sized(500, 2000, 20_000)) {
		n := 1 + r.IntN(300)
		m.left.Add(int64(n))
		for item := range n {
			m.feeder.Add(item + 1)
		}
		m.feeder.Flush()
		if r.IntN(2) == 0 {
			m.await()
		}
		if r.IntN(10) == 0 {
			m.feeder.Trim()
		}
	}
	m.await()
	end.Store(true)
	trimmer.Wait()
	m.feeder.Trim()
	requireTrimmed(t, &m.feeder)
}
