package hashedwheel

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// Several operations end or move one timeout at the same time. Each arming ends exactly once, whatever the
// order of the steps.

func (s *scene) raceToWait() {
	a := s.pending(0)
	s.tickAway(0)
	ran := -1
	s.Go(func() {
		if a.cancel(); a.wins == 0 {
			_ = a.to.WaitRunning(context.Background())
			ran = len(a.fired)
		}
	})
	s.race(tick)
	require.NotZero(s, ran, "WaitRunning returned before the task had run")
}

var _ = scenarios.Add(explore.Scenarios{
	"CancelExpiry": search(plain, timed, func(s *scene) { a := s.pending(0); s.tickAway(0); a.cancels(); s.race(tick) }),
	"ResetLaterExpiry": search(plain, timed,
		func(s *scene) { a := s.pending(0); s.tickAway(0); a.resets(2 * tick); s.race(tick) }),
	// The timeout is not due yet when Reset reads the clock, but it may be due when Reset changes it.
	"ResetBeforeExpiry": search(timedAfter, twice,
		func(s *scene) { a := s.pending(0); s.tickAway(0); a.resets(2 * tick); s.race(0) }),
	"ResetEarlierExpiry": search(plain, timed,
		func(s *scene) { a := s.pending(3 * tick); s.tickAway(2); a.resets(0); s.race(tick) }),
	"ResetEarlier": search(timedAfter, twiceAfter, func(s *scene) { a := s.pending(hour); s.tickAway(3); a.resets(0); s.race(0) }),
	"CancelReset":  search(plain, timed, func(s *scene) { a := s.pending(hour); s.tickAway(3); a.cancels().resets(0); s.race(0) }),
	"CancelResetExpiry": search(plain.Bounded(4), plain,
		func(s *scene) { a := s.pending(0); s.tickAway(0); a.cancels().resets(2 * tick); s.race(tick) }),
	"CancelCancel": search(timedAfter, twiceAfter,
		func(s *scene) { a := s.pending(hour); s.tickAway(3); a.cancels().cancels(); s.race(0) }),
	"CancelCancelExpiry": search(plain.Bounded(4), plain,
		func(s *scene) { a := s.pending(0); s.tickAway(0); a.cancels().cancels(); s.race(tick) }),
	"ResetReset": search(plain, timed, func(s *scene) { a := s.pending(hour); s.tickAway(3); a.resets(0).resets(0); s.race(0) }),
	// Another timeout is already on the queue.
	"CancelResetQueued": search(timed, timedAfter,
		func(s *scene) { a := s.pending(hour); s.tickAway(3); s.awaken(); a.cancels().resets(0); s.race(0) }),
	"ResetResetQueued": search(timed.Quickly(3), timedAfter,
		func(s *scene) { a := s.pending(hour); s.tickAway(3); s.awaken(); a.resets(0).resets(0); s.race(0) }),
	// A run of a repeating timeout ends while it is canceled.
	"CancelRunEnds": search(timedAfter.Bounded(4).Quickly(3), timedAfter, func(s *scene) { s.runs().cancels(); s.race(0) }),
	// A run of a repeating timeout ends while it is reset.
	"ResetRunEnds":       search(after, timedAfter, func(s *scene) { s.runs().resets(2 * tick); s.race(0) }),
	"ResetRunEndsQueued": search(after, timedAfter, func(s *scene) { a := s.runs(); s.awaken(); a.resets(2 * tick); s.race(0) }),
	"CancelResetRunEnds": search(plain.Bounded(4).Quickly(3), plain,
		func(s *scene) { s.runs().cancels().resets(2 * tick); s.race(0) }),

	// If Cancel returns false, then after WaitRunning the task has run.
	"Wait":         search(plain.Quickly(4), timed, func(s *scene) { s.raceToWait() }),
	"WaitExecutor": search(plain.Bounded(3), plain, func(s *scene) { s.useExecutor(); s.raceToWait() }),
})
