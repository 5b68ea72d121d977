package explore

import (
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A Mutex stands in for sync.Mutex. During an exploration no goroutine passes the gate of Lock while another has
// locked the mutex, so the real mutex never blocks. Unlock needs no gate. It belongs to the step before it, and only
// makes a step of another goroutine possible.
type Mutex struct {
	real sync.Mutex
	held atomic.Bool
}

// Lock locks the mutex.
func (m *Mutex) Lock() {
	if r := active.Load(); r != nil {
		r.stop(op{kind: "Lock", mutex: m}, touching{unsafe.Pointer(m), write})
		if r.victim != nil {
			r.victim.lock(m)
			return
		}
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

// Do calls f if this is the first call of Do.
func (o *Once) Do(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.done {
		o.done = true
		f()
	}
}

// A Pool stands in for sync.Pool. It keeps nothing, so that all executions get the same from it.
type Pool struct{}

// Get returns nil.
func (*Pool) Get() any { return nil }

// Put does nothing.
func (*Pool) Put(any) {}

// Channel is the gate before an operation on a channel, or before a select, which uses some of the given channels. An
// operation that blocks does so after the gate, until time or a step of another goroutine ends it.
func Channel(channels ...any) {
	r := active.Load()
	if r == nil {
		return
	}
	var all []touching
	for _, c := range channels {
		v := reflect.ValueOf(c)
		if v.Type().Elem() == reflect.TypeFor[time.Time]() {
			all = append(all, touching{clockAddress, load}) // the passing of time sends on it
		}
		all = append(all, touching{v.UnsafePointer(), write})
	}
	r.stop(op{kind: "channel"}, all...)
}

// GOMAXPROCS stands in for runtime.GOMAXPROCS. It always returns 2, because all executions must get the same.
func GOMAXPROCS(int) int { return 2 }

// FuncForPC stands in for runtime.FuncForPC.
func FuncForPC(pc uintptr) *runtime.Func { return runtime.FuncForPC(pc) }

// Gosched stands in for runtime.Gosched. During an exploration it waits until another goroutine has written what the
// caller has read since its last call. Before that, to read again would change nothing, and there could be any number
// of such steps.
func Gosched() {
	if r := active.Load(); r != nil {
		r.stop(op{kind: "Gosched", yields: true})
		return
	}
	runtime.Gosched()
}

// clockAddress stands for the time. Operations that read the clock read it, and time that passes writes it.
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
