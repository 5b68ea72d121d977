package hashedwheel

import "sync/atomic"

// levelsShown holds the state of the wheel that the worker publishes for Stats, so that reading it needs
// no lock. The worker may hold its lock for as long as a million timeouts take, but Stats never waits for that
// lock. The worker publishes at the end of each round, and several times while it
// drains a long queue.
type levelsShown struct {
	levels []levelShown // one for each level of the wheel; the slice is immutable after New
	wheel  atomic.Bool  // there is a wheel; written last
}

// A levelShown holds the state of one level. A reader may see some fields from one show and some from the
// next.
type levelShown struct{ hand, inUse, count atomic.Uint64 }

// show publishes the state of a wheel, or that there is none if w is nil. Called by the owner of the
// wheel.
func (s *levelsShown) show(w *wheel) {
	if w != nil {
		for i := range w.levels {
			l, shown := &w.levels[i], &s.levels[i]
			change(&shown.hand, w.now>>l.shift&(1<<w.bits-1))
			change(&shown.inUse, uint64(l.inUse))
			change(&shown.count, uint64(l.count))
		}
	}
	if s.wheel.Load() != (w != nil) {
		s.wheel.Store(w != nil)
	}
}

// change stores a value that only the caller writes. Most often the value is the same as before. Then change
// does not write, so other processors keep the cache line.
func change(x *atomic.Uint64, to uint64) {
	if x.Load() != to {
		x.Store(to)
	}
}
