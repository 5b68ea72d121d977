package pool

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A feeder hands over chunks that are full, and the rest when it is flushed. Until then it has the items. Its
// positions wrap around.
func TestFeeder(t *testing.T) {
	for _, first := range []uint32{0, math.MaxUint32 - 70} {
		synctest.Test(t, func(t *testing.T) {
			h := newFake(t, time.Millisecond)
			h.pool.Limit = -1 // nothing runs
			h.fed = true
			f := &h.feeder
			f.next = first
			h.pool.list.gone.Store(first)
			f.Flush()
			require.Zero(t, h.pool.Waiting())
			var all []*task
			for i := range uint32(chunkLen + 10) {
				w := new(task)
				all = append(all, w)
				require.Equal(t, first+i, f.Position())
				h.put(w)
				require.Equal(t, i < chunkLen-1, h.pool.Waiting() == 0, "handed over only when the chunk is full")
			}
			h.remember(all)
			require.Equal(t, chunkLen, h.pool.Waiting())
			f.Flush()
			require.Equal(t, len(all), h.pool.Waiting())
			for i, w := range all {
				require.True(t, h.remove(w))
				require.Equal(t, len(all)-i-1, h.pool.Waiting())
			}
		})
	}
}

// Remove removes an item that the feeder still has, and one that it has handed over.
func TestFeederRemove(t *testing.T) {
	var p Pool[int]
	p.Init(numbers{}, time.Second, new(Memory[int]))
	p.Limit = -1 // nothing runs
	f := NewFeeder(&p)
	for item := range uint32(4) {
		require.Equal(t, item, f.Position())
		f.Add(int(item) + 1)
	}
	f.Remove(2, 1)
	require.Equal(t, 3, p.Waiting(), "the others have been handed over")
	f.Remove(2, 1)
	f.Remove(4, 3)
	require.Equal(t, []int{1, 3}, p.Close())
}

// Remove takes no lock and hands over nothing for an item that a runner has taken, as one has of each repeating task that comes due again.
func TestFeederRemovesNothing(t *testing.T) {
	var p Pool[int]
	p.Init(numbers{}, time.Second, new(Memory[int]))
	p.Limit = -1 // nothing runs
	f := NewFeeder(&p)
	for item := range 2*chunkLen + 2 {
		f.Add(item + 1)
	}
	f.Flush()
	p.mu.Lock()
	for range 2*chunkLen + 1 {
		p.list.popFirst()
	}
	p.mu.Unlock()
	f.Remove(2*chunkLen+1, 2*chunkLen) // the one behind it is still there
	f.Add(7)
	func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Remove(1, 0)
			f.Remove(2*chunkLen, 2*chunkLen-1)
		}()
		select {
		case <-ended:
		case <-time.After(testkit.Patience): // real time: it would wait for the lock
			t.Error("takes the lock")
		}
	}()
	require.NotNil(t, f.chunk)
	f.Remove(2*chunkLen+2, 2*chunkLen+1)
	f.Flush()
	require.Equal(t, []int{7}, p.Close())
}

// A feeder that hands over a few items at a time allocates nothing, because the list copies them.
func TestFeederAllocatesNothing(t *testing.T) {
	var p Pool[int]
	p.Init(numbers{}, time.Second, new(Memory[int]))
	p.Limit = -1 // nothing runs
	f := NewFeeder(&p)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for item := range 5 {
			f.Add(item + 1)
		}
		f.Flush()
		for p.list.n > 1 {
			p.list.popFirst()
		}
	}))
}
