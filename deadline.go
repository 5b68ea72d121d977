package hashedwheel

import "time"

// NewTimeoutAt is like NewTimeout, with a deadline instead of a delay. A deadline that has passed counts as
// a delay of zero. The result of time.Now has a monotonic reading, which Add keeps, and Round, UTC and In
// remove. For a deadline that has one, NewTimeoutAt does not read the clock, except when the timer sleeps,
// when the deadline seems to have passed, and once in 256 calls, to drop canceled timeouts.
//
// A deadline without a monotonic reading, such as one that was parsed or stored, is compared with the wall
// clock once, during the call. Setting the wall clock later has no effect.
func (t *Timer) NewTimeoutAt(task Task, deadline time.Time) (*Timeout, error) {
	prepared, bits := prepareTask(task)
	if prepared == nil {
		return nil, ErrNilTask
	}
	tick, ahead := t.clock.dueAt(deadline)
	if !ahead {
		tick = t.ahead(tick)
	}
	return t.newTimeout(prepared, bits, tick)
}

// ResetAt is like Reset, with a deadline instead of a delay. If the deadline has a monotonic reading,
// ResetAt seldom reads the clock. NewTimeoutAt says when, and what holds for other deadlines.
func (to *Timeout) ResetAt(deadline time.Time) (active bool, err error) {
	to.checkInit("ResetAt")
	t := to.timer
	tick, ahead := t.clock.dueAt(deadline)
	if word := to.word.Load(); status(word) == pending && t.visits(word, tick) {
		// The tick is not earlier than the old one, which lies ahead.
		to.checkCopy(word)
		if to.postpone(word, tick) {
			return true, nil
		}
	}
	if !ahead {
		tick = t.ahead(tick)
	}
	return to.reset(tick, false)
}

// ahead returns the tick if it lies ahead, and otherwise the next tick. It reads the clock only if the
// worker's position does not settle this.
func (t *Timer) ahead(tick uint64) uint64 {
	if position := t.position.Load(); position&attending == 0 || tick <= position>>1 {
		tick = max(tick, t.clock.dueIn(0))
	}
	return tick
}
