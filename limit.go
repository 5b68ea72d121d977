package hashedwheel

import "sync/atomic"

// A limit gives each pending timeout one of max slots. A timeout takes its slot before it becomes pending,
// and frees it after it has ended.
type limit struct {
	max int64 // immutable after New; 0 for no limit

	// All goroutines write inUse, so no other field may lie in its cache line. Without a limit nothing
	// reads or writes it.
	_     [64]byte
	inUse atomic.Int64 // never more than max
	_     [64]byte
}

// takeSlot takes a slot for a timeout that is about to become pending, and reports whether one was free.
// Without a limit it does nothing, and returns true.
//
// It must not add first, and subtract again if that was too much. In between, another goroutine that has
// just freed a slot would be refused.
func (t *Timer) takeSlot() bool {
	l := &t.limit
	if l.max == 0 {
		return true
	}
	for n := l.inUse.Load(); n < l.max; n = l.inUse.Load() {
		if l.inUse.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// freeSlot frees the slot of a timeout that is no longer pending.
func (t *Timer) freeSlot() {
	if t.limit.max > 0 {
		t.limit.inUse.Add(-1)
	}
}
