package hashedwheel

import "github.com/hashedwheel/hashedwheel/internal/ticks"

// Pruning
//
// One worker processes some ten million timeouts a second. Producers on many processors arm and cancel more
// than that, so they do a part of its work. After every pruneEvery timeouts armed on a stripe, the goroutine
// that armed the last of them prunes the stripe. It takes the stack, drops the timeouts that have been
// canceled meanwhile, and keeps the others. It has armed most of them itself and still has them in its cache.
//
//	        take                      push, at the end
//	stack --------> sift --------------------------------> kept
//	                 ^ |  canceled: drop                     |
//	                 | v                                     |
//	                 +---------------------------------------+
//	                   pop: those kept first
//
// The goroutine also rechecks kept timeouts, two for each timeout armed. So a stripe keeps at most twice as
// many as are pending there. Proof: let n be the number kept, and p the largest number pending at once. While
// all n are checked once, n/2 more are armed. Of the n at most p are left, so at most p + n/2 are kept then.
//
// Each timeout is checked at most three times on average. A stripe that keeps few is not rechecked. The goroutine also
// prunes another stripe, if it finds one that no goroutine uses any more. The worker and Stop take the stack
// and all kept timeouts.
//
// The rules:
//
//   - A list belongs to the goroutine that took it, until that goroutine has pushed what it keeps.
//     Meanwhile neither the worker nor Stop can find the timeouts on it. Therefore pruning is done inside
//     the gate. A pruning that has put timeouts back summons the worker. It wakes the worker at once if a
//     boundary has gone by meanwhile, or if one of these timeouts is already due.
//   - Only timeouts that the worker has never taken are pushed on this stack. Any other may lie in a bucket
//     or on the list of a crew, and only the worker can remove it from there.
//   - A timeout is dropped by a compare-and-swap from the canceled word to the same word with the queued
//     bit clear. A Reset before that finds the bit set and does not push. It makes the compare-and-swap
//     fail, so the timeout stays on the queue. A Reset after that finds the bit clear, and pushes.
//   - Any number of goroutines may prune a stripe at the same time. None holds a lock while it checks
//     timeouts. A goroutine that loses its processor meanwhile delays only the timeouts that it has taken.

const (
	// pruneEvery is the number of timeouts armed on a stripe from one pruning to the next. So many
	// timeouts take 12 KB, which fits the first-level cache of a processor.
	pruneEvery = 1 << 8

	// maxRechecked bounds how many kept timeouts a pruning rechecks, except that it finishes the last segment.
	// Checking so many takes some 10 microseconds. With r*pruneEvery instead of 2*pruneEvery, a stripe would
	// keep up to r/(r-1) times as many timeouts as are pending, and ever more if r is 1.
	maxRechecked = 2 * pruneEvery

	// minKept is the least number of kept timeouts for which rechecking a stripe in use is worth its cost.
	// Fewer take little memory, and arming one again needs no push while it is still on the queue.
	minKept = 8 * pruneEvery
)

// prune drops canceled timeouts from a stripe, as many as are worth the cost now. It also drops some from
// another stripe, if it finds one that no goroutine uses any more. Called without a lock.
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

// idleStripe returns a stripe other than s that keeps at least pruneEvery timeouts, and on which none has
// been armed since idleStripe last checked it. It returns nil if it finds none. If such a stripe were not
// pruned, its canceled timeouts would stay there until the worker takes the queue.
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

// prune prunes one stripe. It rechecks timeouts only if at least atLeast are kept. If it leaves very many, it
// wakes the worker, so that the worker does not find too many of them at the next tick. Called inside the
// gate.
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

// sift goes through a list that was taken from a stripe, drops the canceled timeouts, and appends the others
// to the list to keep. It writes links only around a timeout that it drops, and between segments, because
// each pointer written while a garbage collection is in progress costs some 20 ns.
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

// keep pushes the list of timeouts to keep as one segment, on the stripe from which they were taken.
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

// callWorker makes sure that the worker comes for the timeouts that were put back. While a timeout was off the
// queue, the worker may have gone idle, or may have taken the queue at the boundary at which the timeout
// was due. After sift has checked a timeout, a Reset may also make it due earlier, but never before the
// first boundary after start.
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
