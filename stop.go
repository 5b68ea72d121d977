package hashedwheel

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// Stop
//
// Stop must find each timeout that is pending, and no task may start after it has returned. So before it
// looks anywhere, every goroutine that could move a timeout from one place to another, or start a
// task, has to come to rest. They all follow one protocol, the gate:
//
//	 producer (Cancel, Reset, the end of a run)      runner, for each task
//	   enter:  inside++                                phase: claiming
//	           stopped?  -- yes --> leave              held?  -- yes --> rest; stopped?  -- yes --> wait for swept
//	           compare-and-swap the word               take from the batch, claim (compare-and-swap)
//	           push on the queue                       phase: running
//	   leave:  inside--                                call the task
//
//	 Stop
//	   1. stopped = true
//	   2. halt the worker
//	   3. wait until inside == 0 on each stripe
//	   4. hold each runner, and wait until it is not claiming
//	   5. take what is on the queue, in batches, in buckets, and what runners have; close swept
//
// A timeout that is on the queue may be made pending without the gate, by rule 1 of timeout.go. Stop
// clears its queued bit before it looks at the status. So either Stop finds it pending, or the
// compare-and-swap that would make it so fails.
//
// A goroutine at the gate writes first and then reads stopped, or held. Stop writes that first and then
// reads what the goroutine wrote. All of this is sequentially consistent. So either the goroutine finds the
// gate shut, or Stop sees it inside and waits for it. After step 4 nothing moves: every timeout is in one
// of the places of step 5. It stays pending there unless a Cancel ends it, which needs no gate then.
//
// A timeout that has been claimed is also being started when step 4 is over, because a runner leaves
// the phase claiming just before it calls the task. Wait and Group.Close rely on the same. The step
// from there to the first instruction of the task cannot be seen. It takes a nanosecond, unless the
// machine takes the processor away right there: see awaitStarts.
//
// A repeating timeout whose run is in progress is in no place but its runner's. If the run ends
// behind the shut gate, the runner waits for swept, and Stop takes the timeout from there.
//
// A producer that prunes the queue, see prune.go, has timeouts in its hands meanwhile, so it does that
// inside the gate as well.
//
// Nothing inside the gate can be stuck. Goroutines inside run no user code. They block only on
// runners.mu, executor.mu, calls.mu, limit.mu and Group.mu, and no holder of one of these waits for goroutines
// inside. So Stop waits no longer than these need to get a processor.

// enter goes through the gate, and reports whether it is open. Every enter needs a leave, in either
// case.
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

// Stop ends the timer and returns the timeouts that were pending, in no order. When it returns no
// further task starts. Each timeout that was accepted has been started, or canceled, or is among
// those returned, which count as canceled from now on. Repeating ones are too, even if their task is
// running, and those of a Keyed, whose keys stay in it. Those of Sleep, and of tasks that are
// Light, are not, and count as canceled. NewTimeout and Reset fail with ErrStopped.
//
// Stop may be called from anywhere, also from inside a task, and more than once: one caller gets the
// timeouts, all others nil. It does not wait for tasks that take long: use Shutdown for that. If any
// are running it takes up to 20 ms to be sure that they have started, or more where the processors
// are busy.
func (t *Timer) Stop() []*Timeout {
	left := t.stop()
	t.awaitStarts(maxStart)
	return left
}

// stop is Stop, except that tasks may be just starting when it returns.
func (t *Timer) stop() []*Timeout {
	t.checkMade()
	if !t.stopped.CompareAndSwap(false, true) { // this shuts the gate
		<-t.swept
		return nil
	}
	left, own := t.takePending()
	close(t.swept)
	for _, to := range own {
		t.notifyStopped(to)
	}
	return left
}

// notifyStopped tells an own task of Stop, and survives its panic: there are others to be told.
func (t *Timer) notifyStopped(to *Timeout) {
	defer func() {
		if value := recover(); value != nil {
			t.reportPanic(to, value, debug.Stack())
		}
	}()
	to.hook().notifyStopped(to)
}

// takePending takes all timeouts that are pending: the user's, and those of own tasks. They count as
// returned, and as canceled. Called by Stop, when the gate is shut.
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
		t.freeSlot(s)
		if word&hooked != 0 {
			h := to.task.(hook)
			if h.left(to, true); h.own() {
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
				to.takeOff(queued) // before collect looks: see rule 1 of timeout.go
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

// Shutdown stops the timer as Stop does, then waits until all tasks that were started have
// returned, and the tasks of canceled timeouts have been notified. It returns the timeouts that were
// pending, and the context's error if that is done first. From inside a task it always is. To have
// the timeouts before the wait, call Stop, and then Shutdown.
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

// awaitClaims returns when each timeout that a runner has claimed before the call is also being
// started. It reports whether any task is running. Called without a lock.
func (t *Timer) awaitClaims() (running bool) {
	for _, r := range t.allRunners() {
		running = r.awaitClaims() || running
	}
	return running
}

// maxStart is how long the machine may keep a thread from going on, as a rule.
const maxStart = 20 * time.Millisecond

// awaitStarts gives the tasks that are being started time to execute their first instruction: until no
// task is running, or for as long as grace, so that those that still run must be long ones.
//
// The first yields are for a runner that the Go scheduler has preempted: it is ahead of the caller in
// the scheduler's queue. The sleeps are for one whose thread the machine has preempted. In a synctest
// bubble time stands still while others run, and a sleep would advance it. A bubble is known by times
// without a monotonic reading: elsewhere, too, a coarse clock stands still for a hundred yields. Where
// goroutines keep all processors busy each yield takes long, and few must be enough.
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

// handBack ends a pending timeout on behalf of Stop, and reports whether it was pending, and its word
// then.
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

// shutGate returns when no runner is claiming, nor will any. Called by Stop.
func (r *runners) shutGate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rn := range r.live {
		rn.hold()
	}
}

// takeRest returns the timeouts that no runner has claimed, and those whose tasks are running, in whatever
// state they are. Called by Stop, when the gate is shut and nobody is inside.
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
