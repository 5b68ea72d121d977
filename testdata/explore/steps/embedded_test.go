package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Timeouts in structs of the caller's are armed for the first time, and again in each state in which
// they can have ended, while something else happens to them. Each arming ends exactly once.

// own returns an act whose timeout is a field of a struct. It is idle.
func (s *scene) own() *act {
	a := s.act()
	a.to = new(Timeout)
	s.timer.Init(a.to, plainFunc(a.run))
	return a
}

// ownOnQueue returns an act whose timeout has been canceled and is still on the queue. The worker, which is
// awake, has never had it. It looks there in half a tick, and then ends if it finds nothing.
func (s *scene) ownOnQueue() *act {
	s.tickAway(2)
	s.pending(hour).cancel(0)
	synctest.Wait()
	a := s.own()
	a.reset(hour)
	a.cancel(0)
	return a
}

// ownKnown is ownOnQueue for a timeout that the worker has had, and has in a bucket.
func (s *scene) ownKnown() *act {
	a := s.own()
	a.reset(hour)
	s.tickAway(3)
	s.pending(hour)
	synctest.Wait()
	a.cancel(0)
	return a
}

// ownGone returns an act whose timeout has expired, and is in no place. The worker is absent.
func (s *scene) ownGone() *act {
	a := s.own()
	a.reset(0)
	s.tickAway(3)
	return a
}

// ownPruned is ownOnQueue, but a producer has dropped the timeout.
func (s *scene) ownPruned() *act {
	a := s.ownOnQueue()
	s.prune()
	return a
}

// limited gives the timer a limit of pending timeouts.
func (s *scene) limited(n int) { s.timer.limit.set(n, len(s.timer.queue.stripes)) }

// resetAt resets the timeout to a deadline, as time since the timer was made.
func (a *act) resetAt(deadline time.Duration) {
	if active, err := a.to.ResetAt(a.s.timer.clock.start.Add(deadline)); err == nil {
		a.noteAt(deadline, !active)
	}
}

// armAt arms the timeout for a deadline.
func (a *act) armAt(deadline time.Duration) {
	a.to, a.err = a.s.timer.NewTimeoutAt(plainFunc(a.run), a.s.timer.clock.start.Add(deadline))
	a.noteAt(deadline, a.err == nil)
}

func (a *act) noteAt(deadline time.Duration, armed bool) {
	a.from, a.until = deadline, boundary(max(a.s.now()+1, deadline))
	if armed {
		a.armed++
	}
}

// mustBeAhead notes that a timeout, which was armed for a deadline that had passed then, must not run before
// the next boundary.
func (a *act) mustBeAhead(then time.Duration) { a.from = boundary(then + 1) }

// raceToReset has two arm a timeout where there is room for one. Neither is refused, because the second finds
// it pending.
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

// Two arm it for the first time. With a limit of one, neither is refused.
func TestStepsOwnFirst(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		s.tickAway(0)
		a := s.own()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnFirstLimit(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		s.limited(1)
		s.tickAway(0)
		s.raceToReset(s.own())
	})
}

func TestStepsOwnFirstCancel(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		s.tickAway(0)
		a := s.own()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsOwnFirstMove(t *testing.T) {
	search(t, timed.quickly(3), timedAfter, func(s *scene) {
		s.tickAway(0)
		a := s.own()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.move(0) })
		s.race(0)
	})
}

func TestStepsOwnFirstStop(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		s.tickAway(0)
		a := s.own()
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

// The timeout has ended, and is on the queue.

func TestStepsOwnQueuedStop(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(hour) })
		s.Go(s.stop)
		s.race(0)
	})
}

// It is armed, canceled and armed once more, and after Stop not at all.
func TestStepsOwnQueuedStopAgain(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(hour); a.cancel(1); a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsOwnQueuedTaken(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnQueuedTakenAgain(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0); a.cancel(1); a.reset(tick) })
		s.race(tick)
	})
}

