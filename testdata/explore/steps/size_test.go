package hashedwheel

import (
	"fmt"
	"hash/fnv"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/testdata/explore"
)

// full reports whether to make full searches, which take hours.
func full() bool { return os.Getenv("HASHEDWHEEL_EXPLORE") == "full" }

// quick reports whether to limit searches that would take more than half a second.
func quick() bool { return os.Getenv("HASHEDWHEEL_FULL") == "" && !full() }

// A size says how far to search a scenario.
type size struct {
	passes    int  // how often a tick of time passes while something else could happen
	aftermath bool // whether to search also the orders of the steps after the racers have returned
	bound     int  // how many preemptions at most: steps of another goroutine although the last one could go on; 0 for no limit
}

var (
	plain      = size{}                           // all steps at one instant
	timed      = size{passes: 1}                  // with a boundary between any two steps
	after      = size{aftermath: true}            // as plain, also after the racers have returned
	timedAfter = size{passes: 1, aftermath: true} // both
)

// bounded returns the size with a bound of n preemptions.
func (s size) bounded(n int) size {
	s.bound = n
	return s
}

// quickly returns the size, with a bound of n preemptions if the search is to be quick.
func (s size) quickly(n int) size {
	if quick() {
		return s.bounded(n)
	}
	return s
}

// elsewhere reports whether another process explores the scenario. Several processes may share the scenarios.
// Then HASHEDWHEEL_EXPLORE_PART says which part this process has, for example 0/2.
func elsewhere(t *testing.T) bool {
	var part, parts uint32
	if _, err := fmt.Sscanf(os.Getenv("HASHEDWHEEL_EXPLORE_PART"), "%d/%d", &part, &parts); err != nil {
		return false
	}
	h := fnv.New32a()
	h.Write([]byte(t.Name()))
	return h.Sum32()%parts != part
}

// search searches the executions of a scenario, with the size daily, or in a full search with the size
// fully. It fails the test if an execution fails.
func search(t *testing.T, daily, fully size, scenario func(s *scene)) {
	t.Helper()
	if elsewhere(t) {
		t.Skip("in another process")
	}
	start := time.Now()
	size := daily
	if full() {
		size = fully
	}
	opts := explore.Options{Pass: tick, Passes: size.passes, Aftermath: size.aftermath}
	if size.bound > 0 {
		opts.Bound = size.bound + 1
	}
	if v := os.Getenv("HASHEDWHEEL_EXPLORE_TIME"); v != "" {
		d, err := time.ParseDuration(v)
		require.NoError(t, err)
		opts.Until = start.Add(d)
	}
	result := explore.Search(t, opts, func(r *explore.Run) {
		timer, err := New(WithTick(tick), WithWheelSize(4))
		require.NoError(r, err)
		defer timer.Stop()
		timer.queue = queue{stripes: make([]stripe, 1)}
		scenario(&scene{Run: r, timer: timer, started: -1})
	})
	require.NoError(t, result.Failure)
	t.Logf("%v, %v, in %v", size, result, time.Since(start).Round(time.Millisecond))
}

func (s size) String() string {
	text := fmt.Sprintf("time passes %d times", s.passes)
	if s.aftermath {
		text += ", with the aftermath"
	}
	if s.bound > 0 {
		text += fmt.Sprintf(", bounded to %d preemptions", s.bound)
	}
	return text
}
