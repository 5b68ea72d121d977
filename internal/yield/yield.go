// Package yield decides whether goroutines that are busy yield the processor to one that is late.
package yield

import (
	"sync/atomic"
	"time"
)

const (
	yieldFor = 5 * time.Millisecond // dozens of goroutines need less than 1 ms to yield one after another
	minPause = time.Second          // how long they do not yield after that has not helped
	maxPause = time.Minute          // the same, after it has not helped many times in a row
)

// A Control is shared by the goroutines that may yield to the same one. Its zero value is ready for use.
//
// A goroutine that is preempted goes to the end of the run queue, even if a garbage collection stops it only for a
// moment. There it waits until all that are ahead of it have used up their time slices. If they yield, it waits for less
// than a millisecond, and this costs them nothing. But goroutines that compute do not yield, and who yields to them
// waits for the time slices of them all. So if the late one has not gone on after yieldFor, the others leave it to the
// scheduler for a pause, which doubles each time. If two of them write that at the same time, the times are less exact.
type Control struct {
	from, pause atomic.Int64 // when they last began to yield, and how long they then pause
}

// Yields reports whether the caller should yield. Late says whether the other goroutine is late at the time now.
func (c *Control) Yields(now time.Duration, late bool) bool {
	from, pause := time.Duration(c.from.Load()), time.Duration(c.pause.Load())
	yielding := now < from+yieldFor
	switch {
	case !yielding && now < from+pause:
		return false
	case !yielding && late:
		c.from.Store(int64(now))
		c.pause.Store(int64(min(max(minPause, 2*pause), maxPause)))
	case yielding && !late:
		c.pause.Store(0) // it has helped
	}
	return late
}
