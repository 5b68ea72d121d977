package hashedwheel

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// enter goes through the gate, and reports whether it is open: it is until Stop. Whoever has
// entered must leave, in either case, and in between must neither run user code nor wait, but
// for runners.mu and Group.mu, whose holders do not enter.
//
// The gate is for those whose work Stop must see done or not begun: the push of a timeout
// that is pending already, and the start of a task. Stop shuts it and then waits until
// nobody is inside. Either a goroutine that enters finds it shut, or Stop finds the
// goroutine inside: on each side a write comes before the read of what the other wrote.
// Runners go through it by what they are at, see claiming.
func (t *Timer) enter(s *stripe) bool {
	s.inside.Add(1)
	return !t.stopped.Load()
}

func (t *Timer) leave(s *stripe) { s.inside.Add(-1) }

// IsStopped reports whether Stop has been called.
func (t *Timer) IsStopped() bool { return t.stopped.Load() }

// Stop ends the timer and returns the timeouts that were pending, in no order. When it
// returns no further task starts. Each timeout that was accepted has been started, or canceled,
// or is among those returned, which count as canceled from now on. Repeating ones are too, even
// if their task is running, and those of a Keyed, whose keys stay in it. Those of Sleep, After and
// Ticker are not, and count as canceled. NewTimeout and Reset fail with ErrStopped.
//
// Stop may be called from anywhere, also from inside a task, and more than once: one caller
// gets the timeouts, all others nil. It does not wait for tasks that take long: use Shutdown
// for that. If any are running it takes up to 20 ms to be sure that they have started, or more
// where the processors are busy.
func (t *Timer) Stop() []*Timeout {
	left := t.stop()
	t.awaitStarts()
	return left
}

// Shutdown stops the timer as Stop does, then waits until all tasks that were started have
// returned, and those of canceled timeouts have been told. It returns the timeouts that were
// pending, and the context's error if that is done first. From inside a task it always is. Who wants
// the timeouts before the wait calls Stop, and then Shutdown.
func (t *Timer) Shutdown(ctx context.Context) ([]*Timeout, error) {
	left := t.stop()
	return left, t.runners.waitIdle(ctx)
}

// stop is Stop but for the tasks that are just starting.
func (t *Timer) stop() []*Timeout {
	if !t.stopped.CompareAndSwap(false, true) { // this shuts the gate
		<-t.swept
		return nil
	}
	defer close(t.swept)

	// First whoever could move a timeout from one place to another comes to rest. Then
	// nothing is out of sight, and the places can be emptied one by one.
	t.worker.halt()
	for i := range t.queue.stripes {
		for t.queue.stripes[i].inside.Load() != 0 {
			runtime.Gosched()
		}
	}
	t.runners.awaitClaims()

	var left []*Timeout
	collect := func(to *Timeout) {
		t.willEnd()
		if !to.handBack() {
			t.wontEnd()
			return
		}
		if task, ok := to.Task().(own); ok {
			t.canceled(to, t.queue.stripe(to))
			task.handBack()
			return
		}
		t.freeSlot()
		t.leaveGroup(to)
		left = append(left, to)
		t.tellIfCanceler(to)
	}
	for i := range t.queue.stripes {
		for list := t.queue.stripes[i].close(); list != nil; {
			var to *Timeout
			to, list = unlink(list)
			t.worker.taken.Add(1)
			collect(to)
		}
	}
	for _, to := range t.runners.takeRest() {
		collect(to)
	}
	if wheel := t.worker.takeWheel(); wheel != nil {
		wheel.each(collect)
	}
	t.returned.Add(uint64(len(left)))
	return left
}

// awaitClaims returns when no runner is claiming. From now on they find that Stop was called before
// they take anything.
func (r *runners) awaitClaims() {
	for r.claiming() {
		runtime.Gosched()
	}
}

func (r *runners) claiming() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.live, func(rn *runner) bool { return rn.at.Load() == claiming })
}

// takeRest returns the timeouts that nobody has taken, those that the executor has not begun,
// and those at work, in whatever state they are. Called by Stop, with nobody inside the gate.
func (r *runners) takeRest() []*Timeout {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rest []*Timeout
	r.batches = slices.DeleteFunc(r.batches, func(b *batch) bool {
		if !b.canceled {
			due := b.takeRest()
			rest = append(rest, due...)
			clear(due)
			r.added -= len(due)
			b.listed = false
		}
		return !b.canceled
	})
	for to, j := range r.jobs {
		rest = append(rest, to)
		j.to = nil
	}
	r.jobs = nil
	for _, rn := range r.live {
		if to := rn.at.Load(); to != nil && to != claiming { // as one that then finds nothing
			rest = append(rest, to)
		}
	}
	r.emptied = true
	if len(r.batches) > 0 {
		r.spawn(1) // all runners may be in tasks that block
		r.mind()
	}
	return rest
}

// leaveToStop keeps a repeating timeout for Stop, which has shut the gate, so that its run that is
// just over was the last. Unless Stop has it already, for the runner's record still names it.
func (r *runners) leaveToStop(to *Timeout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.emptied {
		r.list(&batch{due: []*Timeout{to}})
	}
}

// awaitStarts gives the tasks that have been claimed, but may not have been begun, the time
// to begin. Between a runner's leave and the first instruction of the task lies next to
// nothing, but the machine may take the processor away right there, and nobody can see that.
// What can be seen is when tasks end. So wait until all have, or for so long that those which
// have not must be long ones. From inside a task that is always so.
//
// Time that stands still while others run is that of a synctest bubble, where a sleep would
// move it. Where goroutines keep all processors busy each yield takes long, and few must do;
// without any, the grace may be over before a runner has had its turn.
func (t *Timer) awaitStarts() {
	const (
		minYields = 8
		maxYields = 100
		grace     = 20 * time.Millisecond
	)
	start := time.Now()
	for i := 0; t.anyRunning(); i++ {
		spent := time.Since(start)
		switch {
		case i < minYields:
			runtime.Gosched()
		case spent > grace:
			return
		case i < maxYields:
			runtime.Gosched()
		case spent == 0:
			return
		default:
			time.Sleep(grace / 100)
		}
	}
}

func (t *Timer) anyRunning() bool {
	tasks, _ := t.running()
	return tasks > 0
}
