package hashedwheel

import "time"

// NewTimeoutAt is NewTimeout with a deadline instead of a delay. If the deadline has a monotonic reading,
// as what is computed from time.Now has, the clock is not read, except when the timer is idle, or when
// the deadline seems to have passed. A deadline that has passed counts as a delay of zero.
//
// A deadline without a monotonic reading, such as one that was parsed or stored, is compared with the
// wall clock once, now. Setting the wall clock later moves nothing.
func (t *Timer) NewTimeoutAt(task Task, deadline time.Time) (*Timeout, error) {
	adopted, bits := adopt(task)
	if adopted == nil {
		return nil, ErrNilTask
	}
	tick, ahead := t.clock.dueAt(deadline)
	if !ahead {
		tick = t.ahead(tick)
	}
	return t.newTimeout(adopted, bits, tick)
}

// ResetAt is Reset with a deadline instead of a delay. With a monotonic reading, as time.Now gives,
// the deadline spares the reading of the clock; see NewTimeoutAt for deadlines that have passed or
// that have no such reading.
func (to *Timeout) ResetAt(deadline time.Time) (active bool, err error) {
	to.checkInit("ResetAt")
	t := to.timer
	tick, ahead := t.clock.dueAt(deadline)
	if word := to.word.Load(); status(word) == pending && t.visits(word, tick) {
		// The tick need not lie ahead, because the old one is earlier and does.
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

// ahead returns the tick if it lies ahead, and the next one if it does not. It reads the clock only where
// the worker's position does not tell.
func (t *Timer) ahead(tick uint64) uint64 {
	if position := t.position.Load(); position&attending == 0 || tick <= position>>1 {
		tick = max(tick, t.clock.dueIn(0))
	}
	return tick
}
