package hashedwheel

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

var (
	plain      = explore.Size{}                           // all steps at one instant
	timed      = explore.Size{Passes: 1}                  // with a boundary between any two steps
	after      = explore.Size{Aftermath: true}            // as plain, also after the racers have returned
	timedAfter = explore.Size{Passes: 1, Aftermath: true} // both
	twice      = explore.Size{Passes: 2}                  // with two boundaries
	twiceAfter = explore.Size{Passes: 2, Aftermath: true} // both
)

// search returns a scenario, which searches the executions of a scene, with the size daily, or in a full search with the size
// fully. It fails the test if an execution fails.
func search(daily, fully explore.Size, play func(s *scene)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		explore.Scenario(t, tick, daily, fully, func(r *explore.Run) {
			timer, err := New(WithTick(tick), WithWheelSize(4))
			require.NoError(r, err)
			defer timer.Stop()
			timer.makeStripes(1)
			play(&scene{Run: r, timer: timer})
		})
	}
}
