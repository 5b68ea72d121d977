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

	// The timeout whose task it runs, or that it is about to claim; nil in between. So once a
	// timeout has been seen claimed, its runner can be found.
	at atomic.Pointer[Timeout]

	// Two lines of its own, since at is written for each task.
	_ [128 - 7*8]byte
}

// run is the runner's goroutine.
func (rn *runner) run() {
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

// runNext takes a timeout from the batch and runs its task. It reports whether to go on.
func (rn *runner) runNext(b *batch) bool {
	t := rn.runners.timer
	// From enter to leave nothing waits and no user code runs, so Stop may wait for it: when
	// it finds nobody inside, whoever took a timeout has also begun its task.
	if !t.enter(rn.stripe) {
		t.leave(rn.stripe)
		return false
	}
	to := b.take()
	claimed := to != nil && rn.claim(to, b.tick)
	t.leave(rn.stripe)
	if claimed {
		rn.runTask(to)
	}
	return to != nil
}

// claim claims a timeout if it is due by tick, and reports whether it did: then the
// caller has to run its task. Called inside the gate.
func (rn *runner) claim(to *Timeout, tick uint64) bool {
	rn.at.Store(to)
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
		rn.rest(to)
		return false
	}
	if to.repeating() != nil {
		t.wontEnd()
		rn.runners.atWork.Add(1)
		rn.stripe.accepted.Add(1) // for its next run: it keeps its slot
	} else {
		t.freeSlot()
		if ok {
			m.end()
		}
	}
	rn.stripe.expired.Add(1)
	return true
}

// rest marks the runner as between two tasks.
func (rn *runner) rest(to *Timeout) {
	rn.at.Store(nil)
	if rn.runners.awaiting.Load() > 0 {
		rn.runners.tellWaiters(to)
	}
}

// runTask runs the task of a timeout that has been claimed, and survives its panic.
func (rn *runner) runTask(to *Timeout) {
	defer rn.taskEnded(to)
	to.task.Run(to)
}

func (rn *runner) taskEnded(to *Timeout) {
	value := recover()
	r := to.repeating()
	if value == nil && r == nil { // as nearly always
		rn.rest(to)
		return
	}
	// In this order even if the handler, or a schedule, ends the goroutine.
	defer rn.rest(to)
	if r != nil {
		defer r.runEnded(to, rn)
	}
	if value != nil {
		to.timer.reportPanic(to, value, debug.Stack())
	}
}
