// Package crew runs tasks so that none holds up another. It knows nothing of timeouts: what it needs from the
// code that uses it is the interface Host.
package crew

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Host is what a crew works for. Its methods must not block, except on locks that are held briefly. Only Run,
// Ran and Panicked may run user code.
type Host[T comparable] interface {
	// Placed is called when items get new positions, which are consecutive and begin with pos. Called with the lock
	// of the crew held.
	Placed(items []T, pos uint32)

	// Claim makes an item the runner's, unless its task is not to run any more. If measure is not 0, it measures how
	// late the task is, for that many tasks: this one, and those before it that were not measured. Called with the
	// lock of the runner held.
	Claim(item T, measure uint64) Claim

	// Run runs the task of an item.
	Run(item T)

	// Ran is called after Run if Claim has returned ClaimedAndTell, also after a panic or a Goexit. It reports
	// whether the task is to run again at once, if nothing else waits.
	Ran(item T) (again bool)

	// Requeue is called if Ran has returned true, but other items wait. The host adds the item again behind them.
	Requeue(item T)

	// Panicked reports that the task of an item has panicked.
	Panicked(item T, value any, stack []byte)
}

// A Claim is the result of Host.Claim.
type Claim int

const (
	Refused        Claim = iota // the task does not run
	Claimed                     // the caller must run the task
	ClaimedAndTell              // the caller must run the task, and then call Ran
)

// A Crew runs the tasks of items, on goroutines that exist only while there is work. Adding an item waits for no task.
//
//	add ---> due: a list ---> group of a runner ---> task is running
//	             ^                  |
//	             +------------------+
//	               the runner is stuck
//
// One runner is enough for tasks that return soon: it takes item after item, without a goroutine, a closure or an
// allocation for each. While items wait, the crew checks several times a tick whether the runners make progress.
// If they make too little, it starts more and more of them: see watch.go. So the tasks behind tasks that block
// start soon, and a task that does not block costs no goroutine.
//
// The lock of the crew guards the list. Each runner has a lock of its own, which guards its group and its task, and
// which is locked after that of the crew. A runner locks itself to claim the next item of its group. No user code
// runs under either lock.
type Crew[T comparable] struct {
	// The caller may set these after Init, before it adds the first item.
	Limit  int             // the number of tasks that may run at the same time; 0 for no limit, negative for none at all
	Prompt bool            // start a runner for an item at once if all others are in tasks
	Labels context.Context // the profiler labels of a task; nil to leave them alone
	Eager  int             // how many runners are started because many items wait
	Share  int             // a runner takes 1/Share of what waits at a time, if tasks are not slow

	// Immutable after Init.
	host     Host[T]
	procs    int           // the number of goroutines that can run at the same time
	interval time.Duration // the time between checks
	work     func()        // run
	outside  func()        // with an executor: called with mu held when a runner may be wanted

	closed  atomic.Bool   // no task starts any more; set with mu held
	started atomic.Uint64 // tasks started, without those of runners in holding since they took their groups

	// Guarded by mu.
	mu       sync.Mutex
	due      list[T]
	hands    int           // runners, including the fresh ones
	fresh    int           // how many of hands have not taken their first item yet
	coming   int           // how many of fresh an executor still has, except for those whose items were removed
	live     []*runner[T]  // the others, in no order
	holding  []*runner[T]  // those of live that hold a group, in no order
	spare    []*runner[T]  // for reuse, at most maxEager
	ready    int           // for how many chunks in a row the crew is prepared
	trimming bool          // Trim was called, and nothing has been added since
	idle     chan struct{} // closed when the crew has become idle; nil if no goroutine waits for that
	watch    *time.Timer   // calls check
	watching bool          // watch is armed
	progress progress
}

const (
	// maxEager bounds how many runners are started because many items wait. The number of processors does too.
	maxEager = 16

	// perRunner is the number of items that must wait for each runner before one more is started eagerly. For
	// fewer, a goroutine would cost more than it gains.
	perRunner = 16
)

// Init prepares a crew. Tick is how soon tasks behind a task that blocks should start: within two ticks.
func (c *Crew[T]) Init(h Host[T], tick time.Duration) {
	c.host, c.due.host = h, h
	c.procs = runtime.GOMAXPROCS(0)
	c.Eager = min(c.procs, maxEager)
	c.Share = 16
	c.interval = max(min(tick/checksPerTick, maxInterval), 1)
	c.work = c.run
}

// Add adds an item, and gets a runner for it if needed. What is added after Close stays on the list.
func (c *Crew[T]) Add(item T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waited := c.due.n > 0
	c.due.add(item)
	c.call(waited)
}

// addChunk is Add for the items that a feeder has collected. It returns an empty chunk for reuse, or nil, and the
// value of ready.
func (c *Crew[T]) addChunk(k *chunk[T]) (empty *chunk[T], ready int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waited := c.due.n > 0
	empty = c.due.addChunk(k)
	c.call(waited)
	return empty, c.ready
}

// call gets a runner for items that were added, if needed. Waited says that others were on the list already.
// Called with mu held.
func (c *Crew[T]) call(waited bool) {
	c.trimming = false
	switch {
	case c.closed.Load():
		return
	case c.outside != nil:
		c.outside()
	case c.hands == 0,
		c.Prompt && !waited && c.fresh == 0, // all others may be in tasks that block
		c.hands < c.Eager && c.due.n >= perRunner*c.hands:
		c.start(1)
	}
	c.keepWatch()
}

// nothingWaits reports whether no item is on the list or in the runner's group.
func (c *Crew[T]) nothingWaits(rn *runner[T]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.due.n == 0 && (!rn.holds || rn.group.n == 0)
}

// Remove takes an item off the list or out of the group of a runner, if no runner has claimed it yet, given the
// position that it got last.
func (c *Crew[T]) Remove(item T, pos uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.remove(item, pos, len(c.holding) == 0) {
		c.coming = min(c.coming, c.due.n)
		return
	}
	for _, rn := range c.holding {
		if rn.remove(item, pos) {
			return
		}
	}
}

// start starts n runners, or as many as the limit allows. Called with mu held.
func (c *Crew[T]) start(n int) {
	for ; n > 0 && !c.full(); n-- {
		c.hands++
		c.fresh++
		go c.work()
	}
}

// full reports whether there are as many runners as the limit allows. Called with mu held.
func (c *Crew[T]) full() bool { return c.Limit != 0 && c.hands >= c.Limit }

// run is the goroutine of a runner.
func (c *Crew[T]) run() {
	if rn := c.enlist(false); rn != nil {
		rn.run()
	}
}

// enlist returns a runner with its first items, for a goroutine that was on its way. It returns nil if nothing is
// left to do. One says that the runner is for only one task.
func (c *Crew[T]) enlist(one bool) *runner[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rn *runner[T]
	if last := len(c.spare) - 1; last >= 0 {
		rn, c.spare = c.spare[last], c.spare[:last]
	} else {
		rn = &runner[T]{crew: c}
	}
	rn.one = one
	rn.place = len(c.live)
	c.live = append(c.live, rn)
	c.fresh--
	c.coming = max(c.coming-1, 0)
	if !c.fill(rn) {
		c.dismiss(rn)
		return nil
	}
	return rn
}

// refill takes the next items off the list for a runner that has none left. If there are none, it returns false:
// then the runner has been dismissed and must not be used any more, unless it is for only one task.
func (c *Crew[T]) refill(rn *runner[T]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letGo(rn)
	ok := c.fill(rn)
	if !ok && !rn.one {
		c.dismiss(rn) // under the same lock, so that Add does not rely on this runner
	}
	return ok
}

// fill takes items off the list for a runner that has none, and reports whether there were any. If tasks are slow,
// it takes only one. Called with mu held.
func (c *Crew[T]) fill(rn *runner[T]) bool {
	if c.due.n == 0 || c.closed.Load() {
		return false
	}
	rn.gap = 1 // the first task of each group is measured
	most := c.due.n / c.Share
	if rn.one || c.progress.slow || most < 2 {
		rn.first = c.due.takeOne()
		c.progress.taken++
		return true
	}
	rn.group = c.due.take(most)
	c.progress.taken += rn.group.n
	rn.holds, rn.held, rn.seen = true, len(c.holding), 0
	c.holding = append(c.holding, rn)
	c.keepWatch()
	return true
}

// letGo takes the group of a runner away, if it holds one. What is left of it goes back to the list. Called with mu
// held, and by another goroutine than the runner's with its lock held too.
func (c *Crew[T]) letGo(rn *runner[T]) {
	if !rn.holds {
		return
	}
	rn.holds = false
	if rn.group.n == 0 {
		c.due.recycle(rn.group)
	} else {
		c.due.giveBack(rn.group)
		c.progress.taken -= rn.group.n
	}
	rn.group = nil
	c.started.Add(rn.tasks)
	rn.tasks = 0
	last := len(c.holding) - 1
	c.holding[rn.held] = c.holding[last]
	c.holding[rn.held].held = rn.held
	c.holding[last] = nil
	c.holding = c.holding[:last]
}

// dismiss removes a runner that has nothing left to do. Called with mu held.
func (c *Crew[T]) dismiss(rn *runner[T]) {
	last := len(c.live) - 1
	c.live[rn.place] = c.live[last]
	c.live[rn.place].place = rn.place
	c.live[last] = nil
	c.live = c.live[:last]
	c.hands--
	rn.endTask()
	rn.since, rn.again, rn.crashed = 0, false, false
	c.keep(rn)
	if c.due.n == 0 && len(c.holding) == 0 {
		c.endWatch()
	}
	if c.trimming {
		c.trim()
	}
	c.checkIdle()
	if c.outside != nil {
		c.outside()
	}
}

// keep keeps a runner for reuse. Called with mu held.
func (c *Crew[T]) keep(rn *runner[T]) {
	if len(c.spare) < maxEager {
		c.spare = append(c.spare, rn)
	}
}

