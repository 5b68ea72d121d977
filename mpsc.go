package hashedwheel

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A queue takes timeouts from any goroutine to the worker, without a lock. It is cut into
// stripes, so that goroutines on different cores seldom meet on a cache line: with one
// shared tail, two producers spend most of their time waiting for each other's line.
type queue struct {
	stripes []stripe
	mask    uintptr
}

// A stripe is a stack that grows by compare-and-swap and that the worker takes whole. Since
// nothing else ever shrinks it, a head that was seen twice is as good as one that stayed, and
// the classical ABA problem of such stacks does not arise.
//
// The counters are those of the timeouts that belong to the stripe, or of the runners that
// were given it. Each event is counted before its consequence can be seen: armed before the
// timeout can end, expired before the task runs.
type stripe struct {
	head     atomic.Pointer[Timeout] // the queue; closed once Stop has taken it
	armed    atomic.Uint64           // timeouts armed, each of them pushed
	canceled atomic.Uint64           // timeouts canceled
	expired  atomic.Uint64           // tasks begun
	inside   atomic.Int64            // goroutines inside the gate, see Timer.enter
	rearmed  atomic.Uint64           // armed again, by Reset or for the next run
	again    atomic.Uint64           // pushed again

	// Two lines, since processors fetch them in pairs.
	_ [128 - 7*8]byte
}

// closed is the head of a stripe that takes no more.
var closed = new(Timeout)

// newQueue makes four stripes for each processor, at least 8, and at most 64: these are 8 KiB, and
// most of what an empty timer takes.
func newQueue() queue {
	n := ceilPowerOfTwo(min(max(4*runtime.GOMAXPROCS(0), 8), 64))
	return queue{stripes: make([]stripe, n), mask: uintptr(n - 1)}
}

// stripe returns the stripe of a timeout. It follows from its address: the allocator hands
// each processor pages of its own, so goroutines on different cores that arm timeouts use
// different stripes, without asking who they are. The page shift is that of the runtime's
// smallest spans; were it another, only contention would change.
func (q *queue) stripe(to *Timeout) *stripe {
	const pageShift = 13
	return &q.stripes[uintptr(unsafe.Pointer(to))>>pageShift&q.mask]
}

// empty reports whether there was a moment, for each stripe its own, when it was empty.
func (q *queue) empty() bool {
	for i := range q.stripes {
		if q.stripes[i].head.Load() != nil {
			return false
		}
	}
	return true
}

// push puts a timeout on the stripe. The caller must have set the timeout's queued bit, or
// be its only owner; with a successful push the link becomes the worker's. First reports
// that the stripe was empty: then, and only then, the caller must see to it that the worker
// comes by. It fails when the stripe is closed.
func (s *stripe) push(to *Timeout) (first, ok bool) {
	for {
		head := s.head.Load()
		if head == closed {
			return false, false
		}
		to.link = head
		if s.head.CompareAndSwap(head, to) { // to.link is the worker's from here
			return head == nil, true
		}
	}
}

// take empties the stripe and returns what it held, linked, the latest first. Called only
// by the worker.
func (s *stripe) take() *Timeout {
	if s.head.Load() == nil {
		return nil
	}
	return s.head.Swap(nil)
}

// close empties the stripe for good and returns what it held. Called once, by Stop.
func (s *stripe) close() *Timeout { return s.head.Swap(closed) }

// unlink takes the first timeout off a list that take or close returned. A timeout must not
// keep its link: through it, a handle that a caller holds on to would keep others alive.
func unlink(list *Timeout) (to, rest *Timeout) {
	to, rest = list, list.link
	to.link = nil
	return to, rest
}
