package hashedwheel

import (
	"runtime/debug"
	"time"
)

// A repeating is what a timeout that runs more than once has for a task: the user's task, and
// when it is to run next.
//
// The timeout is armed for one run after the other, by the runner that has run it. While it is
// at work the fields belong to that runner, and pass on to the next one with its word.
type repeating struct {
	// Immutable.
	task     Task
	schedule Schedule      // nil: by period
	jitter   float64       // added to what the schedule says, see Jitter
	period   time.Duration // from run to run, or
	fromEnd  bool          // from the end of a run to the next

	tick uint64        // for which it was armed last
	due  time.Duration // at a fixed rate: when exactly that was, counted from New
	at   time.Time     // by a schedule: the same, in its own terms and without jitter
}

// repeating returns nil for a timeout that runs once.
func (to *Timeout) repeating() *repeating {
	task := to.task
	if m, ok := task.(*member); ok {
		task = m.task
	}
	r, _ := task.(*repeating)
	return r
}

// Run runs the user's task.
func (r *repeating) Run(to *Timeout) { r.task.Run(to) }

// begin takes note of a Reset since the timeout was armed: what follows is counted from the
// tick that it was moved to. Called by the runner that has claimed it.
func (r *repeating) begin(c *clock, tick uint64) {
	r.due = c.boundary(tick)
	r.at = c.timeOf(tick, r.at.Location())
}

// runEnded arms the timeout for its next run when one is over, unless it has been canceled, or
// its schedule has ended. Called by the runner.
func (r *repeating) runEnded(to *Timeout, rn *runner) {
	more := false
	defer func() {
		for !r.rearm(to, rn, more) {
		}
		rn.runners.atWork.Add(-1)
		if status(to.word.Load()) != pending {
			to.timer.worker.summon() // it may have stayed for this timeout alone, see rest
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
	delay := time.Until(late(next, r.at, r.jitter))
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
// that one. It needs none of what the user could have changed.
func (r *repeating) rearm(to *Timeout, rn *runner, more bool) bool {
	t := to.timer
	s := t.queue.stripe(to)
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
		t.willEnd()
		if !to.word.CompareAndSwap(word, withStatus(idle, expired)) {
			t.wontEnd()
			return false
		}
		s.rearmed.Add(^uint64(0)) // for there is no next run
		t.freeSlot()
		t.leaveGroup(to)
		return true
	}

	defer t.leave(s)
	if !t.enter(s) {
		if !to.word.CompareAndSwap(word, idle) {
			return false
		}
		rn.runners.leaveToStop(to) // not before, or the worker might sweep it out as at work
		return true
	}
	next := pendingAt(word&queued, tick) | word&moved
	if now := t.clock.now(); tick <= now {
		// It has missed its time, and need not wait for the worker.
		if !to.word.CompareAndSwap(word, next) {
			return false
		}
		rn.again(to, now)
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

// again accepts a timeout that is due once more, behind all others that wait. The runner comes
// for it when it has done with its own batch, unless somebody else does. Called inside the gate.
func (rn *runner) again(to *Timeout, tick uint64) {
	r := rn.runners
	r.mu.Lock()
	defer r.mu.Unlock()
	if status(to.word.Load()) != pending {
		return // canceled, and the worker may have swept it out already
	}
	b := r.spareBatch()
	b.due, b.tick, b.own = append(b.due, to), tick, r.bounded() && isOwn(to)
	r.list(b)
	switch {
	case b.own:
		r.spawnOwn()
	case rn.work == nil: // the executor's does not come
		r.spawn(1)
	}
}
