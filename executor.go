package hashedwheel

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// WithExecutor has the tasks run by submit, which may be the Submit method of a goroutine pool: for each
// timeout that comes due it is given a function without arguments, and is to have it called once,
// soon, on whatever goroutine. Each function runs one due task, from the oldest batch; if no task is due
// any more, it does nothing. A function that is never called leaves a task
// waiting until another timeout comes due. Nil, the default, is the timer's own runners. It costs a few
// allocations a task.
//
// Until its task starts a timeout is pending: it can be canceled and reset, and Stop hands it back.
// If submit returns an error or panics, a task runs on a goroutine of the timer's, and is counted in
// Stats. A submit that blocks holds up no other timeout, but costs a goroutine. With WithMaxConcurrency
// the executor has no more than that many functions at a time. Sleep, After and Ticker do without the
// executor.
func WithExecutor(submit func(run func()) error) Option {
	return func(c *config) {
		c.dispatcher = nil
		if submit != nil {
			c.dispatcher = func(r *runners) dispatcher {
				x := &executor{runners: r, submit: submit}
				x.submitNext = x.submitOne
				return x
			}
		}
	}
}

// An executor has the turns of the runners taken by a function of the user's. The timeouts wait in the
// batches of the runners. What the user's pool holds are turns, which are for no timeout in
// particular.
type executor struct {
	// Immutable.
	runners    *runners
	submit     func(run func()) error
	submitNext func() // submitOne, made once

	mu sync.Mutex // never held while user code runs

	// Guarded by mu.
	owed int // timeouts that have come due, and for which nothing has been submitted yet
	out  int // jobs that are being submitted, or wait in the executor, or run
}

// A job is one turn in the hands of the executor.
type job struct {
	executor *executor    // immutable
	state    atomic.Int32 // written by the goroutine that runs it
}

const (
	begun   = 1 // it has been run, once
	crashed = 2 // it has ended in a panic: the panic handler's, since that of a task is recovered
)

// add has n turns submitted, or those of them that the limit allows. The others follow when jobs end.
func (x *executor) add(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.owed += n
	n = x.owed
	if limit := x.runners.limit; limit > 0 {
		n = min(n, limit-x.out)
	}
	x.owed -= n
	x.out += n
	for range n {
		x.runners.timer.calls.add(x.submitNext)
	}
}

// jobEnded makes room for the next job.
func (x *executor) jobEnded() {
	x.mu.Lock()
	x.out--
	x.mu.Unlock()
	x.add(0)
}

// submitOne submits a job, unless all that was due has been canceled or run meanwhile. What the
// executor does not take runs here.
func (x *executor) submitOne() {
	if !x.runners.anyLeft() {
		x.jobEnded()
		return
	}
	j := &job{executor: x}
	if !j.submitted() {
		j.runHere()
	}
}

// submitted submits a job, and reports whether the executor has taken it: it may have run by then, or
// run even if not. An executor that panics has not taken it.
func (j *job) submitted() (ok bool) {
	t := j.executor.runners.timer
	returned := false
	defer func() {
		setLabels(t.labels.runner)
		if returned {
			return
		}
		value := recover()
		switch {
		case value == nil: // runtime.Goexit: this goroutine will not run it
			t.calls.add(j.runHere)
		case j.state.Load() == crashed:
			panic(value) // the handler's, from a job that was run in the call
		default:
			t.reportPanic(nil, value, debug.Stack())
		}
	}()
	setLabels(context.Background()) // or the goroutines of a pool that starts them here would keep the timer's
	err := j.executor.submit(j.run)
	returned = true
	return err == nil
}

// run takes the turn, if it is the first call. Called by the executor, on whatever goroutine.
func (j *job) run() {
	if j.state.CompareAndSwap(0, begun) {
		j.turn()
	}
}

// runHere is run for a job that the executor has not taken.
func (j *job) runHere() {
	if j.state.CompareAndSwap(0, begun) {
		j.executor.runners.timer.unsubmitted.Add(1)
		j.turn()
	}
}

func (j *job) turn() {
	defer func() {
		value := recover()
		if value != nil {
			j.state.Store(crashed)
		}
		j.executor.jobEnded()
		if value != nil {
			panic(value)
		}
	}()
	j.executor.runners.turn()
}
