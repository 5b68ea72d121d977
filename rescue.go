package hashedwheel

import (
	"slices"
	"time"
)

// What is done for runners that are stuck, and for what waits for them.

const (
	// slowTask is how long the tasks must take on average, for the runners there are, to
	// count as tasks that block. For shorter ones a goroutine each would cost more than it
	// gains. Tasks that need the processor for longer are told from those that block by the
	// runners added for them, which then get none: see look.
	slowTask = 5 * time.Microsecond

	// looksPerTick is how often in a tick the worker looks after runners that are behind,
	// and growth by what factor their number may grow each time. From 4 that gets a
	// thousand tasks past any number of blocked ones in five looks, a million in ten.
	looksPerTick = 16
	growth       = 4

	// mindEvery is how often, at least, the canceled ones are looked after once Stop has
	// ended the worker.
	mindEvery = 10 * time.Millisecond
)

// look looks after the runners and adds some if they are stuck. It reports whether anything
// waits for them, and whether it has waited since before this tick: then the caller should
// look again soon. Called only by the worker.
func (r *runners) look(tick uint64, elapsed time.Duration) (waiting, overdue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lookLocked(tick, elapsed)
}

// lookLocked is look, with mu held.
func (r *runners) lookLocked(tick uint64, elapsed time.Duration) (waiting, overdue bool) {
	r.prune()
	taken, left := r.added, 0
	for _, b := range r.batches {
		n := b.left()
		taken -= n
		if !r.held(b) {
			left += n
			overdue = overdue || b.tick < tick
		}
	}
	if left == 0 || r.atLimit() {
		r.looking = false // there is nothing to do, or nothing that may be done
		return false, false
	}
	moved, spent := taken-r.taken, elapsed-r.looked
	r.taken, r.looked = taken, elapsed
	switch slow := time.Duration(moved)*slowTask < time.Duration(len(r.live))*spent; {
	case !r.looking: // the first look
		r.looking = true
		r.step = growth
	case !overdue, r.begun.Load() < r.started:
		// Either there is time, or those added before have not had a processor yet:
		// then it is not the tasks that are slow, and more runners would not help.
	case slow:
		r.spawn(min(r.step, left))
		r.step = min(r.step*growth, 1<<20)
	}
	return true, overdue
}

// mind looks after what is left to be told when Stop has ended the worker, again and again until
// nothing is left. With a limit there is nothing to look after: there can be no more runners.
// Called with mu held.
func (r *runners) mind() {
	if r.minding || r.limit > 0 {
		return
	}
	clock := &r.timer.clock
	if waiting, _ := r.lookLocked(neverTick, clock.elapsed()); waiting {
		r.minding = true
		time.AfterFunc(max(min(clock.tick/looksPerTick, mindEvery), 1), func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.minding = false
			r.mind()
		})
	}
}

// sweep drops what has been canceled or reset from the batches of before this tick, since the
// one that they wait for may take long. It reports whether there are batches of this tick, for
// which it is to be called again. Called only by the worker.
func (r *runners) sweep(tick uint64) (again bool) {
	r.mu.Lock()
	batches := slices.Clone(r.batches)
	for _, b := range batches {
		b.holders++
	}
	r.mu.Unlock()
	defer r.letAllGo(batches)
	for _, b := range batches {
		if b.canceled || b.done() {
			continue
		}
		if b.tick >= tick {
			again = true
			continue
		}
		kept := r.newBatch()
		kept.tick, kept.own = b.tick, b.own
		rest := b.takeRest()
		for _, to := range rest {
			word := to.word.Load()
			if waits(word) && (tickOf(word) <= b.tick || to.bucket == 0) {
				kept.due = append(kept.due, to)
			}
		}
		r.mu.Lock()
		r.added -= len(rest) // those kept are added again
		none := len(kept.due) == 0
		if none {
			r.recycle(kept)
		}
		r.mu.Unlock()
		clear(rest)
		if !none {
			r.add(kept)
		}
	}
	return again
}
