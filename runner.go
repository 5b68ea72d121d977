package hashedwheel

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxEager is the most runners that are started because there is much to do, and not
// because some are stuck: as many as can run at the same time, and no more than this.
const maxEager = 16

// runners run the tasks of what has come due, on goroutines that are there only while there is
// work. The worker never runs a task, so none can hold up the wheel.
//
// One runner does for tasks that return soon: it takes timeout after timeout without a
// goroutine, a closure or an allocation for any of them. As long as something is left that
// came due before the last tick, the worker comes by several times a tick, and if the runners
// make little headway it adds more of them, each time by a factor. So what is behind tasks
// that block starts within two ticks, and a task that does not block costs no goroutine.
type runners struct {
	// Immutable after New.
	timer  *Timer
	limit  int                    // of tasks at a time; 0 for none
	eager  int                    // see maxEager
	submit func(run func()) error // nil: tasks run here

	// Guarded by mu, which is never held while user code runs, nor by who then enters the gate.
	mu      sync.Mutex
	batches []*batch      // that may have something left, as they came
	live    int           // runners, and tasks at work in the executor
	started int           // runners ever
	begun   atomic.Int64  // those of them that have had a processor; not guarded
	idle    chan struct{} // closed when live gets to 0; nil if nobody waits for it
	minding bool          // mind is going to look again

	jobs map[*Timeout]*job // in the executor's hands, and not begun
	busy int               // jobs, begun or not

	// What the worker saw when it last looked. Guarded by mu too.
	looking bool          // something was left then, as the time before
	added   int           // timeouts in all batches so far
	taken   int           // how many of them had been taken
	looked  time.Duration // when that was
	step    int           // how many runners to add next
}

// add accepts a batch. It does not wait for its tasks. Called by the worker for what is due, and
// by tell for what was canceled.
func (r *runners) add(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = slices.DeleteFunc(r.batches, (*batch).done)
	r.batches = append(r.batches, b)
	r.added += len(b.due)
	switch {
	case r.limit > 0:
		r.spawn(b.left()) // as many as there may be
	case len(r.batches) == 1, r.live < r.eager:
		// If it is the only one, nobody may come to take it: all runners there are may
		// be in tasks that block.
		r.spawn(1)
	}
	if r.timer.IsStopped() {
		r.mind()
	}
}

// spawn starts n runners, if that many are allowed. Called with mu held.
func (r *runners) spawn(n int) {
	if r.limit > 0 {
		n = min(n, r.limit-r.live)
	}
	for range n {
		r.live++
		r.started++
		stripes := r.timer.queue.stripes
		s := &stripes[r.started%len(stripes)]
		go func() {
			r.begun.Add(1)
			r.run(s)
		}()
	}
}

// exit counts a runner, or a task in the executor, as ended. Called with mu held.
func (r *runners) exit() {
	r.live--
	if r.live == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// held reports whether nothing is to be taken from a batch for now: Stop will take what was
// due, or the next job that ends will have it taken. Called with mu held.
func (r *runners) held(b *batch) bool {
	return !b.canceled && (r.timer.IsStopped() || r.full())
}

// next returns a batch for a runner to take from: one that nobody has, or else the oldest,
// whose runner may be stuck. If it returns nil the caller is a runner no more.
func (r *runners) next() *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = slices.DeleteFunc(r.batches, (*batch).done)
	var help *batch
	for _, b := range r.batches {
		switch {
		case r.held(b):
		case !b.begun:
			b.begun = true
			return b
		case help == nil:
			help = b
		}
	}
	if help == nil {
		r.exit()
	}
	return help
}

// rest returns the timeouts that nobody has taken, and those that the executor has not begun,
// in whatever state they are, and forgets them. Called by Stop, with nobody inside the gate.
func (r *runners) rest() []*Timeout {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rest []*Timeout
	r.batches = slices.DeleteFunc(r.batches, func(b *batch) bool {
		if !b.canceled {
			due := b.takeRest()
			rest = append(rest, due...)
			r.added -= len(due)
		}
		return !b.canceled
	})
	for to, j := range r.jobs {
		rest = append(rest, to)
		j.to = nil
	}
	r.jobs = nil
	if len(r.batches) > 0 {
		r.spawn(1) // all runners may be in tasks that block
		r.mind()
	}
	return rest
}

// wait returns when no task is running, none is left to be told, and no runner is there; or
// with the error of the context. Called after Stop.
func (r *runners) wait(ctx context.Context) error {
	r.mu.Lock()
	if r.live == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run is a runner. It counts on stripe s.
func (r *runners) run(s *stripe) {
	ended := false
	defer func() {
		if !ended {
			go r.run(s) // a task has ended this goroutine by runtime.Goexit
		}
	}()
	for b := r.next(); b != nil; b = r.next() {
		switch {
		case b.canceled:
			for to := b.take(); to != nil; to = b.take() {
				r.timer.tellCanceled(to)
			}
		case r.submit != nil:
			for r.submitNext(b, s) {
			}
		default:
			for r.runNext(b, s) {
			}
		}
	}
	ended = true
}

// runNext takes a timeout from the batch and runs its task. It reports whether to go on.
func (r *runners) runNext(b *batch, s *stripe) bool {
	t := r.timer
	// From enter to leave nothing waits and no user code runs, so Stop may wait for it: when
	// it finds nobody inside, whoever took a timeout has also begun its task.
	if !t.enter(s) {
		t.leave(s)
		return false
	}
	to := b.take()
	claimed := to != nil && to.claim(b.tick)
	if claimed {
		s.expired.Add(1)
		t.release()
	}
	t.leave(s)
	if claimed {
		t.runTask(to, s)
	}
	return to != nil
}

// runTask runs the task of a timeout that has been claimed, and survives its panic.
func (t *Timer) runTask(to *Timeout, s *stripe) {
	defer t.taskEnded(to, s)
	to.task.Run(to)
}

func (t *Timer) taskEnded(to *Timeout, s *stripe) {
	if value := recover(); value != nil {
		defer s.finished.Add(1) // even if the handler ends the goroutine
		t.reportPanic(to, value, debug.Stack())
		return
	}
	s.finished.Add(1)
}

// eagerRunners returns how many runners can be at work at the same time.
func eagerRunners() int { return min(runtime.GOMAXPROCS(0), maxEager) }
