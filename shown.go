package hashedwheel

import "sync/atomic"

// levelsShown is what the worker publishes of the wheel, so that others see how it is doing without a
// lock: the worker, which may be at work for as long as a million timeouts take, never waits for them,
// nor they for it. It publishes at the end of each round, and in between while it works off a long queue.
type levelsShown struct {
	levels []levelShown // one for each level of the wheel; the slice is immutable after New
	wheel  atomic.Bool  // there is one; written last
}

// A levelShown is about one level. Its fields may belong to two moments that follow one another.
type levelShown struct{ hand, inUse, count atomic.Uint64 }

// show publishes what there is to see of a wheel, or that there is none if it is nil. Called by the
// owner of the wheel.
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

// change stores a value that only the caller writes. Most often it is the same as before, and then the
// cache line stays where it is.
func change(x *atomic.Uint64, to uint64) {
	if x.Load() != to {
		x.Store(to)
	}
}
