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
		if i > 0 && int32(k.start()-all[i-1].start()) <= 0 {
			t.Fatalf("chunk %d starts at position %d, before %d", i, k.start(), all[i-1].start())
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

// A list whose items are removed keeps little memory, in any order: at most some eight entries for each that is left.
func TestListShrinks(t *testing.T) {
	r := newRand(t)
	l := list[int]{memory: new(Memory[int])}
	const n = 2 * chunkLen * chunkLen // twice as many chunks as an empty list has room for
	for i := range n {
		l.add(i + 1) // at position i
	}
	order := r.Perm(n)
	for i, item := range order {
		if !l.remove(item+1, uint32(item)) || l.remove(item+1, uint32(item)) {
			t.Fatalf("item %d is not removed once", item)
		}
		if left := n - i - 1; left > 0 && i%1000 == 0 {
			l.check(t)
			entries := 0
			for _, k := range l.chunks[l.head:] {
				entries += cap(k.items)
			}
			require.LessOrEqual(t, entries, maxGaps*left+chunkLen)
		}
	}
	require.Zero(t, l.n)
	require.LessOrEqual(t, cap(l.chunks), keptLen)
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

// Only the first of all items that lie in a chunk is left when the next chunk begins. Nothing is removed after that.
func TestListShrinksAtItsEnd(t *testing.T) {
	l := list[int]{memory: new(Memory[int])}
	for i := range 10 * chunkLen {
		l.add(i + 1) // at position i
		if i%chunkLen > 1 {
			require.True(t, l.remove(i+1, uint32(i)))
		}
	}
	l.check(t)
	for _, k := range l.chunks[:9] {
		require.Equal(t, 2, cap(k.items))
	}
	require.True(t, l.remove(chunkLen+2, chunkLen+1))
	require.Equal(t, 10*2-1, l.n)
}
