package main

import (
	"context"
	"errors"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// errPermanent is in the errors of attempts that another one would not mend.
var errPermanent = errors.New("not worth a retry")

// An outcome is how a call has ended. Each call ends exactly once.
type outcome int

const (
	answered  outcome = iota
	gaveUp            // no attempt was left, or no time for another
	canceled          // by the caller's context
	failed            // by an error that is not worth a retry
	abandoned         // the timer was stopped
	outcomes          // their number
)

// A failback makes calls that fail now succeed later. While a call waits for its next attempt it
// is a timeout on the timer and nothing else: no goroutine, and no timer of the runtime.
//
// The attempts block in the tasks of the timer. Without WithMaxConcurrency it would start a
// goroutine more for each one that blocks: when a service has come up again, as many attempts at
// a time as there are calls due. With it, that is the most attempts that retries ever have under
// way, and the others wait their turn, each no longer than the timeouts of those before it. The
// timeouts themselves are contexts of the context package. They need no turn, so they end an
// attempt also when all turns are taken.
type failback struct {
	timer    *hashedwheel.Timer
	backoff  backoff
	timeout  time.Duration // of an attempt
	deadline time.Duration // of a call with all its attempts; 0 for none
	attempts int           // of a call at most; 0 for no limit

	// try makes an attempt. It must return soon after ctx is done.
	try func(ctx context.Context, id uint64) (answer uint64, err error)

	// observe is told of each attempt, and its number from 1.
	observe func(attempt int, err error)
}

// A call is the task of its own timeout. Its fields belong to the attempt under way, and pass on
// to the next one when the timeout is armed for that.
type call struct {
	*failback
	id     uint64
	ctx    context.Context
	cancel context.CancelFunc
	done   func(*call)

	tried       int
	firstFailed time.Time // when the first attempt had failed; zero if it has not
	outcome     outcome
	answer      uint64
}

// do makes the first attempt of a call, as part of the caller, and arms the next one if that has
// failed. It tells done when the call has ended, on whatever goroutine.
func (f *failback) do(ctx context.Context, id uint64, done func(*call)) {
	c := &call{failback: f, id: id, ctx: ctx, cancel: func() {}, done: done}
	if f.deadline > 0 {
		c.ctx, c.cancel = context.WithTimeout(ctx, f.deadline)
	}
	delay, again := c.attempt()
	if !again {
		return
	}
	if _, err := f.timer.NewTimeout(c, delay); err != nil {
		c.end(abandoned)
	}
}

// Run makes another attempt, and if that fails arms the same timeout once more. Reset must come
// last: the timeout has expired since before this run, so the next one may begin while this one has
// yet to return.
//
// Stop does not hand back a timeout whose task is running. Reset then fails, and so it falls to
// the task to end the call.
func (c *call) Run(to *hashedwheel.Timeout) {
	delay, again := c.attempt()
	if !again {
		return
	}
	if _, err := to.Reset(delay); err != nil {
		c.end(abandoned)
	}
}

// attempt makes an attempt, unless the context is done. It returns the delay of the next one, or
// ends the call if there is none.
func (c *call) attempt() (delay time.Duration, again bool) {
	if c.ctx.Err() != nil {
		c.endByContext()
		return 0, false
	}
	c.tried++
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
	answer, err := c.try(ctx, c.id)
	cancel()
	c.observe(c.tried, err)
	if err != nil && c.firstFailed.IsZero() {
		c.firstFailed = time.Now()
	}
	switch {
	case err == nil:
		c.answer = answer
		c.end(answered)
	case errors.Is(err, errPermanent):
		c.end(failed)
	case c.ctx.Err() != nil:
		c.endByContext()
	case c.tried == c.attempts:
		c.end(gaveUp)
	default:
		delay = c.backoff.delay(c.tried)
		if by, ok := c.ctx.Deadline(); ok && time.Until(by) <= delay {
			c.end(gaveUp) // now rather than after a wait for nothing
			return 0, false
		}
		return delay, true
	}
	return 0, false
}

func (c *call) endByContext() {
	if errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
		c.end(gaveUp)
		return
	}
	c.end(canceled)
}

// end ends the call. Nothing may be armed for it.
func (c *call) end(how outcome) {
	c.cancel()
	c.outcome = how
	c.done(c)
}

// shutdown ends the calls that wait for an attempt, and returns when the attempts under way have
// ended, or with the error of ctx if that is done first.
func (f *failback) shutdown(ctx context.Context) error {
	waiting, err := f.timer.Shutdown(ctx)
	for _, to := range waiting {
		to.Task().(*call).end(abandoned)
	}
	return err
}
