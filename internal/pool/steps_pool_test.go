package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// Each scenario searches the orders of the steps of a few goroutines that use a pool, while its runners do their part.
// TestExplore runs them, in a copy of the package that has no other tests.

const tick = time.Millisecond

var scenarios = make(explore.Scenarios)

// The states of an item.
const (
	itemWaits = iota
	itemClaimed
	itemOver
	itemCanceled
	itemReturned
)

// An item counts its runs. Its fields need no lock, because one goroutine runs at a time.
type item struct {
	state explore.Uint32
	f     func()
	again int  // how often it is due again
	tell  bool // Claim asks for Ran
	last  bool // Close has returned it while it ran
	runs  int
	rans  int // how often Ran has returned
}

// A scene is one execution of a scenario.
type scene struct {
	*explore.Run
	pool   Pool[*item]
	feeder Feeder[*item]
	items  [3]item
	order  []*item
	closed explore.Uint32
	late   int // claims after the host had what Close returned
	twice  int // items that a runner has taken although another runner has taken them

	counted int // tasks of which it was counted how late they were
}

// search returns a scenario, which searches the orders of a scene. At the end of each, nothing is left to do.
func search(play func(s *scene)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		size := explore.Size{Passes: 1, Aftermath: true}
		explore.Scenario(t, tick, size, size, func(r *explore.Run) {
			s := &scene{Run: r}
			s.pool.Init(host{s}, tick, new(Memory[*item]))
			s.feeder = NewFeeder(&s.pool)
			play(s)
			p := &s.pool
			require.Zero(s, s.late)
			require.Zero(s, s.twice)
			require.Equal(s, len(s.order), s.counted)
			require.Empty(s, p.runners)
			require.Zero(s, p.starting.Load())
			require.False(s, p.watching)
			for i := range s.items {
				require.NotContains(s, []uint32{itemWaits, itemClaimed}, s.items[i].state.Load(), "item %d", i)
			}
		})
	}
}

// race runs the racers. When they have returned, nothing waits any more, before time passes.
func (s *scene) race() {
	s.Race(0)
	synctest.Wait()
	if s.closed.Load() == 0 {
		require.Zero(s, s.pool.list.n)
	}
}

// feed adds items through the feeder.
func (s *scene) feed(items []item) {
	for i := range items {
		s.feeder.Add(&items[i])
	}
	s.feeder.Flush()
}

// close closes the pool. No item is claimed after it has ended what Close returned.
func (s *scene) close() {
	for _, w := range s.pool.Close() {
		w.last = true
		w.state.CompareAndSwap(itemWaits, itemReturned)
	}
	s.closed.Store(1)
}

// await waits until the runs of an item that are in progress are over.
func (s *scene) await(w *item) {
	for _, run := range s.pool.Runs(func(other *item) bool { return other == w }) {
		explore.Channel(run.Over)
		<-run.Over
	}
}

// forget leaves out the items that a scenario does not use.
func (s *scene) forget(items []item) {
	for i := range items {
		items[i].state.Store(itemReturned)
	}
}

// host is the scene as the host of the pool. A scene itself has a field Run.
type host struct{ *scene }

func (s host) Work(rn *Runner[*item]) {
	for w := rn.Next(); w != nil; w = rn.Next() {
		closed := s.closed.Load() != 0
		if !w.state.CompareAndSwap(itemWaits, itemClaimed) {
			if state := w.state.Load(); state == itemClaimed || state == itemOver {
				s.twice++
			}
			continue
		}
		if closed {
			s.late++
		}
		if rn.Start(w.tell) {
			rn.Measured(0)
		}
		s.run(w)
	}
}

func (s host) Count(_ time.Duration, n uint64) { s.counted += int(n) }

func (s host) run(w *item) {
	w.runs++
	s.order = append(s.order, w)
	if w.f != nil {
		w.f()
	}
	if !w.tell {
		w.state.Store(itemOver)
	}
}

func (s host) Ran(w *item) bool {
	if w.again == 0 || w.last {
		w.state.Store(itemOver)
		w.rans++
		return false
	}
	w.again--
	w.state.Store(itemWaits)
	w.rans++
	if w.last && w.state.CompareAndSwap(itemWaits, itemOver) { // Close came before the Store
		return false
	}
	return true
}

