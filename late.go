package hashedwheel

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/due"
	"github.com/hashedwheel/hashedwheel/internal/pool"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// The worker notices two things that make tasks late, and logs which of them it is. It also notices calls of user code that do not
// return: see hang.
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
// Otherwise it checks twice a second for tasks, and less often the longer keys wait.
const (
	tooLate   = time.Second // how late the worker must be, or how long a task must wait, for a warning
	checkEach = tooLate / 2 // the time from one check for a stall to the next
	warnEvery = time.Minute // the shortest time between two warnings of the same kind
	calm      = 5 * tooLate // how long no task may have waited for tooLate when a stall ends although tasks wait
	manyDue   = 1 << 16     // so many tasks that are due and have no limit take the processors from the worker
)

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

// end is called when nothing is wrong, also if the spell was not on. At is when it was over. End returns how long the spell has
// lasted, and whether to log that.
func (s *spell) end(at time.Duration) (lasted time.Duration, tell bool) {
	lasted, tell = at-s.since, s.told
	s.on, s.told = false, false
	return lasted, tell
}

// step is called with how long the first of those has waited that wait, if any do. It calls warn and over when these are to be logged.
//
// On a busy timer there is always a task that was just handed over, and waits. So a spell of waits also ends when none has waited for a
// second for some time. It does not end sooner, because waits that grow begin with short ones.
func (s *spell) step(elapsed, waited time.Duration, any bool, warn func(), over func(lasted time.Duration)) {
	switch {
	case waited >= tooLate:
		if s.lasts(elapsed, waited) {
			warn()
		}
	case !any, elapsed-s.wrong >= calm:
		ended := elapsed
		if any {
			ended = s.wrong
		}
		if lasted, tell := s.end(ended); tell {
			over(lasted)
		}
	}
}

// A workerLateness has the greatest lateness of timeouts when the worker found them. Owned by the worker.
type workerLateness struct {
	warn   func(late time.Duration, behind bool) // Timer.warnLate; these two are immutable after New, and do not wait
	over   func(lasted time.Duration)            // Timer.onTime
	found  bool                                  // a timeout has come due in this round
	worst  time.Duration                         // in this round
	most   time.Duration                         // since the last warning
	behind time.Duration                         // when a round has last left something to the next one; long ago if none has
	drains func() bool                           // whether very many tasks are due and wait for a processor; immutable after New
	spell
}

func (l *workerLateness) add(late time.Duration) { l.found, l.worst = true, max(l.worst, late) }

// report is called at the end of a round. If the round leaves something to the next one, behind is true.
func (l *workerLateness) report(elapsed time.Duration, behind bool) {
	if behind {
		l.behind = elapsed
	}
	switch {
	case l.worst > tooLate:
		if l.most = max(l.most, l.worst); l.lasts(elapsed, l.worst) {
			l.warn(l.most, elapsed-l.behind <= l.worst || l.drains())
			l.most = 0
		}
	case l.found:
		if lasted, tell := l.end(l.wrong); tell {
			l.over(lasted)
		}
		l.most = 0
	}
	l.found, l.worst = false, 0
}

// A stall is a spell in which tasks are due and wait. It begins when one of them has waited for a second: see spell.step. The same
// holds for keys that wait for a call: see waitingKeys. Owned by the worker.
type stall struct {
	pool     *pool.Pool[*Timeout]                                // these are immutable after New
	keys     func() waitingKeys                                  // queues.waiting
	warn     func(waited time.Duration, r pool.Report[*Timeout]) // Timer.warnStall; these four do not wait
	over     func(lasted time.Duration)                          // Timer.stallOver
	warnKeys func(waited time.Duration, k waitingKeys)           // Timer.warnKeys
	keysOver func(lasted time.Duration)                          // Timer.keysOver

	waits bool          // tasks or keys may wait
	from  time.Duration // a wait counts from here, or from the time at which its task was handed over if that is later
	last  time.Duration // when check was last called while tasks might wait, or half a second before the next call if that is later
	next  time.Duration // when to look at the pool again, while timeouts come due in each round
	spell
	ofKeys spell
}

// waitingKeys says how many keys wait, and which of their queues has the one that has waited for longest.
type waitingKeys struct {
	keys    int           // in all queues
	longest time.Duration // how long the first has waited
	limit   int           // keyed.WithConcurrency of its queue
}

// handling has the timeouts for which a call of the panic handler is in progress.
type handling struct {
	mu    sync.Mutex
	calls map[*Timeout]int // nil until the first
}

// add adds n to the number of calls for a timeout.
func (h *handling) add(to *Timeout, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = make(map[*Timeout]int)
	}
	if h.calls[to] += n; h.calls[to] == 0 {
		delete(h.calls, to)
	}
}

func (h *handling) has(to *Timeout) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[to] > 0
}

// queues has the queues in which keys of package keyed wait.
type queues struct {
	mu  sync.Mutex
	all map[due.Queue]struct{} // without those in which none wait; nil until the first
}

func (q *queues) hold(queue due.Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all == nil {
		q.all = make(map[due.Queue]struct{})
	}
	q.all[queue] = struct{}{}
}

