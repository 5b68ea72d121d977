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

	// slowTask is the average duration above which tasks count as tasks that block. For shorter tasks, a
	// goroutine each would cost more than it gains. Tasks that compute for longer than this also count as
	// tasks that block, until the runners added for them wait for a processor too. Then no more are added:
	// see setWatch.
	slowTask = 5 * time.Microsecond

	// growth is how many runners the first check that finds tasks slow may add. Each later one may add growth times as many as
	// the one before. So even if all tasks block, each of a thousand that wait has a runner after five checks, and each of a
	// million after ten. How many runners there are does not count: those in tasks that block say nothing about the tasks
	// that wait. A million tasks that compute for 10 microseconds had up to 22,000 runners, with 42 MB of stacks. If the first
	// check started one for each task that waits, they would have 125,000, with 244 MB.
	growth = 4
)

// setWatch arms the watch if items wait, and disarms it otherwise. While a runner waits for its first processor, checks would
// keep it from getting one. So setWatch does not arm the watch then: the runner does, when it comes (fill, dismiss). With an
// executor there is no watch, because an executor manages its own goroutines. Called with mu held.
//
// So while items are on the list of an open pool, one of these comes for them: a runner that is starting, the watch, or the
// executor. Or as many tasks as the limit allows are running, and the first of their runners that is done takes an item.
func (p *Pool[T]) setWatch() {
	switch {
	case p.list.n == 0 && len(p.batched) == 0, p.closed, p.hasExecutor():
		if p.watching {
			p.watch.Stop() // a check that waits for mu does nothing, or comes early if the watch is armed again before
		}
		p.watching, p.slow, p.step = false, false, 0
	case !p.watching && p.starting.Load() == 0:
		p.watching, p.takenSinceCheck = true, 0
		if p.watch == nil {
			p.watch = time.AfterFunc(p.interval, p.onWatch)
		} else {
			p.watch.Reset(p.interval)
		}
	}
}

// onWatch takes batches away from runners that are stuck, and starts more runners if there is too little progress.
// A runner is stuck if it has taken no entry since the last check, or if it already had its batch then and its tasks have been
// slow since. If tasks are slow on average, all runners give back. Called by watch.
func (p *Pool[T]) onWatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.watching {
		return
	}
	p.watching = false
	for i := len(p.batched) - 1; i >= 0; i-- { // from the end, because takeBack moves the last one
		rn := p.batched[i]
		old := rn.takenAtCheck > 0
		if n := p.advance(rn); n == 0 || old && time.Duration(n)*slowTask < p.interval {
			p.takeBack(rn)
		}
	}
	working := min(len(p.runners), p.Procs) // the others are in tasks that block, or wait for a processor
	p.slow = time.Duration(p.takenSinceCheck)*slowTask < time.Duration(working)*p.interval
	if p.slow {
		p.takeBackAll()
		if p.starting.Load() == 0 {
			p.step = min(max(p.step, 1)*growth, 1<<20)
			p.start(min(p.list.n, p.step))
		}
	}
	if len(p.batched) > 0 || !p.full() { // otherwise a check could do nothing until a runner takes an item, and arms the watch
		p.setWatch()
	}
}

// advance counts the entries that a runner has taken since advance was last called for it, and returns their number. It is
// called at each check for a runner with a batch, and when the tasks of a runner are over. Called with mu held.
func (p *Pool[T]) advance(rn *Runner[T]) (n int) {
	now := rn.takenOf()
	n, rn.takenAtCheck = now-rn.takenAtCheck, now
	p.takenSinceCheck += n
	return n
}
