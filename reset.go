package hashedwheel

import (
	"math"
	"runtime"
	"time"
)

// Bind binds a Timeout that is a field of your own struct to the timer and to a task. Call Bind once, before other
// goroutines know the struct. Then Reset and ResetAt arm the Timeout any number of times. They allocate nothing, except
// the first time, when nothing has been pending for a while, when the deadline becomes earlier, or when Reset has to wait.
//
// Before you use the struct for something else, call Cancel and then [Timeout.WaitRunning]. Never copy or overwrite the
// Timeout. To clear the struct, clear its other fields.
//
// Bind panics if the timeout or the task is nil, or if the timeout is bound already.
func (t *Timer) Bind(to *Timeout, task Task) {
	t.checkMade()
	if to == nil {
		panic("hashedwheel: Timer.Bind: nil Timeout")
	}
	prepared, bits := prepareTask(task)
	word := to.word.Load()
	to.checkCopy(word)
	switch {
	case prepared == nil:
		panic("hashedwheel: Timer.Bind: nil task")
	case status(word) == pending:
		panic("hashedwheel: Timer.Bind: the Timeout is in use")
	case to.timer != nil:
		panic("hashedwheel: Timer.Bind: called twice for a Timeout")
	}
	to.timer, to.task = t, prepared
	to.word.Store(bits | to.sum()<<sumShift)
}

// checkBound panics if the timeout is nil, or if neither NewTimeout nor Bind has bound it. The panic names the method.
func (to *Timeout) checkBound(method string) {
	if to == nil || to.timer == nil {
		panic(to.unbound(method))
	}
}

// unbound returns the message of checkBound. It is not inlined, because that would slow down Reset.
//
//go:noinline
func (to *Timeout) unbound(method string) string {
	to.checkNil()
	return "hashedwheel: Timeout." + method + ": Timer.Bind has not been called, or the Timeout was overwritten"
}

// Reset arms the timeout in every state, so that its task runs after delay from now. The result active is true if the
// timeout was still pending: then the old deadline no longer counts.
//
// If the timeout was not pending, its last run may still be in progress, and may overlap with the next one. So a
// debounce by AfterFunc and Reset may run a slow function several times at once. The runs of a repeating timeout never
// overlap. For a repeating timeout, Reset moves the next run, and later runs follow from there. After Reset(0) the task
// runs at the next tick boundary. Cancel and Reset are pause and resume.
//
// While goroutines arm ended timeouts again and cancel them faster than the timer takes them off its queue, a Reset of an
// ended timeout may wait, for a second or so at most: see Costs in docs/guide.md.
//
// Reset fails with ErrStopped after Stop. If the timeout was not pending, Reset may also fail with ErrTooManyPending or
// ErrGroupClosed. After an error nothing has changed, and active is false. A timeout that does not repeat is no longer
// pending when its task runs. So a Reset from inside the task may fail with ErrTooManyPending: see WithMaxPending.
//
// Reset panics if Bind has not bound the field.
func (to *Timeout) Reset(delay time.Duration) (active bool, err error) {
	to.checkBound("Reset")
	return to.reset(to.timer.clock.DueIn(delay), false)
}

// ResetAt is like Reset, with a deadline instead of a delay: see NewTimeoutAt. The zero Time is an error here too.
func (to *Timeout) ResetAt(deadline time.Time) (active bool, err error) {
	to.checkBound("ResetAt")
	tick := to.timer.clock.DueAt(deadline)
	if tick == 0 && deadline.IsZero() {
		return false, errZeroDeadline
	}
	return to.reset(tick, false)
}

// Move is Reset for a timeout that is pending and whose tick boundary has not passed. It reports whether it has moved
// the timeout. If Move returns false, nothing has changed: the timeout is not pending, its boundary has passed, or the
// timer is stopped. A boundary may have passed although the task has not been started yet. While a repeating task runs,
// Move returns false, unless a Reset has already moved the next run during this one.
func (to *Timeout) Move(delay time.Duration) bool {
	to.checkNil()
	word := to.word.Load()
	if status(word) != pending {
		return false
	}
	c := &to.timer.clock
	elapsed := c.Elapsed() // once: the delay counts from before the boundary, even if the caller is stopped meanwhile
	return to.moveTo(c.Due(elapsed, delay), word, c.TickAt(elapsed))
}

// moveAt is Move to a deadline, which must not be the zero Time.
func (to *Timeout) moveAt(deadline time.Time) bool {
	c := &to.timer.clock
	tick := c.DueAt(deadline)
	word := to.word.Load()
	return status(word) == pending && to.moveTo(tick, word, c.Now())
}

// moveTo is Move to a tick. The caller reads word first, and then the tick now from the clock.
func (to *Timeout) moveTo(tick, word, now uint64) bool {
	to.checkCopy(word)
	if to.dueTick(word) <= now {
		return false
	}
	active, err := to.reset(tick, true)
	return active && err == nil
}

