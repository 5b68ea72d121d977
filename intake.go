package hashedwheel

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Near and far
//
// At each boundary the worker takes what is urgent: the inboxes, and the timeouts of nurseries that are near: due within
// nearTime, or two ticks. It leaves the others in their nursery, because most of them are canceled soon.
//
// Once in sweepTime it sweeps the nurseries, however long a tick is. A sweep empties the slots that lead to no
// pending timeout. So a canceled timeout stays in a slot hardly longer than that, whatever the producers do. A sweep also
// takes the timeouts that are old: the sweep before has met them too, and the wheel is cheaper for them.
//
// The worker may have to take millions. So it takes some at a time, and in between it expires what has come due. At each boundary
// the round ends, and the next one begins at once, with a look for what is urgent now. What the round has begun with stays where
// it is, and the next one goes on with it. Inboxes are different: the worker takes all of one at once, and a walk (tasks.go) does
// not find what it has taken and not placed yet. So a round goes on until that is placed, and looks at each boundary.

const (
	sweepTime  = 500 * time.Millisecond
	checkEvery = 1 << 10 // how many timeouts of each kind the worker takes in a step: some 50 microseconds

	// stacksTime is how long the worker takes further inboxes before it has placed what it took from the others. It bounds how
	// long a walk waits if producers push faster than the worker takes. To place eight million takes about a second.
	stacksTime = 5 * time.Second
)

// An intake takes timeouts off the queue. Owned by the worker.
type intake struct {
	// Immutable after New.
	queue  *queue
	clock  *ticks.Clock
	worker reconciler

	now    uint64        // the tick of the last look
	popped atomic.Uint64 // timeouts taken from inboxes
	found  int           // slots and links of inboxes that led to a timeout, also one that has left, since planNext was last called

	// What is left to do.
	stacks []*Timeout // inboxes, the newest last; none at the end of a round, unless Stop has halted the worker
	near   []blockAt
	sweeps []sweep

	sweepAt time.Duration // the time of the next sweep
	emptyAt time.Duration // when a look last found no stacks left
}

// A blockAt says where a block is.
type blockAt struct {
	ring  *ring
	table *table
	block int
}

// A sweep goes through the blocks of a table, and then closes the tables before it, into which no producer puts a timeout any
// more.
type sweep struct {
	ring  *ring
	table *table
	next  int // the next block
	left  int // timeouts that stay in the blocks before
}

// A reconciler is what an intake needs of the worker.
type reconciler interface {
	// reconcile places, moves, removes or emits a timeout that comes off the queue, as its word says.
	reconcile(to *Timeout, word uint64)

	// expireDue hands over what has come due, or some of it if more is true. It returns the current tick, and whether Stop has
	// halted the worker.
	expireDue() (now uint64, more, stopped bool)
}

// drain takes timeouts off the queue and reconciles them, until nothing is left to do, or a boundary has passed and no stacks are
// left. More says that something is left. If Stop halts the worker, Stop takes the rest.
func (in *intake) drain() (more bool) {
	now, more, stopped := in.worker.expireDue()
	in.look(now)
	for !stopped && (more || in.leftOver()) {
		in.takeUrgent()
		in.sweepOn()
		now, more, stopped = in.worker.expireDue()
		if now > in.now {
			if len(in.stacks) == 0 {
				break
			}
			in.look(now)
		}
	}
	return more || in.leftOver()
}

// look finds what the worker must take now.
func (in *intake) look(now uint64) {
	in.now = now
	elapsed := in.clock.Elapsed()
	sweeps := elapsed >= in.sweepAt && len(in.sweeps) == 0
	if sweeps {
		in.sweepAt = ticks.Later(elapsed, sweepTime)
	}
	if len(in.stacks) == 0 {
		in.emptyAt = elapsed
	}
	takes := elapsed-in.emptyAt <= stacksTime
	for i := range in.queue.stripes {
		s := &in.queue.stripes[i]
		if takes && s.inbox.Load() != nil {
			in.stacks = append(in.stacks, s.takeInbox())
		}
		in.lookAt(&s.nursery, sweeps)
	}
}

// lookAt is look for a nursery.
func (in *intake) lookAt(r *ring, sweeps bool) {
	needs := r.needs()
	sweeps = sweeps && needs < ticks.Never
	if !sweeps && !in.mustLook(needs) {
		return
	}
	raise(&r.by) // step B of ring: before it reads the tables and each block.by, because a producer goes the other way
	newest := r.table.Load()
	for t := newest; t != nil; t = t.older.Load() {
		in.lookInto(r, t)
	}
	if sweeps && newest != nil {
		in.sweeps = append(in.sweeps, sweep{ring: r, table: newest})
	}
}

// mustLook reports whether the tick by which the worker must look has come. Soon has come even at tick 0.
func (in *intake) mustLook(by uint64) bool { return by <= max(in.now, soon) }

// lookInto is look for a table.
func (in *intake) lookInto(r *ring, t *table) {
	for i := range t.blocks {
		if by := t.blocks[i].by.Load(); in.mustLook(by) {
			if !t.blocks[i].inNear {
				t.blocks[i].inNear = true
				in.near = append(in.near, blockAt{r, t, i})
			}
		} else if by < ticks.Never {
			lower(&r.by, by)
		}
	}
}

