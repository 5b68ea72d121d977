package hashedwheel

import (
	"runtime/debug"
	"time"
)

// A Canceler is a Task that wants to know when it will not run.
type Canceler interface {
	// Canceled is called once when the timeout has been ended by Cancel or by Stop, on a
	// goroutine of the timer's, soon after. It is not called for a task that was started, but
	// for the one of a repeating timeout, which would have been started again.
	Canceled(to *Timeout)
}

// tellIfCanceler has the task of a canceled timeout told, if it wants to be.
func (t *Timer) tellIfCanceler(to *Timeout) {
	if _, ok := to.Task().(Canceler); ok {
		t.runners.tell(to)
	}
}

// tell has the task of a canceled timeout told. Called by any goroutine.
func (r *runners) tell(to *Timeout) {
	r.mu.Lock()
	if n := len(r.batches); n > 0 {
		if b := r.batches[n-1]; b.canceled && !b.begun && len(b.due) < batchSize {
			b.due = append(b.due, to)
			r.added++
			r.mu.Unlock()
			return
		}
	}
	b := r.spareBatch()
	r.mu.Unlock()
	b.due, b.tick, b.canceled = append(b.due, to), r.timer.clock.now(), true
	r.add(b)
	r.timer.worker.summon() // for it looks after what is stuck
}

// A lateWarning is told, by whoever tells those that were canceled, that the worker was late.
type lateWarning struct{ by time.Duration }

func (lateWarning) Run(*Timeout) {}

func (l lateWarning) Canceled(to *Timeout) {
	defer func() { _ = recover() }() // a log that panics cannot be told of it
	to.timer.log().Warn("hashedwheel: timeouts were late, the machine is too busy or stood still", "by", l.by)
}

// warn has a warning logged, not on the worker's goroutine: the log is the user's.
func (r *runners) warn(w lateWarning) {
	to := &Timeout{timer: r.timer, task: w}
	*to.unshared() = canceled
	r.tell(to)
}

// tellCanceled tells the task of a canceled timeout, and survives its panic.
func (t *Timer) tellCanceled(to *Timeout) {
	defer func() {
		if value := recover(); value != nil {
			t.reportPanic(to, value, debug.Stack())
		}
	}()
	to.Task().(Canceler).Canceled(to)
}
