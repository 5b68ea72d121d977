package hashedwheel

import "runtime/debug"

// A Canceler is a Task that is notified when its timeout is canceled.
type Canceler interface {
	// Canceled is called once, soon after Cancel or Stop has ended the timeout, on a goroutine of the
	// timer. A timeout whose task has been started has expired, and cannot be canceled unless it is reset. A
	// repeating timeout can be canceled at any time. In both cases the call may overlap with a run of the
	// task. The call does not count toward WithMaxConcurrency.
	//
	// Up to as many goroutines as there are processors make these calls, and more while calls block. Where
	// timeouts are canceled faster than that, the calls that are yet to be made take 80 bytes each.
	Canceled(to *Timeout)
}

// notified is the hook around a Canceler.
type notified struct {
	wrap
	canceler Canceler
}

func (n *notified) disarmed(to *Timeout, canceled bool) {
	if canceled {
		to.timer.call(func() { n.notify(to) })
	}
}

// notify notifies the task that its timeout was canceled. It recovers and reports a panic.
func (n *notified) notify(to *Timeout) {
	defer func() {
		if value := recover(); value != nil {
			to.timer.reportPanic(to, value, debug.Stack())
		}
	}()
	n.canceler.Canceled(to)
}
