package hashedwheel

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Several operations end or move one timeout at the same time. Each arming ends exactly once, whatever the
// order of the steps.

func TestStepsCancelExpiry(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.pending(0)
		s.tickAway(0)
		s.Go(func() { a.cancel(0) })
		s.race(tick)
	})
}

func TestStepsResetLaterExpiry(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.pending(0)
		s.tickAway(0)
		s.Go(func() { a.reset(2 * tick) })
		s.race(tick)
	})
}

// The timeout is not due yet when Reset reads the clock, but it may be due when Reset changes it.
func TestStepsResetBeforeExpiry(t *testing.T) {
	search(t, timedAfter, twice, func(s *scene) {
		a := s.pending(0)
		s.tickAway(0)
		s.Go(func() { a.reset(2 * tick) })
		s.race(0)
	})
}

func TestStepsResetEarlierExpiry(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.pending(3 * tick)
		s.tickAway(2)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsResetEarlier(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsCancelReset(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsCancelResetExpiry(t *testing.T) {
	search(t, plain.Bounded(4), plain, func(s *scene) {
		a := s.pending(0)
		s.tickAway(0)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(2 * tick) })
		s.race(tick)
	})
}

func TestStepsCancelCancel(t *testing.T) {
	search(t, timedAfter, twiceAfter, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.cancel(1) })
		s.race(0)
	})
}

func TestStepsCancelCancelExpiry(t *testing.T) {
	search(t, plain.Bounded(4), plain, func(s *scene) {
		a := s.pending(0)
		s.tickAway(0)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.cancel(1) })
		s.race(tick)
	})
}

func TestStepsResetReset(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

// Another timeout is already on the queue.
func TestStepsCancelResetQueued(t *testing.T) {
	search(t, timed, timedAfter, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		s.awaken()
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsResetResetQueued(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		a := s.pending(hour)
		s.tickAway(3)
		s.awaken()
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

// A run of a repeating timeout ends while it is canceled.
func TestStepsCancelRunEnds(t *testing.T) {
	search(t, timedAfter.Bounded(4).Quickly(3), timedAfter, func(s *scene) {
		a := s.runs()
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

// A run of a repeating timeout ends while it is reset.
func TestStepsResetRunEnds(t *testing.T) {
	search(t, after, timedAfter, func(s *scene) {
		a := s.runs()
		s.Go(func() { a.reset(2 * tick) })
		s.race(0)
	})
}

func TestStepsResetRunEndsQueued(t *testing.T) {
	search(t, after, timedAfter, func(s *scene) {
		a := s.runs()
		s.awaken()
		s.Go(func() { a.reset(2 * tick) })
		s.race(0)
	})
}

func TestStepsCancelResetRunEnds(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), plain, func(s *scene) {
		a := s.runs()
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(2 * tick) })
		s.race(0)
	})
}

// If Cancel returns false, then after WaitRunning the task has run.

func TestStepsWait(t *testing.T) {
	search(t, plain.Quickly(4), timed, func(s *scene) { s.raceToWait() })
}

func TestStepsWaitExecutor(t *testing.T) {
	search(t, plain.Bounded(3), plain, func(s *scene) {
		s.useExecutor()
		s.raceToWait()
	})
}

func (s *scene) raceToWait() {
	a := s.pending(0)
	s.tickAway(0)
	ran := -1
	s.Go(func() {
		if a.cancel(0); a.wins[0] == 0 {
			_ = a.to.WaitRunning(context.Background())
			ran = len(a.fired)
		}
	})
	s.race(tick)
	require.NotZero(s, ran, "WaitRunning returned before the task had run")
}
