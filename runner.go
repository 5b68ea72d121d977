package hashedwheel

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// A runner runs tasks: on a goroutine that takes them from the batches until none is left, or, with
// an executor, for one turn.
//
// What costs, of a task that does little, is each operation that locks a cache line: the processor
// waits for it. A runner makes three for a task: it begins to claim, it claims, and it is running.
//
//	          Add                 Add
//	resting -------> claiming ----------> running: the task
//	   ^                |  ^                 |
//	   +----------------+  +-----------------+
//	    Add: nothing is left        Add: one task more is over
//
// Who may touch what a runner has:
//
//   - While it is claiming its group and its timeout are its own. It takes a group of timeouts from the
//     batch, and claims one after another, until it has claimed one.
//   - Otherwise they belong to nobody. Another goroutine may touch them if it holds runners.mu and has
//     held the runner: it has set held, and then seen that the runner is not claiming. The runner begins
//     to claim and then looks at held. All of this is sequentially consistent. So either the runner finds
//     that it is held, rests, and waits for mu, or the other goroutine sees it claiming, and waits.
//
// Claiming is short, and runs no code of the user's.
type runner struct {
	work func() // run on a goroutine of its own; immutable once it is made

	// Set before it starts.
	runners *runners
	stripe  *stripe // whose counters it uses
	turn    bool    // it runs one task, where dispatch has it run

	// Guarded by runners.mu.
	pos   int    // in runners.live
	batch *batch // that it takes from
	seen  uint64 // its state when the worker looked last

	// Owned by the runner while it is claiming, see above.
	group []*Timeout // taken from the batch, and not claimed yet
	to    *Timeout   // whose task it runs
	grab  int        // how many it takes from the batch at a time; changed only with runners.mu held

	// Owned by the runner.
	skip int // how many tasks more may go by unmeasured, see measure

	// Written by the runner: the number of tasks that are over, in units of oneTask, plus its phase.
	state atomic.Uint64

	held atomic.Bool // somebody wants to look. Set with runners.mu held

	// It is allocated as 128 bytes on 64-bit machines: two lines of its own, because state is written for each
	// task.
}

// The phases of a runner.
const (
	resting   = 0
	claiming  = 1
	running   = 2
	phaseMask = 3
	oneTask   = 4
)

// maxGroup is the most timeouts that a runner takes from a batch at a time. It does so from large batches,
// whose tasks do not block, where no limit or executor counts the turns.
const maxGroup = 16

// runnerPool keeps runners for the next ones, so that a run allocates nothing.
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

// recycle keeps a runner for the next ones. The caller must be the last to know it.
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
			rn.state.Add(rn.toRest()) // from a task that ends this goroutine by runtime.Goexit
			go rn.run()
		}
	}()
	for b := r.next(rn); b != nil; b = r.next(rn) {
		setLabels(r.timer.labels.runner) // a task of the batch before may have set others
		for rn.runTasks(b) {
		}
	}
	ended = true
	rn.recycle()
}

// runTasks claims the timeouts of a batch and runs their tasks, until none is left, or a task panics, or it
// was the runner's turn. It reports whether it has run any.
func (rn *runner) runTasks(b *batch) (ran bool) {
	var to *Timeout // whose task is running
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
		to = next
		next.task.Run(next)
		to = nil // it has returned
		if claimed&hooked != 0 {
			next.task.(hook).ran(next)
		}
		if rn.turn {
			return true
		}
	}
}

// claimNext claims the next timeout of the batch that is due, counts it, and returns its word. Then the
// caller has to run its task. It returns nil if none is left, or after Stop, and then the runner is resting.
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
			if rn.group = b.take(rn.grab); len(rn.group) == 0 {
				break
			}
		}
		to = rn.group[0]
		rn.group[0] = nil // the batch lives until its last one is taken, and that may be long
		rn.group = rn.group[1:]
		if claimed = to.claim(b.tick); claimed != 0 {
			break
		}
	}
	if claimed == 0 {
		rn.group, rn.to = nil, nil // the array of the batch is used again
		rn.skip = 0
		rn.rest()
		return nil, 0
	}
	if claimed&atWork != 0 {
		rn.stripe.rearmed.Add(1) // for its next run: it keeps its slot
	} else {
		to.timer.freeSlot(rn.stripe)
	}
	rn.measure(to)
	rn.to = to
	rn.state.Add(running - claiming) // it counts as expired, and as started: Stop does not wait for it from here
	return to, claimed
}

// giveWay rests until no other goroutine has the lock with which it holds the runner, and notifies
// goroutines that wait for the end of a task. It reports whether the runner may go on claiming. After Stop
// it may not: then giveWay waits until Stop has taken what the runner has, and the runner is resting.
func (rn *runner) giveWay() bool {
	rn.rest()
	r := rn.runners
	r.mu.Lock()
	rn.to = nil
	rn.held.Store(false)
	r.signalTaskLeft()
	r.mu.Unlock()
	if r.timer.stopped.Load() {
		<-r.timer.swept
		return false
	}
	rn.state.Add(claiming - resting)
	return true
}

// rest makes a runner rest that is claiming.
func (rn *runner) rest() { rn.state.Add(^uint64(claiming - resting - 1)) }

// hold keeps the runner from touching its group and its timeout until the caller lets go of runners.mu,
// which it must hold, and returns its phase. It waits until the runner is not claiming.
func (rn *runner) hold() (phase uint64) {
	rn.held.Store(true)
	return rn.settled() & phaseMask
}

// settled returns the state of the runner when it is not claiming. It waits for that, which is as long as
// it takes the runner to get a processor, and Group.mu if the timeout is a member of a group.
func (rn *runner) settled() uint64 {
	for {
		state := rn.state.Load()
		if state&phaseMask != claiming {
			return state
		}
		runtime.Gosched()
	}
}

// toRest returns what to add to the state of a runner that is running, or resting, so that it is resting.
func (rn *runner) toRest() uint64 {
	if rn.state.Load()&phaseMask == running {
		return oneTask + resting - running
	}
	return 0
}

// taskFailed does what is to be done after a task that panicked with value, or that ends the goroutine.
func (rn *runner) taskFailed(to *Timeout, value any) {
	if h := to.hook(); h != nil {
		defer func() {
			value := recover() // the handler's
			if value == nil || rn.turn {
				h.ran(to) // also if the handler ends the goroutine, or an executor survives its panic
			}
			if value != nil {
				panic(value) // the program crashes, and on a runner no more of the user's code runs
			}
		}()
	}
	if value != nil {
		to.timer.reportPanic(to, value, debug.Stack())
	}
}
