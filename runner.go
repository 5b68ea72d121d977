package hashedwheel

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// A batch holds timeouts that came due together. The worker fills it and hands it over; then
// runners take one after the other, each by moving the cursor.
type batch struct {
	due    []*Timeout
	tick   uint64       // the wheel's when it was handed over: none was due later
	cursor atomic.Int64 // index of the first that no runner has taken
	next   *batch       // guarded by runners.mu
}

// take returns the next timeout, nil if none is left. It forgets it, since the batch lives
// until its last one is taken, and that may be long. Called inside the gate.
func (b *batch) take() *Timeout {
	i := b.cursor.Add(1) - 1 // b.due[i] is the caller's from here
	if i >= int64(len(b.due)) {
		return nil
	}
	to := b.due[i]
	b.due[i] = nil
	return to
}

// runners run the tasks of what has come due, on a goroutine that is there only while there
// is work. The worker never runs a task, so no task can hold it up.
type runners struct {
	timer *Timer // immutable after New

	mu      sync.Mutex
	first   *batch // a queue of batches, of which the first may be used up
	last    *batch
	running bool // a runner exists
}

// take accepts a batch from the worker. It does not wait for its tasks.
func (r *runners) take(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		r.first = b
	} else {
		r.last.next = b
	}
	r.last = b
	if !r.running {
		r.running = true
		go r.run()
	}
}

// after returns the batch that follows b, or the first one if b is nil. When there is none
// left the caller must end: it is no longer a runner.
func (r *runners) after(b *batch) *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b != nil && b == r.first {
		r.first, b.next = b.next, nil
	}
	if r.first == nil {
		r.last = nil
		r.running = false
	}
	return r.first
}

// rest returns the timeouts of which no runner has taken the entry, in whatever state they
// are, and forgets them. Called by Stop, with the gate shut and nobody inside.
func (r *runners) rest() []*Timeout {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rest []*Timeout
	for ; r.first != nil; r.first = r.first.next {
		for to := r.first.take(); to != nil; to = r.first.take() {
			rest = append(rest, to)
		}
	}
	r.last = nil
	return rest
}

// run is a runner: it takes due timeouts and runs their tasks until none are left.
//
// A task that panics, or that ends the goroutine by runtime.Goexit, costs its goroutine and
// no more: another one goes on where it stood. So there is one deferred function for all
// tasks, and a task that returns costs nothing extra.
func (r *runners) run() {
	t := r.timer
	var running *Timeout // the one whose task is running
	s := &t.queue.stripes[0]
	defer func() {
		if running == nil {
			return
		}
		// Even if the handler ends the goroutine. Its panic, on the other hand, is meant
		// to end the program, and does so before anybody looks at this.
		defer func() {
			s.finished.Add(1)
			go r.run()
		}()
		if value := recover(); value != nil { // nil: runtime.Goexit
			t.panics.Add(1)
			t.reportPanic(running, value, debug.Stack())
		}
	}()

	for b := r.after(nil); b != nil; {
		// From enter to leave nothing waits and no user code runs, so Stop may wait for
		// it: when it finds nobody inside, whoever took an entry has also begun its task.
		if !t.enter(s) {
			t.leave(s)
			return
		}
		to := b.take()
		if to == nil {
			t.leave(s)
			b = r.after(b)
			continue
		}
		claimed := to.claim(b.tick)
		if claimed {
			s.expired.Add(1)
			t.release()
		}
		t.leave(s)
		if claimed {
			running = to
			to.task.Run(to)
			running = nil
			s.finished.Add(1)
		}
	}
}