// prepare makes the crew ready for n chunks in a row, which are at most maxReady. From then on, adding them and running
// their tasks allocates nothing, even if all of them wait on the list at the same time.
//
// Each chunk that is added starts at most one runner, and a runner may take a chunk for its group. So the crew needs
// two chunks for each. One more runner may be about to end.
func (c *Crew[T]) prepare(n int) {
	chunks, runners := c.missing(2*n, min(n+1, maxEager))
	for i := range chunks { // without the lock, because allocating may have to wait for the garbage collector
		chunks[i] = new(chunk[T])
	}
	for i := range runners {
		runners[i] = &runner[T]{crew: c}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trimming || c.closed.Load() {
		return
	}
	c.ready = n
	c.due.grow(2 * n)
	c.live, c.holding, c.spare = grown(c.live, n+1), grown(c.holding, n+1), grown(c.spare, n+1)
	for _, k := range chunks {
		c.due.recycle(k)
	}
	for _, rn := range runners {
		c.keep(rn)
	}
}

// missing returns empty slots: as many as the crew lacks until it has so many chunks and runners.
func (c *Crew[T]) missing(chunks, runners int) ([]*chunk[T], []*runner[T]) {
	c.mu.Lock()
	chunks -= c.due.allChunks() + len(c.holding)
	runners -= len(c.live) + len(c.spare)
	c.mu.Unlock()
	return make([]*chunk[T], max(chunks, 0)), make([]*runner[T], max(runners, 0))
}

// grown returns s with a capacity of at least n. Unlike slices.Grow it never allocates more than that.
func grown[E any](s []E, n int) []E {
	if cap(s) >= n {
		return s
	}
	return append(make([]E, 0, n), s...)
}

// Trim frees the memory that the crew keeps for reuse, unless items wait. What running tasks need is freed when the
// last of them is over, unless an item is added before.
func (c *Crew[T]) Trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trimming = true
	c.trim()
}

// trim is Trim for a caller that holds mu.
func (c *Crew[T]) trim() {
	if c.due.n > 0 {
		return
	}
	c.due.trim()
	c.spare, c.ready = nil, 0
	if len(c.live) > 0 {
		return
	}
	c.live, c.holding = nil, nil
	if !c.watching {
		c.watch = nil
	}
}

// UntilIdle returns a channel that is closed when the crew is idle.
func (c *Crew[T]) UntilIdle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.checkIdle()
	return idle
}

// checkIdle wakes the goroutines that wait until the crew is idle, if it is. Of an executor only the tasks in
// progress count, because it may never run what it was given. Called with mu held.
func (c *Crew[T]) checkIdle() {
	if c.idle != nil && len(c.live) == 0 && (c.hands == 0 || c.outside != nil) {
		close(c.idle)
		c.idle = nil
	}
}

// Close ends the crew: no task starts any more. It returns the items whose tasks have not been started, and those
// whose tasks are running. Called once.
func (c *Crew[T]) Close() (rest []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed.Store(true)
	for _, rn := range c.live {
		rest = append(rest, rn.giveUp()...)
	}
	rest = append(rest, c.due.takeAll()...)
	c.endWatch()
	return rest
}

// Started returns how many tasks have been started.
func (c *Crew[T]) Started() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.started.Load()
	for _, rn := range c.holding {
		n += rn.tasksHeld()
	}
	return n
}

// Running returns the number of tasks that have been started, or are about to be, and have not returned. It also
// returns the number of goroutines, none with an executor.
func (c *Crew[T]) Running() (tasks, goroutines int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outside == nil {
		goroutines = c.hands
	}
	return len(c.live), goroutines
}

// Waiting returns the number of items on the list. For tests.
func (c *Crew[T]) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.due.n
}

// RunsOf returns a channel for each run of the task of an item that is in progress. The channel is closed when the
// run is over.
func (c *Crew[T]) RunsOf(item T) (runs []<-chan struct{}) {
	c.eachRunner(func(rn *runner[T]) {
		if over := rn.untilOver(item); over != nil {
			runs = append(runs, over)
		}
	})
	return runs
}

// AwaitClaims waits for each runner that is claiming. When it returns, each task that was claimed before is counted.
func (c *Crew[T]) AwaitClaims() {
	c.eachRunner(func(rn *runner[T]) { rn.inTask() })
}

// eachRunner calls f for each live runner. It looks at some of them at a time, so that it does not hold up the crew.
// It goes through live from the end, because a runner that moves takes the place of one before it. So it misses none
// that was there from the start.
func (c *Crew[T]) eachRunner(f func(rn *runner[T])) {
	var some [64]*runner[T]
	for end := -1; end != 0; {
		c.mu.Lock()
		if end < 0 || end > len(c.live) {
			end = len(c.live)
		}
		n := copy(some[:], c.live[max(end-len(some), 0):end])
		c.mu.Unlock()
		for _, rn := range some[:n] {
			f(rn)
		}
		end -= n
	}
}
