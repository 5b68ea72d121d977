package explore

import (
	"slices"
	"unsafe"
)

// An access says what an operation does with an address.
type access uint8

const (
	load  access = iota
	add          // a counter, whose value the caller does not look at: these commute
	write        // anything else
)

type touching struct {
	address unsafe.Pointer
	access  access
}

type touch struct {
	label  int
	access access
}

// An op is what a goroutine is about to do: one operation, and then all that it does until the
// next one.
type op struct {
	kind    string
	raw     []touching
	touches []touch
	mutex   *Mutex // of a Lock

	// Of a compare-and-swap: whether it would succeed now. If not, it is a load.
	succeeds func() bool

	yields bool       // it waits until somebody has written what its goroutine has read
	pcs    [4]uintptr // where it is, from the gate outwards
}

// inThisState returns the operation as it is in the present state, of which nobody has a step to
// make but by the search.
func (o *op) inThisState() *op {
	if o == nil || o.succeeds == nil {
		return o
	}
	now := load
	if o.succeeds() {
		now = write
	}
	if o.touches[0].access == now {
		return o
	}
	other := *o
	other.touches = []touch{{o.touches[0].label, now}}
	return &other
}

// dependent reports whether the order of two operations can matter.
func dependent(a, b *op) bool {
	for _, x := range a.touches {
		for _, y := range b.touches {
			if x.label == y.label && (x.access == write || x.access != y.access) {
				return true
			}
		}
	}
	return false
}

// An event is an operation that has happened.
type event struct {
	index int // who did it
	op    *op
	clock []int // for each goroutine, the number of events up to its last one that came before
}

// before reports whether event i of a trace has to come before one that has the clock.
func (t trace) before(i int, clock []int) bool {
	index := t[i].index
	return index < len(clock) && clock[index] > i
}

type trace []event

// clocks are what the happens-before relation needs to know beyond the trace: the order of each
// goroutine's events, of those who wake and are woken, of dependent events, and from Unlock to the
// next Lock.
type clocks struct {
	last     []int                  // by index, its last event, -1 for none
	unlocked map[unsafe.Pointer]int // the last event that unlocked a mutex
}

func (c *clocks) unlock(mutexes []unsafe.Pointer, at int) {
	for _, m := range mutexes {
		if c.unlocked == nil {
			c.unlocked = make(map[unsafe.Pointer]int)
		}
		c.unlocked[m] = at
	}
}

// wakes returns the event that lets a goroutine at Gosched go on, -1 if there is none: the first
// by somebody else that wrote what it has read since its last one.
func (c *clocks) wakes(t trace, index int) int {
	wakes := -1
	for i := len(t) - 1; i >= 0; i-- {
		e := &t[i]
		if e.index != index {
			continue
		}
		if e.op.yields {
			break
		}
		for k := i + 1; k < len(t); k++ {
			if t[k].index != index && dependent(e.op, t[k].op) && (wakes < 0 || k < wakes) {
				wakes = k
			}
		}
	}
	return wakes
}

// happen adds what a goroutine is about to do to the trace, and has the search note the races
// that it ends.
func (r *Run) happen(g *goroutine) {
	c := &r.clocks
	for len(c.last) < len(r.known) {
		c.last = append(c.last, -1)
	}
	own := make([]int, len(r.known))
	join := func(i int) {
		if i >= 0 {
			for k, n := range r.trace[i].clock {
				own[k] = max(own[k], n)
			}
		}
	}
	join(c.last[g.index])
	join(g.woken)
	t := trace(r.trace)
	var races []int
	full := slices.Clone(own)
	for i := len(t) - 1; i >= 0; i-- {
		if t[i].index == g.index || !dependent(t[i].op, g.op) {
			continue
		}
		if !t.before(i, full) { // neither before its last event, nor before a later race
			races = append(races, i)
		}
		if i < r.search.over { // those after it are not reversed, so look behind them
			for k, n := range t[i].clock {
				full[k] = max(full[k], n)
			}
		}
		for k, n := range t[i].clock {
			own[k] = max(own[k], n)
		}
	}
	if g.op.mutex != nil {
		if i, ok := c.unlocked[unsafe.Pointer(g.op.mutex)]; ok {
			join(i)
		}
	}
	if g.op.yields {
		join(c.wakes(r.trace, g.index))
	}
	own[g.index] = len(r.trace) + 1
	c.last[g.index] = len(r.trace)
	r.trace = append(r.trace, event{g.index, g.op, own})
	for _, i := range races {
		r.search.reverse(r.trace, i)
	}
}

// initials returns the goroutines that can be the first, once event i is put off, on the way to the
// last event of the trace: what need not come after i is done as before, in an order of its own.
func (t trace) initials(i int) (first set) {
	var kept []int
	var seen set
	for k := i + 1; k < len(t); k++ {
		e := &t[k]
		if k < len(t)-1 && t.before(i, e.clock) {
			continue
		}
		after := func(h int) bool { return t.before(h, e.clock) }
		if !seen.has(e.index) && !slices.ContainsFunc(kept, after) {
			first.add(e.index)
		}
		seen.add(e.index)
		kept = append(kept, k)
	}
	return first
}

const maxGoroutines = 64

// A set of goroutines, by index.
type set uint64

func (s set) has(i int) bool { return s>>i&1 != 0 }
func (s *set) add(i int)     { *s |= 1 << i }
