package explore

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A Victim is a goroutine that freezes before some of its steps. It stays there until [Victim.Next]. Meanwhile all other
// goroutines go on as usual, and so does time. A Victim implements the TestingT of testify, for the checks of the scenario.
type Victim struct {
	at       []int    // how many steps it makes before it freezes, each time; immutable
	seen     []op     // where it has frozen
	left     int      // steps until it freezes the next time; used by the goroutine
	cleanups []func() // see Cleanup
	resume   chan struct{}
	frozen   atomic.Bool

	mu   sync.Mutex
	id   uint64 // the runtime's number of the goroutine, or 0 before Go and after it has ended
	free int    // steps of others since it has frozen
}

// maxFree is how many steps the others make at most while the victim is frozen. If one of them waits for the victim and
// never yields, it comes to this.
const maxFree = 1_000_000

// Freeze runs a scenario once for each step of a goroutine, which freezes before this step. With several stops, it does so
// for each combination of steps, one after another. The last executions of each series are those in which the goroutine has
// ended before. Each execution has its own bubble. The scenario prepares what it needs, calls Go once, makes its checks, and
// calls Next to let the goroutine go on. Freeze logs how many executions there were. If most is not 0, it ends after as many.
//
// A goroutine that finds a mutex locked, or yields, waits for a microsecond of virtual time.
func Freeze(t *testing.T, stops, most int, scenario func(v *Victim)) {
	t.Helper()
	n := 0
	for at := make([]int, stops); at != nil && (most == 0 || n < most); n++ {
		v := &Victim{at: at}
		var err error
		synctest.Test(t, func(*testing.T) { err = v.execute(scenario) })
		if err != nil {
			t.Fatalf("%v\n%v", err, v)
		}
		at = v.next()
	}
	t.Logf("%d executions", n)
}

// next returns where the goroutine freezes in the next execution, or nil after the last one.
func (v *Victim) next() []int {
	last := len(v.seen) - 1
	if last < 0 {
		return nil
	}
	at := make([]int, len(v.at))
	copy(at, v.at[:last+1])
	at[last]++
	return at
}

// execute runs the scenario once, and then the cleanups.
func (v *Victim) execute(scenario func(v *Victim)) (err error) {
	v.resume = make(chan struct{}) // in the bubble
	active.Store(&Run{victim: v})
	defer func() {
		value := recover()
		if f, ok := value.(failure); ok {
			err = f.err
		} else if value != nil {
			panic(fmt.Sprintf("%v\n%v", value, v))
		}
		for v.Frozen() {
			v.Next()
		}
		active.Store(nil)
		for _, f := range v.cleanups {
			f()
		}
	}()
	scenario(v)
	return nil
}

// Go starts the goroutine, and returns when it is frozen or has ended, and no other goroutine runs.
func (v *Victim) Go(f func()) {
	v.left = v.at[0]
	go func() {
		v.setID(goid())
		f()
		v.setID(0)
	}()
	synctest.Wait()
}

func (v *Victim) setID(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.id = id
}

// Frozen reports whether the goroutine is frozen.
func (v *Victim) Frozen() bool { return v.frozen.Load() }

// Next lets the goroutine go on, if it is frozen. It returns when the goroutine is frozen again, or has ended, and no other
// goroutine runs.
func (v *Victim) Next() {
	if v.Frozen() {
		v.frozen.Store(false)
		v.resume <- struct{}{}
	}
	synctest.Wait()
}

// Cleanup calls f at the end of the execution, when the goroutine has ended.
func (v *Victim) Cleanup(f func()) { v.cleanups = append(v.cleanups, f) }

// Errorf fails the execution. Called by the goroutine of the scenario.
func (v *Victim) Errorf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// FailNow fails the execution. Called by the goroutine of the scenario.
func (v *Victim) FailNow() { panic(failure{fmt.Errorf("FailNow")}) }

func (v *Victim) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "it froze before these steps: %v", v.at)
	for i := range v.seen {
		fmt.Fprintf(&b, "\n  %s %s", v.seen[i].kind, v.seen[i].at())
	}
	return b.String()
}

// pass is the gate of all goroutines. It freezes the victim when its time has come.
func (v *Victim) pass(o op) {
	if v.freezes() {
		runtime.Callers(3, o.pcs[:])
		v.seen = append(v.seen, o)
		if n := len(v.seen); n < len(v.at) {
			v.left = v.at[n]
		}
		v.frozen.Store(true)
		<-v.resume
	}
	if o.yields {
		time.Sleep(time.Microsecond)
	}
}

// freezes reports whether the caller is the victim, and its time has come. Otherwise it counts the step.
func (v *Victim) freezes() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.Frozen():
		if v.free++; v.free > maxFree {
			panic(fmt.Sprintf("explore: %d steps while a goroutine is frozen\n%v", maxFree, v))
		}
		return false
	case v.id == 0 || len(v.seen) == len(v.at) || v.id != goid():
		return false
	}
	v.free = 0
	v.left--
	return v.left < 0
}

// lock locks a mutex.
func (v *Victim) lock(m *Mutex) {
	for !m.real.TryLock() {
		time.Sleep(time.Microsecond)
	}
	m.held.Store(true)
}
