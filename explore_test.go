package hashedwheel

import (
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore/rewrite"
)

// TestExplore runs the package in the possible orders of the atomic steps of a few goroutines, up to the bounds of
// each scenario. The scenarios are in the files steps_*_test.go. See rewrite.Explore, and internal/explore.
func TestExplore(t *testing.T) { rewrite.Explore(t, ".", scenarios) }
