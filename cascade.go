package hashedwheel

// Cascading
//
// When the hand enters the block of a bucket on an upper level, all timeouts in that bucket must be on a
// lower level. Moving them just then would delay other timeouts that are due: a bucket may hold millions,
// and moving one costs 20 ns, or 100 ns where memory is cold. So the worker moves them while the hand goes
// through the block before, a few at a time, between the ticks. No timeout of that block is added meanwhile:
// one turn of the level below is two blocks, so that level already reaches to the end of the bucket's block.
//
// For a bucket with few entries the worker does not wake up. Timeouts that have not moved down in time
// move when the hand gets there.

const (
	// cascadeChunk is how many entries the worker checks before it checks the clock again.
	cascadeChunk = 1 << 10

	// worthWaking is the number of entries above which the worker wakes up to move them down in time.
	// Moving so many at the last moment delays other timeouts that are due by up to half a millisecond.
	worthWaking = 1 << 12
)

// neededAt returns the first tick at which a bucket needs the worker. The bucket must not be empty. The
// hand is at tick now.
func (l *level) neededAt(slot, now uint64) uint64 {
	b := &l.buckets[slot]
	if l.shift == 0 || b.len() <= worthWaking {
		return b.min
	}
	return max(now+1, (b.min>>l.shift-1)<<l.shift)
}

// cascade moves down some of the timeouts whose blocks the hand enters next, and reports whether
// there may be more. It calls emit for each timeout that is already due.
func (w *wheel) cascade(emit func(to *Timeout)) (more bool) {
	budget := cascadeChunk
	for i := 1; i < len(w.levels) && budget > 0; i++ {
		budget -= w.bringDown(i, budget, emit)
	}
	return budget == 0
}

// bringDown is cascade for one level. Most bounds how many entries it checks. It returns how many it has
// checked.
func (w *wheel) bringDown(i int, most int, emit func(to *Timeout)) (checked int) {
	l := &w.levels[i]
	block := w.now>>l.shift + 1
	slot := block & (1<<w.bits - 1)
	if l.shift == 0 || l.buckets == nil || !l.occupied.has(slot) {
		return 0
	}
	b := &l.buckets[slot]
	if b.min>>l.shift > block {
		return 0 // all entries belong to a later round
	}
	if l.block != block {
		l.block, l.toCascade = block, b.len()
	}
	// Entries may have been removed meanwhile. Their gaps were filled from the end, so all entries that
	// have not been checked yet are still below toCascade.
	l.toCascade = min(l.toCascade, b.len())
	checked = min(l.toCascade, most)
	if checked == 0 {
		return 0
	}
	w.visit(i, slot, l.toCascade-checked, l.toCascade, block, emit)
	l.toCascade -= checked
	switch {
	case l.toCascade == 0:
		l.findMin(slot)
	case b.len() > 0:
		l.stale.set(slot)
	}
	return checked
}
