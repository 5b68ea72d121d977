package hashedwheel

import "github.com/hashedwheel/hashedwheel/internal/explore"

// In each scene, three of push, Cancel, Reset, expiry and Stop happen at the same time. Other scenes with three of
// them are in the files of the scenes with two.

var _ = scenarios.Add(explore.Scenarios{
	"StopCancelReset": search(plain.Bounded(3), plain,
		func(s *scene) { a := s.pending(hour); s.tickAway(3); a.cancels().resets(0); s.stops(); s.race(0) }),
	"PushCancelReset": search(plain, timed,
		func(s *scene) { a := s.pending(hour); s.tickAway(3); a.cancels().resets(0); s.arms(0); s.race(0) }),
	"PushCancelExpiry": search(plain.Bounded(3), plain,
		func(s *scene) { a := s.pending(0); s.tickAway(0); a.cancels(); s.arms(0); s.race(tick) }),
	"PushResetExpiry": search(plain.Bounded(3), plain,
		func(s *scene) { a := s.pending(0); s.tickAway(0); a.resets(2 * tick); s.arms(0); s.race(tick) }),
	"PushStopCancel": search(plain, timed, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		a.cancels()
		s.arms(0)
		s.stops()
		s.race(0)
	}),
	"PushStopReset": search(plain, timed, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		a.resets(0)
		s.arms(0)
		s.stops()
		s.race(0)
	}),
	"PushStopExpiry": search(plain.Bounded(3), plain,
		func(s *scene) { s.pending(0); s.tickAway(0); s.arms(0); s.stops(); s.race(tick) }),
})
