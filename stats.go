package hashedwheel

// Stats are the counts of a timer. At rest, when no call is in progress,
//
//	Accepted == Expired + Canceled + Returned + Pending
//
// and while calls are in progress the counts of what they do may differ by those calls.
type Stats struct {
	Pending int // timeouts that have neither ended nor been handed back
	Running int // tasks that have been started and have not returned

	Accepted uint64 // timeouts armed: by NewTimeout and its kin, or by a Reset of an ended one
	Expired  uint64 // timeouts whose task was started
	Canceled uint64 // timeouts ended by Cancel
	Returned uint64 // timeouts handed back by Stop
	Rejected uint64 // calls refused with ErrTooManyPending or ErrStopped
	Panics   uint64 // calls of user code that panicked: tasks, mostly

	Unsubmitted uint64 // tasks that the executor did not take, and that ran without it
}

// Stats returns the counts. It reads a few counters for each processor and may be called as
// often as one likes.
func (t *Timer) Stats() Stats {
	st := Stats{
		Returned: t.returned.Load(),
		Rejected: t.rejected.Load(),
		Panics:   t.panics.Load(),

		Unsubmitted: t.unsubmitted.Load(),
	}
	// Each loop reads what the one before it has read the consequences of: whatever is
	// counted as finished is counted as expired, and what is ended as accepted. So no
	// difference is negative.
	var finished uint64
	for i := range t.queue.stripes {
		finished += t.queue.stripes[i].finished.Load()
	}
	for i := range t.queue.stripes {
		s := &t.queue.stripes[i]
		st.Expired += s.expired.Load()
		st.Canceled += s.canceled.Load()
	}
	for i := range t.queue.stripes {
		st.Accepted += t.queue.stripes[i].accepted.Load()
	}
	st.Running = int(st.Expired - finished)
	st.Pending = int(st.Accepted - st.Expired - st.Canceled - st.Returned)
	return st
}

// Pending returns the number of timeouts that will expire unless they are canceled. It is
// exact when no call is in progress, and never negative.
func (t *Timer) Pending() int { return t.Stats().Pending }
