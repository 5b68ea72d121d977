package hashedwheel

// Cascading
//
// When the hand enters the block of a bucket on an upper level, all that is in it has to be on a
// lower one. To move it just then would keep waiting what is due at that moment: a bucket may hold
// millions, and moving one timeout costs 20 ns, 100 where memory is cold. So it is moved while the
// hand goes through the block before, a few at a time, between the ticks. From there the level below
// reaches to the end of the block, since two blocks are one turn of it: nothing more gets into the
// bucket.
//
// For a bucket with few entries the worker does not wake up. Whatever has not come down in time is
// moved when the hand gets there.

const (
	// cascadeChunk is how many entries are looked at before the worker looks at the clock again.
	cascadeChunk = 1 << 10

	// worthWaking is the number of entries above which it is worth waking up to have them come
	// down in time. As many keep what is due at the same moment waiting for up to half a
	// millisecond.
	worthWaking = 1 << 12
)

// wanted returns the first tick at which a bucket, which is not empty, needs the worker. The hand is
// at tick now.
func (l *level) wanted(slot, now uint64) uint64 {
	b := &l.buckets[slot]
	if l.shift == 0 || b.len() <= worthWaking {
		return b.min
	}
	return max(now+1, (b.min>>l.shift-1)<<l.shift)
}

// cascade brings down some of the timeouts whose blocks the hand enters next, and reports whether
// there are more. It may find some that are due.
func (w *wheel) cascade(emit func(to *Timeout)) (more bool) {
	budget := cascadeChunk
	for i := 1; i < len(w.levels) && budget > 0; i++ {
		budget -= w.bringDown(i, budget, emit)
	}
	return budget == 0
}

// bringDown is cascade for one level. It looks at no more than so many entries, and returns at how
// many it has.
func (w *wheel) bringDown(i int, most int, emit func(to *Timeout)) (looked int) {
	l := &w.levels[i]
	block := w.now>>l.shift + 1
	slot := block & (1<<w.bits - 1)
	if l.shift == 0 || l.buckets == nil || !l.occupied.has(slot) {
		return 0
	}
	b := &l.buckets[slot]
	if b.min>>l.shift > block {
		return 0 // all of a later round
	}
	if l.block != block {
		l.block, l.unmet = block, b.len()
	}
	// Others may have been removed meanwhile. Their gaps were filled from the end, so whoever
	// has not been met is still below unmet.
	l.unmet = min(l.unmet, b.len())
	looked = min(l.unmet, most)
	if looked == 0 {
		return 0
	}
	w.visit(i, slot, l.unmet-looked, l.unmet, block, emit)
	l.unmet -= looked
	switch {
	case l.unmet == 0:
		l.findMin(slot)
	case b.len() > 0:
		l.stale.set(slot)
	}
	return looked
}
