package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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
	s.pending(hour).cancel(0)
	synctest.Wait()
	a := s.own()
	a.reset(hour)
	a.cancel(0)
	return a
}

// ownKnown is like ownOnQueue, but the worker has put the timeout into a bucket before.
func (s *scene) ownKnown() *act {
	a, other := s.own(), s.pending(hour)
	a.reset(hour)
	s.tickAway(3)
	other.cancel(0)
	synctest.Wait() // the round that this has started is over, and the next one comes at the boundary
	a.cancel(0)
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

// Two racers arm the timeout for the first time. Also with a limit of one, neither is refused.
func TestStepsOwnFirst(t *testing.T) {
	search(t, timed.Quickly(1), timedAfter, func(s *scene) {
		s.tickAway(0)
		a := s.own()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnFirstLimit(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.limited(1)
		s.tickAway(0)
		s.raceToReset(s.own())
	})
}

func TestStepsOwnFirstCancel(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		s.tickAway(0)
		a := s.own()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsOwnFirstMove(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.tickAway(0)
		a := s.own()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.move(0) })
		s.race(0)
	})
}

func TestStepsOwnFirstStop(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.tickAway(0)
		a := s.own()
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

// The timeout has ended, and is on the queue.

func TestStepsOwnQueuedStop(t *testing.T) {
	search(t, timed.Quickly(4), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(hour) })
		s.Go(s.stop)
		s.race(0)
	})
}

// The timeout is armed, canceled and armed again. After Stop an arming is refused.
func TestStepsOwnQueuedStopAgain(t *testing.T) {
	search(t, timed.Quickly(4), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(hour); a.cancel(1); a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsOwnQueuedTaken(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnQueuedTakenAgain(t *testing.T) {
	search(t, timed.Quickly(1), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0); a.cancel(1); a.reset(tick) })
		s.race(tick)
	})
}

