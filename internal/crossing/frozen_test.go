package crossing

import (
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore/rewrite"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// TestFrozen freezes a goroutine before each step of its calls, while other goroutines use the timer. The scenarios are the
// tests in testdata/steps.
func TestFrozen(t *testing.T) {
	testkit.NeedsProcesses(t)
	if testing.Short() && !testkit.Full() {
		t.Skip("takes seconds: runs without -short, or with HASHEDWHEEL_FULL=1")
	}
	t.Parallel() // other processes do the work
	rewrite.Explore(t, ".")
}
