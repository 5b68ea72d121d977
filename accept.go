package hashedwheel

import "sync/atomic"

// accept counts a timeout that is about to become pending, as armed or rearmed, and refuses it where
// it would exceed the limit.
func (t *Timer) accept(counter *atomic.Uint64) error {
	if t.maxPending > 0 && !t.takeSlot() {
		t.rejected.Add(1)
		return ErrTooManyPending
	}
	if counter.Add(1)%summonEvery == 0 {
		t.worker.nudge()
	}
	return nil
}

// unaccept takes back an accept after which the timeout did not become pending.
func (t *Timer) unaccept(counter *atomic.Uint64) {
	counter.Add(^uint64(0))
	t.freeSlot()
}

// takeSlot takes one of maxPending, if there is one. It does so not by an Add that is taken back
// when it went too far, because meanwhile others would be refused for whom there is room.
func (t *Timer) takeSlot() bool {
	for {
		n := t.slots.Load()
		if n >= t.maxPending {
			return false
		}
		if t.slots.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// freeSlot gives back the slot of a timeout that has ended.
func (t *Timer) freeSlot() {
	if t.maxPending > 0 {
		t.slots.Add(-1)
	}
}
