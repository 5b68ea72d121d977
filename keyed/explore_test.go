package keyed

import (
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore/rewrite"
)

// TestExplore runs a Map and its timer in the possible orders of the atomic steps of a few goroutines. See rewrite.Explore.
func TestExplore(t *testing.T) { rewrite.Explore(t, ".", scenarios) }
