package hashedwheel

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// maxEager is the most runners that are started because there is much to do, and not because some
// are stuck: as many as can run at the same time, and no more than this.
const maxEager = 16

// runners run the tasks of what has come due, on goroutines that exist only while there is work. The
// worker never runs a task, so none can hold up the wheel.
//
// One runner is enough for tasks that return soon: it takes timeout after timeout without a
// goroutine, a closure or an allocation for any of them. As long as something is left that came due
// before the last tick, the worker comes by several times a tick, and if the runners make little
// headway it adds more of them, each time by a factor: see rescue.go. So what is behind tasks that
// block starts within two ticks, and a task that does not block costs no goroutine.
type runners struct {
	// Immutable after New.
	timer    *Timer
	limit    int        // of tasks at a time; 0 for none
	eager    int        // see maxEager
	share    int        // a runner takes 1/share of a batch at a time, if tasks do not block
	dispatch dispatcher // nil: tasks run on goroutines of the runners

	// Owned by the worker.
	due *batch // what has come due and is not handed over yet; nil if nothing

	// Shared.
	begun atomic.Uint64 // goroutines that have had a processor, of those ever started

	// Guarded by mu, which is never held while user code runs, nor by a goroutine that then enters
	// the gate.
	mu       sync.Mutex
	batches  []*batch      // that may have something left, as they came
	live     []*runner     // in no order; changed with count held too
	started  uint64        // goroutines ever
	pruned   int           // timeouts in batches that are no longer on the list
	expired  uint64        // tasks started by runners that are no longer live; changed with count held too
	idle     chan struct{} // closed when none is live; nil if nobody waits for that
	taskLeft chan struct{} // closed when a runner leaves a task; nil if nobody waits for that
	progress progress      // what the worker saw when it last looked

	// Count is held by goroutines that only count tasks, so that they do not wait for mu, which may be
	// held for long where there are very many batches. Locked after mu.
	count sync.Mutex
}

// A dispatcher has tasks run elsewhere than on goroutines of the runners.
type dispatcher interface {
	// add has turn called n times, soon, on any goroutine. It must not wait. Called with mu held.
	add(n int)
}

// collect adds a timeout that is due to the batch that is handed over next. Called by the worker.
func (r *runners) collect(to *Timeout, tick uint64) {
	if r.due == nil {
		r.due = newBatch()
	}
	b := r.due
	b.due = append(b.due, to)
	if n := len(b.due); n == batchSize {
		r.handOver(tick)
	} else if n == cap(b.due) && n >= batchSize/8 {
		b.due = slices.Grow(b.due, batchSize-n) // there are likely to be many
	}
}

// handOver has the collected timeouts run. It does not wait for that. Called by the worker.
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
		r.spawn(n) // as many as there may be
	case len(r.batches) == 1 && r.begun.Load() == r.started, len(r.live) < r.eager:
		// If it is the only one, and no runner is on its way, nobody may come to take it: all
		// runners there are may be in tasks that block.
		r.spawn(1)
	}
}

// requeue accepts a timeout that is due once more just as a run of it ends. It waits behind those that
// were due before. The runner comes for it after its own batch, unless another one does. Called by the runner,
// inside the gate.
func (r *runners) requeue(to *Timeout, tick uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if status(to.word.Load()) != pending {
		return // canceled, and the worker may have swept the batches already
	}
	b := newBatch()
	b.due, b.tick, b.single = append(b.due, to), tick, true
	r.list(b)
	if r.dispatch != nil {
		r.dispatch.add(1) // because a turn ends after one task
	}
}

// list puts what is in a batch behind the others: into the last batch if no runner has begun that, so
// that timeouts that come due one by one, and wait, do not make a batch each. The batch is the runners'
// from here. Called with mu held.
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

// spawn starts n runners, or as many as are allowed. Called with mu held.
func (r *runners) spawn(n int) {
	for ; n > 0 && !r.atLimit(); n-- {
		go r.enlist().work()
	}
}

// atLimit reports whether there are as many runners as there may be. Called with mu held.
func (r *runners) atLimit() bool { return r.limit > 0 && len(r.live) >= r.limit }

// enlist returns a runner that is live from now on. Called with mu held.
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

// delist takes a runner off the live ones. Called with mu held.
func (r *runners) delist(rn *runner) {
	if rn.held.Load() {
		r.signalTaskLeft()
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

// next returns a batch for a runner to take from, nil if there is none: one that no runner has, or else
// the oldest, whose runner may be stuck. Where tasks wait for their turn it is the oldest in any case,
// or what is behind a stuck runner would wait for as long as others come. Behind the shut gate there is
// none, because Stop takes what is left.
func (r *runners) next(rn *runner) *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(rn.group) > 0 {
		return rn.batch // a task has ended the goroutine of the runner
	}
	r.letGo(rn)
	r.prune()
	var b *batch
	if len(r.batches) > 0 && !r.timer.stopped.Load() {
		b = r.batches[0]
		if !rn.turn && r.limit == 0 {
			if i := slices.IndexFunc(r.batches, func(b *batch) bool { return !b.begun }); i >= 0 {
				b = r.batches[i]
			}
		}
	}
	if b != nil {
		b.begun = true
		b.holders++
		rn.batch = b
		rn.grab = 1
		if !rn.turn && r.limit == 0 && !r.progress.slow && !b.single {
			rn.grab = min(max(len(b.due)/r.share, 1), maxGroup)
		}
	} else if !rn.turn {
		r.delist(rn) // not later, or the next batch would count on it
	}
	return b
}

// letGo has a runner forget its batch. Called with mu held.
func (r *runners) letGo(rn *runner) {
	if b := rn.batch; b != nil {
		b.holders--
		b.recycle()
		rn.batch = nil
	}
}

// prune takes the batches off the list of which nothing is left. Called with mu held.
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

// turn runs the task of one timeout that is due, if there is one. Called by what dispatch starts, on
// any goroutine.
func (r *runners) turn() {
	r.mu.Lock()
	rn := r.enlist()
	rn.turn = true
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

// anyLeft reports whether a turn would find something.
func (r *runners) anyLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune()
	return len(r.batches) > 0 && !r.timer.stopped.Load()
}

// untilIdle returns a channel that is closed when no runner is live; nil if none is.
func (r *runners) untilIdle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.live) > 0 && r.idle == nil {
		r.idle = make(chan struct{})
	}
	return r.idle
}

// awaitClaims returns when each timeout that a runner has claimed before the call is also being started. It
// reports whether any task is running.
func (r *runners) awaitClaims() (found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rn := range r.live {
		found = rn.settled()&phaseMask == running || found
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

// eagerRunners returns how many runners can be at work at the same time.
func eagerRunners() int { return min(runtime.GOMAXPROCS(0), maxEager) }
