package crew

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
	n, pos := 0, uint32(0)
	for i, k := range all {
		in := 0
		for slot, item := range k.items {
			if item != none {
				in++
				if slot < k.from || slot >= k.end || n+in > 1 && int32(k.base+uint32(slot)-pos) <= 0 {
					t.Fatalf("chunk %d, slot %d: from %d, end %d, after position %d: %+v", i, slot, k.from, k.end, pos, k)
				}
				pos = k.base + uint32(slot)
			}
		}
		if in != k.n || in == 0 {
			t.Fatalf("chunk %d of %d: %d items, counted %d", i, len(all), in, k.n)
		}
		n += in
	}
	require.Equal(t, n, l.n)
	require.False(t, slices.ContainsFunc(l.chunks[:l.head], func(k *chunk[T]) bool { return k != nil }))
	require.LessOrEqual(t, len(l.spare), maxSpare)
	for _, k := range l.spare {
		require.Equal(t, [chunkLen]T{}, k.items, "a spare chunk keeps nothing alive")
	}
}

// Random operations on a list do what they would do on a map of positions. Groups that were taken come back in any
// order. Positions wrap around.
func TestListModel(t *testing.T) {
	r := newRand(t)
	for range newShare(t).Rounds(5, sized(30, 100, 5000)) {
		at := numbers{}
		l := list[int]{host: at, next: math.MaxUint32 - uint32(r.IntN(200))}
		var groups []*chunk[int]
		listed := map[int]bool{} // the items that are on the list, where they were placed last
		added := 0
		f := Feeder[int]{next: l.next, crew: &Crew[int]{}} // without a runner
		f.crew.Limit, f.crew.runners = 1, 1
		add := func(items ...int) {
			for _, item := range items {
				listed[item] = true
			}
			if r.IntN(2) == 0 {
				f.next = l.next
				f.crew.due = l
				for _, item := range items {
					at[item] = f.next
					f.Add(item)
				}
				f.Flush()
				l = f.crew.due
				l.next = f.next
			} else {
				for _, item := range items {
					at[item] = l.next
					l.add(item)
				}
			}
		}
		growth := 1 + r.IntN(100)
		for range 300 {
			switch k := r.IntN(10); {
			case k < 3:
				var items []int
				for range 1 + r.IntN(growth) {
					added++
					items = append(items, added)
				}
				add(items...)
			case k < 4 && l.n > 0:
				first := l.chunks[l.head]
				item := l.takeOne()
				if at.isAt(item, first.start()-1) {
					delete(listed, item)
				}
			case k < 5 && l.n > 0:
				most, was := 2+r.IntN(chunkLen), l.n
				g := l.take(most)
				require.True(t, g.n > 0 && g.n <= most && l.n == was-g.n)
				groups = append(groups, g)
				for slot, item := range g.items {
					if item != 0 && at.isAt(item, g.base+uint32(slot)) {
						require.True(t, listed[item])
						delete(listed, item)
						if g.n > 1 && r.IntN(10) == 0 { // as a timeout that is reset while its runner is stuck
							require.True(t, g.remove(item, at[item]))
							add(item)
						}
					}
				}
			case k < 8 && len(groups) > 0:
				i := r.IntN(len(groups))
				g := groups[i]
				n, items := r.IntN(g.end-g.from+1), 0
				for slot := g.from + n; slot < g.end; slot++ {
					if item := g.items[slot]; item != 0 {
						require.True(t, at.isAt(item, g.base+uint32(slot)))
						listed[item] = true
						items++
					}
				}
				require.Equal(t, items, l.giveBack(g, n))
				require.Empty(t, slices.DeleteFunc(slices.Clone(g.items[g.from+n:]), func(item int) bool { return item == 0 }))
				groups = slices.Delete(groups, i, i+1)
			case added > 0:
				for range 1 + r.IntN(60) {
					item := 1 + r.IntN(added)
					require.Equal(t, listed[item], l.remove(item, at[item], len(groups) == 0))
					delete(listed, item)
				}
			}
			l.check(t)
			n := 0
			for _, k := range l.chunks[l.head:] {
				for slot, item := range k.items {
					if item != 0 && at.isAt(item, k.base+uint32(slot)) {
						n++
					}
				}
			}
			require.Len(t, listed, n)
			require.Equal(t, l.n, n)
		}
		n := l.n
		require.Len(t, l.takeAll(), n)
		require.Zero(t, l.n)
	}
}

// A list whose items are removed keeps little memory, in any order: at most some eight slots for each that is left.
func TestListShrinks(t *testing.T) {
	r := newRand(t)
	at := numbers{}
	l := list[int]{host: at}
	const n = 2 * chunkLen * chunkLen // twice as many chunks as an empty list has room for
	for i := range n {
		at[i+1] = l.next
		l.add(i + 1)
	}
	order := r.Perm(n)
	for i, item := range order {
		require.True(t, l.remove(item+1, at[item+1], true))
		require.False(t, l.remove(item+1, at[item+1], true))
		if left := n - i - 1; left > 0 && i%1000 == 0 {
			l.check(t)
			require.LessOrEqual(t, len(l.chunks)-l.head, 1+2*left/(chunkLen/4))
		}
	}
	require.Zero(t, l.n)
	require.LessOrEqual(t, cap(l.chunks), chunkLen)
}

// Items that are given back come first again, in their order.
func TestListOrder(t *testing.T) {
	l := list[int]{host: numbers{}}
	const n, size = 3*chunkLen + 8, chunkLen / 4
	for i := range n {
		l.add(i + 1)
	}
	a, b := l.take(size), l.take(size)
	require.Equal(t, size, a.n)
	require.Equal(t, size-5, l.giveBack(b, 5))
	require.Equal(t, size-1, l.giveBack(a, 1))
	l.check(t)
	var want []int
	for i := range n {
		if i != 0 && (i < size || i >= size+5) {
			want = append(want, i+1)
		}
	}
	require.Equal(t, want, l.takeAll())
}

// A list that never becomes empty takes no more memory for all that has passed through it.
func TestListThatIsNeverEmpty(t *testing.T) {
	l := list[int]{host: numbers{}}
	item := 0
	for range 10_000 {
		for range 100 {
			item = item%1000 + 1
			l.add(item)
		}
		for l.n > 1 {
			l.takeOne()
		}
	}
	require.LessOrEqual(t, cap(l.chunks), 16)
	l.check(t)
}
