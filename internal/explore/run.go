package explore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
	"unsafe"
)

// active is the execution whose gates are closed. If it is nil, all operations just happen.
var active atomic.Pointer[Run]

// A Run is one execution of a scenario. It implements the TestingT of testify, for the checks of the scenario. Most
// of them are made by the root goroutine of the bubble. A check that fails elsewhere ends the process without the
// trace.
type Run struct {
	search *search
	victim *Victim // if not nil, all gates are open, except to freeze it

	racers   []*goroutine
	racing   atomic.Int64 // racers that have not returned
	passes   int          // how often time may still pass by choice
	idle     int          // how often time has passed because no goroutine could go on
	trace    trace
	diverged error
	waiting  string // the goroutines that were at a gate when kill ended the execution

	// Used also by the goroutines that come to a gate.
	mu       sync.Mutex
	all      map[uint64]*goroutine         // by the runtime's number
	labeled  map[unsafe.Pointer]*goroutine // by the profiler labels that self has set
	arrived  []*goroutine                  // at a gate since the last step
	released []unsafe.Pointer              // mutexes unlocked since the last step
	killed   bool

	// Used by the root goroutine only.
	known  []*goroutine           // by index; known[0] stands for time
	labels map[unsafe.Pointer]int // numbers for addresses, in the order of their first use; the keys keep the addresses in use
	clocks clocks
}

// A goroutine is a racer, or has come to a gate in this execution.
type goroutine struct {
	id     uint64 // the runtime's number
	index  int    // in the order of the first gates, the same in each execution; -1 before the first gate
	op     *op    // the next operation; nil if the goroutine is not at a gate
	woken  int    // the step during which it came to this gate, or -1
	resume chan struct{}
}

// Go adds a racer: a goroutine that Race starts.
func (r *Run) Go(f func()) {
	g := &goroutine{index: len(r.racers) + 1, woken: -1, resume: make(chan struct{})}
	r.racers = append(r.racers, g)
	r.racing.Add(1)
	started := make(chan struct{})
	go func() {
		defer r.racing.Add(-1)
		g.id = goid()
		close(started)
		<-g.resume
		r.stop(op{kind: "start"})
		f()
	}()
	<-started
}

// Race is called once. It runs the racers, and all other goroutines of the bubble, in one of the possible orders. It
// returns when the racers have returned and no goroutine can go on. Before the racers start, Race lets the time lead
// pass, with the gates closed. So a goroutine that wakes up in this time stops at its first gate, and takes part in
// the race.
func (r *Run) Race(lead time.Duration) {
	r.all = make(map[uint64]*goroutine)
	r.labeled = make(map[unsafe.Pointer]*goroutine)
	r.clocks.unlocked = make(map[unsafe.Pointer]int)
	r.labels = map[unsafe.Pointer]int{clockAddress: 0}
	r.known = []*goroutine{{woken: -1, op: &op{kind: "time passes", touches: []touch{{0, write}}}}}
	for _, g := range r.racers {
		r.all[g.id] = g
		r.known = append(r.known, g)
	}
	r.passes = r.search.size.Passes
	active.Store(r)
	time.Sleep(lead)
	for _, g := range r.racers {
		g.resume <- struct{}{}
	}
	for r.step() {
	}
	active.Store(nil)
	r.openGates()
	if r.diverged != nil {
		panic(failure{r.diverged})
	}
}

// openGates lets all goroutines go on that are at a gate.
func (r *Run) openGates() {
	for _, g := range r.known[1:] {
		if g.op != nil {
			g.op = nil
			g.resume <- struct{}{}
		}
	}
	synctest.Wait()
}

// step lets one goroutine go on to its next gate, or lets time pass. It reports false if the execution has ended.
func (r *Run) step() bool {
	synctest.Wait()
	r.welcome()
	index, ok := r.search.choose(r)
	if !ok {
		return false
	}
	if len(r.trace) > maxSteps {
		r.kill("the execution has not ended after %d steps", len(r.trace))
	}
	g := r.known[index]
	if index == 0 {
		if r.passes > 0 {
			r.passes--
		} else if r.idle++; r.idle > maxIdle {
			r.kill("deadlock: no goroutine can go on, and %d racers have not returned", r.racing.Load())
		}
	}
	r.happen(g)
	if index == 0 {
		time.Sleep(r.search.pass)
	} else {
		g.op = nil
		g.resume <- struct{}{}
	}
	return true
}

const (
	maxIdle  = 20 // how often time passes at most because no goroutine can go on
	maxSteps = 5000
)