func (q *queues) release(queue due.Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.all, queue)
}

func (q *queues) waiting() (w waitingKeys) {
	q.mu.Lock()
	all := slices.Collect(maps.Keys(q.all))
	q.mu.Unlock() // a queue has a lock of its own, which is taken first when it calls hold
	for _, queue := range all {
		keys, longest, limit := queue.Waiting()
		w.keys += keys
		if keys > 0 && longest >= w.longest {
			w.longest, w.limit = longest, limit
		}
	}
	return w
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
	k := s.keys()
	s.waits = r.Waiting > 0 || k.keys > 0
	wait := time.Duration(math.MaxInt64) // until the next check
	var waited, keysWaited time.Duration
	if r.Waiting > 0 {
		waited = min(elapsed-s.from, sinceListed(r.First, elapsed))
		wait = untilLate(waited)
	}
	if k.keys > 0 {
		keysWaited = min(elapsed-s.from, k.longest)
		// Ever later. Otherwise the time of a bubble would go on forever where calls never return, and hide the deadlock.
		wait = min(wait, max(untilLate(keysWaited), keysWaited/8))
	}
	s.step(elapsed, waited, r.Waiting > 0, func() { s.warn(waited, r) }, s.over)
	s.ofKeys.step(elapsed, keysWaited, k.keys > 0, func() { s.warnKeys(keysWaited, k) }, s.keysOver)
	if !s.waits {
		return math.MaxInt64
	}
	s.last += max(wait-checkEach, 0)
	s.next = ticks.Later(elapsed, wait)
	return s.next
}

// untilLate returns the time until the next check, if something has waited for so long.
func untilLate(waited time.Duration) time.Duration {
	if waited < tooLate {
		return min(checkEach, tooLate-waited)
	}
	return checkEach
}

// A hang looks once a minute at the calls of user code that are in progress: tasks, Next, Canceled, the panic handler and submit.
// A call is long when a look finds it that an earlier one has found too, a minute ago or more. So a call that returns soon costs nothing.
// There are two reasons for a warning:
//
//   - More and more calls are long: at least manyLong, in growths looks there were more than before, and few ended. A program whose
//     tasks are long by design has as many after a while, so there is no warning.
//   - A call is long that should not be: a Next, a Canceled, a panic handler, or a task for which a WaitRunning waits. Then there is
//     a warning whenever there are more than there have been.
//
// A look comes with a round that comes anyway. If none comes within a minute, and a call is in progress that should not be long, or the
// run of a Schedule, whose Next comes then, the worker wakes up for one more look. Owned by the worker.
type hang struct {
	census func(elapsed, before time.Duration) census // Timer.census; these are immutable after New, and do not wait
	warn   func()                                     // Timer.warnHang

	next   time.Duration // the time of the next look; 0 if there is no need
	askAt  time.Duration // until does not go through the calls before this
	lastAt time.Duration // when the last one was
	last   census        // what it has found
	growth int           // how many looks in a row have found more calls that are long than the one before
	stuck  int           // the most calls at once that should not be long, since there were none
}

const (
	longRun  = time.Minute
	manyLong = 10
	growths  = 5
	askEach  = 100 * time.Microsecond // some hundred times as long as to go through one call
)

// A census is what a look has found.
type census struct {
	young, long int // calls by their age; long is longRun or more
	old         int // calls that were long at the look before
	stuck       int // calls that are long and should not be
	suspect     int // calls that are not long, and a wake-up is worth to find out whether they become long
}

// check is called at the end of a round. Busy says that tasks may have been started, or timeouts canceled.
func (h *hang) check(elapsed time.Duration, busy bool) {
	switch {
	case h.next > 0 && elapsed >= h.next:
		h.look(elapsed)
	case h.next == 0 && busy:
		h.next = ticks.Later(elapsed, longRun)
	}
}

// until returns the time of the next round, which is planned for a time that may be far off.
func (h *hang) until(elapsed, planned time.Duration) time.Duration {
	switch {
	case h.next == 0 || planned <= h.next:
		return planned
	case elapsed < h.askAt:
		return min(planned, h.askAt)
	}
	c := h.census(elapsed, h.lastAt)
	h.askAt = elapsed + time.Duration(c.young+c.long)*askEach
	if c.suspect > 0 {
		h.next = ticks.Later(elapsed, longRun)
		return min(planned, h.next)
	}
	return planned
}

func (h *hang) look(elapsed time.Duration) {
	c := h.census(elapsed, h.lastAt)
	switch more, ended := c.long-c.old, h.last.long-c.old; {
	case more > 2*ended:
		h.growth++
	case more > 0 || ended > 0:
		h.growth = 0
	}
	more := c.stuck > h.stuck
	if h.stuck = max(h.stuck, c.stuck); c.stuck == 0 {
		h.stuck = 0
	}
	if more || h.growth >= growths && c.long > h.last.long && c.long >= manyLong {
		h.warn()
	}
	h.lastAt, h.last, h.next = elapsed, c, 0
	if c.young > 0 {
		h.next = ticks.Later(elapsed, longRun)
	}
}
