package hashedwheel

import (
	"context"
	"time"
)

// Cancel ends a pending timeout. It returns true for exactly one caller, and then the task never starts,
// even if it was already due. It returns false if the timeout is not pending: it has never been armed, its
// task has been started, or it has been canceled or returned by Stop. In the last two cases IsCanceled is
// true. A repeating timeout is pending until its schedule ends, also while its task runs. As long as it is
// pending, Cancel returns true, and no other run starts. Cancel waits for nothing, not even for a task that
// is running. It allocates nothing, unless the task is a Canceler, or the timer's goroutine has to be started.
func (to *Timeout) Cancel() bool {
	word := to.word.Load()
	if status(word) != pending {
		return false
	}
	to.checkCopy(word)
	t := to.timer
	s := t.queue.stripe()
	for ; status(word) == pending; word = to.word.Load() {
		end := withStatus(word, canceled)
		if word&queued != 0 {
			// The worker will see this when it takes the timeout off the queue.
			if to.word.CompareAndSwap(word, end) {
				t.canceled(to, s, word)
				return true
			}
			continue
		}
		// The worker has to remove the timeout if it lies in a bucket. After Stop there is no worker, and
		// no bucket.
		open := t.queue.enter(s)
		if open {
			end |= queued
		}
		ok := to.word.CompareAndSwap(word, end)
		if ok && open {
			t.pushAgain(s, to)
		}
		s.leave()
		if ok {
			t.canceled(to, s, word)
			return true
		}
	}
	return false
}

// canceled does the remaining work after Cancel has ended a timeout. Word is the word from before the Cancel.
func (t *Timer) canceled(to *Timeout, s *stripe, word uint64) {
	s.canceled.Add(1)
	t.limit.free()
	if word&hooked != 0 {
		hookOf(to.task).disarmed(to, true)
	}
}

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
	c := &to.timer.tasks
	if h := to.hook(); h != nil && h.own() {
		c = &to.timer.own
	}
	for _, over := range c.RunsOf(to) {
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Sleep waits until d has passed, and returns nil at the first tick boundary at or after that time. If the
// context is done before that, Sleep returns the context's error at once. If d is not positive, Sleep
// returns at once and does not use the timer. Otherwise the error may also be ErrTooManyPending, or
// ErrStopped if the timer is stopped before or during the call.
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

// A sleeper is the task that ends a Sleep.
type sleeper struct {
	lightHook
	done chan error // has room for the one error that is sent
}

func (s sleeper) Run(*Timeout)            { s.done <- nil }
func (s sleeper) disarmed(*Timeout, bool) { s.done <- ErrStopped } // after a Cancel nobody receives it

// IsExpired reports whether the timeout has expired: its task is about to run, is running or has run. A
// repeating timeout expires only when its schedule ends. A Reset makes the timeout pending again.
func (to *Timeout) IsExpired() bool { return status(to.word.Load()) == expired }

// IsCanceled reports whether Cancel or Stop has ended the timeout before its task, or the next run of a
// repeating task, was started. A Reset makes the timeout pending again.
func (to *Timeout) IsCanceled() bool { return status(to.word.Load()) == canceled }

// Deadline returns the tick boundary at which the timeout expires, or was to expire. For a repeating timeout
// it is the boundary of the next run, or of the run in progress. It is the first one at or after the time
// that was asked for. If the delay is too long to be represented, Deadline is some 292 years after New. If
// the timeout has never been armed, it is the zero Time.
func (to *Timeout) Deadline() time.Time {
	word := to.word.Load()
	if status(word) == idle {
		return time.Time{}
	}
	c := &to.timer.clock
	return c.Start.Add(c.Boundary(tickOf(word)))
}

// Task returns the task in every state of the timeout, and nil before Init. For a timeout made by
// AfterFunc, it returns a Task that calls the function.
func (to *Timeout) Task() Task {
	task := to.task
	for {
		h := hookOf(task)
		if h == nil || h.unwrap() == nil {
			return task
		}
		task = h.unwrap()
	}
}

// Timer returns the timer that the timeout belongs to, and nil before Init.
func (to *Timeout) Timer() *Timer { return to.timer }
