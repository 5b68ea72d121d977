package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// A producer prunes the queue while something else happens. To prune, it takes timeouts off the queue, and
// meanwhile no other goroutine finds them there. Even so no timeout is lost, and none is on the queue twice.

// prune prunes the stripe that all goroutines use.
func (s *scene) prune() { s.timer.worker.prune(&s.timer.queue.stripes[0]) }

// keep puts what is new into segments, as pruning does. So the next prune checks the far ones again.
func (s *scene) keep() {
	w, on := &s.timer.worker, &s.timer.queue.stripes[0]
	p := pruning{worker: w, stripe: on, start: w.clock.Now(), earliest: ticks.Never, soonest: ticks.Never}
	p.sift(on.near.pushed.take(), p.start)
	p.keep()
	p.sift(on.takePushed(), p.start)
	p.keep()
}

// queued returns an act whose timeout is on the queue. The worker takes the queue in half a tick. Another timeout is
// in a bucket.
func (s *scene) queued(delay time.Duration) *act {
	s.prompt = true
	s.tickAway(2)
	s.pending(hour)
	synctest.Wait()
	return s.pending(delay)
}

// queuedAlone is like queued, but no other timeout is pending.
func (s *scene) queuedAlone(delay time.Duration) *act {
	s.prompt = true
	s.tickAway(2)
	s.pending(hour).cancel(0)
	synctest.Wait()
	return s.pending(delay)
}

// queuedCanceled is like queuedAlone, but the timeout has been canceled.
func (s *scene) queuedCanceled() *act {
	a := s.queuedAlone(hour)
	a.cancel(0)
	return a
}

// The worker takes the queue at the boundary at which the timeout is due. If it finds nothing there, it rests.
func TestStepsPruneDue(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.queued(0)
		s.Go(s.prune)
		s.race(tick)
	})
}

func TestStepsPruneDueAlone(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.queuedAlone(0)
		s.Go(s.prune)
		s.race(tick)
	})
}

// The timeout is due one boundary later, or comes due while the producer has it off the queue.
func TestStepsPruneDueLater(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.queued(tick)
		s.Go(s.prune)
		s.race(tick)
	})
}

func TestStepsPruneDueLaterAlone(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.queuedAlone(tick)
		s.Go(s.prune)
		s.race(tick)
	})
}

// Boundaries pass, and the worker may come to rest.
func TestStepsPruneBoundaries(t *testing.T) {
	search(t, twice.Quickly(1), twiceAfter, func(s *scene) {
		s.queued(tick)
		s.Go(s.prune)
		s.race(0)
	})
}

func TestStepsPruneBoundariesAlone(t *testing.T) {
	search(t, twice.Quickly(1), twiceAfter, func(s *scene) {
		s.queuedAlone(tick)
		s.Go(s.prune)
		s.race(0)
	})
}

func TestStepsPruneCancel(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.Go(s.prune)
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsPruneReset(t *testing.T) {
	search(t, timed.Quickly(1), timedAfter, func(s *scene) {
		a := s.queuedCanceled()
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsPruneResetDue(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		a := s.queuedCanceled()
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// The timeout is armed again, and canceled again.
func TestStepsPruneResetCancel(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedCanceled()
		s.Go(s.prune)
		s.Go(func() { a.reset(tick); a.cancel(1) })
		s.race(0)
	})
}

func TestStepsPruneCancelReset(t *testing.T) {
	search(t, timed.Bounded(3).Quickly(1), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.Go(s.prune)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsPruneResetReset(t *testing.T) {
	search(t, timed.Bounded(3).Quickly(1), timedAfter, func(s *scene) {
		a := s.queuedCanceled()
		s.prompt = false // one Reset may leave the push to the other, which is late with it
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

// A pending timeout is reset to earlier while the producer has it off the queue.
func TestStepsPruneResetEarlier(t *testing.T) {
	search(t, timed.Quickly(2), twice, func(s *scene) {
		a := s.queuedAlone(hour)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsPruneResetEarlierDue(t *testing.T) {
	search(t, timed.Bounded(3).Quickly(1), timed, func(s *scene) {
		a := s.queued(hour)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// Another timeout is armed while the stack is empty, because the producer has taken everything off it.
func TestStepsPrunePush(t *testing.T) {
	search(t, timed.Quickly(1), timedAfter, func(s *scene) {
		s.queuedAlone(tick)
		b := s.act()
		s.Go(s.prune)
		s.Go(func() { b.arm(0) })
		s.race(0)
	})
}

func TestStepsPrunePrune(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed, func(s *scene) {
		s.queuedCanceled()
		s.pending(0)
		s.Go(s.prune)
		s.Go(s.prune)
		s.race(tick)
	})
}

// One of two producers finds the new timeout, while the other has taken the rest off the queue.
func TestStepsPrunePushPrune(t *testing.T) {
	search(t, timed.Bounded(3).Quickly(1), timedAfter, func(s *scene) {
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
	search(t, timed.Bounded(3).Quickly(2), timedAfter, func(s *scene) {
		s.queued(0)
		s.Go(s.prune)
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsPruneStopDue(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed, func(s *scene) {
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

// A producer checks timeouts again that were kept before, while something else happens.

func TestStepsKeptDue(t *testing.T) {
	search(t, plain.Quickly(4), timed, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.Go(s.prune)
		s.race(tick)
	})
}

// A timeout that was armed after the first prune is also due.
func TestStepsKeptAndNewDue(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.pending(0)
		s.Go(s.prune)
		s.race(tick)
	})
}

func TestStepsKeptBoundaries(t *testing.T) {
	search(t, twice.Quickly(2), twiceAfter, func(s *scene) {
		s.queuedAlone(tick)
		s.keep()
		s.Go(s.prune)
		s.race(0)
	})
}

func TestStepsKeptCancelReset(t *testing.T) {
	search(t, timed.Bounded(3).Quickly(1), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.keep()
		s.Go(s.prune)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsKeptReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.keep()
		a.cancel(0)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

// Two producers check two segments again.
func TestStepsKeptPrune(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.pending(tick)
		s.keep()
		s.Go(s.prune)
		s.Go(s.prune)
		s.race(0)
	})
}

func TestStepsKeptPruneDue(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(2), timed, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.Go(s.prune)
		s.Go(s.prune)
		s.race(tick)
	})
}

// One of two producers checks the segment again, while the other pushes another one.
func TestStepsKeptAndNewPrune(t *testing.T) {
	search(t, timed.Bounded(3).Quickly(1), timedAfter, func(s *scene) {
		s.queuedAlone(0)
		s.keep()
		s.pending(tick)
		s.Go(s.prune)
		s.Go(s.prune)
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
	search(t, plain.Bounded(3).Quickly(2), timed, func(s *scene) {
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
