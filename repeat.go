package hashedwheel

import (
	"runtime/debug"
	"time"
)

// A repeating is the hook of a timeout that runs more than once. It holds the user's task, and says when
// the next run is due.
//
// After each run, the runner arms the timeout for the next one. While the timeout is at work, the fields
// belong to its runner. They pass to the next runner together with the word.
type repeating struct {
	wrap

	// Immutable.
	schedule Schedule      // nil: by period
	jitter   *jittered     // added to the times of the schedule; nil for none
	period   time.Duration // from one run to the next
	fromEnd  bool          // the period counts from the end of a run

	tick uint64        // the tick for which it was armed last
	due  time.Duration // at a fixed rate: the exact time of that run, counted from New
	at   time.Time     // by a schedule: the time that it returned for that run, without jitter
}

// claim leaves the timeout pending, and puts it at work. If the timeout was reset since it was armed, the
// further runs count from the tick that it was moved to.
func (r *repeating) claim(to *Timeout, word uint64) (claimed uint64) {
	claimed = word&^moved | atWork
	if !to.word.CompareAndSwap(word, claimed) { // the fields are the runner's from here
		return 0
	}
	if word&moved != 0 {
		c := &to.timer.clock
		r.due = c.boundary(tickOf(word))
		r.at = c.timeOf(tickOf(word), r.at.Location())
	}
	return claimed
}

// ran arms the timeout for its next run, unless it has been canceled, or its schedule has ended.
func (r *repeating) ran(to *Timeout) (again bool) {
	more := false
	defer func() {
		for ok := false; !ok; {
			again, ok = r.rearm(to, more)
		}
	}()
	if word := to.word.Load(); word&moved != 0 || status(word) != pending {
		more = true // if it is not canceled, it has been reset
		return
	}
	more = r.ask(to)
	return
}

// ask is next, except that it recovers a panic of the schedule: then there are no more runs.
func (r *repeating) ask(to *Timeout) (more bool) {
	defer func() {
		if value := recover(); value != nil {
			to.timer.reportPanic(to, value, debug.Stack())
		}
	}()
	return r.next(&to.timer.clock)
}

// next computes when the next run is due, and reports whether there is one.
func (r *repeating) next(c *clock) (more bool) {
	switch {
	case r.schedule != nil:
		return r.nextScheduled(c)
	case r.fromEnd:
		r.tick = c.due(c.elapsed(), r.period)
	default:
		r.due += r.period
		r.tick = c.at(r.due)
	}
	return true
}

// nextScheduled asks the schedule for the time after the one that it returned last, not after the present
// time. A run may be late. By the wall clock it may even be early, if that clock has been set back
// meanwhile. The schedule must not repeat or skip a run in either case.
func (r *repeating) nextScheduled(c *clock) (more bool) {
	next := r.schedule.Next(r.at)
	if next.IsZero() {
		return false
	}
	delay := time.Until(r.jitter.apply(next, r.at))
	r.tick = c.due(c.elapsed(), delay)
	r.at = next
	if delay <= 0 {
		// The schedule continues from this tick. Otherwise the task would run at each tick after a
		// long stall, until it had made up for all the runs it missed.
		r.at = c.timeOf(r.tick, next.Location())
	}
	return true
}

// rearm arms a timeout at work for its next run, or ends it, as its word and more say. Again reports whether that run
// is already due. Ok reports whether the word was still the same: if not, the caller has to try again.
func (r *repeating) rearm(to *Timeout, more bool) (again, ok bool) {
	t := to.timer
	s := t.queue.stripe()
	word := to.word.Load()
	after := word &^ (atWork | moved)
	if status(word) != pending {
		return false, to.word.CompareAndSwap(word, after)
	}
	tick := r.tick
	switch {
	case word&moved != 0:
		tick = tickOf(word)
	case !more:
		if !to.word.CompareAndSwap(word, withStatus(after, expired)) {
			return false, false
		}
		s.rearmed.Add(^uint64(0)) // because there is no next run
		t.freeSlot()
		to.hook().disarmed(to, false) // the outermost hook, which may be wrapped around this one
		return false, true
	}
	if !t.enter(s) {
		t.leave(s)
		<-t.allTaken // Stop finds the timeout with its runner
		return false, false
	}
	defer t.leave(s)
	next := pendingAt(after, tick) | word&moved
	if word&queued == 0 && tick <= t.clock.now() {
		return true, to.word.CompareAndSwap(word, next)
	}
	ok = to.word.CompareAndSwap(word, next|queued)
	if ok && word&queued == 0 {
		t.pushAgain(s, to)
	}
	return false, ok
}
