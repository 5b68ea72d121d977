// Package warn decides when the log has a warning: when the worker of a timer is late, when tasks or keys wait, and when calls
// of user code do not return. It knows nothing of timers. The caller passes the figures of a round, and writes to the log. The
// package reads no clock: elapsed is the present time by a clock of the caller. No type has a lock.
package warn

import (
	"math"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

const (
	tooLate   = time.Second // how late the worker must be, or how long a task must wait, for a warning
	checkEach = tooLate / 2 // the time from one check for a wait to the next
	warnEvery = time.Minute // the shortest time between two warnings of the same kind
	calm      = 5 * tooLate // how long no task may have waited for tooLate when a spell of waits ends although tasks wait
)

// A Verdict says what to log: a warning, a message that something is over, or neither.
type Verdict struct {
	Warn bool
	Over bool
	For  time.Duration // with Warn, how late the worker was or how long the first task has waited; with Over, how long it has lasted
}

// A spell is a time in which something is wrong. It decides what is logged: a warning when it begins, another one each
// minute, and a message when it is over. There is at most one warning a minute. So a spell that begins within a minute of
// the last warning is logged only if it outlasts that minute.
type spell struct {
	on     bool          // the spell lasts
	told   bool          // there has been a warning of it
	since  time.Duration // when it began
	wrong  time.Duration // when something was last wrong
	warned bool          // there has been a warning, of this spell or of one before
	lastAt time.Duration // when the last warning was
}

// lasts is called while the spell lasts, with how late the latest task is. It reports whether to log a warning.
func (s *spell) lasts(elapsed, late time.Duration) (warn bool) {
	if s.wrong = elapsed; !s.on {
		s.on, s.since = true, elapsed-late
	}
	if s.warned && elapsed-s.lastAt < warnEvery {
		return false
	}
	s.told, s.warned, s.lastAt = true, true, elapsed
	return true
}

// end is called when nothing is wrong, even if the spell was not on. The caller passes the time at which it was over.
func (s *spell) end(at time.Duration) Verdict {
	v := Verdict{Over: s.told, For: at - s.since}
	s.on, s.told = false, false
	return v
}

// step is called with whether any task or key waits, and how long the first one has waited.
//
// On a busy timer there is always a task that was just handed over, and waits. So a spell also ends when for some time no task
// has waited for a second. It does not end sooner, because waits that grow begin with short ones.
func (s *spell) step(elapsed, waited time.Duration, any bool) Verdict {
	switch {
	case waited >= tooLate:
		return Verdict{Warn: s.lasts(elapsed, waited), For: waited}
	case !any:
		return s.end(elapsed)
	case elapsed-s.wrong >= calm:
		return s.end(s.wrong)
	}
	return Verdict{}
}

// A Lateness finds out whether the worker is late. The zero value is ready for use.
type Lateness struct {
	found  bool          // a timeout has come due in this round
	worst  time.Duration // how late the worker has found a timeout in this round
	most   time.Duration // the same since the last warning
	left   bool          // a round has left something to the next one
	leftAt time.Duration // when one last has
	spell
}

// Add is called when the worker finds a timeout that is so late.
func (l *Lateness) Add(late time.Duration) { l.found, l.worst = true, max(l.worst, late) }

// Report is called at the end of a round. If the round leaves something to the next one, behind is true. If the result hadMore is
// true, the worker is late because it had more to do than it could in a tick.
func (l *Lateness) Report(elapsed time.Duration, behind bool) (v Verdict, hadMore bool) {
	if behind {
		l.left, l.leftAt = true, elapsed
	}
	switch {
	case l.worst > tooLate:
		if l.most = max(l.most, l.worst); l.lasts(elapsed, l.worst) {
			v, hadMore = Verdict{Warn: true, For: l.most}, l.left && elapsed-l.leftAt <= l.worst
			l.most = 0
		}
	case l.found:
		v, l.most = l.end(l.wrong), 0
	}
	l.found, l.worst = false, 0
	return v, hadMore
}

// Waits finds out whether tasks that are due wait, or keys that have expired. A wait is logged when it has lasted for a second.
// The zero value is ready for use.
//
// A wait counts from when the worker handed over the task. So it includes neither the lateness of the worker, nor that of a
// repeating task that is slower than its period. It does not include a suspension of the machine either.
//
// The worker checks at the end of a round, so a task does nothing for it. After a round in which timeouts come due
// there is always another round. If all tasks have started by then, the worker need not wake up for a check.
// Otherwise it checks twice a second for tasks, and less often the longer keys wait.
type Waits struct {
	any  bool          // tasks or keys may wait
	from time.Duration // the part of a wait before this does not count
	last time.Duration // the last check while tasks might wait; if the next check is set for later than usual, half a second before it
	next time.Duration // when to check again, even if timeouts come due in each round

	tasks, keys spell
}

// Waiting says how many tasks or keys wait, and how long the first of them has waited.
type Waiting struct {
	N       int
	Longest time.Duration
}

// Due is called at the end of a round. If timeouts have come due in the round, emitted is true. It is also true after a round
// that has finished what such a round left. If Due returns true, the caller must call Check.
func (w *Waits) Due(elapsed time.Duration, emitted bool) bool {
	switch {
	case !w.any && !emitted:
		return false
	case !w.any, elapsed-w.last > tooLate: // or the machine was suspended, because rounds come more often while tasks wait
		w.any, w.from, w.next = true, elapsed, ticks.Later(elapsed, checkEach)
	}
	w.last = elapsed
	return !emitted || elapsed >= w.next // another round comes soon anyway
}

// Check is called with what waits. Until is the time at which a round must come, and math.MaxInt64 if none need.
func (w *Waits) Check(elapsed time.Duration, tasks, keys Waiting) (ofTasks, ofKeys Verdict, until time.Duration) {
	w.any = tasks.N > 0 || keys.N > 0
	wait := time.Duration(math.MaxInt64) // until the next check
	var waited, keysWaited time.Duration
	if tasks.N > 0 {
		waited = min(elapsed-w.from, tasks.Longest)
		wait = untilLate(waited)
	}
	if keys.N > 0 {
		keysWaited = min(elapsed-w.from, keys.Longest)
		// Ever later. Otherwise the time of a bubble would go on forever where calls never return, and hide the deadlock.
		wait = min(wait, max(untilLate(keysWaited), keysWaited/8))
	}
	ofTasks, ofKeys = w.tasks.step(elapsed, waited, tasks.N > 0), w.keys.step(elapsed, keysWaited, keys.N > 0)
	if !w.any {
		return ofTasks, ofKeys, math.MaxInt64
	}
	w.last += max(wait-checkEach, 0)
	w.next = ticks.Later(elapsed, wait)
	return ofTasks, ofKeys, w.next
}

// Any reports whether tasks or keys may wait.
func (w *Waits) Any() bool { return w.any }

// untilLate returns the time until the next check, if something has waited for so long.
func untilLate(waited time.Duration) time.Duration {
	if waited < tooLate {
		return min(checkEach, tooLate-waited)
	}
	return checkEach
}
