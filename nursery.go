package hashedwheel

import (
	"runtime"
	"sync/atomic"
	"time"
)

// The nursery
//
// Most timeouts die young. So a new one that is far from due is put into a slot of a ring, and the worker leaves it there:
// to place it, and to remove it soon after, would make its rounds long. The hand of the ring goes one slot further for
// each timeout that is armed. In most slots it meets a timeout that has been canceled meanwhile, and drops it. That is
// all the cleaning there is: a look and a compare-and-swap for each arming.
//
//	            the hand
//	               v
//	 canceled | canceled | pending | canceled | new | new | ...     --> what is near, or lives long: to the worker
//	   drop       drop      pass       drop
//
//   - A slot is only a hint. The bits young and queued of the word say that the timeout is in a nursery, or in an inbox.
//     Who clears the bit has the timeout: the hand, the worker, Stop, or a Reset that moves it to the inbox. A slot that
//     leads to a timeout without the bit is free.
//   - A timeout is put into a nursery once in its life. Later it goes to the inbox. There it may come back to a slot that
//     a goroutine was about to fill when it was preempted. That goroutine puts it into another slot: see replace.
//   - Only timeouts that the worker has never had are dropped. Others may lie in a bucket, and only the worker can remove
//     them from there.
//   - The hand passes what is pending. If it has passed more than three quarters of the slots in a lap, the ring is doubled:
//     see lap. Proof of the bound: each timeout has one slot in its ring, so those that were passed were different
//     ones, and were pending, or in a bucket, when the lap began. So a ring is doubled only if it has less than 4/3 times
//     as many slots as that, and it has at most 8/3 times as many then, however little the worker does. A goroutine
//     that was overtaken by a whole lap may count one slot too many.
//   - The new table has the same blocks, so nothing is copied, and a block that one goroutine fills is in both tables.
//     Blocks are made when the hand comes to them.
//   - The worker closes blocks, after it has taken the table from the ring. It closes a block, and then looks at its slots.
//     A producer fills a slot, and then looks whether the block is closed: then it puts the timeout into another one. So
//     one of them sees the other. Stop does the same.
//   - What the hand meets in two laps that are keepTime apart has lived long. It goes to the inbox, because the wheel is
//     cheaper for such timeouts.
//   - Near timeouts are in inboxes, or in nurseries where only the worker takes what is pending. So no producer that is
//     preempted keeps one from the worker.

// maxPassed is how many slots the hand passes in a call, before it moves the next timeout on.
const maxPassed = 1 << 12

// put puts a timeout into a slot of a ring, from which the worker takes it by a tick. The caller has set its bit. First
// says that the worker must be woken, swept that it is time for yieldToWorker, and uncontended that no other goroutine put
// something meanwhile: otherwise call seats.Move where queue.stripe was called. If ok is false, the timer is stopped, and the
// caller still has the timeout.
func (w *worker) put(s *stripe, r *ring, to *Timeout, by uint64) (first, swept, uncontended, ok bool) {
	bit := uint64(young)
	if r == &s.inbox {
		bit = queued
	}
	for passed := 0; ; passed++ {
		t := r.table.Load()
		for ; t == nil; t = r.table.Load() { // again if the worker closes the new one at once
			made := newTable(minBlocks)
			made.passed.Store(r.passed.Load())
			r.table.CompareAndSwap(nil, made)
		}
		if t == stoppedTable {
			return first, swept, true, to.word.And(^bit)&bit == 0 // Stop may have taken it from a slot that was closed
		}
		n := r.hand.Add(1)
		swept = swept || n%sweepEvery == 0
		i, j := n%blockSize, n/blockSize&uint64(len(t.blocks)-1)
		if i == 0 && j == 0 {
			w.lap(r, t)
		}
		b := t.block(j)
		slot := &b.slots[i]
		old, filled, again := slot.Load(), false, false
		switch {
		case b == closedBlock:
		case old != nil && bit == queued:
			filled, again = w.replace(s, slot, old, to)
		case old == nil || old.drop(bit) || w.moveOn(s, t, b, i, old, passed):
			filled = slot.CompareAndSwap(old, to) // fails if a goroutine that is a lap ahead was here
		}
		if first = first || again; !filled {
			r.passed.Add(1)
			continue
		}
		if m := uint64(1) << i; b.met.Load()&m != 0 {
			b.met.And(^m)
		}
		lower(&b.by, by) // after the slot was filled, and before ring.by
		if b.by.Load() == closed {
			if to.word.Load()&bit == 0 {
				return first, swept, true, true // it was taken
			}
			r.passed.Add(1)
			continue
		}
		first = lower(&r.by, by) || first
		return first, swept, r.hand.Load() == n, true
	}
}

