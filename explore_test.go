package hashedwheel

import (
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore/rewrite"
)

// TestExplore runs the package in the possible orders of the atomic steps of a few goroutines, up to the bounds of
// each scenario. The scenarios are the tests in testdata/steps. The explorer is in internal/explore.
// HASHEDWHEEL_FULL=1 searches twice as many orders, and HASHEDWHEEL_EXPLORE=full searches for hours. With
// HASHEDWHEEL_EXPLORE_TIME=1m each scenario ends after a minute.
// -run=TestExplore/TestStepsEndsOne runs a single scenario.
func TestExplore(t *testing.T) {
	needsProcesses(t)
	if testing.Short() && !full() {
		t.Skip("takes ten seconds: runs without -short, or with HASHEDWHEEL_FULL=1")
	}
	t.Parallel() // other processes do the work
	rewrite.Explore(t, ".")
}
