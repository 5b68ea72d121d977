package hashedwheel

import (
	"context"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// Stop returns each timeout that has been armed and has not ended, whatever the order of the steps. An arming
// that comes too late for this is refused.

// A canceler is a task that notes that it was notified.
type canceler struct {
	plainFunc
	notified explore.Bool
}

func (c *canceler) Canceled(*Timeout) { c.notified.Store(true) }

// canceler returns an act whose timeout is armed, with a canceler.
func (s *scene) canceler() (*act, *canceler) {
	a := s.act()
	c := &canceler{plainFunc: a.run}
	from := s.now()
	a.to, a.err = s.timer.NewTimeout(c, hour)
	a.note(from, hour, a.err == nil)
	return a, c
}

func (s *scene) raceToShutDown(a *act, c *canceler) {
	var err error
	notified := false
	s.Go(func() { a.cancel() })
	s.Go(func() {
		s.left, err = s.timer.Shutdown(context.Background())
		notified = c.notified.Load()
	})
	s.race(0)
	require.NoError(s, err)
	require.True(s, notified, "Shutdown returned before the Canceler was notified")
}

var _ = scenarios.Add(explore.Scenarios{
	"StopUnused":  search(plain, timedAfter, func(s *scene) { s.tickAway(0); s.arms(0); s.stops(); s.race(0) }),
	"StopResting": search(plain, timedAfter, func(s *scene) { s.pending(hour); s.tickAway(3); s.arms(0); s.stops(); s.race(0) }),
	"StopRests":   search(plain, timed, func(s *scene) { s.pending(hour); s.tickAway(0); s.arms(0); s.stops(); s.race(tick) }),
	"StopEnds": search(plain, timed,
		func(s *scene) { s.pending(hour).cancel(); s.tickAway(0); s.arms(0); s.stops(); s.race(tick) }),
	"StopExpiry": search(plain.Quickly(4), timed, func(s *scene) { s.pending(0); s.tickAway(0); s.stops(); s.race(tick) }),
	"StopCancel": search(timedAfter, twiceAfter,
		func(s *scene) { a := s.pending(hour); s.tickAway(3); a.cancels(); s.stops(); s.race(0) }),
	"StopCancelExpiry": search(plain.Bounded(4).Quickly(3), plain,
		func(s *scene) { a := s.pending(0); s.tickAway(0); a.cancels(); s.stops(); s.race(tick) }),
	"StopReset": search(plain, timedAfter,
		func(s *scene) { a := s.pending(hour); s.tickAway(3); a.resets(0); s.stops(); s.race(0) }),
	"StopResetExpiry": search(plain.Bounded(4).Quickly(3), plain,
		func(s *scene) { a := s.pending(0); s.tickAway(0); a.resets(2 * tick); s.stops(); s.race(tick) }),
	// A timeout that has ended is armed again.
	"StopResetEnded": search(plain, timedAfter,
		func(s *scene) { a := s.pending(0); s.tickAway(1); a.resets(0); s.stops(); s.race(0) }),
	"StopResetCanceled": search(plain, timedAfter, func(s *scene) {
		s.pending(hour)
		a := s.pending(hour)
		a.cancel()
		s.tickAway(3)
		a.resets(0)
		s.stops()
		s.race(0)
	}),
	"StopStop": search(timedAfter, twiceAfter, func(s *scene) {
		s.pending(hour)
		s.tickAway(3)
		s.stops()
		var left []*Timeout
		s.Go(func() { left = s.timer.Stop() })
		s.Race(0)
		s.left = append(s.left, left...)
		s.check()
	}),

	// When Shutdown returns, a Canceler has been notified, whether Stop or a Cancel at the same time has ended its timeout. The
	// timeout is in a bucket, or still on the queue.
	"ShutdownCanceler": search(plain.Quickly(4), timed,
		func(s *scene) { a, notified := s.canceler(); s.tickAway(3); s.raceToShutDown(a, notified) }),
	"ShutdownCancelerQueued": search(plain.Quickly(4), timed, func(s *scene) { s.raceToShutDown(s.canceler()) }),
	// A run of a repeating timeout ends while the timer stops. Meanwhile rounds take place, because another timeout
	// has been canceled.
	"StopRunEnds": search(plain.Quickly(4), timed, func(s *scene) {
		b := s.pending(hour)
		s.runs()
		s.pending(hour) // starts a round
		synctest.Wait()
		b.cancel()
		s.stops()
		s.race(tick)
	}),
	// A run of a repeating timeout ends while the timer stops, and its next run is already due. So the timeout is only with
	// its runner.
	"StopRunIsDueAgain": search(plain.Quickly(4), timed, func(s *scene) {
		a := s.act()
		a.repeats, a.held = true, make(chan struct{})
		from := s.now()
		a.to, a.err = s.timer.ScheduleAtFixedRate(plainFunc(a.run), 0, tick)
		a.note(from, 0, a.err == nil)
		s.tickAway(2)
		s.Go(func() { close(a.held) })
		s.stops()
		s.race(0)
	}),
	// A runner finds that a timeout it has taken was reset, and puts it on the queue again.
	"StopResetTaken": search(plain, timedAfter, func(s *scene) {
		b := s.holding()
		a := s.pending(hour)
		s.tickAway(3)
		s.timer.worker.wheel.remove(a.to)
		s.timer.tasks.Add(a.to) // waits behind b
		s.Go(func() { close(b.held) })
		s.stops()
		s.race(0)
	}),
	// Close of a group cancels its timeout, or the timeout has expired when Close returns.
	"CloseExpiry": search(plain.Bounded(4), plain, func(s *scene) {
		g := NewGroup(s.timer)
		a := s.act()
		from := s.now()
		a.to, a.err = g.AfterFunc(0, a.run)
		a.note(from, 0, a.err == nil)
		s.tickAway(0)
		var left uint64
		s.Go(func() {
			a.wins += g.Close()
			left = status(a.word())
		})
		s.race(tick)
		require.NotEqual(s, uint64(pending), left, "still pending when Close had returned")
		require.Zero(s, g.Len())
	}),
	// A group is closed while the timer is stopped. One of the two has the timeout, and counts it.
	"CloseStop": search(plain, timed, func(s *scene) {
		g := NewGroup(s.timer)
		a := s.act()
		a.to, a.err = g.AfterFunc(hour, a.run)
		a.note(s.now(), hour, a.err == nil)
		s.tickAway(0)
		s.Go(func() { a.wins += g.Close() })
		s.stops()
		s.race(0)
		require.Equal(s, 1, a.wins+len(s.left))
	}),
	// A member that has ended is reset while its group is closed.
	"CloseReset": search(plain, timed, func(s *scene) {
		g := NewGroup(s.timer)
		a := s.act()
		a.to, a.err = g.AfterFunc(hour, a.run)
		a.note(s.now(), hour, a.err == nil)
		a.cancel()
		s.tickAway(2)
		a.resets(hour)
		s.Go(func() { a.wins += g.Close() })
		s.race(0)
		require.Zero(s, g.Len())
		require.Zero(s, s.timer.Pending())
	}),
	// The executor runs a due timeout while the timer stops.
	"StopExecutor": search(plain.Bounded(5), plain,
		func(s *scene) { s.useExecutor(); s.pending(0); s.tickAway(0); s.stops(); s.race(tick) }),
	// A Cancel has set the bit queued, and not pushed the timeout yet. A Reset relies on it, so the runner that has the timeout drops
	// it.
	"StopCancelResetDropped": search(plain.Bounded(2), plain.Bounded(2), func(s *scene) {
		b := s.holding()
		s.tickAway(1)
		a := s.pending(0) // waits behind b
		s.tickAway(3)
		a.cancels()
		s.Go(func() {
			a.reset(hour)
			close(b.held)
		})
		s.stops()
		s.race(0)
	}),
	// A Reset to an earlier tick, for which the caller has read the clock two ticks ago, is held up again halfway. Meanwhile a
	// Cancel ends the timeout, the worker visits its bucket, another Reset arms it again, and the timer is stopped. Stop waits for
	// the first Reset, which has yet to put the timeout where Stop finds it.
	"StopResetIsHeldUp": search(plain.Bounded(1), plain.Bounded(4), func(s *scene) {
		a := s.pending(4 * tick)
		s.tickAway(2)
		old, due := a.to.Deadline(), s.timer.clock.DueIn(0)
		var over explore.Bool // the first Reset
		s.Go(func() {
			a.resetTo(due)
			over.Store(true)
		})
		s.Go(func() {
			if over.Load() || a.to.Deadline().Equal(old) {
				return // the first Reset is not halfway: this leaves out most orders
			}
			a.cancel()
			a.reset(hour)
			s.stop()
		})
		s.race(2 * tick)
	}),
})
