package hashedwheel

import (
	"context"
	"time"
)

// Cancel ends the timeout, and returns true if the task has not been started. Then the task never starts, even if it
// was already due. Only one caller gets true. Cancel returns false if the task has been started, if another Cancel has
// returned true, or if the timeout was never armed. Cancel never waits, not even for a running task.
//
// A repeating timeout is pending until its schedule ends. Cancel prevents all further runs. A run that has begun, or is
// at its first instruction, continues. For a timeout that Timer.Stop has returned, Cancel also returns true to the
// first caller.
func (to *Timeout) Cancel() bool {
	to.checkNil()
	return to.cancel() || to.claimReturned()
}

// cancel is Cancel for a timeout that is pending.
func (to *Timeout) cancel() bool {
	word := to.word.Load()
	if status(word) != pending {
		return false
	}
	to.checkCopy(word)
	t := to.timer
	s := t.queue.stripe()
	if word&hooked != 0 {
		if n := hookOf(to.task).notices(); n != nil {
			t.clock.Check()    // a goroutine of the other side of a synctest bubble must not run Canceled, nor close the channel of n
			s.notifying.Add(1) // before the timeout has ended, until Timer.calls has the call: see Timer.Shutdown
			defer s.notifying.Add(-1)
			n.begin() // before this ends the timeout, for WaitRunning
			defer n.end()
		}
	}
	for ; status(word) == pending; word = to.word.Load() {
		end := withStatus(word, canceled)
		if onQueue(word) {
			if word&(young|moved|bound) == young {
				end &^= young // it leaves the nursery: one that is neither bound nor was ever reset is most likely not used again
			}
			// Otherwise the timeout stays until the worker takes it off the queue, or a producer drops it.
			if to.word.CompareAndSwap(word, end) {
				t.canceled(to, s, word)
				return true
			}
			continue
		}
		// The worker has to remove the timeout if it is in a bucket. Once the gate is shut, Stop empties the buckets.
		open := t.queue.enter(s)
		if open {
			end |= queued
		}
		ok := to.word.CompareAndSwap(word, end)
		if open {
			if ok {
				s.push(to) // inside the gate: a Reset may arm it before this, and Stop must find it
			}
			s.leave()
		}
		if ok {
			t.canceled(to, s, word)
			if open {
				t.worker.wakeFor(soon) // last, because it may panic on the wrong side of a synctest bubble
			}
			return true
		}
	}
	return false
}

// claimReturned is Cancel for a timeout that Stop has returned. Nothing is left to do: Stop counts it as returned.
func (to *Timeout) claimReturned() bool {
	word := to.word.Load()
	for ; isReturned(word); word = to.word.Load() { // the end of a run may change it too
		if to.word.CompareAndSwap(word, withStatus(word, canceled)) {
			return true
		}
	}
	return false
}

// canceled completes a Cancel that has ended a timeout. The caller passes the word from before.
func (t *Timer) canceled(to *Timeout, s *stripe, word uint64) {
	s.canceled.Add(1)
	// After the compare-and-swap, so that never more than the limit are pending.
	t.limit.release()
	if word&hooked != 0 {
		hookOf(to.task).disarmed(to, true)
	}
}

// WaitRunning waits for the runs of the task that are in progress at the call, and returns nil when they are over. With
// a Schedule, a run includes the call of Next that follows. If the task is a [Canceler], WaitRunning then waits until
// no call of Canceled is in progress or about to begin.
//
// When WaitRunning returns nil after a Cancel, the task, Next and Canceled are not running and will not run, unless the
// timeout is reset. If the context is done first, WaitRunning returns the context's error. Inside the task, its Next or its
// Canceled, it returns only when the context is done.
//
// WaitRunning looks at each running task of the timer, so its cost grows with their number.
func (to *Timeout) WaitRunning(ctx context.Context) error {
	to.checkNil()
	if neverArmed(to.word.Load()) {
		return nil
	}
	t := to.timer
	t.clock.Check()
	p := &t.tasks
	if to.isLight() {
		p = &t.light
	}
	var overs []<-chan struct{}
	for _, run := range p.Runs(func(other *Timeout) bool { return other == to }) {
		overs = append(overs, run.Over)
	}
	n := to.notices()
	if n != nil && t.queue.shut.Load() {
		overs = append(overs, t.allTaken) // because Stop may have ended the timeout, and not counted the call of Canceled yet
	}
	if !t.awaitRuns(ctx, overs) {
		return ctx.Err()
	}
	if n == nil {
		return nil
	}
	if over := n.untilOver(); over != nil && !await(ctx, over) { // after the runs, because these may call Cancel
		return ctx.Err()
	}
	return nil
}

// awaitRuns is await for the channels of runs.
func (t *Timer) awaitRuns(ctx context.Context, overs []<-chan struct{}) bool {
	if len(overs) > 0 {
		t.briefs.begin()
		defer t.briefs.end()
	}
	for _, over := range overs {
		if !await(ctx, over) {
			return false
		}
	}
	return true
}

// await waits until a channel is closed, and returns false if the context is done first.
func await(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// IsPending reports whether the timeout is armed: its task will run, or run again, unless it is canceled. It is false from just
// before the task runs, and for a repeating timeout once its schedule has ended. It is also false after a Cancel, and after
// [Timer.Stop] has returned the timeout. IsPending reads no clock.
func (to *Timeout) IsPending() bool {
	to.checkNil()
	return status(to.word.Load()) == pending
}

// IsExpired reports whether the timeout has expired: the task is about to run, is running or has run. A repeating
// timeout expires only when its schedule ends. A Reset makes the timeout pending again.
func (to *Timeout) IsExpired() bool {
	to.checkNil()
	return status(to.word.Load()) == expired
}

// IsCanceled reports whether Cancel has ended the timeout before its task, or its next run, was started.
func (to *Timeout) IsCanceled() bool {
	to.checkNil()
	return status(to.word.Load()) == canceled
}

// Deadline returns the tick boundary at which the timeout expires, or was to expire. For a repeating timeout, this is
// the boundary of the next run, or of the run in progress. Deadline returns the zero Time if the timeout has never been
// armed.
//
// The time is right by the present wall clock. After the wall clock was set, a later call returns another wall time
// with the same monotonic reading.
func (to *Timeout) Deadline() time.Time {
	to.checkNil()
	word := to.word.Load()
	if neverArmed(word) {
		return time.Time{}
	}
	return to.timer.clock.TimeOf(to.dueTick(word))
}

// Task returns the task in every state, and nil before Bind. After AfterFunc, it is a Task that calls the function.
func (to *Timeout) Task() Task {
	to.checkNil()
	task := to.task
	for w, ok := task.(wrapper); ok; w, ok = task.(wrapper) {
		task = w.wrapped()
	}
	return task
}

// Timer returns the timer of the timeout, and nil before Bind.
func (to *Timeout) Timer() *Timer {
	to.checkNil()
	return to.timer
}
