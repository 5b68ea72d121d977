package crew

import (
	"runtime/debug"
	"sync"
)

// A runner runs tasks. It has a goroutine of its own and takes items from the list of its crew until none is left.
// With an executor, a runner runs only one task, on a goroutine of the executor.
//
// Where many items wait and tasks do not block, a runner takes a group of items at a time, so that it seldom needs
// the lock of the crew. For a task that does little, most of the cost is in operations that lock a cache line,
// because the processor waits for each. A runner needs three of them for a task: to lock itself, to claim, and to
// unlock.
type runner[T comparable] struct {
	crew *Crew[T] // immutable
	one  bool     // it runs only one task; set before it starts

	// Guarded by the lock of the crew.
	place int    // its index in crew.live
	held  int    // its index in crew.holding, if it holds a group
	seen  uint64 // the value of tasks at the last check

	// Owned by the runner.
	gap     uint64 // of so many tasks it measures the last: see claimNext
	since   uint64 // tasks since the last one that it measured
	again   bool   // it claims its item again, before the next of the group
	inRow   int    // how often it has done so for this item
	crashed bool   // the panic handler has panicked, so the program crashes

	// Guarded by mu. A field that only the runner changes it may also read without the lock.
	mu    sync.Mutex
	first T             // an item that it has taken alone and not claimed yet, the zero T if none
	group *chunk[T]     // the group that it holds; nil if none
	holds bool          // it holds a group, and is in crew.holding; changed with the lock of the crew held too
	tasks uint64        // while it holds a group: tasks started since then
	item  T             // the item that it has claimed last, the zero T if none
	quiet bool          // the task of that item has returned; only Ran may still be in progress
	over  chan struct{} // closed when that task has returned; nil if no goroutine waits for that
}

// maxInRow is how often a runner runs a task again at once while other items wait. To let the others go first each
// time would cost much more than a task that is only a little behind.
const maxInRow = 4

// run is the goroutine of the runner, which has taken its first items.
func (rn *runner[T]) run() {
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
func (rn *runner[T]) runTasks() (more bool) {
	c := rn.crew
	running := false
	var item T
	var how Claim
	defer func() {
		if running {
			more = true
			rn.failed(item, how, recover())
		}
	}()
	for {
		item, how = rn.claimNext()
		if how == Refused {
			if !c.refill(rn) {
				return false
			}
			continue
		}
		running = true
		if c.Labels != nil {
			setLabels(c.Labels) // the task before may have set others
		}
		c.host.Run(item)
		running = false
		if how == ClaimedAndTell {
			rn.ranHooked(item)
		}
		if rn.one {
			return false
		}
	}
}

// claimNext claims the next item of the group, and counts it. The caller must then run its task. It refuses if no
// item is left, or if the crew is closed.
//
// It measures the first, the ninth and the last task of a group, because to measure costs more than all other work for
// a task: a reading of the clock, and counters that all runners share. Each measured task counts for the tasks before it
// that were not.
func (rn *runner[T]) claimNext() (item T, how Claim) {
	c := rn.crew
	var none T
	rn.mu.Lock()
	defer rn.mu.Unlock() // also if Claim panics, because the clock belongs to another synctest bubble
	if c.closed.Load() {
		return none, Refused // without forgetting an item that is due again: Close takes it
	}
	item = rn.item
	rn.forget()
	if !rn.again {
		rn.inRow = 0
	}
	for rn.again || rn.first != none || rn.holds && rn.group.n > 0 {
		switch {
		case rn.again:
			rn.again = false
		case rn.holds:
			item = rn.group.takeOne()
		default:
			item, rn.first = rn.first, none
		}
		measure := rn.since + 1
		if last := !rn.holds || rn.group.n == 0; measure < rn.gap && !last {
			measure = 0
		}
		if how = c.host.Claim(item, measure); how == Refused {
			continue
		}
		rn.item = item
		if rn.since++; measure != 0 {
			rn.since, rn.gap = 0, 8*rn.gap
		}
		if rn.holds {
			rn.tasks++
		} else {
			c.started.Add(1)
		}
		return item, how
	}
	return none, Refused
}

// endTask forgets the item whose task is over.
func (rn *runner[T]) endTask() {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	rn.forget()
}

// forget is endTask for a caller that holds mu.
func (rn *runner[T]) forget() {
	var none T
	rn.item, rn.quiet = none, false
	if rn.over != nil {
		close(rn.over)
		rn.over = nil
	}
}

// ranHooked calls Host.Ran for an item whose task is over. Goroutines that wait for the end of the task need not
// wait for Ran.
func (rn *runner[T]) ranHooked(item T) {
	rn.mu.Lock()
	rn.quiet = true
	if rn.over != nil {
		close(rn.over)
		rn.over = nil
	}
	rn.mu.Unlock()
	c := rn.crew
	again, alone := true, false
	defer func() { // also if Ran ends the goroutine: then what it would have returned is not known
		if again && !alone {
			c.host.Requeue(item)
		}
	}()
	again = c.host.Ran(item)
	if again && !rn.one && (rn.inRow < maxInRow || c.nothingWaits(rn)) {
		alone, rn.again = true, true
		rn.inRow++
	}
}

// failed handles a task that panicked with value, or that ends the goroutine by runtime.Goexit. It reports the
// panic, and sees to it that Host.Ran is called. But if the panic handler panics, that crashes the program, unless
// an executor recovers it.
func (rn *runner[T]) failed(item T, how Claim, value any) {
	defer func() {
		value := recover() // the handler's
		if how == ClaimedAndTell && (value == nil || rn.one) {
			rn.ranHooked(item)
		}
		if value != nil {
			rn.crashed = true
			panic(value)
		}
	}()
	if value != nil {
		rn.crew.host.Panicked(item, value, debug.Stack())
	}
}

// untilOver returns a channel that is closed when the task of an item is over, or nil if the runner is not running
// that task. It waits while the runner claims.
func (rn *runner[T]) untilOver(item T) <-chan struct{} {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	if rn.item != item || rn.quiet {
		return nil
	}
	if rn.over == nil {
		rn.over = make(chan struct{})
	}
	return rn.over
}

// remove takes an item out of the group of the runner, given its position, and reports whether it was there. Called
// with the lock of the crew held.
func (rn *runner[T]) remove(item T, pos uint32) bool {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	return rn.group.remove(item, pos)
}

// inTask reports whether the runner has claimed an item whose task is not over. It waits while the runner claims.
func (rn *runner[T]) inTask() bool {
	var none T
	rn.mu.Lock()
	defer rn.mu.Unlock()
	return rn.item != none
}

// tasksHeld returns the value of tasks. Called with the lock of the crew held.
func (rn *runner[T]) tasksHeld() uint64 {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	return rn.tasks
}

// giveUp returns the item that the runner has claimed last, if any, and takes the rest of its group away. It waits
// while the runner claims. Called by Close.
func (rn *runner[T]) giveUp() (rest []T) {
	var none T
	rn.mu.Lock()
	defer rn.mu.Unlock()
	for _, item := range [2]T{rn.first, rn.item} {
		if item != none {
			rest = append(rest, item)
		}
	}
	rn.first = none
	for rn.holds && rn.group.n > 0 {
		rest = append(rest, rn.group.takeOne())
	}
	return rest
}