func TestStepsOwnQueuedDrop(t *testing.T) {
	search(t, timed.Quickly(1), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnQueuedDropAgain(t *testing.T) {
	search(t, timed.Quickly(1), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.meets(a, hour)
		s.Go(func() { a.reset(hour); a.cancel(1); a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnQueuedDropTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(4), func(s *scene) {
		a := s.ownOnQueue()
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// The timeout is armed for a deadline that may have passed, while the hand drops it.
func TestStepsOwnQueuedDropDeadline(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(4), func(s *scene) {
		a := s.ownOnQueue()
		at := s.now() + tick/4
		s.meets(a, hour)
		s.Go(func() { a.resetAt(at) })
		s.race(tick)
	})
}

func TestStepsOwnQueuedCancel(t *testing.T) {
	search(t, timed.Quickly(4), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.cancel(1) })
		s.race(0)
	})
}

func TestStepsOwnQueuedReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnQueuedResetTaken(t *testing.T) {
	search(t, plain.Bounded(3), timed.Bounded(4), func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnQueuedResetLimit(t *testing.T) {
	search(t, timed.Quickly(4), timedAfter, func(s *scene) {
		s.limited(1)
		s.raceToReset(s.ownOnQueue())
	})
}

// The timeout has ended, and is on the queue and in a bucket.

func TestStepsOwnKnownStop(t *testing.T) {
	search(t, timed.Quickly(4), timedAfter, func(s *scene) {
		a := s.ownKnown()
		s.Go(func() { a.reset(hour) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsOwnKnownTaken(t *testing.T) {
	search(t, timed.Quickly(4), timedAfter, func(s *scene) {
		a := s.ownKnown()
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnKnownTakenAgain(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.ownKnown()
		s.Go(func() { a.reset(0); a.cancel(1); a.reset(tick) })
		s.race(tick)
	})
}

func TestStepsOwnKnownReset(t *testing.T) {
	search(t, plain.Bounded(4), timed, func(s *scene) {
		a := s.ownKnown()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// The timeout is in a bucket and on the queue. It comes due, and the worker, which is late, hands it
// over.
func TestStepsOwnExpiresQueued(t *testing.T) {
	search(t, twice.Quickly(1), twice, func(s *scene) {
		a := s.own()
		a.reset(4 * tick)
		s.tickAway(2)
		s.pending(hour)
		synctest.Wait()
		s.Go(func() { a.reset(0); a.reset(2 * tick) })
		s.race(0)
	})
}

// The timeout has ended, and is off the queue.

func TestStepsOwnGoneStop(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.ownGone()
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsOwnGoneCancel(t *testing.T) {
	search(t, timed.Quickly(4), timedAfter, func(s *scene) {
		a := s.ownGone()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsOwnGoneReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.ownGone()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnGoneResetLimit(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.limited(1)
		a := s.own()
		a.reset(hour)
		a.cancel(0)
		s.tickAway(3)
		s.raceToReset(a)
	})
}

// The timeout comes due, while one racer arms it again, and another cancels it and arms it again.
func TestStepsOwnExpires(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		a := s.own()
		a.reset(0)
		s.tickAway(0)
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.cancel(0); a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnDroppedArm(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.ownDropped()
		s.Go(func() { a.reset(0) })
		s.arms(0)
		s.race(0)
	})
}

func TestStepsOwnDroppedTaken(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		a := s.ownDropped()
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnDroppedReset(t *testing.T) {
	search(t, timed.Quickly(1), timedAfter, func(s *scene) {
		a := s.ownDropped()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnDroppedStop(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		a := s.ownDropped()
		s.Go(func() { a.reset(0); a.cancel(1) })
		s.Go(s.stop)
		s.race(0)
	})
}

// The worker publishes its present tick, while racers compare deadlines with it.

// The worker comes to rest. The deadline has passed, or is less than a tick ahead.

func TestStepsDeadlineRestsPassed(t *testing.T) {
	search(t, timed.Quickly(2), twiceAfter, func(s *scene) {
		a := s.own()
		s.pending(hour)
		s.tickAway(0)
		s.Go(func() { a.resetAt(tick / 2) })
		s.race(tick)
	})
}

func TestStepsDeadlineRests(t *testing.T) {
	search(t, timed.Quickly(3), twiceAfter, func(s *scene) {
		a := s.own()
		s.pending(hour)
		s.tickAway(0)
		s.Go(func() { a.resetAt(2*tick - tick/4) })
		s.race(tick)
	})
}

func TestStepsDeadlineRestsEarlier(t *testing.T) {
	search(t, timed.Quickly(3), twiceAfter, func(s *scene) {
		a := s.own()
		a.reset(hour)
		s.tickAway(0)
		s.Go(func() { a.resetAt(2*tick - tick/4) })
		s.race(tick)
	})
}

// The worker comes to rest, or a round starts.
func TestStepsDeadlineEnds(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.act()
		s.pending(hour).cancel(0)
		s.tickAway(0)
		s.Go(func() { a.armAt(tick / 2) })
		s.race(tick)
	})
}

func TestStepsDeadlineStarts(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
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
	})
}

// The worker rests, and rested when the deadline passed.
func TestStepsDeadlineRestingPassed(t *testing.T) {
	search(t, plain, plain, func(s *scene) {
		a := s.own()
		s.pending(hour)
		s.tickAway(5)
		s.Go(func() {
			then := s.now()
			a.resetAt(4 * tick)
			a.mustBeAhead(then)
		})
		s.race(0)
	})
}

// A round is due for a timeout that is moved to the next boundary, or to a later one.

func TestStepsDeadlineWakes(t *testing.T) {
	search(t, timed.Quickly(1), timed, func(s *scene) {
		a := s.own()
		a.reset(5 * tick)
		s.tickAway(4)
		s.Go(func() { a.resetAt(6*tick - tick/4) })
		s.race(tick)
	})
}

func TestStepsDeadlineWakesLater(t *testing.T) {
	search(t, timed.Quickly(4), twiceAfter, func(s *scene) {
		a := s.own()
		a.reset(5 * tick)
		s.tickAway(4)
		s.Go(func() { a.resetAt(7 * tick) })
		s.race(0)
	})
}

// A racer moves the timeout to later, and then to earlier.
func TestStepsDeadlineTwo(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.own()
		a.reset(5 * tick)
		s.tickAway(4)
		s.Go(func() { a.resetAt(8 * tick); a.resetAt(7 * tick) })
		s.race(tick)
	})
}

func TestStepsDeadlineCancel(t *testing.T) {
	search(t, plain.Bounded(4), timed, func(s *scene) {
		a := s.own()
		a.reset(0)
		s.tickAway(0)
		s.Go(func() { a.resetAt(3 * tick) })
		s.Go(func() { a.cancel(0) })
		s.race(tick)
	})
}

func TestStepsDeadlineStop(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(2), timed, func(s *scene) {
		a := s.own()
		a.reset(0)
		s.tickAway(0)
		s.Go(func() { a.resetAt(3 * tick) })
		s.Go(s.stop)
		s.race(tick)
	})
}

// A run of a repeating timeout ends while a racer moves the timeout to a deadline.
func TestStepsDeadlineRunEnds(t *testing.T) {
	search(t, after, timedAfter, func(s *scene) {
		a := s.runs()
		at := s.now() + 2*tick
		s.Go(func() { a.resetAt(at); a.resetAt(at + tick) })
		s.race(0)
	})
}

func TestStepsMoveExpiry(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.pending(0)
		s.tickAway(0)
		s.Go(func() { a.move(2 * tick) })
		s.race(tick)
	})
}

func TestStepsMoveCancel(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		s.Go(func() { a.move(0) })
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

// A Reset that has got a slot keeps it, also if the worker takes the timeout off the queue meanwhile. Otherwise
// both could be refused: first another timeout because of the Reset, then the Reset because of a third timeout.
func TestStepsOwnKeepsItsSlot(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
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
	})
}