// takeUrgent takes some timeouts of inboxes, and as many of near blocks: half of them from the newest, which may be the most
// urgent, and half from the oldest, so that nothing waits for ever while producers go on.
func (in *intake) takeUrgent() {
	for _, oldest := range [2]bool{false, true} {
		in.takeStacks(checkEvery/2, oldest)
		in.takeNear(checkEvery/2/blockSize, oldest)
	}
}

// takeStacks takes up to n timeouts of inboxes.
func (in *intake) takeStacks(n int, oldest bool) {
	popped := in.popped.Load()
	for ; n > 0 && len(in.stacks) > 0; n-- {
		at := endOf(len(in.stacks), oldest)
		to := pop(&in.stacks[at])
		if in.stacks[at] == nil {
			in.stacks = slices.Delete(in.stacks, at, at+1)
		}
		in.take(to, queued)
		popped++
	}
	in.popped.Store(popped)
}

// takeNear takes the timeouts of up to n near blocks.
func (in *intake) takeNear(n int, oldest bool) {
	for ; n > 0 && len(in.near) > 0; n-- {
		at := endOf(len(in.near), oldest)
		b := in.near[at]
		b.table.blocks[b.block].inNear = false
		if in.near[at] = (blockAt{}); oldest {
			in.near = in.near[1:] // not slices.Delete, because there may be thousands
		} else {
			in.near = in.near[:at]
		}
		in.takeBlock(b, false)
	}
}

// takeBlock takes the timeouts of a block that are near, and empties each slot that leads to no pending timeout. A sweep also
// takes those that are old. TakeBlock returns how many timeouts stay.
func (in *intake) takeBlock(at blockAt, sweeps bool) (left int) {
	b := &at.table.blocks[at.block]
	b.by.Store(ticks.Never) // step C of ring: before it reads the slots, because a producer goes the other way
	first := uint64(ticks.Never)
	met, stays := b.met.Load(), uint64(0) // a bit for each slot
	slots := at.table.slots[at.block*blockSize:][:blockSize]
	for i := range slots {
		to := slots[i].Load()
		if to == nil || to == closedSlot {
			continue
		}
		word, bit := to.word.Load(), uint64(1)<<i
		if word&(statusMask|young|hurried) == pending|young && !(sweeps && met&bit != 0) {
			if near := in.queue.nearAt(tickOf(word)); !in.mustLook(near) {
				first = min(first, near) // a Reset to a later tick may follow, but none to an earlier one without another slot
				stays |= bit
				left++
				continue
			}
		}
		if slots[i].CompareAndSwap(to, nil) {
			in.take(to, young)
		}
	}
	lower(&b.by, first)
	lower(&at.ring.by, first)
	if sweeps {
		b.met.Or(stays)
	}
	return left
}

// sweepOn goes on with a sweep. If a ring has grown, and only a few timeouts are left in it, a small table takes the place of its
// table.
func (in *intake) sweepOn() {
	last := len(in.sweeps) - 1
	if last < 0 {
		return
	}
	s := &in.sweeps[last]
	n := checkEvery // slots
	for ; n > 0 && s.next < len(s.table.blocks); n -= blockSize {
		s.left += in.takeBlock(blockAt{s.ring, s.table, s.next}, true)
		if s.next++; s.next == len(s.table.blocks) && len(s.table.slots) > minSlots && s.left <= len(s.table.slots)/16 {
			s.table = s.ring.replace(s.table, minSlots)
		}
	}
	for older := s.table.older.Load(); n > 0 && older != nil; older = s.table.older.Load() {
		before := older.closed
		if older.close(n, in.takeYoung) {
			s.table.older.Store(older.older.Load())
		}
		n -= older.closed - before
	}
	if n > 0 {
		in.sweeps[last] = sweep{}
		in.sweeps = in.sweeps[:last]
	}
}

// giveBack takes all nurseries, and leaves no table. Called when nothing else is left to do.
func (in *intake) giveBack() {
	for i := range in.queue.stripes {
		for _, t := range in.queue.stripes[i].nursery.take(nil) {
			t.close(len(t.slots), in.takeYoung)
		}
	}
	in.stacks, in.near, in.sweeps = nil, nil, nil
}

// leftOver reports whether something is left to do.
func (in *intake) leftOver() bool {
	return len(in.stacks)+len(in.near)+len(in.sweeps) > 0
}

// rest calls f for each timeout that is left in tables, which Stop has taken from the nurseries, and in stacks, to which it has
// added the inboxes. What near and sweeps lead to is among these.
func (in *intake) rest(tables []*table, f func(to *Timeout)) {
	for i := range in.stacks {
		for in.stacks[i] != nil {
			in.popped.Add(1)
			f(pop(&in.stacks[i]))
		}
	}
	for _, t := range tables {
		t.close(len(t.slots), f)
	}
	in.stacks, in.near, in.sweeps = nil, nil, nil
}

func (in *intake) takeYoung(to *Timeout) { in.take(to, young) }

// take reconciles a timeout that was found in a slot or an inbox, unless it has left the queue before. Bit says which: a slot
// may lead to a timeout that is on an inbox. Taken from the slot, it would lose the bit queued while it is linked, and the next
// push would cut off what lies below it.
func (in *intake) take(to *Timeout, bit uint64) {
	in.found++
	for word := to.word.Load(); word&bit != 0; word = to.word.Load() {
		if to.word.CompareAndSwap(word, word&^(young|hurried|queued)) {
			in.worker.reconcile(to, word)
			return
		}
	}
}
