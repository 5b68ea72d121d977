package hashedwheel

import (
	"iter"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashedwheel/hashedwheel/internal/seat"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

const (
	nearTime = 250 * time.Millisecond // longer than a goroutine usually waits for a busy processor
	keepTime = 500 * time.Millisecond // how long producers keep a timeout
)

// A queue passes timeouts to the worker. To push a new one takes no lock, except in pruning. Its stripes keep goroutines
// off each other's cache lines.
type queue struct {
	stripes []stripe    // their number is a power of two
	seats   *seat.Table // says which stripe a goroutine uses; if nil, all use the first

	horizon uint64 // how many ticks ahead a timeout is near, see intake.go
	age     uint64 // for how many ticks producers keep a timeout

	_       [64]byte
	shut    atomic.Bool   // the gate is shut: the timer is stopped
	hurried atomic.Bool   // a stripe may have hurried timeouts; set after a push, cleared before the lists are taken
	era     atomic.Uint64 // odd while no timeout on a lane is canceled or hurried, see prune.go
}

// A stripe has two lanes, for timeouts that the worker has never taken, and a stack, requeued, for all others, which only
// the worker and Stop take. What is on a lane and cannot wait is on a list too: its link belongs to the lane. The
// counters count what the goroutines that use the stripe do. Arming is counted before the timeout can end.
type stripe struct {
	near, far  lane
	pushedNear atomic.Uint64 // the tick at which the first of far.pushed becomes near
	keptNear   atomic.Uint64 // the tick at which the first of far.kept becomes near

	armed       atomic.Uint64 // timeouts armed, each of them pushed on a lane
	canceled    atomic.Uint64 // timeouts canceled
	inside      atomic.Int64  // goroutines inside the gate, see enter
	requeued    stack
	hurried     list
	pushedAgain atomic.Uint64 // timeouts pushed on requeued or hurried that were not on the queue
	rearmed     atomic.Uint64 // timeouts armed again, by Reset or for the next run
	dropped     atomic.Uint64 // canceled timeouts that producers have taken off the queue, see prune.go

	searchFrom atomic.Uint32 // the index of the stripe at which idleStripe starts its search
	skipIdle   atomic.Uint32 // how many prunings do not search
	seen       atomic.Uint64 // the value of armed when idleStripe last checked this stripe

	// A stripe fills pairs of cache lines, because processors fetch lines in pairs.
	_ [256 - 11*8 - 2*unsafe.Sizeof(lane{}) - unsafe.Sizeof(list{})]byte
}

// A lane has timeouts that producers prune. What is new is on a stack, and what they have kept is in segments.
type lane struct {
	pushed stack
	kept   segments
}

func (l *lane) empty() bool { return l.pushed.head.Load() == nil && l.kept.n.Load() == 0 }

// A stack grows by compare-and-swap, and is only taken as a whole. So it has no ABA problem.
type stack struct{ head atomic.Pointer[Timeout] }

var closed = new(Timeout) // the head of a stack that accepts no more timeouts

// A list holds timeouts whose links are in use.
type list struct {
	mu   sync.Mutex // held for a few instructions
	all  []*Timeout
	next int // the index of the one that is checked next
}

// init makes n stripes, a power of two.
func (q *queue) init(tick time.Duration, n int) {
	q.stripes, q.seats = make([]stripe, n), &seat.All
	for i := range q.stripes {
		q.stripes[i].pushedNear.Store(ticks.Never)
		q.stripes[i].keptNear.Store(ticks.Never)
	}
	q.horizon = max(uint64(nearTime/tick), 2)
	q.age = max(uint64(keepTime/tick), 2)
}

// defaultStripes is two for each processor, 8 to 256 in all, which take at most 64 KiB.
func defaultStripes() int { return ceilPowerOfTwo(min(max(2*runtime.GOMAXPROCS(0), 8), 256)) }

// stripe returns the stripe that the calling goroutine should use now. Any other would be correct too.
func (q *queue) stripe() *stripe { return &q.stripes[q.seats.Part(len(q.stripes))] }

// needs returns the tick by which the worker must take timeouts off the queue, or Never if it has found every stripe
// empty, one after another, not all at one moment.
func (q *queue) needs() (tick uint64) {
	if q.hurried.Load() {
		return 0
	}
	tick = ticks.Never
	for i := range q.stripes {
		s := &q.stripes[i]
		if s.requeued.head.Load() != nil || !s.near.empty() {
			return 0
		}
		if !s.far.empty() {
			tick = min(tick, s.pushedNear.Load(), s.keptNear.Load(), ticks.Never-1)
		}
	}
	return tick
}

// nearAt returns a tick at which a timeout that is due at tick is near.
func (q *queue) nearAt(tick uint64) uint64 { return tick - min(tick, q.horizon) }

// lower makes x no more than tick, and reports whether it was more.
func lower(x *atomic.Uint64, tick uint64) bool {
	for old := x.Load(); tick < old; old = x.Load() {
		if x.CompareAndSwap(old, tick) {
			return true
		}
	}
	return false
}

// armed returns how many timeouts have been armed and pushed.
func (q *queue) armed() (n uint64) {
	for i := range q.stripes {
		n += q.stripes[i].armed.Load()
	}
	return n
}

// disturb ends an era without cancels. Called after a change of the word of a timeout that is on a lane.
func (q *queue) disturb() {
	if era := q.era.Load(); era%2 != 0 {
		q.era.CompareAndSwap(era, era+1)
	}
}

// enter enters the gate, and reports whether it is open: see stop.go. Every enter needs a leave, even if it is shut.
func (q *queue) enter(s *stripe) bool {
	s.inside.Add(1)
	return !q.shut.Load()
}

func (s *stripe) leave() { s.inside.Add(-1) }

// push pushes a timeout whose bit the caller has set, or that it alone knows. If first is true, the stack was
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

// pushBehind is push for a stack that is not empty. If it is empty or closed, pushBehind returns false.
func (st *stack) pushBehind(to *Timeout) bool {
	for {
		head := st.head.Load()
		if head == nil || head == closed {
			return false
		}
		to.link = head
		if st.head.CompareAndSwap(head, to) {
			return true
		}
	}
}

// pushAgain pushes a timeout whose queued bit the caller has set. Word is its word from before. Called inside the gate.
func (q *queue) pushAgain(s *stripe, to *Timeout, word uint64) {
	if !onQueue(word) {
		s.pushedAgain.Add(1)
	}
	if word&laned == 0 {
		s.requeued.push(to)
		return
	}
	q.disturb() // producers must no longer skip it: see sift
	s.hurried.push(to)
	if !q.hurried.Load() {
		q.hurried.Store(true)
	}
}

// push also checks two other timeouts, if there are many. So during a long tick, a list has at most twice as many as are
// pending: see prune.go.
func (l *list) push(to *Timeout) {
	const many = 1 << 8
	l.mu.Lock()
	defer l.mu.Unlock()
	for range 2 {
		if len(l.all) >= many {
			l.check()
		}
	}
	l.all = append(l.all, to)
}

// check drops one timeout if it is canceled, and the worker has never had it. It is still on its lane.
func (l *list) check() {
	if l.next >= len(l.all) {
		l.next = 0
	}
	to, last := l.all[l.next], len(l.all)-1
	word := to.word.Load()
	if word&(statusMask|fresh) == canceled|fresh && to.word.CompareAndSwap(word, word&^queued) {
		l.all[l.next], l.all[last] = l.all[last], nil
		l.all = l.all[:last]
	} else {
		l.next++
	}
}

// takeAll takes the timeouts of a list, and leaves it an empty one.
func (l *list) takeAll(empty []*Timeout) (all []*Timeout) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) > 0 {
		all, l.all = l.all, empty
	}
	return all
}

