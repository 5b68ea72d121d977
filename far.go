package hashedwheel

import (
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Far timeouts
//
// Most timeouts are canceled long before they are due. So while producers arm very many, the worker leaves them what
// is due later than nearTime: placing them, and removing them soon after, would make its rounds long. A segment
// has the tick at which its first timeout becomes near: then the worker takes it. The stripe has the earliest tick of
// its segments, and that of what is fresh, so most rounds need not look further. Producers put what has become near, or
// what they have kept for keepTime, into the near lane: timeouts that live long are cheaper on the wheel. When producers
// pause, the worker takes all.
//
//  - A timeout that is pushed, or put back, lowers the tick of its stripe after that. Who takes the timeouts raises it
//    before. So the tick is never too late, except after a Reset to an earlier tick, which cannot tell where its timeout
//    lies.
//  - Such a Reset changes the word, then lowers queue.soonest. At that tick the worker raises it, counts a sweep, and
//    takes all. If a producer has the timeout at that time, it finds a new sweep after it has put the timeout back.
//    Then it has the worker take all of the stripe.
//  - A producer that is preempted while it prunes keeps its timeouts from the worker. They are far: none is late if it
//    goes on within nearTime. Near ones that it finds go to the near lane, which is pruned only if it is long.
//  - A canceled timeout is dropped by the second boundary if producers pause, and otherwise when they have armed as
//    many as are pending: by then they have checked all that are kept. On stripes that no goroutine uses any more, it may
//    take three times as many. After they have armed for long without a pause, one of less than maxUnwatched may not
//    count, because each round that has nothing else to do may come to wait for a processor.

const (
	nearTime = 250 * time.Millisecond // longer than a goroutine usually waits for a busy processor
	keepTime = 500 * time.Millisecond // how long producers keep a timeout

	pauseTime    = 5 * time.Microsecond  // producers that arm one in this time pause; the worker could take 50
	maxUnwatched = 20 * time.Millisecond // the longest time between two checks whether producers pause
)

// init makes n stripes, a power of two.
func (q *queue) init(tick time.Duration, n int) {
	q.stripes, q.seats = make([]stripe, n), allSeats[:]
	for i := range q.stripes {
		q.stripes[i].freshBy.Store(ticks.Never)
		q.stripes[i].keptBy.Store(ticks.Never)
	}
	q.horizon = max(uint64(nearTime/tick), 2)
	q.age = max(uint64(keepTime/tick), 2)
	q.soonest.Store(ticks.Never)
}

// nearAt returns a tick at which a timeout that is due at tick is near.
func (q *queue) nearAt(tick uint64) uint64 { return tick - min(tick, q.horizon) }

// lower makes x no more than tick, and reports whether it was more.
func lower(x *atomic.Uint64, tick uint64) bool {
	for old := x.Load(); tick < old; old = x.Load() {
		if x.CompareAndSwap(old, tick) {
			return true
		}
	}
	return false
}

// sweep reports whether the worker must take all timeouts at tick now, because a Reset has made one near.
func (q *queue) sweep(now uint64) bool {
	if q.soonest.Load() > now {
		return false
	}
	q.soonest.Store(ticks.Never)
	q.sweeps.Add(1)
	return true
}

// calm is like empty, except that it does not count far timeouts that the worker need not take at tick now.
func (q *queue) calm(now uint64) bool {
	if q.soonest.Load() <= now {
		return false
	}
	for i := range q.stripes {
		s := &q.stripes[i]
		if s.known.head.Load() != nil || !s.near.empty() || min(s.freshBy.Load(), s.keptBy.Load()) <= now && !s.far.empty() {
			return false
		}
	}
	return true
}

// A pace measures how fast producers arm timeouts.
type pace struct {
	at    time.Duration // the time of the last measurement
	armed uint64        // how many had been armed by then
	fast  time.Duration // for how long they have not paused; 0 if they pause
}

// pause reports whether producers pause.
func (p *pace) pause(elapsed time.Duration, armed uint64, tick time.Duration) bool {
	if spent := elapsed - p.at; spent >= p.least(tick)*3/4 {
		if time.Duration(armed-p.armed)*pauseTime > spent {
			p.fast += spent
		} else {
			p.fast = 0
		}
		p.at, p.armed = elapsed, armed
	}
	return p.fast == 0
}

// least returns the time after which the pace should be measured again.
func (p *pace) least(tick time.Duration) time.Duration {
	return max(min(tick, maxWaiting), min(p.fast/4, maxUnwatched))
}

// keepFar puts a segment in the far lane.
func (s *stripe) keepFar(seg *segment) {
	s.far.kept.push(seg)
	lower(&s.keptBy, seg.by)
}

// takeFar takes what is fresh in the far lane.
func (s *stripe) takeFar() *Timeout {
	change(&s.freshBy, ticks.Never)
	return s.far.fresh.take()
}

// drain takes timeouts off the queue and settles them: the near ones, or all of them if producers pause, or if a Reset
// has made one near.
func (w *worker) drain() {
	w.settled = 0
	w.sweeping = w.queue.sweep(w.wheel.now)
	armed := w.queue.armed()
	w.pausing = w.pace.pause(w.clock.Elapsed(), armed, w.clock.Tick)
	w.armed = armed
	for i := range w.queue.stripes {
		s := &w.queue.stripes[i]
		w.settleAll(s.known.take())
		w.takeNear(&s.near)
		w.takeFar(s)
	}
	w.taken.Add(uint64(w.settled % checkEvery))
	w.handOver()
}

// takeNear settles all timeouts of a near lane.
func (w *worker) takeNear(l *lane) {
	w.settleAll(l.fresh.take())
	for left := l.kept.n.Load(); left > 0; {
		seg := l.kept.pop()
		if seg == nil { // producers have taken the rest
			break
		}
		left -= int64(seg.n)
		w.settleAll(seg.first)
	}
}

// takeFar settles the timeouts of a far lane that have become near, or all of them.
func (w *worker) takeFar(s *stripe) {
	if w.takesAll() || s.freshBy.Load() <= w.wheel.now {
		w.settleAll(s.takeFar())
	}
	if !w.takesAll() && s.keptBy.Load() > w.wheel.now {
		return
	}
	all := s.keptBy.Swap(ticks.Never) == 0
	for left := s.far.kept.n.Load(); left > 0; {
		seg := s.far.kept.pop()
		if seg == nil {
			break
		}
		left -= int64(seg.n)
		if all || w.takesAll() || seg.by <= w.wheel.now {
			w.settleAll(seg.first)
		} else {
			s.keepFar(seg)
		}
	}
}

func (w *worker) takesAll() bool { return w.sweeping || w.pausing }

// settleAll settles the timeouts of a list. It does not delay due ticks. If Stop has halted the worker, it leaves the
// timeouts to Stop, which would only take them out of their buckets again.
func (w *worker) settleAll(list *Timeout) {
	for list != nil {
		if w.settled%checkEvery == 0 && w.state.Load() == halted {
			w.unsettled = append(w.unsettled, list)
			return
		}
		var to *Timeout
		to, list = unlink(list)
		w.settle(to)
		if w.settled++; w.settled%checkEvery == 0 {
			w.taken.Add(checkEvery)
			w.turn()
			w.settleNew()
			w.shown.show(w.wheel)
			if armed := w.queue.armed(); armed-w.armed > uint64(w.settled)/resumed {
				w.pausing = false // producers have not paused, or go on
			}
		}
	}
}

// settleNew settles near timeouts that were pushed during this round, which may take long.
func (w *worker) settleNew() {
	for i := range w.queue.stripes {
		s := &w.queue.stripes[i]
		for _, st := range [2]*stack{&s.known, &s.near.fresh} {
			n := uint64(0)
			for list := st.take(); list != nil; n++ {
				var to *Timeout
				to, list = unlink(list)
				w.settle(to)
			}
			w.taken.Add(n)
		}
	}
}
