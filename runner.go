package hashedwheel

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// A runner runs tasks: on a goroutine that takes them from the batches until none is left, or, with
// an executor, for one turn.
type runner struct {
	work func() // run on a goroutine of its own; immutable once it is made

	// Set before it starts.
	runners *runners
	stripe  *stripe // whose counters it uses
	turn    bool    // it runs one task, where dispatch has it run

	// Guarded by runners.mu.
	pos   int    // in runners.live
	batch *batch // that it takes from

	// Owned by the runner.
	skip int // how many tasks more may go by unmeasured, see measure

	// What it is at: see stop.go. Written by the runner.
	at atomic.Pointer[Timeout]

	// Two lines of its own, because at is written for each task.
	_ [128 - 8*8]byte
}

// claiming is what a runner is at while it takes timeouts and claims them.
var claiming = new(Timeout)

// runnerPool keeps runners for the next ones, so that a run allocates nothing.
var runnerPool sync.Pool

func newRunner() *runner {
	if rn, ok := runnerPool.Get().(*runner); ok {
		return rn
	}
	rn := new(runner)
	rn.work = func() {
		rn.runners.begun.Add(1)
		rn.run()
	}
	return rn
}

// recycle keeps a runner for the next ones. The caller must be the last to know it.
func (rn *runner) recycle() {
	rn.runners, rn.stripe, rn.turn = nil, nil, false
	runnerPool.Put(rn)
}

// run is the runner's goroutine.
func (rn *runner) run() {
	clearLabels()
	rn.rest() // from a task that has ended the goroutine before this one
	r := rn.runners
	ended := false
	defer func() {
		if !ended {
			go rn.run() // a task has ended this goroutine by runtime.Goexit
		}
	}()
	for b := r.next(rn); b != nil; b = r.next(rn) {
		for rn.runNext(b) {
		}
	}
	ended = true
	rn.recycle()
}

// runNext takes timeouts from the batch until it has claimed one, and runs its task. It reports
// whether it has run one.
//
// It is called once for each task, so it is sparing with what locks a cache line: five times, here and
// in claim. That it has left the task before, and has gone through the gate, is one of them.
func (rn *runner) runNext(b *batch) bool {
	r := rn.runners
	rn.at.Store(claiming)
	if r.awaited.Load() {
		rn.rest() // claiming must not wait for a lock of the runners
		rn.at.Store(claiming)
	}
	for !r.timer.stopped.Load() {
		to := b.take()
		if to == nil {
			break
		}
		if rn.claim(to, b.tick) {
			rn.measure(to)
			rn.runTask(to)
			return true
		}
	}
	rn.rest()
	return false
}

// claim claims a timeout if it is due by tick, and reports whether it did. Then the caller has to run
// its task. Called while the runner is claiming.
func (rn *runner) claim(to *Timeout, tick uint64) bool {
	claimed := to.claim(tick)
	switch {
	case claimed == 0:
		return false
	case claimed&atWork != 0:
		rn.stripe.rearmed.Add(1) // for its next run: it keeps its slot
	default:
		to.timer.freeSlot(rn.stripe)
	}
	rn.stripe.expired.Add(1)
	return true
}

// runTask runs the task of a timeout that has been claimed, and survives its panic.
func (rn *runner) runTask(to *Timeout) {
	defer rn.taskEnded(to)
	rn.at.Store(to) // the task counts as started: Stop does not wait for it from here
	to.task.Run(to)
}

// taskEnded does what is to be done after a task. Usually that is nothing.
func (rn *runner) taskEnded(to *Timeout) {
	value := recover()
	if h := to.hook(); h != nil {
		defer func() {
			value := recover() // the handler's
			if value == nil || rn.turn {
				h.ran(to) // also if the handler ends the goroutine, or an executor survives its panic
			}
			if value != nil {
				panic(value) // the program crashes, and on a runner no more of the user's code runs
			}
		}()
	}
	if value != nil {
		to.timer.reportPanic(to, value, debug.Stack())
	}
}

// rest marks the runner as at nothing.
func (rn *runner) rest() {
	rn.skip = 0
	rn.at.Store(nil)
	if rn.runners.awaited.Load() {
		rn.runners.signalTaskLeft()
	}
}

// settled returns what the runner is at when it is not claiming. It waits for that, which is as long as
// it takes the runner to get a processor.
func (rn *runner) settled() *Timeout {
	for {
		at := rn.at.Load()
		if at != claiming {
			return at
		}
		runtime.Gosched()
	}
}
