package pool

import (
	"runtime/debug"
	"sync/atomic"
)

// A Runner runs tasks. It has a goroutine of its own and takes items from the list of its pool until none is left.
// With an executor, a runner runs only one task, on a goroutine of the executor. Where many items wait and tasks do not
// block, a runner takes a batch of items at a time, so that it seldom needs the lock of the pool: see stop.
//
// The loop over the items is in Host.Work, so that a task costs no calls through an interface but its own.
type Runner[T comparable] struct {
	pool *Pool[T] // immutable

	// How many slots it has taken, or tries to take, times 2, and the bit returned. Written by the runner.
	word atomic.Uint32

	// How many of the slots are left to it. Negated while it must come for the lock before it takes another one. Written
	// with the lock of the pool held.
	limit atomic.Int32

	// Written with the lock of the pool held. The runner reads the slot that it has taken last without the lock: no
	// goroutine writes that slot, and only the runner writes the slice.
	slots  []T  // the items of its batch, or the one that it has taken alone
	single [1]T // the slot of an item that it has taken alone

	// Guarded by the lock of the pool.
	batch *chunk[T]     // where the slots lie; nil for an item that it has taken alone
	place int           // its index in pool.live
	seen  int           // how many slots it had taken at the last check
	over  chan struct{} // closed when the task in the last slot taken is over; nil if no goroutine waits for that

	// Owned by the runner.
	running   bool   // its task has been started, and endRun has not been called
	tell      bool   // Host.Ran follows
	inRow     int    // how often it has run the item again
	since     uint64 // tasks since the last one that it measured
	measureAt int    // it measures the next task that starts after so many slots
}

const (
	// returned is set in the word when the task in the last slot taken has returned, and only Host.Ran is in progress.
	returned = 1

	// maxInRow is how often a runner runs a task again at once while other items wait. To let the others go first each
	// time would cost much more than a task that is only a little behind.
	maxInRow = 4
)

// run is the goroutine of the runner, which has taken its first items.
func (rn *Runner[T]) run() {
	ended := false
	defer func() {
		if ended {
			return
		}
		if value := recover(); value != nil {
			panic(value) // from the panic handler: this crashes the program
		}
		go rn.run() // a task has ended this goroutine by runtime.Goexit
	}()
	for rn.runTasks() {
	}
	ended = true
}

// runTasks claims items and runs their tasks. It returns true when a task has panicked, and false when nothing is
// left to do. Then the runner must not be used any more, except with an executor.
func (rn *Runner[T]) runTasks() (more bool) {
	over := false
	defer func() {
		if over || !rn.running { // if not over, Ran has ended the goroutine
			return
		}
		more = true
		if value := recover(); value != nil { // nil after runtime.Goexit
			rn.pool.host.Panicked(rn.last(), value, debug.Stack())
		}
	}()
	rn.pool.host.Work(rn)
	over = true // from here on another goroutine may use the runner
	return false
}

// last returns the item in the slot that the runner has taken last.
func (rn *Runner[T]) last() T { return rn.slots[rn.taken()-1] }

// taken returns how many slots the runner has taken, or tries to take.
func (rn *Runner[T]) taken() int { return int(rn.word.Load() >> 1) }

// Next ends the task before, if there was one, and returns the next item. The host claims it, and then calls Start or
// Refuse. If nothing is left to do, Next returns the zero T.
func (rn *Runner[T]) Next() (item T) {
	var none T
	if rn.running {
		if rn.endRun() {
			return rn.last() // its next run is due already. After Close, the host refuses
		}
		if rn.pool.outside != nil {
			return none // it runs only one task
		}
	}
	rn.inRow = 0
	for {
		n := rn.taken() + 1
		if n <= int(rn.limit.Load()) {
			rn.word.Store(uint32(n) << 1) // before the next load: see stop. It also says that the task before is over
		}
		if n > int(rn.limit.Load()) {
			if n = rn.pool.refill(rn, n); n == 0 {
				return none
			}
		}
		if item = rn.slots[n-1]; item != none {
			return item
		}
		rn.Refuse() // it was removed before the runner took the batch
	}
}

