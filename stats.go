package hashedwheel

import (
	"fmt"
	"strings"
)

// Stats are the counts of a timer. At rest, when no call is in progress,
//
//	Accepted == Expired + Canceled + Returned + Pending
//
// and while calls are in progress the counts belong to moments that lie close together.
type Stats struct {
	Pending int // timeouts that have neither ended nor been handed back
	Running int // tasks that have been started and have not returned

	// Timeouts armed: by NewTimeout and similar methods, by a Reset of one that is not pending, and for each
	// next run of a repeating one. That is counted when the run before starts, and taken back if there is
	// none. So is a Reset that meets another one, or the worker, and has to try again.
	Accepted uint64

	Expired  uint64 // tasks started
	Canceled uint64 // timeouts ended by Cancel, and those of Sleep and of Light tasks by Stop
	Returned uint64 // timeouts handed back by Stop
	Rejected uint64 // calls refused with ErrTooManyPending or ErrStopped, not ErrGroupClosed
	Panics   uint64 // calls of user code that panicked: tasks, mostly

	Unsubmitted uint64 // tasks that the executor did not take, and that ran without it

	// Times that the timer's goroutine woke up: about once a tick at which something happens, and
	// more often in bursts and behind tasks that block. While nothing is armed, canceled or due it
	// does not, but once at the deadline that a timeout had before it was reset to a later one,
	// and once for some thousands on an upper level, before they are due.
	Wakeups uint64

	Runners int // goroutines of the timer's for tasks and other user code; the executor's are not counted

	// Timeouts that the timer's goroutine has yet to put into a bucket, to move or to remove. It
	// does so at the next tick boundary, or earlier if there are very many.
	Queued int

	// The levels of the wheel, from the lowest; nil while there is none, for want of a timeout, and
	// after Stop. They are as the timer's goroutine has last published them, at the end of its work at a
	// tick. In between it publishes after each 1,024 timeouts that it takes off the queue or brings
	// down a level. While it hands over what is due at once they are as before that, which for a million
	// timeouts takes some 50 ms. At rest they are exact.
	Levels []LevelStats

	// How late tasks were started, from the tick boundary at which they were due. Of those that
	// come due together, one in 64 is measured and counted.
	Lateness Histogram
}

// LevelStats are about one level of the wheel.
type LevelStats struct {
	Hand     int // the bucket where the wheel has got to; while nothing is due it stays there
	Occupied int // buckets with timeouts
	Timeouts int // those in the buckets, also canceled ones that are on the queue to be removed
}

// Stats returns the counts. It reads a few counters for each processor, and one for each task that is
// running, several times if they move meanwhile. It neither waits for the timer's goroutine while that is at
// work at a tick, nor keeps it waiting, however many timeouts are pending. So it may be called often, and
// by many goroutines.
func (t *Timer) Stats() Stats {
	st := t.counts()
	st.Queued = t.queue.length(&t.worker)
	st.Running, st.Runners = t.running()
	st.Rejected = t.rejected.Load()
	st.Panics = t.panics.Load()
	st.Unsubmitted = t.unsubmitted.Load()
	st.Wakeups = t.worker.wakeups.Load()
	st.Levels = t.worker.shown.stats()
	st.Lateness = t.histogram()
	return st
}

// Pending returns the number of timeouts that will expire unless they are canceled. It is
// exact when no call is in progress, never negative, and never more than WithMaxPending allows.
func (t *Timer) Pending() int { return t.counts().Pending }

// String describes the timer for logs: its name, how many timeouts are pending, and its tick. The form may
// change.
func (t *Timer) String() string {
	var b strings.Builder
	b.WriteString("hashedwheel.Timer(")
	if t.name != "" {
		fmt.Fprintf(&b, "%s, ", t.name)
	}
	if t.IsStopped() {
		b.WriteString("stopped, ")
	}
	fmt.Fprintf(&b, "%d pending, tick %v)", t.Pending(), t.clock.tick)
	return b.String()
}

// Buckets returns how many timeouts each bucket of a level holds, for those who want to look at the
// wheel: as LevelStats.Timeouts, bucket by bucket. It returns nil if there is no such level. It
// waits while the timer's goroutine is at work, which with a million timeouts due at once is some 50 ms,
// and keeps that waiting, for some microseconds at a time. Of a large wheel not all buckets are
// looked at in the same moment. For monitoring there is Stats.
func (t *Timer) Buckets(level int) []int {
	t.checkMade()
	w := &t.worker
	if level < 0 || level >= w.levels {
		return nil
	}
	counts := make([]int, w.wheelSize)
	for from := 0; from < w.wheelSize; from += lookAtOnce {
		if !w.countBuckets(level, counts, from) {
			return nil
		}
	}
	return counts
}

