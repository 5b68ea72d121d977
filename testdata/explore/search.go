package explore

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Options bound a search.
type Options struct {
	Pass      time.Duration // how much time passes at once
	Passes    int           // how often it does while somebody is at a gate
	Aftermath bool          // to search the orders of what happens when the racers have returned, too
	// If not 0, one more than how often at most a goroutine is stopped that could go on. Together
	// with the reduction this may leave out orders within the bound, too.
	Bound int

	MaxSteps int       // of one execution; 0 for 5,000
	Until    time.Time // to end the search then; zero for never
}

// A Result says what a search has found.
type Result struct {
	Executions int   // that were explored to the end
	Redundant  int   // that were given up, being like others so far, or beyond the bound
	Longest    int   // the largest number of steps
	Bounded    bool  // something has been left out
	Failure    error // of the last one, with its trace
}

func (r Result) String() string {
	s := fmt.Sprintf("%d executions and %d redundant ones of up to %d steps",
		r.Executions, r.Redundant, r.Longest)
	if r.Bounded {
		s += ", not all there are"
	}
	return s
}

// A node is a state that the search has come to, and what it has seen of what follows.
type node struct {
	ops     []*op // what each goroutine was about to do there, nil for those not at a gate
	enabled set
	sleep   set // who need not be tried, since what follows has been seen in another order
	todo    set // who is to be tried, or has been
	chosen  int

	last    int // who went on to here, -1 at the start
	stopped int // how often, up to here, somebody was stopped that could go on
}

// A stray is an execution that differs from the one before it after the same steps. What comes before
// the race is run with the gates open, so the scheduler decides on it, and once in some hundred thousand
// executions it decides otherwise. Such an execution is repeated. After several strays in a row the
// search starts again, because then the first execution is likely to have been one. With too many in all
// the scenario is not deterministic, and the search fails.
const (
	straysInARow = 4
	maxStrays    = 10      // and one more for each
	rareStrays   = 100_000 // executions
)

// A search tries the executions of a scenario one after the other, depth first, each from the
// start. Which order to try where follows from the races in those before: it is the dynamic
// partial-order reduction of Flanagan and Godefroid (POPL 2005) with Godefroid's sleep sets, and
// with the source sets of Abdulla and others (POPL 2014).
type search struct {
	opts     Options
	strays   int // in all
	inARow   int // strays up to now
	nodes    []*node
	depth    int  // of the state that the present execution is in
	replayed int  // the number of its steps that are given
	over     int  // the number of its steps when all racers had returned, or more
	asleep   bool // it has come to a state in which all that can happen is seen elsewhere
	result   Result
}

// Search runs the scenario once for each order in which the steps of its goroutines can come,
// but for those that differ only in the order of independent steps. It ends at the first failure.
// Each time the scenario is run in a bubble of its own. It has to prepare its racers, to call Race
// once, and to check the outcome.
func Search(t *testing.T, opts Options, scenario func(r *Run)) Result {
	t.Helper()
	if opts.MaxSteps == 0 {
		opts.MaxSteps = 5000
	}
	s := &search{opts: opts}
	for more := true; more && s.result.Failure == nil; {
		strays := s.strays
		s.bubble(t, scenario)
		if s.strays > strays {
			if s.inARow++; s.inARow == straysInARow {
				s.nodes, s.inARow = nil, 0
			}
			continue
		}
		s.inARow = 0
		more = s.next()
		if more && !opts.Until.IsZero() && time.Now().After(opts.Until) {
			s.result.Bounded = true
			break
		}
	}
	return s.result
}

// bubble runs the scenario once, in a bubble. Of an execution that fails some goroutine may be left,
// which is the end of the process: so it tells the failure before.
func (s *search) bubble(t *testing.T, scenario func(r *Run)) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Println(s.result.Failure)
			panic(v)
		}
	}()
	synctest.Test(t, func(*testing.T) { s.run(scenario) })
}

// run runs the scenario once.
func (s *search) run(scenario func(r *Run)) {
	r := &Run{search: s}
	s.depth, s.replayed, s.over, s.asleep = 0, len(s.nodes), math.MaxInt, false
	defer func() {
		if s.asleep {
			s.result.Redundant++
		} else {
			s.result.Executions++
		}
		s.result.Longest = max(s.result.Longest, len(r.trace))
		if v := recover(); v != nil {
			f, ok := v.(failure)
			if !ok {
				fmt.Println(r.describe())
				panic(v)
			}
			s.result.Failure = fmt.Errorf("%w\n%s", f.err, r.describe())
		}
	}()
	scenario(r)
}

