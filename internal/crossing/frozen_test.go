package crossing

import (
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore/rewrite"
)

// TestFrozen freezes a goroutine before each step of its calls, while other goroutines use the timer. See rewrite.Explore.
func TestFrozen(t *testing.T) { rewrite.Explore(t, ".", scenarios) }
