package hashedwheel

import "time"

// Init binds a Timeout that is a field of your own struct to the timer and to a task. Call it once, before
// any other goroutine knows the struct. Then [Timeout.Reset] or [Timeout.ResetAt] arms the timeout any
// number of times, and allocates nothing.
//
//	type call struct {
//		timeout hashedwheel.Timeout
//		...
//	}
//
//	timer.Init(&c.timeout, c) // c has a method Run(*hashedwheel.Timeout)
//	c.timeout.Reset(3 * time.Second)
//
// Such a timeout keeps all promises of one that NewTimeout returns. The struct may be used again, for
// instance through a sync.Pool, as soon as Cancel has returned true or the task has returned. If the task
// is a Canceler, Cancel allocates, and the struct may be used again only when Canceled has returned. A
// goroutine that still has the struct from an earlier use must not call Cancel any more, because it would
// cancel the present use.
//
// The library still refers to the timeout until the second tick boundary after its end. Until then the
// struct is not garbage collected, and must not be overwritten. To clear the struct for its next use, clear
// the other fields.
//
// Init panics if the task is nil, or if the timeout is bound already. It allocates nothing, unless the
// task is a Canceler.
func (t *Timer) Init(to *Timeout, task Task) {
	t.checkMade()
	prepared, bits := prepareTask(task)
	word := to.word.Load()
	to.checkCopy(word)
	switch {
	case prepared == nil:
		panic("hashedwheel: Timer.Init: nil task")
	case status(word) == pending:
		panic("hashedwheel: Timer.Init: the Timeout is in use")
	case to.timer != nil:
		panic("hashedwheel: Timer.Init: called twice for a Timeout")
	}
	to.timer, to.task = t, prepared
	to.word.Store(bits | fresh | to.sum()<<sumShift)
}

// checkInit panics if the timeout belongs to no timer. Method is the name of the caller.
func (to *Timeout) checkInit(method string) {
	if to.timer == nil {
		panic("hashedwheel: Timeout." + method + ": Timer.Init has not been called")
	}
}

// Reset arms the timeout, in whatever state it is, so that its task runs after delay from now. Active
// reports whether it was still pending: if so, Reset has only moved it, and its old deadline no longer
// counts. Otherwise it was idle or had ended, and is pending now. In that case the task may still be
// running, and its next run may overlap with that run.
//
// For a repeating timeout, Reset moves the next run, and the runs after it follow from there. If the task
// is running, the next run does not start before the task has returned.
//
// The error is ErrStopped after Stop. For a timeout that is not pending it may also be ErrTooManyPending,
// if it would exceed the limit, or ErrGroupClosed. After an error nothing has changed. A timeout that does
// not repeat frees its slot when its task is started. So a Reset from inside the task may be refused: see
// WithMaxPending for a retry that keeps its slot.
//
// Reset allocates nothing, except when it has to start the timer's goroutine or to drop canceled timeouts.
// A Reset to a later deadline, which is the usual case with idle limits, costs a reading of the clock and
// one compare-and-swap.
//
// Reset panics if the timeout is a field that Init has not bound.
func (to *Timeout) Reset(delay time.Duration) (active bool, err error) {
	to.checkInit("Reset")
	return to.reset(to.timer.clock.DueIn(delay), false)
}

// ResetAt is like Reset, with a deadline instead of a delay. If the deadline has a monotonic reading,
// ResetAt seldom reads the clock. NewTimeoutAt says when, and what holds for other deadlines.
func (to *Timeout) ResetAt(deadline time.Time) (active bool, err error) {
	to.checkInit("ResetAt")
	t := to.timer
	tick, ahead := t.clock.DueAt(deadline)
	if word := to.word.Load(); status(word) == pending && t.visits(word, tick) {
		// The tick is not earlier than the old one, which lies ahead.
		to.checkCopy(word)
		if to.postpone(word, tick) {
			return true, nil
		}
	}
	if !ahead {
		tick = t.ahead(tick)
	}
	return to.reset(tick, false)
}

