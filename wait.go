package hashedwheel

import "context"

// Wait waits until no run of the timeout's task is in progress, and returns nil. If the context is done
// first, Wait returns the context's error. A call from inside the task itself always waits for the context.
//
// When Wait returns nil after a Cancel, the task is not running and will not run, unless a goroutine resets
// the timeout. So the caller can release what the task uses.
func (to *Timeout) Wait(ctx context.Context) error {
	if status(to.word.Load()) == idle {
		return nil
	}
	r := to.timer.runnersOf(to)
	for left := r.untilTaskEnds(to); left != nil; left = r.untilTaskEnds(to) {
		// The signal may be for another task, and a later run of this one may be in progress by then.
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// untilTaskEnds returns nil if no runner is running the task of a timeout. Otherwise it returns a channel that
// is closed when a held runner is done with a task. The runner of the timeout stays held, so it closes the
// channel after the task.
func (r *runners) untilTaskEnds(to *Timeout) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rn := range r.live {
		if rn.hold() == running && rn.to == to {
			if r.taskEnded == nil {
				r.taskEnded = make(chan struct{})
			}
			return r.taskEnded
		}
	}
	return nil
}

// signalTaskEnd wakes all goroutines that wait for the end of a task. Called with mu held.
func (r *runners) signalTaskEnd() {
	if r.taskEnded != nil {
		close(r.taskEnded)
		r.taskEnded = nil
	}
}