// Start is called when the host has claimed the item. The host must then run the task. Tell says that Host.Ran is to be
// called when the task is over.
//
// If measure is not 0, the host measures how late the task is, for that many tasks: this one, and those before it that
// were not measured. These are the first, the ninth, the 73rd and the last task of a batch, because to measure costs
// more than all other work for a task: a reading of the clock, and counters that all runners share. Runs again count too.
func (rn *Runner[T]) Start(tell bool) (measure uint64) {
	rn.running, rn.tell = true, tell
	if labels := rn.pool.Labels; labels != nil {
		setLabels(labels) // the task before may have set others
	}
	rn.since++
	if n := rn.taken(); n > rn.measureAt || n == len(rn.slots) || rn.inRow > 0 {
		measure, rn.since = rn.since, 0
		rn.measureAt = 8 + 8*rn.measureAt
	}
	return measure
}

// Refuse is called instead of Start if the task of the item is not to run.
func (rn *Runner[T]) Refuse() { rn.pool.refused.Add(1) }

// endRun ends the run of a task that has returned. It reports whether the task is to run again at once.
func (rn *Runner[T]) endRun() (again bool) {
	rn.running = false // first, because Ran may end the goroutine
	return rn.tell && rn.ran()
}

// ran calls Host.Ran. Goroutines that wait for the end of the task need not wait for that.
func (rn *Runner[T]) ran() (again bool) {
	p, item, word := rn.pool, rn.last(), rn.word.Load()
	rn.word.Store(word | returned) // before the load: see untilOver
	if rn.limit.Load() < 0 {
		p.mu.Lock()
		rn.endTask()
		p.mu.Unlock()
	}
	requeue := true
	defer func() { // also if Ran ends the goroutine: then what it would have returned is not known
		if requeue {
			p.host.Requeue(item)
		}
	}()
	requeue = p.host.Ran(item)
	if !requeue || p.outside != nil || rn.inRow >= maxInRow && !p.nothingWaits(rn) {
		return false
	}
	requeue = false
	rn.inRow++
	p.refused.Add(^uint64(0)) // because it starts one more task, and takes no slot for it
	rn.word.Store(word)
	return true
}

// stop makes a runner take no slot until it has had the lock, and returns how many it has taken. Called with the lock of
// the pool held.
//
// Most tasks do little. Then most of their cost is in operations that lock a cache line, because the processor waits for
// each. Besides the claim of the host, a runner needs one of them for a task: the store of its word. That ends the task
// before, and takes the next slot. So the runner and stop agree about a slot without a lock: each stores, and then loads
// what the other stores.
//
// The caller does not know how far the runner is with the last slot taken: whether its item is not claimed yet, is
// running, or over. So no other goroutine writes that slot, and Close returns the item: the host's claim decides.
func (rn *Runner[T]) stop() (n int) {
	// The limit comes before the word, and in Next the word before the limit. If the word does not count a slot here, the
	// runner finds the limit negative there, goes for the lock before it touches the slot, and learns whether the slot is
	// still left to it. If the word counts the slot, the slot is the runner's, also if the runner goes for the lock.
	rn.limit.Store(int32(-rn.end()))
	return rn.takenOf()
}

// end returns how many of the slots are left to the runner. Called with the lock of the pool held, or by the runner.
func (rn *Runner[T]) end() int {
	n := int(rn.limit.Load())
	return max(n, -n)
}

// takenOf returns how many slots the runner has taken. It may take others at the same time. Called with the lock of the
// pool held.
func (rn *Runner[T]) takenOf() int { return min(rn.taken(), rn.end()) }

// untilOver returns a channel that is closed when the task in the last slot that the runner has taken is over, or nil if
// its item does not match. Only a runner whose item matches is stopped: then it comes for the lock when the task is over.
// Called with the lock of the pool held.
func (rn *Runner[T]) untilOver(match func(item T) bool) <-chan struct{} {
	word := rn.word.Load()
	n := int(word >> 1)
	var none T
	if n < 1 || n > rn.end() || word&returned != 0 || rn.slots[n-1] == none || !match(rn.slots[n-1]) {
		return nil
	}
	// The limit comes before the word, and in Next and ran the word before the limit. If the word does not say here that
	// the task is over, the runner finds the limit negative there, and comes for the lock to close the channel.
	if rn.stop(); rn.word.Load() != word {
		return nil // the task has ended meanwhile
	}
	if rn.over == nil {
		rn.over = make(chan struct{})
	}
	return rn.over
}

// endTask wakes the goroutines that wait for the task in the last slot taken, which is over. Called with the lock of the
// pool held.
func (rn *Runner[T]) endTask() {
	if rn.over != nil {
		close(rn.over)
		rn.over = nil
	}
}
