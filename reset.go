package hashedwheel

import (
	"time"

	"github.com/hashedwheel/hashedwheel/internal/due"
)

// Init binds a Timeout that is a field of your own struct to the timer and to a task. Call it once, before other
// goroutines know the struct. Then Reset and ResetAt arm it any number of times, and seldom allocate.
//
// Before you use the struct for something else, call Cancel and then [Timeout.Wait]. If the task is a Canceler, its
// Canceled must have returned too. Never copy or overwrite the Timeout: to clear the struct, clear its other fields.
//
// Init panics if the timeout or the task is nil, or if the timeout is bound already.
func (t *Timer) Init(to *Timeout, task Task) {
	t.checkMade()
	if to == nil {
		panic("hashedwheel: Timer.Init: nil Timeout")
	}
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
	to.word.Store(bits | to.sum()<<sumShift)
}

// checkInit panics if the timeout is nil, or if Init has not bound it. Method is the name of the caller.
func (to *Timeout) checkInit(method string) {
	if to == nil || to.timer == nil {
		panic(to.unbound(method))
	}
}

// unbound returns the message of checkInit. It is not inlined, because that would slow down Reset.
//
//go:noinline
func (to *Timeout) unbound(method string) string {
	to.checkNil()
	return "hashedwheel: Timeout." + method + ": Timer.Init has not been called, or the Timeout was overwritten"
}

// Reset arms the timeout in every state, so that its task runs after delay from now. Active reports whether it was
// still pending: then the old deadline no longer counts. If it was not, its last run may still be in progress, and may
// overlap with the next one.
//
// For a repeating timeout, Reset moves the next run, and later runs follow from there. Reset(0) means run now, and
// Cancel and Reset are pause and resume. The runs of a repeating timeout never overlap.
//
// Reset fails with ErrStopped after Stop. If the timeout was not pending, it may also fail with ErrTooManyPending or
// ErrGroupClosed. After an error nothing has changed, and active is false. A timeout that does not repeat is no
// longer pending when its task runs. So a Reset from inside the task may fail with ErrTooManyPending: see
// WithMaxPending.
//
// Reset panics if Init has not bound the field.
func (to *Timeout) Reset(delay time.Duration) (active bool, err error) {
	to.checkInit("Reset")
	return to.reset(to.timer.clock.DueIn(delay), false)
}

// ResetAt is like Reset, with a deadline instead of a delay: see NewTimeoutAt.
func (to *Timeout) ResetAt(deadline time.Time) (active bool, err error) {
	to.checkInit("ResetAt")
	return to.reset(to.timer.clock.DueAt(deadline), false)
}

// Move is Reset for a timeout that is still pending, and reports whether it has moved the timeout. If Move returns
// false, nothing has changed: the timeout is not pending, or the timer is stopped.
func (to *Timeout) Move(delay time.Duration) bool {
	to.checkNil()
	if status(to.word.Load()) != pending {
		return false
	}
	active, err := to.reset(to.timer.clock.DueIn(delay), true)
	return active && err == nil
}

// moveAhead is due.Move.
func (to *Timeout) moveAhead(delay time.Duration) bool {
	word := to.word.Load()
	if status(word) != pending {
		return false
	}
	c := &to.timer.clock
	elapsed := c.Elapsed()
	if tickOf(word) <= c.TickAt(elapsed) {
		return false
	}
	active, err := to.reset(c.Due(elapsed, delay), true)
	return active && err == nil
}

func init() {
	due.Move = func(to any, delay time.Duration) bool { return to.(*Timeout).moveAhead(delay) }
}

// reset is Reset for a tick, or Move if onlyPending is true. If the tick does not lie ahead, it is the next one.
func (to *Timeout) reset(tick uint64, onlyPending bool) (active bool, err error) {
	t := to.timer
	for ok := false; !ok && err == nil; {
		word := to.word.Load()
		to.checkCopy(word)
		if t.wordSuffices(word, tick) {
			if to.word.CompareAndSwap(word, pendingAt(word, tick)|moved) {
				return true, nil
			}
			continue
		}
		tick = t.ahead(tick)
		active = status(word) == pending
		switch {
		case !active && onlyPending:
			return false, nil
		case !active:
			ok, err = to.revive(word, tick)
		case t.stays(word, tick):
			ok = to.postpone(word, tick)
		default:
			ok, err = to.requeue(word, tick)
		}
	}
	return active && err == nil, err
}

// wordSuffices reports whether a timeout can be reset to tick by a change of its word alone. It can if its present tick is not
// later, and lies ahead of the worker: then the worker checks the timeout in time. If the worker comes there before the
// caller's compare-and-swap, a runner checks the timeout instead: see rule 3 of timeout.go. So does the runner of a
// repeating timeout that is due again.
func (t *Timer) wordSuffices(word, tick uint64) bool {
	return word&(statusMask|queued) == pending && tickOf(word) <= tick && tickOf(word) > t.worker.position.Load()>>1
}

