package hashedwheel

import (
	"sync"
	"sync/atomic"
	"time"
)

// Runs by the wall clock
//
// A timer counts monotonic time, which is never set, and which on Linux stands still while the machine sleeps. So a run that
// is due at a time of the wall clock is armed for a minute ahead at most. The tick is that of the run, or of the next step
// if that comes first. When the tick has come, the wall clock decides:
//
//	the run is      the worker, or a runner before its claim   the runner that has claimed the timeout
//	not due yet     puts it off, to a later tick
//	due                                                        starts the task
//	set back                                                   asks Next again
//
// These rules hold:
//
//   - Set back means that the clock is behind the time from which the schedule has counted, by more than tolerance. Such a
//     run is not put off. So if a run that is not due yet is claimed, the clock was set back.
//   - All runs of a timer have the same steps, so the timer wakes up once a minute for all of them.
//   - Putting a run off changes only the tick in the word, as a Reset to a later tick may do. But the bit moved stays clear.
//   - A Reset asks for a delay, not for a time of the wall clock. So the wall clock decides nothing while the bit moved is
//     set, or after a pause.

// tolerance is how late a busy machine may start a run, besides a tick, and how far a correction may set back the clock.
// Neither changes the times of the schedule.
const tolerance = time.Second

// A wallRun is the next run of a timeout whose schedule has no fixed interval.
type wallRun struct {
	mu    sync.Mutex
	due   time.Time     // when the run is due by the wall clock, with jitter; zero after a pause: then putOff and dueTick find it due
	since time.Time     // the time from which the schedule has counted
	seen  time.Duration // when the clock was last seen not to be set back, counted from the start of the timer

	missing time.Time // the last run makes up for all that were due before this time. Owned by the runner, as in repeating

	asked atomic.Int64 // when the call of Schedule.Next began that is in progress on a runner; 0 if none is; shared
}

// plan plans the next run, for which the schedule has counted from since. It returns the tick for which to arm the timeout.
// If the time of the run has passed, passed is true, and the tick is the first one at or after that time. Called while the
// timeout is at work, or before it is armed.
func (run *wallRun) plan(t *Timer, due, since time.Time) (tick uint64, passed bool) {
	now := time.Now() // both readings at once
	elapsed := t.clock.ElapsedAt(now)
	run.mu.Lock()
	defer run.mu.Unlock()
	var delay time.Duration
	if hasMonotonic(due) { // a pause
		run.due, delay = time.Time{}, due.Sub(now)
		tick = t.clock.Due(elapsed, delay)
	} else {
		run.due, run.since, run.seen = due, since, elapsed
		delay = due.Sub(t.wall.At(now))
		tick = t.wall.Due(elapsed, delay)
	}
	if delay <= 0 {
		return t.clock.At(max(elapsed+delay, 0)), true
	}
	return tick, false
}

// hasMonotonic reports whether a time has a monotonic reading, as a sum of time.Now and a duration has.
func hasMonotonic(at time.Time) bool { return at != at.Round(0) }

// putOff puts off a run that is not due yet. It reports whether it has, or the word has changed. Called by the worker or the
// runner that has the timeout, if its tick has passed and the bit moved is clear.
func (run *wallRun) putOff(to *Timeout, word uint64) bool {
	t, now := to.timer, time.Now()
	wall, elapsed := t.wall.At(now), t.clock.ElapsedAt(now)
	run.mu.Lock()
	defer run.mu.Unlock()
	if !wall.Before(run.due) || wall.Before(run.since.Add(-tolerance)) {
		return false
	}
	run.seen = max(run.seen, elapsed)
	tick := t.wall.Due(elapsed, run.due.Sub(wall))
	// If the compare-and-swap succeeds, the word stands for the run at run.due, because run.due changes only while the
	// timeout is at work. After that its tick lies ahead of the clock, but the tick in this word has passed.
	//
	// After the compare-and-swap the timeout is where it was, as after a Reset that changes only the word. The worker that
	// has it places it for the new tick (wheel.goOn), and a runner that has it queues it: see rule 3 of timeout.go. Cancel,
	// Reset and Stop rely on the same rule. Each of them changes the word too, so they come one after another.
	to.word.CompareAndSwap(word, pendingAt(word, tick))
	return true
}

// claimed returns what the wall clock shows when a runner has claimed the run, and for how long the run has been due. If the
// clock was set back, late is negative, and asked is what to pass to Schedule.Next: the time that the wall clock, as it is set
// now, showed at run.seen. So Next also returns a run that has come due since run.seen. That run is late, and not missed.
func (run *wallRun) claimed(t *Timer) (wall time.Time, late time.Duration, asked time.Time) {
	now := time.Now()
	wall = t.wall.At(now)
	run.mu.Lock()
	defer run.mu.Unlock()
	if !run.due.IsZero() {
		late = wall.Sub(run.due)
	}
	return wall, late, wall.Add(run.seen - t.clock.ElapsedAt(now))
}

// missed reports whether the previous run makes up for one that is due at a time.
func (run *wallRun) missed(due time.Time) bool {
	return due.Before(run.missing) && !hasMonotonic(due)
}

// dueTick returns the tick at which the run is due by the present wall clock. It returns 0 if the run is due already, or after
// a pause.
func (run *wallRun) dueTick(t *Timer) uint64 {
	now := time.Now()
	run.mu.Lock()
	defer run.mu.Unlock()
	left := run.due.Sub(t.wall.At(now))
	if left <= 0 {
		return 0
	}
	return t.clock.Due(t.clock.ElapsedAt(now), left)
}
