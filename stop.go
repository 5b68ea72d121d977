package hashedwheel

import (
	"context"
	"runtime"
	"runtime/debug"
)

// Stop
//
// Stop must find every pending timeout, and no task may start after it has returned. So before Stop
// searches, it waits until no goroutine can move a timeout from one place to another or start a task. All
// such goroutines follow one protocol, the gate:
//
//	 producer (Cancel, Reset, the end of a run)      runner, for each task
//	   enter:  inside++                                lock the runner
//	           stopped?  -- yes --> leave              closed?  -- yes --> unlock
//	           compare-and-swap the word               take from the group, claim (compare-and-swap)
//	           push on the queue                       unlock the runner
//	   leave:  inside--                                call the task
//
//	 Stop
//	   1. stopped = true
//	   2. halt the worker
//	   3. wait until inside == 0 on each stripe
//	   4. close each crew: closed = true, then lock each runner and take its timeouts, and those on the list
//	   5. take all timeouts from the queue and the buckets
//	   6. close allTaken
//
// A producer writes inside, and then reads stopped. Stop writes stopped, and then reads inside. All of this is
// sequentially consistent. So either the producer finds the gate shut, or Stop sees it inside and waits for it. A
// runner that gets its lock after Stop had it finds the crew closed. After step 4 nothing moves: every pending
// timeout is in one of the places of steps 4 and 5. A Cancel may still end it there, but does not move it.
//
// A Reset may make a timeout that is on the queue pending without the gate, by rule 1 of timeout.go. Stop
// clears the queued bit before it checks the status. So either Stop finds the timeout pending, or the
// compare-and-swap of the Reset fails.
//
// When step 4 is over, each claimed timeout counts as expired, and its runner is about to call its task. The task
// may still be at its first instruction when Stop returns.
//
// A repeating timeout whose run is in progress may be only with its runner. If the run ends after the gate
// was shut and is not the last one, the runner waits for allTaken, and Stop takes the timeout from it.
//
// A producer that prunes the queue holds timeouts that are in none of these places, so it prunes inside the
// gate: see prune.go.
//
// Nothing inside the gate can be stuck. Goroutines inside run no user code. They block only on the locks of crews
// and runners, segments.mu and Group.mu. No holder of one of these waits for goroutines
// inside. So Stop waits only until these goroutines have had a processor.

// Stop ends the timer and returns the timeouts that were pending, in no order. After it returns, no further timeout
// expires. Each accepted timeout has expired, or was canceled, or is among those returned. The task of one that
// expired just before may be at its first instruction: Shutdown waits for it.
// From then on NewTimeout, Reset and similar methods fail with ErrStopped.
//
// IsCanceled is true for the returned timeouts, and Stats counts them as Returned. Among them are repeating
// timeouts, even if their task is running, and those of a keyed.Map, whose keys stay in it. Stop cancels
// the timeouts of Sleep, and of the timers and tickers of package clock, and does not return them.
//
// Stop may be called from anywhere, even from inside a task, and more than once: one caller gets the
// timeouts, all others get nil. Stop does not wait for running tasks to return: use Shutdown for that.
func (t *Timer) Stop() []*Timeout {
	t.checkMade()
	if !t.queue.shut.CompareAndSwap(false, true) { // this shuts the gate
		<-t.allTaken
		return nil
	}
	left, own := t.takePending()
	close(t.allTaken)
	t.notifyStopped(own)
	return left
}

// notifyStopped notifies own tasks of Stop, see hook.own. If one of them ends the goroutine by runtime.Goexit, or
// makes the panic handler panic, the others are notified before that takes effect.
func (t *Timer) notifyStopped(own []*Timeout) {
	defer func() {
		if len(own) > 0 {
			t.notifyStopped(own)
		} else {
			close(t.allTold)
		}
	}()
	for len(own) > 0 {
		to := own[0]
		own = own[1:]
		t.notifyOne(to)
	}
}

// notifyOne notifies an own task of Stop. It recovers and reports a panic.
func (t *Timer) notifyOne(to *Timeout) {
	defer func() {
		if value := recover(); value != nil {
			t.reportPanic(to, value, debug.Stack())
		}
	}()
	to.hook().notifyStopped(to)
}

// takePending ends all pending timeouts and returns them. Left has those of the user's tasks, which count as
// returned. Own has those of own tasks, see hook.own, which count as canceled. Called by Stop, when the gate
// is shut.
func (t *Timer) takePending() (left, own []*Timeout) {
	t.worker.halt()
	for i := range t.queue.stripes {
		for t.queue.stripes[i].inside.Load() != 0 {
			runtime.Gosched()
		}
	}
	rest := append(t.tasks.Close(), t.own.Close()...)

	s := &t.queue.stripes[0]
	collect := func(to *Timeout) {
		word, ok := to.handBack()
		if !ok {
			return
		}
		t.limit.free()
		if word&hooked != 0 {
			h := hookOf(to.task)
			if h.disarmed(to, true); h.own() {
				s.canceled.Add(1)
				own = append(own, to)
				return
			}
		}
		left = append(left, to)
	}
	for i := range t.queue.stripes {
		for list := range t.queue.stripes[i].takeAll((*stack).close) {
			for list != nil {
				var to *Timeout
				to, list = unlink(list)
				t.worker.taken.Add(1)
				to.takeOff(queued) // before collect checks the status: see rule 1 of timeout.go
				collect(to)
			}
		}
	}
	for _, to := range rest {
		collect(to)
	}
	if wheel := t.worker.takeWheel(); wheel != nil {
		wheel.each(collect)
	}
	t.returned.Add(uint64(len(left)))
	return left, own
}

// Shutdown stops the timer as Stop does, then waits until all tasks that were started have returned and every
// Canceler has been notified. It does not wait for an executor's submit that is in progress. It returns the timeouts that were pending. A repeating timeout whose task was
// running is among them, even if that run has returned by then. If the context is done first, Shutdown stops
// waiting and also returns the context's error. Inside a task, and inside other code that the timer calls, it
// always waits for the context, because that call has not returned. To get the timeouts before the wait, call
// Stop and then Shutdown.
func (t *Timer) Shutdown(ctx context.Context) ([]*Timeout, error) {
	left := t.Stop()
	if !await(ctx, t.allTold) || !await(ctx, t.tasks.UntilIdle()) || !await(ctx, t.own.UntilIdle()) || !await(ctx, t.calls.UntilIdle()) {
		return left, ctx.Err()
	}
	return left, nil
}

// await waits until a channel is closed, and reports whether that came before the end of the context.
func await(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// handBack ends a pending timeout on behalf of Stop. It reports whether the timeout was pending, and
// returns the word from before that.
func (to *Timeout) handBack() (word uint64, ok bool) {
	for {
		word = to.word.Load()
		if status(word) != pending {
			return word, false
		}
		if to.word.CompareAndSwap(word, withStatus(word, canceled)) {
			return word, true
		}
	}
}
