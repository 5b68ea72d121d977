package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"
)

// A look at the wall clock, or a claim, gives a timeout another tick, because the clock was set. Meanwhile other
// goroutines end or move the timeout.

// byWall returns an act whose timeout follows the wall clock, and is armed: due after a delay, and an hour after each run.
// Set sets the wall clock forward.
func (s *scene) byWall(delay time.Duration) (a *act, set func(by time.Duration)) {
	a = s.act()
	a.repeats = true
	ahead := time.Duration(0)
	s.timer.wallClock().Ahead = func() time.Duration { return ahead }
	from := s.now()
	next := oneIn(delay)
	a.to, a.err = s.timer.Schedule(plainFunc(a.run), &next)
	a.note(from, delay, a.err == nil)
	return a, func(by time.Duration) {
		ahead += by
		a.from, a.until = a.from-by, max(a.until-by, 0)
	}
}

// oneIn is a schedule with a run after that time, and then one each hour.
type oneIn time.Duration

func (a *oneIn) Next(prev time.Time) time.Time {
	d := *a
	*a = oneIn(hour)
	return prev.Add(time.Duration(d))
}

func TestStepsLookForwardExpiry(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		_, set := s.byWall(2*tick + hour)
		s.tickAway(1)
		set(hour)
		s.Go(s.timer.look)
		s.race(2 * tick)
	})
}

// The timeout comes due at its old tick while the look brings it forward.
func TestStepsLookForwardOldTick(t *testing.T) {
	search(t, timed, twice, func(s *scene) {
		_, set := s.byWall(2 * tick)
		s.tickAway(1)
		set(hour)
		s.Go(s.timer.look)
		s.race(0)
	})
}

func TestStepsLookForwardFar(t *testing.T) {
	search(t, timed, twice, func(s *scene) {
		a, set := s.byWall(hour)
		synctest.Wait()
		set(hour)
		s.Go(s.timer.look)
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsLookForwardCancel(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		a, set := s.byWall(hour)
		s.tickAway(3)
		set(hour)
		s.Go(s.timer.look)
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsLookForwardReset(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		a, set := s.byWall(hour)
		s.tickAway(3)
		set(hour)
		s.Go(s.timer.look)
		s.Go(func() {
			a.reset(2 * tick)
			a.from = 0 // it may have run before
		})
		s.race(0)
	})
}

func TestStepsLookForwardStop(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		_, set := s.byWall(hour)
		s.tickAway(3)
		set(hour)
		s.Go(s.timer.look)
		s.Go(s.stop)
		s.race(0)
	})
}

// The timeout is put off, by more than the clock may be ahead, while it comes due.
func TestStepsLookBackExpiry(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a, set := s.byWall(tick)
		s.tickAway(0)
		set(-hour)
		s.Go(s.timer.look)
		s.Go(func() { a.cancel(0) })
		s.race(tick)
	})
}

// A runner is about to claim the timeout, and puts it off.
func TestStepsClaimPutsOff(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		_, set := s.byWall(tick)
		s.tickAway(0)
		set(-2 * tick)
		s.race(tick)
	})
}

func TestStepsClaimPutsOffCancel(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a, set := s.byWall(tick)
		s.tickAway(0)
		set(-2 * tick)
		s.Go(func() { a.cancel(0) })
		s.race(tick)
	})
}

func TestStepsClaimPutsOffReset(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a, set := s.byWall(tick)
		s.tickAway(0)
		set(-2 * tick)
		s.Go(func() { a.reset(3 * tick) })
		s.race(tick)
	})
}

func TestStepsClaimPutsOffStop(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		_, set := s.byWall(tick)
		s.tickAway(0)
		set(-hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

// A run ends while a look takes place.
func TestStepsLookAtWork(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a, set := s.byWall(0)
		a.held = make(chan struct{})
		s.tickAway(2)
		s.Go(func() { close(a.held) })
		set(2 * hour)
		a.from, a.until = 0, 3*tick
		s.Go(s.timer.look)
		s.race(tick)
	})
}
