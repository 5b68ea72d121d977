package hashedwheel

import (
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Near and far
//
// At each boundary, the worker takes all timeouts in inboxes, and those in nurseries that have become near: they are due
// within nearTime, or two ticks. It takes the rest of a nursery when no hand cleans it: when producers pause, or when the
// hand of this nursery stands still, or lags behind the others.
//
//   - Each block, and each ring, has a tick by which the worker must look at it: see takeRing. A Reset to an earlier tick
//     moves its timeout to the inbox.
//   - Producers pause when they try less than one slot in pauseTime, in which the worker could take 50. After they have gone
//     on for long, a pause of less than maxUnwatched, or a tick, does not count. Otherwise rounds that have nothing else to
//     do would come for it, and each of them may have to wait for a processor.
//   - So a canceled timeout is dropped by the second boundary if producers pause. Otherwise it is dropped when the hand has
//     gone round its ring. If the hand stands still or lags, it is dropped after nearTime or two ticks.
//   - A hand lags if it goes round less than once while the others do so maxLag times, on average. Its ring has grown, and
//     is then used slowly.
//   - The worker gives back tables that have grown, after it has taken the whole nursery.
//
// The queue may hold millions. So between the timeouts that it takes, the worker serves what is more urgent: what
// has come due, what was put into an inbox meanwhile, what has become near, and Stop.

const (
	maxWaiting = 250 * time.Millisecond // the longest time to wait for the next round in a long tick

	pauseTime    = 5 * time.Microsecond  // producers pause if they try less than one slot in this time
	maxUnwatched = 20 * time.Millisecond // the longest time between two measurements of the pace, if a tick is shorter
)

// An intake takes timeouts off the queue. Owned by the worker.
type intake struct {
	// Immutable after New.
	queue  *queue
	clock  *ticks.Clock
	worker reconciler

	now     uint64     // the tick of the worker
	emptied int        // slots emptied in this round
	taking  int        // takingAll, takingDue, takingRecent or takingNewest
	pausing bool       // this round takes all timeouts, because producers pause
	stands  bool       // takeAll takes all timeouts of this nursery, because its hand stands still or lags
	tried   uint64     // the value of queue.tried when this round began to take timeouts
	slots   uint64     // how many slots all nurseries have
	pace    pace       // how fast producers arm timeouts
	looks   []lastLook // one for each stripe
	stopped bool       // Stop has halted the worker
}

// The worker interrupts each of these for the next ones.
const (
	takingAll    = iota // whole nurseries
	takingDue           // what must be taken by this tick
	takingRecent        // what was put into an inbox since the last look
	takingNewest        // what was put into an inbox since the last look, while takingRecent
)

// A lastLook is what the worker remembers of its last look at a stripe.
type lastLook struct {
	at          uint64 // the tick at which the hand of the nursery was last seen to keep up
	hand, tried uint64 // where the hand was then, and the value of queue.tried
	inbox       uint64 // the block up to which the worker has taken the inbox, counted as the hand counts
}

const (
	checkEvery = 1 << 10 // slots that drain empties between looks at the clock: some 50 microseconds
	resumed    = 16      // producers do not pause if they try more than one slot for each 16 that the worker empties
	maxLag     = 8       // how many times as fast as one hand the others may go round
)

// A reconciler is what an intake needs of the worker.
type reconciler interface {
	// reconcile places, moves, removes or emits a timeout that comes off the queue, as its word says.
	reconcile(to *Timeout, word uint64)

	// expireDue hands over what has come due. It returns the current tick, and whether Stop has halted the worker.
	expireDue() (now uint64, stopped bool)
}

// drain takes timeouts off the queue and reconciles them: those in inboxes, those in nurseries that have become near, and
// whole nurseries that no hand cleans.
func (in *intake) drain() {
	in.emptied = 0
	in.now, in.stopped = in.worker.expireDue()
	in.tried = in.queue.tried()
	in.pausing = in.pace.pause(in.clock.Elapsed(), in.tried, min(in.clock.Tick, maxWaiting))
	if in.looks == nil {
		in.looks = make([]lastLook, len(in.queue.stripes))
	}
	in.taking = takingDue
	for i := range in.queue.stripes {
		in.takeRecent(i)
		in.takeRing(&in.queue.stripes[i].inbox, queued)
		in.takeRing(&in.queue.stripes[i].nursery, young)
	}
	in.taking, in.slots = takingAll, 0
	for i := range in.queue.stripes {
		in.slots += uint64(in.queue.stripes[i].nursery.slots())
	}
	for i := range in.queue.stripes {
		in.takeAll(i)
	}
}

// takeAll takes all timeouts of a stripe if producers pause, or if the hand of its nursery stands still or lags. Then it gives
// back the tables that have grown.
func (in *intake) takeAll(i int) {
	s, v := &in.queue.stripes[i], &in.looks[i]
	if hand := s.nursery.hand(); in.keepsUp(hand-v.hand, in.tried-v.tried, uint64(s.nursery.slots())) {
		v.at, v.hand, v.tried = in.now, hand, in.tried
	}
	in.stands = in.now >= v.at+in.queue.horizon
	if !in.pausing && !in.stands {
		return
	}
	in.takeRing(&s.nursery, young)
	if in.stopped || !in.pausing && !in.stands {
		return
	}
	if s.nursery.large() || s.inbox.large() {
		in.giveBack(s)
	}
}

// keepsUp reports whether a hand moves and does not lag. Moved is how many slots it has tried since it was last seen to keep
// up. Tried is how many all hands have tried since then. Slots is how many its ring has.
func (in *intake) keepsUp(moved, tried, slots uint64) bool {
	return moved >= sweepEvery && (moved >= slots || tried/moved <= maxLag*in.slots/slots)
}

// giveBack gives back the memory of a stripe, and takes what was put there meanwhile.
func (in *intake) giveBack(s *stripe) {
	s.nursery.close(nil, func(to *Timeout) { in.take(to) })
	s.inbox.close(nil, func(to *Timeout) { in.take(to) })
}

// takeRecent takes what was put into an inbox since the last look.
func (in *intake) takeRecent(i int) {
	r, v := &in.queue.stripes[i].inbox, &in.looks[i]
	t := r.table.Load()
	if t == nil || r.by.Load() == ticks.Never {
		return
	}
	n := uint64(len(t.blocks))
	first, last := v.inbox, r.hand()/blockSize
	v.inbox = last
	if last-first >= n {
		first = last - n + 1
	}
	for ; first <= last; first++ {
		in.takeBlock(t.blocks[first%n].Load(), queued)
	}
}

// takeRing takes the timeouts of a ring that the worker must take now, or all.
//
// The worker raises the tick of the ring before it reads those of the blocks, and the tick of a block before it reads the
// slots. A producer goes the other way: it fills a slot, then lowers the tick of the block, then that of the ring, and then
// reads the state of the worker. So if the worker misses a timeout, the ticks say that it must look again.
func (in *intake) takeRing(r *ring, bit uint64) {
	if in.by() < r.by.Load() {
		return
	}
	if in.taking == takingAll {
		// The ring keeps its tick meanwhile. So the worker also takes timeouts that become near in between.
		blocks := r.blocks()
		for i := range blocks {
			in.takeBlock(blocks[i].Load(), bit)
		}
	}
	change(&r.by, ticks.Never) // before it reads the table, because that may have grown
	blocks := r.blocks()
	for i := range blocks {
		if b := blocks[i].Load(); b != nil {
			if in.taking == takingDue {
				in.takeBlock(b, bit)
			}
			if by := b.by.Load(); by < ticks.Never {
				lower(&r.by, by)
			}
		}
	}
}

// by returns the tick by which the worker takes timeouts now.
func (in *intake) by() uint64 {
	if in.taking == takingAll && (in.pausing || in.stands) {
		return ticks.Never - 1
	}
	return max(in.now, soon) // at least soon, because it takes inboxes in the first tick too
}

// takeBlock takes the timeouts of a block that the worker must take now, or all.
func (in *intake) takeBlock(b *block, bit uint64) {
	if b == nil || in.by() < b.by.Load() {
		return
	}
	b.by.Store(ticks.Never) // before it reads the slots
	first := uint64(ticks.Never)
	for i := range b.slots {
		slot := &b.slots[i]
		to := slot.Load()
		if to == nil {
			continue
		}
		if in.stopped {
			first = soon // Stop takes them
			break
		}
		if word := to.word.Load(); bit == young && word&young != 0 && status(word) == pending {
			if near := in.queue.nearAt(tickOf(word)); near > in.by() {
				first = min(first, near)
				continue
			}
		}
		if slot.CompareAndSwap(to, nil) {
			in.take(to)
		}
	}
	lower(&b.by, first)
}

// take reconciles a timeout whose slot was emptied, unless it has left the queue before. If moveOn, or a Reset, is just putting
// the timeout into the inbox, the slot that it fills there will be free.
func (in *intake) take(to *Timeout) {
	for word := to.word.Load(); onQueue(word); word = to.word.Load() {
		if to.word.CompareAndSwap(word, word&^(young|queued|fresh)) {
			in.worker.reconcile(to, word)
			break
		}
	}
	in.count()
}

// count counts a slot that was emptied. After each checkEvery of them, it serves what is more urgent.
func (in *intake) count() {
	if in.emptied++; in.emptied%checkEvery != 0 {
		return
	}
	in.now, in.stopped = in.worker.expireDue()
	if tried := in.queue.tried(); tried-in.tried > uint64(in.emptied)/resumed {
		in.pausing = false // producers do not pause, or no longer
	}
	was := in.taking
	if was < takingNewest {
		in.taking = max(was+1, takingRecent)
		for i := range in.queue.stripes {
			in.takeRecent(i)
		}
	}
	if was < takingDue {
		in.taking = takingDue
		for i := range in.queue.stripes {
			in.takeRing(&in.queue.stripes[i].nursery, young)
		}
	}
	in.taking = was
}

// A pace measures how fast producers try slots. Its zero value is ready for use.
type pace struct {
	at    time.Duration // the time of the last measurement
	count uint64        // the count of slots at that time
	fast  time.Duration // for how long producers have not paused; 0 if they pause
}

// pause reports whether producers pause. It measures once in a tick, or less often: see interval.
func (p *pace) pause(now time.Duration, count uint64, tick time.Duration) bool {
	if spent := now - p.at; spent >= p.interval(tick)*3/4 {
		if time.Duration(count-p.count)*pauseTime > spent {
			p.fast += spent
		} else {
			p.fast = 0
		}
		p.at, p.count = now, count
	}
	return p.fast == 0
}

// interval returns the time after which pause should be called again: a tick, or more, up to maxUnwatched, if producers have
// not paused for long. So a pause that is short compared with that time does not count.
func (p *pace) interval(tick time.Duration) time.Duration {
	return max(tick, min(p.fast/4, maxUnwatched))
}
