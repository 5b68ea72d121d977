package pool

import (
	"runtime/debug"
	"sync/atomic"
	"time"
)

// A Runner runs tasks. It has a goroutine of its own and takes items from the list of its pool until none is left.
// With an executor, a runner runs only one task, on a goroutine of the executor. Where many items wait and tasks do not
// block, a runner takes a batch of items at a time, so that it seldom needs the lock of the pool: see stop.
//
// The loop over the items is in Host.Work, so that a task costs no calls through an interface but its own.
type Runner[T comparable] struct {
	pool *Pool[T] // changes only while nobody uses the runner

	// How many entries it has taken, or tries to take, and the bit stopped. The runner adds one for each entry. With its lock
	// held, the pool sets the bit, and so takes the rest.
	taken atomic.Int32

	// Written with the lock of the pool held. The runner reads the entry that it has taken last without the lock: no
	// goroutine writes that entry, and only the runner writes the slice.
	entries []T  // the items of its batch, or the one that it has taken alone
	single  [1]T // the entry of an item that it has taken alone

	// Guarded by the lock of the pool.
	batch        *chunk[T]     // where the entries lie; nil for an item that it has taken alone
	place        int           // its index in pool.runners
	takenAtCheck int           // how many entries it had taken at the last check
	over         chan struct{} // closed when the run of the item in the last entry taken is over; nil if no goroutine waits

	// Owned by the runner.
	callsRan   bool          // Host.Ran follows the task
	inTask     bool          // the task runs, so a panic is its own
	inRow      int           // how often it has run the item again
	measured   bool          // it has measured a task of its batch
	unmeasured uint64        // tasks of the batch that it has started since the last one that it measured
	late       time.Duration // how late that one was
}

// stopped is more than any number of entries.
const stopped = 1 << 30

// stop takes the rest of the entries away from the runner, and returns how many it has taken. From then on the runner takes
// the lock when the run in progress is over. Called with the lock of the pool held.
//
// Most tasks do little. Then most of their cost is in operations that lock a cache line, because the processor waits for
// each. Besides the claim of the host, a runner needs one of them for a task: the addition in Next. That ends the run before,
// and takes the next entry. Both sides change one number, so one of them comes first. If the runner does, stop counts the
// entry. Otherwise the runner finds the bit, and goes for the lock.
//
// The caller does not know how far the runner is with the last entry taken: whether its item is not claimed yet, is
// running, or over. So no other goroutine writes that entry, and Close returns the item: the host's claim decides.
func (rn *Runner[T]) stop() (n int) {
	return rn.entriesIn(rn.taken.Or(stopped)) // not takenOf: the runner may add one afterwards
}

// maxInRow is how often a runner runs a task again at once while other items wait. When 2,000 tasks have ten runs each to
// catch up with, a run takes 92 ns. With 0 it takes 150, and with 1,000 it takes 90.
const maxInRow = 4

// run runs tasks, from the first items that the runner has taken, until nothing is left to do. It is all of a goroutine, or
// the end of a function of an executor.
//
// A task may end the goroutine, by a panic or by runtime.Goexit. So may Host.Ran and Host.Panicked. Then another goroutine
// goes on. If Panicked itself panics, that crashes the program, unless the executor recovers it.
func (rn *Runner[T]) run() {
	ended := false
	defer func() {
		if ended {
			return
		}
		defer func() { go rn.run() }()
		if !rn.inTask {
			return // Ran or the claim has ended the goroutine: a panic of theirs crashes the program
		}
		if value := recover(); value != nil { // nil after runtime.Goexit
			rn.pool.host.Panicked(rn.last(), value, debug.Stack())
		}
	}()
	rn.pool.host.Work(rn)
	ended = true // from here on another goroutine may use the runner
}

// last returns the item in the entry that the runner has taken last.
func (rn *Runner[T]) last() T { return rn.entries[rn.takenOf()-1] }

