package explore

import (
	"slices"
	"unsafe"
)

// An access is the way in which an operation uses an address.
type access uint8

const (
	load  access = iota
	add          // an addition whose result is not used: two of them commute
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

// An op is what a goroutine is about to do: one operation, and then everything up to the next operation.
type op struct {
	kind    string
	raw     []touching
	touches []touch
	mutex   *Mutex // for a Lock

	// For a compare-and-swap: whether it would succeed now. If not, it counts as a load.
	succeeds func() bool

	yields bool       // it waits until another goroutine has written what this goroutine has read
	pcs    [4]uintptr // the call stack, from the gate outwards
}

// inThisState returns the operation as it is in the present state. While it runs, all goroutines wait for the search.
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
	index int // of the goroutine
	op    *op
	// For each goroutine: one more than the index of its last event that is this one or happened before it,
	// or 0 if there is none.
	clock []int
}

// before reports whether event i of a trace must come before an event that has the given clock.
func (t trace) before(i int, clock []int) bool {
	index := t[i].index
	return index < len(clock) && clock[index] > i
}

type trace []event

// clocks hold what the happens-before relation needs beyond the trace. The relation orders the events of each
// goroutine, a wake-up before what it wakes, dependent events, and an Unlock before the next Lock.
type clocks struct {
	last     []int                  // by index of a goroutine, its last event, or -1
	unlocked map[unsafe.Pointer]int // by mutex, the last event that unlocked it
}

// wakes returns the event that lets a goroutine at Gosched continue, or -1. It is the first event of another
// goroutine that wrote something after this goroutine had read it since its last Gosched.
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

// happen adds the operation that a goroutine is about to do to the trace. The operation is the second one of some
// races, which the search then notes.
func (r *Run) happen(g *goroutine) {
	c := &r.clocks
	for len(c.last) < len(r.known) {
		c.last = append(c.last, -1)
	}
	own, t := make([]int, len(r.known)), r.trace
	join := func(clock []int, i int) {
		if i >= 0 {
			for k, n := range t[i].clock {
				clock[k] = max(clock[k], n)
			}
		}
	}
	join(own, c.last[g.index])
	join(own, g.woken)
	var races []int
	full := slices.Clone(own)
	for i := len(t) - 1; i >= 0; i-- {
		if t[i].index == g.index || !dependent(t[i].op, g.op) {
			continue
		}
		if !t.before(i, full) { // before neither the last event of g nor the first event of a later race
			races = append(races, i)
		}
		if i < r.search.over { // later events are not reversed, so they hide no earlier race
			join(full, i)
		}
		join(own, i)
	}
	if g.op.mutex != nil {
		if i, ok := c.unlocked[unsafe.Pointer(g.op.mutex)]; ok {
			join(own, i)
		}
	}
	if g.op.yields {
		join(own, c.wakes(t, g.index))
	}
	own[g.index] = len(t) + 1
	c.last[g.index] = len(t)
	r.trace = append(t, event{g.index, g.op, own})
	for _, i := range races {
		r.search.reverse(r.trace, i)
	}
}

// initials returns the goroutines that can make the first step instead of event i, so that the last event of the
// trace comes before event i. On the way there, the events that need not come after event i still happen, in any
// order that the happens-before relation allows.
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

// A set contains goroutines, by index.
type set uint64

func (s set) has(i int) bool { return s>>i&1 != 0 }
func (s *set) add(i int)     { *s |= 1 << i }
