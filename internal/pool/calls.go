package pool

import (
	"context"
	"runtime/pprof"
	"time"
)

// Calls calls functions, each once, on goroutines that exist only while there are calls to make. A call that blocks delays
// others by at most two ticks. A function recovers its own panics.
type Calls struct{ pool Pool[*call] }

// A call is an item: a function to call.
type call struct {
	f  func()
	of any // what it is for: see CallFor; or nil
}

// Init prepares calls. The tick is as for Pool.Init.
func (c *Calls) Init(tick time.Duration) { c.pool.Init(callHost{}, tick, &callMemory) }

var callMemory Memory[*call]

// SetLabels sets the profiler labels of the goroutines. It must come before the first call.
func (c *Calls) SetLabels(labels context.Context) { c.pool.Labels = labels }

// Call has f called soon.
func (c *Calls) Call(f func()) { c.pool.Add(&call{f: f}) }

// CallFor is like Call, for user code. Look passes on of, which says what the call is for.
func (c *Calls) CallFor(of any, f func()) { c.pool.Add(&call{f, of}) }

// Look is Pool.Look for the calls in progress that CallFor has made.
func (c *Calls) Look(now time.Duration, f func(of any, since time.Duration)) {
	c.pool.Look(now, func(s Sight[*call]) {
		if s.Item.of != nil {
			f(s.Item.of, s.Since)
		}
	})
}

// UntilIdle returns a channel that is closed when all calls have been made.
func (c *Calls) UntilIdle() <-chan struct{} { return c.pool.UntilIdle() }

// Goroutines returns the number of goroutines.
func (c *Calls) Goroutines() int {
	_, goroutines := c.pool.Running()
	return goroutines
}

// callHost is the host of the pool whose items are calls.
type callHost struct{}

var _ Host[*call] = callHost{}

func (callHost) Count(time.Duration, uint64)       {}
func (callHost) Ran(*call) bool                    { return false }
func (callHost) Requeue(*call)                     {}
func (callHost) Panicked(_ *call, v any, _ []byte) { panic(v) }

func (callHost) Work(rn *Runner[*call]) {
	for c := rn.Next(); c != nil; c = rn.Next() {
		rn.Start(false)
		c.f()
	}
}

// setLabels gives the calling goroutine the labels that a context carries.
func setLabels(ctx context.Context) { pprof.SetGoroutineLabels(ctx) }

// A labelContext caches the value that pprof looks up in a context. A runner sets its labels before each task, and the
// lookup takes long compared with a short task.
type labelContext struct {
	context.Context
	value any
}

// CacheLabels returns a context with the labels of another, for Labels and SetLabels.
func CacheLabels(ctx context.Context) context.Context {
	c := &labelContext{Context: ctx}
	pprof.Label(c, "") // asks for the value that SetGoroutineLabels asks for
	return c
}

func (c *labelContext) Value(key any) any {
	if c.value == nil {
		c.value = c.Context.Value(key)
	}
	return c.value
}
