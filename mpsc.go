package hashedwheel

import (
	"iter"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A queue passes timeouts from any goroutine to the worker, without a lock. It is split into
// stripes, so that goroutines on different cores seldom share a cache line. With one
// shared head, two producers would spend most of their time waiting for that line.
type queue struct {
	stripes []stripe // their number is a power of two
	seats   []seat   // each goroutine uses one of them; nil if all goroutines use the first stripe

	shut atomic.Bool // the gate is shut: the timer is stopped
}

// A stripe has two stacks. Timeouts that the worker has never taken are pushed on fresh. Producers prune
// that stack, and put the timeouts that they keep into segments: see prune.go. All other timeouts are pushed
// on known, which only the worker and Stop take.
//
// The counters count what the goroutines that use the stripe do. Arming is counted before another goroutine
// can see the timeout, so armed grows before the timeout can end.
type stripe struct {
	fresh       stack
	armed       atomic.Uint64 // timeouts armed, each of them pushed
	canceled    atomic.Uint64 // timeouts canceled
	inside      atomic.Int64  // goroutines inside the gate, see enter
	known       stack
	pushedAgain atomic.Uint64 // timeouts pushed on known
	rearmed     atomic.Uint64 // timeouts armed again, by Reset or for the next run
	dropped     atomic.Uint64 // canceled timeouts that producers have taken off the queue, see prune.go

	// For pruning, see prune.go.
	kept       segments
	searchFrom atomic.Uint32 // the index of the stripe at which idleStripe starts its search
	seen       atomic.Uint64 // the value of armed when idleStripe last checked this stripe

	// A stripe fills two cache lines, because processors fetch lines in pairs.
	_ [128 - 10*8 - unsafe.Sizeof(segments{})]byte
}

// A stack of timeouts grows by compare-and-swap. No operation takes a single timeout off it, only all of
// them at once. So a push is correct even if the head has changed meanwhile and then changed back: such
// stacks have no ABA problem.
type stack struct{ head atomic.Pointer[Timeout] }

// closed is the head of a stack that accepts no more timeouts.
var closed = new(Timeout)

// newQueue makes two stripes for each processor, at least 8 and at most 256, which take 32 KiB. So
// nearly every running goroutine has one of its own, after goroutines that collided have changed stripes.
func newQueue() queue {
	n := ceilPowerOfTwo(min(max(2*runtime.GOMAXPROCS(0), 8), 256))
	return queue{stripes: make([]stripe, n), seats: allSeats[:]}
}

// A seat counts how often its goroutines have collided with others on their stripe, and have moved
// on to another one. A goroutine's spot selects its seat. The spot and the seat's count select its stripe.
type seat struct{ moves atomic.Uint32 }

const seatBits = 12

// allSeats has the seats of the whole program, because a goroutine has the same seat with every timer.
var allSeats [1 << seatBits]seat

// A spot identifies a goroutine by a hash of the address of its stack, in units of 2 KiB. No two stacks
// lie in the same unit, so two goroutines have different spots. A goroutine most often has the same spot
// each time. So it comes back to the same stripe, whose lines and timeouts are still in its cache.
type spot uint64

// here returns the spot of the calling goroutine.
func here() spot {
	var local byte
	return spotAt(uintptr(unsafe.Pointer(&local)))
}

// spotAt returns the spot for an address on a stack. It uses Fibonacci hashing: Knuth, The Art of Computer
// Programming, volume 3, section 6.4.
func spotAt(address uintptr) spot {
	const stackShift = 11
	return spot(uint64(address>>stackShift) * 0x9E3779B97F4A7C15)
}

// seat returns the index of the seat in allSeats: the upper bits of the spot.
func (sp spot) seat() int { return int(sp >> (64 - seatBits)) }

// stripe returns the stripe that the calling goroutine should use now. Any other stripe would be correct
// too, but more often shared.
func (q *queue) stripe() *stripe {
	if q.seats == nil {
		return &q.stripes[0]
	}
	return &q.stripes[q.stripeOf(here())]
}

// stripeOf returns the index of the stripe for a spot. Two spots with the same seat usually have steps of
// different length, so that moves separate them. Steps are odd, so that they lead to every stripe.
func (q *queue) stripeOf(sp spot) int {
	step := int(sp>>32)&0xfff | 1
	return (sp.seat() + step*int(q.seats[sp.seat()].moves.Load())) & (len(q.stripes) - 1)
}

// changeStripe moves the goroutines of the caller's seat to another stripe. Called when the caller has
// collided with another goroutine on its stripe, so that goroutines that are busy at the same time
// separate. Call it from the function that called stripe, or from one that it calls: there the
// spot is most often the same.
func (q *queue) changeStripe() {
	if q.seats != nil {
		q.seats[here().seat()].moves.Add(1)
	}
}

// empty reports whether it has found every stripe empty. It checks one after another, so the
// stripes may have been empty at different moments.
func (q *queue) empty() bool {
	for i := range q.stripes {
		s := &q.stripes[i]
		if s.fresh.head.Load() != nil || s.known.head.Load() != nil || s.kept.n.Load() != 0 {
			return false
		}
	}
	return true
}

// enter enters the gate through a stripe, and reports whether the gate is open: see stop.go. Every enter needs a
// leave, even if the gate is shut.
func (q *queue) enter(s *stripe) bool {
	s.inside.Add(1)
	return !q.shut.Load()
}

func (s *stripe) leave() { s.inside.Add(-1) }

// push pushes a timeout on a stack. The caller must have set the timeout's queued bit, or
// be its only owner. After a successful push, the timeout's link belongs to the goroutine that takes it
// off. First reports whether the stack was empty. If it was, the caller must call summon. Alone reports
// whether no other goroutine has changed the stack during the push. Ok is false if the stack is closed.
func (st *stack) push(to *Timeout) (first, alone, ok bool) {
	for alone = true; ; alone = false {
		head := st.head.Load()
		if head == closed {
			return false, alone, false
		}
		to.link = head
		if st.head.CompareAndSwap(head, to) { // to.link is no longer ours from here
			return head == nil, alone, true
		}
	}
}

// take empties the stack and returns its timeouts as a linked list, the latest first. Called by the
// worker, and by producers inside the gate.
func (st *stack) take() *Timeout {
	if st.head.Load() == nil {
		return nil
	}
	return st.head.Swap(nil)
}

// close empties the stack for good and returns its timeouts as a linked list. Called once, by Stop.
func (st *stack) close() *Timeout { return st.head.Swap(closed) }

// takeAll takes all timeouts off the stripe and yields them as linked lists, some of which may be nil.
// Called by the worker with stack.take, and by Stop with stack.close. The loop must not end early.
func (s *stripe) takeAll(take func(*stack) *Timeout) iter.Seq[*Timeout] {
	return func(yield func(*Timeout) bool) {
		yield(take(&s.known))
		yield(take(&s.fresh))
		for seg := s.kept.take(); seg != nil; seg = seg.next {
			yield(seg.first)
		}
	}
}

// takeOff clears the given bits, which include queued, of a timeout that the caller has taken off the
// queue. It returns the rest of the word, as it was in the same atomic step. It panics if the queued bit
// is already clear, because then the user has overwritten the struct. Its link may be overwritten too,
// and the timeouts behind it on the list may be lost.
func (to *Timeout) takeOff(bits uint64) (word uint64) {
	word = to.word.And(^bits)
	if word&queued == 0 {
		panic(overwritten)
	}
	return word &^ bits
}

const overwritten = "hashedwheel: a Timeout was overwritten while the timer still used it (until the second tick after its end)"

// unlink takes the first timeout off a list. It clears the link, because otherwise a user who keeps
// one handle would keep other timeouts alive.
func unlink(list *Timeout) (to, rest *Timeout) {
	to, rest = list, list.link
	to.link = nil
	return to, rest
}

// A segment is a list of at most pruneEvery timeouts that a producer has kept.
type segment struct {
	first *Timeout
	n     int      // the length of the list
	next  *segment // the segment that was kept after this one
}

// segments is a list of segments: first in, first out.
type segments struct {
	n atomic.Int64 // the number of timeouts in all segments; written with mu held

	mu          sync.Mutex // held for a few instructions
	first, last *segment   // nil if there are none
}

// push appends a new segment.
func (l *segments) push(seg *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = seg
	} else {
		l.last.next = seg
	}
	l.last = seg
	l.n.Add(int64(seg.n))
}

// pop takes the segment that was pushed first, and returns nil if there is none.
func (l *segments) pop() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	seg := l.first
	if seg == nil {
		return nil
	}
	if l.first = seg.next; l.first == nil {
		l.last = nil
	}
	l.n.Add(-int64(seg.n))
	return seg
}

// take takes all segments and returns the first, which is linked to the others.
func (l *segments) take() *segment {
	if l.n.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seg := l.first
	l.first, l.last = nil, nil
	l.n.Store(0)
	return seg
}

// ceilPowerOfTwo returns the least power of two that is not less than n, for n >= 1.
func ceilPowerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }
