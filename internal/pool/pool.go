// Package pool runs tasks so that none holds up another. It knows nothing of timeouts: what it needs from the
// code that uses it is the interface Host.
package pool

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Host is what a pool works for. Work, Ran and Panicked may run user code. The other methods block only on locks that are held
// briefly. While the host is being stopped, they may also wait until it has taken what Close returns.
type Host[T comparable] interface {
	// Work runs the tasks of the items that rn.Next returns, until there are none. It claims each item, so that no other
	// goroutine can, calls rn.Start, and runs the task. If the claim fails, Work goes on with the next item.
	Work(rn *Runner[T])

	// Count counts n tasks that have started late by a duration. It may be called with the lock of the pool held.
	Count(late time.Duration, n uint64)

	// Ran is called when a task is over, also after a panic or a Goexit, if rn.Start was passed true. The run is over when
	// Ran has returned. Ran reports whether the task must run again: at once, or after others that wait.
	Ran(item T) (again bool)

	// Requeue is called if Ran has returned true, but other items come first. The host adds the item behind these.
	Requeue(item T)

	// Panicked reports that the task of an item has panicked.
	Panicked(item T, value any, stack []byte)
}

// A Pool runs the tasks of items, on goroutines that exist only while there is work. Adding an item waits for no task.
//
//	Add ---> list ---------> runner has the item ---------> task is running ---------> over
//	           |      fill                         claim
//	           +--> removed
//
// The lock guards all steps except the claim. An item may be added a second time before its runner has claimed it. Then the
// claim of the host decides which runner runs the task.
//
// One runner is enough for tasks that return soon: it takes item after item, without a goroutine, a closure or an allocation
// for each. While items wait, the pool checks several times a tick how many the runners take. If the runners take too few,
// it starts more, and more at each check: see watch.go. So tasks behind blocked tasks start soon, and other tasks cost no
// goroutine.
//
// No user code runs under the lock.
type Pool[T comparable] struct {
	// Set after Init, before the first item is added. Runners read these two often, so they are far from mu.
	Labels context.Context // the profiler labels of a task; nil to leave them alone
	want   func()          // called with mu held when a runner may be wanted; nil without an executor

	// The caller may set these after Init, before it adds the first item.
	Limit int // the number of tasks that may run at the same time; 0 for no limit, negative for none at all
	Procs int // the number of processors, or maxProcs if that is less; a check starts up to so many if many items wait

	// Immutable after Init.
	host     Host[T]
	memory   *Memory[T]
	interval time.Duration // the time between checks
	work     func()        // run

	// Held in Runs, so that only one of many goroutines that wait for tasks contends for mu. Without it, tasks are late
	// while thousands wait.
	asking sync.Mutex

	// Guarded by mu.
	mu       sync.Mutex
	closed   bool // no runner takes another item
	list     list[T]
	starting atomic.Int32  // goroutines, or functions of an executor, that are on their way to their first item; read without mu too
	runners  []*Runner[T]  // each has an item; in no order
	spare    []*Runner[T]  // for reuse, at most maxProcs, so that bursts allocate nothing: TestBurstsNeedNoMemory
	idle     chan struct{} // closed when the pool has become idle; nil if no goroutine waits for that
	watch    *time.Timer   // calls onWatch
	watching bool          // watch is armed
	taken    int           // items that runners have taken since the watch was armed
	mayAdd   int           // how many runners the last check might add; 0 for none
}

// maxProcs bounds how many runners are started because many items wait. The number of processors does too.
const maxProcs = 16

// Init prepares a pool. Tasks behind one that blocks start within two of these ticks.
func (p *Pool[T]) Init(h Host[T], tick time.Duration, m *Memory[T]) {
	p.host = h
	p.Procs = min(runtime.GOMAXPROCS(0), maxProcs)
	p.memory, p.list.memory = m, m
	p.interval = max(min(tick/checksPerTick, maxInterval), 1)
	p.work = p.run
}

// Add adds an item, and gets a runner for it if needed. What is added after Close stays on the list. It is not for a pool
// with a Feeder, which counts positions itself, and knows no others.
func (p *Pool[T]) Add(item T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waited := p.list.n > 0
	p.list.add(item)
	p.engage(waited)
}

// addChunk is Add for the items that a feeder has collected.
func (p *Pool[T]) addChunk(k *chunk[T]) {
	p.mu.Lock()
	waited := p.list.n > 0
	if !p.list.join(k) {
		p.list.push(k)
	}
	p.engage(waited)
	p.mu.Unlock()
}

// hasExecutor reports whether an executor runs the tasks.
func (p *Pool[T]) hasExecutor() bool { return p.want != nil }

// engage gets a runner for items that were added, if needed. If others were on the list already, waited is true.
// Called with mu held.
func (p *Pool[T]) engage(waited bool) {
	switch {
	case p.hasExecutor():
		p.want()
	case !waited && p.starting.Load() == 0: // all runners may be in tasks that block
		p.start(1)
	}
}

// Remove takes an item off the list, given its position, if no runner has taken it yet.
func (p *Pool[T]) Remove(item T, pos uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list.remove(item, pos)
}

// total returns how many goroutines run tasks, or are on their way to their first. With an executor, it returns how many
// functions the executor has or runs. Called with mu held.
func (p *Pool[T]) total() int { return len(p.runners) + int(p.starting.Load()) }

// Starting reports whether the pool has started a goroutine that has not had a processor yet. It takes no lock. With an
// executor, it is always false.
func (p *Pool[T]) Starting() bool { return !p.hasExecutor() && p.starting.Load() > 0 }

// start starts n runners, or as many as the limit allows. Called with mu held.
func (p *Pool[T]) start(n int) {
	for ; n > 0 && !p.full(); n-- {
		p.starting.Add(1)
		go p.work()
	}
}

// full reports whether there are as many runners as the limit allows. Called with mu held.
func (p *Pool[T]) full() bool { return p.Limit != 0 && p.total() >= p.Limit }

// run is the goroutine of a runner.
func (p *Pool[T]) run() {
	if rn := p.enlist(); rn != nil {
		rn.run()
	}
}

// enlist returns a runner with its first item, for a goroutine that was on its way. It returns nil if nothing is
// left to do.
func (p *Pool[T]) enlist() *Runner[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.spare) == 0 {
		p.spare = append(p.spare, new(Runner[T]))
	}
	last := len(p.spare) - 1
	rn := p.spare[last]
	p.spare[last], p.spare = nil, p.spare[:last]
	rn.pool, rn.place, rn.fresh, rn.late = p, len(p.runners), true, notMeasured
	p.runners = append(p.runners, rn)
	p.starting.Add(-1)
	if !p.fill(rn) {
		p.dismiss(rn)
		return nil
	}
	return rn
}

// refill takes the next item for a runner whose run is over. It returns false if there is none, or if an executor has to call
// another function for it. Then the runner has been dismissed and must not be used any more.
func (p *Pool[T]) refill(rn *Runner[T]) bool {
	p.mu.Lock()
	rn.endRun()
	ok := !p.hasExecutor() && p.fill(rn)
	if !ok {
		p.dismiss(rn) // under the same lock, so that Add does not rely on this runner
	}
	p.mu.Unlock()
	return ok
}

// fill takes the first item off the list for a runner, and reports whether there was one. Called with mu held.
func (p *Pool[T]) fill(rn *Runner[T]) bool {
	if p.list.n == 0 || p.closed {
		return false
	}
	rn.item = p.list.popFirst()
	rn.many = p.list.n >= sample
	p.taken++
	if !p.watching || p.list.n == 0 {
		p.setWatch()
	}
	return true
}

// dismiss removes a runner that has nothing left to do. The last of the others gets its place. Called with mu held.
func (p *Pool[T]) dismiss(rn *Runner[T]) {
	last := len(p.runners) - 1
	p.runners[rn.place], p.runners[last].place = p.runners[last], rn.place
	p.runners[last], p.runners = nil, p.runners[:last]
	if rn.unmeasured > 0 { // the next one was not claimed, or another runner has taken it
		rn.count()
	}
	if *rn = (Runner[T]{}); len(p.spare) < maxProcs {
		p.spare = append(p.spare, rn)
	}
	if last == 0 && cap(p.runners) > keptLen {
		p.runners = nil
	}
	p.checkIdle()
	if p.hasExecutor() {
		p.want()
	}
}

// UntilIdle returns a channel that is closed when the pool is idle.
func (p *Pool[T]) UntilIdle() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.checkIdle()
	return idle
}

// checkIdle wakes the goroutines that wait for an idle pool, if it is idle. With an executor, only tasks in progress count,
// because the executor may never run a function. Called with mu held.
func (p *Pool[T]) checkIdle() {
	if p.idle != nil && len(p.runners) == 0 && (p.starting.Load() == 0 || p.hasExecutor()) {
		close(p.idle)
		p.idle = nil
	}
}

// Close ends the pool. It returns the items whose tasks have not been started, and those whose tasks are running or just
// over. Called once. A runner may be about to claim one of these items: the host refuses, or counts it as started. After
// Close no other task starts.
func (p *Pool[T]) Close() (rest []T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, rn := range p.runners {
		rest = append(rest, rn.item)
	}
	rest = append(rest, p.list.popAll()...)
	p.setWatch()
	return rest
}

// Running returns the number of tasks that have been started, or are about to be, and have not returned. It also
// returns the number of goroutines, none with an executor.
func (p *Pool[T]) Running() (tasks, goroutines int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hasExecutor() {
		goroutines = p.total()
	}
	return len(p.runners), goroutines
}

// Waiting returns the number of items that wait for a runner.
func (p *Pool[T]) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list.n
}
