package hashedwheel

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// The word
//
// All that goroutines race for is one word of 64 bits in the Timeout: its tick, its status, and a
// bit each that says whether it is on the queue, whether a run of a repeating one is in progress,
// whether it was reset meanwhile, whether it has a hook, and whether the worker has never had it.
//
//	 idle (Init)
//	   |        Reset                      a runner claims it
//	   |      +-------+                 +---------------------> expired
//	   +-->   |       v                 |                         |
//	NewTimeout ----> pending -----------+                         |
//	                  ^ ^               |  Cancel, Stop           |
//	                  | |               +---------------------> canceled
//	                  | +------------------- Reset ---------------+
//	                  +--------------------- Reset ---------------+
//
// A repeating timeout stays pending when it is claimed, and is at work until the run is over.
// Then it is armed for the next run, or has expired if its schedule has ended.
//
// Cancel, Reset and the runner's claim are each one compare-and-swap of the whole word. So
// of two that race, one wins, and the other sees what it did.
//
// The rules, which the rest of the package relies on:
//
//  1. A goroutine that sets the queued bit pushes the timeout on the queue. One that finds it set
//     need not: the worker is going to look at the timeout, and will see the word as it is then.
//     The worker clears the bit after it has taken the timeout off, and learns the rest of
//     the word in the same atomic step. So does Stop, and so does a producer that drops a
//     canceled timeout, see prune.go.
//  2. The bit is set, and the push made, inside the gate (see stop.go), or by a runner that is claiming,
//     or by NewTimeout before any other goroutine knows the timeout. So a push that others rely on cannot be the one that
//     finds the queue closed by Stop.
//  3. A pending timeout whose bit is clear is in a bucket at a tick not later than its own,
//     or in a batch of due ones, or in the hands of the worker or of a runner. A runner that
//     finds a timeout of its batch reset, and its bit clear, puts it on the queue again.
//  4. A runner claims a timeout if the tick in its word is not later than that of the batch,
//     however it got there. So it may be in several batches, by resets: one claim wins, and
//     none is early.
//  5. While a timeout is at work no runner claims it and nobody puts it anywhere: its runs never
//     overlap. Its runner arms it again, or ends it, as the word then says.
const (
	statusMask = 1<<2 - 1
	queued     = 1 << 2 // on the queue, or about to be pushed
	atWork     = 1 << 3 // repeating, and a run is in progress
	moved      = 1 << 4 // reset since it was armed, or while at work
	hooked     = 1 << 5 // the task is a hook; never changes
	fresh      = 1 << 6 // in no bucket and no batch: the worker has never taken it off the queue
	sumShift   = 7
	sumMask    = 1<<4 - 1 // of the address of a timeout bound by Init, to find copies; 0 for others
	tickShift  = sumShift + 4

	idle     = 0 // has never been armed
	pending  = 1 // will expire or run again, unless it is canceled before
	expired  = 2 // its task has been started, or is just about to be
	canceled = 3 // ended by Cancel, or handed back by Stop
)

func status(word uint64) uint64 { return word & statusMask }
func tickOf(word uint64) uint64 { return word >> tickShift }

// withStatus returns the word with another status, and all else as it was.
func withStatus(word, status uint64) uint64 { return word&^statusMask | status }

// waits reports whether a timeout is pending and not at work.
func waits(word uint64) bool { return word&(statusMask|atWork) == pending }

// pendingAt returns the word pending at tick, and not moved. The other bits are as they were.
func pendingAt(word, tick uint64) uint64 {
	return tick<<tickShift | word&(queued|atWork|hooked|fresh|sumMask<<sumShift) | pending
}

// A Timeout is the handle of a task that a Timer runs later. Its methods may be called by
// any goroutine at any time, also from inside the task.
//
// Most often NewTimeout or AfterFunc makes it. Or it is a field of the caller's own struct, which
// [Timer.Init] binds to a timer and a task: then arming it allocates nothing. The zero Timeout is idle.
// It is not pending, expired or canceled; Cancel and Move return false, and Wait returns at once.
//
// A Timeout must not be copied after Init: to cancel or to reset a copy panics, in 14 of 15 cases. It must
// not be overwritten either, not even by its zero value, before the library has let go of it.
//
// It takes 48 bytes on 64-bit machines. A caller who holds on to it keeps the task alive; the
// library lets go of both by the second tick boundary after the timeout has ended.
type Timeout struct {
	// Immutable after NewTimeout, or Init.
	timer *Timer
	task  Task // the user's, or a hook

	// Shared.
	word atomic.Uint64

	// Owned by the goroutine that set the queued bit until the push, then by the one that takes it off.
	link *Timeout

	// Owned by the worker: the bucket plus one, 0 for none, and the position in it.
	bucket, pos uint32
}

