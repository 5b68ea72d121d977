package hashedwheel

import (
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// Timeouts that are fields of the caller's structs are armed for the first time, or again in each state in
// which an ended timeout can be. Something else happens to them at the same time. Each arming ends exactly
// once.

// own returns an act whose timeout is a field of a struct. It is idle.
func (s *scene) own() *act {
	a := s.act()
	a.to = new(Timeout)
	s.timer.Bind(a.to, plainFunc(a.run))
	return a
}

// ownOnQueue returns an act whose timeout has been canceled and is still on the queue. The worker
// has never seen the timeout, and takes the queue in half a tick.
func (s *scene) ownOnQueue() *act {
	s.tickAway(2)
	s.pending(hour).cancel()
	synctest.Wait()
	a := s.own()
	a.reset(hour)
	a.cancel()
	return a
}

// ownKnown is like ownOnQueue, but the worker has put the timeout into a bucket before.
func (s *scene) ownKnown() *act {
	a, other := s.own(), s.pending(hour)
	a.reset(hour)
	s.tickAway(3)
	other.cancel()
	synctest.Wait() // the round that this has started is over, and the next one comes at the boundary
	a.cancel()
	return a
}

// ownGone returns an act whose timeout has expired, and is neither on the queue nor in a bucket. Nothing
// is pending.
func (s *scene) ownGone() *act {
	a := s.own()
	a.reset(0)
	s.tickAway(3)
	return a
}

// ownDropped is like ownOnQueue, but the hand has dropped the timeout.
func (s *scene) ownDropped() *act {
	a := s.ownOnQueue()
	s.handBefore(a.slot())
	s.pending(hour)
	require.False(s, onQueue(a.to.word.Load()))
	return a
}

// limited gives the timer a limit of pending timeouts.
func (s *scene) limited(n int) { s.timer.limit.max = int64(n) }

// resetAt resets the timeout to a deadline, given as the time since New.
func (a *act) resetAt(deadline time.Duration) {
	if active, err := a.to.ResetAt(a.s.timer.clock.Start.Add(deadline)); err == nil {
		a.noteAt(deadline, !active)
	}
}

// armAt arms the timeout for a deadline, given as the time since New.
func (a *act) armAt(deadline time.Duration) {
	a.to, a.err = a.s.timer.NewTimeoutAt(plainFunc(a.run), a.s.timer.clock.Start.Add(deadline))
	a.noteAt(deadline, a.err == nil)
}

func (a *act) noteAt(deadline time.Duration, armed bool) {
	a.from, a.until = deadline, boundary(max(a.s.now()+1, deadline))
	if armed {
		a.armed++
	}
}

// mustBeAhead notes that the timeout must not run before the first boundary after then. At that time it was
// armed, for a deadline that had passed.
func (a *act) mustBeAhead(then time.Duration) { a.from = boundary(then + 1) }

// resetsAt and moves add racers.
func (a *act) resetsAt(deadline time.Duration) *act {
	a.s.Go(func() { a.resetAt(deadline) })
	return a
}

func (a *act) moves(delay time.Duration) *act {
	a.s.Go(func() { a.move(delay) })
	return a
}

// raceToReset lets two racers arm the same timeout, with room for one timeout. Neither is refused, because the
// second racer finds the timeout pending.
func (s *scene) raceToReset(a *act) {
	refused := make([]error, 2)
	for i := range refused {
		s.Go(func() {
			from := s.now()
			active, err := a.to.Reset(hour)
			if refused[i] = err; err == nil {
				a.note(from, hour, !active)
			}
		})
	}
	s.race(0)
	require.Equal(s, make([]error, 2), refused)
}

// move moves the timeout if it is pending.
func (a *act) move(delay time.Duration) {
	from := a.s.now()
	if a.to.Move(delay) {
		a.note(from, delay, false)
	}
}

var _ = scenarios.Add(explore.Scenarios{
	// Two racers arm the timeout for the first time. Also with a limit of one, neither is refused.
	"OwnFirst":      search(timed.Quickly(1), timedAfter, func(s *scene) { s.tickAway(0); s.own().resets(0).resets(0); s.race(0) }),
	"OwnFirstLimit": search(timed.Quickly(2), timedAfter, func(s *scene) { s.limited(1); s.tickAway(0); s.raceToReset(s.own()) }),
	"OwnFirstCancel": search(timed.Quickly(3), timedAfter,
		func(s *scene) { s.tickAway(0); s.own().resets(0).cancels(); s.race(0) }),
	"OwnFirstMove": search(timed.Quickly(2), timedAfter, func(s *scene) { s.tickAway(0); s.own().resets(0).moves(0); s.race(0) }),
	"OwnFirstStop": search(timed.Quickly(2), timedAfter,
		func(s *scene) { s.tickAway(0); s.own().resets(0); s.stops(); s.race(0) }),

	// The timeout has ended, and is on the queue.
	"OwnQueuedStop": search(timed.Quickly(4), timedAfter, func(s *scene) { s.ownOnQueue().resets(hour); s.stops(); s.race(0) }),
	// The timeout is armed, canceled and armed again. After Stop an arming is refused.
	"OwnQueuedStopAgain": search(timed.Quickly(4), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(hour); a.cancel(); a.reset(0) })
		s.stops()
		s.race(0)
	}),
	"OwnQueuedTaken": search(timed.Quickly(3), timedAfter, func(s *scene) { s.ownOnQueue().resets(0); s.race(tick) }),
	"OwnQueuedTakenAgain": search(timed.Quickly(1), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0); a.cancel(); a.reset(tick) })
		s.race(tick)
	}),
	"OwnQueuedDrop": search(timed.Quickly(1), timedAfter, func(s *scene) { s.ownOnQueue().met(hour).resets(0); s.race(0) }),
	"OwnQueuedDropAgain": search(timed.Quickly(1), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		a.met(hour)
		s.Go(func() { a.reset(hour); a.cancel(); a.reset(0) })
		s.race(0)
	}),
	"OwnQueuedDropTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(4),
		func(s *scene) { s.ownOnQueue().met(hour).resets(0); s.race(tick) }),
	// The timeout is armed for a deadline that may have passed, while the hand drops it.
	"OwnQueuedDropDeadline": search(plain.Bounded(3).Quickly(2), timed.Bounded(4),
		func(s *scene) { a := s.ownOnQueue(); at := s.now() + tick/4; a.met(hour).resetsAt(at); s.race(tick) }),
	"OwnQueuedCancel": search(timed.Quickly(4), timedAfter, func(s *scene) { s.ownOnQueue().resets(0).cancels(); s.race(0) }),
	"OwnQueuedReset":  search(timed.Quickly(2), timedAfter, func(s *scene) { s.ownOnQueue().resets(0).resets(0); s.race(0) }),
	"OwnQueuedResetTaken": search(plain.Bounded(3), timed.Bounded(4),
		func(s *scene) { s.ownOnQueue().resets(0).resets(0); s.race(tick) }),
	"OwnQueuedResetLimit": search(timed.Quickly(4), timedAfter, func(s *scene) { s.limited(1); s.raceToReset(s.ownOnQueue()) }),

	// The timeout has ended, and is on the queue and in a bucket.
	"OwnKnownStop":  search(timed.Quickly(4), timedAfter, func(s *scene) { s.ownKnown().resets(hour); s.stops(); s.race(0) }),
	"OwnKnownTaken": search(timed.Quickly(4), timedAfter, func(s *scene) { s.ownKnown().resets(0); s.race(tick) }),
	"OwnKnownTakenAgain": search(timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.ownKnown()
		s.Go(func() { a.reset(0); a.cancel(); a.reset(tick) })
		s.race(tick)
	}),
	"OwnKnownReset": search(plain.Bounded(4), timed, func(s *scene) { s.ownKnown().resets(0).resets(0); s.race(tick) }),
	// The timeout is in a bucket and on the queue. It comes due, and the worker, which is late, hands it
	// over.
	"OwnExpiresQueued": search(twice.Quickly(1), twice, func(s *scene) {
		a := s.own()
		a.reset(4 * tick)
		s.tickAway(2)
		s.pending(hour)
		synctest.Wait()
		s.Go(func() { a.reset(0); a.reset(2 * tick) })
		s.race(0)
	}),

	// The timeout has ended, and is off the queue.
	"OwnGoneStop":   search(timed.Quickly(2), timedAfter, func(s *scene) { s.ownGone().resets(0); s.stops(); s.race(0) }),
	"OwnGoneCancel": search(timed.Quickly(4), timedAfter, func(s *scene) { s.ownGone().resets(0).cancels(); s.race(0) }),
	"OwnGoneReset":  search(timed.Quickly(2), timedAfter, func(s *scene) { s.ownGone().resets(0).resets(0); s.race(0) }),
	"OwnGoneResetLimit": search(timed.Quickly(2), timedAfter, func(s *scene) {
		s.limited(1)
		a := s.own()
		a.reset(hour)
		a.cancel()
		s.tickAway(3)
		s.raceToReset(a)
	}),
	// The timeout comes due, while one racer arms it again, and another cancels it and arms it again.
	"OwnExpires": search(plain.Quickly(3), timed, func(s *scene) {
		a := s.own()
		a.reset(0)
		s.tickAway(0)
		a.resets(0)
		s.Go(func() { a.cancel(); a.reset(0) })
		s.race(tick)
	}),
	"OwnDroppedArm":   search(timed.Quickly(2), timedAfter, func(s *scene) { s.ownDropped().resets(0); s.arms(0); s.race(0) }),
	"OwnDroppedTaken": search(timed.Quickly(3), timedAfter, func(s *scene) { s.ownDropped().resets(0); s.race(tick) }),
	"OwnDroppedReset": search(timed.Quickly(1), timedAfter, func(s *scene) { s.ownDropped().resets(0).resets(0); s.race(0) }),
	"OwnDroppedStop": search(timed.Quickly(3), timedAfter,
		func(s *scene) { a := s.ownDropped(); s.Go(func() { a.reset(0); a.cancel() }); s.stops(); s.race(0) }),

	// The worker publishes its present tick, while racers compare deadlines with it.

	// The worker comes to rest. The deadline has passed, or is less than a tick ahead.
	"DeadlineRestsPassed": search(timed.Quickly(2), twiceAfter,
		func(s *scene) { a := s.own(); s.pending(hour); s.tickAway(0); a.resetsAt(tick / 2); s.race(tick) }),
	"DeadlineRests": search(timed.Quickly(3), twiceAfter, func(s *scene) {
		a := s.own()
		s.pending(hour)
		s.tickAway(0)
		a.resetsAt(2*tick - tick/4)
		s.race(tick)
	}),
	"DeadlineRestsEarlier": search(timed.Quickly(3), twiceAfter, func(s *scene) {
		a := s.own()
		a.reset(hour)
		s.tickAway(0)
		a.resetsAt(2*tick - tick/4)
		s.race(tick)
	}),
	// The worker comes to rest, or a round starts.
	"DeadlineEnds": search(timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.act()
		s.pending(hour).cancel()
		s.tickAway(0)
		s.Go(func() { a.armAt(tick / 2) })
		s.race(tick)
	}),
	"DeadlineStarts": search(timed.Quickly(2), timedAfter, func(s *scene) {
		s.pending(0)
		s.tickAway(4)
		a, b := s.act(), s.act()
		s.Go(func() {
			then := s.now()
			a.armAt(3 * tick)
			a.mustBeAhead(then)
		})
		s.Go(func() { b.arm(hour) })
		s.race(0)
	}),
	// The worker rests, and rested when the deadline passed.
	"DeadlineRestingPassed": search(plain, plain, func(s *scene) {
		a := s.own()
		s.pending(hour)
		s.tickAway(5)
		s.Go(func() {
			then := s.now()
			a.resetAt(4 * tick)
			a.mustBeAhead(then)
		})
		s.race(0)
	}),

	// A round is due for a timeout that is moved to the next boundary, or to a later one.
	"DeadlineWakes": search(timed.Quickly(1), timed, func(s *scene) {
		a := s.own()
		a.reset(5 * tick)
		s.tickAway(4)
		a.resetsAt(6*tick - tick/4)
		s.race(tick)
	}),
	"DeadlineWakesLater": search(timed.Quickly(4), twiceAfter,
		func(s *scene) { a := s.own(); a.reset(5 * tick); s.tickAway(4); a.resetsAt(7 * tick); s.race(0) }),
	// A racer moves the timeout to later, and then to earlier.
	"DeadlineTwo": search(plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.own()
		a.reset(5 * tick)
		s.tickAway(4)
		s.Go(func() { a.resetAt(8 * tick); a.resetAt(7 * tick) })
		s.race(tick)
	}),
	"DeadlineCancel": search(plain.Bounded(4), timed, func(s *scene) {
		a := s.own()
		a.reset(0)
		s.tickAway(0)
		a.resetsAt(3 * tick).cancels()
		s.race(tick)
	}),
	"DeadlineStop": search(plain.Bounded(4).Quickly(2), timed, func(s *scene) {
		a := s.own()
		a.reset(0)
		s.tickAway(0)
		a.resetsAt(3 * tick)
		s.stops()
		s.race(tick)
	}),
	// A run of a repeating timeout ends while a racer moves the timeout to a deadline.
	"DeadlineRunEnds": search(after, timedAfter, func(s *scene) {
		a := s.runs()
		at := s.now() + 2*tick
		s.Go(func() { a.resetAt(at); a.resetAt(at + tick) })
		s.race(0)
	}),
	"MoveExpiry": search(plain, timed, func(s *scene) { a := s.pending(0); s.tickAway(0); a.moves(2 * tick); s.race(tick) }),
	"MoveCancel": search(timed.Quickly(3), timedAfter,
		func(s *scene) { a := s.pending(hour); s.tickAway(3); a.moves(0).cancels(); s.race(0) }),
	// A Reset that has got a slot keeps it, also if the worker takes the timeout off the queue meanwhile. Otherwise
	// both could be refused: first another timeout because of the Reset, then the Reset because of a third timeout.
	"OwnKeepsItsSlot": search(timed.Quickly(3), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.limited(1)
		var reset error
		var others [2]*Timeout
		s.Go(func() { _, reset = a.to.Reset(hour) })
		s.Go(func() {
			for i := range others {
				others[i], _ = s.timer.AfterFunc(hour, func() {})
			}
		})
		s.Race(tick)
		require.False(s, others[0] == nil && reset != nil, "the Reset and the first of the others were both refused")
		require.Equal(s, 1, s.timer.Pending())
		for _, to := range append(others[:], a.to) {
			if to != nil {
				to.Cancel()
			}
		}
		s.acts = nil
		s.check()
	}),
})