func TestStepsOwnQueuedPrune(t *testing.T) {
	search(t, timed.quickly(3), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnQueuedPruneAgain(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(s.prune)
		s.Go(func() { a.reset(hour); a.cancel(1); a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnQueuedPruneTaken(t *testing.T) {
	search(t, plain.bounded(3).quickly(2), timed.bounded(4), func(s *scene) {
		a := s.ownOnQueue()
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// A deadline that may have gone by, while a producer has the timeout in hand.
func TestStepsOwnQueuedPruneDeadline(t *testing.T) {
	search(t, plain.bounded(3).quickly(2), timed.bounded(4), func(s *scene) {
		a := s.ownOnQueue()
		at := s.now() + tick/4
		s.Go(s.prune)
		s.Go(func() { a.resetAt(at) })
		s.race(tick)
	})
}

func TestStepsOwnQueuedCancel(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.cancel(1) })
		s.race(0)
	})
}

func TestStepsOwnQueuedReset(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnQueuedResetTaken(t *testing.T) {
	search(t, plain.bounded(3), timed.bounded(4), func(s *scene) {
		a := s.ownOnQueue()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnQueuedResetLimit(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		s.limited(1)
		s.raceToReset(s.ownOnQueue())
	})
}

// The timeout has ended, and is on the queue and in a bucket.

func TestStepsOwnKnownStop(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownKnown()
		s.Go(func() { a.reset(hour) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsOwnKnownTaken(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownKnown()
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnKnownTakenAgain(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		a := s.ownKnown()
		s.Go(func() { a.reset(0); a.cancel(1); a.reset(tick) })
		s.race(tick)
	})
}

func TestStepsOwnKnownReset(t *testing.T) {
	search(t, plain.bounded(4), timed, func(s *scene) {
		a := s.ownKnown()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// It has come due, the worker is late, and it is in a bucket, on the queue and soon in a batch.
func TestStepsOwnExpiresQueued(t *testing.T) {
	search(t, size{passes: 2}.quickly(1), size{passes: 2}, func(s *scene) {
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
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		a := s.ownGone()
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsOwnGoneCancel(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownGone()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsOwnGoneReset(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		a := s.ownGone()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnGoneResetLimit(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		s.limited(1)
		a := s.own()
		a.reset(hour)
		a.cancel(0)
		s.tickAway(3)
		s.raceToReset(a)
	})
}

// It expires just now, and its owner arms it again as soon as it has.
func TestStepsOwnExpires(t *testing.T) {
	search(t, plain.quickly(3), timed, func(s *scene) {
		a := s.own()
		a.reset(0)
		s.tickAway(0)
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.cancel(0); a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnPrunedPrune(t *testing.T) {
	search(t, timed.quickly(3), timedAfter, func(s *scene) {
		a := s.ownPruned()
		s.Go(func() { a.reset(0) })
		s.Go(s.prune)
		s.race(0)
	})
}

func TestStepsOwnPrunedTaken(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownPruned()
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOwnPrunedReset(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		a := s.ownPruned()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsOwnPrunedStop(t *testing.T) {
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.ownPruned()
		s.Go(func() { a.reset(0); a.cancel(1) })
		s.Go(s.stop)
		s.race(0)
	})
}

// The worker publishes where it is while deadlines are compared with that.

// It falls asleep. The deadline has passed, or lies ahead by less than a tick.

func TestStepsDeadlineFallsAsleepPassed(t *testing.T) {
	search(t, timed.quickly(4), size{passes: 2, aftermath: true}, func(s *scene) {
		a := s.own()
		s.pending(hour)
		s.tickAway(0)
		s.Go(func() { a.resetAt(tick / 2) })
		s.race(tick)
	})
}

func TestStepsDeadlineFallsAsleep(t *testing.T) {
	search(t, timed.quickly(4), size{passes: 2, aftermath: true}, func(s *scene) {
		a := s.own()
		s.pending(hour)
		s.tickAway(0)
		s.Go(func() { a.resetAt(2*tick - tick/4) })
		s.race(tick)
	})
}

func TestStepsDeadlineFallsAsleepEarlier(t *testing.T) {
	search(t, timed.quickly(4), size{passes: 2, aftermath: true}, func(s *scene) {
		a := s.own()
		a.reset(hour)
		s.tickAway(0)
		s.Go(func() { a.resetAt(2*tick - tick/4) })
		s.race(tick)
	})
}

// It ends, and another one starts.
func TestStepsDeadlineEnds(t *testing.T) {
	search(t, timed.quickly(3), timedAfter, func(s *scene) {
		a := s.act()
		s.pending(hour).cancel(0)
		s.tickAway(0)
		s.Go(func() { a.armAt(tick / 2) })
		s.race(tick)
	})
}

func TestStepsDeadlineStarts(t *testing.T) {
	search(t, timed.quickly(3), timedAfter, func(s *scene) {
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

// It is asleep, and was so when the deadline passed.
func TestStepsDeadlineAsleepPassed(t *testing.T) {
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

// It is asleep, and wakes for a timeout that is put off, to a boundary that follows at once or not.

func TestStepsDeadlineWakes(t *testing.T) {
	search(t, timed.quickly(2), timed, func(s *scene) {
		a := s.own()
		a.reset(5 * tick)
		s.tickAway(4)
		s.Go(func() { a.resetAt(6*tick - tick/4) })
		s.race(tick)
	})
}

func TestStepsDeadlineWakesLater(t *testing.T) {
	search(t, timed.quickly(4), size{passes: 2, aftermath: true}, func(s *scene) {
		a := s.own()
		a.reset(5 * tick)
		s.tickAway(4)
		s.Go(func() { a.resetAt(7 * tick) })
		s.race(0)
	})
}

// Two put it off, to later and to earlier.
func TestStepsDeadlineTwo(t *testing.T) {
	search(t, plain.bounded(4).quickly(3), timed.bounded(4), func(s *scene) {
		a := s.own()
		a.reset(5 * tick)
		s.tickAway(4)
		s.Go(func() { a.resetAt(8 * tick); a.resetAt(7 * tick) })
		s.race(tick)
	})
}

func TestStepsDeadlineCancel(t *testing.T) {
	search(t, plain.bounded(4), timed, func(s *scene) {
		a := s.own()
		a.reset(0)
		s.tickAway(0)
		s.Go(func() { a.resetAt(3 * tick) })
		s.Go(func() { a.cancel(0) })
		s.race(tick)
	})
}

func TestStepsDeadlineStop(t *testing.T) {
	search(t, plain.bounded(4).quickly(2), timed, func(s *scene) {
		a := s.own()
		a.reset(0)
		s.tickAway(0)
		s.Go(func() { a.resetAt(3 * tick) })
		s.Go(s.stop)
		s.race(tick)
	})
}

// A run of a repeating timeout ends while it is put off to a deadline.
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
	search(t, timed.quickly(4), timedAfter, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		s.Go(func() { a.move(0) })
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

// A Reset that has a slot keeps it when the worker takes the timeout off the queue meanwhile. Else it might
// be refused for a timeout that came later, after one that was refused for it.
func TestStepsOwnKeepsItsSlot(t *testing.T) {
	search(t, timed.quickly(3), timedAfter, func(s *scene) {
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
		require.False(s, others[0] == nil && reset != nil, "both were refused")
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
