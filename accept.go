package hashedwheel

import (
	"runtime"
	"sync/atomic"
	"time"
)

// maxEnding is how long, at most, somebody for whom there is no room looks again while others are
// ending: as long as a busy machine may keep a thread from going on.
const maxEnding = 100 * time.Millisecond

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

// takeSlot takes one of maxPending, if there is one. It does so not by an Add that is taken back
// when it went too far: meanwhile others would be refused for which there is room.
func (t *Timer) takeSlot() bool {
	const triesPerLook = 256 // at the clock
	var start time.Time
	for tries := 1; ; tries++ {
		ending := t.ending.Load() > 0 // before the slots: if none is, all in use are of pending ones
		n := t.slots.Load()
		switch {
		case n < t.maxPending:
			if t.slots.CompareAndSwap(n, n+1) {
				return true
			}
		case !ending:
			return false
		case tries%triesPerLook != 0:
			runtime.Gosched()
		case start.IsZero():
			start = time.Now()
		case time.Since(start) > maxEnding:
			return false
		}
	}
}

// unaccept takes back an accept after which the timeout did not become pending.
func (t *Timer) unaccept(counter *atomic.Uint64) {
	counter.Add(^uint64(0))
	if t.maxPending > 0 {
		t.slots.Add(-1)
	}
}

// canceled does what remains after Cancel has ended a timeout.
func (t *Timer) canceled(to *Timeout, s *stripe) {
	s.canceled.Add(1)
	t.freeSlot()
	switch to.task.(type) {
	case plainFunc, TaskFunc: // the usual ones, for which that is all: quick to find out
		return
	}
	t.leaveGroup(to)
	t.tellIfCanceler(to)
}

// willEnd announces that a timeout may be about to end, and have a slot to give. Either freeSlot
// gives it then, or wontEnd takes this back.
func (t *Timer) willEnd() {
	if t.maxPending > 0 {
		t.ending.Add(1)
	}
}

func (t *Timer) wontEnd() {
	if t.maxPending > 0 {
		t.ending.Add(-1)
	}
}

// freeSlot frees the slot of a timeout that has ended.
func (t *Timer) freeSlot() {
	if t.maxPending > 0 {
		t.slots.Add(-1)
		t.ending.Add(-1)
	}
}

// leaveGroup has a timeout that has ended leave its group, if it is in one.
func (t *Timer) leaveGroup(to *Timeout) {
	if m, ok := to.task.(*member); ok {
		m.end()
	}
}
