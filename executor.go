package hashedwheel

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// WithExecutor has tasks run by submit, which may be the Submit method of a goroutine pool. The timer calls
// submit with a function for each timeout that comes due. Submit must see to it that this function is called
// once, soon, on any goroutine. Each function runs one of the tasks that have been due longest, or does
// nothing if none is left. If a function is never called, a task waits until another timeout comes due, or
// forever with WithMaxConcurrency. With nil, the default, the timer runs tasks on its own goroutines. An
// executor costs a few allocations for each task.
//
// Until its task starts, a timeout is pending: it can be canceled and reset, and Stop returns it. If submit
// returns an error or panics, a task runs on a goroutine of the timer, and Stats counts it as Unsubmitted. A
// submit that blocks costs a goroutine. With WithMaxConcurrency, the executor is given at most that many
// functions at a time, and a submit that blocks counts as one of them. Sleep and Light tasks run without the
// executor, and so do the timers and tickers of package clock.
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

// An executor runs tasks on the goroutines of a user's function. The timeouts wait in the batches of the
// runners. The user's function gets jobs. Each job runs one task, and belongs to no timeout in particular.
type executor struct {
	// Immutable.
	runners    *runners
	submit     func(run func()) error
	submitNext func() // submitOne, made once

	mu sync.Mutex // never held while user code runs

	// Guarded by mu.
	owed int // timeouts that have come due, and for which no job has been submitted yet
	out  int // jobs that are being submitted, or wait in the executor, or run
}

// A job runs one due task on a goroutine of the executor.
type job struct {
	executor *executor    // immutable
	state    atomic.Int32 // written by the goroutine that runs it
}

const (
	begun   = 1 // it has been run, once
	crashed = 2 // it has ended in a panic of the panic handler; a panic of a task is recovered
)

// add has n jobs submitted, or as many of them as the limit allows. The others follow when jobs end.
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

// submitOne submits a job, unless all due timeouts have been canceled or run meanwhile. If the executor
// does not take the job, it runs here.
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

// submitted submits a job, and reports whether the executor has taken it. The executor may already have run
// the job, even if it has not taken it. An executor that panics has not taken the job.
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
		case value == nil: // runtime.Goexit ends this goroutine, so another one runs the job
			t.calls.add(j.runHere)
		case j.state.Load() == crashed:
			panic(value) // from the panic handler, in a job that ran inside submit
		default:
			t.reportPanic(nil, value, debug.Stack())
		}
	}()
	setLabels(context.Background()) // because goroutines that a pool starts here would otherwise keep the timer's labels
	err := j.executor.submit(j.run)
	returned = true
	return err == nil
}

// run runs the job, if this is the first call. Called by the executor, on any goroutine.
func (j *job) run() {
	if j.state.CompareAndSwap(0, begun) {
		j.runOne()
	}
}

// runHere is run for a job that the executor has not taken.
func (j *job) runHere() {
	if j.state.CompareAndSwap(0, begun) {
		j.executor.runners.timer.unsubmitted.Add(1)
		j.runOne()
	}
}

func (j *job) runOne() {
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
	j.executor.runners.runOne()
}
