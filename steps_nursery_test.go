package hashedwheel

import (
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
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
	require.True(a.s, isIdle(a.s.timer.worker.state.Load()), "a round is in progress, and may empty the slot")
	t := a.s.nursery().table.Load()
	for i := range t.slots {
		if t.slots[i].Load() == a.to {
			return i
		}
	}
	require.Fail(a.s, "the timeout is in no slot")
	return 0
}

// met adds a racer that arms another timeout, and whose hand comes to the slot of this one first.
func (a *act) met(delay time.Duration) *act {
	a.s.handBefore(a.slot())
	a.s.arms(delay)
	return a
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

// fullAlone is like full, in the state of queuedAlone.
func (s *scene) fullAlone(delay time.Duration) *act {
	s.queuedAlone(hour).cancel()
	return s.full(delay)
}

// inLarge returns the only pending act, whose timeout is in a table that has grown.
func (s *scene) inLarge() *act {
	s.queuedAlone(hour).cancel()
	s.large()
	return s.pending(hour)
}

// old is like queuedAlone, but the next round takes the timeout, as if a sweep had met it.
func (s *scene) old() *act {
	a := s.queuedAlone(hour)
	s.sweeps()
	return a
}

// large gives the nursery a larger table, as if it had grown.
func (s *scene) large() {
	s.nursery().table.Store(newTable(2 * minSlots))
	s.handBefore(1)
}

// queued returns an act whose timeout is in the nursery and due in an hour. Another one is in the nursery too. The worker watches.
// So a near timeout would start a round at once, and that could empty the slot before the scene has looked there.
func (s *scene) queued() *act {
	s.prompt = true
	s.tickAway(2)
	s.pending(hour)
	synctest.Wait()
	return s.pending(hour)
}

// queuedAlone returns an act whose timeout is in the nursery. No other is pending. The worker looks in half a tick.
func (s *scene) queuedAlone(delay time.Duration) *act {
	s.prompt = true
	s.tickAway(2)
	w := &s.timer.worker
	w.mu.Lock() // the round that pending starts must find it canceled: otherwise the worker would watch, as in queued
	s.pending(hour).cancel()
	w.mu.Unlock()
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
	a.cancel()
	return a
}

// leftNursery is like queuedCanceled for a timeout that has never been reset. It has left the nursery, but the slot still leads
// to it.
func (s *scene) leftNursery() *act {
	a := s.queuedAlone(hour)
	a.cancel()
	require.Zero(s, a.word()&(young|queued))
	return a
}

// placed returns two acts whose timeouts are in buckets. So a Cancel, or a Reset to an earlier tick, pushes them.
func (s *scene) placed() (a, b *act) {
	s.tickAway(1)
	a, b = s.pending(hour), s.pending(hour)
	s.tickAway(3)
	s.pending(hour)
	synctest.Wait()
	return a, b
}

// walks adds a racer that walks through all tasks. It returns how often it has found an act.
func (s *scene) walks() func(a *act) int {
	found := make(map[*Timeout]int)
	s.Go(func() {
		s.timer.walk(func(to *Timeout) bool { found[to]++; return true })
	})
	return func(a *act) int { return found[a.to] }
}

var _ = scenarios.Add(explore.Scenarios{
	// The hand finds the slot of a timeout that has left the nursery.
	"LeftReset": search(timed.Quickly(2), timedAfter, func(s *scene) { s.leftNursery().met(hour).resets(0); s.race(0) }),
	"LeftResetTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.leftNursery().met(hour).resets(2 * hour); s.race(tick) }),
	"LeftResetCancelTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		a.met(hour)
		s.Go(func() { a.reset(2 * hour); a.cancel() })
		s.race(tick)
	}),
	"LeftResetReset": search(plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		s.prompt = false // one Reset may leave the push to the other, which is late with it
		a.met(hour).resets(0).resets(0)
		s.race(0)
	}),
	"LeftStopReset": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.leftNursery().met(hour).resets(2 * hour); s.stops(); s.race(0) }),

	// The hand drops a canceled timeout.
	"DropTaken": search(plain.Quickly(3), timed, func(s *scene) { s.queuedCanceled(hour).met(hour); s.race(tick) }),
	"DropReset": search(timed.Quickly(2), timedAfter, func(s *scene) { s.queuedCanceled(hour).met(hour).resets(0); s.race(0) }),
	"DropResetLater": search(timed.Quickly(2), timedAfter,
		func(s *scene) { s.queuedCanceled(hour).met(hour).resets(2 * hour); s.race(0) }),
	"DropResetTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.queuedCanceled(hour).met(hour).resets(0); s.race(tick) }),
	// The timeout is armed again, and canceled again.
	"DropResetCancel": search(timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedCanceled(hour)
		a.met(hour)
		s.Go(func() { a.reset(2 * hour); a.cancel() })
		s.race(0)
	}),
	"DropResetReset": search(plain.Bounded(3), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(hour)
		s.prompt = false // one Reset may leave the push to the other, which is late with it
		a.met(hour).resets(0).resets(0)
		s.race(0)
	}),
	"DropCancelReset": search(timed.Bounded(3).Quickly(1), timedAfter,
		func(s *scene) { s.queuedAlone(hour).met(hour).cancels().resets(0); s.race(0) }),
	"DropStop": search(timed.Quickly(2), timedAfter, func(s *scene) { s.queuedCanceled(hour).met(hour); s.stops(); s.race(0) }),
	"DropStopTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.queuedCanceled(hour).met(hour); s.stops(); s.race(tick) }),
	"DropStopReset": search(plain.Bounded(3), timed.Bounded(3),
		func(s *scene) { s.queuedCanceled(hour).met(hour).resets(2 * hour); s.stops(); s.race(0) }),
	// All other slots have pending timeouts, so that the hands of two producers meet the same one.
	"DropLap": search(plain.Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.queuedCanceled(hour)
		for range minSlots - 1 {
			s.pending(hour)
		}
		a.met(hour)
		s.arms(hour)
		s.race(0)
	}),

	// The hand skips a pending timeout.
	"SkipTaken":  search(plain.Quickly(3), timed, func(s *scene) { s.queuedAlone(hour).met(hour); s.race(tick) }),
	"SkipCancel": search(timed.Quickly(2), timedAfter, func(s *scene) { s.queuedAlone(hour).met(hour).cancels(); s.race(0) }),
	"SkipReset":  search(timed.Quickly(2), timedAfter, func(s *scene) { s.queuedAlone(hour).met(hour).resets(0); s.race(0) }),
	"SkipResetTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.queued().met(hour).resets(0); s.race(tick) }),
	"SkipStop": search(timed.Quickly(2), timedAfter, func(s *scene) { s.queuedAlone(hour).met(hour); s.stops(); s.race(0) }),

	// A lap makes the nursery grow.
	"GrowTaken": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { s.fullAlone(hour); s.arms(hour); s.race(tick) }),
	"GrowSwept": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { s.fullAlone(hour); s.sweeps(); s.arms(hour); s.race(tick) }),
	"GrowArm": search(timed.Quickly(2), timed, func(s *scene) { s.fullAlone(hour); s.arms(hour); s.arms(2 * hour); s.race(0) }),
	"GrowArmTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.fullAlone(hour); s.arms(hour); s.arms(2 * hour); s.race(tick) }),
	// One of the producers may fill a slot of the table that the other has left to the worker.
	"GrowNear": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.fullAlone(hour); s.arms(hour); s.arms(0); s.race(tick) }),
	"GrowReset": search(timed.Quickly(2), timed, func(s *scene) { a := s.fullAlone(hour); s.arms(hour); a.resets(0); s.race(0) }),
	"GrowResetTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { a := s.fullAlone(hour); s.arms(hour); a.resets(0); s.race(tick) }),
	"GrowCancelReset": search(timed.Quickly(2), timed, func(s *scene) {
		a := s.fullAlone(hour)
		s.arms(hour)
		s.Go(func() { a.cancel(); a.reset(2 * hour) })
		s.race(0)
	}),
	"GrowStop": search(timed.Quickly(2), timed, func(s *scene) { s.fullAlone(hour); s.arms(hour); s.stops(); s.race(0) }),
	"GrowStopTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.fullAlone(hour); s.arms(hour); s.stops(); s.race(tick) }),

	// The worker takes the table that a nursery has left to it. The slots there were all filled with near or with far timeouts.
	"OlderFarCancel": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { a := s.fullAlone(hour); s.pending(hour); a.cancels(); s.race(tick) }),
	"OlderFarReset": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { a := s.fullAlone(hour); s.pending(hour); a.resets(0); s.race(tick) }),
	"OlderFarStop": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { s.fullAlone(hour); s.pending(hour); s.stops(); s.race(tick) }),
	"OlderNearCancel": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { a := s.fullAlone(tick); s.pending(hour); a.cancels(); s.race(tick) }),
	"OlderNearReset": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { a := s.fullAlone(tick); s.pending(hour); a.resets(0); s.race(tick) }),
	"OlderNearStop": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { s.fullAlone(tick); s.pending(hour); s.stops(); s.race(tick) }),

	// A sweep takes a pending timeout that is old.
	"OldMet":        search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.old().met(hour); s.race(tick) }),
	"OldCancel":     search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.old().cancels(); s.race(tick) }),
	"OldReset":      search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.old().resets(0); s.race(tick) }),
	"OldResetLater": search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.old().resets(2 * hour); s.race(tick) }),
	"OldResetReset": search(plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.old()
		s.prompt = false // one Reset may leave the slot to the other, which is late with it
		a.resets(0).resets(0)
		s.race(tick)
	}),
	"OldCancelReset": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { a := s.old(); s.Go(func() { a.cancel(); a.reset(0) }); s.race(tick) }),
	"OldStop": search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.old(); s.stops(); s.race(tick) }),
	"OldResetStop": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.old().resets(0); s.stops(); s.race(tick) }),
	// A sweep empties the slot of a canceled timeout, which a producer fills.
	"SweptArm": search(plain.Bounded(4).Quickly(3), timed,
		func(s *scene) { a := s.queuedCanceled(hour); s.sweeps(); a.met(hour); s.race(tick) }),
	"SweptArmNear": search(plain.Bounded(4).Quickly(3), timed,
		func(s *scene) { a := s.queuedCanceled(hour); s.sweeps(); a.met(0); s.race(tick) }),

	// A sweep gives back a table that has grown.
	"GiveBackArm": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { s.inLarge(); s.sweeps(); s.arms(hour); s.race(tick) }),
	"GiveBackArmNear": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { s.inLarge(); s.sweeps(); s.arms(0); s.race(tick) }),
	"GiveBackTwo": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.inLarge(); s.sweeps(); s.arms(hour); s.arms(0); s.race(tick) }),
	"GiveBackReset": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { a := s.inLarge(); s.sweepAt(0); a.resets(0); s.race(tick) }),
	"GiveBackCancelReset": search(plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.inLarge()
		s.sweepAt(0)
		s.Go(func() { a.cancel(); a.reset(0) })
		s.race(tick)
	}),
	"GiveBackStop": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { s.inLarge(); s.sweepAt(0); s.stops(); s.race(tick) }),
	"GiveBackArmStop": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { s.inLarge(); s.sweeps(); s.arms(hour); s.stops(); s.race(tick) }),

	// The worker takes what is near, while another one comes into the same block, or another round is at work.
	"NearArm":        search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.queuedAlone(0); s.arms(0); s.race(tick) }),
	"NearArmFar":     search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.queuedAlone(0); s.arms(2 * tick); s.race(tick) }),
	"NearMet":        search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.queuedAlone(0).met(0); s.race(tick) }),
	"NearBoundaries": search(twice.Quickly(1), twiceAfter, func(s *scene) { s.queuedAlone(tick).met(0); s.race(0) }),
	"NearReset":      search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.queuedAlone(2 * tick).resets(0); s.race(tick) }),

	// Inboxes
	"PushPush": search(plain.Bounded(4).Quickly(3), timed,
		func(s *scene) { a, b := s.placed(); a.cancels(); b.resets(0); s.race(0) }),
	"PushPushTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { a, b := s.placed(); a.cancels(); b.resets(0); s.race(tick) }),
	"PushTaken": search(plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a, b := s.placed()
		b.cancel()
		s.Go(func() { a.reset(0); a.cancel() })
		s.race(tick)
	}),
	// The timeout is taken from the inbox, and pushed again.
	"PushAgain": search(plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a, _ := s.placed()
		s.Go(func() { a.cancel(); a.reset(hour); a.reset(tick) })
		s.race(tick)
	}),
	// The count of what waits on an inbox is never below zero, which would be a great number.
	"Waiting": search(plain, plain, func(s *scene) {
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
	}),
	"PushStop": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { a, b := s.placed(); a.resets(0); b.cancels(); s.stops(); s.race(0) }),
	"PushStopTaken": search(plain.Bounded(3).Quickly(2), timed.Bounded(3),
		func(s *scene) { a, b := s.placed(); b.reset(tick); a.resets(0); s.stops(); s.race(tick) }),

	// A walk finds each timeout that is pending all the time, once, while a round, or Stop, takes the timeouts from where it looks.
	// In scenes it takes one at a time.
	"WalkNursery": search(plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.queuedAlone(hour)
		b := s.pending(2 * hour)
		s.sweeps()
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	}),
	"WalkGrown": search(plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		b := s.fullAlone(hour)
		a := s.pending(hour)
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	}),
	"WalkGrows": search(plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		b := s.fullAlone(hour)
		a := b
		s.arms(hour)
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	}),
	"WalkInbox": search(plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a, b := s.placed()
		a.reset(hour / 2)
		b.reset(hour / 2)
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	}),
	"WalkInboxPush": search(plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a, b := s.placed()
		a.reset(hour / 2)
		b.reset(hour / 2)
		s.pending(hour).resets(hour / 2)
		found := s.walks()
		s.race(tick)
		require.Equal(s, 1, found(a))
		require.Equal(s, 1, found(b))
	}),
	"WalkInboxStop": search(plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a, b := s.placed()
		a.reset(hour / 2)
		b.reset(hour / 2)
		s.stops()
		found := s.walks()
		s.race(tick)
		require.LessOrEqual(s, found(a), 1)
		require.LessOrEqual(s, found(b), 1)
	}),
	"WalkNurseryStop": search(plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedAlone(hour)
		b := s.pending(2 * hour)
		s.sweeps()
		s.stops()
		found := s.walks()
		s.race(tick)
		require.LessOrEqual(s, found(a), 1)
		require.LessOrEqual(s, found(b), 1)
	}),
})
