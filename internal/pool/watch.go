package pool

import "time"

// The watch
//
// While items wait and a runner may be added, a timer of the runtime checks several times a tick how many items runners have
// taken. If they are few, the check adds runners. Without it, items would wait until a task that blocks returns
// (TestBlockedTasksDelayOthersByTwoTicks), or each task would need a goroutine (TestTrivialTasksNeedFewRunners).

const (
	// checksPerTick is how often in a tick the watch goes off, unless the tick is longer than 160 ms.
	checksPerTick = 16

	// maxInterval bounds the time between two checks.
	maxInterval = 10 * time.Millisecond

	// slowTask is the average duration above which tasks count as tasks that block. For shorter tasks, a
	// goroutine each would cost more than it gains. Tasks that compute for longer than this also count as
	// tasks that block.
	slowTask = 5 * time.Microsecond

	// tinyTask is the average duration up to which no runner is added, because runners of such tasks contend for the lock. With
	// a second one, tasks that do nothing take longer (TestEachChunkHasARunner).
	tinyTask = 250 * time.Nanosecond

	// growth is how many runners the first check that finds tasks slow may add. Each later check may add growth times as
	// many as the one before. So even if all tasks block, each of a thousand that wait has a runner after five checks, and
	// each of a million after ten. The present runners do not count, because runners in blocked tasks say nothing about the
	// tasks that wait. See TestFirstRunnersAreFew and TestTrivialTasksBesideBlockedOnes.
	growth = 4
)

// setWatch arms the watch if items wait and a runner may be added for them, and disarms it otherwise. While a runner waits for
// its first processor, checks would keep it from getting one. So setWatch does not arm the watch then: the runner does, when it
// comes (fill). If Remove takes the last item off the list, the next check disarms the watch. With an executor there is no
// watch, because an executor manages its own goroutines. Called with mu held.
//
// So the items on the list of an open pool are never forgotten. A runner that is starting takes them, or the watch adds a runner,
// or the executor runs them. If as many tasks run as the limit allows, the first runner that is done takes an item.
func (p *Pool[T]) setWatch() {
	switch {
	case p.list.n == 0, p.full(), p.closed, p.hasExecutor():
		if p.watching {
			p.watch.Stop() // a check that waits for mu does nothing, or comes early if the watch is armed again before
		}
		p.watching, p.mayAdd = false, 0
	case !p.watching && p.starting.Load() == 0:
		p.watching, p.taken = true, 0
		if p.watch == nil {
			p.watch = time.AfterFunc(p.interval, p.onWatch)
		} else {
			p.watch.Reset(p.interval)
		}
	}
}

// onWatch starts more runners if tasks take long on average: as many as can be at work, or more if tasks are slow. It cannot
// distinguish tasks that wait for each other from tasks that block for other reasons. So very many tasks that meet at a lock, or
// that each compute for longer than slowTask, may get very many runners. Called by watch.
func (p *Pool[T]) onWatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.watching {
		return
	}
	p.watching = false
	working := min(len(p.runners), p.Procs) // the others are in tasks that block, or wait for a processor
	spent, taken := time.Duration(working)*p.interval, time.Duration(p.taken)
	if p.starting.Load() == 0 { // otherwise one has not had a processor yet
		switch {
		case spent > taken*slowTask:
			p.mayAdd = min(max(p.mayAdd, 1)*growth, 1<<20)
			p.start(min(p.list.n, p.mayAdd))
		case spent > taken*tinyTask:
			p.start(min(p.Procs, p.list.length()) - p.total()) // one for each chunk
		}
	}
	p.setWatch()
}
