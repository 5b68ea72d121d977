package hashedwheel

import (
	"sync"
	"sync/atomic"
)

// The limit
//
// WithMaxPending gives the timer so many slots. A timeout takes one when it is armed and leaves it when
// it ends. So that this costs no counter that all goroutines share, each stripe has some of the free
// slots, and most often a goroutine takes one from its stripe, or leaves it there, by one locked
// operation on a line that it has anyway.
//
// A slot is always in one of three places: with a timeout, on a stripe, or among the rest, which belong
// to no stripe. Slots move from one stripe to another only under a lock. So a goroutine that holds the
// lock, and has found nothing on any stripe nor among the rest, knows that no slot was free all the
// time. One may have been left where it had looked already, while another one was taken where it had
// not: then it looks again.
//
// It sets the state to searching before it looks, and to noneFree afterwards, unless the state has changed.
// A goroutine that leaves a slot then resets the state to unknown. So the search finds the slot, or the
// state does not become noneFree, or does not stay noneFree. While the state is noneFree, timeouts are
// refused without the lock.
type limit struct {
	max int64 // 0 for no limit
	few int64 // how many slots a stripe gets at a time

	mu    sync.Mutex    // held to move slots from or to a stripe
	rest  atomic.Int64  // free slots of no stripe; only fewer with mu held
	state atomic.Uint32 // how sure it is that there is no free slot; raised only with mu held
}

// The states of a limit.
const (
	unknown = iota
	searching
	noneFree
)

// set sets the limit to n, of which so many stripes get some.
func (l *limit) set(n, stripes int) {
	l.max = int64(n)
	l.few = min(max(l.max/int64(4*stripes), 1), 64)
	l.rest.Store(l.max)
}

// takeSlot takes a slot for a timeout that is about to become pending, and reports whether there was
// one. Called only if there is a limit.
func (t *Timer) takeSlot(s *stripe) bool {
	for n := s.slots.Load(); n > 0; n = s.slots.Load() {
		if s.slots.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return t.takeMovedSlot(s)
}

// takeMovedSlot is takeSlot if there is none on the stripe. It gets some for it, from the rest, or
// else from the other stripes.
func (t *Timer) takeMovedSlot(s *stripe) bool {
	l := &t.limit
	if l.state.Load() == noneFree {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.rest.Load() == 0 {
		l.state.Store(searching)
		for i := range t.queue.stripes {
			if other := &t.queue.stripes[i]; other.slots.Load() != 0 {
				l.rest.Add(other.slots.Swap(0))
			}
		}
		if l.rest.Load() == 0 && l.state.CompareAndSwap(searching, noneFree) {
			return false
		}
	}
	l.state.Store(unknown)
	// Where few are left each stripe gets its part, or they would be taken to and fro.
	rest := l.rest.Load()
	n := min(rest, l.few, max(rest/int64(len(t.queue.stripes)), 1))
	l.rest.Add(-n)
	s.slots.Add(n - 1)
	return true
}

// freeSlot leaves the slot of a timeout that is no longer pending. A stripe that has many leaves it to
// the rest: there may be others who are short of them.
func (t *Timer) freeSlot(s *stripe) {
	if t.limit.max > 0 {
		t.limit.free(s)
	}
}

func (l *limit) free(s *stripe) {
	if s.slots.Load() < 2*l.few {
		s.slots.Add(1)
	} else {
		l.rest.Add(1)
	}
	if l.state.Load() != unknown {
		l.state.Store(unknown)
	}
}
