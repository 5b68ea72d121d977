package hashedwheel

import (
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/pace"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Near and far
//
// Most timeouts are canceled long before they are due. So while producers arm very many, the worker leaves them what is
// due later than nearTime, or two ticks: placing them, and removing them soon after, would make its rounds long. A
// segment has the tick at which its first timeout becomes near: then the worker takes it. The stripe has the earliest
// tick of its segments, and that of what was pushed since the last pruning, so most rounds need not look further.
// Producers put what has become near, or what they have kept for keepTime, into the near lane: timeouts that live long
// are cheaper on the wheel. When producers pause, the worker takes all: they arm less than one in pace.PauseTime then, in
// which it could take 50.
//
//   - A timeout that is pushed, or put back, lowers the tick of its stripe after that. Who takes the timeouts raises it
//     before. So the tick is never too late, except after a Reset to an earlier tick, which cannot tell where its
//     timeout lies. Such a Reset hurries the timeout: see reset.go.
//   - A producer that is preempted while it prunes keeps its timeouts from the worker. They are far: none is late if it
//     goes on within nearTime. Near ones that it finds go to the near lane, which is pruned only if it is long.
//   - A canceled timeout is dropped by the second boundary if producers pause, and otherwise when they have armed as
//     many as are pending: by then they have checked all that are kept. On stripes that no goroutine uses any more, it
//     may take three times as many. After they have armed for long without a pause, one of less than pace.MaxUnwatched,
//     or a tick, may not count, because each round that has nothing else to do may come to wait for a processor.
//
// The queue may hold millions. So between the timeouts that it takes, the worker attends to what is more urgent: what
// has come due, what is near or hurried and was pushed meanwhile, and Stop.

// maxWaiting is the longest time to wait for the next round in a long tick.
const maxWaiting = 250 * time.Millisecond

// An intake takes timeouts off the queue. Owned by the worker.
type intake struct {
	// Immutable after New.
	queue  *queue
	clock  *ticks.Clock
	worker settler

	taken atomic.Uint64 // timeouts that the worker or Stop has taken off the queue; shared

	now     uint64     // the tick of the worker
	settled int        // timeouts taken off the queue in this round
	pausing bool       // this round takes all timeouts, because producers pause
	armed   uint64     // the value of queue.armed when this round began to take timeouts
	pace    pace.Pace  // how fast producers arm timeouts
	taking  int        // takingFar, takingKept or takingNew
	stopped bool       // Stop has halted the worker
	left    []*Timeout // linked lists that are left to Stop
	spare   []*Timeout // an empty array for a list of hurried timeouts, or nil
}

// The worker interrupts each of these for the next ones. What is new is soon settled: it came since the last look.
const (
	takingFar = iota
	takingKept
	takingNew
)

const (
	checkEvery = 1 << 10 // timeouts that drain takes between looks at the clock: some 50 microseconds
	resumed    = 16      // producers that arm one for each so many that the worker takes do not pause
)

// A settler is what an intake needs of the worker.
type settler interface {
	// settle places, moves, removes or emits a timeout that comes off the queue, as its word says.
	settle(to *Timeout, word uint64)

	// attend hands over what has come due. It returns the current tick, and whether Stop has halted the worker.
	attend() (now uint64, stopped bool)
}

// drain takes timeouts off the queue and settles them: the near ones, or all of them if producers pause.
func (in *intake) drain() {
	in.settled = 0
	in.now, in.stopped = in.worker.attend()
	in.armed = in.queue.armed()
	in.pausing = in.pace.Pause(in.clock.Elapsed(), in.armed, min(in.clock.Tick, maxWaiting))
	in.taking = takingKept
	in.takeNew()
	in.takeKept()
	in.taking = takingFar
	for i := range in.queue.stripes {
		in.takeFar(&in.queue.stripes[i])
	}
	in.taken.Add(uint64(in.settled % checkEvery))
}

// takeNew settles what is hurried or requeued, and what was pushed on a near lane and not pruned yet.
func (in *intake) takeNew() {
	hurried := in.queue.hurried.Load() && in.queue.hurried.Swap(false)
	for i := range in.queue.stripes {
		s := &in.queue.stripes[i]
		if hurried {
			in.takeHurried(&s.hurried)
		}
		in.settleAll(s.requeued.take(), queued)
		in.settleAll(s.near.pushed.take(), laned|fresh)
	}
}

// takeKept settles the near timeouts that producers have kept.
func (in *intake) takeKept() {
	for i := range in.queue.stripes {
		kept := &in.queue.stripes[i].near.kept
		for seg := range kept.popSome(kept.n.Load()) {
			in.settleAll(seg.first, laned|fresh)
		}
	}
}

// takeHurried settles timeouts that stay on their lanes, where they are not fresh any more: producers must not drop them.
func (in *intake) takeHurried(l *list) {
	all := l.takeAll(in.spare)
	if all == nil {
		return
	}
	in.spare = nil
	for i, to := range all {
		if in.stopped {
			l.putBack(all[i:])
			return
		}
		in.worker.settle(to, to.takeOff(queued|fresh))
		in.count()
	}
	if cap(all) <= checkEvery {
		clear(all)
		in.spare = all[:0]
	}
}

// takeFar settles the timeouts of a far lane that have become near, or all of them.
func (in *intake) takeFar(s *stripe) {
	if in.pausing || s.pushedNear.Load() <= in.now {
		in.settleAll(s.takePushed(), laned|fresh)
	}
	if !in.pausing && s.keptNear.Load() > in.now {
		return
	}
	change(&s.keptNear, ticks.Never)
	for seg := range s.far.kept.popSome(s.far.kept.n.Load()) {
		if in.pausing || seg.near <= in.now {
			in.settleAll(seg.first, laned|fresh)
		} else {
			s.keepFar(seg)
		}
	}
}

// settleAll takes the timeouts of a linked list off the queue and settles them. Bits are as in takeOff. If Stop has
// halted the worker, it leaves them to Stop, which would only take them out of their buckets again.
func (in *intake) settleAll(list *Timeout, bits uint64) {
	for list != nil {
		if in.stopped {
			in.left = append(in.left, list)
			return
		}
		var to *Timeout
		to, list = unlink(list)
		word := to.takeOff(bits) // from here on other goroutines may push it again
		if bits == queued || word&fresh != 0 {
			in.worker.settle(to, word)
		} // otherwise it was hurried, and only waited to be unlinked
		if bits != queued && word&(queued|fresh) != fresh {
			in.taken.Add(^uint64(0)) // it counts when it is taken from the list hurried
		}
		in.count()
	}
}

// count counts a timeout that was taken off the queue. Between many, the worker looks up.
func (in *intake) count() {
	if in.settled++; in.settled%checkEvery == 0 {
		in.taken.Add(checkEvery)
		in.lookUp()
	}
}

// lookUp does what cannot wait until the queue is empty.
func (in *intake) lookUp() {
	in.now, in.stopped = in.worker.attend()
	if armed := in.queue.armed(); armed-in.armed > uint64(in.settled)/resumed {
		in.pausing = false // producers have not paused, or go on
	}
	was := in.taking
	if was < takingNew {
		in.taking = takingNew
		in.takeNew()
	}
	if was < takingKept {
		in.taking = takingKept
		in.takeKept()
	}
	in.taking = was
}