// postpone makes a timeout pending at tick that stays where it is on the queue, unless its word has changed.
func (to *Timeout) postpone(word, tick uint64) bool {
	if !to.word.CompareAndSwap(word, pendingAt(word, tick)|moved) {
		return false
	}
	// After the compare-and-swap. The worker was woken for another tick.
	if word&(queued|hurried) != 0 {
		to.timer.worker.wakeBy(tick)
	}
	return true
}

// stays reports whether a timeout may stay where it is on the queue when it is reset to tick. It may if the worker
// takes it at the next boundary, and in a nursery if the tick is not earlier.
func (t *Timer) stays(word, tick uint64) bool {
	return word&(queued|hurried) != 0 || word&young != 0 && tick >= tickOf(word)
}

// requeue makes a pending timeout pending at tick, and has the worker take it at the next boundary. If its word has changed,
// ok is false.
func (to *Timeout) requeue(word, tick uint64) (ok bool, err error) {
	t := to.timer
	s := t.queue.stripe()
	if word&young != 0 {
		// The worker looks at its slot in time only for the old tick. No gate is needed, because Stop finds it there.
		if ok = to.word.CompareAndSwap(word, pendingAt(word, tick)|moved|hurried); ok {
			s.nursery.put(to, soon, true)
			t.worker.wakeBy(tickOf(to.word.Load())) // another Reset may have relied on this one: it has changed only the word
		}
		return ok, nil
	}
	defer s.leave()
	if !t.queue.enter(s) { // before the bit is set, until the timeout is pushed: see rule 2 of timeout.go
		t.refusedStopped.Add(1)
		return false, ErrStopped
	}
	if !to.word.CompareAndSwap(word, pendingAt(word, tick)|moved|queued) {
		return false, nil
	}
	t.worker.push(s, to)
	return true, nil
}

// revive is requeue for a timeout that is idle or has ended. It also takes a slot of the limit and calls the hook.
func (to *Timeout) revive(word, tick uint64) (ok bool, err error) {
	t := to.timer
	s := t.queue.stripe()
	if t.stays(word, tick) && word&hooked == 0 && t.limit.max == 0 {
		// Nothing is pushed, so no gate is needed. Stop clears the bit by a compare-and-swap: either it finds the timeout
		// pending, or that of postpone fails.
		if ok = to.postpone(word, tick); ok {
			s.armed.Add(1)
		}
		return ok, nil
	}
	if t.limit.max > 0 {
		// Without the lock, two goroutines could take two slots for one timeout, and a third would be refused.
		t.reviving.Lock()
		defer t.reviving.Unlock()
		if to.word.Load() != word {
			return false, nil
		}
	}
	defer s.leave()
	if !t.queue.enter(s) {
		t.refusedStopped.Add(1)
		return false, ErrStopped
	}
	h := to.hook()
	if h != nil {
		if err := h.arm(to); err != nil {
			return false, err
		}
	}
	if t.limit.acquire() { // before the timeout is pending, so that never more than the limit are
		ok = to.reviveWithSlot(s, word, tick)
		if !ok {
			t.limit.release()
		}
	} else {
		err = t.refuse()
	}
	if !ok && h != nil {
		h.disarmed(to, false)
	}
	return ok, err
}

// reviveWithSlot arms the timeout. It returns false if another goroutine has armed it meanwhile. Called inside the gate.
func (to *Timeout) reviveWithSlot(s *stripe, word, tick uint64) bool {
	t := to.timer
	for ; status(word) != pending; word = to.word.Load() {
		stays := t.stays(word, tick)
		next, first := pendingAt(word, tick), status(word) == idle
		switch {
		case stays:
		case first:
			next |= young
		default:
			// Not the nursery again, so that none of its slots leads to a timeout that has left it and come back.
			next = next&^young | queued
		}
		if !first {
			next |= moved
		}
		if !to.word.CompareAndSwap(word, next) {
			continue
		}
		if !first {
			// After the compare-and-swap, because a counter never goes back. For the nursery, put counts the timeout.
			s.armed.Add(1)
		}
		switch {
		case stays && word&(queued|hurried) != 0:
			t.worker.wakeBy(tick) // as in postpone
		case stays:
		case !first:
			t.worker.push(s, to)
		default:
			if _, uncontended, _ := s.nursery.put(to, t.worker.nearBy(tick), false); !uncontended {
				t.queue.seats.Move()
			}
			t.worker.wakeBy(tick)
		}
		return true
	}
	return false
}
