package hashedwheel

import (
	"testing"

	"github.com/hashedwheel/hashedwheel/testdata/explore"
)

// No wake-up is lost, whatever the order of the steps. Racers arm timeouts while the worker starts, ends, falls
// asleep or wakes up.

func TestStepsAbsentOne(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		s.tickAway(0)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(0)
	})
}

func TestStepsAbsentTwo(t *testing.T) {
	search(t, timed.Quickly(4), timedAfter, func(s *scene) {
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(0) })
		s.Go(func() { b.arm(tick) })
		s.race(0)
	})
}

func TestStepsAbsentTwoStripes(t *testing.T) {
	search(t, timed, timedAfter, func(s *scene) {
		s.twoStripes()
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.armOn(0, 0) })
		s.Go(func() { b.armOn(1, tick) })
		s.race(0)
	})
}

func TestStepsAsleepOne(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		s.pending(hour)
		s.tickAway(3)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(0)
	})
}

func TestStepsAsleepTwo(t *testing.T) {
	search(t, timed.Quickly(4), timedAfter, func(s *scene) {
		s.pending(hour)
		s.tickAway(3)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(0) })
		s.Go(func() { b.arm(tick) })
		s.race(0)
	})
}

func TestStepsAsleepTwoStripes(t *testing.T) {
	search(t, timed, timedAfter, func(s *scene) {
		s.twoStripes()
		s.pending(hour)
		s.tickAway(3)
		a, b := s.act(), s.act()
		s.Go(func() { a.armOn(0, 0) })
		s.Go(func() { b.armOn(1, tick) })
		s.race(0)
	})
}

// The worker has been awake for a tick in which nothing was armed, and is about to fall asleep.
func TestStepsFallsAsleepOne(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		s.pending(hour)
		s.tickAway(0)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(tick)
	})
}

func TestStepsFallsAsleepTwo(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.pending(hour)
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(0) })
		s.Go(func() { b.arm(tick) })
		s.race(tick)
	})
}

// The only timeout has been canceled, and the worker is about to end.
func TestStepsEndsOne(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		s.pending(hour).cancel(0)
		s.tickAway(0)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(tick)
	})
}

func TestStepsEndsTwo(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.pending(hour).cancel(0)
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(0) })
		s.Go(func() { b.arm(tick) })
		s.race(tick)
	})
}

func TestStepsEndsTwoStripes(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
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
	search(t, timedAfter, twiceAfter, func(s *scene) {
		s.pending(0)
		s.tickAway(1)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(tick)
	})
}

// The only timeout expires while another one is armed, and the worker may end.
func TestStepsExpires(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.pending(0)
		s.tickAway(0)
		a := s.act()
		s.Go(func() { a.arm(0) })
		s.race(tick)
	})
}

// The worker sleeps until the only timeout is due. This timeout is canceled while another one is armed.
func TestStepsCanceled(t *testing.T) {
	search(t, plain, timedAfter, func(s *scene) {
		a, b := s.pending(hour), s.act()
		s.tickAway(3)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { b.arm(0) })
		s.race(0)
	})
}

// The worker is started for a timeout that is canceled at once, while others are armed.
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
