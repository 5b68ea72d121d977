package hashedwheel

import "sync/atomic"

// Pruning
//
// One worker processes some ten million timeouts a second. Producers on many processors arm and
// cancel more than that. So they do a part of its work: after every pruneEvery timeouts armed on a
// stripe, the goroutine that armed the last of them prunes the stripe. It takes the stack, drops the
// timeouts that have been canceled meanwhile, and keeps the others as a segment. It has armed most of
// them itself and still has them in its cache.
//
//	          pruning: take                    push
//	stack ---------------------> sift ------------------> kept[1 - phase]
//	                              ^ |  canceled: drop           |
//	                              | v                           |
//	            kept[phase] ------+       phase++, when kept[phase] is empty and
//	                        pop           kept[1 - phase] has grown by half
//
// Later prunings check the segments again, a few each time, and move the rest to the other side. Such a
// pass over all segments begins when the stripe keeps one and a half times as many timeouts as the last
// pass has left. So each timeout is checked a constant number of times on average. A stripe holds at most
// some three times as many timeouts as are pending on it. A pruning also checks another stripe,
// if it finds one that no goroutine uses any more. The worker and Stop take the stack and both sides.
//
// The rules:
//
//   - A list belongs to the goroutine that took it, until that goroutine has pushed what it keeps.
//     Meanwhile neither the worker nor Stop can find the timeouts on it. Therefore pruning is done inside
//     the gate. A pruning that has put timeouts back summons the worker. It wakes the worker at once if a
//     boundary has gone by meanwhile, or if one of these timeouts is already due.
//   - Only timeouts that the worker has never taken are pushed on this stack. Any other may lie in a bucket
//     or in a batch, and only the worker can remove it from there.
//   - A timeout is dropped by a compare-and-swap from the canceled word to the same word with the queued
//     bit clear. A Reset before that finds the bit set and does not push. It makes the compare-and-swap
//     fail, so the timeout stays on the queue. A Reset after that finds the bit clear, and pushes.
//   - No lock is held, and any number of goroutines may prune a stripe at the same time. A goroutine that
//     loses its processor meanwhile delays a few segments, not the stripe.

const (
	// pruneEvery is the number of timeouts armed on a stripe from one pruning to the next. So many
	// timeouts take 12 KB, which fits the first-level cache of a processor.
	pruneEvery = 1 << 8

	// maxChecked bounds how many kept timeouts a pruning checks, except that it finishes the last segment.
	// Checking so many takes some 20 microseconds. maxChecked must be well above pruneEvery, so that a pass
	// ends before many new timeouts are kept.
	maxChecked = 4 * pruneEvery

	// minPass is the least number of kept timeouts for which a pass is worth its cost.
	minPass = 8 * pruneEvery
)

// A segment is a list of timeouts that a producer has kept. It is immutable after it has been pushed. It
// is pushed only once, so that a stack of segments has no ABA problem either.
type segment struct {
	first *Timeout
	n     int      // timeouts in this segment
	size  int      // timeouts in this segment and in those below it
	below *segment // the next one on the stack
}

// segments is a stack of segments.
type segments struct{ top atomic.Pointer[segment] }

// size returns the number of timeouts in all segments.
func (st *segments) size() int { return st.top.Load().total() }

func (seg *segment) total() int {
	if seg == nil {
		return 0
	}
	return seg.size
}

// push pushes a segment, which must be new.
func (st *segments) push(seg *segment) {
	for {
		seg.below = st.top.Load()
		seg.size = seg.n + seg.below.total()
		if st.top.CompareAndSwap(seg.below, seg) {
			return
		}
	}
}

// pop takes the uppermost segment, and returns nil if there is none.
func (st *segments) pop() *segment {
	for {
		seg := st.top.Load()
		if seg == nil || st.top.CompareAndSwap(seg, seg.below) {
			return seg
		}
	}
}

// take takes all segments and returns the uppermost.
func (st *segments) take() *segment {
	if st.top.Load() == nil {
		return nil
	}
	return st.top.Swap(nil)
}