// choose returns who goes on: as noted for this execution, or else anybody.
func (s *search) choose(r *Run) (index int, ok bool) {
	over := r.racing.Load() == 0
	if over && !s.opts.Aftermath {
		s.over = min(s.over, len(r.trace))
	}
	switch {
	case s.asleep:
		return 0, false // the rest is seen elsewhere
	case s.depth < len(s.nodes):
		if err := s.nodes[s.depth].compare(r); err != nil {
			s.asleep = true
			if s.strays < maxStrays+s.result.Executions/rareStrays {
				s.strays++
				return 0, false
			}
			r.diverged = fmt.Errorf("step %d: %w", s.depth, err)
			return 0, false
		}
	default:
		n := s.newNode(r)
		if n.enabled == 0 && over {
			return 0, false
		}
		if n.enabled == 0 {
			n.enabled.add(0)
		}
		awake := n.enabled &^ n.sleep
		if awake == 0 {
			s.asleep = true
			return 0, false
		}
		n.chosen = awake.pick(n.last, over)
		if s.exceeds(n, n.chosen) {
			s.asleep, s.result.Bounded = true, true
			return 0, false
		}
		n.todo.add(n.chosen)
		s.nodes = append(s.nodes, n)
	}
	s.depth++
	return s.nodes[s.depth-1].chosen, true
}

// newNode returns the state that an execution has come to, in which nobody has gone on yet. Who is
// asleep stays so until something happens that his next operation depends on.
func (s *search) newNode(r *Run) *node {
	n := &node{last: -1}
	for i, g := range r.known {
		n.ops = append(n.ops, g.op)
		if r.enabled(i) {
			n.enabled.add(i)
		}
	}
	if s.depth == 0 {
		return n
	}
	before := s.nodes[s.depth-1]
	n.last, n.stopped = before.chosen, before.stopped+before.preempts(before.chosen)
	for i, o := range before.ops {
		if before.sleep.has(i) && !dependent(o, before.ops[n.last]) {
			n.sleep.add(i)
		}
	}
	return n
}

// preempts returns 1 if somebody else goes on here although the last one could.
func (n *node) preempts(next int) int {
	if next == n.last || next == 0 || n.last <= 0 || !n.enabled.has(n.last) {
		return 0
	}
	return 1
}

// exceeds reports whether it would be too often that somebody is stopped, if next went on.
func (s *search) exceeds(n *node, next int) bool {
	return s.opts.Bound > 0 && n.stopped+n.preempts(next) >= s.opts.Bound
}

// pick picks the one that went on last, if that is there, or else the first. Time comes last, but
// as soon as the race is over what is left of it, for it may have passed before.
func (s set) pick(last int, over bool) int {
	switch {
	case s.has(0) && (over || s == 1):
		return 0
	case last > 0 && s.has(last):
		return last
	}
	for i := 1; ; i++ {
		if s.has(i) {
			return i
		}
	}
}

// reverse notes what to try so that event i of the trace comes after the last one, with which it
// races.
func (s *search) reverse(t trace, i int) {
	if len(t) < s.replayed || i >= s.over {
		return // noted before, or of no interest
	}
	s.try(t, i, t.initials(i))
	if s.opts.Bound > 0 {
		// There it may not be possible within the bound, but before i's goroutine went on.
		k := i
		for k > 0 && t[k-1].index == t[i].index {
			k--
		}
		if n, last := s.nodes[k], t[len(t)-1].index; n.enabled.has(last) {
			n.todo.add(last)
		}
	}
}

// try notes that one of some goroutines is to be tried in place of event i.
func (s *search) try(t trace, i int, first set) {
	n := s.nodes[i]
	if first&(n.todo|n.sleep) != 0 {
		return
	}
	if first &= n.enabled; first == 0 {
		if t[len(t)-1].index != 0 { // time that has passed all it may is all there is to it
			n.todo |= n.enabled
		}
		return
	}
	if last := t[len(t)-1].index; first.has(last) {
		n.todo.add(last)
		return
	}
	for k := 0; ; k++ {
		if first.has(k) {
			n.todo.add(k)
			return
		}
	}
}

// next goes back to the last state where something is left to be tried. It reports false if there
// is none.
func (s *search) next() bool {
	for len(s.nodes) > 0 {
		n := s.nodes[len(s.nodes)-1]
		n.sleep.add(n.chosen)
		for left := n.todo &^ n.sleep; left != 0; {
			n.chosen = left.pick(-1, false)
			if !s.exceeds(n, n.chosen) {
				return true
			}
			s.result.Bounded = true
			left &^= 1 << n.chosen
		}
		s.nodes = s.nodes[:len(s.nodes)-1]
	}
	return false
}
