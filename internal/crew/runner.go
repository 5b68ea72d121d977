package crew

import (
	"runtime/debug"
	"sync/atomic"
)

// The word of a runner
//
// Most tasks do little. Then most of their cost is in operations that lock a cache line, because the processor waits for
// each. Besides the claim of the host, a runner needs one of them for a task: it adds to its word. That ends the task
// before, and takes the next slot of its group. The word holds the number of slots taken so far, and two bits:
//
//	          add                 claim, run               set quiet                  add
//	group ---------> slot taken ------------> task is over ---------> Ran in progress -----> next slot
//	                                               |                                            ^
//	                                               +--------------------------------------------+
//
//	held    another goroutine has looked at the slots, or changed them: the runner takes the lock before it goes on
//	quiet   the task in the last slot taken has returned, and only Host.Ran is in progress
//
// Other goroutines remove items from a group, take it away, wait for a task, or close the crew. They follow these rules:
//
//  1. Another goroutine locks the crew and sets held. The number in the word before that tells which slots the runner
//     has taken. It takes no others before it gets the lock, although it may add to its word once. So the items in the
//     slots behind are for the goroutine that has the lock, which may take them out.
//  2. The last slot taken keeps its item until the runner takes another. The runner may be about to claim the item, or
//     run its task, or be done: the word does not say. So Close returns that item too, and the host decides by its claim
//     whether the task has started.
//  3. A runner that finds held clears it, with the lock, after its task is over.
//
// To take a slot counts as the start of its task. If the host refuses, or the item was taken out, the runner corrects
// that: for a moment the count is too high by one.
const (
	held    = 1
	quiet   = 2
	oneSlot = 4
)

// A Runner runs tasks. It has a goroutine of its own and takes items from the list of its crew until none is left.
// With an executor, a runner runs only one task, on a goroutine of the executor. Where many items wait and tasks do not
// block, a runner takes a group of items at a time, so that it seldom needs the lock of the crew.
//
// The loop over the items is in Host.Work, so that a task costs no calls through an interface but its own.
type Runner[T comparable] struct {
	crew *Crew[T] // immutable
	one  bool     // it runs only one task; set before it starts

	word atomic.Uint64

	// Written by the runner, with the lock of the crew held. The items follow the rules above.
	slots []T    // the items of its group, or the one that it has taken alone
	begin uint64 // how many slots it had taken before it got these
	alone [1]T   // the slot of an item that it has taken alone

	// Guarded by the lock of the crew.
	place  int           // its index in crew.live
	group  *chunk[T]     // where the slots lie; nil if alone
	holds  bool          // it is in crew.holding, because others may take items out of its group
	held   int           // its index there
	kept   int           // how many slots are left to it after that
	seen   uint64        // the number of slots taken at the last check
	heldAt int           // how many of its slots it had taken when held was set
	over   chan struct{} // closed when the task in the last slot taken is over; nil if no goroutine waits for that

	// Owned by the runner.
	item      T      // the item that it has taken last
	running   bool   // its task has been started, and has not returned
	tell      bool   // Host.Ran follows
	ranLast   bool   // quiet is set
	again     bool   // it claims its item again, before the next of the group
	crashed   bool   // the panic handler has panicked, so the program crashes
	measures  bool   // it measures the item
	inRow     int    // how often it has run the item again
	measureAt int    // the index of the next slot of the group that it measures
	since     uint64 // tasks since the last one that it measured
}

// maxInRow is how often a runner runs a task again at once while other items wait. To let the others go first each
// time would cost much more than a task that is only a little behind.
const maxInRow = 4

// run is the goroutine of the runner, which has taken its first items.
func (rn *Runner[T]) run() {
	ended := false
	defer func() {
		if !ended && !rn.crashed {
			go rn.run() // a task has ended this goroutine by runtime.Goexit
		}
	}()
	for rn.runTasks() {
	}
	ended = true
}

// runTasks claims items and runs their tasks. It returns true when a task has panicked, and false when nothing is
// left to do. Then the runner must not be used any more, unless it is for only one task.
func (rn *Runner[T]) runTasks() (more bool) {
	over := false
	defer func() {
		if !over && rn.running { // otherwise Ran has ended the goroutine
			more = true
			rn.failed(recover())
		}
	}()
	rn.crew.host.Work(rn)
	over = true // from here on another goroutine may use the runner
	return false
}

