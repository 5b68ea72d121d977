package pool

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// The executor
//
// The pool gives a user's submit a function for each item that waits. A function runs the task of the item that has waited
// longest when the function is called. This is what submit may do with a function, with the tests:
//
//	calls it on another goroutine, or later  the task runs there: TestSubmitCalls
//	calls it inline                          the task runs on the goroutine that called submit: TestSubmitCalls
//	  and the task ends that goroutine       the next tasks run on others: TestTaskEndsSubmit, TestTaskEndsItsGoroutine
//	blocks                                   others call submit meanwhile, up to maxSubmits of them: TestExecutorThatBlocks.
//	                                         Then all wait: TestExecutorIsGivenAll
//	returns an error                         the function is called on a goroutine of calls, and counted: TestSubmitFails
//	  and calls it later                     the later call does nothing: TestSubmitFails
//	panics, or ends its goroutine            the same, and the panic is reported: TestSubmitFails
//	calls it, and then fails                 the call counts, and there is no other: TestSubmitFails
//	calls it twice                           the second call does nothing: TestSubmitFails, TestExecutorCountsJobs
//	calls it when no item waits              the call does nothing: TestExecutorCountsJobs
//	calls it after Close                     the call does nothing: TestExecutorIsGivenAll
//	never calls it                           it counts as on its way for ever: a task waits until another one is added,
//	                                         and with a limit there is room for one task less: TestSubmitNeverCalls
//	lets a panic of the panic handler pass   the program crashes, as the handler wants: TestHandlerPanicsInSubmit
//	  or recovers it                         the next tasks run: TestHandlerPanicsInSubmit
//	calls it outside of the timer's bubble   the call panics, and has no other effect: TestExecutorOutsideTheBubble
//
// A submit that never calls a function breaks the rule of WithExecutor. The pool cannot notice that, because no function
// belongs to an item.

// maxSubmits bounds how many calls of submit may be in progress at the same time. A further call is started only
// while all calls in progress block.
const maxSubmits = 64

// An Executor runs the tasks of a pool on goroutines of a user's function. A submitted function belongs to no particular
// item: the function is a runner on its way.
type Executor[T comparable] struct {
	// Immutable.
	pool   *Pool[T] // whose tasks it runs
	calls  *Calls   // for functions that submit does not take
	submit func(run func()) error
	check  func() // panics if the caller is on the other side of a synctest bubble
	failed func(value any, stack []byte)
	turn   *call // submitOne

	submitters  Calls         // call submit
	unsubmitted atomic.Uint64 // functions that submit has not taken
	waiting     int           // how many turns wait for a submitter; guarded by the lock of pool
}

// NewExecutor makes submit run the tasks of a pool, and clears the Labels of the pool. Functions that submit does not take
// run on goroutines of calls. Each submitted function calls check before anything else. If submit panics, failed is called.
// The tick is as for Init.
func NewExecutor[T comparable](p *Pool[T], calls *Calls, tick time.Duration, submit func(run func()) error,
	check func(), failed func(value any, stack []byte)) *Executor[T] {
	x := &Executor[T]{pool: p, calls: calls, submit: submit, check: check, failed: failed}
	x.turn = &call{f: x.submitOne}
	x.submitters.Init(tick)
	x.submitters.pool.Labels = context.Background() // none, because goroutines that submit starts keep them
	x.submitters.pool.Limit = maxSubmits
	p.want, p.Labels = x.want, nil
	return x
}

// Unsubmitted returns how many functions ran on goroutines of calls, because submit did not take them.
func (x *Executor[T]) Unsubmitted() uint64 { return x.unsubmitted.Load() }

// Goroutines returns the number of goroutines that call submit.
func (x *Executor[T]) Goroutines() int { return x.submitters.Goroutines() }

// Submitting returns how many calls of submit are in progress.
func (x *Executor[T]) Submitting() int {
	calls, _ := x.submitters.pool.Running()
	return calls
}

// Look calls f with submit for each call of it that is in progress: see Pool.Look.
func (x *Executor[T]) Look(now time.Duration, f func(submit any, since time.Duration)) {
	x.submitters.pool.Look(now, func(s Sight[*call]) { f(x.submit, s.Since) })
}

// want adds turns for the submitters until one waits for each runner that is wanted, or maxSubmits wait. So its time does
// not grow with the number of runners. Called with the lock of pool held.
func (x *Executor[T]) want() {
	for n := min(x.wanted(), maxSubmits); x.waiting < n; x.waiting++ {
		x.submitters.pool.Add(x.turn)
	}
}

// wanted returns how many more runners should be on their way: one for each item that waits. Called with the lock
// of pool held.
func (x *Executor[T]) wanted() int {
	p := x.pool
	if p.closed {
		return 0
	}
	n := p.list.n - int(p.starting.Load())
	if p.Limit != 0 {
		n = min(n, p.Limit-p.total())
	}
	return max(n, 0)
}

// submitOne submits a function, if a runner is still wanted.
func (x *Executor[T]) submitOne() {
	if x.takeTurn() {
		j := &job[T]{executor: x}
		j.give()
	}
}

// takeTurn counts one more runner as on its way, and reports whether it is wanted.
func (x *Executor[T]) takeTurn() bool {
	p := x.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	x.waiting--
	wanted := x.wanted() > 0
	if wanted {
		p.starting.Add(1)
	}
	x.want()
	return wanted
}

// A job is a function that was submitted.
type job[T comparable] struct {
	executor *Executor[T] // immutable
	state    atomic.Int32 // written by the goroutine that runs it
}

const (
	begun   = 1 // it has been run, once
	crashed = 2 // it has ended in a panic of the panic handler; a panic of a task is recovered
)

// give submits the job. If submit fails or panics, the job runs on a goroutine of calls, unless submit has run it before.
func (j *job[T]) give() {
	x := j.executor
	returned := false
	defer func() {
		if returned {
			return
		}
		value := recover()
		x.calls.Call(j.runHere) // first, because a logger may end this goroutine too
		switch {
		case value == nil: // runtime.Goexit
		case j.state.Load() == crashed:
			panic(value) // from the panic handler, in a job that ran inside submit
		default:
			x.failed(value, debug.Stack())
		}
	}()
	err := x.submit(j.run)
	returned = true
	if err != nil {
		x.calls.Call(j.runHere)
	}
}

// run runs the job, if this is the first call. Called by submit, or later, on any goroutine.
func (j *job[T]) run() {
	j.executor.check() // here, because then nothing has changed if it panics
	if j.state.CompareAndSwap(0, begun) {
		j.runOne()
	}
}

// runHere is run for a job that submit has not taken.
func (j *job[T]) runHere() {
	if j.state.CompareAndSwap(0, begun) {
		j.executor.unsubmitted.Add(1)
		j.runOne()
	}
}

// runOne runs the task of one item, if there is one.
func (j *job[T]) runOne() {
	defer func() {
		if value := recover(); value != nil {
			j.state.Store(crashed)
			panic(value)
		}
	}()
	j.executor.pool.run()
}