// takenOf returns how many entries the runner has taken. It may take another at the same time. A runner that was stopped adds
// once more on its way to the lock, and then takenOf also counts the entry after its last one, which is empty, because its
// item was taken back.
func (rn *Runner[T]) takenOf() int { return rn.entriesIn(rn.taken.Load()) }

// entriesIn returns the number of entries in a value of rn.taken.
func (rn *Runner[T]) entriesIn(taken int32) int { return min(int(taken&^stopped), len(rn.entries)) }

// Next ends the run before, if there was one, and returns the next item. The host claims it, and then calls Start. If
// nothing is left to do, Next returns the zero T.
func (rn *Runner[T]) Next() (item T) {
	var none T
	rn.inTask = false
	if rn.callsRan && rn.ran() {
		return rn.last() // its next run is due already. After Close, the host does not claim it
	}
	rn.inRow = 0
	for {
		n := int(rn.taken.Add(1)) // see stop
		if n > len(rn.entries) {
			if n = 1; !rn.pool.refill(rn) {
				return none
			}
		}
		if item = rn.entries[n-1]; item != none {
			return item
		} // otherwise it was removed before the runner took the batch
	}
}

// Start is called when the host has claimed the item. The host must then run the task. CallsRan says that Host.Ran is
// called when the task is over. If measure is true, the host calls Measured.
//
// The first and the last task of a batch are measured, and each run again. To measure takes 33 ns, with a reading of the
// clock, and counters that all runners share. That is as much as all other work of the pool for a task.
func (rn *Runner[T]) Start(callsRan bool) (measure bool) {
	rn.callsRan, rn.inTask = callsRan, true
	if labels := rn.pool.Labels; labels != nil {
		setLabels(labels) // the task before may have set others
	}
	rn.unmeasured++
	n := int(rn.taken.Load()) // more than all entries if the runner is stopped: then this task is the last one
	return !rn.measured || n >= len(rn.entries) || rn.inRow > 0
}

// Measured is called when the host has measured how late the task is that starts now. It counts for the tasks before that
// were not measured.
func (rn *Runner[T]) Measured(late time.Duration) {
	rn.late, rn.measured = late, true
	rn.count()
}

// count has the host count the tasks that were started since it was called, as late as the last one that was measured.
func (rn *Runner[T]) count() {
	rn.pool.host.Count(rn.late, rn.unmeasured)
	rn.unmeasured = 0
}

// ran calls Host.Ran, with which the run ends. Again reports that the next run of the item follows at once.
func (rn *Runner[T]) ran() (again bool) {
	rn.callsRan = false // first, because Ran may end the goroutine
	p, item := rn.pool, rn.last()
	requeue := true
	defer func() { // also if Ran ends the goroutine: then what it would have returned is not known
		if requeue {
			p.host.Requeue(item)
		}
	}()
	requeue = p.host.Ran(item)
	if !requeue || p.hasExecutor() || rn.inRow >= maxInRow && p.Due() > 0 {
		return false
	}
	requeue = false
	rn.inRow++
	if rn.taken.Load() >= stopped { // if untilOver comes only after this load, it finds the next run
		p.mu.Lock()
		rn.endRun()
		p.mu.Unlock()
	}
	return true
}

// untilOver returns a channel that is closed when the run of the item in the last entry that the runner has taken is over, or
// nil if the item does not match. Only a runner whose item matches is stopped. Called with the lock of the pool held.
func (rn *Runner[T]) untilOver(match func(item T) bool) <-chan struct{} {
	n := rn.takenOf()
	var none T
	if n < 1 || rn.entries[n-1] == none || !match(rn.entries[n-1]) {
		return nil
	}
	if rn.pool.takeBack(rn) != n {
		return nil // the run has ended meanwhile
	}
	if rn.over == nil {
		rn.over = make(chan struct{})
	}
	return rn.over // no waiter is missed: the runner is stopped, so it takes the lock and closes the channel
}

// endRun wakes the goroutines that wait for the run of the item in the last entry taken, which is over. Called with the lock
// of the pool held.
func (rn *Runner[T]) endRun() {
	if rn.over != nil {
		close(rn.over)
		rn.over = nil
	}
}
