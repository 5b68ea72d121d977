package hashedwheel

import (
	"runtime/debug"
	"sync/atomic"
)

// A runner is who runs tasks: a goroutine that takes them from the batches, or one of the
// executor's while it runs one.
type runner struct {
	// Immutable once it is made.
	runners *runners
	work    func() // the goroutine; nil if it is the executor's

	stripe *stripe // that it counts on; set before it starts
	own    bool    // only for own tasks; set before it starts
	pos    int     // in runners.live; guarded by runners.mu
	batch  *batch  // that it takes from; guarded by runners.mu

	// Owned by the runner: the class of Histogram that it measured last, and tasks since then.
	class     int
	skip      int // how many more may go by unmeasured
	uncounted int // those that have, and are not counted yet

	// What it is at: a timeout, from when that was claimed until its task has returned, and a
	// moment longer; or claiming; or nil, in between. Written by the runner.
	at atomic.Pointer[Timeout]

	// Two lines of its own, since at is written for each task.
	_ [128 - 10*8]byte
}

// claiming is what a runner is at while it takes timeouts and claims them. It waits for nothing then,
// not even for a lock, and runs no user code. So others may wait for the end of that: Stop, for which
// whoever took a timeout has also begun its task, or Wait, which has to know whose. But the machine
// may take the processor away from it, so they do not wait with runners.mu held.
var claiming = new(Timeout)

// run is the runner's goroutine.
func (rn *runner) run() {
	rn.rest() // from a task that has ended the goroutine before this one
	r := rn.runners
	ended := false
	defer func() {
		if !ended {
			go rn.run() // a task has ended this goroutine by runtime.Goexit
		}
	}()
	for b := r.next(rn); b != nil; b = r.next(rn) {
		switch {
		case b.canceled:
			for to := b.take(); to != nil; to = b.take() {
				r.timer.tellCanceled(to)
			}
		case r.submit != nil && !b.own:
			for r.submitNext(b, rn.stripe) {
			}
		default:
			for rn.runNext(b) {
			}
		}
	}
	ended = true
}

// runNext takes timeouts from the batch until it has claimed one, and runs its task. It reports
// whether to go on.
//
// It is done once for each task, so it is sparing with what locks a cache line: five times, here
// and in claim. That it has left the task before, and has gone through the gate, is one of them.
func (rn *runner) runNext(b *batch) bool {
	r := rn.runners
	if was := rn.at.Swap(claiming); was != nil && r.awaiting.Load() > 0 {
		rn.at.Store(nil)
		r.tellWaiters(was)
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

// claim claims a timeout if it is due by tick, and reports whether it did: then the caller has to run
// its task. Called while the runner is claiming.
func (rn *runner) claim(to *Timeout, tick uint64) bool {
	m, ok := to.task.(*member)
	if ok {
		m.group.starting.Add(1)
	}
	t := rn.runners.timer
	t.willEnd()
	if !to.claim(tick) {
		t.wontEnd()
		if ok {
			m.group.starting.Add(-1)
		}
		return false
	}
	if to.repeating() != nil {
		t.wontEnd()
		rn.runners.atWork.Add(1)
		rn.stripe.rearmed.Add(1) // for its next run: it keeps its slot
	} else {
		t.freeSlot()
	}
	rn.stripe.expired.Add(1)
	rn.at.Store(to)
	if ok && to.repeating() == nil {
		m.end() // waits for the group's lock, so not while claiming
	}
	return true
}

// rest marks the runner as at nothing.
func (rn *runner) rest() {
	rn.endMeasure()
	was := rn.at.Load()
	if was == nil {
		return
	}
	rn.at.Store(nil)
	if was != claiming && rn.runners.awaiting.Load() > 0 {
		rn.runners.tellWaiters(was)
	}
}

// runTask runs the task of a timeout that has been claimed, and survives its panic.
func (rn *runner) runTask(to *Timeout) {
	defer rn.taskEnded(to)
	to.task.Run(to)
}

// taskEnded does what is to be done after a task. Usually that is nothing.
func (rn *runner) taskEnded(to *Timeout) {
	value := recover()
	if r := to.repeating(); r != nil {
		defer r.runEnded(to, rn) // even if the handler ends the goroutine
	}
	if value != nil {
		to.timer.reportPanic(to, value, debug.Stack())
	}
}
