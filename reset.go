package hashedwheel

import "time"

// Reset arms the timeout again, in whatever state it is, so that its task runs after delay
// from now. Active reports whether it was still pending: then it has only been moved, and its
// old deadline no longer counts. Otherwise it had ended, and is pending once more; if its
// task is still running from the time before, the two runs may overlap.
//
// Of a repeating timeout it moves the next run, from which the others then follow. If its task
// is running, the next run starts when that one is over at the earliest.
//
// The error is ErrStopped after Stop; or for an ended timeout ErrTooManyPending if it would
// exceed the limit, or ErrGroupClosed. Then nothing has changed. Reset allocates nothing, except
// that it may have to start the timer's goroutine, or to clear away canceled timeouts. To a later deadline, which is the usual thing
// with idle limits, it costs a reading of the clock and one compare-and-swap.
func (to *Timeout) Reset(delay time.Duration) (active bool, err error) {
	return to.reset(delay, false)
}

// move is Reset for a timeout that is still pending, and reports whether it was. If not, it stays
// as it is.
func (to *Timeout) move(delay time.Duration) bool {
	active, err := to.reset(delay, true)
	return active && err == nil
}

// reset is move, or Reset.
func (to *Timeout) reset(delay time.Duration, onlyPending bool) (active bool, err error) {
	t := to.timer
	elapsed := t.clock.elapsed()
	tick := t.clock.due(elapsed, delay)
	var long *stripe // if not nil, a stripe of the queue that is to be pruned
	for ok := false; !ok && err == nil; {
		word := to.word.Load()
		active = status(word) == pending
		switch {
		case !active && onlyPending:
			return false, nil
		case !active:
			long, ok, err = to.revive(word, tick)
		case t.visits(word, tick, elapsed):
			ok = to.word.CompareAndSwap(word, pendingAt(word, tick)|moved)
		default:
			ok, err = to.requeue(word, tick)
		}
	}
	if long != nil {
		t.prune(long)
	}
	return active && err == nil, err
}

// visits reports whether the worker is going to look at a pending timeout not later than at
// tick anyway. It is, if the timeout is on the queue, or if it lies in a bucket at an earlier
// tick; and there it lies if the boundary of that has not been reached.
//
// Between the reading of the clock and the compare-and-swap, the boundary may go by and the
// timeout may get into a batch. Then the runner cannot claim it, and mends it by rule 3.
func (t *Timer) visits(word, tick uint64, elapsed time.Duration) bool {
	return word&queued != 0 ||
		tickOf(word) <= tick && t.clock.boundary(tickOf(word)) > elapsed
}

// requeue makes a pending timeout pending at tick and has the worker look at it. It reports whether it
// did; if not, and without an error, the word was no longer the one given.
func (to *Timeout) requeue(word, tick uint64) (ok bool, err error) {
	t := to.timer
	s := t.queue.stripe()
	defer t.leave(s)
	if !t.enter(s) {
		t.rejected.Add(1)
		return false, ErrStopped
	}
	if !to.word.CompareAndSwap(word, pendingAt(word, tick)|moved|queued) {
		return false, nil
	}
	if word&queued == 0 {
		t.pushAgain(s, to, word)
	}
	return true, nil
}

// revive is requeue for a timeout that has ended. It takes a slot, and asks the hook. Long is as of start.
func (to *Timeout) revive(word, tick uint64) (long *stripe, ok bool, err error) {
	t := to.timer
	s := t.queue.stripe()
	if t.limit.max > 0 {
		// Else two that revive the same timeout would take two slots for a moment, and somebody
		// be refused for whom there is room.
		t.reviving.Lock()
		defer t.reviving.Unlock()
		if to.word.Load() != word {
			return nil, false, nil
		}
	}
	defer t.leave(s)
	if !t.enter(s) {
		t.rejected.Add(1)
		return nil, false, ErrStopped
	}
	h := to.hook()
	if h != nil {
		if err := h.arm(to); err != nil {
			return nil, false, err
		}
	}
	if t.limit.max == 0 || t.takeSlot(s) {
		if s.rearmed.Add(1)%pruneEvery == 0 {
			long = s
		}
		for {
			// It may be taken off the queue meanwhile, or its run may end. That matters to nobody here.
			if to.word.CompareAndSwap(word, pendingAt(word, tick)|moved|queued) {
				if word&queued == 0 {
					t.pushAgain(s, to, word)
				}
				return long, true, nil
			}
			if word = to.word.Load(); status(word) == pending {
				break // somebody else has revived it
			}
		}
		s.rearmed.Add(^uint64(0))
		t.freeSlot(s)
	} else {
		t.rejected.Add(1)
		err = ErrTooManyPending
	}
	if h != nil {
		h.left(to, false)
	}
	return nil, false, err
}
