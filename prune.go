package hashedwheel

import "github.com/hashedwheel/hashedwheel/internal/ticks"

// Pruning
//
// One worker processes some ten million timeouts a second. Producers on many processors arm and cancel more than
// that, so they do a part of its work. After every pruneEvery timeouts armed on a stripe, the goroutine that armed
// the last takes the stack, drops the canceled timeouts, and keeps the others. Most are still in its cache.
//
//	        take                      push, at the end
//	stack --------> sift --------------------------------> kept
//	                 ^ |  canceled: drop                     |
//	                 | v                                     |
//	                 +---------------------------------------+
//	                   pop: those kept first
//
// If many are kept, it also rechecks two of them for each timeout armed. So a stripe keeps at most twice as many as
// are pending there. Proof: let n be the number kept, and p the most pending at once. While all n are checked once,
// n/2 more are armed. Of the n at most p are left, so at most p + n/2 are kept then. Stripes that no goroutine uses
// any more are pruned too. The worker and Stop take the stack and all kept timeouts.
//
//  - A list belongs to the goroutine that took it, until it has pushed what it keeps. The worker and Stop cannot find
//    these timeouts, so pruning is done inside the gate. If it puts timeouts back, it summons the worker. If a
//    boundary has gone by meanwhile, or one of the timeouts is already due, it also wakes the worker at once.
//  - Only timeouts that the worker has never taken are on this stack. Others may lie in a bucket or on a list, and
//    only the worker can remove them from there.
//  - A timeout is dropped by a compare-and-swap from the canceled word to the same word without the queued bit. A
//    Reset before that does not push, and makes it fail: the timeout stays on the queue. A Reset after that pushes.
//  - Any number of goroutines may prune a stripe at the same time. None holds a lock while it checks timeouts.

const (
	// pruneEvery is the number of timeouts armed on a stripe between prunings. They fit the first-level cache: 12 KB.
	pruneEvery = 1 << 8

	// maxRechecked bounds how many kept timeouts a pruning rechecks, except that it finishes the last segment. With
	// r*pruneEvery, a stripe keeps up to r/(r-1) times as many as are pending.
	maxRechecked = 2 * pruneEvery

	minKept = 8 * pruneEvery // rechecking fewer on a stripe in use is not worth its cost
)

// prune drops canceled timeouts from a stripe, and from one that no goroutine uses any more. The caller holds no lock
// of the timer.
func (w *worker) prune(s *stripe) {
	defer s.leave()
	if !w.queue.enter(s) {
		return
	}
	p := pruning{worker: w, start: w.clock.Now(), earliest: ticks.Never}
	p.prune(s, minKept)
	if other := w.queue.idleStripe(s); other != nil {
		p.prune(other, 1)
	}
	p.callWorker()
}

// idleStripe returns another stripe that keeps many timeouts and on which none was armed since its last check, or nil.
func (q *queue) idleStripe(s *stripe) *stripe {
	const most = 8 // stripes to check
	n := uint32(len(q.stripes))
	if n == 1 {
		return nil
	}
	first := s.searchFrom.Load()
	for i := range uint32(most) {
		other := &q.stripes[(first+i)%n]
		if other == s || other.kept.n.Load() < pruneEvery {
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
	start  uint64 // the tick at which it began

	first    *Timeout // a linked list of the timeouts to keep, at most pruneEvery
	last     *Timeout // the end of the list; its link may still point at a timeout that is not on the list
	n        int      // the length of the list
	earliest uint64   // the earliest tick of the pending timeouts seen so far, including those put back
	kept     bool     // some timeouts have been put back
	dropped  uint64   // timeouts dropped from the current stripe and not counted there yet
}

// prune prunes one stripe. It rechecks only if at least atLeast are kept. It wakes the worker if very many are left.
func (p *pruning) prune(s *stripe, atLeast int) {
	kept := int(s.kept.n.Load()) // before this call adds some
	p.sift(s, s.fresh.take())
	if kept >= atLeast {
		for left := min(kept, maxRechecked); left > 0; {
			seg := s.kept.pop()
			if seg == nil { // another goroutine has taken the rest
				break
			}
			left -= seg.n
			p.sift(s, seg.first)
		}
	}
	p.keep(s)
	if int(s.kept.n.Load()) >= 2*worthPlacing/len(p.worker.queue.stripes) { // half of them may be canceled
		p.worker.nudge()
	}
}

// sift drops the canceled timeouts of a list and keeps the others. It writes few links: during a GC, each costs 20 ns.
func (p *pruning) sift(s *stripe, list *Timeout) {
	for to := list; to != nil; {
		next, word := to.link, to.word.Load()
		if word&queued == 0 {
			panic(overwritten)
		}
		if status(word) == canceled {
			to.link = nil
			if to.word.CompareAndSwap(word, word&^queued) { // to is no longer ours from here
				p.dropped++
				to = next
				continue
			}
			to.link = next
		}
		if status(word) == pending {
			p.earliest = min(p.earliest, tickOf(word))
		}
		if p.last == nil {
			p.first = to
		} else if p.last.link != to {
			p.last.link = to
		}
		p.last = to
		if p.n++; p.n == pruneEvery {
			p.keep(s)
		}
		to = next
	}
}

// keep puts the list of timeouts to keep back on the stripe, as one segment.
func (p *pruning) keep(s *stripe) {
	if p.dropped > 0 {
		s.dropped.Add(p.dropped)
		p.dropped = 0
	}
	if p.n == 0 {
		return
	}
	if p.last.link != nil {
		p.last.link = nil
	}
	s.kept.push(&segment{first: p.first, n: p.n})
	p.first, p.last, p.n, p.kept = nil, nil, 0, true
}

// callWorker makes sure that the worker comes for the timeouts that were put back. Meanwhile the worker may have gone
// idle, or have taken the queue at the boundary at which one was due. A Reset may have made one due at tick start+1.
func (p *pruning) callWorker() {
	if !p.kept {
		return
	}
	w := p.worker
	w.summon()
	if now := w.clock.Now(); now > p.start || now >= p.earliest {
		w.nudge()
	}
}
