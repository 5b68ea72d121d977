package hashedwheel

import "context"

// Wait returns nil as soon as no run of the timeout's task is in progress, at once if none is. So after
// a Cancel, if no goroutine resets the timeout, its task is not running and will not: what it uses can
// be taken away. Wait returns the context's error if that is done first; from inside the task itself
// it always is.
func (to *Timeout) Wait(ctx context.Context) error {
	if status(to.word.Load()) == idle {
		return nil
	}
	r := to.timer.runnersOf(to)
	for left := r.untilLeft(to); left != nil; left = r.untilLeft(to) {
		// What is signaled may be the end of another task, and what is then found running a later run.
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// untilLeft returns nil if no runner is running the task of a timeout. Otherwise it returns a channel that
// is closed when a runner has left a task: the runner, which stays held, gives way then.
func (r *runners) untilLeft(to *Timeout) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rn := range r.live {
		if rn.hold() == running && rn.to == to {
			if r.taskLeft == nil {
				r.taskLeft = make(chan struct{})
			}
			return r.taskLeft
		}
	}
	return nil
}

// signalTaskLeft wakes those who wait for the end of a task. Called with mu held.
func (r *runners) signalTaskLeft() {
	if r.taskLeft != nil {
		close(r.taskLeft)
		r.taskLeft = nil
	}
}
