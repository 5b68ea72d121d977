package semaphore

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A thing is an item with its place.
type thing struct {
	place Place
	kind  int
}

// Random operations on three semaphores of a set are compared with lists. Who has waited longest is first.
func TestModel(t *testing.T) {
	rnd := testkit.Rand(t)
	permits := []int{1, 2, 5}
	for range testkit.Sized(30, 100, 3000) {
		set := new(Set[*thing])
		var all []*Semaphore[*thing]
		for _, n := range permits {
			all = append(all, New(set, n))
		}
		running, waits := make([]int, len(all)), make([][]*thing, len(all))
		var onTheWay []*thing
		held := make([][]*thing, len(all))
		left := 0
		for range rnd.IntN(300) {
			kind := rnd.IntN(len(all))
			s := all[kind]
			switch op := rnd.IntN(10); {
			case op < 5:
				th := &thing{kind: kind}
				ok := s.Acquire(th, &th.place)
				require.Equal(t, running[kind] < permits[kind], ok)
				if ok {
					running[kind]++
					held[kind] = append(held[kind], th)
					break
				}
				require.Nil(t, s.Release(&th.place), "it holds no permit")
				waits[kind] = append(waits[kind], th)
				require.False(t, s.Acquire(th, &th.place), "it waits already")
			case op < 8:
				if len(held[kind]) == 0 {
					break
				}
				holder := held[kind][0]
				held[kind] = held[kind][1:]
				next := s.Release(&holder.place)
				require.Nil(t, s.Release(&holder.place), "it has given it back")
				if len(waits[kind]) == 0 {
					require.Nil(t, next)
					running[kind]--
					break
				}
				require.Same(t, waits[kind][0], next)
				waits[kind] = waits[kind][1:]
				onTheWay = append(onTheWay, next)
				left++
			case len(onTheWay) > 0:
				i := rnd.IntN(len(onTheWay))
				th := onTheWay[i]
				require.Nil(t, all[th.kind].Release(&th.place), "it does not hold it yet")
				require.True(t, all[th.kind].Acquire(th, &th.place))
				held[th.kind] = append(held[th.kind], th)
				onTheWay = slices.Delete(onTheWay, i, i+1)
			}
			n := 0
			for kind, s := range all {
				n += len(waits[kind])
				require.Equal(t, running[kind], s.used)
				_, waited := set.waited[s]
				require.Equal(t, len(waits[kind]) > 0, waited)
			}
			require.Equal(t, n, set.Waiting())
			require.Equal(t, n+len(onTheWay) == 0, set.Idle())
			require.EqualValues(t, left, set.Left())
		}
		want := slices.Concat(waits...)
		var found []*thing
		require.True(t, set.Each(func(items []*thing) bool { found = append(found, items...); return true }))
		require.ElementsMatch(t, want, found)
		require.ElementsMatch(t, want, set.TakeAll())
		require.Zero(t, set.Waiting())
		require.Empty(t, set.TakeAll())
	}
}

// Each yields what waits during the whole call exactly once, while others leave the queue and come to it. It ends when f says so.
func TestEach(t *testing.T) {
	const many = 5000
	set := new(Set[*thing])
	s := New(set, 1)
	things := make([]*thing, 2*many)
	for i := range things {
		things[i] = new(thing)
	}
	for _, th := range things[:many+1] {
		s.Acquire(th, &th.place)
	}
	holder := things[0]
	next := many + 1
	seen := make(map[*thing]int)
	calls := 0
	require.True(t, set.Each(func(items []*thing) bool {
		calls++
		for _, th := range items {
			seen[th]++
		}
		for range 100 {
			holder = pass(s, holder)
		}
		s.Acquire(things[next], &things[next].place)
		next++
		return true
	}))
	require.Greater(t, calls, 3)
	for _, n := range seen {
		require.Equal(t, 1, n)
	}
	for _, th := range things[:many+1] {
		if th.place == waiting {
			require.Equal(t, 1, seen[th])
		}
	}
	require.True(t, set.Each(func(items []*thing) bool { set.TakeAll(); return true }))
	s.Acquire(new(thing), new(Place))
	calls = 0
	require.False(t, set.Each(func([]*thing) bool { calls++; return false }))
	require.Equal(t, 1, calls)
}

// pass gives the permit of an item to the first that waits, and returns that.
func pass(s *Semaphore[*thing], holder *thing) *thing {
	next := s.Release(&holder.place)
	s.Acquire(next, &next.place)
	return next
}

// The queue does not grow while as many leave it as come to it, and keeps nothing of what has left.
func TestQueueStaysSmall(t *testing.T) {
	set := new(Set[*thing])
	s := New(set, 1)
	holder := new(thing)
	s.Acquire(holder, &holder.place)
	for range 100_000 {
		th := new(thing)
		s.Acquire(th, &th.place)
		if len(s.queue) > 10 {
			holder = pass(s, holder)
		}
	}
	require.Less(t, cap(s.queue), 100)
	for len(s.queue) > 0 {
		holder = pass(s, holder)
	}
	require.Nil(t, s.queue)
	require.Nil(t, s.Release(&holder.place))
	require.Zero(t, s.used)
}
