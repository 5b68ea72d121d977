package hashedwheel

import (
	"context"
	"runtime/debug"
	"sync/atomic"
)

// WithExecutor has tasks run by submit, which may be the Submit method of a goroutine pool. While timeouts that
// have come due wait, the timer calls submit with one function after another. Submit must see to it that this
// function is called once, soon, on any goroutine. Each function runs one of the tasks that have been due longest,
// or does nothing if none is left. If a function is never called, a task waits until another timeout comes due, or
// forever with WithMaxConcurrency. With nil, the default, the timer runs tasks on its own goroutines. An
// executor costs two allocations for each task.
//
// Until its task starts, a timeout is pending: it can be canceled and reset, and Stop returns it. If submit
// returns an error or panics, a task runs on a goroutine of the timer, and Stats counts it as Unsubmitted. A
// submit that blocks costs a goroutine, and at most 64 block at the same time. With WithMaxConcurrency, the
// executor is given at most that many functions at a time, and a submit that blocks counts as one of them.
// A task that calls runtime.Goexit ends the goroutine of the executor. Sleep and Light tasks run without the
// executor, and so do the timers and tickers of package clock.
func WithExecutor(submit func(run func()) error) Option {
	return func(c *config) {
		c.executor = nil
		if submit != nil {
			c.executor = func(t *Timer) { newExecutor(t, submit) }
		}
	}
}

// maxSubmits bounds how many calls of submit may be in progress at the same time. More are started only while those
// that there are block.
const maxSubmits = 64

// An executor runs the tasks of a crew on goroutines of a user's function. A function that it submits belongs to no
// timeout in particular: it is a runner that is on its way.
type executor struct {
	// Immutable.
	timer  *Timer
	crew   *crew[*Timeout] // whose tasks it runs
	submit func(run func()) error
	turn   *call // submitOne

	submitters crew[*call]
	waiting    int // how many turns wait for a submitter; guarded by the lock of crew
}

// newExecutor makes an executor run the tasks of a timer.
func newExecutor(t *Timer, submit func(run func()) error) *executor {
	x := &executor{timer: t, crew: &t.tasks, submit: submit}
	x.turn = &call{x.submitOne}
	x.submitters.init((*callHost)(t), t.clock.tick)
	x.submitters.labels = t.labels.runner
	x.submitters.limit = maxSubmits
	x.crew.outside, x.crew.labels = x.wanted, nil
	t.submit = &x.submitters
	return x
}

// wanted sees to it that a turn waits for a submitter for each runner that is wanted, up to maxSubmits. So it takes
// the same time, however many are wanted. Called with the lock of crew held.
func (x *executor) wanted() {
	for n := min(x.crew.wanted(), maxSubmits); x.waiting < n; x.waiting++ {
		x.submitters.add(x.turn)
	}
}

// submitOne submits a function, if a runner is still wanted.
func (x *executor) submitOne() {
	if x.takeTurn() {
		j := &job{executor: x}
		j.give()
	}
}

// takeTurn counts one more runner as on its way, and reports whether it is wanted.
func (x *executor) takeTurn() bool {
	x.crew.mu.Lock()
	defer x.crew.mu.Unlock()
	x.waiting--
	wanted := x.crew.wanted() > 0
	if wanted {
		x.crew.hands++
		x.crew.fresh++
		x.crew.coming++
	}
	x.wanted()
	return wanted
}

// A job is a function that was submitted.
type job struct {
	executor *executor    // immutable
	state    atomic.Int32 // written by the goroutine that runs it
}

const (
	begun   = 1 // it has been run, once
	crashed = 2 // it has ended in a panic of the panic handler; a panic of a task is recovered
)

// give submits the job. If the executor does not take it, the job runs on a goroutine of the timer. The executor may
// already have run it, even if it has not taken it. An executor that panics has not taken the job.
func (j *job) give() {
	x := j.executor
	returned := false
	defer func() {
		if returned {
			return
		}
		value := recover()
		x.timer.call(j.runHere) // first, because a logger may end this goroutine too
		switch {
		case value == nil: // runtime.Goexit
		case j.state.Load() == crashed:
			panic(value) // from the panic handler, in a job that ran inside submit
		default:
			x.timer.reportPanic(nil, value, debug.Stack())
		}
	}()
	setLabels(context.Background()) // because goroutines that a pool starts here would otherwise keep the timer's labels
	err := x.submit(j.run)
	setLabels(x.submitters.labels)
	returned = true
	if err != nil {
		x.timer.call(j.runHere)
	}
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
		j.executor.timer.unsubmitted.Add(1)
		j.runOne()
	}
}

func (j *job) runOne() {
	defer func() {
		if value := recover(); value != nil {
			j.state.Store(crashed)
			panic(value)
		}
	}()
	j.executor.crew.runOne()
}
