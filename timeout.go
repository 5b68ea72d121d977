package hashedwheel

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// The word
//
// Goroutines race for one word of 64 bits in the Timeout, and for nothing else. The word holds the tick and
// the status. Five further bits each say one thing: the timeout is on the queue; a run of a repeating timeout
// is in progress; the timeout was reset since it was armed, or during that run; it has a hook; the worker has
// never taken it off the queue. The remaining bits detect copies of the Timeout.
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
// Then it is armed for the next run, or expires if its schedule has ended.
//
// Cancel, Reset and the runner's claim are each one compare-and-swap of the whole word. So
// when two of them race, one wins, and the other sees the result.
//
// The rules, which the rest of the package relies on:
//
//  1. A goroutine that sets the queued bit pushes the timeout on the queue. A goroutine that finds the
//     bit set need not push, because the worker has yet to take the timeout, and will see the changed word.
//     The worker clears the bit after it has taken the timeout off the queue, and reads the rest of the
//     word in the same atomic step. Stop does the same, and so does a producer that drops a canceled
//     timeout: see prune.go.
//  2. A goroutine sets the bit, and pushes, only inside the gate (see stop.go), or as a runner that is
//     claiming, or in NewTimeout, when no other goroutine knows the timeout. Only the push of NewTimeout
//     can find that Stop has closed the queue, and no other goroutine relies on that push.
//  3. A pending timeout whose bit is clear is in a bucket at a tick not later than its own, or in a
//     list of due timeouts, or with the worker or a runner. If a runner finds a timeout of its group reset to
//     a later tick, and its bit clear, it puts the timeout on the queue again.
//  4. A runner claims a timeout only if the boundary of the tick in the word has passed. A Reset may put a
//     timeout on the list while a runner still has it: one claim wins, and no claim is early.
//  5. While a timeout is at work, no runner claims it, and it is put into no bucket or list. So its runs
//     never overlap. When the run is over, the runner arms the timeout again or ends it, as the word says
//     then.
const (
	statusMask = 1<<2 - 1
	queued     = 1 << 2 // on the queue, or about to be pushed
	atWork     = 1 << 3 // repeating, and a run is in progress
	moved      = 1 << 4 // reset since it was armed, or while at work
	hooked     = 1 << 5 // the task is a hook; never changes
	fresh      = 1 << 6 // in no bucket and on no list: the worker has never taken it off the queue
	sumShift   = 7
	sumMask    = 1<<4 - 1 // hash of the address of a timeout bound by Init, see checkCopy; 0 for others
	tickShift  = sumShift + 4

	idle     = 0 // has never been armed
	pending  = 1 // will expire or run again, unless it is canceled before
	expired  = 2 // its task has been started, or is just about to be
	canceled = 3 // ended by Cancel or by Stop
)

func status(word uint64) uint64 { return word & statusMask }
func tickOf(word uint64) uint64 { return word >> tickShift }

// withStatus returns the word with another status. The rest is as it was.
func withStatus(word, status uint64) uint64 { return word&^statusMask | status }

// waits reports whether a timeout is pending and not at work.
func waits(word uint64) bool { return word&(statusMask|atWork) == pending }

// pendingAt returns the word of a timeout that is pending at tick, and not moved. The other bits are as
// they were.
func pendingAt(word, tick uint64) uint64 {
	return tick<<tickShift | word&(queued|atWork|hooked|fresh|sumMask<<sumShift) | pending
}

