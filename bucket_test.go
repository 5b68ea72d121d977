package hashedwheel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A bucket is a list in which each timeout knows its position, whether it lies in the first array or
// in one of the chunks, and what lies beyond its end keeps nothing alive.
func TestBucketModel(t *testing.T) {
	r := newRand(t)
	var b bucket
	model := map[*Timeout]uint64{}
	most := 0
	for grow := range 8 {
		for range 5000 {
			switch {
			case r.IntN(10) < 3+5*((grow+1)%2) || len(model) == 0:
				to, tick := new(Timeout), 1+r.Uint64N(1000)
				b.add(tick, to)
				model[to] = tick
			case r.IntN(300) == 0: // as a visit does that leaves only so many
				n := r.IntN(b.len())
				for pos := n; pos < b.len(); pos++ {
					delete(model, b.at(pos).to)
				}
				b.truncate(n)
			default:
				to := b.at(r.IntN(b.len())).to
				require.Equal(t, model[to], b.remove(to))
				delete(model, to)
			}
			if b.len() != len(model) {
				t.Fatalf("%d entries, not %d", b.len(), len(model))
			}
			most = max(most, b.len())
		}
		least := ^uint64(0)
		for pos, e := range b.all() {
			require.Equal(t, model[e.to], e.tick)
			require.EqualValues(t, pos, e.to.pos)
			least = min(least, e.tick)
		}
		for e := range b.spare() {
			require.Nil(t, e.to)
		}
		require.LessOrEqual(t, b.cap(), max(8*b.len(), b.len()+3*chunkSize))
		b.findMin()
		require.True(t, b.len() == 0 || b.min == least)
	}
	require.Greater(t, most, 3*chunkSize)
	b.truncate(0)
	require.LessOrEqual(t, b.cap(), keepCap)
}
