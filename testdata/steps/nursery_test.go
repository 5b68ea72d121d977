package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A producer arms a timeout. The hand drops another one, skips it, or finds that the nursery must grow. The worker takes timeouts
// from the same slots, or closes the table. At the same time something else happens. No timeout is lost, and none is late. In
// scenes a block has two slots, and a new table has two blocks.

func (s *scene) nursery() *ring { return &s.timer.queue.stripes[0].nursery }

// handBefore moves the hand of the nursery on, as if it had skipped some slots, until it comes to a slot next.
func (s *scene) handBefore(slot int) {
	r, size := s.nursery(), uint64(minSlots)
	if t := r.table.Load(); t != nil {
		size = uint64(len(t.slots))
	}
	for (r.filled.Load()+r.skipped.Load())%size != uint64(slot) {
		r.skipped.Add(1)
	}
}

// slot returns the slot in which the timeout is.
func (a *act) slot() int {
	t := a.s.nursery().table.Load()
	for i := range t.slots {
		if t.slots[i].Load() == a.to {
			return i
		}
	}
	require.Fail(a.s, "the timeout is in no slot")
	return 0
}

// meets adds a racer that arms a timeout, and whose hand comes to the slot of a timeout first.
func (s *scene) meets(a *act, delay time.Duration) *act {
	s.handBefore(a.slot())
	return s.arms(delay)
}

// arms adds a racer that arms a timeout.
func (s *scene) arms(delay time.Duration) *act {
	b := s.act()
	s.Go(func() { b.arm(delay) })
	return b
}

// full fills all slots but one of the nursery, so that the lap that begins next makes it grow. It returns the last act.
func (s *scene) full(delay time.Duration) (a *act) {
	s.handBefore(0)
	for range minSlots - 1 {
		a = s.pending(delay)
	}
	s.handBefore(0)
	return a
}

// large gives the nursery a larger table, as if it had grown.
func (s *scene) large() {
	s.nursery().table.Store(newTable(2 * minSlots))
	s.handBefore(1)
}

// queued returns an act whose timeout is in the nursery. The worker looks in half a tick. Another timeout is in the nursery.
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

// queuedCanceled is like queuedAlone, but the timeout has been canceled. If it is in the nursery, it stays there, because it
// has been reset before.
func (s *scene) queuedCanceled(delay time.Duration) *act {
	a := s.queuedAlone(delay)
	if delay == hour {
		a.reset(delay)
	}
	a.cancel(0)
	return a
}

// leftNursery is like queuedCanceled for a timeout that has never been reset. It has left the nursery, but the slot still leads
// to it.
func (s *scene) leftNursery() *act {
	a := s.queuedAlone(hour)
	a.cancel(0)
	require.Zero(s, a.to.word.Peek()&(young|queued))
	return a
}

// The hand finds the slot of a timeout that has left the nursery.

func TestStepsLeftReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.leftNursery()
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsLeftResetTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour) })
		s.race(tick)
	})
}

func TestStepsLeftResetCancelTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour); a.cancel(1) })
		s.race(tick)
	})
}

func TestStepsLeftResetReset(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		s.prompt = false // one Reset may leave the push to the other, which is late with it
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsLeftStopReset(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour) })
		s.Go(s.stop)
		s.race(0)
	})
}

// The hand drops a canceled timeout.

func TestStepsDropTaken(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.meets(s.queuedCanceled(hour), hour)
		s.race(tick)
	})
}

func TestStepsDropReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsDropResetLater(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour) })
		s.race(0)
	})
}

func TestStepsDropResetTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// The timeout is armed again, and canceled again.
func TestStepsDropResetCancel(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour); a.cancel(1) })
		s.race(0)
	})
}

func TestStepsDropResetReset(t *testing.T) {
	search(t, plain.Bounded(3), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(hour)
		s.prompt = false // one Reset may leave the push to the other, which is late with it
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsDropCancelReset(t *testing.T) {
	search(t, timed.Bounded(3).Quickly(1), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.meets(a, hour)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsDropStop(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.meets(s.queuedCanceled(hour), hour)
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsDropStopTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.meets(s.queuedCanceled(hour), hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

func TestStepsDropStopReset(t *testing.T) {
	search(t, plain.Bounded(3), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour) })
		s.Go(s.stop)
		s.race(0)
	})
}

// All other slots have pending timeouts, so that the hands of two producers meet the same one.
func TestStepsDropLap(t *testing.T) {
	search(t, plain.Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.queuedCanceled(hour)
		for range minSlots - 1 {
			s.pending(hour)
		}
		s.meets(a, hour)
		s.arms(hour)
		s.race(0)
	})
}

// The hand skips a pending timeout.

func TestStepsSkipTaken(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.meets(s.queuedAlone(hour), hour)
		s.race(tick)
	})
}

