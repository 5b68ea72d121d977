package pool

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A state is how far a task has come.
type state int

const (
	waiting    state = iota // on the list, taken by a runner, or about to be requeued
	running                 // claimed, and not over
	ended                   // Ran must follow
	over                    // has run
	canceled                // must not run
	handedBack              // by Close; must not run
)

// A task is an item of the fake host.
type task struct {
	f       func()      // what Run does; nil for nothing
	next    func() bool // what Ran does and returns; nil if Ran is not to be called
	inClaim func()      // what the claim does first, if not nil

	mu    sync.Mutex
	state state
	last  bool // Close has returned it while it was running, so it does not run again
	pos   uint32
	runs  int
}

func (w *task) is() state {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// move changes the state if it is one of from, and reports whether it did.
func (w *task) move(to state, from ...state) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(from, w.state) {
		return false
	}
	w.state = to
	return true
}

// A fake is a host with a pool. It checks that the pool keeps to the protocol of Host, and that each task ends once:
// it runs, is removed, or is returned by Close.
type fake struct {
	t        testing.TB
	pool     Pool[*task]
	feeder   Feeder[*task]
	fed      bool // tasks go through the feeder, and can be removed
	blind    bool // Run does not check that no lock is held, which takes long if there are many runners
	panicked func(value any, stack []byte)

	gate   sync.RWMutex // locked by the goroutine that knows the positions, read-locked by others that add
	closed atomic.Bool
	ended  atomic.Bool // what Close has returned is marked
	mu     sync.Mutex
	all    []*task
	next   uint32  // the position of the next task that does not go through the feeder
	ran    []*task // in the order of their first instruction

	// Guarded by mu.
	counted []uint64      // how many tasks were counted together, in the order of the calls
	latest  time.Duration // how late the last of these was: in this host, its position

	claims, active, most, panics, requeued atomic.Int64
}

var _ Host[*task] = (*fake)(nil)

// newFake returns a host whose pool starts as a Timer's does. At the end of the test it closes the pool, waits for its
// tasks, and checks that each task has ended.
func newFake(t testing.TB, tick time.Duration) *fake {
	t.Helper()
	h := &fake{t: t}
	h.pool.Init(h, tick, new(Memory[*task]))
	h.feeder = NewFeeder(&h.pool)
	t.Cleanup(h.finish)
	return h
}

func (h *fake) finish() {
	h.close()
	<-h.pool.UntilIdle()
	p := &h.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Zero(h.t, h.active.Load())
	require.False(h.t, p.watching)
	require.Empty(h.t, p.runners)
	if !p.hasExecutor() {
		require.Zero(h.t, p.starting.Load())
	}
	runs := 0
	for i, w := range h.all {
		if is := w.is(); is != over && is != canceled && is != handedBack {
			h.t.Fatalf("task %d is in state %d", i, is)
		}
		runs += w.runs
	}
	require.EqualValues(h.t, h.claims.Load(), runs)
	require.Equal(h.t, h.claims.Load(), int64(h.sum()), "how late each was is counted")
}

// put adds a task that waits. Called with gate locked.
func (h *fake) put(w *task) {
	w.mu.Lock()
	if h.fed {
		w.pos = h.feeder.Position()
	} else {
		w.pos = h.next
		h.next++
	}
	w.mu.Unlock()
	if h.fed {
		h.feeder.Add(w)
	} else {
		h.pool.Add(w)
	}
}

// add adds tasks one after another, with their positions.
func (h *fake) add(all ...*task) {
	h.gate.Lock()
	defer h.gate.Unlock()
	h.remember(all)
	for _, w := range all {
		h.put(w)
	}
	h.feeder.Flush()
}

func (h *fake) remember(all []*task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, all...)
}

// addFunc adds n tasks that call f.
func (h *fake) addFunc(n int, f func()) (all []*task) {
	for range n {
		all = append(all, &task{f: f})
	}
	h.add(all...)
	return all
}

// toss adds a task, at the same time as others, unless the pool is closed. Its position is not known.
func (h *fake) toss(w *task) bool {
	h.gate.RLock()
	defer h.gate.RUnlock()
	if h.closed.Load() {
		return false
	}
	h.remember([]*task{w})
	h.pool.Add(w)
	return true
}

// remove keeps a task from running, and takes it off the list if it went through the feeder. It reports false if it is too
// late.
func (h *fake) remove(w *task) bool {
	h.gate.Lock()
	defer h.gate.Unlock()
	if !w.move(canceled, waiting) {
		return false
	}
	if h.fed {
		h.pool.Remove(w, w.pos)
	}
	return true
}

// close closes the pool, and returns the tasks that do not run any more.
func (h *fake) close() (rest []*task) {
	h.gate.Lock()
	defer h.gate.Unlock()
	if h.closed.Load() {
		return nil
	}
	all := h.pool.Close()
	h.closed.Store(true)
	seen := make(map[*task]bool)
	for _, w := range all {
		require.True(h.t, !seen[w] || h.requeued.Load() > 0, "returned twice")
		seen[w] = true
		w.mu.Lock()
		switch w.state {
		case waiting:
			w.state = handedBack
			rest = append(rest, w)
		case running, ended:
			w.last = true
		}
		w.mu.Unlock()
	}
	h.ended.Store(true)
	return rest
}

