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

// A Host is what a crew works for. Its methods must not block, except on locks that are held briefly. Only tasks,
// Ran and Panicked may run user code.
type Host[T comparable] interface {
	// Placed is called when items get new positions, which are consecutive and begin with pos. Called with the lock
	// of the crew held.
	Placed(items []T, pos uint32)

	// Work runs the tasks of the items that rn.Next returns, until there are none: it claims each, so that no other
	// goroutine may, calls rn.Start, and runs the task. If the task is not to run any more, it calls rn.Refuse instead.
	Work(rn *Runner[T])

	// Ran is called when a task is over, also after a panic or a Goexit, if rn.Start was told so. It reports whether the
	// task is to run again at once, if nothing else waits.
	Ran(item T) (again bool)

	// Requeue is called if Ran has returned true, but other items wait. The host adds the item again behind them.
	Requeue(item T)

	// Panicked reports that the task of an item has panicked.
	Panicked(item T, value any, stack []byte)
}

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
// The lock guards the list. A runner takes items of its group without the lock, unless another goroutine has stopped it:
// see runner.go. No user code runs under the lock.
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
	started atomic.Uint64 // tasks started, without those of the groups in holding

	asking sync.Mutex // held in RunsOf, so that only one of many that wait for tasks contends for mu

	// Guarded by mu.
	mu       sync.Mutex
	due      list[T]
	runners  int           // goroutines that run tasks, or are on their way to their first
	starting int           // how many of runners have not taken their first item yet
	coming   int           // how many of starting an executor still has, except for those whose items were removed
	live     []*Runner[T]  // the others, in no order
	holding  []*Runner[T]  // those of live that hold a group, in no order
	spare    []*Runner[T]  // for reuse, at most maxEager
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
	case c.runners == 0,
		c.Prompt && !waited && c.starting == 0, // all others may be in tasks that block
		c.runners < c.Eager && c.due.n >= perRunner*c.runners:
		c.start(1)
	}
	c.keepWatch()
}

// nothingWaits reports whether no item is on the list or in the runner's group. Called by the runner.
func (c *Crew[T]) nothingWaits(rn *Runner[T]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none T
	for _, item := range rn.slots[rn.taken(rn.word.Load()):] {
		if item != none {
			return false
		}
	}
	return c.due.n == 0
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
		if k := rn.group; k.has(pos) {
			if _, n := rn.hold(); pos-k.base >= uint32(k.from+n) {
				k.remove(item, pos)
			}
			return
		}
	}
}

// start starts n runners, or as many as the limit allows. Called with mu held.
func (c *Crew[T]) start(n int) {
	for ; n > 0 && !c.full(); n-- {
		c.runners++
		c.starting++
		go c.work()
	}
}

// full reports whether there are as many runners as the limit allows. Called with mu held.
func (c *Crew[T]) full() bool { return c.Limit != 0 && c.runners >= c.Limit }

// run is the goroutine of a runner.
func (c *Crew[T]) run() {
	if rn := c.enlist(false); rn != nil {
		rn.run()
	}
}

// enlist returns a runner with its first items, for a goroutine that was on its way. It returns nil if nothing is
// left to do. One says that the runner is for only one task.
func (c *Crew[T]) enlist(one bool) *Runner[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rn *Runner[T]
	if last := len(c.spare) - 1; last >= 0 {
		rn, c.spare[last] = c.spare[last], nil
		c.spare = c.spare[:last]
	} else {
		rn = &Runner[T]{crew: c}
	}
	rn.one = one
	rn.place = len(c.live)
	c.live = append(c.live, rn)
	c.starting--
	c.coming = max(c.coming-1, 0)
	if !c.fill(rn) {
		c.dismiss(rn)
		return nil
	}
	return rn
}

// refill is called by a runner whose task is over, which has tried to take another slot, and found that it has none left
// or that it is held. It takes the next items off the list, unless there are some left. If there are none, it returns
// false: then the runner has been dismissed and must not be used any more, unless it is for only one task.
func (c *Crew[T]) refill(rn *Runner[T]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	word := rn.word.Load() - oneSlot // others change it only with mu held
	rn.word.Store(word &^ held)
	rn.endTask()
	if rn.group != nil && !rn.holds {
		rn.slots = rn.slots[:rn.kept]
	}
	n := rn.taken(word)
	if n < len(rn.slots) {
		return true
	}
	c.release(rn, n)
	ok := c.fill(rn)
	if !ok && !rn.one {
		c.dismiss(rn) // under the same lock, so that Add does not rely on this runner
	}
	return ok
}