// wordPtr returns the word of a timeout that no other goroutine knows yet, to be set without the
// fence of an atomic store: the push that makes it known has one.
func (to *Timeout) wordPtr() *uint64 { return (*uint64)(unsafe.Pointer(&to.word)) }

// hook returns the timeout's hook, nil if it has none.
func (to *Timeout) hook() hook {
	if to.word.Load()&hooked == 0 {
		return nil
	}
	return to.task.(hook)
}

// Cancel ends a pending timeout. It returns true for exactly one caller, and then the task
// will never start, even if it was due already. It returns false if the task has been
// started, or if the timeout has been canceled or handed back by Stop. Cancel does not wait
// for a task that runs, nor for anything else, and allocates nothing, unless its task is a
// Canceler.
func (to *Timeout) Cancel() bool {
	word := to.word.Load()
	if status(word) != pending {
		return false
	}
	to.checkCopy(word)
	t := to.timer
	s := t.queue.stripe()
	for ; status(word) == pending; word = to.word.Load() {
		end := withStatus(word, canceled)
		if word&queued != 0 {
			// The worker will come across it anyway.
			if to.word.CompareAndSwap(word, end) {
				t.canceled(to, s, word)
				return true
			}
			continue
		}
		// It may lie in a bucket, from which the worker has to remove it. After Stop
		// there is no worker, and no bucket.
		open := t.enter(s)
		if open {
			end |= queued
		}
		ok := to.word.CompareAndSwap(word, end)
		if ok && open {
			t.pushAgain(s, to)
		}
		t.leave(s)
		if ok {
			t.canceled(to, s, word)
			return true
		}
	}
	return false
}

// canceled does what remains after Cancel has ended a timeout that had this word.
func (t *Timer) canceled(to *Timeout, s *stripe, word uint64) {
	s.canceled.Add(1)
	t.freeSlot(s)
	if word&hooked != 0 {
		to.task.(hook).left(to, true)
	}
}

// claim makes a pending timeout expired, or at work, if it is due by tick, and returns its word then.
// If it returns 0 the timeout has been canceled, or reset, and what then remains to be done for it
// has been. Called only by runners, while they are claiming.
func (to *Timeout) claim(tick uint64) (claimed uint64) {
	for {
		word := to.word.Load()
		switch {
		case !waits(word):
			return 0
		case tickOf(word) > tick: // it was reset
			if word&queued != 0 {
				return 0
			}
			if to.word.CompareAndSwap(word, word|queued) {
				to.timer.pushAgain(to.timer.queue.stripe(), to)
				return 0
			}
		case word&hooked != 0:
			if claimed = to.task.(hook).claim(to, word); claimed != 0 {
				return claimed
			}
		default:
			claimed = withStatus(word, expired)
			if to.word.CompareAndSwap(word, claimed) {
				return claimed
			}
		}
	}
}

// IsExpired reports whether the timeout has expired: its task is about to run, is running or
// has run. A repeating one has not, until its schedule ends. A Reset makes it pending again.
func (to *Timeout) IsExpired() bool { return status(to.word.Load()) == expired }

// IsCanceled reports whether the timeout was ended before its task was started, or started
// again, by Cancel or by Stop. A Reset makes it pending again.
func (to *Timeout) IsCanceled() bool { return status(to.word.Load()) == canceled }

// Deadline returns the tick boundary at which the timeout expires, or was to expire. It is
// the first one at or after the time that was asked for, and carries a monotonic reading. For
// a delay too long to be represented it is some 292 years after New. It is the zero Time if the
// timeout has never been armed.
func (to *Timeout) Deadline() time.Time {
	word := to.word.Load()
	if status(word) == idle {
		return time.Time{}
	}
	c := &to.timer.clock
	return c.start.Add(c.boundary(tickOf(word)))
}

// Task returns the task, in every state, and nil before Init. That of a timeout made by AfterFunc
// calls the function.
func (to *Timeout) Task() Task {
	task := to.task
	for {
		h, ok := task.(hook)
		if !ok || h.unwrap() == nil {
			return task
		}
		task = h.unwrap()
	}
}

// Timer returns the timer that the timeout belongs to, and nil before Init.
func (to *Timeout) Timer() *Timer { return to.timer }
