package hashedwheel

import "sync/atomic"

// The nursery
//
// Most timeouts die young. So a new one that is far from due is put into a slot of a ring, and the worker leaves it there.
// Placing it, and removing it soon after, would make its rounds long. The hand of the ring goes one slot further for each
// timeout that is armed. In most slots it meets a timeout that has been canceled meanwhile, and drops it. There is no other
// cleaning: it costs a load for each arming, and a compare-and-swap if the timeout has been reset.
//
//	            the hand
//	               v
//	 canceled | canceled | pending | canceled | new | new | ...     --> near or old timeouts: to the worker
//	   drop       drop      pass       drop
//
//   - A slot is only a hint. The bits young and queued of the word say that the timeout is in a nursery, or in an inbox.
//     The goroutine that clears the bit has the timeout: a producer, the worker, Stop, or a Reset that moves it to the
//     inbox. A slot that leads to a timeout without the bit is free. So Cancel clears the bit young of a timeout that has
//     never been reset, and the hand need not drop it. One that has been reset keeps the bit, so that another Reset finds it
//     in its slot.
//   - A timeout is put into a nursery once in its life. Later it goes to the inbox. There it may come back to a slot that
//     another goroutine is about to fill. That goroutine puts it into one more slot: see replace.
//   - The hand drops only timeouts that the worker has never had. Others may be in a bucket, and only the worker can remove
//     them from there.
//   - The hand passes what is pending. A call reads where the hand is, tries the slots from there to the end of the block,
//     and then counts them: one as filled, and the others as passed. If another call has passed slots
//     meanwhile, those of this call do not count. So no slot is passed twice in a lap.
//   - If more than three quarters of the slots were passed in a lap, the ring is doubled: see lap. Proof of the bound: each
//     timeout has one slot in its ring, so the slots that were passed led to different timeouts. These were pending, or in
//     a bucket, when the lap began. So the ring had less than 4/3 times as many slots as that, and has less than 8/3 times
//     as many now, however little the worker does. A timeout that was canceled also counts if a Reset arms it just before the
//     hand comes. The program keeps such timeouts, so they take more memory than their slots.
//   - If goroutines collide, one may pass a slot that another has just filled and not counted yet. There is at most one such
//     slot for each that was filled, so they are less than a quarter of the lap. More than half of the slots still led to
//     timeouts that were pending when the lap began, so the ring has less than four times as many slots. A goroutine that is
//     preempted before it counts may count slots of an earlier lap, no more than a block has. One that is preempted when it
//     begins a lap may join two laps into one. A lap may be longer than the ring, by less than a block.
//   - The new table has the same blocks, so nothing is copied, and a block that one goroutine fills is in both tables.
//     Blocks are made when the hand comes to them.
//   - The worker, or Stop, takes a table from its ring, and closes the blocks: see ring.close. A producer that finds its
//     block closed puts the timeout into another one.
//   - A timeout that the hand meets in two laps, twice nearTime apart, has lived long. It goes to the inbox, because the
//     wheel is cheaper for such timeouts.
//   - Near timeouts are in inboxes, or in nurseries, where only the worker takes pending ones. So no producer that is
//     preempted keeps one from the worker.

// maxPassed is how many slots a call passes, before it moves the next timeout on.
const maxPassed = 1 << 12

// put puts a timeout into a slot of a ring, for the worker to take it by a tick. The caller has set the bit of the ring.
//
// First says that the worker must be woken, and swept that it is time for yielding.yieldTo. Uncontended says that no other
// goroutine has used the ring meanwhile. If it is false, call seats.Move where queue.stripe was called. If ok is false, the
// timer is stopped, and the caller still has the timeout.
func (w *worker) put(s *stripe, r *ring, to *Timeout, by uint64) (first, swept, uncontended, ok bool) {
	bit := uint64(young)
	if r == &s.inbox {
		bit = queued
	}
	uncontended = true
	for tried := 0; ; {
		t := r.table.Load()
		for ; t == nil; t = r.table.Load() { // again if the worker closes the new one at once
			r.table.CompareAndSwap(nil, newTable(r, minBlocks))
		}
		if t == stoppedTable {
			if ok = to.word.And(^bit)&bit == 0; ok {
				r.filled.Add(1) // Stop has taken it from a slot that was closed
			}
			return first, swept, uncontended, ok
		}
		passed := r.passed.Load() // before filled, so that a slot that another call has passed is not passed again
		filled := r.filled.Load()
		hand := passed + filled
		if end := t.end.Load(); int64(hand-end) >= 0 && t.end.CompareAndSwap(end, hand+t.slots()) {
			w.lap(r, t)
		}
		b := t.block(hand / blockSize & uint64(len(t.blocks)-1))
		aging, met := bit == young && t.aging.Load(), uint64(0)
		if aging {
			if met = b.met.Load(); r.passed.Load() != passed {
				met = 0 // another call may have met them in this lap
			}
		}
		next, found := hand, false
		for wakes := false; !found && (next == hand || next%blockSize != 0); next++ {
			i := next % blockSize
			found, wakes = w.fill(s, b, i, to, bit, met>>i&1 != 0 || tried >= maxPassed)
			first = first || wakes
			tried++
		}
		if found {
			lower(&b.by, by) // after the slot was filled, and before ring.by
			if b.by.Load() != closed {
				first = lower(&r.by, by) || first
			} else if to.word.Load()&bit != 0 {
				found = false // the worker, or Stop, may not have seen it
			}
		}
		swept = swept || hand/sweepEvery != next/sweepEvery
		if found {
			next--
		}
		if n := next - hand; n > 0 {
			if !r.passed.CompareAndSwap(passed, passed+n) {
				uncontended = false // others have moved the hand, so these slots do not count
			} else if aging {
				b.met.Or((1<<n - 1) << (hand % blockSize))
			}
		}
		if found {
			return first, swept, r.filled.Add(1) == filled+1 && uncontended, true
		}
	}
}

