package hashedwheel

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/warn"
)

// Stop
//
// Stop must find every pending timeout, and none may be claimed after it has returned. So first it waits until no
// goroutine can move a timeout or start a task. They follow one protocol, the gate:
//
//	 producer (Cancel, Reset, a runner that queues)  runner, for each task
//	   enter:  shut?     -- yes --> no push            lock the pool
//	           inside++                                closed, or none left? -- yes --> end
//	           shut?     -- yes --> leave: no push     take a timeout off the list, and unlock
//	           compare-and-swap the word               claim the timeout (compare-and-swap)
//	           push onto an inbox                      call the task
//	   leave:  inside--
//
//	 Stop
//	   1. shut = true
//	   2. halt the worker
//	   3. wait until inside == 0 on each stripe
//	   4. close each pool: closed = true, and take the timeouts that are on the list or with a runner
//	   5. take all timeouts from the inboxes, the nurseries, which are closed, and the buckets
//	   6. close allTaken
//
// After step 4 no pending timeout leaves its place, so steps 4 and 5 find them all. A Reset may still change its tick, or give
// it a second slot. A Cancel may end it: it changes the word even if the gate is shut.
//
//  - Calls that push nothing need not enter the gate. NewTimeout either finds its slot closed, or Stop finds the timeout there:
//    see nursery.go. After a Reset or a Cancel that leaves the timeout where it is, and a Reset that gives a pending one a second
//    slot, Stop finds the timeout in its old place.
//  - A runner that has taken a timeout before step 4 may be about to claim it. Stop takes that timeout too, and the first
//    compare-and-swap decides whether it expires or is returned. If it expires, its task may be at its first instruction when
//    Stop returns.
//  - A pending timeout may be only with its runner, because it repeats, or was reset while it was on the list. A runner
//    that has to queue it and finds the gate shut waits for allTaken, and Stop takes the timeout from it.
//  - A Cancel that notifies a Canceler counts as notifying before it ends the timeout, and until Timer.calls has the call, even if
//    the gate is shut. So after Stop, Shutdown waits for these goroutines, and then for the calls.
//  - Goroutines inside run no user code. They block only on the locks of groups. The holders of these
//    never wait for goroutines inside, so Stop waits only until each has had a processor.

// Stop ends the timer and returns the timeouts that were pending, in no order. After Stop has returned, no further
// timeout expires, and arming one fails with ErrStopped. Tasks may still be running or starting: see Shutdown. Stop may
// be called more than once, and from anywhere, also from inside a task. One caller gets the timeouts, and the others
// get nil.
//
// After Stop, callbacks no longer run, and a goroutine that waits for one waits forever, unless the task is a
// [Canceler]. Stop servers first, the timer last.
//
// The returned timeouts are neither expired nor canceled. To run such a task yourself, first call Cancel, which returns
// true to one caller. Repeating timeouts are among them, even while their task is running, and so are those of a
// keyed.Map and of package idle. Stop cancels the timeouts of Sleep and of package clock, and does not return them.
func (t *Timer) Stop() []*Timeout {
	t.clock.Check()
	if !t.queue.shut.CompareAndSwap(false, true) { // this shuts the gate
		<-t.allTaken
		return nil
	}
	left := t.collectPending()
	close(t.allTaken)
	t.logKept(true) // no round comes any more
	return left
}

