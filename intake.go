package hashedwheel

import (
	"slices"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Near and far
//
// At each boundary the worker takes what is urgent: the inboxes, and the near timeouts of the nurseries, due within nearTime
// or two ticks. It leaves the others in their nursery, because most of them are canceled soon.
//
// Once in sweepTime it sweeps the nurseries, however long a tick is. A sweep empties the slots that lead to no pending
// timeout. So a canceled timeout stays in a slot for at most about sweepTime. A sweep also takes the timeouts that the
// previous sweep has met. They are old, and cheaper in the wheel.
//
// The worker may have to take millions. So it takes some at a time, and in between it expires what has come due. At each
// boundary the round ends, and the next one begins at once, with a look for what is urgent now. The next round continues
// unfinished work. Inboxes are different. The worker takes all of an inbox at once, and a walk (walk.go) does not find a
// timeout that was taken and not placed yet. So a round goes on until all of these are placed, and looks for what is urgent
// at each boundary.

const (
	sweepTime  = 500 * time.Millisecond
	checkEvery = 1 << 10 // how many timeouts of each kind, or slots, the worker takes at a time, before it looks at the clock again

	// stacksTime is how long the worker takes more inboxes while it has not placed what it took. So it bounds how long a
	// walk waits if producers push faster than the worker takes. Placing even millions takes less.
	stacksTime = 5 * time.Second
)

// A blockAt says where a block is.
type blockAt struct {
	ring  *ring
	table *table
	block int
}

// A sweep goes through the blocks of a table, and then closes the older tables. Only producers that have loaded an older
// table before still fill its slots.
type sweep struct {
	ring  *ring
	table *table
	next  int // the next block
	left  int // timeouts that stay in the earlier blocks
}

// drain takes timeouts off the queue and reconciles them, until nothing is left, or a boundary has passed and no stacks are
// left. It reports whether a boundary has passed since its last look for what is urgent. If Stop halts the worker, Stop
// takes the rest.
func (w *worker) drain() (passed bool) {
	if w.lookUp != nil {
		w.lookUp(true)
	}
	now, more, stopped := w.expireDue()
	w.look(now)
	for !stopped && (more || w.leftOver()) {
		w.dequeueUrgent()
		w.sweepOn()
		if w.lookUp != nil {
			w.lookUp(false)
		}
		now, more, stopped = w.expireDue()
		if now > w.lookedAt {
			if len(w.stacks) == 0 {
				return true
			}
			w.look(now)
		}
	}
	return false
}

// look finds what the worker must take now.
func (w *worker) look(now uint64) {
	w.lookedAt = now
	elapsed := w.clock.Elapsed()
	sweeps := elapsed >= w.sweepAt && len(w.sweeps) == 0
	if sweeps {
		w.sweepAt = ticks.Later(elapsed, sweepTime)
	}
	if len(w.stacks) == 0 {
		w.emptyAt = elapsed
	}
	takes := elapsed-w.emptyAt <= stacksTime
	for i := range w.queue.stripes {
		s := &w.queue.stripes[i]
		if takes && s.inbox.Load() != nil {
			w.stacks = append(w.stacks, s.swapInbox())
		}
		w.lookAt(&s.nursery, sweeps)
	}
}

// lookAt is look for a nursery.
func (w *worker) lookAt(r *ring, sweeps bool) {
	needs := r.needs()
	sweeps = sweeps && needs < ticks.Never
	if !sweeps && !w.mustLook(needs) {
		return
	}
	raise(&r.by) // line B of ring: before it reads the tables and each block.by, because a producer goes the other way
	newest := r.table.Load()
	for t := newest; t != nil; t = t.older.Load() {
		w.lookInto(r, t)
	}
	if sweeps && newest != nil {
		w.sweeps = append(w.sweeps, sweep{ring: r, table: newest})
	}
}

// mustLook reports whether the tick by which the worker must look has come. The tick soon has come even at tick 0.
func (w *worker) mustLook(by uint64) bool { return by <= max(w.lookedAt, soon) }

// lookInto is look for a table.
func (w *worker) lookInto(r *ring, t *table) {
	for i := range t.blocks {
		if by := t.blocks[i].by.Load(); w.mustLook(by) {
			if !t.blocks[i].inNear {
				t.blocks[i].inNear = true
				w.near = append(w.near, blockAt{r, t, i})
			}
		} else if by < ticks.Never {
			lower(&r.by, by)
		}
	}
}

// dequeueUrgent takes some timeouts of inboxes, and as many of near blocks. Half are from the newest, which may be the most
// urgent. Half are from the oldest, so that each gets its turn while producers go on.
func (w *worker) dequeueUrgent() {
	for _, oldest := range [2]bool{false, true} {
		w.dequeueStacks(checkEvery/2, oldest)
		w.dequeueNear(checkEvery/2/blockSize, oldest)
	}
}

// dequeueStacks takes up to n timeouts of inboxes.
func (w *worker) dequeueStacks(n int, oldest bool) {
	popped := w.popped.Load()
	for ; n > 0 && len(w.stacks) > 0; n-- {
		at := endOf(len(w.stacks), oldest)
		to := pop(&w.stacks[at])
		if w.stacks[at] == nil {
			w.stacks = slices.Delete(w.stacks, at, at+1)
		}
		w.dequeue(to, queued)
		popped++
	}
	w.popped.Store(popped)
}

// dequeueNear takes the timeouts of up to n near blocks.
func (w *worker) dequeueNear(n int, oldest bool) {
	for ; n > 0 && len(w.near) > 0; n-- {
		at := endOf(len(w.near), oldest)
		b := w.near[at]
		b.table.blocks[b.block].inNear = false
		if w.near[at] = (blockAt{}); oldest {
			w.near = w.near[1:] // not slices.Delete, because there may be thousands
		} else {
			w.near = w.near[:at]
		}
		w.dequeueBlock(b, false)
	}
}

// dequeueBlock takes the timeouts of a block that are near, and empties each slot that leads to no pending timeout. In a sweep
// it also takes the old ones. The result is how many timeouts stay.
func (w *worker) dequeueBlock(at blockAt, sweeps bool) (left int) {
	b := &at.table.blocks[at.block]
	b.by.Store(ticks.Never) // line C of ring: before it reads the slots, because a producer goes the other way
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
			if near := w.queue.nearAt(tickOf(word)); !w.mustLook(near) {
				first = min(first, near) // a Reset to a later tick may follow; one to an earlier tick fills another slot
				stays |= bit
				left++
				continue
			}
		}
		if slots[i].CompareAndSwap(to, nil) {
			w.dequeue(to, young)
		}
	}
	lower(&b.by, first)
	lower(&at.ring.by, first)
	if sweeps {
		b.met.Or(stays)
	}
	return left
}