func (s host) Requeue(w *item) { s.pool.Add(w) }

func (s host) Panicked(*item, any, []byte) {}

var _ = scenarios.Add(explore.Scenarios{
	// Three goroutines add an item each, and there may be several runners. Each item runs once.
	"Adds": search(func(s *scene) {
		for i := range s.items {
			s.Go(func() { s.pool.Add(&s.items[i]) })
		}
		s.race()
		for i := range s.items {
			require.Equal(s, 1, s.items[i].runs)
		}
	}),
	// An item is added when the last runner is about to end. It is not left without a runner.
	"AddAtTheEnd": search(func(s *scene) {
		s.forget(s.items[2:])
		s.Go(func() { s.pool.Add(&s.items[0]) })
		s.Go(func() { s.pool.Add(&s.items[1]) })
		s.race()
		require.Equal(s, 2, s.items[0].runs+s.items[1].runs)
	}),
	// An item is removed while a runner claims it. It runs, or is removed.
	"Remove": search(func(s *scene) {
		s.pool.Limit = 1
		removed := 0
		s.Go(func() { s.feed(s.items[:]) })
		s.Go(func() {
			if w := &s.items[1]; w.state.CompareAndSwap(itemWaits, itemCanceled) {
				removed++
				s.pool.Remove(w, 1)
			}
		})
		s.race()
		require.Equal(s, 1, s.items[1].runs+removed)
		require.Len(s, s.order, 3-removed)
	}),
	// The pool is closed while a runner claims items, and while items are added. Each runs or is returned. What is added too late
	// stays on the list.
	"Close": search(func(s *scene) {
		s.Go(func() { s.feed(s.items[:]) })
		s.Go(s.close)
		s.race()
		require.True(s, s.pool.list.n == 0 || len(s.order) == 0)
		for _, w := range s.pool.list.popAll() {
			require.True(s, w.state.CompareAndSwap(itemWaits, itemReturned))
		}
	}),
	// The pool is closed while a task is due again at once. It runs again, or is returned.
	"CloseAndAgain": search(func(s *scene) {
		s.forget(s.items[1:])
		w := &s.items[0]
		w.tell, w.again = true, 1
		s.Go(func() { s.pool.Add(w) })
		s.Go(func() {
			if w.state.Load() != itemWaits || w.runs > 0 {
				s.close()
			}
		})
		s.race()
		require.True(s, w.runs > 0)
	}),
	// Runs finds a run that was claimed before. When the channel is closed, the run is over. Another item may wait. Each runs once.
	"Runs": func(t *testing.T) {
		for n := 1; n <= 2; n++ {
			search(func(s *scene) {
				s.pool.Limit = 1
				s.forget(s.items[n:])
				w := &s.items[0]
				s.Go(func() { s.feed(s.items[:n]) })
				s.Go(func() {
					if w.state.Load() != itemClaimed {
						return
					}
					s.await(w)
					require.EqualValues(s, itemOver, w.state.Load())
				})
				s.race()
				require.Len(s, s.order, n)
				require.Equal(s, 1, w.runs)
			})(t)
		}
	},
	// A run is over when Ran has returned. Then the channel is closed, also if the item runs again at once.
	"RunsAgain": search(func(s *scene) {
		s.forget(s.items[1:])
		w := &s.items[0]
		w.tell, w.again = true, 1
		n, rans := 0, 0
		s.Go(func() { s.pool.Add(w) })
		s.Go(func() {
			if w.state.Load() != itemClaimed {
				return
			}
			n = w.rans + 1
			s.await(w)
			rans = w.rans
		})
		s.race()
		require.GreaterOrEqual(s, rans, n, "the run was not over")
		require.Equal(s, 2, w.runs)
	}),
	// With an executor and a limit of one, the turns are neither lost nor doubled.
	"Turns": search(func(s *scene) {
		s.forget(s.items[2:])
		s.pool.Limit = 1
		var calls Calls
		calls.Init(tick)
		x := NewExecutor(&s.pool, &calls, tick, func(run func()) error { run(); return nil }, func() {}, nil)
		for i := range 2 {
			s.Go(func() { s.pool.Add(&s.items[i]) })
		}
		s.race()
		require.Len(s, s.order, 2)
		require.Zero(s, x.waiting)
		require.Zero(s, s.pool.starting.Load())
	}),
})
