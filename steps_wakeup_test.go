package hashedwheel

import (
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// No wake-up is lost, whatever the order of the steps. Racers arm timeouts while a round starts or ends.

var _ = scenarios.Add(explore.Scenarios{
	"UnusedOne": search(timedAfter, twiceAfter, func(s *scene) { s.tickAway(0); s.arms(0); s.race(0) }),
	"UnusedTwo": search(timed.Quickly(2), timedAfter, func(s *scene) { s.tickAway(0); s.arms(0); s.arms(tick); s.race(0) }),
	"UnusedTwoStripes": search(timed.Quickly(2), timedAfter, func(s *scene) {
		s.twoStripes()
		s.tickAway(0)
		s.armsOn(0, 0)
		s.armsOn(1, tick)
		s.race(0)
	}),
	"RestingOne": search(timedAfter, twiceAfter, func(s *scene) { s.pending(hour); s.tickAway(3); s.arms(0); s.race(0) }),
	"RestingTwo": search(timed.Quickly(2), timedAfter,
		func(s *scene) { s.pending(hour); s.tickAway(3); s.arms(0); s.arms(tick); s.race(0) }),
	"RestingTwoStripes": search(timed.Quickly(2), timedAfter, func(s *scene) {
		s.twoStripes()
		s.pending(hour)
		s.tickAway(3)
		s.armsOn(0, 0)
		s.armsOn(1, tick)
		s.race(0)
	}),
	// Nothing was armed in the last tick, and the worker is about to rest.
	"RestsOne": search(timedAfter.Quickly(2), twiceAfter,
		func(s *scene) { s.pending(hour); s.tickAway(0); s.arms(0); s.race(tick) }),
	"RestsTwo": search(plain.Quickly(3), timed,
		func(s *scene) { s.pending(hour); s.tickAway(0); s.arms(0); s.arms(tick); s.race(tick) }),
	// The only timeout has been canceled, and the worker is about to rest.
	"EndsOne": search(timedAfter.Quickly(2), twiceAfter,
		func(s *scene) { s.pending(hour).cancel(); s.tickAway(0); s.arms(0); s.race(tick) }),
	"EndsTwo": search(plain.Quickly(3), timed,
		func(s *scene) { s.pending(hour).cancel(); s.tickAway(0); s.arms(0); s.arms(tick); s.race(tick) }),
	"EndsTwoStripes": search(plain.Quickly(3), timed, func(s *scene) {
		s.twoStripes()
		s.pending(hour).cancel()
		s.tickAway(0)
		s.armsOn(0, 0)
		s.armsOn(1, tick)
		s.race(tick)
	}),
	// The only timeout has expired at the last boundary.
	"EndsExpired": search(timedAfter.Quickly(2), twiceAfter,
		func(s *scene) { s.pending(0); s.tickAway(1); s.arms(0); s.race(tick) }),
	// The only timeout expires while another one is armed, and the worker may rest.
	"Expires": search(plain, timed, func(s *scene) { s.pending(0); s.tickAway(0); s.arms(0); s.race(tick) }),
	// The worker rests until the only timeout is due. This timeout is canceled while another one is armed.
	"Canceled": search(plain, timedAfter, func(s *scene) {
		a, b := s.pending(hour), s.act()
		s.tickAway(3)
		a.cancels()
		s.Go(func() { b.arm(0) })
		s.race(0)
	}),
	// A round starts for a timeout that is canceled at once, while others are armed.
	"Starts": search(plain, timed, func(s *scene) {
		s.tickAway(0)
		a, b := s.act(), s.act()
		s.Go(func() { a.arm(hour); a.cancel() })
		s.Go(func() { b.arm(0) })
		s.race(0)
	}),
	"StartsThree": func(t *testing.T) {
		if !explore.Full() {
			t.Skip("takes long: runs with HASHEDWHEEL_EXPLORE=full")
		}
		search(plain, plain, func(s *scene) {
			s.tickAway(0)
			a, b, c := s.act(), s.act(), s.act()
			s.Go(func() { a.arm(hour); a.cancel() })
			s.Go(func() { b.arm(0) })
			s.Go(func() { c.arm(tick) })
			s.race(0)
		})(t)
	},
})
