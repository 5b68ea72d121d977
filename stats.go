package hashedwheel

// Stats are the counts of a timer. At rest, when no call is in progress,
//
//	Accepted == Expired + Canceled + Returned + Pending
//
// and while calls are in progress the counts belong to moments that lie close together.
type Stats struct {
	Pending int // timeouts that have neither ended nor been handed back
	Running int // tasks that have been started and have not returned

	// Timeouts armed: by NewTimeout and its kin, by a Reset of an ended one, and for each next
	// run of a repeating one. That is counted when the run before starts, and taken back if
	// there is none.
	Accepted uint64

	Expired  uint64 // tasks started
	Canceled uint64 // timeouts ended by Cancel, and those of contexts and the like by Stop
	Returned uint64 // timeouts handed back by Stop
	Rejected uint64 // calls refused with ErrTooManyPending or ErrStopped, not ErrGroupClosed
	Panics   uint64 // calls of user code that panicked: tasks, mostly

	Unsubmitted uint64 // tasks that the executor did not take, and that ran without it

	// Times that the timer's goroutine woke up: about once a tick at which something happens, and
	// more often in bursts and behind tasks that block. While nothing is armed, canceled or due it
	// does not, but once at the deadline that a timeout had before it was reset to a later one,
	// and once for some thousands on an upper level, before they are due.
	Wakeups uint64
}

// Stats returns the counts. It reads a few counters for each processor, several times if they
// move meanwhile.
func (t *Timer) Stats() Stats {
	st := t.counts()
	st.Running = t.running()
	st.Rejected = t.rejected.Load()
	st.Panics = t.panics.Load()
	st.Unsubmitted = t.unsubmitted.Load()
	st.Wakeups = t.worker.wakeups.Load()
	return st
}

// Pending returns the number of timeouts that will expire unless they are canceled. It is
// exact when no call is in progress, never negative, and never more than WithMaxPending allows.
func (t *Timer) Pending() int { return t.counts().Pending }

// running returns the number of tasks that have been started, or are just about to be, and
// have not returned.
func (t *Timer) running() (n int) {
	r := &t.runners
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rn := range r.live {
		if rn.task() != nil {
			n++
		}
	}
	return n
}

// ends are the counters of what has ended.
type ends struct{ expired, canceled, returned uint64 }

// total returns how many of the accepted timeouts have ended.
func (e ends) total() uint64 { return e.expired + e.canceled + e.returned }

// counts returns what the counters of the stripes say. The ends are read before what was
// accepted, so that the difference is not negative: what has ended was accepted. If they
// moved while they were read it is too large, by what has ended meanwhile. So they are read
// again, and the best is taken.
func (t *Timer) counts() Stats {
	const tries = 8
	var st Stats
	least := ^uint64(0)
	before := t.ends()
	for range tries {
		var accepted uint64
		for i := range t.queue.stripes {
			accepted += t.queue.stripes[i].accepted.Load()
		}
		after := t.ends()
		if moved := after.total() - before.total(); moved < least {
			least = moved
			st = Stats{
				Pending:  int(accepted - before.total()),
				Accepted: accepted,
				Expired:  before.expired,
				Canceled: before.canceled,
				Returned: before.returned,
			}
		}
		if least == 0 {
			break
		}
		before = after
	}
	if t.maxPending > 0 {
		st.Pending = int(t.slots.Load())
	}
	return st
}

func (t *Timer) ends() (e ends) {
	for i := range t.queue.stripes {
		s := &t.queue.stripes[i]
		e.expired += s.expired.Load()
		e.canceled += s.canceled.Load()
	}
	e.returned = t.returned.Load()
	return e
}
