package hashedwheel

import (
	"runtime"
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
	live    []*runner     // in no order
	started uint64        // goroutines ever
	begun   atomic.Uint64 // those of them that have had a processor; not guarded
	idle    chan struct{} // closed when none is live; nil if nobody waits for it
	minding bool          // mind is going to look again

	spareBatches []*batch  // for the next ones
	spareRunners []*runner // for the next ones

	emptied bool // Stop has taken everything

	jobs map[*Timeout]*job // in the executor's hands, and not begun
	busy int               // jobs, begun or not

	atWork atomic.Int64 // repeating timeouts; not guarded

	waiters  []*waiter    // see Timeout.Wait
	awaiting atomic.Int32 // their number, or more; written only with mu held

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
	r.prune()
	r.list(b)
	switch {
	case b.own:
		r.spawnOwn()
	case r.limit > 0:
		r.spawn(b.left()) // as many as there may be
	case len(r.batches) == 1, len(r.live) < r.eager:
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
	for range n {
		if r.atLimit() {
			return
		}
		r.start(false)
	}
}

// atLimit reports whether there are as many runners as there may be. Called with mu held.
func (r *runners) atLimit() bool {
	if r.limit == 0 || len(r.live) < r.limit {
		return false
	}
	n := 0
	for _, rn := range r.live {
		if !rn.own && rn.work != nil { // the executor's are counted by full
			n++
		}
	}
	return n >= r.limit
}

// start starts a runner. Called with mu held.
func (r *runners) start(own bool) {
	r.started++
	stripes := r.timer.queue.stripes
	rn := r.spareRunner()
	rn.stripe, rn.own = &stripes[r.started%uint64(len(stripes))], own
	r.enlist(rn)
	go rn.work()
}

// spareRunner returns one that is to be enlisted. Neither it nor the start of its goroutine
// allocates anything as long as there is a spare one. Called with mu held.
func (r *runners) spareRunner() *runner {
	if n := len(r.spareRunners); n > 0 {
		rn := r.spareRunners[n-1]
		r.spareRunners = r.spareRunners[:n-1]
		return rn
	}
	rn := &runner{runners: r}
	rn.work = func() {
		r.begun.Add(1)
		rn.run()
	}
	return rn
}

// enlist counts a runner as live. Called with mu held.
func (r *runners) enlist(rn *runner) {
	rn.pos = len(r.live)
	r.live = append(r.live, rn)
}

// delist counts a runner as live no longer. Called with mu held.
func (r *runners) delist(rn *runner) {
	last := len(r.live) - 1
	r.live[rn.pos] = r.live[last]
	r.live[rn.pos].pos = rn.pos
	r.live[last] = nil
	r.live = r.live[:last]
}

// lookIdle tells those who wait for it if no runner is live. Called with mu held.
func (r *runners) lookIdle() {
	if len(r.live) == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// held reports whether nothing is to be taken from a batch for now: Stop will take what was
// due, or the next job that ends will have it taken. Called with mu held.
func (r *runners) held(b *batch) bool {
	return !b.canceled && (r.timer.IsStopped() || !b.own && r.full())
}

// next returns a batch for a runner to take from: one that nobody has, or else the oldest,
// whose runner may be stuck. If it returns nil the caller is a runner no more.
func (r *runners) next(rn *runner) *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rn.batch != nil {
		r.letGo(rn.batch)
		rn.batch = nil
	}
	r.prune()
	var b *batch
	for _, other := range r.batches {
		if r.held(other) || rn.own && !other.own {
			continue
		}
		if b == nil || !other.begun {
			b = other
		}
		if !b.begun {
			break
		}
	}
	if b == nil {
		r.delist(rn)
		if len(r.spareRunners) < maxEager {
			r.spareRunners = append(r.spareRunners, rn)
		}
		r.lookIdle()
		return nil
	}
	b.begun = true
	b.holders++
	rn.batch = b
	return b
}

// eagerRunners returns how many runners can be at work at the same time.
func eagerRunners() int { return min(runtime.GOMAXPROCS(0), maxEager) }