// reset is Reset for a tick, or Move if onlyPending is true.
//
//	the timeout is                               the function       what it does                     the gate
//	pending, and stays where it is               setTick            changes the word                 no
//	pending in its first slot, and now earlier   requeue            fills a second slot              no
//	pending elsewhere                            requeue            pushes it                        yes
//	unarmed or ended, and stays on the queue     revive, armEnded   changes the word                 with a hook or a limit
//	never armed                                  revive, armEnded   fills its first slot             yes
//	unarmed or ended otherwise                   revive, armEnded   fills a second slot, or pushes   yes
//
// A tick that does not lie ahead becomes the next one, with one exception. A pending timeout that stays in its first slot or
// in a bucket may get a tick that has passed. The worker comes by the old tick, which is not later, and finds the timeout
// due.
func (to *Timeout) reset(tick uint64, onlyPending bool) (active bool, err error) {
	t := to.timer
	for {
		word := to.word.Load()
		to.checkCopy(word)
		active = status(word) == pending
		var s *stripe
		var wake uint64
		var ok bool
		switch {
		case active && word&(queued|hurried) == 0 && t.stays(word, tick): // the usual case, which reads neither the clock nor the state
			if to.word.CompareAndSwap(word, pendingAt(word, tick)|moved) {
				return true, nil
			}
			continue
		case active:
			if tick = t.ahead(tick); t.stays(word, tick) {
				wake, ok = to.setTick(word, tick)
			} else {
				wake, ok, err = to.requeue(word, tick)
			}
		case onlyPending:
			return false, nil
		default:
			tick = t.ahead(tick)
			s = t.queue.stripe() // once: in another frame it may be another one
			wake, ok, err = to.revive(s, word, tick)
		}
		switch {
		case err != nil:
			return false, err
		case !ok: // the word has changed
		case wake == checkInbox:
			t.relieveInbox(s) // last, as wakeFor
			return active, nil
		case wake == notNeeded: // wakeFor would do nothing either, but it reads the state of the worker
			return active, nil
		default:
			t.worker.wakeFor(wake) // last, because it panics on the wrong side of a synctest bubble
			return active, nil
		}
	}
}

// stays reports whether a timeout may stay where it is when it is reset to tick, so that only its word changes.
//
//   - On an inbox or in a second slot, it may: the worker takes it in its next round, and the caller wakes the worker in
//     time.
//   - In its first slot, it may if the tick is not earlier, because the worker looks there by the old tick. So may a
//     canceled timeout, until it is dropped. Dropping changes the word, so the caller's compare-and-swap fails.
//   - In a bucket, it may if the tick is not earlier and the worker has not reached the old one. There the worker reads the
//     word. If it has read the word before, a runner checks the tick: see rule 3 of timeout.go. While its task runs,
//     repeating.rearm reads the word when the run is over.
func (t *Timer) stays(word, tick uint64) bool {
	switch old := tickOf(word); {
	case word&(queued|hurried) != 0:
		return true
	case old > tick:
		return false
	default:
		return word&young != 0 || status(word) == pending && old > t.worker.progress.tick()
	}
}

// The functions below return the argument for wakeFor: the tick at which the timeout is due, or soon, or one of the values
// below. If ok is false, the word has changed meanwhile, or there is an error.
const (
	notNeeded  = math.MaxUint64 // the worker comes in time anyway; ticks.Never would wake one that rests
	checkInbox = 0              // like soon, and the caller calls relieveInbox
)

// setTick makes a timeout pending at tick, where it is.
func (to *Timeout) setTick(word, tick uint64) (wake uint64, ok bool) {
	ok = to.word.CompareAndSwap(word, pendingAt(word, tick)|moved)
	if word&(queued|hurried) == 0 {
		return notNeeded, ok
	}
	return tick, ok // the goroutine that pushes it may not have woken the worker yet
}

// requeue makes a pending timeout pending at tick, and has the worker take it again.
func (to *Timeout) requeue(word, tick uint64) (wake uint64, ok bool, err error) {
	t := to.timer
	s := t.queue.stripe()
	if word&young == 0 { // otherwise no gate is needed, because Stop finds it in its first slot
		if !t.queue.enter(s) { // before the bit is set, until the timeout is pushed: see rule 2 of timeout.go
			t.refusedStopped.Add(1)
			return 0, false, ErrStopped
		}
		defer s.leave()
	}
	wake, ok = to.putAgain(s, word, tick)
	return wake, ok, nil
}

// putAgain makes a timeout pending at tick, in another place. A young timeout gets a second slot, because the worker looks
// at the first slot in time only for the old tick. Any other goes onto an inbox.
func (to *Timeout) putAgain(s *stripe, word, tick uint64) (wake uint64, ok bool) {
	if word&young == 0 {
		if ok = to.word.CompareAndSwap(word, pendingAt(word, tick)|moved|queued); ok {
			s.push(to)
		}
		return soon, ok
	}
	if ok = to.word.CompareAndSwap(word, pendingAt(word, tick)|moved|hurried); ok {
		s.nursery.put(to, soon, true) // if the worker or Stop has taken the timeout, the slot leads to one that is not young, and counts as free
	}
	return tickOf(to.word.Load()), ok // another Reset may have relied on this one, and only changed the word
}

