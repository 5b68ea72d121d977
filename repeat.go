package hashedwheel

import (
	"runtime/debug"
	"time"
)

// A repeating is the hook of a timeout that runs more than once: the user's task, and when it is to
// run next.
//
// The timeout is armed for one run after the other, by the runner that has run it. While it is
// at work the fields belong to that runner, and pass on to the next one with its word.
type repeating struct {
	wrap

	// Immutable.
	schedule Schedule      // nil: by period
	jitter   *jittered     // added to what the schedule says; nil for none
	period   time.Duration // from run to run, or
	fromEnd  bool          // from the end of a run to the next

	tick uint64        // for which it was armed last
	due  time.Duration // at a fixed rate: when exactly that was, counted from New
	at   time.Time     // by a schedule: the same, in its own terms and without jitter
}

// claim leaves the timeout pending, at work. After a Reset since it was armed, what follows is counted
// from the tick that it was moved to.
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
func (r *repeating) ran(to *Timeout) {
	more := false
	defer func() {
		for !r.rearm(to, more) {
		}
	}()
	if word := to.word.Load(); word&moved != 0 || status(word) != pending {
		more = true // if it is not canceled, it has been reset
		return
	}
	more = r.ask(to)
}

// ask is next, but survives a schedule that panics: then there are no more runs.
func (r *repeating) ask(to *Timeout) (more bool) {
	defer func() {
		if value := recover(); value != nil {
			to.timer.reportPanic(to, value, debug.Stack())
		}
	}()
	return r.next(&to.timer.clock)
}

// next works out when to run next, and reports whether to run again.
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

// nextScheduled asks the schedule for the time after the one that it gave last, not after the
// present one: a run may well be late, and by the wall clock even be early, if that has been set
// back meanwhile. Neither may make it repeat or skip one.
func (r *repeating) nextScheduled(c *clock) (more bool) {
	next := r.schedule.Next(r.at)
	if next.IsZero() {
		return false
	}
	delay := time.Until(r.jitter.delay(next, r.at))
	r.tick = c.due(c.elapsed(), delay)
	r.at = next
	if delay <= 0 {
		// It goes on from there, or after a long stall it would run at each tick until it
		// has made up for the time.
		r.at = c.timeOf(r.tick, next.Location())
	}
	return true
}

// rearm does for a timeout at work what its word says, and reports whether the word was still
// that one. It uses nothing that the user could have changed.
func (r *repeating) rearm(to *Timeout, more bool) bool {
	t := to.timer
	s := t.queue.stripe()
	word := to.word.Load()
	idle := word &^ (atWork | moved)
	if status(word) != pending {
		return to.word.CompareAndSwap(word, idle)
	}
	tick := r.tick
	switch {
	case word&moved != 0:
		tick = tickOf(word)
	case !more:
		if !to.word.CompareAndSwap(word, withStatus(idle, expired)) {
			return false
		}
		s.rearmed.Add(^uint64(0)) // because there is no next run
		t.freeSlot(s)
		to.hook().left(to, false) // the outermost, which may be around this one
		return true
	}
	if !t.enter(s) {
		t.leave(s)
		<-t.swept // Stop finds the timeout in what its runner is at
		return false
	}
	defer t.leave(s)
	next := pendingAt(idle, tick) | word&moved
	if now := t.clock.now(); tick <= now {
		// It has missed its time, and need not wait for the worker.
		if !to.word.CompareAndSwap(word, next) {
			return false
		}
		t.runnersOf(to).requeue(to, now)
		return true
	}
	if !to.word.CompareAndSwap(word, next|queued) {
		return false
	}
	if word&queued == 0 {
		t.pushAgain(s, to)
	}
	return true
}
