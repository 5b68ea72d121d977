package hashedwheel

import (
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// No wake-up is lost, whatever the order of the steps. Racers arm timeouts while a round starts or ends.

func TestStepsUnusedOne(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		s.tickAway(0)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(0)
	})
}

func TestStepsUnusedTwo(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(0) })
		s.Go(func() { b.arm(tick) })
		s.race(0)
	})
}

func TestStepsUnusedTwoStripes(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.twoStripes()
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.armOn(0, 0) })
		s.Go(func() { b.armOn(1, tick) })
		s.race(0)
	})
}

func TestStepsRestingOne(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		s.pending(hour)
		s.tickAway(3)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(0)
	})
}

func TestStepsRestingTwo(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.pending(hour)
		s.tickAway(3)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(0) })
		s.Go(func() { b.arm(tick) })
		s.race(0)
	})
}

func TestStepsRestingTwoStripes(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.twoStripes()
		s.pending(hour)
		s.tickAway(3)
		a, b := s.act(), s.act()
		s.Go(func() { a.armOn(0, 0) })
		s.Go(func() { b.armOn(1, tick) })
		s.race(0)
	})
}

// Nothing was armed in the last tick, and the worker is about to rest.
func TestStepsRestsOne(t *testing.T) {
	search(t, timedAfter.Quickly(2), twiceAfter, func(s *scene) {
		s.pending(hour)
		s.tickAway(0)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(tick)
	})
}

func TestStepsRestsTwo(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.pending(hour)
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(0) })
		s.Go(func() { b.arm(tick) })
		s.race(tick)
	})
}

// The only timeout has been canceled, and the worker is about to rest.
func TestStepsEndsOne(t *testing.T) {
	search(t, timedAfter.Quickly(2), twiceAfter, func(s *scene) {
		s.pending(hour).cancel(0)
		s.tickAway(0)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(tick)
	})
}

func TestStepsEndsTwo(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.pending(hour).cancel(0)
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(0) })
		s.Go(func() { b.arm(tick) })
		s.race(tick)
	})
}

func TestStepsEndsTwoStripes(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.twoStripes()
		s.pending(hour).cancel(0)
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.armOn(0, 0) })
		s.Go(func() { b.armOn(1, tick) })
		s.race(tick)
	})
}

// The only timeout has expired at the last boundary.
func TestStepsEndsExpired(t *testing.T) {
	search(t, timedAfter.Quickly(2), twiceAfter, func(s *scene) {
		s.pending(0)
		s.tickAway(1)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(tick)
	})
}

// The only timeout expires while another one is armed, and the worker may rest.
func TestStepsExpires(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.pending(0)
		s.tickAway(0)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(tick)
	})
}

// The worker rests until the only timeout is due. This timeout is canceled while another one is armed.
func TestStepsCanceled(t *testing.T) {
	search(t, plain, timedAfter, func(s *scene) {
		a, b := s.pending(hour), s.act()
		s.tickAway(3)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { b.arm(0) })
		s.race(0)
	})
}

// A round starts for a timeout that is canceled at once, while others are armed.
func TestStepsStarts(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(hour); a.cancel(0) })
		s.Go(func() { b.arm(0) })
		s.race(0)
	})
}

func TestStepsStartsThree(t *testing.T) {
	if !explore.Full() {
		t.Skip("takes long: runs with HASHEDWHEEL_EXPLORE=full")
	}
	search(t, plain, plain, func(s *scene) {
		s.tickAway(0)
		a, b, c := s.act(), s.act(), s.act()
		s.Go(func() { a.arm(hour); a.cancel(0) })
		s.Go(func() { b.arm(0) })
		s.Go(func() { c.arm(tick) })
		s.race(0)
	})
}
