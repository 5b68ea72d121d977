package hashedwheel

import (
	"context"
	"sync"
	"time"
)

// calls run user code that is not a task on goroutines of the timer's: they notify a Canceler, submit
// to an executor, or log. The caller of add does not wait.
//
// One goroutine makes call after call, and ends when none is left. While calls wait behind it, a timer
// of the runtime looks several times a tick whether they get on, and starts more goroutines if they do
// not. So a call that blocks does not hold up the others.
type calls struct {
	// Immutable after New.
	patience time.Duration   // between looks
	labels   context.Context // the profiler labels of the goroutines

	// Guarded by mu, which is never held while user code runs.
	mu       sync.Mutex
	first    *call         // a list of the calls that are yet to be made; nil if there is none
	last     *call         // the end of it
	left     int           // its length
	live     int           // goroutines
	fresh    int           // those of them that have not had a processor yet
	idle     chan struct{} // closed when live becomes 0; nil if nobody waits for that
	watch    *time.Timer   // runs look
	watching bool          // watch is armed
	progress progress
}

type call struct {
	f    func()
	next *call
}

// The patience is a part of the tick, within these bounds. Less would look more often than goroutines
// get a processor.
const (
	minPatience = 100 * time.Microsecond
	maxPatience = 10 * time.Millisecond
)

// add has f called soon. It may be called in any state of the timer, also after Stop.
func (c *calls) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &call{f: f}
	if c.left++; c.left == 1 {
		c.first = n
	} else {
		c.last.next = n
	}
	c.last = n
	if c.live == 0 {
		c.start(1)
	}
	if c.watching {
		return
	}
	c.watching = true
	if c.watch == nil {
		c.watch = time.AfterFunc(c.patience, c.look)
	} else {
		c.watch.Reset(c.patience)
	}
}

func (c *calls) start(n int) {
	c.live += n
	c.fresh += n
	for range n {
		go c.run(true)
	}
}

// run is a goroutine that makes calls.
func (c *calls) run(fresh bool) {
	ended := false
	defer func() {
		if !ended {
			go c.run(false) // a call has ended this goroutine by runtime.Goexit
		}
	}()
	for f := c.take(fresh); f != nil; f = c.take(false) {
		fresh = false
		setLabels(c.labels) // the call before may have set others
		f()
	}
	ended = true
}

// take returns the next call. If it returns nil there is none, and the caller is no longer live.
func (c *calls) take(fresh bool) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fresh {
		c.fresh--
	}
	if n := c.first; n != nil {
		if c.left--; c.left == 0 {
			c.last = nil
		}
		c.first = n.next
		c.progress.taken++
		return n.f
	}
	if c.live--; c.live == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
	return nil
}

// look starts more goroutines if the calls that wait do not get on. Called by watch.
func (c *calls) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		c.watching = false
		c.progress.reset()
		return
	}
	c.start(min(c.left, c.progress.more(c.patience, c.live, c.fresh == 0)))
	c.watch.Reset(c.patience)
}

// untilIdle returns a channel that is closed when no call is left; nil if none is.
func (c *calls) untilIdle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live > 0 && c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}
