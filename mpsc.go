package hashedwheel

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashedwheel/hashedwheel/internal/seat"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// A timeout is near if it is due within nearTime. That is longer than a goroutine usually waits for a busy
// processor.
const nearTime = 250 * time.Millisecond

// A queue passes timeouts from many producers to the worker, without a lock. Its stripes keep goroutines off each other's
// cache lines.
type queue struct {
	stripes []stripe    // their number is a power of two
	seats   *seat.Table // says which stripe a goroutine uses; if nil, all use the first

	horizon uint64 // nearTime in ticks, at least 2

	shut atomic.Bool // the gate is shut: the timer is stopped
}

// A stripe has a nursery for new timeouts, and an inbox for timeouts that the worker has to place, move or remove at the
// next boundary. The counters count what the goroutines that use the stripe do.
//
// The inbox is a stack, linked by Timeout.next. Only a goroutine that has set the bit queued pushes the timeout. The worker
// clears the bit when it has taken the timeout off. Stop may clear it while the timeout is on the stack, because nobody
// pushes any more. So a timeout is on one stack at most. Its link belongs to the goroutine that pushes it, then to the
// stack, and then to the worker.
type stripe struct {
	nursery ring
	inbox   atomic.Pointer[Timeout] // the top of the stack

	// Counters that never go back: each counts what has happened, not what is about to. The first three share a cache line
	// with the fields above, because each NewTimeout, Reset and Cancel uses that line.
	armed        atomic.Uint64 // timeouts armed again by a Reset; ring.filled counts first armings
	canceled     atomic.Uint64 // timeouts canceled
	runs         atomic.Uint64 // runs after which a repeating timeout was armed again, canceled or returned; the last run of a schedule counts in expired
	expired      atomic.Uint64 // other tasks started; the last run of a repeating timeout counts when it is over
	pushed       atomic.Uint64 // timeouts pushed onto the inbox
	pushedAtTake atomic.Uint64 // the value of pushed when the inbox was last taken; written by the worker or Stop
	checked      atomic.Uint64 // the value of pushed when relieveInbox was last called for this stripe

	inside    atomic.Int64 // goroutines inside the gate, see enter
	notifying atomic.Int64 // goroutines that may be about to notify a Canceler, see Timeout.cancel

	// A stripe fills a pair of cache lines, because processors fetch lines in pairs.
	_ [128 - 10*8 - unsafe.Sizeof(ring{})]byte
}

// push puts a timeout onto the inbox. The caller has set the bit queued, and is inside the gate. Then it wakes the worker,
// inside or outside.
func (s *stripe) push(to *Timeout) {
	for {
		top := s.inbox.Load()
		to.next = top
		// There is no ABA problem, because timeouts leave a stack only all at once: if top is the top again, the link is right.
		if s.inbox.CompareAndSwap(top, to) {
			s.pushed.Add(1)
			return
		}
	}
}

// swapInbox takes the whole inbox. Called by the worker, or by Stop.
func (s *stripe) swapInbox() (stack *Timeout) {
	s.pushedAtTake.Store(s.pushed.Load())
	return s.inbox.Swap(nil)
}

// waiting returns how many timeouts have been pushed since the inbox was last taken. A push counts a moment later, so a push
// in progress may be missing, or may count although it has been taken.
func (s *stripe) waiting() uint64 {
	taken := s.pushedAtTake.Load() // first: pushed was never less
	return s.pushed.Load() - taken
}

// pop takes the first timeout off a stack that swapInbox has taken. Called by the worker, or by Stop.
func pop(stack **Timeout) (to *Timeout) {
	to = *stack
	*stack, to.next = to.next, nil
	return to
}

// init makes n stripes, a power of two.
func (q *queue) init(tick time.Duration, n int) {
	q.stripes, q.seats = make([]stripe, n), &seat.All
	for i := range q.stripes {
		q.stripes[i].nursery.by.Store(ticks.Never)
	}
	q.horizon = max(uint64(nearTime/tick), 2)
}

// defaultStripes is two for each processor, 8 to 256 in all, which take at most 32 KiB.
func defaultStripes() int { return ceilPowerOfTwo(min(max(2*runtime.GOMAXPROCS(0), 8), 256)) }

// stripe returns the stripe that the calling goroutine should use now. Any other would be correct too.
func (q *queue) stripe() *stripe { return &q.stripes[q.seats.Part(len(q.stripes))] }

// needs returns the tick by which the worker must look at the queue: soon if an inbox has timeouts, and otherwise the
// earliest of the nurseries. It returns Never if it has found all stripes empty, one after another.
func (q *queue) needs() (tick uint64) {
	tick = ticks.Never
	for i := range q.stripes {
		s := &q.stripes[i]
		if s.inbox.Load() != nil {
			return soon
		}
		tick = min(tick, s.nursery.needs())
	}
	return tick
}

// nearAt returns the first tick at which a timeout that is due at tick is near, or soon if that is later.
func (q *queue) nearAt(tick uint64) uint64 { return max(tick-min(tick, q.horizon), soon) }

// accepted returns how many timeouts were armed, without next runs. The nursery counts a timeout when it gets its first slot,
// and armed counts the others.
func (s *stripe) accepted() uint64 { return s.armed.Load() + s.nursery.filled.Load() }

// enter enters the gate if it is open, and reports whether it is: see stop.go. Then the caller must call leave.
func (q *queue) enter(s *stripe) bool {
	if q.shut.Load() {
		return false // otherwise goroutines could raise inside again and again while Stop waits
	}
	s.inside.Add(1) // before it reads shut again: see Timer.collectPending
	if q.shut.Load() {
		s.leave()
		return false
	}
	return true
}

func (s *stripe) leave() { s.inside.Add(-1) }

func ceilPowerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }
