package hashedwheel

import "context"

// Wait waits until every run of the timeout's task that is in progress has returned, and then returns nil. If the
// context is done first, Wait returns the context's error. A call from inside the task itself always waits for the
// context.
//
// When Wait returns nil after a Cancel, the task is not running and will not run, unless a goroutine resets
// the timeout. So the caller can release what the task uses.
func (to *Timeout) Wait(ctx context.Context) error {
	if status(to.word.Load()) == idle {
		return nil
	}
	for _, over := range to.timer.crewOf(to).runsOf(to) {
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
