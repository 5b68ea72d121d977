package hashedwheel

import (
	"runtime"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Pruning
//
// One worker processes some ten million timeouts a second. Producers on many processors arm and cancel more than
// that, so they do most of its work. After every pruneEvery timeouts armed on a stripe, the goroutine that armed the
// last takes the stack of each lane, drops the canceled timeouts, and keeps the others. Most are still in its cache.
//
//	        take                      push, at the end
//	stack --------> sift --------------------------------> kept
//	                 ^ |  canceled: drop                     |
//	                 | v                                     |
//	                 +---------------------------------------+
//	                   pop: those kept first
//
// If many are kept, it also rechecks two of them for each timeout armed. So producers keep at most twice as many as are
// pending. Proof: let n be the number kept, and p the most pending at once. While all n are checked once, n/2 more are
// armed. Of the n at most p are left, so at most p + n/2 are kept then. Goroutines also prune stripes that no goroutine
// uses any more, and keep what is left of them on their own.
//
//   - A list belongs to the goroutine that took it, until it has pushed what it keeps. The worker and Stop cannot find
//     these timeouts, so pruning is done inside the gate. If it puts timeouts back, it summons the worker. If one may
//     be overdue by then, it also starts a round at once.
//   - Only timeouts that the worker has never had are dropped. Others may lie in a bucket or on a list, and only the
//     worker can remove them from there. A timeout that was hurried is on a lane too, and goes to the near lane.
//   - A timeout is dropped by a compare-and-swap from the canceled word to the same word without the laned bit. A
//     Reset before that does not push, and makes it fail: the timeout stays on the queue. A Reset after that pushes.
//   - An era is a time in which no timeout on a lane is canceled or hurried. It begins when a pruning that has rechecked
//     some has dropped none. What was checked in an era need not be rechecked until the era ends. A pruning reads
//     the number of the era before it checks, and Cancel and Reset change the word before they end the era.
//   - Any number of goroutines may prune a stripe at the same time. None holds a lock while it checks timeouts.

const (
	// pruneEvery is the number of timeouts armed on a stripe between prunings. They fit the first-level cache: 12 KB.
	pruneEvery = 1 << 8

	// maxRechecked bounds how many kept timeouts a pruning rechecks, except that it finishes the last segment. With
	// r*pruneEvery, producers keep up to r/(r-1) times as many as are pending.
	maxRechecked = 2 * pruneEvery

	// minKept is the number of kept timeouts from which on producers recheck them all the time. The worker takes fewer
	// near ones soon. Producers recheck fewer far ones once in two ticks, so that resetting them needs no push.
	minKept = 8 * pruneEvery

	skipIdle = 2 // prunings without a look at another stripe, after one that found few canceled timeouts there
)

// prune drops canceled timeouts from a stripe, and from one that no goroutine uses any more. The caller holds no lock
// of the timer.
func (w *worker) prune(s *stripe) {
	defer s.leave()
	if !w.queue.enter(s) {
		return
	}
	p := pruning{worker: w, stripe: s, start: w.clock.Now(), era: w.queue.era.Load(), earliest: ticks.Never, soonest: ticks.Never}
	p.prune(s, false)
	if skip := s.skipIdle.Load(); skip > 0 {
		s.skipIdle.Store(skip - 1)
	} else if other := w.queue.idleStripe(s); other != nil {
		before := p.dropped
		if p.prune(other, true); p.dropped-before < pruneEvery/4 {
			s.skipIdle.Store(skipIdle) // its goroutines only wait for a processor, or for something else
		}
	}
	s.dropped.Add(p.dropped)
	if p.rechecked > 0 && p.dropped == 0 && p.era%2 == 0 {
		w.queue.era.CompareAndSwap(p.era, p.era+1)
	}
	p.callWorker()
}

// idleStripe returns another stripe that is worth pruning and on which none was armed since its last check, or nil.
func (q *queue) idleStripe(s *stripe) *stripe {
	const most = 8 // stripes to check
	n := uint32(len(q.stripes))
	first := s.searchFrom.Load()
	for i := range min(most, n) {
		other := &q.stripes[(first+i)%n]
		if other == s || other.far.empty() && other.near.kept.n.Load() < minKept {
			continue
		}
		if armed := other.armed.Load(); other.seen.Swap(armed) == armed {
			s.searchFrom.Store(first + i)
			return other
		}
	}
	s.searchFrom.Store(first + most)
	return nil
}

// A pruning is the state of one call of worker.prune.
type pruning struct {
	worker *worker
	stripe *stripe // for what it keeps
	start  uint64  // the tick at which it began
	era    uint64  // the value of queue.era then

	list     segment  // the timeouts to keep, at most pruneEvery
	last     *Timeout // the end of the list; its link may still point at a timeout that is not on the list
	earliest uint64   // the earliest tick of them

	kept      bool   // some timeouts have been put back
	soonest   uint64 // the earliest tick of those
	rechecked int    // timeouts that were checked once more
	dropped   uint64 // timeouts dropped and not counted yet
}

// prune prunes what is new on a stripe, and some of what was kept before.
func (p *pruning) prune(s *stripe, idle bool) {
	nearKept, farKept := s.near.kept.n.Load(), s.far.kept.n.Load() // before this call adds some
	p.sift(s.near.pushed.take(), p.start)
	p.keep()
	p.sift(s.takePushed(), p.start)
	p.keep() // apart, because the others have been kept for longer
	if nearKept >= minKept {
		p.recheck(&s.near.kept, nearKept)
	}
	if idle || farKept >= minKept || s.far.kept.oldest().checked+1 < p.start {
		p.recheck(&s.far.kept, farKept)
	}
}

// recheck prunes what was checked first, unless it would find nothing to drop and nothing to move to the near lane.
func (p *pruning) recheck(l *segments, kept int64) {
	first := l.oldest()
	if first.n == 0 || p.era%2 != 0 && first.era == p.era && first.since+p.worker.queue.age > p.start {
		return
	}
	for seg := range l.popSome(min(kept, maxRechecked)) {
		p.rechecked += seg.n
		p.sift(seg.first, seg.since)
	}
	p.keep()
}

// sift drops the canceled timeouts of a list and keeps the others. It writes few links: during a GC, each costs 20 ns.
func (p *pruning) sift(list *Timeout, since uint64) {
	for to := list; to != nil; {
		next, word := to.link, to.word.Load()
		if word&laned == 0 {
			to.panicOverwritten()
		}
		if word&(statusMask|queued|fresh) == canceled|fresh {
			to.link = nil
			if to.word.CompareAndSwap(word, word&^laned) { // to is no longer ours from here
				p.dropped++
				to = next
				continue
			}
			to.link, word = next, to.word.Load()
		}
		tick := tickOf(word)
		if word&(queued|fresh) != fresh {
			tick = p.start + 1 // it was hurried: the worker must unlink it soon
		}
		p.list.since, p.earliest = max(p.list.since, since), min(p.earliest, tick)
		if p.last == nil {
			p.list.first = to
		} else if p.last.link != to {
			p.last.link = to
		}
		p.last = to
		if p.list.n++; p.list.n == pruneEvery {
			p.keep()
		}
		to = next
	}
}

// keep puts the list of timeouts to keep back, as one segment.
func (p *pruning) keep() {
	if p.list.n == 0 {
		return
	}
	if p.last.link != nil {
		p.last.link = nil
	}
	s, q, seg := p.stripe, p.worker.queue, p.list
	seg.checked, seg.era, seg.near = p.start, p.era, q.nearAt(p.earliest)
	if p.start >= seg.since+q.age || p.worker.isNear(p.earliest) {
		s.near.kept.push(&seg) // the worker takes it soon
	} else {
		s.keepFar(&seg)
	}
	p.kept, p.soonest = true, min(p.soonest, p.earliest)
	p.list, p.last, p.earliest = segment{}, nil, ticks.Never
}

// callWorker makes sure that the worker comes for the timeouts that were put back. Meanwhile it may have gone to rest,
// or have taken the near ones at the boundary at which one was due.
func (p *pruning) callWorker() {
	if !p.kept {
		return
	}
	w := p.worker
	w.summon(p.soonest)
	if now := w.clock.Now(); now > p.start && w.isNear(p.soonest) || now >= p.soonest {
		w.nudge()
	}
}

const overdue = 12 * time.Millisecond // longer than an alarm waits for the end of one time slice

// giveWay yields the processor if a round is overdue, see package yield. Called by producers, after pruning.
func (w *worker) giveWay() {
	state, now := w.state.Load(), w.clock.Elapsed()
	if !w.yielding.Yields(now, w.isOverdue(now, state)) {
		return
	}
	if state > halted {
		w.clock.Check()
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
