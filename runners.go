package hashedwheel

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// maxEager bounds how many runners are started because there is much to do, rather than because some are
// stuck. The other bound is the number of goroutines that can run at the same time.
const maxEager = 16

// runners run the tasks of timeouts that have come due, on goroutines that exist only while there is work.
// The worker never runs a task, so no task can delay the wheel.
//
// One runner is enough for tasks that return soon: it takes timeout after timeout, without a
// goroutine, a closure or an allocation for each. While timeouts of earlier ticks wait for a runner, the
// worker checks the runners several times a tick. If they make little progress, it adds more and more
// runners: see rescue.go. So the tasks behind tasks that block start within two ticks, and a task that does
// not block costs no goroutine.
type runners struct {
	// Immutable after New.
	timer          *Timer
	limit          int        // the number of tasks that may run at the same time; 0 for no limit
	eager          int        // see maxEager
	groupsPerBatch int        // a runner takes 1/groupsPerBatch of a batch at a time, if tasks do not block
	dispatch       dispatcher // nil if tasks run on goroutines of the runners

	// Owned by the worker.
	due *batch // timeouts that have come due and are not handed over yet; nil if there are none

	// Shared.
	begun atomic.Uint64 // how many of the goroutines counted in started have had a processor

	// Guarded by mu. It is never held while user code runs, and a goroutine that holds it does not enter
	// the gate.
	mu        sync.Mutex
	batches   []*batch      // the batches that may have timeouts left, in the order in which they came
	live      []*runner     // in no order; changed with count held too
	started   uint64        // the number of runners ever enlisted
	pruned    int           // how many timeouts were in batches that are no longer on the list
	expired   uint64        // tasks started by runners that are no longer live; changed with count held too
	idle      chan struct{} // closed when no runner is live; nil if no goroutine waits for that
	taskEnded chan struct{} // closed when a held runner is done with a task; nil if no goroutine waits for that
	progress  progress      // what the worker saw at its last check

	// Goroutines that only count tasks hold count instead of mu, which may be held for long where there
	// are very many batches. Locked after mu.
	count sync.Mutex
}

// A dispatcher has tasks run on goroutines that do not belong to the runners.
type dispatcher interface {
	// add has runOne called n times, soon, on any goroutine. It must not block. Called with mu held.
	add(n int)
}

// collect adds a due timeout to the batch that the worker hands over next. Called by the worker.
func (r *runners) collect(to *Timeout, tick uint64) {
	if r.due == nil {
		r.due = newBatch()
	}
	b := r.due
	b.due = append(b.due, to)
	if n := len(b.due); n == batchSize {
		r.handOver(tick)
	} else if n == cap(b.due) && n >= batchSize/8 {
		b.due = slices.Grow(b.due, batchSize-n) // because many more are likely to follow
	}
}

// handOver lists the batch of collected timeouts, and has a runner come for it if needed. It does not wait
// for the tasks. Called by the worker.
func (r *runners) handOver(tick uint64) {
	b := r.due
	if b == nil {
		return
	}
	r.due = nil
	b.tick = tick
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune()
	n := len(b.due)
	r.list(b)
	switch {
	case r.dispatch != nil:
		r.dispatch.add(n)
	case r.limit > 0:
		r.spawn(n) // as many as the limit allows
	case len(r.batches) == 1 && r.begun.Load() == r.started, len(r.live) < r.eager:
		// If this batch is the only one and no new runner is on its way, it needs one: all live
		// runners may be in tasks that block.
		r.spawn(1)
	}
}

// requeue accepts a timeout that is due again at the moment when its run ends. The timeout waits behind those
// that were due before. The runner takes it after its own batch, unless another runner takes it first. Called
// by the runner, inside the gate.
func (r *runners) requeue(to *Timeout, tick uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if status(to.word.Load()) != pending {
		return // canceled meanwhile: the worker may have swept the batches already, and would not drop it
	}
	b := newBatch()
	b.due, b.tick, b.single = append(b.due, to), tick, true
	r.list(b)
	if r.dispatch != nil {
		r.dispatch.add(1) // because each call of runOne runs only one task
	}
}

// list adds the timeouts of a batch behind the others. They go into the last batch if no runner has begun it
// and there is room. Without this, each timeout that comes due alone and waits would need a batch of its own.
// From here on the batch belongs to the runners. Called with mu held.
func (r *runners) list(b *batch) {
	if n := len(r.batches); n > 0 {
		last := r.batches[n-1]
		if !last.begun && len(last.due)+len(b.due) <= batchSize {
			last.due = append(last.due, b.due...)
			last.tick, last.since = max(last.tick, b.tick), min(last.since, b.tick)
			last.single = last.single || b.single
			clear(b.due)
			b.recycle()
			return
		}
	}
	b.since = b.tick
	b.listed = true
	r.batches = append(r.batches, b)
}

// spawn starts n runners, or as many as the limit allows. Called with mu held.
func (r *runners) spawn(n int) {
	for ; n > 0 && !r.atLimit(); n-- {
		go r.enlist().work()
	}
}

