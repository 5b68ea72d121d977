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
// The worker may have to take millions. So it takes some at a time. In between it expires what has come due, and at each
// boundary it looks for what is urgent now. What it has begun with waits, but at each step it takes some of that too.

const (
	sweepTime  = 500 * time.Millisecond
	drainTime  = time.Second
	checkEvery = 1 << 10 // how many timeouts of each kind the worker takes in a step: some 50 microseconds
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

	// What is left to do. At the end of a round there is nothing, unless Stop has halted the worker.
	stacks []*Timeout // inboxes, the newest last
	near   []blockAt
	tables []*table // older tables, and those that are given back
	sweeps []sweep

	sweepAt time.Duration // the time of the next sweep
}

// A blockAt says where a block is. Ring is nil if the worker had taken its table before it looked.
type blockAt struct {
	ring  *ring
	table *table
	block int
}

// A sweep goes through the blocks of a ring.
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

	// expireDue hands over what has come due. It returns the current tick, and whether Stop has halted the worker.
	expireDue() (now uint64, stopped bool)
}

// drain takes timeouts off the queue and reconciles them. If Stop halts the worker, Stop takes the rest. After drainTime it
// looks for nothing new, so that the round ends even if producers are faster than the worker.
func (in *intake) drain() {
	now, stopped := in.worker.expireDue()
	in.look(now)
	end := ticks.Later(in.clock.Boundary(now), drainTime)
	for !stopped && in.leftOver() {
		in.takeUrgent()
		in.takeTables()
		in.sweepOn()
		if now, stopped = in.worker.expireDue(); now > in.now && in.clock.Boundary(now) < end {
			in.look(now)
		}
	}
}

// look finds what the worker must take now.
func (in *intake) look(now uint64) {
	in.now = now
	elapsed := in.clock.Elapsed()
	sweeps := elapsed >= in.sweepAt && len(in.sweeps) == 0
	if sweeps {
		in.sweepAt = ticks.Later(elapsed, sweepTime)
	}
	for i := range in.queue.stripes {
		s := &in.queue.stripes[i]
		if s.inbox.Load() != nil {
			in.stacks = append(in.stacks, s.takeInbox())
		}
		in.lookAt(&s.nursery, sweeps)
	}
	for _, t := range in.tables {
		in.lookInto(nil, t)
	}
}

// lookAt is look for a nursery.
func (in *intake) lookAt(r *ring, sweeps bool) {
	needs := r.needs()
	sweeps = sweeps && needs < ticks.Never
	if !sweeps && !in.mustLook(needs) {
		return
	}
	raise(&r.by) // step B of ring: before it reads the table and each block.by, because a producer goes the other way
	t := r.table.Load()
	if t == nil {
		return
	}
	in.tables = append(in.tables, t.older.Swap(nil).andOlder()...)
	in.lookInto(r, t)
	if sweeps {
		in.sweeps = append(in.sweeps, sweep{ring: r, table: t})
	}
}

// mustLook reports whether the tick by which the worker must look has come. Soon has come even at tick 0.
func (in *intake) mustLook(by uint64) bool { return by <= max(in.now, soon) }

// lookInto is look for a table. Its ring is nil if it was taken from there.
func (in *intake) lookInto(r *ring, t *table) {
	for i := range t.blocks {
		if by := t.blocks[i].by.Load(); in.mustLook(by) {
			if !t.blocks[i].inNear {
				t.blocks[i].inNear = true
				in.near = append(in.near, blockAt{r, t, i})
			}
		} else if r != nil && by < ticks.Never {
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

// endOf returns the index of the oldest or the newest of n elements.
func endOf(n int, oldest bool) int {
	if oldest {
		return 0
	}
	return n - 1
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
	if at.ring != nil {
		lower(&at.ring.by, first)
	}
	if sweeps {
		b.met.Or(stays)
	}
	return left
}

// sweepOn goes on with a sweep. If a ring has grown, and only a few timeouts are left in it, its table is given back.
func (in *intake) sweepOn() {
	last := len(in.sweeps) - 1
	if last < 0 {
		return
	}
	s := &in.sweeps[last]
	for n := checkEvery; n > 0 && s.next < len(s.table.blocks); n -= blockSize {
		s.left += in.takeBlock(blockAt{s.ring, s.table, s.next}, true)
		s.next++
	}
	if s.next < len(s.table.blocks) {
		return
	}
	if n := len(s.table.slots); n > minSlots && s.left <= n/16 && s.ring.table.Load() == s.table {
		in.tables = append(in.tables, s.ring.take(nil)...)
	}
	in.sweeps[last] = sweep{}
	in.sweeps = in.sweeps[:last]
}

// takeTables takes some of the timeouts in tables.
func (in *intake) takeTables() {
	if last := len(in.tables) - 1; last >= 0 && in.tables[last].close(checkEvery, in.takeYoung) {
		in.tables[last] = nil
		in.tables = in.tables[:last]
	}
}

// giveBack takes all nurseries, and leaves no table. Called at the end of a round.
func (in *intake) giveBack() {
	for i := range in.queue.stripes {
		in.tables = append(in.tables, in.queue.stripes[i].nursery.take(nil)...)
	}
	for len(in.tables) > 0 {
		in.takeTables()
	}
	if !in.leftOver() { // otherwise Stop has halted the worker, and takes the rest
		in.stacks, in.near, in.tables, in.sweeps = nil, nil, nil, nil
	}
}

// leftOver reports whether something is left to do.
func (in *intake) leftOver() bool {
	return len(in.stacks)+len(in.near)+len(in.tables)+len(in.sweeps) > 0
}

// rest calls f for each timeout that is left. Stop has added all inboxes and nurseries to what the last round has left. So near
// and sweeps, which lead into tables that are among these, need not be looked at.
func (in *intake) rest(f func(to *Timeout)) {
	for i := range in.stacks {
		for in.stacks[i] != nil {
			in.popped.Add(1)
			f(pop(&in.stacks[i]))
		}
	}
	for _, t := range in.tables {
		t.close(len(t.slots), f)
	}
	in.stacks, in.near, in.tables, in.sweeps = nil, nil, nil, nil
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
