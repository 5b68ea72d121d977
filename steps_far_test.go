package hashedwheel

import (
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// The worker leaves far timeouts in nurseries, and sweeps them from time to time. In these scenes a timeout is near if it is due
// within three ticks after the last round, and the worker sweeps at the second boundary. Whatever the order of the steps, it takes
// each timeout in time: at the tick at which the timeout becomes near, or in the next round if a Reset has hurried it.

const nearTicks = 3

// slowly makes the worker come at the fourth boundary, unless it must come before.
func (s *scene) slowly() {
	s.timer.queue.horizon = nearTicks
	s.sweepAt(4 * tick)
}

// far returns an act whose timeout is in the nursery. The worker is idle, and the next round is in one and a half
// ticks.
func (s *scene) far(delay time.Duration) *act {
	a := s.own()
	s.prompt = true
	s.tickAway(2)
	s.slowly()
	a.reset(delay)
	synctest.Wait()
	require.Less(s, s.timer.worker.state.Load(), resting)
	require.Less(s, (s.timer.worker.progress.nextTick())<<idleShift, s.timer.worker.state.Load())
	require.NotZero(s, a.to.word.Load()&young)
	return a
}

// known returns an act whose timeout is in a bucket. Another timeout is in the nursery.
func (s *scene) known(delay time.Duration) *act {
	a := s.pending(delay)
	s.tickAway(1)
	s.far(hour)
	return a
}

// pause makes the next round take all timeouts.
func (s *scene) pause() {
	s.sweeps()
	s.sweepAt(4 * tick)
}

// checkRings checks that the worker looks in time at each timeout that is on the queue. No round is in progress, and no producer
// fills a slot.
func (s *scene) checkRings() {
	q := &s.timer.queue
	for i, a := range s.acts {
		if a.to == nil || s.timer.IsStopped() {
			continue
		}
		word := a.to.word.Load()
		if status(word) != pending || !onQueue(word) {
			continue
		}
		by := q.nearAt(tickOf(word))
		if word&(queued|hurried) != 0 {
			by = soon
		}
		looks := uint64(ticks.Never)
		for i := range q.stripes {
			for to := q.stripes[i].inbox.Load(); to != nil; to = to.next {
				if to == a.to {
					looks = soon
				}
			}
			looks = min(looks, q.stripes[i].nursery.looksAt(a.to))
		}
		require.LessOrEqual(s, looks, by, "act %d: the worker looks too late", i)
	}
}

// looksAt returns the tick by which the worker looks at a slot that leads to the timeout.
func (r *ring) looksAt(to *Timeout) uint64 {
	first := uint64(ticks.Never)
	for t := r.table.Load(); t != nil; t = t.older.Load() {
		for i := range t.slots {
			if t.slots[i].Load() == to {
				first = min(first, max(r.by.Load(), t.blocks[i/blockSize].by.Load()))
			}
		}
	}
	return first
}

func (s *scene) unused(a *act, delay time.Duration) {
	a.reset(delay)
	s.tickAway(int(keepMemory / tick))
	require.NotNil(s, s.timer.worker.wheel)
}

var _ = scenarios.Add(explore.Scenarios{
	// A far timeout is reset to the next tick, or to one that becomes near later. The worker has not taken it: the Reset
	// puts it into a second slot, unless a round takes it before.
	"FarReset":      search(timed, timedAfter, func(s *scene) { s.far(hour).resets(0); s.race(0) }),
	"FarResetRound": search(plain, timed, func(s *scene) { s.far(hour).resets(0); s.race(2 * tick) }),
	"FarResetPause": search(plain, timed, func(s *scene) { a := s.far(hour); s.pause(); a.resets(0); s.race(2 * tick) }),
	"FarResetLater": search(plain, timed, func(s *scene) { a := s.far(hour); s.pause(); a.resets(4 * tick); s.race(2 * tick) }),
	// Two are reset, and the round that one of them starts may end before the other is reset.
	"FarResetTwo": search(plain.Bounded(3), timed,
		func(s *scene) { a := s.far(hour); b := s.pending(hour); a.resets(0); b.resets(4 * tick); s.race(0) }),
	// It has been canceled. With a limit, Reset has to take a slot.
	"FarResetCanceled": search(timed, timedAfter,
		func(s *scene) { s.limited(2); a := s.far(hour); a.cancel(); a.resets(0); s.race(0) }),

	// It has been hurried already, for a tick that becomes near later, or is canceled. So a second Reset needs no slot. The worker must
	// come in time all the same, also if the first Reset has not filled its slot yet.
	"FarResetTwice": search(timed, timedAfter, func(s *scene) { a := s.far(hour); a.reset(hour / 2); a.resets(0); s.race(0) }),
	"FarResetsMeet": search(plain, timed, func(s *scene) {
		a := s.far(hour)
		s.prompt = false // the Reset that comes first fills a slot for both, and may be late with it
		s.Go(func() {
			if active, _ := a.to.Reset(hour / 2); !active {
				a.armed++ // it has expired at the deadline of the other
			}
		})
		s.Go(func() { a.to.Reset(0) })
		s.Race(0)
		a.until = time.Duration(tickOf(a.word())) * tick // of the Reset that came last
		a.from = a.until - tick
		s.check()
	}),
	"FarResetCancelReset": search(plain, timed, func(s *scene) {
		a := s.far(hour)
		a.reset(hour / 2)
		s.Go(func() { a.cancel(); a.reset(0) })
		s.race(0)
	}),

	// The hand meets it.
	"FarResetMet": search(plain.Bounded(3), timed.Bounded(3), func(s *scene) { s.far(hour).met(hour).resets(0); s.race(0) }),
	"FarResetMetRound": search(plain.Bounded(2), timed.Bounded(3),
		func(s *scene) { s.far(hour).met(hour).resets(0); s.race(2 * tick) }),
	"FarResetMetLater": search(plain.Bounded(2), timed.Bounded(3),
		func(s *scene) { a := s.far(hour); s.pause(); a.met(hour).resets(4 * tick); s.race(2 * tick) }),
	// It has been canceled, so the hand drops it, unless it is armed again before.
	"FarResetMetCanceled": search(plain.Bounded(2), timed.Bounded(3),
		func(s *scene) { a := s.far(hour); a.cancel(); a.met(hour).resets(2 * hour); s.race(0) }),

	// A far timeout is armed, while a round takes what has become near.
	"FarPushTaken": search(plain, timed, func(s *scene) { s.far(4 * tick); s.arms(4 * tick); s.race(2 * tick) }),
	"FarPushPause": search(plain, timed, func(s *scene) { s.far(hour); s.pause(); s.arms(4 * tick); s.race(2 * tick) }),

	// A round takes what has become near, while the hand skips it.
	"FarPassTaken": search(plain.Bounded(4).Quickly(3), timed, func(s *scene) { s.far(4 * tick).met(hour); s.race(2 * tick) }),
	// The timeouts of two slots become near at different ticks. The round takes one, and lowers the tick of its block for
	// the other.
	"FarTwoInABlock": search(plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.tickAway(1)
		s.pending(hour).cancel()
		s.handBefore(0)
		s.far(4 * tick)
		s.pending(6 * tick)
		s.arms(5 * tick)
		s.race(2 * tick)
	}),
	// The hand drops one that has been canceled, and the round comes to the slot for the new one.
	"FarDropTaken": search(plain.Bounded(4).Quickly(3), timed,
		func(s *scene) { a := s.far(4 * tick); a.cancel(); a.met(4 * tick); s.race(2 * tick) }),
	// The nursery grows, and the round takes what is near, or all that is in the table that the nursery has left to it.
	"FarGrowTaken": search(plain.Bounded(4).Quickly(3), timed.Bounded(4),
		func(s *scene) { s.far(4 * tick); s.full(5 * tick); s.arms(4 * tick); s.race(2 * tick) }),
	// A round takes all that is in a table that has grown, and a Reset fills a slot of the next one.
	"FarGrownReset": search(plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.far(hour)
		s.full(hour)
		s.arms(4 * tick)
		a.resets(3 * tick)
		s.race(2 * tick)
	}),
	"FarStop": search(plain, timed, func(s *scene) { s.far(hour).resets(0); s.stops(); s.race(0) }),
	// The worker takes the timeout, while the Reset is about to move it and Stop begins.
	"FarResetStop": search(plain.Bounded(3), timed.Bounded(3),
		func(s *scene) { a := s.far(hour); s.pause(); a.resets(0); s.stops(); s.race(2 * tick) }),

	// A far timeout is on the queue, and the round at the boundary is in progress, while something is pushed.
	"WatchesNear": search(timed.Quickly(3), timedAfter, func(s *scene) { s.far(hour); s.arms(0); s.race(2 * tick) }),
	"WatchesNearFar": search(plain.Bounded(3).Quickly(2), timed,
		func(s *scene) { s.far(hour); s.arms(0); s.arms(4 * tick); s.race(2 * tick) }),
	"WatchesCancel": search(timed.Quickly(3), timedAfter, func(s *scene) { s.known(hour).cancels(); s.race(2 * tick) }),
	"WatchesReset":  search(timed.Quickly(3), timedAfter, func(s *scene) { s.known(hour).resets(0); s.race(2 * tick) }),
	// The alarm may go off while another round is in progress.
	"WatchesWakeNow": search(timed.Bounded(2).Quickly(1), timed,
		func(s *scene) { s.far(hour); s.Go(s.timer.worker.wakeNow); s.arms(0); s.race(2 * tick) }),
	"WatchesStop": search(plain.Bounded(4).Quickly(3), timed,
		func(s *scene) { s.far(hour); s.arms(0); s.stops(); s.race(2 * tick) }),
	"WakeNowStop": search(timed.Quickly(3), timed,
		func(s *scene) { s.far(hour); s.Go(s.timer.worker.wakeNow); s.stops(); s.race(2 * tick) }),
	// The worker is about to rest, while a far timeout is armed.
	"RestsFar": search(timed.Quickly(3), timedAfter,
		func(s *scene) { s.slowly(); s.pending(0); s.tickAway(1); s.arms(4 * tick); s.race(tick) }),

	// Nothing has been pending for some time, and the worker is about to give back its memory.
	"Releases": search(timed.Quickly(3), timedAfter, func(s *scene) { a := s.own(); s.unused(a, 0); a.resets(0); s.race(tick) }),
	"ReleasesArm": search(plain, timedAfter,
		func(s *scene) { a, b := s.own(), s.act(); s.unused(a, 0); s.Go(func() { b.arm(0) }); s.race(tick) }),
	"ReleasesTwo": search(plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a, b := s.own(), s.act()
		s.unused(a, 0)
		a.resets(tick)
		s.Go(func() { b.arm(0) })
		s.race(tick)
	}),
	"ReleasesStop": search(plain.Bounded(4).Quickly(3), timed,
		func(s *scene) { a := s.own(); s.unused(a, 0); a.resets(0); s.stops(); s.race(tick) }),
})