// prune drops canceled timeouts from a stripe, as many as are worth the cost now. It also drops some from
// another stripe, if it finds one that no goroutine uses any more. Called without a lock.
func (t *Timer) prune(s *stripe) {
	defer t.leave(s)
	if !t.enter(s) {
		return
	}
	p := pruning{timer: t, start: t.clock.now(), earliest: neverTick}
	p.sift(s.fresh.take())
	p.keep(s)
	p.pass(s, max(s.next.Load(), minPass), maxChecked)
	if other := t.idleStripe(s); other != nil {
		p.pass(other, 1, 2*pruneEvery) // twice as many as are armed on a stripe between two prunings
	}
	p.callWorker()
}

// idleStripe returns a stripe other than s that keeps at least pruneEvery timeouts, and on which none has
// been armed since idleStripe last checked it. It returns nil if it finds none. If such a stripe were not
// pruned, its canceled timeouts would stay there until the worker takes the queue.
func (t *Timer) idleStripe(s *stripe) *stripe {
	const most = 8 // stripes to check
	n := uint32(len(t.queue.stripes))
	if n == 1 {
		return nil
	}
	first := s.searchFrom.Load()
	for i := range uint32(most) {
		other := &t.queue.stripes[(first+i)%n]
		if other == s || other.kept[0].size()+other.kept[1].size() < pruneEvery {
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

// A pruning is the state of one call of prune.
type pruning struct {
	timer *Timer
	start uint64 // the tick at which it began

	first    *Timeout // a linked list of the timeouts to keep
	last     *Timeout // the end of the list; its link may still point at a timeout that is not on the list
	n        int      // the length of the list
	earliest uint64   // the earliest tick of the pending timeouts seen so far, including those put back
	kept     bool     // some timeouts have been put back
	dropped  uint64   // timeouts dropped from the current stripe and not counted there yet
}

// pass goes on with the current pass over the timeouts that a stripe keeps. If no pass is in progress, it
// begins one if at least minKept timeouts are kept. Most bounds how many timeouts it checks, except that it
// finishes the last segment.
func (p *pruning) pass(s *stripe, minKept int64, most int) {
	checked, more := 0, true
	for more && checked < most {
		seg := s.nextSegment(minKept)
		if seg == nil {
			break
		}
		more = seg.below != nil
		checked += p.sift(seg.first)
		if p.n >= pruneEvery/2 {
			p.keep(s)
		}
	}
	p.keep(s)
	if !more {
		p.endPass(s)
	}
}

// nextSegment takes the next segment of the current pass off the stripe. If no pass is in progress, it
// begins one if at least minKept timeouts are kept. It returns nil if there is no pass.
func (s *stripe) nextSegment(minKept int64) *segment {
	phase := s.phase.Load()
	if seg := s.kept[phase%2].pop(); seg != nil {
		return seg
	}
	if int64(s.kept[1-phase%2].size()) < minKept || !s.phase.CompareAndSwap(phase, phase+1) {
		return nil
	}
	return s.kept[1-phase%2].pop()
}

// endPass sets how many timeouts must be kept for the next pass to begin. If the pass has left very many, it
// also wakes the worker, so that the worker does not find too many of them at the next tick.
func (p *pruning) endPass(s *stripe) {
	n := s.kept[1-s.phase.Load()%2].size()
	s.next.Store(int64(n + n/2))
	if n >= max(worthPlacing/len(p.timer.queue.stripes), minPass) {
		p.timer.worker.nudge()
	}
}

// sift goes through a list, drops the canceled timeouts, and appends the others to the list to keep. It
// returns how many it has checked. It writes links only around a timeout that it drops, because each
// pointer written while a garbage collection is in progress costs some 20 ns.
func (p *pruning) sift(list *Timeout) (checked int) {
	for to := list; to != nil; checked++ {
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
		p.n++
		to = next
	}
	return checked
}

// keep pushes the list of timeouts to keep on the stripe that they came from, as one segment.
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
	s.kept[1-s.phase.Load()%2].push(&segment{first: p.first, n: p.n})
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
	w := &p.timer.worker
	w.summon()
	if now := p.timer.clock.now(); now > p.start || now >= p.earliest {
		w.nudge()
	}
}
