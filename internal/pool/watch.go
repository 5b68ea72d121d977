package pool

import "time"

// The watch
//
// While items wait for the runners of a pool, or lie in their batches, a timer of the runtime checks several times
// a tick whether the runners make progress. It starts runners for items that wait behind tasks that block.

const (
	// checksPerTick is how often in a tick the pool is checked, unless the tick is longer than 160 ms.
	checksPerTick = 16

	// maxInterval bounds the time between two checks.
	maxInterval = 10 * time.Millisecond

	// patientInterval is the least time between two checks while a runner has not had a processor yet. Checks
	// that come more often would keep it from getting one.
	patientInterval = 100 * time.Microsecond

	// slowTask is the average duration above which tasks count as tasks that block. For shorter tasks, a
	// goroutine each would cost more than it gains. Tasks that compute for longer than this also count as
	// tasks that block, until the runners added for them wait for a processor too. Then no more are added:
	// see progress.more.
	slowTask = 5 * time.Microsecond

	// growth is by how much the number of runners that a check adds grows from check to check. The first one
	// that adds any adds growth. So even if all tasks block, each of a thousand that wait has a runner after
	// five checks, and each of a million after ten.
	growth = 4
)

// progress measures whether goroutines make progress with the items that wait for them.
type progress struct {
	seen uint64 // how many items had been taken at the last check
	slow bool   // fewer items were taken between the last two checks than if no task had blocked
	step int    // how many goroutines to add next
}

// start discards earlier checks, because nothing waits any more. Taken is how many items have been taken so far.
func (p *progress) start(taken uint64) { *p = progress{seen: taken, step: growth} }

// more is one check. It returns how many goroutines to add. Taken is how many items have been taken so far. Working is
// how many goroutines can be at work at the same time. Spent is the time since the last check. May says whether any may be
// added. It should be false while a goroutine that was added before has not had a processor yet: then the tasks are not
// what is slow, and more goroutines would not help.
func (p *progress) more(taken uint64, spent time.Duration, working int, may bool) (n int) {
	p.slow = time.Duration(taken-p.seen)*slowTask < time.Duration(working)*spent
	p.seen = taken
	if p.slow && may {
		n = p.step
		p.step = min(p.step*growth, 1<<20)
	}
	return n
}

// keepWatch arms the watch if there may be something for it to do. Called with mu held.
func (p *Pool[T]) keepWatch() {
	if p.watching || !p.needsWatch() {
		return
	}
	p.watching = true
	if p.watch == nil {
		p.watch = time.AfterFunc(p.interval, p.onWatch)
	} else {
		p.watch.Reset(p.interval)
	}
}

// needsWatch reports whether a check could move an item to another runner. At the limit none is added, and an
// executor manages its own goroutines. Called with mu held.
func (p *Pool[T]) needsWatch() bool {
	return len(p.batched) > 0 || p.due.n > 0 && p.outside == nil && !p.full()
}

// endWatch disarms the watch. Called with mu held.
func (p *Pool[T]) endWatch() {
	if p.watching {
		p.watching = false
		p.watch.Stop() // a check that has already begun sees that the pool is not watched any more
	}
	p.progress.start(p.taken())
}

// onWatch takes batches away from runners that are stuck, and starts more runners if there is too little progress.
// Called by watch.
func (p *Pool[T]) onWatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.watching {
		return
	}
	p.giveBack()
	if !p.needsWatch() {
		p.endWatch()
		return
	}
	interval := p.interval
	if p.starting.Load() > 0 {
		interval = max(interval, patientInterval)
	}
	if p.due.n > 0 {
		working := min(p.live, p.Procs) // the others are in tasks that block, or wait for a processor
		p.start(min(p.due.n, p.progress.more(p.taken(), p.interval, working, p.starting.Load() == 0)))
	} else {
		p.progress.start(p.taken())
	}
	p.watch.Reset(interval)
}

// giveBack takes back the batches of runners that are stuck. A runner is stuck if it has been in the same task since the
// last check. If tasks are slow, all runners give back. Called with mu held.
func (p *Pool[T]) giveBack() {
	for i := len(p.batched) - 1; i >= 0; i-- { // from the end, because takeBack moves the last one
		rn := p.batched[i]
		n := rn.takenOf()
		stuck := n == rn.takenAtCheck && n > 0
		rn.takenAtCheck = n
		if stuck || p.progress.slow {
			p.takeBack(rn)
		}
	}
}
