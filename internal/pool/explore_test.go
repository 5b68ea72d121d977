package pool

import (
	"runtime"
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore/rewrite"
)

// TestExplore runs the package in the possible orders of the atomic steps of a few goroutines. The scenarios are the
// tests in testdata/steps. See TestExplore of the root for the environment variables.
func TestExplore(t *testing.T) {
	if runtime.GOARCH == "wasm" {
		t.Skip("needs processes: here no program can be started")
	}
	if testing.Short() && !full() {
		t.Skip("takes seconds: runs without -short, or with HASHEDWHEEL_FULL=1")
	}
	t.Parallel() // other processes do the work
	rewrite.Explore(t, ".")
}