// putBack puts back what takeAll has taken.
func (l *list) putBack(all []*Timeout) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(all, l.all...)
}

// take empties the stack and returns its timeouts as a linked list, the latest first.
func (st *stack) take() *Timeout {
	if st.head.Load() == nil {
		return nil
	}
	return st.head.Swap(nil)
}

// closeAll takes all timeouts, closes the stacks, and yields lists, some nil. The loop must not end early.
func (s *stripe) closeAll() iter.Seq[*Timeout] {
	return func(yield func(*Timeout) bool) {
		yield(s.requeued.head.Swap(closed))
		for _, l := range [2]*lane{&s.near, &s.far} {
			yield(l.pushed.head.Swap(closed))
			for seg := range l.kept.popSome(l.kept.n.Load()) {
				yield(seg.first)
			}
		}
	}
}

// takeOff clears bits after the timeout was taken off the queue, and returns the word from before. If all are clear, the
// user has overwritten the struct, and the timeouts behind it may be lost: it panics.
func (to *Timeout) takeOff(bits uint64) (word uint64) {
	word = to.word.And(^bits)
	if word&bits == 0 {
		to.panicOverwritten()
	}
	return word
}

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
	since uint64   // the tick since which producers have kept the latest of them
	near  uint64   // the tick at which the first of them becomes near
	next  *segment // the segment that was kept after this one

	checked uint64 // the tick at which they were last checked
	era     uint64 // the value of queue.era before that
}

// segments is a list of segments, first in, first out.
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

// pop takes the first segment. It returns nil if there is none.
func (l *segments) pop() *segment {
	if l.n.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seg := l.first
	if seg == nil {
		return nil
	}
	if l.first, seg.next = seg.next, nil; l.first == nil {
		l.last = nil
	}
	l.n.Add(-int64(seg.n))
	return seg
}

// popSome pops segments that together have at least n timeouts, or all that there are. It must be inlined, or the loops
// of a round allocate.
func (l *segments) popSome(n int64) iter.Seq[*segment] {
	return func(yield func(*segment) bool) {
		for n > 0 {
			seg := l.pop()
			if seg == nil || !yield(seg) {
				return
			}
			n -= int64(seg.n)
		}
	}
}

// oldest returns a copy of the first segment. If there is none, its list is empty.
func (l *segments) oldest() (seg segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first != nil {
		seg = *l.first
	}
	return seg
}

// takePushed takes what was pushed on the far lane and not pruned yet.
func (s *stripe) takePushed() *Timeout {
	change(&s.pushedNear, ticks.Never)
	return s.far.pushed.take()
}

// keepFar puts a segment in the far lane.
func (s *stripe) keepFar(seg *segment) {
	s.far.kept.push(seg)
	lower(&s.keptNear, seg.near)
}

func ceilPowerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }
