package pool

import (
	"runtime/debug"
	"time"
)

// A Runner runs tasks. It has a goroutine of its own and takes items from the list of its pool, one at a time, until none is
// left. With an executor, a runner runs only one task, on a goroutine of the executor.
//
// The loop over the items is in Host.Work, so that a task costs few interface calls besides its own.
type Runner[T comparable] struct {
	pool *Pool[T] // changes only while nobody uses the runner

	// Written by the runner with the lock of the pool held. The runner reads them without it.
	item T    // the item that it has taken
	many bool // enough others waited then to measure only a sample of the tasks

	// Guarded by the lock of the pool.
	place int           // its index in pool.runners
	over  chan struct{} // closed when the run of the item is over; nil if no goroutine waits
	since time.Duration // when Look first found the run; 0 if it has not yet

	// When Look first found that a goroutine waits for the end of the run; 0 if it has not yet.
	awaited time.Duration

	// Owned by the runner.
	fresh      bool          // Next has yet to return the first item
	callsRan   bool          // Host.Ran follows the task
	inTask     bool          // the task runs, so a panic is its own
	unmeasured uint64        // tasks that it has started since it last measured one
	late       time.Duration // how late the measured one was; notMeasured if there is none
	steady     bool          // it was about as late as the one measured before
}

const (
	// If sample items wait, a runner measures only one of that many tasks (TestCounts). A measurement reads the clock and
	// changes counters that all runners share, which costs more than a short task.
	sample = 16

	notMeasured = time.Duration(-1 << 62)
)

// run runs tasks, from the first item that the runner has taken, until nothing is left to do. It is all that a goroutine
// does, or the last call in a function of an executor.
//
// A task may end the goroutine by a panic, and so may runtime.Goexit in a task, Ran or Panicked. Then another goroutine goes
// on. A panic of Ran or Panicked crashes the program, unless the executor recovers it.
func (rn *Runner[T]) run() {
	ended := false
	defer func() {
		if ended {
			return
		}
		defer func() { go rn.run() }()
		if !rn.inTask {
			return // Ran or the claim has ended the goroutine; its panic crashes the program
		}
		if value := recover(); value != nil { // nil after runtime.Goexit
			rn.pool.host.Panicked(rn.item, value, debug.Stack())
		}
	}()
	rn.pool.host.Work(rn)
	ended = true // from here on another goroutine may use the runner
}

// Next ends the run before, if there was one, and returns the next item. The host claims it, and then calls Start. If
// nothing is left to do, Next returns the zero T.
func (rn *Runner[T]) Next() (item T) {
	rn.inTask = false
	switch {
	case rn.fresh:
		rn.fresh = false
	case rn.callsRan && rn.ran(): // the next run of the item is due already. After Close, the host does not claim it
	case !rn.pool.refill(rn):
		return item
	}
	return rn.item
}

// Start is called when the host has claimed the item. The host must then run the task. If callsRan is true, Host.Ran
// is called when the task is over. If measure is true, the host calls Measured.
//
// An unmeasured task counts with the lateness of the next task that the same runner measures, or of the previous one if it
// measures no more. While the lateness of measured tasks changes much from one to the next, the runner measures all.
func (rn *Runner[T]) Start(callsRan bool) (measure bool) {
	rn.callsRan, rn.inTask = callsRan, true
	if labels := rn.pool.Labels; labels != nil {
		setLabels(labels) // the task before may have set others
	}
	rn.unmeasured++
	return !rn.many || !rn.steady || rn.unmeasured >= sample
}

// Measured is called when the host has measured how late the task is that starts now.
func (rn *Runner[T]) Measured(late time.Duration) {
	rn.steady = (late - rn.late).Abs() < sample*slowTask
	rn.late = late
	rn.count()
}

// count counts the tasks that the runner has started since it last did.
func (rn *Runner[T]) count() {
	rn.pool.host.Count(rn.late, rn.unmeasured)
	rn.unmeasured = 0
}

// ran calls Host.Ran, which ends the run. It reports whether the next run of the item follows at once.
func (rn *Runner[T]) ran() (again bool) {
	rn.callsRan = false // first, because Ran may end the goroutine
	p, item := rn.pool, rn.item
	requeue := true
	defer func() { // also if Ran ends the goroutine: then its result is unknown
		if requeue {
			p.host.Requeue(item)
		}
	}()
	requeue = p.host.Ran(item)
	if !requeue || p.hasExecutor() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock() // before Requeue
	if p.list.n > 0 {
		return false
	}
	requeue = false
	rn.endRun()
	return true
}

// untilOver returns a channel that is closed when the run of the item is over. Called with the lock of the pool held.
func (rn *Runner[T]) untilOver() <-chan struct{} {
	if rn.over == nil {
		rn.over = make(chan struct{})
	}
	return rn.over
}

// endRun wakes the goroutines that wait for the run of the item, which is over. Called with the lock of the pool held.
func (rn *Runner[T]) endRun() {
	rn.since, rn.awaited = 0, 0
	if rn.over != nil {
		close(rn.over)
		rn.over = nil
	}
}
