package hashedwheel

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// Stop
//
// Stop must find every pending timeout, and no task may start after it has returned. So before Stop
// searches, it waits until no goroutine can move a timeout from one place to another or start a task. All
// such goroutines follow one protocol, the gate:
//
//	 producer (Cancel, Reset, the end of a run)      runner, for each task
//	   enter:  inside++                                phase: claiming
//	           stopped?  -- yes --> leave              held?  -- yes --> rest; stopped?  -- yes --> await step 6
//	           compare-and-swap the word               take from the batch, claim (compare-and-swap)
//	           push on the queue                       phase: running
//	   leave:  inside--                                call the task
//
//	 Stop
//	   1. stopped = true
//	   2. halt the worker
//	   3. wait until inside == 0 on each stripe
//	   4. hold each runner, and wait until it is not claiming
//	   5. take all timeouts from the queue, the batches, the runners and the buckets
//	   6. close allTaken
//
// A goroutine at the gate writes inside or its phase, and then reads stopped or held. Stop writes stopped or
// held, and then reads what the goroutine wrote. All of this is sequentially consistent. So either the
// goroutine finds the gate shut, or Stop sees it inside and waits for it. After step 4 nothing moves: every
// pending timeout is in one of the places of step 5. A Cancel may still end it there, but does not move it.
//
// A Reset may make a timeout that is on the queue pending without the gate, by rule 1 of timeout.go. Stop
// clears the queued bit before it checks the status. So either Stop finds the timeout pending, or the
// compare-and-swap of the Reset fails.
//
// When step 4 is over, the task of each claimed timeout is being started, because a runner leaves the phase
// claiming just before it calls the task. Wait and Group.Close rely on this too. No goroutine can see when
// the runner gets from there to the first instruction of the task. That takes a nanosecond, unless the
// scheduler of Go or of the operating system preempts it there: see awaitStarts.
//
// A repeating timeout whose run is in progress may be only with its runner. If the run ends after the gate
// was shut and is not the last one, the runner waits for allTaken, and Stop takes the timeout from it.
//
// A producer that prunes the queue holds timeouts that are in none of these places, so it prunes inside the
// gate: see prune.go.
//
// Nothing inside the gate can be stuck. Goroutines inside run no user code. They block only on
// runners.mu, executor.mu, calls.mu, segments.mu and Group.mu. No holder of one of these waits for goroutines
// inside. So Stop waits only until these goroutines have had a processor.

// enter enters the gate and reports whether it is open. Every enter needs a leave, even if the gate is
// shut.
func (t *Timer) enter(s *stripe) bool {
	s.inside.Add(1)
	return !t.stopped.Load()
}

func (t *Timer) leave(s *stripe) { s.inside.Add(-1) }

// IsStopped reports whether Stop has been called.
func (t *Timer) IsStopped() bool {
	t.checkMade()
	return t.stopped.Load()
}

// Stop ends the timer and returns the timeouts that were pending, in no order. After it returns, no task
// starts. Each accepted timeout has had its task started, or was canceled, or is among those returned.
// From then on NewTimeout, Reset and similar methods fail with ErrStopped.
//
// IsCanceled is true for the returned timeouts, and Stats counts them as Returned. Among them are repeating
// timeouts, even if their task is running, and those of a Keyed, whose keys stay in it. Timeouts of Sleep
// and of Light tasks are not returned: Stop cancels them.
//
// Stop may be called from anywhere, even from inside a task, and more than once: one caller gets the
// timeouts, all others get nil. Stop does not wait for running tasks to return: use Shutdown for that. If
// tasks are running, Stop takes up to 20 ms to be sure that they have started, or longer where the
// processors are busy.
func (t *Timer) Stop() []*Timeout {
	left := t.stop()
	t.awaitStarts(maxStart)
	return left
}

// stop is Stop, except that it does not wait for tasks that are just starting.
func (t *Timer) stop() []*Timeout {
	t.checkMade()
	if !t.stopped.CompareAndSwap(false, true) { // this shuts the gate
		<-t.allTaken
		return nil
	}
	left, own := t.takePending()
	close(t.allTaken)
	for _, to := range own {
		t.notifyStopped(to)
	}
	return left
}

