package main

import (
	"context"
	"errors"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// errPermanent is in the error of an attempt when a retry would not help.
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

// A failback retries calls that fail. While a call waits for its next attempt it is a timeout on the timer,
// without a goroutine. It has a timer of the runtime only if there is a deadline, for its context.
//
// The attempts block in the tasks of the timer. Without WithMaxConcurrency the timer would start another
// goroutine for each attempt that blocks. When a service comes up again, all due calls would be attempted at
// the same time. WithMaxConcurrency bounds how many retries are in progress. The others wait for their turn,
// no longer than the timeouts of the attempts before them. The timeouts of attempts are contexts of the context
// package. They do not count toward WithMaxConcurrency, so they end an attempt even while all turns are taken.
type failback struct {
	timer    *hashedwheel.Timer
	backoff  backoff
	timeout  time.Duration // of an attempt
	deadline time.Duration // of a call with all its attempts; 0 for none
	attempts int           // of a call at most; 0 for no limit

	// try makes an attempt. It must return soon after ctx is done.
	try func(ctx context.Context, id uint64) (answer uint64, err error)

	// observe is called after each attempt, with its number, from 1.
	observe func(attempt int, err error)
}

// A call is the task of its own timeout. The attempt in progress owns the fields. It passes them on to the next
// attempt when it arms the timeout.
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

// do makes the first attempt of a call on the caller's goroutine, and arms the timeout for the next one if it
// fails. When the call has ended, done is called, on any goroutine.
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

// Run makes another attempt, and arms the same timeout again if that fails. Reset must come last, because the
// next run may begin before this one has returned.
//
// Stop does not hand back a timeout whose task is running. Reset then fails, so the task must end the call.
func (c *call) Run(to *hashedwheel.Timeout) {
	delay, again := c.attempt()
	if !again {
		return
	}
	if _, err := to.Reset(delay); err != nil {
		c.end(abandoned)
	}
}

// attempt makes an attempt, unless the context is done. It returns the delay before the next attempt and true,
// or ends the call and returns false.
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
			c.end(gaveUp) // at once, because the next attempt would come too late
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

// end ends the call. Its timeout must not be pending.
func (c *call) end(how outcome) {
	c.cancel()
	c.outcome = how
	c.done(c)
}

// shutdown abandons the calls that wait for an attempt, and waits for the attempts in progress. It returns the
// error of ctx if ctx is done first.
func (f *failback) shutdown(ctx context.Context) error {
	waiting, err := f.timer.Shutdown(ctx)
	for _, to := range waiting {
		to.Task().(*call).end(abandoned)
	}
	return err
}
