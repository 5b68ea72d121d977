package hashedwheel

import "testing"

// In each scene, three of push, Cancel, Reset, expiry and Stop happen at the same time. Other scenes with three of
// them are in the files of the scenes with two.

func TestStepsStopCancelReset(t *testing.T) {
	search(t, plain.Bounded(3), plain, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsPushCancelReset(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		b := s.act()
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.Go(func() { b.arm(0) })
		s.race(0)
	})
}

func TestStepsPushCancelExpiry(t *testing.T) {
	search(t, plain.Bounded(3), plain, func(s *scene) {
		a := s.pending(0)
		s.tickAway(0)
		b := s.act()
		s.Go(func() { a.cancel(0) })
		s.Go(func() { b.arm(0) })
		s.race(tick)
	})
}

func TestStepsPushResetExpiry(t *testing.T) {
	search(t, plain.Bounded(3), plain, func(s *scene) {
		a := s.pending(0)
		s.tickAway(0)
		b := s.act()
		s.Go(func() { a.reset(2 * tick) })
		s.Go(func() { b.arm(0) })
		s.race(tick)
	})
}

func TestStepsPushStopCancel(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		b := s.act()
		s.Go(func() { a.cancel(0) })
		s.Go(func() { b.arm(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsPushStopReset(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		b := s.act()
		s.Go(func() { a.reset(0) })
		s.Go(func() { b.arm(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsPushStopExpiry(t *testing.T) {
	search(t, plain.Bounded(3), plain, func(s *scene) {
		s.pending(0)
		s.tickAway(0)
		b := s.act()
		s.Go(func() { b.arm(0) })
		s.Go(s.stop)
		s.race(tick)
	})
}