func TestStepsSkipCancel(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.meets(a, hour)
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsSkipReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsSkipResetTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queued(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsSkipStop(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.meets(s.queuedAlone(hour), hour)
		s.Go(s.stop)
		s.race(0)
	})
}

// A lap makes the nursery grow.

func TestStepsGrowTaken(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.full(hour)
		s.arms(hour)
		s.race(tick)
	})
}

func TestStepsGrowSwept(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.full(hour)
		s.sweeps()
		s.arms(hour)
		s.race(tick)
	})
}

func TestStepsGrowArm(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.full(hour)
		s.arms(hour)
		s.arms(2 * hour)
		s.race(0)
	})
}

func TestStepsGrowArmTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.full(hour)
		s.arms(hour)
		s.arms(2 * hour)
		s.race(tick)
	})
}

// One of the producers may fill a slot of the table that the other has left to the worker.
func TestStepsGrowNear(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.full(hour)
		s.arms(hour)
		s.arms(0)
		s.race(tick)
	})
}

func TestStepsGrowReset(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		a := s.full(hour)
		s.arms(hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsGrowResetTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		a := s.full(hour)
		s.arms(hour)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsGrowCancelReset(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		a := s.full(hour)
		s.arms(hour)
		s.Go(func() { a.cancel(0); a.reset(2 * hour) })
		s.race(0)
	})
}

func TestStepsGrowStop(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.full(hour)
		s.arms(hour)
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsGrowStopTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.full(hour)
		s.arms(hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

// The worker takes the table that a nursery has left to it. The slots there were all filled with near or with far timeouts.

func TestStepsOlderFarCancel(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		a := s.full(hour)
		s.pending(hour)
		s.Go(func() { a.cancel(0) })
		s.race(tick)
	})
}

func TestStepsOlderFarReset(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		a := s.full(hour)
		s.pending(hour)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOlderFarStop(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.full(hour)
		s.pending(hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

func TestStepsOlderNearCancel(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		a := s.full(tick)
		s.pending(hour)
		s.Go(func() { a.cancel(0) })
		s.race(tick)
	})
}

func TestStepsOlderNearReset(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		a := s.full(tick)
		s.pending(hour)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOlderNearStop(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.full(tick)
		s.pending(hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

// A sweep takes a pending timeout that is old.

func TestStepsOldMet(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a := s.queuedAlone(hour)
		s.sweeps()
		s.meets(a, hour)
		s.race(tick)
	})
}

func TestStepsOldCancel(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a := s.queuedAlone(hour)
		s.sweeps()
		s.Go(func() { a.cancel(0) })
		s.race(tick)
	})
}

func TestStepsOldReset(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a := s.queuedAlone(hour)
		s.sweeps()
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOldResetLater(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a := s.queuedAlone(hour)
		s.sweeps()
		s.Go(func() { a.reset(2 * hour) })
		s.race(tick)
	})
}

func TestStepsOldResetReset(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedAlone(hour)
		s.sweeps()
		s.prompt = false // one Reset may leave the slot to the other, which is late with it
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOldCancelReset(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedAlone(hour)
		s.sweeps()
		s.Go(func() { a.cancel(0); a.reset(0) })
		s.race(tick)
	})
}

func TestStepsOldStop(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.queuedAlone(hour)
		s.sweeps()
		s.Go(s.stop)
		s.race(tick)
	})
}

func TestStepsOldResetStop(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedAlone(hour)
		s.sweeps()
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(tick)
	})
}

// A sweep empties the slot of a canceled timeout, which a producer fills.
func TestStepsSweptArm(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a := s.queuedCanceled(hour)
		s.sweeps()
		s.meets(a, hour)
		s.race(tick)
	})
}

func TestStepsSweptArmNear(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a := s.queuedCanceled(hour)
		s.sweeps()
		s.meets(a, 0)
		s.race(tick)
	})
}

// A sweep gives back a table that has grown.

func TestStepsGiveBackArm(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.large()
		s.pending(hour)
		s.sweeps()
		s.arms(hour)
		s.race(tick)
	})
}

func TestStepsGiveBackArmNear(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.large()
		s.pending(hour)
		s.sweeps()
		s.arms(0)
		s.race(tick)
	})
}

func TestStepsGiveBackTwo(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.large()
		s.pending(hour)
		s.sweeps()
		s.arms(hour)
		s.arms(0)
		s.race(tick)
	})
}

func TestStepsGiveBackReset(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.large()
		a := s.pending(hour)
		s.sweepAt(0)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsGiveBackCancelReset(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.large()
		a := s.pending(hour)
		s.sweepAt(0)
		s.Go(func() { a.cancel(0); a.reset(0) })
		s.race(tick)
	})
}

