package hashedwheel

import (
	"runtime/pprof"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/wall"
)

// Runs by the wall clock
//
// Package wall says how the runs of a schedule follow the wall clock. This file gives a pending timeout another tick. That
// is not a Reset: it counts nowhere, and the schedule continues from its own time.
//
//	         plan                    rearm                      the claim: its time has come
//	 Next ---------> added, at work ------> added, waiting ---------------------------------> added, at work
//	                                          |  ^    |  ^
//	                     a look, the clock set|  |    |  | the claim: the clock was set back,
//	                     or the machine slept +--+    +--+ so the run is put off
//
//   - While the timeout is at work, its runner owns the wallRun. While it waits, the lock of the timer's wall.Clock guards
//     it. Both the claim and a look take that lock, so they exclude each other.
//   - Cancel, Reset and Stop do not take the lock. They race for the word with a look or a claim. If their compare-and-swap
//     fails, they try again.
//   - A Reset asks for a delay, not for a time of the wall clock. So while the bit moved is set, a look leaves the
//     timeout alone, and the claim does not check the time. Only a Reset sets the bit.
//   - A run leaves the wall.Clock when its timeout ends: drop follows each end.

// A wallRun is the next run of a timeout that follows the wall clock.
type wallRun struct {
	wall.Run
	clock *wall.Clock // of the timer; immutable
	at    *time.Time  // the time from which the schedule continues after the run
	to    *Timeout    // guarded by the lock; nil until the timeout is armed for the first time
	due   time.Time   // when the run is due, with jitter; zero if it is due after a pause
}

var _ wall.Follower = (*wallRun)(nil)

// look is called once a minute while a timeout follows the wall clock.
func (t *Timer) look() {
	pprof.SetGoroutineLabels(t.worker.labels)
	s := t.queue.stripe()
	defer s.leave()
	if t.queue.enter(s) { // inside the gate, because Follow queues timeouts; after Stop there are no runs
		t.wallClock().Look()
	}
}

// wallClock returns the wall clock of the timer. If there is none, it makes one.
func (t *Timer) wallClock() *wall.Clock {
	if t.wall.Load() == nil {
		t.wall.CompareAndSwap(nil, wall.New(&t.clock, t.look))
	}
	return t.wall.Load()
}

// newWallRun returns the first run of a timeout, or nil if its runs need not follow the wall clock. In a synctest bubble
// they need not, because nothing sets the clock there, except a test that has made a wall.Clock.
func (t *Timer) newWallRun(at *time.Time) *wallRun {
	t.clock.Check()
	if !t.clock.Monotonic && t.wall.Load() == nil {
		return nil
	}
	return &wallRun{clock: t.wallClock(), at: at}
}

// plan plans the next run for a time, and returns its tick and its delay from now.
func (run *wallRun) plan(t *Timer, due time.Time) (tick uint64, delay time.Duration) {
	c := run.clock
	c.Lock()
	defer c.Unlock()
	now := c.Now()
	if hasMonotonic(due) { // a pause
		run.due, delay = time.Time{}, due.Sub(now.Exact)
		c.Remove(&run.Run)
	} else {
		run.due, delay = due, due.Sub(now.Wall)
		c.Add(&run.Run, run, now)
	}
	return t.clock.Due(now.Elapsed, delay), delay
}

// hasMonotonic reports whether a time has a monotonic reading, as a sum of time.Now and a duration has.
func hasMonotonic(at time.Time) bool { return at != at.Round(0) }

// armed is called after the timeout was armed for the first time, or with the error that prevented this.
func (run *wallRun) armed(to *Timeout, err error) {
	c := run.clock
	c.Lock()
	defer c.Unlock()
	run.to = to
	if err != nil || status(to.word.Load()) != pending { // it may have ended already
		c.Remove(&run.Run)
	}
}

// drop removes the run if the timeout has ended.
func (run *wallRun) drop(to *Timeout) {
	if status(to.word.Load()) == pending {
		return
	}
	c := run.clock
	c.Lock()
	defer c.Unlock()
	if status(to.word.Load()) != pending { // again, with the lock: it may have been armed, and planned, meanwhile
		c.Remove(&run.Run)
	}
}

// early puts off a run whose time has not come because the clock was set back. It reports whether it did so, or the word
// has changed. Called with the lock held, by a runner that may claim the timeout.
func (run *wallRun) early(to *Timeout, word uint64) bool {
	if to.word.Load() != word {
		return true
	}
	if word&moved != 0 || run.due.IsZero() {
		return false
	}
	t := to.timer
	now := run.clock.Now()
	if !now.Wall.Before(run.due) {
		return false
	}
	if to.word.CompareAndSwap(word, pendingAt(word, t.clock.Due(now.Elapsed, run.due.Sub(now.Wall)))) {
		run.clock.Planned(&run.Run, now)
	}
	return true
}

// Follow moves a waiting timeout to the tick at which its run is due by the present wall clock. It leaves a due timeout
// alone, because the claim checks its time.
func (run *wallRun) Follow(now wall.Now) (ok bool) {
	to := run.to
	if to == nil {
		return false
	}
	t, word := to.timer, to.word.Load()
	old := tickOf(word)
	if !waits(word) || word&moved != 0 || old <= t.clock.TickAt(now.Elapsed) {
		return false
	}
	delay := run.due.Sub(now.Wall)
	switch tick := t.clock.Due(now.Elapsed, delay); {
	case tick > old:
		// The worker checks the timeout at its old tick, or has yet to take it off the queue.
		return (onQueue(word) || t.wordSuffices(word, tick)) && to.word.CompareAndSwap(word, pendingAt(word, tick))
	case tick < old:
		if !to.advance(word, tick) {
			return false
		}
		if delay <= 0 {
			*run.at = run.clock.TimeOf(tick, run.at.Location()) // as in repeating.plan
		}
	}
	return true
}

// advance makes a waiting timeout due at an earlier tick, and queues it. It also takes the timeout out of its bucket.
// Otherwise the worker could emit it from there before it takes it off the queue, where worker.reconcile would emit it
// again: without the bit moved, it takes a listed timeout for one that its runner has claimed. Advance returns false if the
// timeout is due or its word has changed. Called inside the gate.
func (to *Timeout) advance(word, tick uint64) (ok bool) {
	t := to.timer
	if word&queued != 0 {
		if ok = to.word.CompareAndSwap(word, pendingAt(word, tick)); ok {
			t.worker.wakeBy(tick)
		}
		return ok
	}
	t.worker.mu.Lock() // until the note: a walk that no longer finds the timeout in its bucket must have it
	defer t.worker.mu.Unlock()
	if !to.takeOut(word, pendingAt(word&^young, tick)|queued) {
		return false
	}
	t.worker.push(t.queue.stripe(), to)
	return true
}

// takeOut takes a timeout out of its bucket and changes its word, unless it is due or its word has changed. Called with
// worker.mu held. Then no round is in progress, so the timeout is on the queue, in a bucket, due, or with a runner.
func (to *Timeout) takeOut(word, next uint64) (ok bool) {
	inBucket := to.bucket != 0 && to.bucket != listed
	if !inBucket && !onQueue(word) || !to.word.CompareAndSwap(word, next) {
		return false
	}
	if inBucket {
		to.timer.worker.wheel.remove(to)
	}
	return true
}
