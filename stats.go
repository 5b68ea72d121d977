package hashedwheel

// Stats are the counts of a timer. The guide, docs/guide.md, explains each. When no call is in progress,
//
//	Accepted == Expired + Canceled + Returned + Pending
//
// No uint64 ever goes back.
type Stats struct {
	Pending int // timeouts armed and not ended
	Due     int // pending ones that are due, and wait for a runner, the limit or the executor
	Running int // tasks, and other calls of user code, in progress: Next, Canceled, the panic handler and, until Stop, submit

	// Calls of Next, Canceled and the panic handler, and tasks for which a WaitRunning waits, that have been in progress for a minute
	// or more. The timer counts them when it looks for calls that do not return.
	Stuck int

	KeysWaiting int // keys of package keyed that have expired, and wait for keyed.WithConcurrency; they are not pending

	Accepted uint64 // timeouts armed: by new ones, by a Reset when not pending, and by next runs of repeating ones
	// Tasks started. A run of a repeating timeout counts when it is over. If the wall clock was set back when a run came
	// due, Next is called instead. If Next then ends the schedule, this counts although no task ran.
	Expired  uint64
	Canceled uint64 // timeouts ended by Cancel, and those of Sleep and package clock that Stop ended
	Returned uint64 // timeouts returned by Stop
	Panics   uint64 // calls of user code that panicked

	RejectedFull    uint64 // calls refused with ErrTooManyPending
	RejectedStopped uint64 // calls refused with ErrStopped

	Unsubmitted uint64    // functions that the executor did not take, and that ran without it
	Lateness    Histogram // of tasks, from their tick boundary to their start; some are estimated

	// These say what the timer itself does. A program must not rely on them, because a later version may count otherwise.
	Wakeups uint64       // how often the timer has started its goroutine, at a tick or between ticks
	Runners int          // goroutines of the timer for tasks and other user code
	Queued  int          // timeouts that the timer's goroutine has yet to put into a bucket, move or remove; roughly
	Levels  []LevelStats // the levels of the wheel, from the lowest; nil while there is no wheel
}

// LevelStats has the figures of one level of the wheel.
type LevelStats struct {
	Occupied int // buckets with timeouts
	Timeouts int // timeouts in the buckets, also canceled ones that are yet to be removed
}

// Stats returns the counts, from slightly different moments. It never waits until the timer has finished a round,
// and may be called often.
func (t *Timer) Stats() (st Stats) {
	ended, left := t.counts()
	st.Pending, st.Accepted = left, ended.all()+uint64(left)
	st.Expired, st.Canceled, st.Returned = ended.expired, ended.canceled, ended.returned
	for i := range t.queue.stripes {
		runs := t.queue.stripes[i].runs.Load() // read once, because it counts on both sides
		st.Accepted += runs
		st.Expired += runs
	}
	st.Queued = t.queued()
	st.Due = min(t.tasks.Waiting()+t.light.Waiting(), st.Pending)
	st.Running, st.Runners = t.running()
	st.Stuck = t.briefs.stuckCalls()
	st.KeysWaiting = t.queues.waiting().keys
	st.RejectedFull, st.RejectedStopped = t.refusedFull.Load(), t.refusedStopped.Load()
	st.Panics = t.panics.Load()
	if t.executor != nil {
		st.Unsubmitted = t.executor.Unsubmitted()
	}
	st.Wakeups = t.worker.wakeups.Load()
	st.Levels = t.worker.published.stats()
	st.Lateness.counts, st.Lateness.sum = t.lateness.Read()
	return st
}

// Pending returns the number of pending timeouts. It is exact when no call is in progress, and never negative.
func (t *Timer) Pending() int {
	_, left := t.counts()
	return left
}

func (s *publishedLevels) stats() []LevelStats {
	if !s.wheel.Load() {
		return nil
	}
	all := make([]LevelStats, len(s.levels))
	for i := range all {
		l := &s.levels[i]
		all[i] = LevelStats{Occupied: int(l.inUse.Load()), Timeouts: int(l.count.Load())}
	}
	return all
}

// queued returns about how many timeouts are on the queue. Of large tables it reads a part: 8,192 slots in all, or 64 of each
// table if that is more.
func (t *Timer) queued() (n int) {
	slots := max(1<<13/len(t.queue.stripes), 64) // of each table
	for i := range t.queue.stripes {
		for t := t.queue.stripes[i].nursery.table.Load(); t != nil; t = t.older.Load() {
			n += t.pending(slots)
		}
	}
	return n + t.onInboxes()
}

// onInboxes returns how many timeouts have been pushed onto inboxes and not yet been placed, moved or removed; roughly.
func (t *Timer) onInboxes() int {
	n := -t.worker.popped.Load() // before the counts of pushes
	for i := range t.queue.stripes {
		n += t.queue.stripes[i].pushed.Load()
	}
	return max(int(n), 0) // a push counts after the worker may have taken the timeout
}

// running returns Stats.Running and Stats.Runners.
func (t *Timer) running() (tasks, goroutines int) {
	tasks, goroutines = t.tasks.Running()
	light, lightGoroutines := t.light.Running()
	goroutines += lightGoroutines + t.calls.Goroutines()
	tasks += light + int(t.canceling.Load())
	if t.executor != nil {
		if !t.queue.shut.Load() { // Shutdown does not wait for submit, and nothing runs after it
			tasks += t.executor.Submitting()
		}
		goroutines += t.executor.Goroutines()
	}
	return tasks, goroutines
}

// counts returns how many timeouts have ended, and how many are pending, without the runs of repeating ones. It reads the ends
// first, because each timeout is armed before it ends. Timeouts that end between the readings make left too large. So
// counts reads several times, and uses the readings between which the fewest have ended.
func (t *Timer) counts() (ended ends, left int) {
	t.checkMade()
	var accepted uint64
	least := ^uint64(0)
	before := t.ends()
	for range 8 { // tries
		var n uint64
		for i := range t.queue.stripes {
			n += t.queue.stripes[i].accepted()
		}
		after := t.ends()
		if more := after.all() - before.all(); more < least {
			least, ended, accepted = more, before, n
		}
		if least == 0 {
			break
		}
		before = after
	}
	// Fewer may seem accepted than ended, because a call counts a timeout after it has armed it.
	left = int(max(0, int64(accepted-ended.all())))
	if t.limit.max > 0 {
		left = min(left, int(t.limit.max))
	}
	return ended, left
}

// ends is how many timeouts have ended, each way.
type ends struct{ expired, canceled, returned uint64 }

func (t *Timer) ends() (e ends) {
	for i := range t.queue.stripes {
		s := &t.queue.stripes[i]
		e.expired += s.expired.Load()
		e.canceled += s.canceled.Load()
	}
	e.returned = t.returned.Load()
	return e
}

func (e ends) all() uint64 { return e.expired + e.canceled + e.returned }
