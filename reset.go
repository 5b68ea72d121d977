package hashedwheel

import "time"

// Reset arms the timeout again, in whatever state it is, so that its task runs after delay
// from now. Active reports whether it was still pending: then it has only been moved, and its
// old deadline no longer counts. Otherwise it was idle or had ended, and is pending once more; if its
// task is still running from the time before, the two runs may overlap.
//
// Of a repeating timeout it moves the next run, from which the others then follow. If its task
// is running, the next run starts when that one is over at the earliest.
//
// The error is ErrStopped after Stop. For a timeout that is not pending it may also be
// ErrTooManyPending, if it would exceed the limit, or ErrGroupClosed. After an error nothing has
// changed. A timeout that is not repeating leaves its slot when its task is started. So a Reset from
// inside the task may be refused: see WithMaxPending for a retry that keeps its slot.
//
// Reset allocates nothing, except that it may have to start the timer's goroutine, or to
// clear away canceled timeouts. To a later deadline, which is the usual thing with idle limits, it
// costs a reading of the clock and one compare-and-swap.
//
// Reset panics if the timeout is a field that Init has not bound.
func (to *Timeout) Reset(delay time.Duration) (active bool, err error) {
	to.checkInit("Reset")
	return to.reset(to.timer.clock.dueIn(delay), false)
}

// Move is Reset for a timeout that is still pending, and reports whether it has moved it. It has not if
// the timeout is idle, or has ended, or if the timer is stopped: then nothing has changed. When
// several goroutines call it at once, the last call counts, even if it has read the clock before the others.
func (to *Timeout) Move(delay time.Duration) bool {
	if status(to.word.Load()) != pending {
		return false
	}
	active, err := to.reset(to.timer.clock.dueIn(delay), true)
	return active && err == nil
}

// reset is Reset, or Move, for a tick, which must lie ahead.
func (to *Timeout) reset(tick uint64, onlyPending bool) (active bool, err error) {
	active, long, err := to.arm(tick, onlyPending)
	if long != nil {
		to.timer.prune(long)
	}
	return active, err
}

// arm is reset for callers who hold a lock. Long is as of start.
func (to *Timeout) arm(tick uint64, onlyPending bool) (active bool, long *stripe, err error) {
	t := to.timer
	for ok := false; !ok && err == nil; {
		word := to.word.Load()
		to.checkCopy(word)
		active = status(word) == pending
		switch {
		case !active && onlyPending:
			return false, nil, nil
		case !active:
			long, ok, err = to.revive(word, tick)
		case word&queued != 0 || t.visits(word, tick):
			ok = to.postpone(word, tick)
		default:
			ok, err = to.requeue(word, tick)
		}
	}
	return active && err == nil, long, err
}

// visits reports whether the worker is going to look at a pending timeout not later than at tick,
// because of the tick that it has. It is, if that tick is not later, and lies ahead of the worker:
// then the timeout is on the queue, or in a bucket that the worker has yet to visit.
//
// The timeout may also be in a batch. The worker may have visited the bucket before the compare-and-swap
// that follows, or the timeout is repeating and was due again as its run ended. Then the runner cannot
// claim it, and mends it by rule 3.
func (t *Timer) visits(word, tick uint64) bool {
	return tickOf(word) <= tick && tickOf(word) > t.position.Load()>>1
}

// postpone makes a pending timeout pending at tick, if the word is still the one given. Called if the
// worker is going to look at the timeout in time.
func (to *Timeout) postpone(word, tick uint64) bool {
	return to.word.CompareAndSwap(word, pendingAt(word, tick)|moved)
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
	t.pushAgain(s, to)
	return true, nil
}

// revive is requeue for a timeout that is idle or has ended. It takes a slot, and asks the hook. Long is
// as of start.
func (to *Timeout) revive(word, tick uint64) (long *stripe, ok bool, err error) {
	t := to.timer
	s := t.queue.stripe()
	if word&(queued|hooked) == queued && t.limit.max == 0 {
		// It is on the queue, so by rule 1 there is no need for the gate.
		s.rearmed.Add(1)
		if to.postpone(word, tick) {
			return nil, true, nil
		}
		s.rearmed.Add(^uint64(0))
		return nil, false, nil
	}
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
		long, ok = to.revived(s, word, tick)
		if !ok {
			t.freeSlot(s)
		}
	} else {
		t.rejected.Add(1)
		err = ErrTooManyPending
	}
	if !ok && h != nil {
		h.left(to, false)
	}
	return long, ok, err
}

// revived makes a timeout pending that has its slot, and pushes it, unless another goroutine has made it
// pending meanwhile. It may be taken off the queue meanwhile, or its run may end: then it tries again.
// Called inside the gate.
func (to *Timeout) revived(s *stripe, word, tick uint64) (long *stripe, ok bool) {
	t := to.timer
	for ; status(word) != pending; word = to.word.Load() {
		next := pendingAt(word, tick) | queued
		if status(word) != idle {
			next |= moved
		}
		counter := &s.rearmed
		if word&(queued|fresh) == fresh {
			counter = &s.armed
		}
		n := counter.Add(1)
		if !to.word.CompareAndSwap(word, next) {
			counter.Add(^uint64(0))
			continue
		}
		switch {
		case word&queued != 0:
		case word&fresh != 0:
			if alone, _ := t.push(&s.fresh, to); !alone {
				t.queue.changeSeat()
			}
			if n%pruneEvery == 0 {
				long = s
			}
		default:
			t.pushAgain(s, to)
		}
		return long, true
	}
	return nil, false
}