func TestStepsGiveBackStop(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.large()
		s.pending(hour)
		s.sweepAt(0)
		s.Go(s.stop)
		s.race(tick)
	})
}

func TestStepsGiveBackArmStop(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		s.large()
		s.pending(hour)
		s.sweeps()
		s.arms(hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

// The worker takes what is near, while another one comes into the same block, or another round is at work.

func TestStepsNearArm(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.queuedAlone(0)
		s.arms(0)
		s.race(tick)
	})
}

func TestStepsNearArmFar(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.queuedAlone(0)
		s.arms(2 * tick)
		s.race(tick)
	})
}

func TestStepsNearMet(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a := s.queued(0)
		s.meets(a, 0)
		s.race(tick)
	})
}

func TestStepsNearBoundaries(t *testing.T) {
	search(t, twice.Quickly(1), twiceAfter, func(s *scene) {
		a := s.queuedAlone(tick)
		s.meets(a, 0)
		s.race(0)
	})
}

func TestStepsNearReset(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a := s.queuedAlone(2 * tick)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// Inboxes

// placed returns two acts whose timeouts are in buckets. So a Cancel, or a Reset to an earlier tick, pushes them.
func (s *scene) placed() (a, b *act) {
	s.tickAway(1)
	a, b = s.pending(hour), s.pending(hour)
	s.tickAway(3)
	s.pending(hour)
	synctest.Wait()
	return a, b
}

func TestStepsPushPush(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a, b := s.placed()
		s.Go(func() { a.cancel(0) })
		s.Go(func() { b.reset(0) })
		s.race(0)
	})
}

func TestStepsPushPushTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a, b := s.placed()
		s.Go(func() { a.cancel(0) })
		s.Go(func() { b.reset(0) })
		s.race(tick)
	})
}

func TestStepsPushTaken(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a, b := s.placed()
		b.cancel(1)
		s.Go(func() { a.reset(0); a.cancel(0) })
		s.race(tick)
	})
}

// The timeout is taken from the inbox, and pushed again.
func TestStepsPushAgain(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a, _ := s.placed()
		s.Go(func() { a.cancel(0); a.reset(hour); a.reset(tick) })
		s.race(tick)
	})
}

// The count of what waits on an inbox is never below zero, which would be a great number.
func TestStepsWaiting(t *testing.T) {
	search(t, plain, plain, func(s *scene) {
		var inbox stripe
		var waits uint64
		s.Go(func() {
			inbox.push(new(Timeout))
			waits = inbox.waiting()
		})
		s.Go(func() {
			inbox.push(new(Timeout))
			inbox.swapInbox()
		})
		s.Race(0)
		require.LessOrEqual(s, waits, uint64(2))
	})
}

func TestStepsPushStop(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a, b := s.placed()
		s.Go(func() { a.reset(0) })
		s.Go(func() { b.cancel(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsPushStopTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a, b := s.placed()
		b.reset(tick)
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(tick)
	})
}

// A walk finds each timeout that is pending all the time, once, while a round, or Stop, takes the timeouts from where it looks.
// In scenes it takes one at a time.

// walks adds a racer that walks through all tasks. It returns how often it has found an act.
func (s *scene) walks() func(a *act) int {
	found := make(map[*Timeout]int)
	s.Go(func() {
		s.timer.walk(func(to *Timeout) bool { found[to]++; return true })
	})
	return func(a *act) int { return found[a.to] }
}

func TestStepsWalkNursery(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.queuedAlone(hour)
		b := s.pending(2 * hour)
		s.sweeps()
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	})
}

func TestStepsWalkGrown(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		b := s.full(hour)
		a := s.pending(hour)
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	})
}

func TestStepsWalkGrows(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedAlone(hour).cancel(0)
		b := s.full(hour)
		a := b
		s.arms(hour)
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	})
}

func TestStepsWalkInbox(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a, b := s.placed()
		a.reset(hour / 2)
		b.reset(hour / 2)
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	})
}

func TestStepsWalkInboxPush(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a, b := s.placed()
		a.reset(hour / 2)
		b.reset(hour / 2)
		c := s.pending(hour)
		s.Go(func() { c.reset(hour / 2) })
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	})
}

func TestStepsWalkInboxStop(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a, b := s.placed()
		a.reset(hour / 2)
		b.reset(hour / 2)
		s.Go(s.stop)
		found := s.walks()
		s.race(tick)
		require.LessOrEqual(s, found(a), 1)
		require.LessOrEqual(s, found(b), 1)
	})
}

func TestStepsWalkNurseryStop(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedAlone(hour)
		b := s.pending(2 * hour)
		s.sweeps()
		s.Go(s.stop)
		found := s.walks()
		s.race(tick)
		require.LessOrEqual(s, found(a), 1)
		require.LessOrEqual(s, found(b), 1)
	})
}