// Next ends the task before, if there was one, and returns the next item. The host claims it, and then calls Start or
// Refuse. If nothing is left to do, Next returns the zero T.
func (rn *Runner[T]) Next() (item T) {
	var none T
	if rn.running {
		rn.running = false
		if rn.tell {
			rn.ranHooked()
		}
		if rn.one {
			return none
		}
	}
	if rn.again { // after Close, the host refuses
		rn.again, rn.ranLast, rn.measures = false, false, true
		rn.word.And(^uint64(quiet))
		rn.crew.started.Add(1)
		return rn.item
	}
	for {
		add := uint64(oneSlot)
		if rn.ranLast {
			add -= quiet
			rn.ranLast = false
		}
		word := rn.word.Add(add) // the task before is over, and the slot is ours
		i := int(word/oneSlot - rn.begin - 1)
		if word&held != 0 || i >= len(rn.slots) {
			if !rn.crew.refill(rn) {
				return none
			}
			continue
		}
		if i > 0 {
			rn.slots[i-1] = none // its task is over
		}
		if item = rn.slots[i]; item != none {
			rn.item = item
			rn.measures = i >= rn.measureAt || i == len(rn.slots)-1
			return item
		}
		rn.uncount()
	}
}

// Start is called when the host has claimed the item. The host must then run the task. Tell says that Host.Ran is to be
// called when the task is over.
//
// If measure is not 0, the host measures how late the task is, for that many tasks: this one, and those before it that
// were not measured. These are the first, the ninth, the 73rd and the last task of a group, because to measure costs
// more than all other work for a task: a reading of the clock, and counters that all runners share.
func (rn *Runner[T]) Start(tell bool) (measure uint64) {
	rn.running, rn.tell = true, tell
	if labels := rn.crew.Labels; labels != nil {
		setLabels(labels) // the task before may have set others
	}
	rn.since++
	if rn.measures {
		measure, rn.since = rn.since, 0
		rn.measureAt = 8 + 8*rn.measureAt
	}
	return measure
}

// Refuse is called instead of Start if the task of the item is not to run.
func (rn *Runner[T]) Refuse() { rn.uncount() }

// uncount corrects the number of tasks started.
func (rn *Runner[T]) uncount() { rn.crew.started.Add(^uint64(0)) }

// ranHooked calls Host.Ran for the item, whose task is over. Goroutines that wait for the end of the task need not
// wait for Ran.
func (rn *Runner[T]) ranHooked() {
	c := rn.crew
	rn.ranLast = true
	if rn.word.Or(quiet)&held != 0 {
		c.mu.Lock()
		rn.endTask()
		c.mu.Unlock()
	}
	again, alone := true, false
	defer func() { // also if Ran ends the goroutine: then what it would have returned is not known
		if again && !alone {
			c.host.Requeue(rn.item)
		}
	}()
	again = c.host.Ran(rn.item)
	if again && !rn.one && (rn.inRow < maxInRow || c.nothingWaits(rn)) {
		alone, rn.again = true, true
		rn.inRow++
	} else {
		rn.inRow = 0
	}
}

// failed handles a task that panicked with value, or that ends the goroutine by runtime.Goexit. It reports the
// panic, and sees to it that Host.Ran is called. But if the panic handler panics, that crashes the program, unless
// an executor recovers it.
func (rn *Runner[T]) failed(value any) {
	rn.running = false
	defer func() {
		value := recover() // the handler's
		if rn.tell && (value == nil || rn.one) {
			rn.ranHooked()
		}
		if value != nil {
			rn.crashed = true
			panic(value)
		}
	}()
	if value != nil {
		rn.crew.host.Panicked(rn.item, value, debug.Stack())
	}
}

// taken returns how many of its slots the runner has taken, given its word. One too many means that it has tried to take
// another, and waits for the lock. Called with the lock of the crew held.
func (rn *Runner[T]) taken(word uint64) int { return int(word/oneSlot - rn.begin) }

// hold sets held. It returns the word before that, and how many slots the runner has taken. If held was set before, the
// runner may have tried to take another slot since then. That slot does not count, because the runner gives it back when
// it gets the lock. Called with the lock of the crew held.
func (rn *Runner[T]) hold() (word uint64, n int) {
	if word = rn.word.Load(); word&held == 0 {
		word = rn.word.Or(held)
		rn.heldAt = rn.taken(word)
	}
	return word, rn.heldAt
}

// untilOver returns a channel that is closed when the task in the last slot that the runner has taken is over, or nil if
// its item does not match. Called with the lock of the crew held.
func (rn *Runner[T]) untilOver(match func(item T) bool) <-chan struct{} {
	var none T
	if rn.group == nil && (len(rn.slots) == 0 || rn.slots[0] == none || !match(rn.slots[0])) {
		return nil // an item that was taken alone leaves its slot only with the lock held, so its runner need not stop
	}
	word, n := rn.hold()
	if n < 1 || n > len(rn.slots) || rn.slots[n-1] == none || !match(rn.slots[n-1]) || word&quiet != 0 {
		return nil
	}
	if rn.over == nil {
		rn.over = make(chan struct{})
	}
	return rn.over
}

// endTask wakes the goroutines that wait for the task in the last slot taken, which is over. Called with the lock of the
// crew held.
func (rn *Runner[T]) endTask() {
	if rn.over != nil {
		close(rn.over)
		rn.over = nil
	}
}