func (h *fake) Work(rn *Runner[*task]) {
	for w := rn.Next(); w != nil; w = rn.Next() {
		if !h.claim(w) {
			continue
		}
		if rn.Start(w.next != nil) {
			rn.Measured(time.Duration(w.pos))
		}
		h.run(w)
	}
}

func (h *fake) Count(late time.Duration, n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counted = append(h.counted, n)
	h.latest = late
}

// claim claims a task, unless it is canceled, or Close has returned it.
func (h *fake) claim(w *task) bool {
	if w.inClaim != nil {
		w.inClaim()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == canceled || w.state == handedBack {
		return false
	}
	if w.state != waiting || h.ended.Load() {
		h.t.Errorf("claimed in state %d", w.state)
		return false
	}
	w.state = running
	h.claims.Add(1)
	return true
}

func (h *fake) run(w *task) {
	n := h.active.Add(1)
	for m := h.most.Load(); n > m && !h.most.CompareAndSwap(m, n); m = h.most.Load() {
	}
	if limit := h.pool.Limit; limit != 0 && n > int64(limit) {
		h.t.Errorf("%d tasks run, with a limit of %d", n, limit)
	}
	w.runs++ // the claim guards it
	h.mu.Lock()
	h.ran = append(h.ran, w)
	h.mu.Unlock()
	defer func() {
		h.active.Add(-1)
		to := over
		if w.next != nil {
			to = ended
		}
		w.move(to, running)
	}()
	h.checkLocks()
	if w.f != nil {
		w.f()
	}
}

// checkLocks hangs if the calling goroutine holds the lock of the pool.
func (h *fake) checkLocks() {
	if !h.blind {
		h.pool.Waiting()
	}
}

// Ran calls next. If that ends the goroutine, the task waits for its next run.
func (h *fake) Ran(w *task) (again bool) {
	if w.next == nil || w.is() != ended {
		h.t.Errorf("told in state %d", w.is())
	}
	h.checkLocks()
	again = true
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		again = again && !w.last
		if w.state = over; again {
			w.state = waiting
		}
	}()
	again = w.next()
	return again
}

func (h *fake) Requeue(w *task) {
	h.gate.Lock()
	defer h.gate.Unlock()
	h.requeued.Add(1)
	if w.is() == waiting {
		h.put(w)
		h.feeder.Flush()
	}
}

func (h *fake) Panicked(w *task, value any, stack []byte) {
	if s := w.is(); s != ended && s != over {
		h.t.Errorf("panicked in state %d", s)
	}
	h.checkLocks()
	h.panics.Add(1)
	if h.panicked != nil {
		h.panicked(value, stack)
	}
}

// order returns the tasks that have been run, in their order.
func (h *fake) order() []*task {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ran)
}

// runners returns how many goroutines run tasks, or are on their way to their first one. With an executor, it returns
// how many functions the executor has.
func (h *fake) runners() int {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	return h.pool.total()
}

// sum returns of how many tasks it has been counted how late they were.
func (h *fake) sum() (n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, some := range h.counted {
		n += some
	}
	return n
}

// watched reports whether the pool is watched.
func (h *fake) watched() bool {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	return h.pool.watching
}

// runsOf returns a channel for each run of a task.
func (h *fake) runsOf(w *task) (runs []<-chan struct{}) {
	for _, run := range h.pool.Runs(func(other *task) bool { return other == w }) {
		runs = append(runs, run.Over)
	}
	return runs
}

// numbers is a host whose items are numbers. Its tasks do nothing.
type numbers struct{}

var _ Host[int] = numbers{}

func (numbers) Work(rn *Runner[int])        { work(rn, func(int) {}) }
func (numbers) Count(time.Duration, uint64) {}
func (numbers) Ran(int) bool                { return false }
func (numbers) Requeue(int)                 {}
func (numbers) Panicked(int, any, []byte)   {}

// work is Host.Work for items that are never refused.
func work[T comparable](rn *Runner[T], run func(item T)) {
	var none T
	for item := rn.Next(); item != none; item = rn.Next() {
		if rn.Start(false) {
			rn.Measured(0)
		}
		run(item)
	}
}

// A light is a host that costs little, for tests of very many tasks on real time. Its items are numbers.
type light struct {
	numbers
	run func(item int)
}

func (h light) Work(rn *Runner[int]) { work(rn, h.run) }

// newLight returns a pool for a light host, and a feeder for it.
func newLight(tick time.Duration, run func(item int)) (*Pool[int], Feeder[int]) {
	p := new(Pool[int])
	p.Init(light{run: run}, tick, new(Memory[int]))
	return p, NewFeeder(p)
}
