package hashedwheel

import (
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/bitmap"
)

// A bucket behaves like a map from timeouts to ticks. Each timeout knows its position. Neither memory after the last entry
// nor a free piece keeps a timeout alive. When the bucket gets a new base, an overdue entry gets the present tick.
func TestBucketModel(t *testing.T) {
	r := newRand(t)
	var b bucket
	free := newFreeList()
	model := map[*Timeout]uint64{}
	most, now, rebased := 0, uint64(0), 0
	check := func(e entry) {
		if tick := model[e.to]; e.tick != tick && (e.tick > now || e.tick < tick) {
			t.Fatalf("tick %d, not %d, at %d", e.tick, tick, now)
		}
	}
	for grow := range 8 {
		for range 5000 {
			switch {
			case r.IntN(10) < 3+5*((grow+1)%2) || len(model) == 0:
				now += r.Uint64N(1 << 22)
				to, tick, base := new(Timeout), now+1+r.Uint64N(reach), b.base
				b.add(now, tick, to, &free)
				model[to] = tick
				if b.n > 1 && b.base != base {
					rebased++
				}
			// As a visit does that leaves n entries. Not in the first phase, so that the bucket gets long.
			case grow > 0 && r.IntN(300) == 0:
				n := r.IntN(b.n)
				for pos := n; pos < b.n; pos++ {
					delete(model, b.entry(pos).to)
				}
				b.truncate(n, &free)
			default:
				e := b.entry(r.IntN(b.n))
				check(e)
				require.Equal(t, e.tick, b.remove(e.to, &free))
				delete(model, e.to)
			}
			if b.n != len(model) {
				t.Fatalf("%d entries, not %d", b.n, len(model))
			}
			most = max(most, b.n)
		}
		least := ^uint64(0)
		for pos, e := range b.all() {
			check(e)
			require.EqualValues(t, pos, e.to.pos)
			least = min(least, e.tick)
		}
		for to := range b.unused() {
			require.Nil(t, to)
		}
		for _, p := range free.pieces {
			require.Zero(t, p.to)
		}
		require.LessOrEqual(t, len(free.pieces), freeListLen)
		require.LessOrEqual(t, b.cap(), b.n+pieceSize)
		require.LessOrEqual(t, cap(b.pieces), max(8*len(b.pieces), keepPieces))
		l := level{buckets: []bucket{b}, stale: bitmap.New(1)}
		l.findMin(0)
		require.True(t, b.n == 0 || l.buckets[0].min == least)
	}
	require.Positive(t, rebased)
	require.Greater(t, most, freeListLen*pieceSize)
	b.truncate(0, &free)
	require.Zero(t, b.cap())
	require.LessOrEqual(t, cap(b.pieces), keepPieces)
}

// A piece for which the free list has no room keeps no timeout alive, although its array is still in use.
func TestDroppedPieces(t *testing.T) {
	const n = freeListLen * pieceSize
	var first, second bucket
	free := newFreeList()
	var canceled []weak.Pointer[Timeout]
	for range n {
		to := new(Timeout)
		first.add(0, 1, to, &free)
		canceled = append(canceled, weak.Make(to))
	}
	for range n {
		second.add(0, 1, new(Timeout), &free)
	}
	second.truncate(0, &free)
	require.Len(t, free.pieces, freeListLen)
	first.truncate(1, &free)
	runtime.GC()
	for _, p := range canceled[1:] {
		require.Nil(t, p.Value())
	}
	runtime.KeepAlive(first)
	runtime.KeepAlive(free)
}
