package hashedwheel

import (
	"slices"
	"time"
)

// What is done for runners that are stuck, and for what waits for them.

const (
	// slowTask is how long the tasks must take on average, for the runners there are, to count as
	// tasks that block. For shorter ones a goroutine each would cost more than it gains. Tasks that use
	// the processor for longer look like tasks that block, until the runners added for them wait for a
	// processor too: then no more are added, see more.
	slowTask = 5 * time.Microsecond

	// looksPerTick is how often in a tick the worker looks after runners that are behind, and growth
	// is the factor by which their number may grow each time. From 4 that gets a thousand tasks past
	// any number of blocked ones in five looks, a million in ten.
	looksPerTick = 16
	growth       = 4
)

// progress tells whether goroutines get on with what waits for them. The zero value has not looked.
type progress struct {
	taken int  // of what has come so far
	seen  int  // taken at the last look
	slow  bool // they took less between the last two looks than if the tasks did not block
	step  int  // how many goroutines to add next; 0 before the first look
}

// more looks, and returns how many goroutines to add to the live ones. Spent is the time since the
// last look. The caller says whether any may be added. None should be while one that was added before
// has not had a processor yet: then it is not the tasks that are slow, and more would not help.
func (p *progress) more(spent time.Duration, live int, may bool) (n int) {
	p.slow = time.Duration(p.taken-p.seen)*slowTask < time.Duration(live)*spent
	p.seen = p.taken
	switch {
	case p.step == 0: // the first look
		p.slow = false
		p.step = growth
	case p.slow && may:
		n = p.step
		p.step = min(p.step*growth, 1<<20)
	}
	return n
}

// reset forgets the looks so far, because nothing waits any more.
func (p *progress) reset() { p.seen, p.slow, p.step = p.taken, false, 0 }

// checkStalled adds runners if those that are live are stuck. Spent is the time since the last call.
// It reports whether anything waits for runners, and whether it has waited since before this tick:
// then the caller should call again soon. Called only by the worker.
//
// With a limit there is nothing to be done for what waits, and an executor looks after itself.
func (r *runners) checkStalled(tick uint64, spent time.Duration) (waiting, overdue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dispatch != nil || r.atLimit() {
		r.progress.reset()
		return false, false
	}
	atWork, late := r.giveBack(tick) // before prune, which asks what is left
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

// giveBack puts what stuck runners have taken from their batches, and have not claimed, into new batches. A
// runner is stuck if it has been in the same task since the last look. If the tasks are slow, all runners
// give back, and from then on take one timeout at a time. GiveBack reports whether other runners may have
// something left, and whether any of that was due before this tick. Called with mu held.
func (r *runners) giveBack(tick uint64) (atWork, late bool) {
	for _, rn := range r.live {
		if rn.grab <= 1 {
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
		rn.grab = 1
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

// sweep drops what has been canceled or reset from the batches of before this tick, because the
// runner or the turn that they wait for may take long. It reports whether there are batches of this
// tick, for which it is to be called again. Called only by the worker.
//
// Mu is held for one batch at a time. From the last batch to the first, so that none is passed over
// when others are pruned meanwhile.
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
			// What is not due any more, and in a bucket, is there for its new tick.
			word := to.word.Load()
			if waits(word) && (tickOf(word) <= b.tick || to.bucket == 0) {
				kept.due = append(kept.due, to)
			}
		}
		clear(rest)
		if len(kept.due) < cap(kept.due)/4 {
			kept.due = slices.Clone(kept.due) // it may have to wait for long
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