// replace fills a slot of an inbox that leads to another timeout, and reports whether the slot was free. It does so only
// inside the gate: meanwhile that timeout may be armed again, and then nobody else may know it. First is as in put.
func (w *worker) replace(s *stripe, slot *atomic.Pointer[Timeout], old, to *Timeout) (filled, first bool) {
	if word := old.word.Load(); status(word) == pending && word&queued != 0 {
		return false, false
	}
	defer s.leave()
	if !w.queue.enter(s) || !old.drop(queued) || !slot.CompareAndSwap(old, to) {
		return false, false
	}
	if old.word.Load()&queued != 0 {
		// It has come back to this slot, and the compare-and-swap did not notice. Or it is in another slot.
		first, _, _, _ = w.put(s, &s.inbox, old, soon)
	}
	return true, first
}

// drop reports whether a slot that leads to the timeout is free. It drops the timeout if it is canceled, and the worker
// has never had it. A slot of a nursery is not free while the timeout is on its way to the inbox.
func (to *Timeout) drop(bit uint64) (free bool) {
	word := to.word.Load()
	return word&(bit|queued) == 0 || word&(statusMask|fresh) == canceled|fresh && to.word.CompareAndSwap(word, word&^bit)
}

// moveOn moves a pending timeout from the nursery to the inbox, if it has lived long, and reports whether the slot is free.
func (w *worker) moveOn(s *stripe, t *table, b *block, i uint64, to *Timeout, passed int) (free bool) {
	if passed < maxPassed {
		if !t.aging.Load() {
			return false
		}
		if m := uint64(1) << i; b.met.Load()&m == 0 {
			b.met.Or(m)
			return false
		}
	}
	defer s.leave()
	if !w.queue.enter(s) {
		return false
	}
	word := to.word.Load()
	if status(word) != pending || word&young == 0 || !to.word.CompareAndSwap(word, word&^young|queued) {
		return false
	}
	w.put(s, &s.inbox, to, soon) // the worker need not come sooner than for the slot in the nursery
	return true
}

// push puts a timeout whose bit queued is set into the inbox, and wakes the worker. Called inside the gate.
func (w *worker) push(s *stripe, to *Timeout) {
	w.put(s, &s.inbox, to, soon)
	w.wakeBy(0) // not only for the first: see Cancel
}

// lap begins a lap. If more than three quarters of the slots were passed in the lap before, it makes a table of twice the
// length, which has the same blocks and room for as many new ones.
func (w *worker) lap(r *ring, t *table) {
	passed := r.passed.Load()
	now := w.position.Load() >> 1
	aging := now >= t.nextAge.Load()
	if t.aging.Store(aging); aging {
		t.nextAge.Store(now + w.queue.age)
	}
	if passed-t.passed.Swap(passed) <= uint64(len(t.blocks))*blockSize*3/4 {
		return
	}
	larger := newTable(2 * len(t.blocks))
	for i := range t.blocks {
		b := t.blocks[i].Load()
		if b == nil {
			return // otherwise a goroutine that has yet to make it would be the only one that knows it
		}
		larger.blocks[i].Store(b)
	}
	larger.passed.Store(passed)
	larger.nextAge.Store(t.nextAge.Load())
	r.table.CompareAndSwap(t, larger)
}

const overdue = 12 * time.Millisecond // longer than an alarm waits for the end of one time slice

// yieldToWorker yields the processor if a round is overdue: see yielding. Called by producers, after many slots.
func (w *worker) yieldToWorker() {
	state, now := w.state.Load(), w.clock.Elapsed()
	if !w.yielding.yields(now, w.isOverdue(now, state)) {
		return
	}
	if state > halted {
		w.wake(state) // the alarm has not gone off, or its goroutine waits for a processor
	}
	runtime.Gosched()
}

func (w *worker) isOverdue(now time.Duration, state uint64) bool {
	next := state >> idleShift
	if state <= halted {
		next = w.position.Load()>>1 + 1 // a round is in progress, and has not looked at the clock since
	}
	return now >= later(w.clock.Boundary(next), overdue)
}
