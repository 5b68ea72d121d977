package hashedwheel

import (
	"iter"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A queue passes timeouts to the worker without a lock. Its stripes keep goroutines off each other's cache lines.
type queue struct {
	stripes []stripe // their number is a power of two
	seats   []seat   // each goroutine uses one of them; nil if all goroutines use the first stripe

	shut atomic.Bool // the gate is shut: the timer is stopped
}

// A stripe has two stacks: fresh, for timeouts that the worker has never taken, which producers prune (prune.go), and
// known, for all others, which only the worker and Stop take. The counters count what the goroutines that use the
// stripe do. Arming is counted before the timeout can end.
type stripe struct {
	fresh       stack
	armed       atomic.Uint64 // timeouts armed, each of them pushed
	canceled    atomic.Uint64 // timeouts canceled
	inside      atomic.Int64  // goroutines inside the gate, see enter
	known       stack
	pushedAgain atomic.Uint64 // timeouts pushed on known
	rearmed     atomic.Uint64 // timeouts armed again, by Reset or for the next run
	dropped     atomic.Uint64 // canceled timeouts that producers have taken off the queue, see prune.go

	kept       segments
	searchFrom atomic.Uint32 // the index of the stripe at which idleStripe starts its search
	seen       atomic.Uint64 // the value of armed when idleStripe last checked this stripe

	// A stripe fills two cache lines, because processors fetch lines in pairs.
	_ [128 - 10*8 - unsafe.Sizeof(segments{})]byte
}

// A stack grows by compare-and-swap, and is only taken as a whole. So it has no ABA problem.
type stack struct{ head atomic.Pointer[Timeout] }

var closed = new(Timeout) // the head of a stack that accepts no more timeouts

// newQueue makes two stripes for each processor, 8 to 256 in all, at most 32 KiB.
func newQueue() queue {
	n := ceilPowerOfTwo(min(max(2*runtime.GOMAXPROCS(0), 8), 256))
	return queue{stripes: make([]stripe, n), seats: allSeats[:]}
}

// A seat counts how often its goroutines have collided with others and moved on to another stripe.
type seat struct{ moves atomic.Uint32 }

const seatBits = 12

// allSeats has the seats of the whole program: a goroutine has the same seat with every timer.
var allSeats [1 << seatBits]seat

// A spot identifies a goroutine by a hash of the address of its stack. It is most often the same each time, so a
// goroutine comes back to the stripe that is still in its cache.
type spot uint64

func here() spot {
	var local byte
	return spotAt(uintptr(unsafe.Pointer(&local)))
}

// spotAt uses Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4.
func spotAt(address uintptr) spot {
	const stackShift = 11
	return spot(uint64(address>>stackShift) * 0x9E3779B97F4A7C15)
}

// seat returns an index in allSeats: the upper bits of the spot.
func (sp spot) seat() int { return int(sp >> (64 - seatBits)) }

// stripe returns the stripe that the calling goroutine should use now. Any other would be correct too.
func (q *queue) stripe() *stripe {
	if q.seats == nil {
		return &q.stripes[0]
	}
	return &q.stripes[q.stripeOf(here())]
}

// stripeOf returns the index of the stripe for a spot. Its step is odd, so that moves lead to every stripe. Two spots
// with the same seat usually have different steps, so that moves separate them.
func (q *queue) stripeOf(sp spot) int {
	step := int(sp>>32)&0xfff | 1
	return (sp.seat() + step*int(q.seats[sp.seat()].moves.Load())) & (len(q.stripes) - 1)
}

// changeStripe moves the caller's seat to another stripe after a collision. Call it where stripe was called.
func (q *queue) changeStripe() {
	if q.seats != nil {
		q.seats[here().seat()].moves.Add(1)
	}
}

// empty reports whether it has found every stripe empty, one after another, not all at one moment.
func (q *queue) empty() bool {
	for i := range q.stripes {
		s := &q.stripes[i]
		if s.fresh.head.Load() != nil || s.known.head.Load() != nil || s.kept.n.Load() != 0 {
			return false
		}
	}
	return true
}

// enter enters the gate, and reports whether it is open: see stop.go. Every enter needs a leave, even if it is shut.
func (q *queue) enter(s *stripe) bool {
	s.inside.Add(1)
	return !q.shut.Load()
}

func (s *stripe) leave() { s.inside.Add(-1) }

// push pushes a timeout whose queued bit the caller has set, or that it alone knows. If first is true, the stack was
// empty, and the caller must call summon. Alone means that no other goroutine has changed the stack meanwhile. If ok
// is false, the stack is closed.
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

// take empties the stack and returns its timeouts as a linked list, the latest first.
func (st *stack) take() *Timeout {
	if st.head.Load() == nil {
		return nil
	}
	return st.head.Swap(nil)
}

// close is take, and closes the stack for good.
func (st *stack) close() *Timeout { return st.head.Swap(closed) }

// takeAll takes all timeouts, by stack.take or stack.close, and yields lists, some nil. The loop must not end early.
func (s *stripe) takeAll(take func(*stack) *Timeout) iter.Seq[*Timeout] {
	return func(yield func(*Timeout) bool) {
		yield(take(&s.known))
		yield(take(&s.fresh))
		for seg := s.kept.take(); seg != nil; seg = seg.next {
			yield(seg.first)
		}
	}
}

// takeOff clears bits, among them queued, after the timeout was taken off the queue, and returns the rest of the
// word. If queued is clear, the user has overwritten the struct, and the timeouts behind it may be lost: it panics.
func (to *Timeout) takeOff(bits uint64) (word uint64) {
	word = to.word.And(^bits)
	if word&queued == 0 {
		panic(overwritten)
	}
	return word &^ bits
}

const overwritten = "hashedwheel: a Timeout was overwritten while the timer still used it"

// unlink takes the first timeout off a list. It clears the link, so that a kept handle keeps no others alive.
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

// segments is a list of segments, first in, first out. Methods pop and take return nil if it is empty.
type segments struct {
	n atomic.Int64 // the number of timeouts in all segments; written with mu held

	mu          sync.Mutex // held for a few instructions
	first, last *segment   // nil if there are none
}

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

// take takes all segments. The first is linked to the others.
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

func ceilPowerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }
