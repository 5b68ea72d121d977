package hashedwheel

import "sync/atomic"

// Pruning
//
// One worker takes care of some ten million timeouts a second. Producers on many processors arm and
// cancel more than that. So they do a part of its work: after every pruneEvery timeouts that were armed
// on a stripe, the goroutine that armed the last of them prunes the stripe. It takes the stack, drops
// the timeouts that have been canceled meanwhile, most of which it has armed itself and still has in its
// cache, and keeps the others as a segment.
//
//	          pruning: take                    push
//	stack ---------------------> sift ------------------> kept[1 - phase]
//	                              ^ |  canceled: drop           |
//	                              | v                           |
//	            kept[phase] ------+       phase++, when kept[phase] is empty and
//	                        pop           kept[1 - phase] has grown by half
//
// Segments are looked through again, a few each time, and change sides by that. Such a pass begins
// when there are half as many more as the last one has left, so each timeout is looked at a constant number of
// times on average, and what a stripe holds is at most some three times what is pending of it. The worker, and
// Stop, take the stack and both sides.
//
// Who may do what:
//
//   - The list belongs to the goroutine that took it, until it has pushed what it keeps. It may
//     be in hand while the worker looks for it, or while Stop does. Therefore pruning goes on inside
//     the gate, and calls the worker when it has put something back: at once if a boundary went by
//     meanwhile, or if something is due already.
//   - Only timeouts that the worker has never had are pushed on this stack. Any other may lie in a bucket or
//     in a batch, and from there the worker has to remove it.
//   - It is dropped by a compare-and-swap that clears the queued bit of exactly the word that says
//     canceled. So a Reset meanwhile, which finds the bit set and does not push, keeps it on the
//     queue; and one after that finds it clear, and pushes.
//   - No lock is held, and any number of goroutines may prune a stripe at the same time. One that the
//     machine stops meanwhile holds up a few segments, not the stripe.

const (
	// pruneEvery is the number of timeouts armed on a stripe from one pruning to the next: what
	// they take, 12 KB, stays in the cache nearest to the processor.
	pruneEvery = 1 << 8

	// maxLook is how many of those kept before a pruning looks at, but for one segment more: some
	// 20 microseconds. It must be larger than pruneEvery by so much that a pass ends before there are
	// many new ones.
	maxLook = 4 * pruneEvery

	// minPass is the number of those kept for which a pass is worth it.
	minPass = 8 * pruneEvery
)

// A segment is a list of timeouts that a producer has kept. It is immutable once it is pushed, and
// pushed once, so that segments have no ABA problem either.
type segment struct {
	first *Timeout
	n     int      // timeouts in it
	size  int      // timeouts in it and in those below
	below *segment // the stack of segments
}

// segments are a stack.
type segments struct{ top atomic.Pointer[segment] }

// size returns the number of timeouts in the segments.
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

// prune drops what has been canceled on a stripe, as far as that is worth it now.
func (t *Timer) prune(s *stripe) {
	defer t.leave(s)
	if !t.enter(s) {
		return
	}
	start := t.clock.now()
	p := pruning{stripe: s, earliest: neverTick}
	p.sift(s.fresh.take())
	p.keep()
	last := false
	for looked := p.looked; p.looked-looked < maxLook && !last; {
		seg := s.nextToLook()
		if seg == nil {
			break
		}
		last = seg.below == nil
		p.sift(seg.first)
		if p.n >= pruneEvery/2 {
			p.keep()
		}
	}
	p.putBack(t, start)
	if last {
		s.endPass(t)
	}
	s.dropped.Add(p.dropped)
}

// nextToLook takes the next segment of the pass that goes on, or of one that begins, off the stripe. It returns
// nil if there is no pass.
func (s *stripe) nextToLook() *segment {
	phase := s.phase.Load()
	if seg := s.kept[phase%2].pop(); seg != nil {
		return seg
	}
	n := int64(s.kept[1-phase%2].size())
	if n < max(s.next.Load(), minPass) || !s.phase.CompareAndSwap(phase, phase+1) {
		return nil
	}
	return s.kept[1-phase%2].pop()
}

// endPass says when to begin the next pass.
func (s *stripe) endPass(t *Timer) {
	n := s.kept[1-s.phase.Load()%2].size()
	s.next.Store(int64(n + n/2))
	if n >= worthPlacing {
		t.worker.nudge()
	}
}

// A pruning is what one goroutine is about.
type pruning struct {
	stripe *stripe

	first    *Timeout // those to be kept, linked
	last     *Timeout // the last of them, whose link may be left over
	n        int
	earliest uint64 // none of them, nor of those kept, was due before, when it was looked at
	kept     bool   // some have been
	looked   int
	dropped  uint64
}

// sift goes through a list, drops what has been canceled, and appends the others to those to be kept. It
// writes a link only next to one that it drops, because each pointer that is written while a garbage
// collection is going on costs some 20 ns.
func (p *pruning) sift(list *Timeout) {
	for to := list; to != nil; {
		p.looked++
		next, word := to.link, to.word.Load()
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
}

// putBack puts the rest of those to be kept on the stripe, and calls the worker. While they were in hand
// it may have gone to rest, or have looked at the queue at a boundary at which one of them was due. One may
// also have been reset to earlier after it was looked at, but only to a boundary after start, the tick at which
// the pruning began.
func (p *pruning) putBack(t *Timer, start uint64) {
	p.keep()
	if !p.kept {
		return
	}
	t.worker.summon()
	if now := t.clock.now(); now > start || now >= p.earliest {
		t.worker.nudge()
	}
}

// keep puts those to be kept on the stripe.
func (p *pruning) keep() {
	if p.n == 0 {
		return
	}
	if p.last.link != nil {
		p.last.link = nil
	}
	s := p.stripe
	s.kept[1-s.phase.Load()%2].push(&segment{first: p.first, n: p.n})
	p.first, p.last, p.n, p.kept = nil, nil, 0, true
}
