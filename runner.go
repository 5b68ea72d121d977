package hashedwheel

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// A runner runs tasks. It has a goroutine of its own and takes timeouts from the batches until none is
// left. With an executor, a runner runs only one task, on a goroutine of the executor.
//
// For a task that does little, most of the cost is in operations that lock a cache line, because the
// processor waits for each. A runner needs three of them for a task: to begin to claim, to claim, and to
// change to running.
//
//	          Add                 Add
//	resting -------> claiming ----------> running: the task
//	   ^                |  ^                 |
//	   +----------------+  +-----------------+
//	    Add: nothing is left        Add: one more task is over
//
// Who may access the group of a runner and its timeout:
//
//   - The runner, while it is claiming. It takes a group of timeouts from the batch, and tries to claim
//     one after another until it has claimed one.
//   - At other times, the runner while it holds runners.mu, or a goroutine that holds runners.mu and the
//     runner. To hold the runner it sets held and then waits until it sees that the runner is not claiming.
//     The runner begins to claim and then checks held. All of this is sequentially consistent. So either the
//     runner sees that it is held, rests, and waits for mu, or the other goroutine sees it claiming, and
//     waits.
//
// Claiming is short, and runs no user code.
type runner struct {
	work func() // counts its goroutine in runners.begun and calls run; immutable

	// Set before it starts.
	runners *runners
	stripe  *stripe // the stripe whose counters it uses
	onlyOne bool    // it runs only one task, on a goroutine of the dispatcher

	// Guarded by runners.mu.
	pos   int    // its index in runners.live
	batch *batch // the batch from which it takes
	seen  uint64 // its state when the worker last checked it

	// Owned by the runner while it is claiming, see above.
	group     []*Timeout // taken from the batch and not claimed yet
	to        *Timeout   // the timeout whose task it runs
	groupSize int        // how many timeouts it takes from the batch at a time; changed only with runners.mu held

	// Owned by the runner.
	skip int // how many more tasks it starts before it measures one, see measure

	// Written by the runner: oneTask times the number of tasks that are over, plus its phase.
	state atomic.Uint64

	held atomic.Bool // another goroutine holds the runner, or is about to; set with runners.mu held

	// A runner takes 128 bytes on 64-bit machines. It shares its two cache lines with nothing else, because
	// it writes state for each task.
}

// The phases of a runner.
const (
	resting   = 0
	claiming  = 1
	running   = 2
	phaseMask = 3
	oneTask   = 4
)

// maxGroup is the largest number of timeouts that a runner takes from a batch at a time. A runner takes
// more than one only from large batches, while tasks do not block, and without a limit or an executor.
const maxGroup = 16

// runnerPool holds unused runners, so that a run allocates nothing.
var runnerPool sync.Pool

func newRunner() *runner {
	if rn, ok := runnerPool.Get().(*runner); ok {
		return rn
	}
	rn := new(runner)
	rn.work = func() {
		rn.runners.begun.Add(1)
		rn.run()
	}
	return rn
}

// recycle puts a runner back in the pool. Nothing else may refer to it any more.
func (rn *runner) recycle() {
	*rn = runner{work: rn.work}
	runnerPool.Put(rn)
}

// run is the runner's goroutine.
func (rn *runner) run() {
	r := rn.runners
	ended := false
	defer func() {
		if !ended {
			rn.state.Add(rn.toRest()) // a task has ended this goroutine by runtime.Goexit
			go rn.run()
		}
	}()
	for b := r.next(rn); b != nil; b = r.next(rn) {
		for rn.runTasks(b) {
		}
	}
	ended = true
	rn.recycle()
}

// runTasks claims the timeouts of a batch and runs their tasks. It returns when none is left, when a task
// panics, or after one task if the runner runs only one. It reports whether it has run any.
func (rn *runner) runTasks(b *batch) (ran bool) {
	var to *Timeout // the timeout whose task is running
	defer func() {
		if to != nil {
			rn.taskFailed(to, recover())
		}
	}()
	for {
		next, claimed := rn.claimNext(b)
		if next == nil {
			return ran
		}
		ran = true
		if !rn.onlyOne {
			setLabels(rn.runners.timer.labels.runner) // the task before may have left others
		}
		to = next
		next.task.Run(next)
		to = nil // the task has returned
		if claimed&hooked != 0 {
			next.task.(hook).ran(next)
		}
		if rn.onlyOne {
			return true
		}
	}
}

