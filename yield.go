package hashedwheel

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// A yielding decides whether producers yield the processor: to the worker if a round is overdue or an inbox is full, or to a
// runner that the worker has started. All producers of a timer share it. Its zero value is ready for use.
//
// A goroutine that is preempted goes to the end of the run queue, even if a garbage collection stops it only for a moment.
// There it waits until all goroutines ahead of it have used up their time slices. If these yield, it goes on soon, which
// costs them nothing: benchmarks/tried.md has the figures. But goroutines that compute do not yield, and a producer that
// yields to them waits for all their time slices. So if the round, or the runner, has not gone on after yieldFor, producers
// do not yield for a backoff, which doubles each time. If two producers write the fields at once, the times are less
// exact.
type yielding struct {
	from, backoff atomic.Int64 // when producers last began to yield, and for how long they do not begin again
}

const (
	overdue    = 12 * time.Millisecond // longer than an alarm waits for the end of one time slice
	yieldFor   = 20 * time.Millisecond // longer than dozens of goroutines take to yield in turn, also during a collection
	minBackoff = time.Second           // the backoff after yielding has not helped once
	maxBackoff = time.Minute           // the backoff after it has not helped many times in a row
)

// yieldTo yields the processor if a round or a runner is overdue, or if the inbox of the caller is full. Producers call it after
// many slots of a nursery, or many pushes.
func (y *yielding) yieldTo(w *worker, full bool) {
	state, now := w.state.Load(), w.clock.Elapsed()
	roundIsOverdue := w.isOverdue(now, state)
	if !y.yields(now, full || roundIsOverdue || w.runnerIsOverdue(now)) {
		return
	}
	if roundIsOverdue && isIdle(state) {
		w.wake(state) // the alarm is late, or its goroutine waits for a processor
	}
	runtime.Gosched()
}

// yields reports whether the caller should yield. The caller passes true for needed if a round or a runner is overdue, or
// its inbox is full.
func (y *yielding) yields(now time.Duration, needed bool) bool {
	from, backoff := time.Duration(y.from.Load()), time.Duration(y.backoff.Load())
	yields := now < from+yieldFor
	switch {
	case !yields && now < from+backoff:
		return false
	case !yields && needed:
		y.from.Store(int64(now))
		y.backoff.Store(int64(min(max(minBackoff, 2*backoff), maxBackoff)))
	case yields && !needed:
		y.backoff.Store(0) // it has helped
	}
	return needed
}

// isOverdue reports whether a round is overdue, given the state of the worker.
func (w *worker) isOverdue(now time.Duration, state uint64) bool {
	next := state >> idleShift
	if !isIdle(state) {
		next = w.progress.nextTick() // a round is in progress, and has not come to this boundary yet, or has only just been started
	}
	return now >= ticks.Later(w.clock.Boundary(next), overdue)
}

// runnerIsOverdue reports whether a runner has waited long for its first processor. The wait counts from handedAt, even if the pool
// started the runner later.
func (w *worker) runnerIsOverdue(now time.Duration) bool {
	return w.runnerStarts() && now >= time.Duration(w.handedAt.Load())+overdue
}
