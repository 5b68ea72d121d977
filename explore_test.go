package hashedwheel

import (
	"flag"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/testdata/explore/rewrite"
)

// TestExplore runs the package in the possible orders of the atomic steps of a few goroutines, up to the bounds of
// each scenario. The scenarios are the tests in testdata/explore/steps. The explorer is in testdata/explore, and
// has tests of its own. HASHEDWHEEL_FULL=1 searches twice as many orders, and HASHEDWHEEL_EXPLORE=full searches for
// hours. With HASHEDWHEEL_EXPLORE_TIME=1m each scenario ends after a minute.
// -run=TestExplore/steps/TestStepsEndsOne runs a single scenario.
func TestExplore(t *testing.T) {
	needsProcesses(t)
	if testing.Short() && !full() {
		t.Skip("takes ten seconds: runs without -short, or with HASHEDWHEEL_FULL=1")
	}
	t.Parallel() // other processes do the work
	t.Run("explorer", func(t *testing.T) {
		failFast := flag.Lookup("test.failfast").Value.String()
		out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=3h", "-failfast="+failFast,
			"./testdata/explore", "./testdata/explore/rewrite").CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s", out)
	})
	t.Run("steps", func(t *testing.T) {
		rewrite.Explore(t, ".", "testdata/explore/steps", ".", "internal/*")
	})
}
