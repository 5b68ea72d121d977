package hashedwheel

import (
	"iter"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A queue takes timeouts from any goroutine to the worker, without a lock. It is cut into
// stripes, so that goroutines on different cores seldom meet on a cache line: with one
// shared tail, two producers spend most of their time waiting for each other's line.
type queue struct {
	stripes []stripe // a power of two of them
	seats   []seat   // of goroutines; nil: all use the first stripe
}

// A stripe has two stacks. Timeouts that the worker has never had are pushed on fresh. Producers prune
// that stack, and keep what is still pending as segments: see prune.go. All other timeouts are pushed on
// known, which only the worker takes.
//
// The counters count what the goroutines that use the stripe do. Each event is counted before its
// consequence can be seen: armed before the timeout can end.
type stripe struct {
	fresh    stack
	armed    atomic.Uint64 // timeouts armed, each of them pushed
	canceled atomic.Uint64 // timeouts canceled
	inside   atomic.Int64  // goroutines inside the gate, see Timer.enter
	slots    atomic.Int64  // free slots of the limit, see limit.go
	known    stack
	again    atomic.Uint64 // pushed again
	rearmed  atomic.Uint64 // armed again, by Reset or for the next run

	// What has been pruned, see there.
	kept    [2]segments
	phase   atomic.Uint32
	other   atomic.Uint32 // the index of the stripe that is looked at beside this one
	next    atomic.Int64  // how many are kept when the next pass begins
	dropped atomic.Uint64 // timeouts that producers have taken off the queue for good
	seen    atomic.Uint64 // armed, when somebody asked last whether the stripe is idle

	// Two lines, since processors fetch them in pairs.
	_ [128 - 12*8 - 2*unsafe.Sizeof(segments{})]byte
}

// A stack of timeouts grows by compare-and-swap. Nothing ever takes a single timeout off it, only all of
// them. So a head that was seen twice is as good as one that stayed, and the classical ABA problem of
// such stacks does not arise.
type stack struct{ head atomic.Pointer[Timeout] }

// closed is the head of a stack that takes no more.
var closed = new(Timeout)

// newQueue makes two stripes for each processor, at least 8 and at most 256, which take 32 KiB. This is
// enough for each running goroutine to have its own, once goroutines that met have changed seats.
func newQueue() queue {
	n := ceilPowerOfTwo(min(max(2*runtime.GOMAXPROCS(0), 8), 256))
	return queue{stripes: make([]stripe, n), seats: allSeats[:]}
}

// A seat counts how often the goroutines that sit there have met others on their stripe, and have moved
// on to another one.
type seat struct{ moves atomic.Uint32 }

const seatBits = 12

// allSeats are those of the program, because a goroutine has the same seat with every timer.
var allSeats [1 << seatBits]seat

// A spot says who a goroutine is, well enough to tell it from others: a hash of where its stack is, of which no
// two have the same 2 KiB. So a goroutine comes back to the stripe whose lines, and timeouts, it has just
// had in its cache.
type spot uint64

// here returns the spot of the goroutine that calls it.
func here() spot {
	var local byte
	return spotAt(uintptr(unsafe.Pointer(&local)))
}

// spotAt returns the spot for an address on a stack. Fibonacci hashing: Knuth, The Art of Computer
// Programming, volume 3, section 6.4.
func spotAt(address uintptr) spot {
	const stackShift = 11
	return spot(uint64(address>>stackShift) * 0x9E3779B97F4A7C15)
}

// seat returns the number of the seat: the upper bits.
func (sp spot) seat() int { return int(sp >> (64 - seatBits)) }

// stripe returns the one that the calling goroutine is to use, now. Any would do.
func (q *queue) stripe() *stripe {
	if q.seats == nil {
		return q.only()
	}
	return &q.stripes[q.stripeOf(here())]
}

// only returns the first stripe, which all goroutines use if there are no seats. The zero queue has none: it
// is that of a zero Timer, whose methods come by here before they touch anything that New would have made.
func (q *queue) only() *stripe {
	if q.stripes == nil {
		panic(notMade)
	}
	return &q.stripes[0]
}

// stripeOf returns the index of the stripe that a spot has. Two that have the same seat come apart by
// steps of different length, which are odd so that they lead to each stripe.
func (q *queue) stripeOf(sp spot) int {
	step := int(sp>>32)&0xfff | 1
	return (sp.seat() + step*int(q.seats[sp.seat()].moves.Load())) & (len(q.stripes) - 1)
}

// changeSeat has the goroutines of the caller's seat use another stripe, because the caller has met
// somebody on the present one. So goroutines that are busy at the same time come apart. It is to be called by
// the function that has called stripe, which most often has the same spot then.
func (q *queue) changeSeat() {
	if q.seats != nil {
		q.seats[here().seat()].moves.Add(1)
	}
}

// empty reports whether there was a moment, for each stripe its own, when it was empty.
func (q *queue) empty() bool {
	for i := range q.stripes {
		s := &q.stripes[i]
		if s.fresh.head.Load() != nil || s.known.head.Load() != nil || s.kept[0].size() != 0 || s.kept[1].size() != 0 {
			return false
		}
	}
	return true
}

// push puts a timeout on a stack. The caller must have set the timeout's queued bit, or
// be its only owner. After a successful push the link belongs to the goroutine that takes it off. First reports
// that the stack was empty: then, and only then, the caller must see to it that the worker
// comes by. Alone reports that no other goroutine has used the stack at the same moment. It fails when the
// stack is closed.
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

// take empties the stack and returns what it held, linked, the latest first. Called by the worker, and
// inside the gate.
func (st *stack) take() *Timeout {
	if st.head.Load() == nil {
		return nil
	}
	return st.head.Swap(nil)
}

// close empties the stack for good and returns what it held. Called once, by Stop.
func (st *stack) close() *Timeout { return st.head.Swap(closed) }

// takeAll ranges over lists that together are all that is on the stripe, and that are off it then. Called by
// the worker, with stack.take, and by Stop, with stack.close. The loop must not end early.
func (s *stripe) takeAll(take func(*stack) *Timeout) iter.Seq[*Timeout] {
	return func(yield func(*Timeout) bool) {
		yield(take(&s.known))
		yield(take(&s.fresh))
		for i := range s.kept {
			seg := s.kept[i].take()
			if seg != nil {
				s.next.Store(0)
			}
			for ; seg != nil; seg = seg.below {
				yield(seg.first)
			}
		}
	}
}

// takeOff clears the queued bit, and others, of a timeout that the caller has taken off the queue. It
// returns the rest of the word, as it was in the same step. Until then the timeout's link is what holds
// the list together: if a caller has overwritten the struct, others may be lost already.
func (to *Timeout) takeOff(bits uint64) (word uint64) {
	word = to.word.And(^bits)
	if word&queued == 0 {
		panic(overwritten)
	}
	return word &^ bits
}

const overwritten = "hashedwheel: a Timeout was overwritten before the second tick after its end, while the timer still held it"

// unlink takes the first timeout off a list. A timeout must not keep its link: through it, a handle
// that a caller holds on to would keep others alive.
func unlink(list *Timeout) (to, rest *Timeout) {
	to, rest = list, list.link
	to.link = nil
	return to, rest
}
