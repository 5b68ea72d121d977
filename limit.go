package hashedwheel

import (
	"sync"
	"sync/atomic"
)

// The limit
//
// WithMaxPending(n) gives the timer n slots. A timeout takes a slot when it is armed, and frees it when it
// ends. A counter that all goroutines share would be slow, so each stripe has some of the free slots. Most
// often a goroutine takes a slot from its stripe, or frees it there, by one locked operation on a cache
// line that it uses anyway.
//
// A slot is always in one of three places: with a timeout, on a stripe, or in the reserve, which belongs to
// no stripe. Slots move from one stripe to another only under a lock. A goroutine that finds no slot on its
// stripe takes the lock, and searches the reserve and then all stripes. A search that finds nothing does not
// prove that no slot was free: a slot may have been freed on a stripe after the search had passed that
// stripe. In that case the goroutine searches again.
//
// A search sets the state to searching when it begins. If it has found nothing, it changes the state to
// noneFree, unless the state is no longer searching. A goroutine that has freed a slot sets the state to
// unknown. So a search finds each slot that is freed, or the state does not stay noneFree. While the state
// is noneFree, timeouts are refused without the lock.
type limit struct {
	max       int64 // 0 for no limit
	perStripe int64 // how many slots a stripe gets at a time

	mu      sync.Mutex    // held to move slots between a stripe and the reserve
	reserve atomic.Int64  // free slots that are on no stripe; decreases only with mu held
	state   atomic.Uint32 // whether a slot may be free; set to searching or noneFree only with mu held
}

// The states of a limit. In the last two, a slot may have been freed meanwhile. Then the goroutine that has
// freed it is about to set the state to unknown.
const (
	unknown   = iota // a slot may be free
	searching        // a goroutine searches
	noneFree         // a search has found nothing
)

// set sets the limit to n, for a queue with this number of stripes.
func (l *limit) set(n, stripes int) {
	l.max = int64(n)
	l.perStripe = min(max(l.max/int64(4*stripes), 1), 64)
	l.reserve.Store(l.max)
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

// takeMovedSlot is takeSlot for a stripe that has no slots. It moves some slots there from the reserve. If
// the reserve is empty, it first moves the slots of all stripes to the reserve.
func (t *Timer) takeMovedSlot(s *stripe) bool {
	l := &t.limit
	if l.state.Load() == noneFree {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.reserve.Load() == 0 {
		l.state.Store(searching)
		for i := range t.queue.stripes {
			if other := &t.queue.stripes[i]; other.slots.Load() != 0 {
				l.reserve.Add(other.slots.Swap(0))
			}
		}
		if l.reserve.Load() == 0 && l.state.CompareAndSwap(searching, noneFree) {
			return false
		}
	}
	l.state.Store(unknown)
	// When few are left, a stripe gets only its share. Otherwise stripes would keep taking slots from each other.
	reserve := l.reserve.Load()
	n := min(reserve, l.perStripe, max(reserve/int64(len(t.queue.stripes)), 1))
	l.reserve.Add(-n)
	s.slots.Add(n - 1)
	return true
}

// freeSlot frees the slot of a timeout that is no longer pending. The slot goes to the stripe. If the stripe
// has many, the slot goes to the reserve, because other stripes may be short of slots.
func (t *Timer) freeSlot(s *stripe) {
	if t.limit.max > 0 {
		t.limit.free(s)
	}
}

func (l *limit) free(s *stripe) {
	if s.slots.Load() < 2*l.perStripe {
		s.slots.Add(1)
	} else {
		l.reserve.Add(1)
	}
	if l.state.Load() != unknown {
		l.state.Store(unknown)
	}
}