// lookAtOnce is the number of buckets that Buckets looks at while it keeps the worker waiting: some
// microseconds.
const lookAtOnce = 1 << 10

// countBuckets is Buckets for lookAtOnce of them. It reports whether there is a wheel.
func (w *worker) countBuckets(level int, counts []int, from int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wheel == nil {
		return false
	}
	for slot, n := range w.wheel.levels[level].each(uint64(from), uint64(from+lookAtOnce)) {
		counts[slot] = n
	}
	return true
}

// stats returns what Stats says about the wheel.
func (s *levelsShown) stats() []LevelStats {
	if !s.wheel.Load() {
		return nil
	}
	all := make([]LevelStats, len(s.levels))
	for i := range all {
		l := &s.levels[i]
		all[i] = LevelStats{Hand: int(l.hand.Load()), Occupied: int(l.inUse.Load()), Timeouts: int(l.count.Load())}
	}
	return all
}

// length returns how many timeouts are on the queue, or are just about to be: each is counted before it
// is pushed. Those taken are read first, so that what is pushed and taken meanwhile does not make it
// negative.
func (q *queue) length(w *worker) int {
	taken, pushed := w.taken.Load(), uint64(0)
	for i := range q.stripes {
		taken += q.stripes[i].dropped.Load()
	}
	for i := range q.stripes {
		s := &q.stripes[i]
		pushed += s.armed.Load() + s.again.Load()
	}
	return max(0, int(pushed-taken))
}

// running returns the number of tasks that have been started, or are just about to be, and
// have not returned; and that of goroutines for user code.
func (t *Timer) running() (tasks, goroutines int) {
	for _, r := range t.allRunners() {
		r.count.Lock()
		for _, rn := range r.live {
			if rn.state.Load()&phaseMask != resting {
				tasks++
			}
			if r.dispatch == nil {
				goroutines++
			}
		}
		r.count.Unlock()
	}
	t.calls.mu.Lock()
	defer t.calls.mu.Unlock()
	return tasks, goroutines + t.calls.live
}

// ends are the counters of what has ended.
type ends struct{ expired, canceled, returned uint64 }

// total returns how many of the accepted timeouts have ended.
func (e ends) total() uint64 { return e.expired + e.canceled + e.returned }

// stats returns the counts, with what was accepted as it was read after the ends. It may have been read too
// low, even below zero. A repeating timeout counts as armed again on one stripe, and that may be taken back on
// another one. A reader between the two has seen the second change alone.
func (e ends) stats(accepted uint64) Stats {
	if int64(accepted-e.total()) < 0 {
		accepted = e.total()
	}
	return Stats{
		Pending:  int(accepted - e.total()),
		Accepted: accepted,
		Expired:  e.expired,
		Canceled: e.canceled,
		Returned: e.returned,
	}
}

// counts returns what the counters of the stripes say. The ends are read before what was accepted, because
// what has ended was accepted. If they moved while they were read the difference is too large, by what has
// ended meanwhile. So they are read again, and the best is taken.
func (t *Timer) counts() Stats {
	t.checkMade()
	const tries = 8
	var st Stats
	least := ^uint64(0)
	before := t.ends()
	for range tries {
		var accepted uint64
		for i := range t.queue.stripes {
			s := &t.queue.stripes[i]
			accepted += s.armed.Load() + s.rearmed.Load()
		}
		after := t.ends()
		if moved := after.total() - before.total(); moved < least {
			least = moved
			st = before.stats(accepted)
		}
		if least == 0 {
			break
		}
		before = after
	}
	if t.limit.max > 0 {
		st.Pending = min(st.Pending, int(t.limit.max))
	}
	return st
}

func (t *Timer) ends() (e ends) {
	for i := range t.queue.stripes {
		s := &t.queue.stripes[i]
		e.canceled += s.canceled.Load()
	}
	e.returned = t.returned.Load()
	for _, r := range t.allRunners() {
		e.expired += r.tasksStarted()
	}
	return e
}