// atLimit reports whether as many runners are live as the limit allows. Called with mu held.
func (r *runners) atLimit() bool { return r.limit > 0 && len(r.live) >= r.limit }

// enlist adds a runner to the live ones and returns it. Called with mu held.
func (r *runners) enlist() *runner {
	rn := newRunner()
	r.started++
	stripes := r.timer.queue.stripes
	rn.runners, rn.stripe = r, &stripes[r.started%uint64(len(stripes))]
	rn.pos = len(r.live)
	r.count.Lock()
	r.live = append(r.live, rn)
	r.count.Unlock()
	return rn
}

// delist removes a runner from the live ones. Called with mu held.
func (r *runners) delist(rn *runner) {
	if rn.held.Load() {
		r.signalTaskEnd()
	}
	r.count.Lock()
	r.expired += tasksOf(rn.state.Load())
	last := len(r.live) - 1
	r.live[rn.pos] = r.live[last]
	r.live[rn.pos].pos = rn.pos
	r.live[last] = nil
	r.live = r.live[:last]
	r.count.Unlock()
	if len(r.live) == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// next returns a batch for a runner to take from, or nil if there is none. It prefers a batch that no
// runner has begun, and otherwise returns the oldest, whose runner may be stuck. With a limit or an
// executor it always returns the oldest, because timeouts behind a stuck runner would otherwise wait for as
// long as new batches come. After Stop has shut the gate it returns nil, because Stop takes what is left.
func (r *runners) next(rn *runner) *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(rn.group) > 0 {
		return rn.batch // the runner goes on after a task has ended its goroutine
	}
	r.letGo(rn)
	r.prune()
	var b *batch
	if len(r.batches) > 0 && !r.timer.stopped.Load() {
		b = r.batches[0]
		if !rn.onlyOne && r.limit == 0 {
			if i := slices.IndexFunc(r.batches, func(b *batch) bool { return !b.begun }); i >= 0 {
				b = r.batches[i]
			}
		}
	}
	if b != nil {
		b.begun = true
		b.holders++
		rn.batch = b
		rn.groupSize = 1
		if !rn.onlyOne && r.limit == 0 && !r.progress.slow && !b.single {
			rn.groupSize = min(max(len(b.due)/r.groupsPerBatch, 1), maxGroup)
		}
	} else if !rn.onlyOne {
		r.delist(rn) // under the same lock, so that handOver does not rely on it for the next batch
	}
	return b
}

// letGo detaches a runner from its batch, if it has one. Called with mu held.
func (r *runners) letGo(rn *runner) {
	if b := rn.batch; b != nil {
		b.holders--
		b.recycle()
		rn.batch = nil
	}
}

// prune removes from the list the batches that have no timeouts left. Called with mu held.
func (r *runners) prune() {
	r.batches = slices.DeleteFunc(r.batches, func(b *batch) bool {
		if b.left() > 0 {
			return false
		}
		r.pruned += len(b.due)
		b.listed = false
		b.recycle()
		return true
	})
}

// runOne runs the task of one timeout that is due, if there is one. Called by the dispatcher, on any
// goroutine.
func (r *runners) runOne() {
	r.mu.Lock()
	rn := r.enlist()
	rn.onlyOne = true
	r.mu.Unlock()
	r.begun.Add(1)
	defer func() { // also if the task ends the goroutine
		r.mu.Lock()
		rn.state.Add(rn.toRest())
		r.letGo(rn)
		r.delist(rn)
		r.mu.Unlock()
		rn.recycle()
	}()
	for b := r.next(rn); b != nil && !rn.runTasks(b); b = r.next(rn) {
	}
}

// anyLeft reports whether runOne would find a timeout to run.
func (r *runners) anyLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune()
	return len(r.batches) > 0 && !r.timer.stopped.Load()
}

// untilIdle returns a channel that is closed when no runner is live, or nil if none is live now.
func (r *runners) untilIdle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.live) > 0 && r.idle == nil {
		r.idle = make(chan struct{})
	}
	return r.idle
}

// awaitClaims waits for each runner that is claiming. When it returns, the task of each timeout that was
// claimed before the call has been started, or is just being started. It reports whether any task is running.
func (r *runners) awaitClaims() (found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rn := range r.live {
		found = rn.awaitNotClaiming()&phaseMask == running || found
	}
	return found
}

// tasksStarted returns how many tasks have been started.
func (r *runners) tasksStarted() uint64 {
	r.count.Lock()
	defer r.count.Unlock()
	n := r.expired
	for _, rn := range r.live {
		n += tasksOf(rn.state.Load())
	}
	return n
}

// tasksOf returns how many tasks a runner in this state has started.
func tasksOf(state uint64) uint64 { return (state + oneTask - running) / oneTask }

// eagerRunners returns how many runners can run at the same time, but no more than maxEager.
func eagerRunners() int { return min(runtime.GOMAXPROCS(0), maxEager) }
