package explore

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// Full reports whether to make full searches, which take hours: with HASHEDWHEEL_EXPLORE=full.
func Full() bool { return os.Getenv("HASHEDWHEEL_EXPLORE") == "full" }

// quick reports whether to limit searches that would take more than half a second.
func quick() bool { return os.Getenv("HASHEDWHEEL_FULL") == "" && !Full() }

// A Size says how far to search a scenario.
type Size struct {
	Passes    int  // how often time passes while something else could happen
	Aftermath bool // whether to search also the orders of the steps after all racers have returned

	// Preemptions is how many there are at most: steps of another goroutine although the last one could go on.
	// 0 means no limit. Together with the reduction to one of several equivalent orders, a limit may also leave out
	// orders within it.
	Preemptions int
}

// Bounded returns the size with a bound of n preemptions.
func (s Size) Bounded(n int) Size {
	s.Preemptions = n
	return s
}

// Quickly returns the size, with a bound of n preemptions if the search is to be quick.
func (s Size) Quickly(n int) Size {
	if quick() {
		return s.Bounded(n)
	}
	return s
}

func (s Size) String() string {
	text := fmt.Sprintf("time passes %d times", s.Passes)
	if s.Aftermath {
		text += ", with the aftermath"
	}
	if s.Preemptions > 0 {
		text += fmt.Sprintf(", bounded to %d preemptions", s.Preemptions)
	}
	return text
}

// Scenarios are those of a package, by name.
type Scenarios map[string]func(t *testing.T)

// Add adds scenarios, for the initialization of a variable.
func (all Scenarios) Add(more Scenarios) (added int) {
	for name, search := range more {
		if all[name] != nil {
			panic("two scenarios are called " + name)
		}
		all[name] = search
	}
	return len(more)
}

// share is how long a daily search of a scenario may take.
const share = 50 * time.Millisecond

// Scenario is [Search] for a scenario of package rewrite. It searches with the size daily, or in a full search with
// the size fully. Pass is how much time passes at once. Scenario fails the test if an execution fails. It logs what
// it has searched. A daily search ends after share, except with HASHEDWHEEL_FULL=1. HASHEDWHEEL_EXPLORE_TIME=1m ends any
// search after a minute.
func Scenario(t *testing.T, pass time.Duration, daily, fully Size, scenario func(r *Run)) {
	t.Helper()
	start, until := time.Now(), time.Time{}
	size := daily
	if Full() {
		size = fully
	} else if quick() {
		until = start.Add(share)
	}
	if v := os.Getenv("HASHEDWHEEL_EXPLORE_TIME"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatalf("HASHEDWHEEL_EXPLORE_TIME: %v", err)
		}
		until = start.Add(d)
	}
	result := Search(t, pass, size, until, scenario)
	if result.Failure != nil {
		t.Fatal(result.Failure)
	}
	t.Logf("%v, %v, in %v", size, result, time.Since(start).Round(time.Millisecond))
}
