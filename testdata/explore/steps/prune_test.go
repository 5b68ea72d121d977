package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"
)

// A producer prunes the queue while something else happens. What it has in hand meanwhile is found by
// nobody else; yet none of it is lost, and none is on the queue twice.

// prune prunes the stripe that all use.
func (s *scene) prune() { s.timer.prune(&s.timer.queue.stripes[0]) }

// keep prunes, and begins the next pass: the next one to prune looks through what has been kept.
func (s *scene) keep() {
	s.prune()
	s.nextPass()
}

// nextPass is what a producer does that finds enough to look through.
func (s *scene) nextPass() { s.timer.queue.stripes[0].phase.Add(1) }

// queued returns an act whose timeout is on the queue, half a tick before the worker, which is
// awake, looks there. Another one is in a bucket.
func (s *scene) queued(delay time.Duration) *act {
	s.prompt = true
	s.tickAway(2)
	s.pending(hour)
	synctest.Wait()
	return s.pending(delay)
}

// queuedAlone is queued, but nothing is in a bucket: the worker is going to end if it finds nothing.
func (s *scene) queuedAlone(delay time.Duration) *act {
	s.prompt = true
	s.tickAway(2)
	s.pending(hour).cancel(0)
	synctest.Wait()
	return s.pending(delay)
}

// queuedCanceled is queuedAlone, and the timeout has been canceled.
func (s *scene) queuedCanceled() *act {
	a := s.queuedAlone(hour)
	a.cancel(0)
	return a
}

// The worker takes the queue at the boundary at which the timeout is due, and goes to sleep if it finds
// nothing there.
func TestStepsPruneDue(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.queued(0)
		s.Go(s.prune)
		s.race(tick)
	})
}

func TestStepsPruneDueAlone(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.queuedAlone(0)
		s.Go(s.prune)
		s.race(tick)
	})
}

// It is due at the boundary after that, or while it is in hand.
func TestStepsPruneDueLater(t *testing.T) {
	search(t, timed.quickly(3), timed, func(s *scene) {
		s.queued(tick)
		s.Go(s.prune)
		s.race(tick)
	})
}

func TestStepsPruneDueLaterAlone(t *testing.T) {
	search(t, timed.quickly(3), timed, func(s *scene) {
		s.queuedAlone(tick)
		s.Go(s.prune)
		s.race(tick)
	})
}

// Boundaries go by, and the worker goes to rest.
func TestStepsPruneBoundaries(t *testing.T) {
	search(t, size{passes: 2}.quickly(2), size{passes: 2, aftermath: true}, func(s *scene) {
		s.queued(tick)
		s.Go(s.prune)
		s.race(0)
	})
}

func TestStepsPruneBoundariesAlone(t *testing.T) {
	search(t, size{passes: 2}.quickly(2), size{passes: 2, aftermath: true}, func(s *scene) {
		s.queuedAlone(tick)
		s.Go(s.prune)
		s.race(0)
	})
}

