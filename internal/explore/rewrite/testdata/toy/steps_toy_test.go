package toy

import (
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

var scenarios = explore.Scenarios{"Toggle": searchToggle, "Add": searchAdd}

// Two goroutines toggle. In some order, one of them overwrites what the other has written.
func searchToggle(t *testing.T) {
	seen := make(map[uint32]bool)
	explore.Scenario(t, time.Second, explore.Size{}, explore.Size{}, func(r *explore.Run) {
		var toy Toy
		r.Go(toy.toggle)
		r.Go(toy.toggle)
		r.Race(0)
		seen[toy.counts[0].Load()] = true
	})
	if !seen[1] || !seen[2] {
		t.Errorf("%v, want 1 and 2", seen)
	}
}

// The additions in both packages commute, so two orders are not searched.
func searchAdd(t *testing.T) {
	executions := 0
	explore.Scenario(t, time.Second, explore.Size{}, explore.Size{}, func(r *explore.Run) {
		executions++
		var toy Toy
		r.Go(func() { toy.sum.Add(1) })
		r.Go(func() { toy.sum.Add(1) })
		r.Race(0)
	})
	if executions != 1 {
		t.Errorf("%d executions, want 1", executions)
	}
}
