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
// when there are half as many more as the last one has left. So each timeout is looked at a constant
// number of times on average, and a stripe holds at most some three times what is pending of it. The
// goroutine also looks after a stripe that others have left. The worker, and Stop, take the stack and both
// sides.
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

// prune drops what has been canceled on a stripe, as far as that is worth it now, and on another one that
// nobody uses any more. Called without a lock.
func (t *Timer) prune(s *stripe) {
	defer t.leave(s)
	if !t.enter(s) {
		return
	}
	p := pruning{timer: t, start: t.clock.now(), earliest: neverTick}
	p.sift(s.fresh.take())
	p.keep(s)
	p.pass(s, max(s.next.Load(), minPass), maxLook)
	if other := t.idleStripe(s); other != nil {
		p.pass(other, 1, 2*pruneEvery) // twice as many as this goroutine may leave behind itself
	}
	p.callWorker()
}

// idleStripe returns a stripe on which something has been kept, and on which no new timeout has been pushed
// since it was asked last; nil if it finds none. What has been canceled there would lie until the worker
// comes by.
func (t *Timer) idleStripe(s *stripe) *stripe {
	const most = 8 // to be asked
	n := uint32(len(t.queue.stripes))
	if n == 1 {
		return nil
	}
	first := s.other.Load()
	for i := range uint32(most) {
		other := &t.queue.stripes[(first+i)%n]
		if other == s || other.kept[0].size()+other.kept[1].size() < pruneEvery {
			continue
		}
		if armed := other.armed.Load(); other.seen.Swap(armed) == armed {
			s.other.Store(first + i)
			return other
		}
	}
	s.other.Store(first + most)
	return nil
}

// A pruning is what one goroutine is about.
type pruning struct {
	timer *Timer
	start uint64 // the tick at which it began

	first    *Timeout // those to be kept, linked
	last     *Timeout // the last of them, whose link may be left over
	n        int
	earliest uint64 // none of them, nor of those kept, was due before, when it was looked at
	kept     bool   // some have been
	dropped  uint64 // from the present stripe
}

// pass looks through some of what a stripe has kept, if a pass is going on, or if there is enough for one
// to begin.
func (p *pruning) pass(s *stripe, enough int64, most int) {
	looked, more := 0, true
	for more && looked < most {
		seg := s.nextToLook(enough)
		if seg == nil {
			break
		}
		more = seg.below != nil
		looked += p.sift(seg.first)
		if p.n >= pruneEvery/2 {
			p.keep(s)
		}
	}
	p.keep(s)
	if !more {
		p.endPass(s)
	}
}

// nextToLook takes the next segment of the pass that goes on, or of one that begins because enough is kept, off
// the stripe. It returns nil if there is no pass.
func (s *stripe) nextToLook(enough int64) *segment {
	phase := s.phase.Load()
	if seg := s.kept[phase%2].pop(); seg != nil {
		return seg
	}
	if int64(s.kept[1-phase%2].size()) < enough || !s.phase.CompareAndSwap(phase, phase+1) {
		return nil
	}
	return s.kept[1-phase%2].pop()
}

// endPass says when to begin the next pass.
func (p *pruning) endPass(s *stripe) {
	n := s.kept[1-s.phase.Load()%2].size()
	s.next.Store(int64(n + n/2))
	if n >= max(worthPlacing/len(p.timer.queue.stripes), minPass) {
		p.timer.worker.nudge()
	}
}

// sift goes through a list, drops what has been canceled, and appends the others to those to be kept. It
// returns how many it has looked at. It writes a link only next to one that it drops, because each pointer
// that is written while a garbage collection is going on costs some 20 ns.
func (p *pruning) sift(list *Timeout) (looked int) {
	for to := list; to != nil; looked++ {
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
	return looked
}

// keep puts those to be kept on the stripe that they came from.
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

// callWorker calls the worker, if something has been kept. While it was in hand the worker may have gone to
// rest, or have looked at the queue at a boundary at which it was due. It may also have been reset to
// earlier after it was looked at, but then to a boundary after start.
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
