package hashedwheel

// Stats are the counts of a timer. When no call is in progress,
//
//	Accepted == Expired + Canceled + Returned + Pending
//
// While calls are in progress, the counts belong to slightly different moments.
type Stats struct {
	Pending int // timeouts that have neither ended nor been returned by Stop
	Running int // tasks that have been started and have not returned

	// Timeouts armed by NewTimeout and similar methods, by a Reset of one that is not pending, and for each
	// next run of a repeating one. A next run is counted when the run before it starts, and subtracted if
	// the schedule has ended. If another goroutine forces a Reset to try again, the first attempt is
	// subtracted too.
	Accepted uint64

	Expired  uint64 // tasks started
	Canceled uint64 // timeouts ended by Cancel, and by Stop for Sleep and package clock
	Returned uint64 // timeouts returned by Stop
	Rejected uint64 // calls refused with ErrTooManyPending or ErrStopped, not ErrGroupClosed
	Panics   uint64 // calls of user code that panicked: tasks, mostly

	Unsubmitted uint64 // functions that ran without the executor, because it did not take them

	// How often the timer's goroutine has woken up: about once for each tick at which something happens,
	// and more often in bursts. If nothing is armed, canceled or due, the goroutine
	// sleeps, except that it may wake up
	//   - once at the old deadline of a timeout that was reset to a later one,
	//   - once at the deadline of a timeout that was canceled in a bucket of more than 8,192 timeouts,
	//   - before more than 4,096 timeouts of one bucket of an upper wheel are due, to move them down,
	//   - once after each 2,147,483,648 ticks that a timeout is pending.
	Wakeups uint64

	Runners int // goroutines of the timer for tasks and other user code, without those of the executor

	// Timeouts that the timer's goroutine has yet to put into a bucket, to move or to remove. It
	// does so at the next tick boundary, or earlier if there are very many.
	Queued int

	// The levels of the wheel, from the lowest. Levels is nil while the timer has no wheel, because no
	// timeout waits for its deadline, and after Stop. The timer's goroutine publishes these figures at the
	// end of its work at a tick. It also does so after each 1,024 timeouts that it takes off the queue or
	// moves down. It does not publish them while it hands over timeouts that are due at once, which takes
	// some 50 ms for a million. When no call is in progress and nothing is due, they are exact.
	Levels []LevelStats

	// How late tasks were started, counted from the tick boundary at which they were due. Of tasks that
	// come due together, only one in 64 is measured. With an executor, each task is.
	Lateness Histogram
}

// LevelStats has the figures of one level of the wheel.
type LevelStats struct {
	Hand     int // the bucket that the wheel has reached; it does not move while the timer's goroutine sleeps
	Occupied int // buckets with timeouts
	Timeouts int // timeouts in the buckets, also canceled ones that are yet to be removed
}

// Stats returns the counts. It reads a few counters for each processor, and reads them several times if they change
// meanwhile. It never waits for the timer's goroutine to finish its work at a tick, and takes some microseconds,
// however many timeouts are pending and however many tasks are running. So it may be called often, and by many
// goroutines.
func (t *Timer) Stats() Stats {
	st := t.counts()
	st.Queued = t.queue.length(&t.worker)
	st.Running, st.Runners = t.running()
	st.Rejected = t.rejected.Load()
	st.Panics = t.panics.Load()
	if t.executor != nil {
		st.Unsubmitted = t.executor.Unsubmitted()
	}
	st.Wakeups = t.worker.wakeups.Load()
	st.Levels = t.worker.shown.stats()
	st.Lateness = t.lateness.histogram()
	return st
}

// Pending returns the number of timeouts that will expire unless they are canceled. It is
// exact when no call is in progress, never negative, and never more than WithMaxPending allows.
func (t *Timer) Pending() int { return t.counts().Pending }

// Buckets returns how many timeouts each bucket of a level holds, for programs that show the wheel. It counts
// as LevelStats.Timeouts does. It returns nil if there is no such level, or no wheel: see Stats. For
// monitoring, use Stats.
//
// Buckets waits while the timer's goroutine is at work, which takes some 50 ms with a million timeouts due
// at once. It also makes that goroutine wait, for some microseconds at a time. The buckets of a large wheel
// are not all read at the same moment.
func (t *Timer) Buckets(level int) []int {
	t.checkMade()
	w := &t.worker
	if level < 0 || level >= w.levels {
		return nil
	}
	counts := make([]int, w.wheelSize)
	for from := 0; from < w.wheelSize; from += bucketsAtOnce {
		if !w.countBuckets(level, counts, from) {
			return nil
		}
	}
	return counts
}

// bucketsAtOnce is the number of buckets that Buckets reads each time that it keeps the worker waiting, which
// takes some microseconds.
const bucketsAtOnce = 1 << 10

// countBuckets is Buckets for the next bucketsAtOnce buckets. It reports whether there is a wheel.
func (w *worker) countBuckets(level int, counts []int, from int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wheel == nil {
		return false
	}
	for slot, n := range w.wheel.levels[level].each(uint64(from), uint64(from+bucketsAtOnce)) {
		counts[slot] = n
	}
	return true
}

// stats returns the levels that the worker has published.
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

// length returns how many timeouts are on the queue, or are about to be: each is counted before it is
// pushed. It reads the counts of those taken first. So timeouts that are pushed and taken meanwhile do not
// make it negative.
func (q *queue) length(w *worker) int {
	taken, pushed := w.taken.Load(), uint64(0)
	for i := range q.stripes {
		taken += q.stripes[i].dropped.Load()
	}
	for i := range q.stripes {
		s := &q.stripes[i]
		pushed += s.armed.Load() + s.pushedAgain.Load()
	}
	return max(0, int(pushed-taken))
}

// running returns the number of tasks that have been started, or are about to be, and have not returned. It
// also returns the number of goroutines for user code.
func (t *Timer) running() (tasks, goroutines int) {
	tasks, goroutines = t.tasks.Running()
	own, ownGoroutines := t.own.Running()
	goroutines += ownGoroutines + t.calls.Goroutines()
	if t.executor != nil {
		goroutines += t.executor.Goroutines()
	}
	return tasks + own, goroutines
}

// ends are the counters of timeouts that have ended.
type ends struct{ expired, canceled, returned uint64 }

// total returns how many of the accepted timeouts have ended.
func (e ends) total() uint64 { return e.expired + e.canceled + e.returned }

// stats returns the counts, given the number of accepted timeouts that was read after the ends. That number
// may be too low, even lower than the ends. A repeating timeout may be counted as armed again on one
// stripe, and then be subtracted on another one. A reader that comes between the two sees only the
// subtraction.
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

// counts returns the counts of all stripes. It reads the ends before the accepted timeouts, because each
// timeout is accepted before it ends. Timeouts that end between these readings make Pending too large. So
// counts reads all of them again, and uses the readings between which the fewest timeouts have ended.
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
	e.expired = t.tasks.Started() + t.own.Started()
	return e
}