// collectPending ends all pending timeouts. It tells their hooks, calls Stopped of light tasks, and returns the other timeouts.
// Called by Stop.
func (t *Timer) collectPending() (left []*Timeout) {
	t.worker.halt()
	// This comes after the gate was shut, and a producer raises inside before it reads shut. So either the producer finds the
	// gate shut, or Stop waits for it. A producer may still raise inside after the wait, if it read shut before Stop set it. It
	// reads shut again before it pushes, and then pushes nothing.
	t.queue.awaitZero(inside)
	left = make([]*Timeout, 0, t.Pending())
	take := func(to *Timeout) {
		if !to.handBack() {
			return
		}
		t.limit.release()
		h := to.hook()
		if h != nil {
			h.disarmed(to, true)
		}
		if h == nil || !h.light() {
			left = append(left, to)
			return
		}
		t.queue.stripes[0].canceled.Add(1)
		if task, ok := to.Task().(interface{ Stopped(to *Timeout) }); ok {
			task.Stopped(to)
		}
	}
	for _, to := range append(t.tasks.Close(), t.light.Close()...) {
		take(to)
	}
	// From here on, no pending timeout moves.
	w := &t.worker
	w.mu.Lock() // because a walk may read the wheel, or an inbox, although the worker is halted now
	var tables []*table
	for i := range t.queue.stripes {
		s := &t.queue.stripes[i]
		w.stacks = append(w.stacks, s.swapInbox())
		tables = append(tables, s.nursery.swapTables(stoppedTable)...)
	}
	wheel := w.wheel
	w.wheel = nil
	w.published.store(nil)
	w.mu.Unlock()
	w.eachLeft(tables, take)
	if wheel != nil {
		wheel.each(take)
	}
	t.returned.Add(uint64(len(left)))
	return left
}

// awaitZero waits until it has seen a counter of each stripe at 0.
func (q *queue) awaitZero(counter func(s *stripe) *atomic.Int64) {
	for i := range q.stripes {
		for counter(&q.stripes[i]).Load() != 0 {
			runtime.Gosched()
		}
	}
}

func inside(s *stripe) *atomic.Int64    { return &s.inside }
func notifying(s *stripe) *atomic.Int64 { return &s.notifying }

// enterOrWait enters the gate for a runner that has a pending timeout. If the gate is shut, it waits until Stop has taken
// the timeout from the runner, and returns false.
func (t *Timer) enterOrWait(s *stripe) bool {
	if t.queue.enter(s) {
		return true
	}
	<-t.allTaken
	return false
}

// handBack ends a timeout for Stop, and reports whether it was pending. Only a light one is canceled then. Stop may come to a
// timeout more than once: an old slot may lead to it, and one on an inbox may also be in a bucket or on a list. Then handBack
// returns true the first time.
func (to *Timeout) handBack() bool {
	for {
		word := to.word.Load()
		end := word &^ (queued | young | hurried)
		switch {
		case status(word) != pending:
		case word&hooked != 0 && to.isLight():
			end = withStatus(end, canceled)
		default:
			end = withStatus(end, unarmed)
		}
		// This clears the bits and reads the status in one step. So if a Reset relies on a bit, either this finds the
		// timeout pending, or the compare-and-swap of the Reset fails.
		if end == word || to.word.CompareAndSwap(word, end) {
			return status(word) == pending
		}
	}
}

// Shutdown stops the timer as Stop does, and waits until all tasks that were started have returned and every Canceler
// has been notified, even if its Cancel overlaps with Shutdown. If the context is done first, Shutdown also returns
// the context's error. Inside a task, or other code that the timer calls, Shutdown returns only when the context is
// done. To get the timeouts before the wait, call Stop first.
func (t *Timer) Shutdown(ctx context.Context) ([]*Timeout, error) {
	left := t.Stop()
	t.queue.awaitZero(notifying) // after Stop, so that no other Cancel can end a timeout
	defer t.watchShutdown()()
	idle := await(ctx, t.tasks.UntilIdle()) && await(ctx, t.light.UntilIdle()) && await(ctx, t.calls.UntilIdle())
	t.logKept(true) // after the calls, because Canceled may panic
	if !idle || !await(ctx, t.calls.UntilIdle()) {
		return left, ctx.Err()
	}
	return left, nil
}

// watchShutdown makes the log say what a Shutdown waits for, if it waits for long. The worker, which has stopped, no longer does.
func (t *Timer) watchShutdown() (stop func()) {
	t.eachActivity(t.clock.Elapsed(), func(activity) {}) // finds tasks; the alarm of briefs finds calls of Canceled
	watch := time.AfterFunc(warn.LongRun+time.Second, func() {
		if t.told.CompareAndSwap(false, true) {
			t.soon(func() { t.logHang("Shutdown waits for calls that do not return", false) })
		}
	})
	return func() { watch.Stop() }
}