func TestStepsPruneCancel(t *testing.T) {
	search(t, timed, timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.Go(s.prune)
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsPruneReset(t *testing.T) {
	search(t, timed.quickly(3), timedAfter, func(s *scene) {
		a := s.queuedCanceled()
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsPruneResetDue(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.queuedCanceled()
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// The timeout is armed again, and canceled again.
func TestStepsPruneResetCancel(t *testing.T) {
	search(t, timed.quickly(3), timedAfter, func(s *scene) {
		a := s.queuedCanceled()
		s.Go(s.prune)
		s.Go(func() { a.reset(tick); a.cancel(1) })
		s.race(0)
	})
}

func TestStepsPruneCancelReset(t *testing.T) {
	search(t, timed.bounded(3).quickly(2), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.Go(s.prune)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsPruneResetReset(t *testing.T) {
	search(t, timed.bounded(3).quickly(1), timedAfter, func(s *scene) {
		a := s.queuedCanceled()
		s.prompt = false // one may find that the other one is about to push
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

// A timeout that is pending is reset to earlier, while it is in hand.
func TestStepsPruneResetEarlier(t *testing.T) {
	search(t, timed.quickly(3), size{passes: 2}, func(s *scene) {
		a := s.queuedAlone(hour)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsPruneResetEarlierDue(t *testing.T) {
	search(t, timed.bounded(3).quickly(2), timed, func(s *scene) {
		a := s.queued(hour)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// Another timeout is armed while the stack is empty, because all that was on it is in hand.
func TestStepsPrunePush(t *testing.T) {
	search(t, timed.quickly(2), timedAfter, func(s *scene) {
		s.queuedAlone(tick)
		b := s.act()
		s.Go(s.prune)
		s.Go(func() { b.arm(0) })
		s.race(0)
	})
}

func TestStepsPrunePrune(t *testing.T) {
	search(t, plain.bounded(3).quickly(2), timed, func(s *scene) {
		s.queuedCanceled()
		s.pending(0)
		s.Go(s.prune)
		s.Go(s.prune)
		s.race(tick)
	})
}

// One of the two finds what has been armed while the other one has the rest in hand.
func TestStepsPrunePushPrune(t *testing.T) {
	search(t, timed.bounded(3).quickly(1), timedAfter, func(s *scene) {
		s.queuedAlone(tick)
		b := s.act()
		s.Go(s.prune)
		s.Go(func() { b.arm(0); s.prune() })
		s.race(0)
	})
}

func TestStepsPrunePruneReset(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.queuedCanceled()
		s.Go(s.prune)
		s.Go(func() { a.reset(0); s.prune() })
		s.race(0)
	})
}

func TestStepsPruneStop(t *testing.T) {
	search(t, timed.bounded(3).quickly(2), timedAfter, func(s *scene) {
		s.queued(0)
		s.Go(s.prune)
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsPruneStopDue(t *testing.T) {
	search(t, plain.bounded(3).quickly(2), timed, func(s *scene) {
		s.queuedAlone(0)
		s.Go(s.prune)
		s.Go(s.stop)
		s.race(tick)
	})
}

func TestStepsPruneStopReset(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.queuedCanceled()
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

// What was kept before is looked through again, while something else happens.

func TestStepsKeptDue(t *testing.T) {
	search(t, plain.quickly(4), timed, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.Go(s.prune)
		s.race(tick)
	})
}

// Also what has been armed since then is due.
func TestStepsKeptAndNewDue(t *testing.T) {
	search(t, plain.bounded(4).quickly(3), timed, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.pending(0)
		s.Go(s.prune)
		s.race(tick)
	})
}

func TestStepsKeptBoundaries(t *testing.T) {
	search(t, size{passes: 2}.quickly(2), size{passes: 2, aftermath: true}, func(s *scene) {
		s.queuedAlone(tick)
		s.keep()
		s.Go(s.prune)
		s.race(0)
	})
}

func TestStepsKeptCancelReset(t *testing.T) {
	search(t, timed.bounded(3).quickly(2), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.keep()
		s.Go(s.prune)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsKeptReset(t *testing.T) {
	search(t, timed.quickly(3), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.keep()
		a.cancel(0)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

// Two segments, and two who look through them.
func TestStepsKeptPrune(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.queuedAlone(0)
		s.prune()
		s.pending(tick)
		s.keep()
		s.Go(s.prune)
		s.Go(s.prune)
		s.race(0)
	})
}

func TestStepsKeptPruneDue(t *testing.T) {
	search(t, plain.bounded(4).quickly(2), timed, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.Go(s.prune)
		s.Go(s.prune)
		s.race(tick)
	})
}

// The next pass begins while a segment changes sides, and another one is pushed.
func TestStepsKeptNextPass(t *testing.T) {
	search(t, timed.bounded(3).quickly(1), timedAfter, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.pending(tick)
		s.Go(s.prune)
		s.Go(func() { s.nextPass(); s.prune() })
		s.race(0)
	})
}

func TestStepsKeptStop(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.pending(hour)
		s.Go(s.prune)
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsKeptStopDue(t *testing.T) {
	search(t, plain.bounded(3).quickly(2), timed, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.Go(s.prune)
		s.Go(s.stop)
		s.race(tick)
	})
}

func TestStepsKeptPruneStop(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.queuedAlone(hour)
		s.keep()
		s.Go(s.prune)
		s.Go(s.prune)
		s.Go(s.stop)
		s.race(0)
	})
}
