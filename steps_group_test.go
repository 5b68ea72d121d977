package hashedwheel

import (
	"context"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Two timeouts are handed over at once. One that is not claimed yet can still be canceled, be returned by Stop, or run on
// another runner.

// dueTogether returns two acts that are due at the next boundary.
func (s *scene) dueTogether() (a, b *act) {
	s.tickAway(0)
	a, b = s.pending(0), s.pending(0)
	synctest.Wait() // the worker waits for the boundary
	return a, b
}

var _ = scenarios.Add(explore.Scenarios{
	"GroupStop": search(timed.Quickly(1), timed, func(s *scene) { s.dueTogether(); s.stops(); s.race(tick) }),
	"GroupCancel": search(timed.Quickly(1), timed,
		func(s *scene) { a, b := s.dueTogether(); a.cancels(); b.cancels(); s.race(tick) }),
	// WaitRunning waits for a run, and the runner goes on.
	"GroupWait": search(timed.Quickly(1), timed, func(s *scene) {
		a, b := s.dueTogether()
		s.Go(func() {
			require.NoError(s, a.to.WaitRunning(context.Background()))
			require.NoError(s, b.to.WaitRunning(context.Background()))
		})
		s.race(tick)
	}),
	// The first task blocks for hours. Even so the second task starts within two ticks, on another runner.
	"GroupGivenBack": search(timed.Quickly(1), timed, func(s *scene) {
		a, b := s.dueTogether()
		a.held, b.held = make(chan struct{}), make(chan struct{})
		s.Go(func() { s.pending(hour) })
		s.Race(tick)
		testkit.Pass(3 * tick)
		require.Len(s, a.fired, 1)
		require.Len(s, b.fired, 1)
		require.LessOrEqual(s, max(a.fired[0], b.fired[0]), 4*tick)
		close(a.held)
		close(b.held)
		s.check()
	}),
})
