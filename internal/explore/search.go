package explore

import (
	"fmt"
	"math"
	"math/bits"
	"testing"
	"testing/synctest"
	"time"
)

// A Result is what a search has found.
type Result struct {
	Executions int   // executions that ran to their end
	Redundant  int   // executions given up, because others cover them or they exceed the bound
	Longest    int   // the largest number of steps of an execution
	Bounded    bool  // the search has left out some orders, because of Preemptions or a limit of time
	Failure    error // of the last execution, with its trace
}

func (r Result) String() string {
	s := fmt.Sprintf("%d executions and %d redundant ones of up to %d steps",
		r.Executions, r.Redundant, r.Longest)
	if r.Bounded {
		s += ", with some orders left out"
	}
	return s
}

// A node is a state that the search has reached, with what it has tried from there.
type node struct {
	ops     []*op // by goroutine, its next operation; nil if it is not at a gate
	enabled set
	sleep   set // need not be tried: another order covers what follows
	todo    set // are to be tried, or have been
	chosen  int

	last    int // the goroutine whose step led here, -1 at the start
	stopped int // how often, up to here, another goroutine went on although the last one could
}

// A stray is an execution that differs from the one before it although the first steps were the same. Before the race
// the gates are open, so there the scheduler decides the order. It decides differently when it preempts a goroutine
// there: once in some hundred thousand executions, and once in a thousand on a machine that is busy with other work.
// The search repeats such an execution. After straysInARow strays in a row it starts again from the beginning, because
// then the first execution was probably a stray. If there are too many strays in total, the scenario is not
// deterministic, and the search fails.
const (
	straysInARow = 4
	maxStrays    = 10  // in total, besides the rare ones
	rareStrays   = 100 // so many executions allow one more stray
)

// A search tries the executions of a scenario one after the other, depth first, each from the start. The races in the
// executions so far tell which other orders to try. This is the dynamic partial-order reduction of Flanagan and
// Godefroid (POPL 2005), with Godefroid's sleep sets and the source sets of Abdulla and others (POPL 2014).
type search struct {
	pass     time.Duration // how much time passes at once
	size     Size
	strays   int // in total
	inARow   int // the last executions, if they were strays
	nodes    []*node
	depth    int  // the number of steps of the present execution so far
	replayed int  // the number of its steps that are given at its start
	over     int  // the number of its steps until all racers had returned; MaxInt before, and with Aftermath
	asleep   bool // it ends here: other executions cover the rest, or it is a stray or exceeds the bound
	result   Result
}

// leastTried is how many executions a search tries, however little time it has.
const leastTried = 50

// Search runs the scenario once for each possible order of the steps of its goroutines, up to a size. Of several
// orders that differ only in the order of independent steps it runs one. It ends at the first failure, or at until, if
// that is not zero and it has tried leastTried executions. Pass is how much time passes at once. Each execution has its
// own bubble. The scenario must prepare its racers, call Race once, and check the outcome.
func Search(t *testing.T, pass time.Duration, size Size, until time.Time, scenario func(r *Run)) Result {
	t.Helper()
	s := &search{pass: pass, size: size}
	for more := true; more && s.result.Failure == nil; {
		if !until.IsZero() && s.result.Executions+s.result.Redundant >= leastTried && time.Now().After(until) {
			s.result.Bounded = true
			break
		}
		strays := s.strays
		s.bubble(t, scenario)
		if s.strays == strays {
			s.inARow = 0
			more = s.next()
		} else if s.inARow++; s.inARow == straysInARow {
			s.nodes, s.inARow = nil, 0
		}
	}
	return s.result
}

// bubble runs the scenario once, in a bubble. An execution that fails may leave goroutines behind. Then synctest
// panics, which ends the process, so bubble prints the failure first.
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

// choose returns the goroutine that goes on: the one given for this step of the execution, or else any that can.
func (s *search) choose(r *Run) (index int, ok bool) {
	over := r.racing.Load() == 0
	if over && !s.size.Aftermath {
		s.over = min(s.over, len(r.trace))
	}
	switch {
	case s.asleep:
		return 0, false // the execution ends here
	case s.depth < len(s.nodes):
		if err := s.nodes[s.depth].compare(r); err != nil {
			s.asleep = true
			if s.strays < maxStrays+(s.result.Executions+s.result.Redundant)/rareStrays {
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

// newNode returns the new state that an execution has reached. A goroutine in the sleep set stays there until a step
// happens on which its next operation depends.
func (s *search) newNode(r *Run) *node {
	n := &node{last: -1, ops: r.ops()}
	for i := range n.ops {
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

// preempts returns 1 if next is another goroutine than the last one, which could go on. Else it returns 0.
func (n *node) preempts(next int) int {
	if next == n.last || next == 0 || n.last <= 0 || !n.enabled.has(n.last) {
		return 0
	}
	return 1
}

// exceeds reports whether the execution would exceed the bound if next went on.
func (s *search) exceeds(n *node, next int) bool {
	return s.size.Preemptions > 0 && n.stopped+n.preempts(next) > s.size.Preemptions
}

// pick picks the goroutine that went on last, if it is in the set, and otherwise the first. Time is picked if nothing
// else is in the set. Once the race is over, time is picked first, as often as it may still pass, so that the search
// finds its races with the steps before.
func (s set) pick(last int, over bool) int {
	switch {
	case s.has(0) && (over || s == 1):
		return 0
	case last > 0 && s.has(last):
		return last
	}
	return bits.TrailingZeros64(uint64(s &^ 1))
}

// reverse notes what to try so that event i of the trace comes after the last event, with which it races.
func (s *search) reverse(t trace, i int) {
	if len(t) < s.replayed || i >= s.over {
		return // noted by an earlier execution, or after the race
	}
	s.try(t, i, t.initials(i))
	if s.size.Preemptions > 0 {
		// At event i this may exceed the bound. So try it also before the steps in a row, up to i, of
		// the same goroutine.
		k := i
		for k > 0 && t[k-1].index == t[i].index {
			k--
		}
		if n, last := s.nodes[k], t[len(t)-1].index; n.enabled.has(last) {
			n.todo.add(last)
		}
	}
}

// try notes that one goroutine of first is to be tried in place of event i.
func (s *search) try(t trace, i int, first set) {
	n := s.nodes[i]
	if first&(n.todo|n.sleep) != 0 {
		return
	}
	if first &= n.enabled; first == 0 {
		if t[len(t)-1].index != 0 { // otherwise only time is missing, and it has no passes left
			n.todo |= n.enabled
		}
		return
	}
	if last := t[len(t)-1].index; first.has(last) {
		n.todo.add(last)
	} else {
		n.todo.add(bits.TrailingZeros64(uint64(first)))
	}
}

// next goes back to the last state from which something is left to try. It reports false if there is no such state.
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