// revive makes an unarmed or ended timeout pending at tick. It also takes a slot of the limit and calls the hook.
func (to *Timeout) revive(s *stripe, word, tick uint64) (wake uint64, ok bool, err error) {
	t := to.timer
	if t.stays(word, tick) && word&hooked == 0 && t.limit.max == 0 {
		// Nothing is pushed, so the gate, which costs two locked operations, is not needed. Stop clears the bit by a
		// compare-and-swap (handBack). If that comes first, setTick fails. If setTick comes first, Stop finds the timeout
		// pending.
		if wake, ok = to.setTick(word, tick); ok {
			s.armed.Add(1)
		}
		return wake, ok, nil
	}
	if t.limit.max > 0 {
		// Without the lock, two goroutines could take two slots for one timeout, and a third would be refused.
		t.reviving.Lock()
		defer t.reviving.Unlock()
		if to.word.Load() != word {
			return 0, false, nil
		}
	}
	if !t.queue.enter(s) {
		t.refusedStopped.Add(1)
		return 0, false, ErrStopped
	}
	defer s.leave()
	h := to.hook()
	if h != nil {
		if err := h.arm(to); err != nil {
			return 0, false, err
		}
	}
	if t.limit.acquire() { // before the timeout is pending, so that never more than the limit are
		wake, ok = to.armEnded(s, word, tick)
		if !ok {
			t.limit.release()
		}
	} else {
		err = t.refuse()
	}
	if !ok && h != nil {
		h.disarmed(to, false)
	}
	return wake, ok, err
}

const (
	// fullInbox is how many timeouts may wait on an inbox before relieveInbox asks for a round at once.
	fullInbox = 1 << 12

	maxWait = time.Second // how long waitForRelief waits at most, because the caller may hold locks
)

// relieveInbox keeps the inboxes bounded where ended timeouts are armed and canceled again. Otherwise these would wait there
// until the next boundary, and a tick may be long. If the inbox that the caller has pushed to is full, relieveInbox starts a
// round. It may also yield the processor to the round, or wait for it.
func (t *Timer) relieveInbox(s *stripe) {
	s.checked.Store(s.pushed.Load())
	full := s.waiting() >= fullInbox
	if full {
		t.worker.wakeNow()
	} else {
		t.worker.wakeFor(soon)
	}
	if t.relief.Load() != nil || full && t.outruns() {
		t.waitForRelief()
	} else {
		t.yielding.yieldTo(&t.worker, full)
	}
}

// outruns reports whether producers are too far ahead of the worker. The inboxes may hold as many timeouts as are pending, and
// two full inboxes for each stripe in addition. They hold more if ended timeouts are armed again and canceled without a pause,
// or if very many have just been canceled.
func (t *Timer) outruns() bool {
	tooMany := t.onInboxes() - 2*fullInbox*len(t.queue.stripes)
	return tooMany > 0 && tooMany > t.Pending()
}

// waitForRelief waits until the worker has placed or removed enough. To yield would not be enough: with more threads than
// processors, the system chooses which thread runs. One goroutine looks every millisecond, and starts a round each time,
// because the last one may have left many inboxes that are not full. Each other goroutine that pushes an ended timeout to
// arm it again waits for this one. If thousands looked, they would leave no processor to the worker. If thousands went on,
// they would push too many. In a synctest bubble time must not pass, so there waitForRelief only yields.
func (t *Timer) waitForRelief() {
	t.clock.Check()         // otherwise goroutines of the other side could wait on the channel
	if !t.clock.Monotonic { // in a bubble
		runtime.Gosched()
		return
	}
	if other := t.relief.Load(); other != nil {
		<-*other
		return
	}
	over := make(chan struct{})
	if !t.relief.CompareAndSwap(nil, &over) {
		return // it waits after its next push
	}
	for from := t.clock.Elapsed(); t.outruns() && t.clock.Elapsed() < from+maxWait; {
		t.worker.wakeNow()
		time.Sleep(time.Millisecond)
	}
	t.relief.Store(nil)
	close(over)
}

// armEnded arms the timeout, unless another goroutine has armed it meanwhile. Called inside the gate.
func (to *Timeout) armEnded(s *stripe, word, tick uint64) (wake uint64, ok bool) {
	t := to.timer
	for ; status(word) != pending; word = to.word.Load() {
		switch {
		case neverArmed(word): // young is set only once in the life of a timeout: see ring.fill
			if !to.word.CompareAndSwap(word, pendingAt(word, tick)|young) {
				continue
			}
			if _, uncontended, _ := s.nursery.put(to, t.queue.nearAt(tick), false); !uncontended {
				t.queue.seats.Move()
			}
			return tick, true // put has filled a slot and counted the timeout: Stop waits for this goroutine before it closes the slots
		case t.stays(word, tick):
			wake, ok = to.setTick(word, tick)
		default:
			wake, ok = to.putAgain(s, word, tick)
			if ok && word&young == 0 && (s.pushed.Load()-s.checked.Load() >= yieldEvery || t.relief.Load() != nil) {
				wake = checkInbox
			}
		}
		if ok {
			s.armed.Add(1) // after the change of the word, because a counter never goes back
			return wake, true
		}
	}
	return 0, false
}
