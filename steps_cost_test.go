package hashedwheel

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// These tests count the locked operations, such as atomic additions, of the usual methods. One takes about as
// long as twenty others, so the speed depends on their number, and a test can count them without a clock. None of
// the methods locks a mutex.

// testCost checks how many locked operations a goroutine makes. No round need be started.
func testCost(t *testing.T, want int, cost func(s *scene), before ...func(s *scene)) {
	t.Helper()
	search(plain, plain, func(s *scene) {
		s.awaken()
		s.pending(hour) // the next one is in the same block
		for _, f := range before {
			f(s)
		}
		s.Go(func() { cost(s) })
		s.Race(0)
		locked := s.Locked(1)
		require.Len(s, locked, want, "%s", strings.Join(locked, "\n"))
		require.False(s, slices.ContainsFunc(locked, func(op string) bool { return strings.HasPrefix(op, "Lock ") }))
	})(t)
}

var _ = scenarios.Add(explore.Scenarios{
	"CostOfNewTimeoutAndCancel": func(t *testing.T) {
		cost := func(s *scene) {
			to, err := s.timer.AfterFunc(hour, func() {})
			require.NoError(s, err)
			require.True(s, to.Cancel())
		}
		testCost(t, 4, cost)
		// The slot leads to a canceled timeout.
		testCost(t, 4, cost, func(s *scene) {
			a := s.pending(hour)
			a.cancel()
			s.handBefore(a.slot())
		})
	},
	"CostOfResetAndCancel": func(t *testing.T) {
		var to Timeout
		testCost(t, 4, func(s *scene) {
			_, err := to.Reset(hour)
			require.NoError(s, err)
			require.True(s, to.Cancel())
		}, func(s *scene) {
			to = Timeout{} //hashedwheelvet:ignore each search has a new one
			s.timer.Bind(&to, plainFunc(func() {}))
			_, err := to.Reset(hour)
			require.NoError(s, err)
			require.True(s, to.Cancel())
		})
	},
	"CostOfResetToLater": func(t *testing.T) {
		var to *Timeout
		testCost(t, 1, func(s *scene) {
			_, err := to.Reset(2 * hour)
			require.NoError(s, err)
		}, func(s *scene) { to = s.pending(hour).to })
	},
	// Each further task that a runner takes costs three locked operations: the lock of the pool, its unlock, and the claim.
	"CostOfATask": func(t *testing.T) {
		costs := make(map[int]int) // by number of tasks
		for _, n := range []int{2, 3, 4} {
			search(plain.Bounded(1), plain.Bounded(1), func(s *scene) {
				s.tickAway(0)
				for range n {
					s.pending(0)
				}
				synctest.Wait()
				s.Go(func() {})
				s.Race(tick)
				runner := 0
				for _, op := range s.Locked(0) {
					switch {
					case !strings.Contains(op, " pool.go:") && !strings.Contains(op, ".claim"):
					case strings.HasPrefix(op, "Lock "):
						runner += 2 // the explorer has no gate at the Unlock
					default:
						runner++
					}
				}
				costs[n] = max(costs[n], runner)
			})(t)
		}
		require.Equal(t, 3, costs[3]-costs[2], "%v", costs)
		require.Equal(t, 3, costs[4]-costs[3], "%v", costs)
	},
})
