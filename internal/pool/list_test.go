package pool

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// check checks the invariants of a list.
func (l *list[T]) check(t *testing.T) {
	t.Helper()
	var none T
	all := l.chunks[l.head:]
	n := 0
	for i, k := range all {
		in := 0
		for at, item := range k.items {
			if item != none {
				in++
				if at < k.from {
					t.Fatalf("chunk %d, entry %d: from %d: %+v", i, at, k.from, k)
				}
			}
		}
		room := k.items[len(k.items):cap(k.items)]
		if in != k.n || in == 0 || slices.ContainsFunc(room, func(item T) bool { return item != none }) {
			t.Fatalf("chunk %d of %d: %d items, counted %d", i, len(all), in, k.n)
		}
		if i > 0 && int32(k.base-all[i-1].base) <= 0 {
			t.Fatalf("chunk %d starts at position %d, before %d", i, k.base, all[i-1].base)
		}
		n += in
	}
	require.Equal(t, n, l.n)
	require.False(t, slices.ContainsFunc(l.chunks[:l.head], func(k *chunk[T]) bool { return k != nil }))
}

// items returns the items of a list.
func (l *list[T]) items() (all []T) {
	var none T
	for _, k := range l.chunks[l.head:] {
		for _, item := range k.items {
			if item != none {
				all = append(all, item)
			}
		}
	}
	return all
}

// Random operations on a list do what they would do on a sorted slice: items are numbered in the order in which they
// are added. Positions wrap around.
func TestListModel(t *testing.T) {
	r := newRand(t)
	for range newShare(t).Rounds(5, sized(30, 100, 5000)) {
		p := &Pool[int]{memory: new(Memory[int]), Limit: -1} // nothing runs
		l := &p.list
		l.memory = p.memory
		f := Feeder[int]{next: math.MaxUint32 - uint32(r.IntN(200)), pool: p}
		at := map[int]uint32{} // the positions of all items
		var want []int         // the items that are on the list
		growth := 1 + r.IntN(100)
		for range 300 {
			switch k := r.IntN(10); {
			case k < 3:
				for range 1 + r.IntN(growth) {
					item := len(at) + 1
					want = append(want, item)
					at[item] = f.Position()
					if f.Add(item); k == 0 {
						f.Flush()
					}
				}
				f.Flush()
			case k < 4 && l.n > 0:
				require.Equal(t, want[0], l.popFirst())
				want = want[1:]
			case len(at) > 0:
				for range 1 + r.IntN(60) {
					item := 1 + r.IntN(len(at))
					i, there := slices.BinarySearch(want, item)
					require.Equal(t, there, l.remove(item, at[item]))
					if there {
						want = slices.Delete(want, i, i+1)
					}
				}
			}
			l.check(t)
			require.True(t, slices.Equal(want, l.items()))
		}
		require.True(t, slices.Equal(want, l.popAll()))
		require.Zero(t, l.n)
	}
}

// A list that never becomes empty takes no more memory for all that has passed through it.
func TestListThatIsNeverEmpty(t *testing.T) {
	l := list[int]{memory: new(Memory[int])}
	item := 0
	for range 10_000 {
		for range 100 {
			item = item%1000 + 1
			l.add(item)
		}
		for l.n > 1 {
			l.popFirst()
		}
	}
	require.LessOrEqual(t, cap(l.chunks), keptLen)
	l.check(t)
}

// The last chunk is emptied by removals, so the chunk before is the last again. What comes then is found by its position.
func TestJoinBehindARemovedChunk(t *testing.T) {
	p := &Pool[int]{memory: new(Memory[int]), Limit: -1} // nothing runs
	p.list.memory = p.memory
	f := Feeder[int]{pool: p}
	add := func(n int) (first uint32) {
		first = f.Position()
		for i := range uint32(n) {
			f.Add(int(first+i) + 1)
		}
		f.Flush()
		return first
	}
	remove := func(first uint32, n int) {
		for pos := first; pos < first+uint32(n); pos++ {
			require.True(t, p.list.remove(int(pos)+1, pos))
		}
	}
	add(200)
	remove(add(100), 100) // a chunk of its own
	remove(add(10), 10)
	require.Equal(t, 200, p.list.n)
	p.list.check(t)
}