// sweepOn continues a sweep. If only a few timeouts are left in a ring that has grown, it replaces the table by a small one.
func (w *worker) sweepOn() {
	last := len(w.sweeps) - 1
	if last < 0 {
		return
	}
	s := &w.sweeps[last]
	n := checkEvery // slots
	for ; n > 0 && s.next < len(s.table.blocks); n -= blockSize {
		s.left += w.dequeueBlock(blockAt{s.ring, s.table, s.next}, true)
		if s.next++; s.next == len(s.table.blocks) && len(s.table.slots) > minSlots && s.left <= len(s.table.slots)/16 {
			s.table = s.ring.replace(s.table, minSlots)
		}
	}
	for older := s.table.older.Load(); n > 0 && older != nil; older = s.table.older.Load() {
		before := older.closed
		if older.close(n, w.dequeueYoung) {
			s.table.older.Store(older.older.Load())
		}
		n -= older.closed - before
	}
	if n > 0 {
		w.sweeps[last] = sweep{}
		w.sweeps = w.sweeps[:last]
	}
}

// giveBack takes all nurseries, and leaves no table. Called when nothing else is left to do.
func (w *worker) giveBack() {
	for i := range w.queue.stripes {
		for _, t := range w.queue.stripes[i].nursery.swapTables(nil) {
			t.close(len(t.slots), w.dequeueYoung)
		}
	}
	w.stacks, w.near, w.sweeps = nil, nil, nil
}

// leftOver reports whether something is left to do.
func (w *worker) leftOver() bool {
	return len(w.stacks)+len(w.near)+len(w.sweeps) > 0
}

// eachLeft calls f for each timeout that is left in tables and in stacks. Stop has taken the tables from the nurseries, and
// has added the inboxes to stacks. These include what near and sweeps lead to.
func (w *worker) eachLeft(tables []*table, f func(to *Timeout)) {
	for i := range w.stacks {
		for w.stacks[i] != nil {
			w.popped.Add(1)
			f(pop(&w.stacks[i]))
		}
	}
	for _, t := range tables {
		t.close(len(t.slots), f)
	}
	w.stacks, w.near, w.sweeps = nil, nil, nil
}

func (w *worker) dequeueYoung(to *Timeout) { w.dequeue(to, young) }

// dequeue reconciles a timeout that was found in a slot or an inbox, unless the timeout has left the queue before. For a
// slot, bit is young, and for an inbox it is queued. A slot may lead to a timeout that is on an inbox. If dequeue took it
// from the slot, the timeout would lose the bit queued while it is linked. The next push would then cut off what lies below
// it.
func (w *worker) dequeue(to *Timeout, bit uint64) {
	w.found++
	for word := to.word.Load(); word&bit != 0; word = to.word.Load() {
		if to.word.CompareAndSwap(word, word&^(young|hurried|queued)) {
			w.reconcile(to, word)
			return
		}
	}
}
