package explore

import (
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"
)

// A Machine is a model of processors that each have a cache. It counts the cache lines that move between them.
//
// A read by a processor without a copy of the line moves the line, and so does a write by one whose copy is not the only one. The
// first access to a line moves nothing. Package rewrite puts [Access] before each access. There is no time: a goroutine goes on until
// it has to wait for a line, or until its operation is over. Then any of them goes on, by chance.
type Machine struct {
	migration  int                      // how many processors further a goroutine goes on after each operation
	goroutines []*onMachine             // one for each processor
	lines      map[uintptr]map[int]bool // by address / lineSize, the processors that have a copy
	moves      int                      // of all lines
	rand       *rand.Rand
}

// An onMachine is a goroutine of a Machine.
type onMachine struct {
	*Machine
	processor int
	stack     uintptr // its address
	next      func() (struct{}, bool)
	yield     func(struct{}) bool
	locked    *sync.Mutex // the last mutex that it has used
}

// running is the goroutine that runs now, or nil. No goroutine outside the machine may run meanwhile.
var running *onMachine

const lineSize = 64

// NewMachine returns a machine. It also ends garbage collection, which would not find the pointers that lie in [Lines].
func NewMachine(processors, migration int, r *rand.Rand) *Machine {
	debug.SetGCPercent(-1)
	m := &Machine{migration: migration, lines: make(map[uintptr]map[int]bool), rand: r}
	for i := range processors { // stacks of 2 KiB, somewhere in 1 GiB
		g := &onMachine{Machine: m, processor: i, stack: uintptr(r.IntN(1<<19)) << 11, locked: new(sync.Mutex)}
		m.goroutines = append(m.goroutines, g)
	}
	return m
}

// Run has each goroutine call op n times, with its number, and returns how many lines moved for each call.
func (m *Machine) Run(n int, op func(goroutine int)) (moves float64) {
	before := m.moves
	for i, g := range m.goroutines {
		g.next, _ = iter.Pull(func(yield func(struct{}) bool) {
			g.yield = yield
			for range n {
				op(i)
				g.processor = (g.processor + m.migration) % len(m.goroutines)
				yield(struct{}{})
			}
		})
	}
	for left := slices.Clone(m.goroutines); len(left) > 0; {
		i := m.rand.IntN(len(left))
		running = left[i]
		if _, more := running.next(); !more {
			left = slices.Delete(left, i, i+1)
		}
	}
	running = nil
	return float64(m.moves-before) / float64(n*len(m.goroutines))
}

// touch notes that the goroutine accesses a line.
func (g *onMachine) touch(at uintptr, writes bool) {
	copies := g.lines[at]
	if len(copies) > 0 && !copies[g.processor] || len(copies) > 1 && writes {
		g.moves++
		if g.locked.TryLock() { // otherwise no other goroutine goes on, because it might wait for the mutex
			g.locked.Unlock()
			g.yield(struct{}{})
		}
	}
	if writes || copies == nil {
		g.lines[at] = make(map[int]bool)
	}
	g.lines[at][g.processor] = true
}

// Access stands before an access to a variable.
func Access[T any](p *T, writes bool) *T {
	if g := running; g != nil {
		first := uintptr(unsafe.Pointer(p))
		for at := first / lineSize; at <= (first+unsafe.Sizeof(*p)-1)/lineSize; at++ {
			g.touch(at, writes)
		}
		if mu, ok := any(p).(*sync.Mutex); ok {
			g.locked = mu
		}
	}
	return p
}

// Lines moves a new slice to lines of its own.
func Lines[T any](s []T) []T {
	memory := make([]byte, uintptr(len(s))*unsafe.Sizeof(*new(T))+lineSize)
	begin := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % lineSize
	own := unsafe.Slice((*T)(unsafe.Pointer(&memory[begin])), len(s))
	for i, v := range s {
		*Access(&own[i], true) = v
	}
	return own
}

// Stack stands for the address of a variable of the calling goroutine.
func Stack(unsafe.Pointer) uintptr {
	if running == nil {
		return 0
	}
	return running.stack
}
