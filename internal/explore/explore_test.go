package explore

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A program returns the racers of one execution, and a function that returns the outcome.
type program func() (racers []func(), outcome func() string)

// outcomes explores a program without a failure, and returns its possible outcomes, sorted and each once.
func outcomes(t *testing.T, size Size, p program) ([]string, Result) {
	t.Helper()
	all, result := failing(t, size, p)
	require.NoError(t, result.Failure)
	return all, result
}

// failing is outcomes for a program that may fail.
func failing(t *testing.T, size Size, p program) ([]string, Result) {
	t.Helper()
	seen := map[string]bool{}
	result := Search(t, time.Second, size, time.Time{}, func(r *Run) {
		racers, outcome := p()
		for _, f := range racers {
			r.Go(f)
		}
		r.Race(0)
		if !r.search.asleep {
			seen[outcome()] = true
		}
	})
	return slices.Sorted(maps.Keys(seen)), result
}

func TestSameAddress(t *testing.T) {
	all, result := outcomes(t, Size{}, func() ([]func(), func() string) {
		var x Int64
		var order string
		steps := func(name string) func() {
			return func() {
				for range 2 {
					x.Add(1)
					order += name
				}
			}
		}
		return []func(){steps("a"), steps("b")}, func() string { return order }
	})
	require.Equal(t, []string{"aabb", "abab", "abba", "baab", "baba", "bbaa"}, all)
	require.Equal(t, 6, result.Executions)
	require.Zero(t, result.Redundant)
}

func TestIndependent(t *testing.T) {
	_, result := outcomes(t, Size{}, func() ([]func(), func() string) {
		var x, y, z, n Int64
		return []func(){
			func() { x.Store(1); x.Store(2); z.Load(); n.BlindAdd(1) },
			func() { y.Store(1); y.Store(2); z.Load(); n.BlindAdd(1) },
		}, func() string { return "" }
	})
	require.Equal(t, 1, result.Executions+result.Redundant)
}

func TestLostUpdate(t *testing.T) {
	all, _ := outcomes(t, Size{}, func() ([]func(), func() string) {
		var x Int64
		increment := func() { x.Store(x.Load() + 1) }
		return []func(){increment, increment, increment}, func() string { return fmt.Sprint(x.Load()) }
	})
	require.Equal(t, []string{"1", "2", "3"}, all)
}

func TestDeadlock(t *testing.T) {
	_, result := failing(t, Size{}, func() ([]func(), func() string) {
		var a, b Mutex
		both := func(first, second *Mutex) func() {
			return func() {
				first.Lock()
				defer first.Unlock()
				second.Lock()
				defer second.Unlock()
			}
		}
		return []func(){both(&a, &b), both(&b, &a)}, func() string { return "" }
	})
	require.ErrorContains(t, result.Failure, "deadlock")
	require.ErrorContains(t, result.Failure, "Lock #")
	t.Log(result.Failure)
}

// A goroutine that polls, with Gosched in its loop, looks again only after another has written what it reads.
func TestGosched(t *testing.T) {
	all, _ := outcomes(t, Size{}, func() ([]func(), func() string) {
		var x, n Int64
		looks := 0
		return []func(){
			func() {
				for x.Load() != 2 {
					looks++
					Gosched()
				}
				n.Store(1)
			},
			func() { x.Store(1); n.Load(); x.Store(2) },
		}, func() string { return fmt.Sprint(looks) }
	})
	require.Equal(t, []string{"0", "1", "2"}, all)
}

// A timer goes off between any two steps that read the time, or read what the timer's function writes.
func TestTime(t *testing.T) {
	all, _ := outcomes(t, Size{Passes: 1}, func() ([]func(), func() string) {
		var x Int64
		start := time.Now()
		seen := ""
		AfterFunc(time.Second, func() { x.Store(1) })
		return []func(){func() {
			for range 2 {
				seen += fmt.Sprint(x.Load(), Since(start), " ")
			}
		}}, func() string { return seen }
	})
	require.Equal(t, []string{
		"0 0s 0 0s ", "0 0s 0 1s ", "0 0s 1 1s ", "0 1s 0 1s ", "0 1s 1 1s ", "1 1s 1 1s ",
	}, all)
}

// Also with a bound, time may pass before everything else.
func TestTimeFirst(t *testing.T) {
	all, _ := outcomes(t, Size{Passes: 1, Preemptions: 1}, func() ([]func(), func() string) {
		start := time.Now()
		seen := ""
		return []func(){func() {
			for range 2 {
				seen += fmt.Sprint(Since(start), " ")
			}
		}}, func() string { return seen }
	})
	require.Contains(t, all, "1s 1s ")
}

// A message that wakes a goroutine comes before everything that this goroutine does then.
func TestChannel(t *testing.T) {
	all, _ := outcomes(t, Size{}, func() ([]func(), func() string) {
		var x Int64
		c := make(chan int, 1)
		seen := int64(-1)
		return []func(){
			func() { x.Store(1); Channel(c); c <- 1; x.Store(2) },
			func() { Channel(c); <-c; seen = x.Load() },
		}, func() string { return fmt.Sprint(seen) }
	})
	require.Equal(t, []string{"1", "2"}, all)
}

// The search notices a scenario whose executions differ although their first steps are the same.
func TestDivergence(t *testing.T) {
	n := 0
	_, result := failing(t, Size{}, func() ([]func(), func() string) {
		n++
		var x, y Int64
		other := &x
		if n%2 == 0 {
			other = &y
		}
		return []func(){
			func() { x.Add(1); x.Load(); x.Add(1); x.Load(); x.Add(1) },
			func() { other.Load(); x.Add(1); x.Load(); other.Add(1); x.Load() },
		}, func() string { return "" }
	})
	require.ErrorContains(t, result.Failure, "differ")
	require.Greater(t, n, 2*maxStrays)
}

// A single execution that differs from the others is repeated, also if it is the first one.
func TestStray(t *testing.T) {
	for _, stray := range []int{1, 2} {
		n := 0
		all, _ := outcomes(t, Size{}, func() ([]func(), func() string) {
			n++
			var x, y Int64
			seen := int64(0)
			racers := []func(){func() { x.Add(1) }, func() { seen = x.Load() }}
			if n == stray {
				racers[0] = func() { y.Load(); x.Add(1) }
			}
			return racers, func() string { return fmt.Sprint(seen) }
		})
		require.Equal(t, []string{"0", "1"}, all)
		require.Greater(t, n, 2, "no execution was repeated")
	}
}