// A Timeout is the handle of a task that a Timer runs later. Any goroutine may call its methods at any
// time, also from inside the task.
//
// Most often NewTimeout or AfterFunc makes it. It can also be a field of your own struct: [Timer.Init]
// binds it to a timer and a task, and then arming it allocates nothing. The zero Timeout is idle: it is not
// pending, expired or canceled. Its Cancel and Move return false, and its Wait returns at once.
//
// A Timeout must not be copied after Init. Resetting a copy, or canceling one that is pending, panics in 14
// of 15 cases. It must not be overwritten either, not even by its zero value, until the second tick boundary
// after it has ended.
//
// It takes 48 bytes on 64-bit machines. As long as you keep the handle, it keeps the task in memory. The
// library itself keeps neither the handle nor the task beyond the second tick boundary after the timeout has
// ended.
type Timeout struct {
	// Immutable after NewTimeout, or Init.
	timer *Timer
	task  Task // the user's, or a hook

	// Shared.
	word atomic.Uint64

	// Owned until the push by the goroutine that has set the queued bit. Then owned by the goroutine that
	// takes the timeout off the queue.
	link *Timeout

	// Owned by the worker: the number of the bucket, as wheel.placeOf returns it, 0 for none, or listed; and the
	// position in the bucket, or on the list.
	bucket, pos uint32
}

// wordPtr returns the word of a timeout that no other goroutine knows yet. It can be set without the fence
// of an atomic store, because the push that makes the timeout known has one.
func (to *Timeout) wordPtr() *uint64 { return (*uint64)(unsafe.Pointer(&to.word)) }

// hook returns the timeout's hook, nil if it has none.
func (to *Timeout) hook() hook {
	if to.word.Load()&hooked == 0 {
		return nil
	}
	return to.task.(hook)
}

// Cancel ends a pending timeout. It returns true for exactly one caller, and then the task never starts,
// even if it was already due. It returns false if the timeout is not pending: it has never been armed, its
// task has been started, or it has been canceled or returned by Stop. In the last two cases IsCanceled is
// true. A repeating timeout is pending until its schedule ends, also while its task runs. As long as it is
// pending, Cancel returns true, and no other run starts. Cancel waits for nothing, not even for a task that
// is running. It allocates nothing, unless the task is a Canceler, or the timer's goroutine has to be started.
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
			// The worker will see this when it takes the timeout off the queue.
			if to.word.CompareAndSwap(word, end) {
				t.canceled(to, s, word)
				return true
			}
			continue
		}
		// The worker has to remove the timeout if it lies in a bucket. After Stop there is no worker, and
		// no bucket.
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

// canceled does the remaining work after Cancel has ended a timeout. Word is the word from before the Cancel.
func (t *Timer) canceled(to *Timeout, s *stripe, word uint64) {
	s.canceled.Add(1)
	t.freeSlot()
	if word&hooked != 0 {
		to.task.(hook).disarmed(to, true)
	}
}

// claim claims a timeout that is pending and due: the timeout becomes expired, or at work if it repeats. It
// returns the new word. It returns 0 if the timeout was canceled or reset to a later tick. In the second case it
// puts the timeout on the queue if necessary. Called only by a runner that is claiming.
func (to *Timeout) claim() (claimed uint64) {
	for {
		word := to.word.Load()
		switch {
		case !waits(word):
			return 0
		case !to.timer.passed(tickOf(word)): // it was reset
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

// IsExpired reports whether the timeout has expired: its task is about to run, is running or has run. A
// repeating timeout expires only when its schedule ends. A Reset makes the timeout pending again.
func (to *Timeout) IsExpired() bool { return status(to.word.Load()) == expired }

// IsCanceled reports whether Cancel or Stop has ended the timeout before its task, or the next run of a
// repeating task, was started. A Reset makes the timeout pending again.
func (to *Timeout) IsCanceled() bool { return status(to.word.Load()) == canceled }

// Deadline returns the tick boundary at which the timeout expires, or was to expire. For a repeating timeout
// it is the boundary of the next run, or of the run in progress. It is the first one at or after the time
// that was asked for. If the delay is too long to be represented, Deadline is some 292 years after New. If
// the timeout has never been armed, it is the zero Time.
func (to *Timeout) Deadline() time.Time {
	word := to.word.Load()
	if status(word) == idle {
		return time.Time{}
	}
	c := &to.timer.clock
	return c.start.Add(c.boundary(tickOf(word)))
}

// Task returns the task in every state of the timeout, and nil before Init. For a timeout made by
// AfterFunc, it returns a Task that calls the function.
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
