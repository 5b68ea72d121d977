package hashedwheel

import (
	"math/bits"
	"sync/atomic"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// The nursery
//
// Most timeouts are canceled soon. So a new timeout is put into a slot of a ring, and the worker leaves it there until it is
// near, or has been there for two sweeps. Placing it in a bucket, and removing it soon after, would make the rounds of the
// worker long. A hand goes round the ring, one slot for each timeout that is armed. Most slots lead to a timeout that was
// canceled meanwhile, and the new timeout takes the slot.
//
// A goroutine that is preempted while it uses the nursery, an inbox or the gate holds up no other that arms or cancels. A
// wheel with a mutex for each stripe arms and cancels as fast on two processors. But where many goroutines arm without a
// pause, timeouts are later with a mutex: benchmarks/tried.md has the figures.
//
//	            the hand
//	               v
//	 canceled | canceled | pending | canceled | new | new | ...     near or old: the worker takes it
//	   fill       fill      skip       fill
//
//   - A slot is a hint. The bit young of the word says that the timeout is in the nursery. It is set once, when a timeout is
//     first armed. A slot that leads to a timeout without the bit is free.
//   - Four clear the bit, each by a compare-and-swap of the word. The worker and Stop do so to take the timeout, and the
//     hand to drop a canceled one. Cancel saves the hand this if the timeout was never reset and is not bound.
//   - A Reset to an earlier tick puts the timeout into a second slot, because its first slot is not known. The bit hurried
//     says so. The worker takes the timeout in its next round. On an inbox, the timeout would wait for the worker even after
//     a Cancel. Where many goroutines arm, bring forward and cancel, very many would wait there.
//   - The hand skips a pending timeout. The worker takes the timeout when it is near or old, or when the worker closes the
//     table. A goroutine that is preempted anywhere in put delays its own timeout, and no other. A goroutine that is preempted
//     in worker.wake, which may follow, delays all.
//   - A lap of the hand begins at slot 0. If more than half of a sample of slots then lead to pending timeouts, the ring
//     gets an empty table of twice the size. It links to the old table, from which the worker takes the timeouts. So the
//     number of slots follows from how many were pending in the ring at once, even if the worker never comes.
//   - The worker closes a table that it takes: it swaps each slot for closedSlot. A producer that still uses the table fills a
//     slot by a compare-and-swap. So either the worker finds its timeout, or it finds the slot closed and tries again in
//     the table of the ring.

// A ring is the nursery of one stripe.
//
// No timeout is missed, because producers and the worker go opposite ways. A producer (fill, wakeFor):
//
//  1. fills the slot
//  2. lowers block.by
//  3. lowers ring.by
//  4. reads worker.state, and wakes the worker if it comes too late
//
// The worker goes the other way. In each line it first writes, and then reads:
//
//	A. becomes idle, then reads ring.by                          (worker.goIdle)
//	B. raises ring.by, then reads the table and each block.by    (worker.lookAt); or it closes the table (ring.swapTables)
//	C. raises block.by, then reads the slots                     (worker.dequeueBlock)
//
// A producer that pushes onto an inbox does so in place of the steps 1 to 3. In each line, either the worker reads what the
// producer has written, or the worker has written before the producer's next step. In the second case, that step lowers the tick
// that the worker has raised, or finds the worker idle. The write of line B may replace that of step 3. But then step 2 was done
// before, and line B reads block.by next.
type ring struct {
	table   atomic.Pointer[table] // nil before the first put, and after the worker has taken the table
	filled  atomic.Uint64         // timeouts that were armed here; a second slot does not count
	skipped atomic.Uint64         // other slots that the hand has left behind; if goroutines collide, some count twice
	by      atomic.Uint64         // the worker must look at the blocks by this tick
}

// A table has the slots of a ring. Their number is a power of two.
type table struct {
	slots  []atomic.Pointer[Timeout]
	blocks []block // one for each blockSize slots

	older atomic.Pointer[table] // the table before, until all its slots are closed; once others know this one, only the worker or Stop writes it

	closed int // how many slots are closed; owned by the worker, or Stop
}

// A block says what the worker has to do with some slots.
type block struct {
	by  atomic.Uint64 // the worker must look at them by this tick; Never when a look has found that nothing stays
	met atomic.Uint64 // a bit for each slot whose timeout a sweep has met; a timeout that comes during the sweep may count as met

	inNear bool // it is in worker.near; owned by the worker
}

const (
	blockSize = 64
	minSlots  = 4 * blockSize // of a table

	soon = 1 // for ring.by, block.by and wakeFor: by the next boundary, or now if the worker would not come there

	yieldEvery = 1 << 8 // slots, or pushes onto an inbox, from one call of yielding.yieldTo to the next
)

var (
	closedSlot   = new(Timeout) // in each slot of a closed table
	stoppedTable = new(table)   // the table of each ring after Stop
)

func newTable(slots int) *table {
	t := &table{slots: make([]atomic.Pointer[Timeout], slots), blocks: make([]block, slots/blockSize)}
	for i := range t.blocks {
		t.blocks[i].by.Store(ticks.Never)
	}
	return t
}

// put puts a timeout whose bit young is set into a slot, so that the worker looks at it by a tick.
//
//   - If second is true, the timeout has a slot already and does not count as armed: see Timeout.putAgain.
//   - If yields is true, the caller should call yielding.yieldTo. A Reset does not: it may be inside the gate, for which
//     Stop waits.
//   - If uncontended is false, another goroutine has armed a timeout in the ring meanwhile. Then the caller should call
//     seats.Move, to use another stripe the next time.
//   - If ok is false, the timer is stopped, and no slot was filled.
func (r *ring) put(to *Timeout, by uint64, second bool) (yields, uncontended, ok bool) {
	for {
		t := r.table.Load()
		if t == nil {
			r.table.CompareAndSwap(nil, newTable(minSlots))
			continue
		}
		if t == stoppedTable {
			return false, false, false
		}
		filled := r.filled.Load()
		hand := filled + r.skipped.Load()
		skipped, found := r.fill(t, hand, to, by)
		if !found {
			continue // the table is closed, or the ring has grown
		}
		yields = (hand+skipped)%yieldEvery == 0 || skipped >= yieldEvery
		if second {
			r.skipped.Add(skipped + 1)
			return yields, true, true
		}
		if skipped > 0 {
			r.skipped.Add(skipped)
		}
		return yields, r.filled.Add(1) == filled+1, true
	}
}

// fill fills a free slot, most often the first from the hand on, and returns how many slots it has skipped. It returns false if
// the ring has, or may have, another table now.
func (r *ring) fill(t *table, hand uint64, to *Timeout, by uint64) (skipped uint64, found bool) {
	last := uint64(len(t.slots) - 1)
	// Where many slots in a row lead to pending timeouts, the strides become longer, so that each call is short. Odd strides
	// come to each slot in the end.
	for stride, looks := uint64(1), 0; ; looks++ {
		i := (hand + skipped) & last
		if i < stride && r.grow(t) { // the hand is at slot 0, or has skipped it; it moves by one slot for each timeout, so it does so in each lap
			return 0, false
		}
		if looks%blockSize == blockSize-1 && stride < last/8 {
			stride = 2*stride + 1
		}
		there := t.slots[i].Load()
		switch {
		case there == closedSlot: // first, because its word has no bits, like that of a free slot
			return 0, false
		case there != nil && !there.dropCanceled():
			skipped += stride
			continue
		// The slot is free from here on, because the timeout in it never becomes young again. A producer that is late may still
		// fill a second slot with that timeout. Such a slot is free too.
		case !t.slots[i].CompareAndSwap(there, to): // step 1 of ring
			hand++ // not skipped: if another goroutine has filled the slot, it counts the slot
			continue
		}
		b := &t.blocks[i/blockSize]
		if met := uint64(1) << (i % blockSize); b.met.Load()&met != 0 {
			b.met.And(^met)
		}
		lower(&b.by, by) // step 2
		// Step 3, even if step 2 has changed nothing: another producer may have lowered block.by, and not ring.by yet.
		lower(&r.by, by)
		return skipped, true
	}
}

// dropCanceled drops the timeout from the nursery if it is canceled. It reports whether a slot that leads to the timeout is
// free.
func (to *Timeout) dropCanceled() bool {
	word := to.word.Load()
	return word&young == 0 || status(word) != pending && to.word.CompareAndSwap(word, word&^(young|hurried))
}

// grow is called when a lap begins. If more than half of the slots lead to pending timeouts, it makes a table of twice the
// size and returns true: the ring has another table now.
func (r *ring) grow(t *table) bool {
	if t.pending(64) <= len(t.slots)/2 {
		return false
	}
	r.replace(t, 2*len(t.slots))
	return true
}

// replace replaces the table t by an empty one, which links to t, and returns it. If another goroutine has replaced t
// before, replace returns t.
func (r *ring) replace(t *table, slots int) *table {
	instead := newTable(slots)
	instead.older.Store(t)
	if r.table.CompareAndSwap(t, instead) {
		return instead
	}
	return t
}

// pending returns about how many slots of a table lead to pending timeouts of the nursery. It reads at most n slots. They
// are spread over the table by Fibonacci hashing, so that no pattern of the program distorts the sample.
func (t *table) pending(n int) (found int) {
	all := len(t.slots)
	shift := bits.LeadingZeros64(uint64(all - 1))
	n = min(n, all)
	for i := range n {
		at := uint64(i)
		if n < all {
			at = at * 0x9E3779B97F4A7C15 >> shift
		}
		if to := t.slots[at].Load(); to != nil {
			if word := to.word.Load(); word&young != 0 && status(word) == pending {
				found++
			}
		}
	}
	return found * (all / max(n, 1)) // the table after Stop has no slots
}

// needs returns the tick by which the worker must look at the ring: Never if it is empty, and Never-1 if there is only a large
// table, which must be given back before the worker rests.
func (r *ring) needs() uint64 {
	by := r.by.Load()
	if t := r.table.Load(); t != nil && len(t.slots) > minSlots {
		return min(by, ticks.Never-1)
	}
	return by
}

// each calls f for each timeout to which a slot of any table leads, until f returns false.
func (r *ring) each(f func(to *Timeout) (more bool)) {
	for t := r.table.Load(); t != nil; t = t.older.Load() {
		for i := range t.slots {
			if to := t.slots[i].Load(); to != nil && to != closedSlot && !f(to) {
				return
			}
		}
	}
}

// swapTables takes the tables of a ring, and leaves another, or nil. Called by the worker, or by Stop.
func (r *ring) swapTables(instead *table) (taken []*table) {
	// Line B of ring, before the table is taken. A producer may lower the tick after this. Then its slot is in the new table, or
	// the worker finds its timeout when it closes the old one, and later looks at the new table without need.
	raise(&r.by)
	return r.table.Swap(instead).andOlder()
}

// andOlder returns a table and those before it, and unlinks them.
func (t *table) andOlder() (all []*table) {
	for ; t != nil; t = t.older.Swap(nil) {
		all = append(all, t)
	}
	return all
}

// close closes up to n more slots, and calls take for each timeout that it finds there. It reports whether all are closed.
// Called by the worker for a table that has been replaced, or by Stop.
func (t *table) close(n int, take func(to *Timeout)) (closed bool) {
	for ; n > 0 && t.closed < len(t.slots); n-- {
		if to := t.slots[t.closed].Swap(closedSlot); to != nil {
			take(to)
		}
		t.closed++
	}
	return t.closed == len(t.slots)
}

// raise makes ring.by Never. If it is Never already, raise does not write, so that other processors keep the cache line. If a
// producer lowers ring.by in between, that tick is lost. This does no harm, because the producer has lowered block.by before.
// The worker reads block.by next, or closes all slots.
func raise(x *atomic.Uint64) {
	if x.Load() != ticks.Never {
		x.Store(ticks.Never)
	}
}

// lower makes x no more than tick.
func lower(x *atomic.Uint64, tick uint64) {
	for old := x.Load(); tick < old; old = x.Load() {
		if x.CompareAndSwap(old, tick) {
			return
		}
	}
}