// notifyStopped notifies an own task of Stop, see hook.own. It recovers a panic, because other tasks are still
// to be notified.
func (t *Timer) notifyStopped(to *Timeout) {
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
	for _, r := range t.allRunners() {
		r.shutGate()
	}

	s := &t.queue.stripes[0]
	collect := func(to *Timeout) {
		word, ok := to.handBack()
		if !ok {
			return
		}
		t.freeSlot()
		if word&hooked != 0 {
			h := to.task.(hook)
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
	for _, r := range t.allRunners() {
		for _, to := range r.takeRest() {
			collect(to)
		}
	}
	if wheel := t.worker.takeWheel(); wheel != nil {
		wheel.each(collect)
	}
	t.returned.Add(uint64(len(left)))
	return left, own
}

// Shutdown stops the timer as Stop does, then waits until all tasks that were started have returned and every
// Canceler has been notified. It returns the timeouts that were pending. A repeating timeout whose task was
// running is among them, even if that run has returned by then. If the context is done first, Shutdown stops
// waiting and also returns the context's error. Inside a task, and inside other code that the timer calls, it
// always waits for the context, because that call has not returned. To get the timeouts before the wait, call
// Stop and then Shutdown.
func (t *Timer) Shutdown(ctx context.Context) ([]*Timeout, error) {
	left := t.stop()
	for _, untilIdle := range []func() <-chan struct{}{t.runners.untilIdle, t.ownRunners.untilIdle, t.calls.untilIdle} {
		idle := untilIdle()
		if idle == nil {
			continue
		}
		select {
		case <-idle:
		case <-ctx.Done():
			t.awaitStarts(maxStart)
			return left, ctx.Err()
		}
	}
	return left, nil
}

// awaitClaims is runners.awaitClaims for all runners. Called without a lock.
func (t *Timer) awaitClaims() (running bool) {
	for _, r := range t.allRunners() {
		running = r.awaitClaims() || running
	}
	return running
}

// maxStart bounds how long an operating system usually keeps a preempted thread from running.
const maxStart = 20 * time.Millisecond

// awaitStarts gives the tasks that are being started time to execute their first instruction. It returns
// when no task is running, or after grace. A task that is still running then has most likely begun.
//
// The first yields are for a runner that the Go scheduler has preempted, which is ahead of the caller in
// the scheduler's queue. Where goroutines keep all processors busy, each yield takes long, so a few yields
// must be enough. The sleeps are for a runner whose thread the operating system has preempted.
//
// In a synctest bubble time stands still while goroutines run, and a sleep would advance it. So awaitStarts
// only yields there. It recognizes a bubble by times without a monotonic reading, because a coarse clock
// outside may also stand still for a hundred yields.
func (t *Timer) awaitStarts(grace time.Duration) {
	const minYields, maxYields = 8, 100
	start := time.Now()
	inBubble := !isMonotonic(start)
	for i := 0; t.awaitClaims(); i++ {
		spent := time.Since(start)
		switch {
		case i < minYields:
			runtime.Gosched()
		case spent >= grace, inBubble && i >= maxYields:
			return
		case i < maxYields:
			runtime.Gosched()
		default:
			time.Sleep(grace / 100)
		}
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

// shutGate waits until no runner is claiming. From then on none will. Called by Stop.
func (r *runners) shutGate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rn := range r.live {
		rn.hold()
	}
}

// takeRest returns the timeouts that no runner has claimed, and those whose tasks are running. They may be
// in any state. Called by Stop, when the gate is shut and no goroutine is inside.
func (r *runners) takeRest() (rest []*Timeout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.batches {
		due := b.takeRest()
		rest = append(rest, due...)
		clear(due)
	}
	r.prune()
	for _, rn := range r.live {
		if rn.hold() == running {
			rest = append(rest, rn.to)
		}
		rest = append(rest, rn.group...)
		clear(rn.group)
		rn.group = nil
	}
	return rest
}
