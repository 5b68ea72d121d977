package hashedwheel

import (
	"math"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/pool"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// The worker notices two things that make tasks late, and logs which of them it is:
//
//   - a lateness of the worker: it has come late, because the machine is overloaded or was suspended, or because very many
//     timeouts were armed, canceled or due at once
//   - a stall: the worker has handed over tasks, and they wait in the pool
//
// A wait counts from when the worker handed over the task. So it includes neither the lateness of the worker, nor that of a
// repeating task that is slower than its period. It does not include a suspension of the machine either.
//
// The worker looks for a stall at the end of a round, so a task does nothing for it. After a round in which timeouts come due
// there is always another round (worker.planNext). If all tasks have started by then, the worker need not wake up for a check.
// Otherwise it checks twice a second.
const (
	tooLate   = time.Second // how late the worker must be, or how long a task must wait, for a warning
	checkEach = tooLate / 2 // the time from one check for a stall to the next
	warnEvery = time.Minute // the shortest time between two warnings of the same kind
)

// A spell is a time in which something is wrong. It decides what is logged: a warning when it begins, another one each
// minute, and a message when it is over. There is at most one warning a minute. So a spell that begins within a minute of
// the last warning is logged only if it outlasts that minute.
type spell struct {
	on     bool          // the spell lasts
	told   bool          // there has been a warning of it
	since  time.Duration // when it began
	warned bool          // there has been a warning, of this spell or of one before
	lastAt time.Duration // when the last warning was
}

// lasts is called while the spell lasts, with how late the latest task is. It reports whether to log a warning.
func (s *spell) lasts(elapsed, late time.Duration) (warn bool) {
	if !s.on {
		s.on, s.since = true, elapsed-late
	}
	if s.warned && elapsed-s.lastAt < warnEvery {
		return false
	}
	s.told, s.warned, s.lastAt = true, true, elapsed
	return true
}

// end is called when nothing is wrong, also if the spell was not on. It returns how long the spell has lasted, and whether to
// log that.
func (s *spell) end(elapsed time.Duration) (lasted time.Duration, tell bool) {
	lasted, tell = elapsed-s.since, s.told
	s.on, s.told = false, false
	return lasted, tell
}

// A workerLateness has the greatest lateness of timeouts when the worker found them. Owned by the worker.
type workerLateness struct {
	warn   func(late time.Duration, behind bool) // Timer.warnLate; these two are immutable after New, and do not wait
	over   func(lasted time.Duration)            // Timer.onTime
	found  bool                                  // a timeout has come due in this round
	worst  time.Duration                         // in this round
	most   time.Duration                         // since the last warning
	behind bool                                  // the round before has left something to this one
	spell
}

func (l *workerLateness) add(late time.Duration) { l.found, l.worst = true, max(l.worst, late) }

// report is called at the end of a round. If the round leaves something to the next one, behind is true.
func (l *workerLateness) report(elapsed time.Duration, behind bool) {
	switch {
	case l.worst > tooLate:
		if l.most = max(l.most, l.worst); l.lasts(elapsed, l.worst) {
			l.warn(l.most, l.behind || behind)
			l.most = 0
		}
	case l.found:
		if lasted, tell := l.end(elapsed); tell {
			l.over(lasted)
		}
		l.most = 0
	}
	l.found, l.worst, l.behind = false, 0, behind
}

// A stall is a spell in which tasks are due and wait. It begins when one of them has waited for a second, and ends when none
// waits. Owned by the worker.
type stall struct {
	pool *pool.Pool[*Timeout]                                // these are immutable after New
	warn func(waited time.Duration, r pool.Report[*Timeout]) // Timer.warnStall; these two do not wait
	over func(lasted time.Duration)                          // Timer.stallOver

	waits bool          // tasks may wait
	from  time.Duration // a wait counts from here, or from the time at which its task was handed over if that is later
	last  time.Duration // when check was last called while tasks might wait
	next  time.Duration // when to look at the pool again, while timeouts come due in each round
	spell
}

// check is called at the end of a round. If timeouts have come due in the round, emitted is true. The result is the time
// at which a round must check again.
func (s *stall) check(elapsed time.Duration, emitted bool) (until time.Duration) {
	switch {
	case !s.waits && !emitted:
		return math.MaxInt64
	case !s.waits, elapsed-s.last > tooLate: // or the machine was suspended, because rounds come more often while tasks wait
		s.waits, s.from, s.next = true, elapsed, ticks.Later(elapsed, checkEach)
	}
	s.last = elapsed
	if emitted && elapsed < s.next {
		return math.MaxInt64 // another round comes soon anyway
	}
	r := s.pool.Report(func(to *Timeout) bool { return !to.isListed() }) // see worker.reconcile
	if s.waits = r.Waiting > 0; !s.waits {
		if lasted, tell := s.end(elapsed); tell {
			s.over(lasted)
		}
		return math.MaxInt64
	}
	wait, waited := checkEach, min(elapsed-s.from, sinceListed(r.First, elapsed))
	if waited < tooLate {
		wait = min(wait, tooLate-waited)
	} else if s.lasts(elapsed, waited) {
		s.warn(waited, r)
	}
	s.next = ticks.Later(elapsed, wait)
	return s.next
}
