package hashedwheel

import (
	"slices"
	"time"
)

// Rescue
//
// The worker checks whether runners are stuck in tasks that block, and adds runners for the timeouts that
// wait behind those tasks.

const (
	// slowTask is the average duration above which tasks count as tasks that block. For shorter tasks, a
	// goroutine each would cost more than it gains. Tasks that compute for longer than this also count as
	// tasks that block, until the runners added for them wait for a processor too. Then no more are added:
	// see progress.more.
	slowTask = 5 * time.Microsecond

	// checksPerTick is how often in a tick the worker checks runners that are behind. A check adds growth
	// times as many runners as the check before, and the first one that adds any adds 4. So
	// even if all tasks block, each of a thousand that wait has a runner after five such checks, and each of a
	// million after ten.
	checksPerTick = 16
	growth        = 4
)

// progress measures whether goroutines make progress with the items that wait for them. The zero value has
// not checked yet.
type progress struct {
	taken int  // how many items have been taken so far
	seen  int  // the value of taken at the last check
	slow  bool // fewer items were taken between the last two checks than if no task had blocked
	step  int  // how many goroutines to add next; 0 before the first check
}

// more is one check. It returns how many goroutines to add to the live ones. Spent is the time since the
// last check. May says whether any may be added. It should be false while a goroutine that was added
// before has not had a processor yet: then the tasks are not what is slow, and more goroutines would not
// help.
func (p *progress) more(spent time.Duration, live int, may bool) (n int) {
	p.slow = time.Duration(p.taken-p.seen)*slowTask < time.Duration(live)*spent
	p.seen = p.taken
	switch {
	case p.step == 0: // the first check
		p.slow = false
		p.step = growth
	case p.slow && may:
		n = p.step
		p.step = min(p.step*growth, 1<<20)
	}
	return n
}

// reset discards earlier checks, because nothing waits any more.
func (p *progress) reset() { p.seen, p.slow, p.step = p.taken, false, 0 }

// checkStalled adds runners if the live ones are stuck. Spent is the time since the last call. Waiting
// reports whether timeouts wait for runners. Overdue reports whether some have waited since before this
// tick: then the caller should call again soon. Called only by the worker.
//
// At the limit, or with an executor, checkStalled adds none and reports false: the limit does not allow more,
// and an executor manages its own goroutines.
func (r *runners) checkStalled(tick uint64, spent time.Duration) (waiting, overdue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dispatch != nil || r.atLimit() {
		r.progress.reset()
		return false, false
	}
	atWork, late := r.giveBack(tick) // before prune, so that prune sees what was given back
	r.prune()
	left := 0
	r.progress.taken = r.pruned
	for _, b := range r.batches {
		left += b.left()
		r.progress.taken += len(b.due) - b.left()
		overdue = overdue || b.since < tick
	}
	if left == 0 {
		r.progress.reset()
		return atWork, late
	}
	r.spawn(min(left, r.progress.more(spent, len(r.live), overdue && r.begun.Load() == r.started)))
	return true, overdue || late
}

// giveBack takes from stuck runners the timeouts that they have not claimed, and puts them into new
// batches. A runner is stuck if it has been in the same task since the last check. If tasks are slow, all
// runners give back. A runner that has given back takes one timeout at a time from its batch. AtWork
// reports whether other runners may have timeouts left. Late reports whether any of those were due before
// this tick. Called with mu held.
func (r *runners) giveBack(tick uint64) (atWork, late bool) {
	for _, rn := range r.live {
		if rn.groupSize <= 1 {
			continue
		}
		state := rn.state.Load()
		stuck := state == rn.seen && state&phaseMask == running
		rn.seen = state
		if !stuck && !r.progress.slow {
			atWork = true
			late = late || rn.batch.since < tick
			continue
		}
		rn.hold()
		rn.groupSize = 1
		if len(rn.group) > 0 {
			b := newBatch()
			b.due = append(b.due, rn.group...)
			b.tick, b.since, b.listed, b.single = rn.batch.tick, rn.batch.since, true, true
			clear(rn.group)
			rn.group = nil
			r.pruned -= len(b.due)
			r.batches = slices.Insert(r.batches, 0, b)
		}
	}
	return atWork, late
}

// sweep drops canceled and reset timeouts from the batches that came before this tick. Otherwise they
// would stay there for as long as the batch waits for a runner or a job, which may be long. Again reports
// whether there are batches of this tick, so that the worker must call sweep again. Called only by the
// worker.
//
// It unlocks mu after each batch. It goes from the last batch to the first, so that it skips none when
// other goroutines prune the list meanwhile.
func (r *runners) sweep(tick uint64) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.batches) - 1; i >= 0; i = min(i, len(r.batches)) - 1 {
		b := r.batches[i]
		if b.since >= tick {
			again = true
			continue
		}
		kept := newBatch() // takes the place of b
		kept.tick, kept.since, kept.listed, kept.single = b.tick, b.since, true, b.single
		rest := b.takeRest()
		for _, to := range rest {
			// A timeout that was reset and is in a bucket waits there for its new tick.
			word := to.word.Load()
			if waits(word) && (tickOf(word) <= b.tick || to.bucket == 0) {
				kept.due = append(kept.due, to)
			}
		}
		clear(rest)
		if len(kept.due) < cap(kept.due)/4 {
			kept.due = slices.Clone(kept.due) // frees memory, because the batch may wait for long
		}
		r.batches[i] = kept
		r.pruned += len(b.due) - len(kept.due)
		b.listed = false
		b.recycle()
		r.mu.Unlock()
		r.mu.Lock()
	}
	return again
}