// fill fills slot i of a block, and reports whether the slot was free. Moves says that a pending timeout there is moved on.
// First is as in put.
func (w *worker) fill(s *stripe, b *block, i uint64, to *Timeout, bit uint64, moves bool) (filled, first bool) {
	slot := &b.slots[i]
	old := slot.Load()
	switch {
	case b == closedBlock:
		return false, false
	case old != nil && bit == queued:
		filled, first = w.replace(s, slot, old, to)
	case old == nil || old.drop(bit) || moves && w.moveOn(s, old):
		filled = slot.CompareAndSwap(old, to) // fails if another goroutine was here
	}
	if m := uint64(1) << i; filled && b.met.Load()&m != 0 {
		b.met.And(^m)
	}
	return filled, first
}

// replace fills a slot of an inbox that leads to another timeout, and reports whether the slot was free. It does so only
// inside the gate. If that timeout comes back to the slot meanwhile, only this goroutine knows it, until it has put it into
// another slot. First is as in put.
func (w *worker) replace(s *stripe, slot *atomic.Pointer[Timeout], old, to *Timeout) (filled, first bool) {
	if word := old.word.Load(); status(word) == pending && word&queued != 0 {
		return false, false
	}
	defer s.leave()
	if !w.queue.enter(s) || !old.drop(queued) || !slot.CompareAndSwap(old, to) {
		return false, false
	}
	if old.word.Load()&queued != 0 {
		// It may have come back to this slot before the compare-and-swap, which did not notice. Or it is in another slot.
		first, _, _, _ = w.put(s, &s.inbox, old, soon)
	}
	return true, first
}

// drop reports whether a slot that leads to the timeout is free. It drops the timeout if it is canceled and the worker has
// never had it. A slot of a nursery is not free while the timeout is on its way to the inbox, because a walk may rely on it.
func (to *Timeout) drop(bit uint64) (free bool) {
	word := to.word.Load()
	return word&(bit|queued) == 0 || word&(statusMask|fresh) == canceled|fresh && to.word.CompareAndSwap(word, word&^bit)
}

// moveOn moves a pending timeout from the nursery to the inbox, and reports whether its slot is free.
func (w *worker) moveOn(s *stripe, to *Timeout) (free bool) {
	defer s.leave()
	if !w.queue.enter(s) {
		return false
	}
	word := to.word.Load()
	if status(word) != pending || word&young == 0 || !to.word.CompareAndSwap(word, word&^young|queued) {
		return false
	}
	// Before the slot of the nursery is free, because a walk must find the timeout in one of them.
	w.put(s, &s.inbox, to, soon) // the worker need not come sooner than for the slot in the nursery
	return true
}

// push puts a timeout whose bit queued is set into the inbox, and wakes the worker. Called inside the gate.
func (w *worker) push(s *stripe, to *Timeout) {
	w.put(s, &s.inbox, to, soon)
	w.wakeBy(0) // not only if this was the first: another one may be of a foreign Cancel, which could not wake the worker
}

// lap begins a lap. If more than three quarters of the slots were passed in the lap before, it makes a table of twice the
// length. The new table has the same blocks, and room for as many new ones.
func (w *worker) lap(r *ring, t *table) {
	now := w.position.Load() >> 1
	aging := now >= t.nextAge.Load()
	if t.aging.Store(aging); aging {
		t.nextAge.Store(now + 2*w.queue.horizon)
	}
	before := t.passed.Load() // before ring.passed, and changed only from here, so that it never goes back
	passed := r.passed.Load()
	if !t.passed.CompareAndSwap(before, passed) || passed-before <= t.slots()*3/4 {
		return
	}
	larger := newTable(r, 2*uint64(len(t.blocks)))
	for i := range t.blocks {
		b := t.blocks[i].Load()
		if b == nil {
			return // otherwise a goroutine that is about to make it would put it only into the old table
		}
		larger.blocks[i].Store(b)
	}
	larger.nextAge.Store(t.nextAge.Load())
	r.table.CompareAndSwap(t, larger)
}
