package explore

import (
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A Mutex stands in for sync.Mutex. During an exploration nobody is let past the gate of Lock
// while another has it, so the real one never blocks. Unlock needs no gate: it belongs to the
// step before it, and what it makes possible is a step of somebody else.
type Mutex struct {
	real sync.Mutex
	held atomic.Bool
}

// Lock locks the mutex.
func (m *Mutex) Lock() {
	if r := active.Load(); r != nil {
		r.stop(op{kind: "Lock", mutex: m}, touching{unsafe.Pointer(m), write})
	}
	m.real.Lock()
	m.held.Store(true)
}

// Unlock unlocks the mutex.
func (m *Mutex) Unlock() {
	if r := active.Load(); r != nil {
		if !r.unlock(m) {
			return
		}
	}
	m.held.Store(false)
	m.real.Unlock()
}

// A Once stands in for sync.Once.
type Once struct {
	mu   Mutex
	done bool
}

// Do calls f if it is the first call.
func (o *Once) Do(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.done {
		o.done = true
		f()
	}
}

// A Pool stands in for sync.Pool. It keeps nothing, so that all executions see the same.
type Pool struct{}

// Get returns nil.
func (*Pool) Get() any { return nil }

// Put forgets what it is given.
func (*Pool) Put(any) {}

// Channel is the gate before an operation on one or, in a select, some of the channels given. That
// which blocks does so behind the gate, where time or somebody else's step ends it.
func Channel(channels ...any) {
	r := active.Load()
	if r == nil {
		return
	}
	var all []touching
	for _, c := range channels {
		v := reflect.ValueOf(c)
		if v.Type().Elem() == reflect.TypeFor[time.Time]() {
			all = append(all, touching{clockAddress, load}) // what time sends on
		}
		all = append(all, touching{v.UnsafePointer(), write})
	}
	r.stop(op{kind: "channel"}, all...)
}

// GOMAXPROCS stands in for runtime.GOMAXPROCS, and is always 2: the replays must see the same.
func GOMAXPROCS(int) int { return 2 }

// FuncForPC stands in for runtime.FuncForPC.
func FuncForPC(pc uintptr) *runtime.Func { return runtime.FuncForPC(pc) }

// Gosched stands in for runtime.Gosched. During an exploration it waits until somebody has
// written what its goroutine has read since the last call: to look again before that is a step
// that changes nothing, of which there could be any number.
func Gosched() {
	if r := active.Load(); r != nil {
		r.stop(op{kind: "Gosched", yields: true})
		return
	}
	runtime.Gosched()
}

// clockAddress stands for the time, which all who read it share with that which passes.
var clockAddress = unsafe.Pointer(new(int64))

func clockGate() {
	if r := active.Load(); r != nil {
		r.stop(op{kind: "time"}, touching{clockAddress, load})
	}
}

// Now stands in for time.Now.
func Now() time.Time { clockGate(); return time.Now() }

// Since stands in for time.Since.
func Since(t time.Time) time.Duration { clockGate(); return time.Since(t) }

// Until stands in for time.Until.
func Until(t time.Time) time.Duration { clockGate(); return time.Until(t) }

// Sleep stands in for time.Sleep.
func Sleep(d time.Duration) { clockGate(); time.Sleep(d) }

// AfterFunc stands in for time.AfterFunc.
func AfterFunc(d time.Duration, f func()) *time.Timer { clockGate(); return time.AfterFunc(d, f) }
