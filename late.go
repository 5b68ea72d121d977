package hashedwheel

import (
	"math"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/pool"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// The worker notices two things that make tasks late, and has the log say which it is:
//
//   - a lateness of the worker: it has come late, because the machine is overloaded or was suspended
//   - a stall: timeouts have come due in time, and their tasks wait in the pool
//
// It looks for a stall at the end of a round, so that tasks cost nothing for it. A round in which nothing comes due follows
// each one in which something does. So if all tasks have started by then, no check follows, and no wake-up. Otherwise one
// follows each second.
const (
	tooLate   = time.Second // how late tasks must be for a warning, and the time between two checks
	warnEvery = time.Minute // the shortest time between two warnings of the same kind
)

// A spell is a time in which something is wrong. It decides what the log says of it: a warning when it begins and then
// once a minute, and a message when it is over. A spell that follows another within a minute of that warning waits for
// the minute to end, and if it is over before, the log says nothing of it.
type spell struct {
	on, told bool // it lasts; the log has a warning of it
	since    time.Duration
	warned   bool // there has been a warning, of this spell or another: at lastAt
	lastAt   time.Duration
}

// lasts is called while the spell lasts, with how late the latest task is. It reports whether a warning is due.
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

// end is called when nothing is wrong. If that is news for the log, it returns how long the spell has lasted.
func (s *spell) end(elapsed time.Duration) (lasted time.Duration, tell bool) {
	lasted, tell = elapsed-s.since, s.told
	s.on, s.told = false, false
	return lasted, tell
}

// A workerLateness is how late timeouts were, at most, when the worker found them. Owned by the worker.
type workerLateness struct {
	warn  func(late time.Duration) // these two are immutable after New, and do not wait
	over  func(lasted time.Duration)
	found bool          // a timeout has come due in this round
	worst time.Duration // in this round
	most  time.Duration // since the last warning
	spell
}

func (l *workerLateness) add(late time.Duration) { l.found, l.worst = true, max(l.worst, late) }

// report is called at the end of a round.
func (l *workerLateness) report(elapsed time.Duration) {
	switch {
	case l.worst > tooLate:
		if l.most = max(l.most, l.worst); l.lasts(elapsed, l.worst) {
			l.warn(l.most)
			l.most = 0
		}
	case l.found:
		if lasted, tell := l.end(elapsed); tell {
			l.over(lasted)
		}
		l.most = 0
	}
	l.found, l.worst = false, 0
}

// A stall is that tasks are due and wait. Owned by the worker.
type stall struct {
	clock *ticks.Clock // these are immutable after New
	pool  *pool.Pool[*Timeout]
	warn  func(late time.Duration, r pool.Report[*Timeout]) // these two do not wait
	over  func(lasted time.Duration)

	waits bool          // tasks may wait
	next  time.Duration // when to check again, while timeouts come due in each round
	spell
}

// check is called at the end of a round. Emitted says that timeouts have come due in it. Check returns when a round must
// come to check again.
func (s *stall) check(elapsed time.Duration, emitted bool) (until time.Duration) {
	switch {
	case emitted && !s.waits:
		s.waits, s.next = true, later(elapsed, tooLate)
		return math.MaxInt64 // because another round comes soon
	case !s.waits, emitted && elapsed < s.next:
		return math.MaxInt64
	}
	r := s.pool.Report()
	if s.waits = r.Waiting > 0; !s.waits {
		s.report(elapsed, 0, r)
		return math.MaxInt64
	}
	due := s.clock.Boundary(tickOf(r.First.word.Load())) // ahead if it has just been reset
	s.report(elapsed, elapsed-due, r)
	if s.next = later(due, tooLate); s.next <= elapsed || due > elapsed {
		s.next = later(elapsed, tooLate)
	}
	return s.next
}

func (s *stall) report(elapsed, late time.Duration, r pool.Report[*Timeout]) {
	if late >= tooLate {
		if s.lasts(elapsed, late) {
			s.warn(late, r)
		}
	} else if lasted, tell := s.end(elapsed); tell {
		s.over(lasted)
	}
}

// later returns elapsed + d, or the longest Duration if that would overflow.
func later(elapsed, d time.Duration) time.Duration {
	if d > math.MaxInt64-elapsed {
		return math.MaxInt64
	}
	return elapsed + d
}
