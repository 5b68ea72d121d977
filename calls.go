package hashedwheel

import (
	"context"
	"sync"
	"time"
)

// calls runs user code on goroutines of the timer. A call notifies a Canceler, logs, or submits a job to an
// executor. If the executor refuses the job, the call runs the task. The caller of add does not wait for it.
//
// One goroutine makes call after call, and ends when none is left. While calls wait behind it, a timer
// of the runtime checks their progress several times a tick, and starts more goroutines if there is too
// little. So a call that blocks does not delay the others for long.
type calls struct {
	// Immutable after New.
	checkInterval time.Duration   // the time between checks
	labels        context.Context // the profiler labels of the goroutines

	// Guarded by mu, which is never held while user code runs.
	mu       sync.Mutex
	first    *call         // a list of the calls yet to be made; nil if there are none
	last     *call         // the end of the list
	left     int           // the length of the list
	live     int           // how many goroutines there are
	fresh    int           // how many of them have not had a processor yet
	idle     chan struct{} // closed when live becomes 0; nil if no goroutine waits for that
	watch    *time.Timer   // calls check
	watching bool          // watch is armed
	progress progress
}

type call struct {
	f    func()
	next *call
}

// Bounds of checkInterval, which is otherwise 1/checksPerTick of the tick. With a shorter interval, checks
// would come more often than goroutines get a processor.
const (
	minCheckInterval = 100 * time.Microsecond
	maxCheckInterval = 10 * time.Millisecond
)

// add has f called soon. It works in every state of the timer, also after Stop.
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
		c.watch = time.AfterFunc(c.checkInterval, c.check)
	} else {
		c.watch.Reset(c.checkInterval)
	}
}

func (c *calls) start(n int) {
	c.live += n
	c.fresh += n
	for range n {
		go c.run(true)
	}
}

// run makes calls until none is left, on a goroutine of its own. Fresh says that the goroutine counts as
// fresh.
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

// take takes the next call off the list and returns its function. It returns nil if there is none: then
// the calling goroutine is no longer live, and must end.
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

// check starts more goroutines if the waiting calls make too little progress. Called by watch.
func (c *calls) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		c.watching = false
		c.progress.reset()
		return
	}
	c.start(min(c.left, c.progress.more(c.checkInterval, c.live, c.fresh == 0)))
	c.watch.Reset(c.checkInterval)
}

// untilIdle returns a channel that is closed when no call is left or in progress, or nil if none is now.
func (c *calls) untilIdle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live > 0 && c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}