// welcome gives an index to each goroutine that has come to a gate for the first time, and a label to each address
// that is used for the first time.
func (r *Run) welcome() {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.arrived, func(a, b *goroutine) int { return cmp.Compare(a.id, b.id) })
	for _, g := range r.arrived {
		if g.index < 0 {
			g.index = len(r.known)
			r.known = append(r.known, g)
			if len(r.known) > maxGoroutines {
				panic("explore: more than 64 goroutines")
			}
		}
		g.woken = len(r.trace) - 1
		for _, t := range g.op.raw {
			label, ok := r.labels[t.address]
			if !ok {
				label = len(r.labels)
				r.labels[t.address] = label
			}
			g.op.touches = append(g.op.touches, touch{label, t.access})
		}
	}
	r.arrived = r.arrived[:0]
	for _, g := range r.known {
		g.op = g.op.inThisState()
	}
	for _, m := range r.released {
		r.clocks.unlocked[m] = len(r.trace) - 1
	}
	r.released = r.released[:0]
}

// ops returns the next operation of each goroutine, or nil if it is not at a gate.
func (r *Run) ops() (all []*op) {
	for _, g := range r.known {
		all = append(all, g.op)
	}
	return all
}

// enabled reports whether the goroutine with this index can go on.
func (r *Run) enabled(index int) bool {
	g := r.known[index]
	switch {
	case index == 0:
		return r.passes > 0
	case g.op == nil:
		return false
	case g.op.mutex != nil:
		return !g.op.mutex.held.Load()
	case g.op.yields:
		return r.clocks.wakes(r.trace, index) >= 0
	}
	return true
}

// stop stops the calling goroutine at the gate before an operation, until the explorer lets it go on.
func (r *Run) stop(o op, raw ...touching) {
	if r.victim != nil {
		r.victim.pass(o)
		return
	}
	runtime.Callers(2, o.pcs[:])
	o.raw = raw
	r.mu.Lock()
	if r.killed {
		r.mu.Unlock()
		runtime.Goexit()
	}
	g := r.self()
	g.op = &o
	r.arrived = append(r.arrived, g)
	r.mu.Unlock()
	<-g.resume
	r.mu.Lock()
	killed := r.killed
	r.mu.Unlock()
	if killed {
		runtime.Goexit()
	}
}

// unlock notes that a mutex is being unlocked. It reports false after kill. Then the caller exits, and may not have
// locked the mutex at all.
func (r *Run) unlock(m *Mutex) bool {
	if r.victim != nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = append(r.released, unsafe.Pointer(m))
	return !r.killed
}

// kill fails the execution, and ends the goroutines that are at a gate.
func (r *Run) kill(format string, args ...any) {
	r.mu.Lock()
	r.killed = true
	r.mu.Unlock()
	r.known[0].op = nil // it is not at a gate
	r.waiting = "still at a gate:\n" + describeOps(r.ops())
	r.openGates()
	active.Store(nil)
	panic(failure{fmt.Errorf(format, args...)})
}

// A failure is the value with which the root goroutine panics if the execution fails.
type failure struct{ err error }

// Errorf fails the execution.
func (r *Run) Errorf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// FailNow fails the execution.
func (r *Run) FailNow() { panic(failure{fmt.Errorf("FailNow")}) }

// self returns the calling goroutine. The caller holds mu.
//
// goid takes longer than all the rest of a step. So self calls it once for each goroutine, and from then on finds the
// goroutine by its profiler labels. A goroutine inherits the labels of the goroutine that starts it. It does not
// inherit the setting of SetPanicOnFault, which therefore tells whether the labels are its own.
func (r *Run) self() *goroutine {
	if debug.SetPanicOnFault(true) {
		if g := r.labeled[profLabel()]; g != nil {
			return g
		}
	}
	id := goid()
	g := r.all[id]
	if g == nil {
		g = &goroutine{id: id, index: -1, resume: make(chan struct{})}
		r.all[id] = g
	}
	labels := pprof.Labels("goroutine", strconv.FormatUint(id, 10))
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), labels))
	r.labeled[profLabel()] = g
	return g
}

// profLabel returns the address of the calling goroutine's profiler labels. Package runtime/pprof can set these
// labels, but has no exported function to read them. The runtime promises to keep this function for users outside the
// standard library.
//
//go:linkname profLabel runtime/pprof.runtime_getProfLabel
func profLabel() unsafe.Pointer

// goid returns the runtime's number of the calling goroutine.
func goid() uint64 {
	var buf [32]byte
	s := buf[len("goroutine "):runtime.Stack(buf[:], false)]
	id, err := strconv.ParseUint(string(s[:bytes.IndexByte(s, ' ')]), 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}
