package hashedwheel

import "runtime/debug"

// A Canceler is a Task that wants to know when it will not run.
type Canceler interface {
	// Canceled is called once when the timeout has been ended by Cancel or by Stop, on a goroutine of
	// the timer's, soon after. It is not called for a task that was started, except for the one of
	// a repeating timeout, which would have been started again. WithMaxConcurrency does not count
	// it.
	Canceled(to *Timeout)
}

// notified is the hook around a Canceler.
type notified struct {
	wrap
	canceler Canceler
}

func (n *notified) left(to *Timeout, canceled bool) {
	if canceled {
		to.timer.calls.add(func() { n.notify(to) })
	}
}

// notify tells the task that its timeout was canceled, and survives its panic.
func (n *notified) notify(to *Timeout) {
	defer func() {
		if value := recover(); value != nil {
			to.timer.reportPanic(to, value, debug.Stack())
		}
	}()
	n.canceler.Canceled(to)
}
