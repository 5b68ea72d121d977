package hashedwheel

import (
	"context"
	"time"
)

// Sleep waits until d has passed, and returns nil at the first tick boundary at or after that time. If d is not positive,
// it returns at once. If the context is done first, it returns the context's error. The error may also be
// ErrTooManyPending, or ErrStopped if the timer is stopped before or during the call.
func (t *Timer) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	s := sleeper{done: make(chan error, 1)}
	to, err := t.NewTimeout(s, d)
	if err != nil {
		return err
	}
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		to.Cancel()
		return ctx.Err()
	}
}

// A sleeper is the task of a Sleep.
type sleeper struct {
	lightHook
	done chan error // has room for one error, because either Run or disarmed is called, and once
}

func (s sleeper) String() string          { return "hashedwheel.Timer.Sleep" }
func (s sleeper) Run(*Timeout)            { s.done <- nil }
func (s sleeper) disarmed(*Timeout, bool) { s.done <- ErrStopped } // after a Cancel nobody receives it