// claimNext claims the next timeout of the batch that is due, counts it, and returns it and its word. The
// caller must then run its task. It returns nil if none is left, or after Stop. Then the runner is resting.
func (rn *runner) claimNext(b *batch) (to *Timeout, claimed uint64) {
	begin := uint64(claiming - resting)
	if rn.state.Load()&phaseMask == running {
		begin = oneTask + claiming - running
	}
	rn.state.Add(begin)
	for rn.held.Load() {
		if !rn.giveWay() {
			return nil, 0
		}
	}
	for {
		if len(rn.group) == 0 {
			if rn.group = b.take(rn.groupSize); len(rn.group) == 0 {
				break
			}
		}
		to = rn.group[0]
		rn.group[0] = nil // the batch may live for long, until its last timeout is taken
		rn.group = rn.group[1:]
		if claimed = to.claim(b.tick); claimed != 0 {
			break
		}
	}
	if claimed == 0 {
		rn.group, rn.to = nil, nil // because the array of the batch is reused
		rn.skip = 0
		rn.rest()
		return nil, 0
	}
	if claimed&atWork != 0 {
		rn.stripe.rearmed.Add(1) // for its next run; a repeating timeout keeps its slot
	} else {
		to.timer.freeSlot()
	}
	rn.measure(to)
	rn.to = to
	rn.state.Add(running - claiming) // counts the timeout as expired; from here on Stop does not wait for the runner
	return to, claimed
}

// giveWay makes a held runner rest until it gets runners.mu. The goroutine that holds the runner has this
// lock until it is done. Then giveWay wakes the goroutines that wait for the end of a task. It reports whether
// the runner may go on claiming. After Stop it may not: then giveWay waits until Stop has taken the
// runner's timeouts, and leaves the runner resting.
func (rn *runner) giveWay() bool {
	rn.rest()
	r := rn.runners
	r.mu.Lock()
	rn.to = nil
	rn.held.Store(false)
	r.signalTaskEnd()
	r.mu.Unlock()
	if r.timer.stopped.Load() {
		<-r.timer.allTaken
		return false
	}
	rn.state.Add(claiming - resting)
	return true
}

// rest changes the phase of the runner from claiming to resting.
func (rn *runner) rest() { rn.state.Add(^uint64(claiming - resting - 1)) }

// hold keeps the runner from accessing its group and its timeout until the caller unlocks runners.mu,
// which the caller must hold. It waits until the runner is not claiming, and returns its phase.
func (rn *runner) hold() (phase uint64) {
	rn.held.Store(true)
	return rn.awaitNotClaiming() & phaseMask
}

// awaitNotClaiming waits until the runner is not claiming, and returns its state then. The runner needs only
// a processor to get there, and Group.mu if the timeout that it claims is a member of a group.
func (rn *runner) awaitNotClaiming() uint64 {
	for {
		state := rn.state.Load()
		if state&phaseMask != claiming {
			return state
		}
		runtime.Gosched()
	}
}

// toRest returns what to add to the state of a runner that is running or resting to make it resting.
func (rn *runner) toRest() uint64 {
	if rn.state.Load()&phaseMask == running {
		return oneTask + resting - running
	}
	return 0
}

// taskFailed handles a task that panicked with value, or that ends the goroutine by runtime.Goexit. It
// reports the panic, and notifies the hook that the run is over.
func (rn *runner) taskFailed(to *Timeout, value any) {
	if h := to.hook(); h != nil {
		defer func() {
			value := recover() // the handler's
			if value == nil || rn.onlyOne {
				h.ran(to) // also if the handler ends the goroutine, or if an executor recovers its panic
			}
			if value != nil {
				panic(value) // crashes the program; without an executor no more user code runs first
			}
		}()
	}
	if value != nil {
		to.timer.reportPanic(to, value, debug.Stack())
	}
}