// Move is Reset for a timeout that is still pending, and reports whether it has moved the timeout. Move
// returns false, and changes nothing, if the timeout is idle, or has ended, or if the timer is stopped. When
// several goroutines call Move at the same time, the last one to change the deadline wins, even if it has
// read the clock before the others.
func (to *Timeout) Move(delay time.Duration) bool {
	if status(to.word.Load()) != pending {
		return false
	}
	active, err := to.reset(to.timer.clock.DueIn(delay), true)
	return active && err == nil
}

// reset is Reset for a tick, which must lie ahead, or Move if onlyPending is true.
func (to *Timeout) reset(tick uint64, onlyPending bool) (active bool, err error) {
	active, long, err := to.arm(tick, onlyPending)
	if long != nil {
		to.timer.worker.prune(long)
	}
	return active, err
}

// arm is reset, except that it leaves pruning to the caller. Long is as in start.
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

// visits reports whether the worker is sure to check a pending timeout by tick. This is so if the timeout's
// present tick is not later than the given tick, and lies ahead of the worker. Then the timeout is on the
// queue, or in a bucket that the worker has yet to visit, or at work, and its runner arms it when the run is
// over.
//
// Two more cases are left to the runner. The worker may visit the bucket before the caller's compare-and-swap.
// And a repeating timeout that was due again as its run ended is with its runner already. In both cases the
// runner finds that it cannot claim the timeout yet, and requeues it by rule 3 of timeout.go.
func (t *Timer) visits(word, tick uint64) bool {
	return tickOf(word) <= tick && tickOf(word) > t.worker.position.Load()>>1
}

// postpone makes a timeout pending at tick, and reports whether its word was still the one given. Called
// only if the worker is sure to check the timeout in time.
func (to *Timeout) postpone(word, tick uint64) bool {
	return to.word.CompareAndSwap(word, pendingAt(word, tick)|moved)
}

// requeue makes a pending timeout pending at tick, and puts it on the queue for the worker. It reports
// whether it did. If it did not, and there is no error, the word was no longer the one given.
func (to *Timeout) requeue(word, tick uint64) (ok bool, err error) {
	t := to.timer
	s := t.queue.stripe()
	defer s.leave()
	if !t.queue.enter(s) {
		t.rejected.Add(1)
		return false, ErrStopped
	}
	if !to.word.CompareAndSwap(word, pendingAt(word, tick)|moved|queued) {
		return false, nil
	}
	t.pushAgain(s, to)
	return true, nil
}

// revive is requeue for a timeout that is idle or has ended. It also takes a slot, and calls the hook's
// arm. Long is as in start.
func (to *Timeout) revive(word, tick uint64) (long *stripe, ok bool, err error) {
	t := to.timer
	s := t.queue.stripe()
	if word&(queued|hooked) == queued && t.limit.max == 0 {
		// The timeout is on the queue. By rule 1 of timeout.go it need not be pushed, so the gate is not
		// needed either.
		s.rearmed.Add(1)
		if to.postpone(word, tick) {
			return nil, true, nil
		}
		s.rearmed.Add(^uint64(0))
		return nil, false, nil
	}
	if t.limit.max > 0 {
		// Otherwise two goroutines that revive the same timeout would take two slots for a moment, and a
		// third goroutine might be refused although a slot is free.
		t.reviving.Lock()
		defer t.reviving.Unlock()
		if to.word.Load() != word {
			return nil, false, nil
		}
	}
	defer s.leave()
	if !t.queue.enter(s) {
		t.rejected.Add(1)
		return nil, false, ErrStopped
	}
	h := to.hook()
	if h != nil {
		if err := h.arm(to); err != nil {
			return nil, false, err
		}
	}
	if t.limit.take() {
		long, ok = to.reviveWithSlot(s, word, tick)
		if !ok {
			t.limit.free()
		}
	} else {
		t.rejected.Add(1)
		err = ErrTooManyPending
	}
	if !ok && h != nil {
		h.disarmed(to, false)
	}
	return long, ok, err
}

// reviveWithSlot is the part of revive that follows when there is a slot for the timeout: it makes the
// timeout pending, and pushes it if necessary. It fails if another goroutine has made the timeout pending
// meanwhile. It tries again if the word changes in another way, because the timeout is taken off the queue,
// or because its run ends. Called inside the gate.
func (to *Timeout) reviveWithSlot(s *stripe, word, tick uint64) (long *stripe, ok bool) {
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
				t.queue.changeStripe()
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