// fill takes items off the list for a runner that has none, and reports whether there were any. If tasks are slow,
// it takes only one. Called with mu held.
func (c *Crew[T]) fill(rn *Runner[T]) bool {
	if c.due.n == 0 || c.closed.Load() {
		return false
	}
	rn.measureAt = 0
	most := c.due.n / c.Share
	rn.begin = rn.word.Load() / oneSlot
	if rn.one || c.progress.slow || most < 2 {
		rn.alone[0] = c.due.takeOne()
		rn.slots = rn.alone[:]
		c.progress.taken++
		c.started.Add(1)
		return true
	}
	k := c.due.take(most)
	c.progress.taken += k.n
	rn.group, rn.slots = k, k.items[k.from:k.end]
	rn.holds, rn.held, rn.seen = true, len(c.holding), rn.begin
	c.holding = append(c.holding, rn)
	c.keepWatch()
	return true
}

// release takes the slots from a runner whose task is over, n of them taken. Called by the runner, with mu held.
func (c *Crew[T]) release(rn *Runner[T], n int) {
	if rn.holds {
		c.letGo(rn, n)
	}
	clear(rn.slots)
	if k := rn.group; k != nil {
		k.n = 0
		c.due.recycle(k)
	}
	rn.slots, rn.group = nil, nil
}

// letGo puts the items of a runner that holds a group back on the list, except for those in the n slots that it has taken.
// Called by the runner, or by another goroutine that has set held, with mu held.
func (c *Crew[T]) letGo(rn *Runner[T], n int) {
	rn.holds, rn.kept = false, n
	c.started.Add(uint64(n))
	c.progress.taken -= c.due.giveBack(rn.group, n)
	last := len(c.holding) - 1
	c.holding[rn.held] = c.holding[last]
	c.holding[rn.held].held = rn.held
	c.holding[last] = nil
	c.holding = c.holding[:last]
}

// dismiss removes a runner that has nothing left to do. Called with mu held.
func (c *Crew[T]) dismiss(rn *Runner[T]) {
	last := len(c.live) - 1
	c.live[rn.place] = c.live[last]
	c.live[rn.place].place = rn.place
	c.live[last] = nil
	c.live = c.live[:last]
	c.runners--
	rn.endTask()
	c.release(rn, rn.taken(rn.word.Load()))
	*rn = Runner[T]{crew: c}
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
func (c *Crew[T]) keep(rn *Runner[T]) {
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
		runners[i] = &Runner[T]{crew: c}
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
func (c *Crew[T]) missing(chunks, runners int) ([]*chunk[T], []*Runner[T]) {
	c.mu.Lock()
	chunks -= c.due.allChunks() + len(c.holding)
	runners -= len(c.live) + len(c.spare)
	c.mu.Unlock()
	return make([]*chunk[T], max(chunks, 0)), make([]*Runner[T], max(runners, 0))
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
	if c.idle != nil && len(c.live) == 0 && (c.runners == 0 || c.outside != nil) {
		close(c.idle)
		c.idle = nil
	}
}

// Close ends the crew. It returns the items whose tasks have not been started, and those whose tasks are running. Called
// once. A runner may be about to claim one of these items: the host refuses, or counts it as started. No other task starts
// any more.
func (c *Crew[T]) Close() (rest []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed.Store(true)
	var none T
	for _, rn := range c.live {
		_, n := rn.hold()
		for i := max(n-1, 0); i < len(rn.slots) && n <= len(rn.slots); i++ {
			if item := rn.slots[i]; item != none {
				rest = append(rest, item)
			}
			if i >= n {
				rn.slots[i] = none
			}
		}
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
		n += uint64(min(rn.taken(rn.word.Load()), len(rn.slots)))
	}
	return n
}

// Running returns the number of tasks that have been started, or are about to be, and have not returned. It also
// returns the number of goroutines, none with an executor.
func (c *Crew[T]) Running() (tasks, goroutines int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outside == nil {
		goroutines = c.runners
	}
	return len(c.live), goroutines
}

// Waiting returns the number of items on the list. For tests.
func (c *Crew[T]) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.due.n
}

// Waits reports whether items wait for a runner, on the list or perhaps in a group.
func (c *Crew[T]) Waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.due.n > 0 || len(c.holding) > 0
}

// RunsOf returns a channel for each run of the task of an item that is in progress. The channel is closed when the
// run is over.
func (c *Crew[T]) RunsOf(item T) (runs []<-chan struct{}) {
	return c.RunsOfAll(func(other T) bool { return other == item })
}

// RunsOfAll is RunsOf for the items that match. Match is called with the lock of the crew held.
//
// RunsOfAll looks at some runners at a time, so that it does not hold up the crew. It goes through live from the end,
// because a runner that moves takes the place of one before it. So it misses none that was there from the start.
func (c *Crew[T]) RunsOfAll(match func(item T) bool) (runs []<-chan struct{}) {
	const some = 64
	c.asking.Lock()
	defer c.asking.Unlock()
	for end := -1; end != 0; end = max(end-some, 0) {
		c.mu.Lock()
		if end < 0 || end > len(c.live) {
			end = len(c.live)
		}
		for _, rn := range c.live[max(end-some, 0):end] {
			if over := rn.untilOver(match); over != nil {
				runs = append(runs, over)
			}
		}
		c.mu.Unlock()
	}
	return runs
}
