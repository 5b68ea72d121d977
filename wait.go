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
	running := func() bool { return r.anyAt(func(at *Timeout) bool { return at == to }) }
	for running() {
		// Look again after the registration, because a runner looks for waiters after it has left a
		// task. So either the task is found not running, or its end is signaled. What is found
		// running may be a later run, and what is signaled the end of another task.
		left := r.untilTaskLeft()
		if !running() {
			break
		}
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// untilTaskLeft returns a channel that is closed when a runner has left a task. Until then the runners
// pay for it with a lock for each task.
func (r *runners) untilTaskLeft() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taskLeft == nil {
		r.taskLeft = make(chan struct{})
		r.awaited.Store(true)
	}
	return r.taskLeft
}

// signalTaskLeft wakes those who wait for the end of a task.
func (r *runners) signalTaskLeft() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taskLeft != nil {
		close(r.taskLeft)
		r.taskLeft = nil
		r.awaited.Store(false)
	}
}
