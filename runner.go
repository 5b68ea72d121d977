package hashedwheel

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxEager is the most runners that are started because there is much to do, and not
	// because some are stuck: as many as can run at the same time, and no more than this.
	maxEager = 16

	// slowTask is how long the tasks must take on average, for the runners there are, to
	// count as tasks that block. For shorter ones a goroutine each would cost more than it
	// gains. Tasks that need the processor for longer are told from those that block by the
	// runners added for them, which then get none: see look.
	slowTask = 5 * time.Microsecond

	// looksPerTick is how often in a tick the worker looks after runners that are behind,
	// and growth by what factor their number may grow each time. From 4 that gets a
	// thousand tasks past any number of blocked ones in five looks, a million in ten.
	looksPerTick = 16
	growth       = 4

	// mindEvery is how often, at least, the canceled ones are looked after once Stop has
	// ended the worker.
	mindEvery = 10 * time.Millisecond
)

// runners run the tasks of what has come due, on goroutines that are there only while there is
// work. The worker never runs a task, so none can hold up the wheel.
//
// One runner does for tasks that return soon: it takes timeout after timeout without a
// goroutine, a closure or an allocation for any of them. As long as something is left that
// came due before the last tick, the worker comes by several times a tick, and if the runners
// make little headway it adds more of them, each time by a factor. So what is behind tasks
// that block starts within two ticks, and a task that does not block costs no goroutine.
type runners struct {
	// Immutable after New.
	timer  *Timer
	limit  int                    // of tasks at a time; 0 for none
	eager  int                    // see maxEager
	submit func(run func()) error // nil: tasks run here

	mu      sync.Mutex
	batches []*batch      // that may have something left, as they came
	live    int           // runners, and tasks at work in the executor
	started int           // runners ever
	begun   atomic.Int64  // those of them that have had a processor; not guarded
	idle    chan struct{} // closed when live gets to 0; nil if nobody waits for it

	minding bool // a goroutine does what the worker did before Stop

	jobs map[*Timeout]*job // in the executor's hands, and not begun
	busy int               // jobs, begun or not

	// What the worker saw when it last looked; guarded by mu.
	looking bool
	added   int           // timeouts in all batches so far
	taken   int           // how many of them had been taken
	looked  time.Duration // when that was
	step    int           // how many runners to add next
}

// add accepts a batch. It does not wait for its tasks. Called by the worker for what is due.
func (r *runners) add(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = slices.DeleteFunc(r.batches, (*batch).done)
	r.batches = append(r.batches, b)
	r.added += len(b.due)
	switch {
	case r.limit > 0:
		r.spawn(b.left()) // as many as there may be
	case len(r.batches) == 1, r.live < r.eager:
		// If it is the only one, nobody may come to take it: all runners there are may
		// be in tasks that block.
		r.spawn(1)
	}
	if r.timer.IsStopped() {
		r.mind()
	}
}

// tell has the task of a canceled timeout told. Called by any goroutine.
func (r *runners) tell(to *Timeout) {
	r.mu.Lock()
	if n := len(r.batches); n > 0 {
		if b := r.batches[n-1]; b.canceled && !b.begun && len(b.due) < batchSize {
			b.due = append(b.due, to)
			r.added++
			r.mu.Unlock()
			return
		}
	}
	r.mu.Unlock()
	r.add(&batch{due: []*Timeout{to}, tick: r.timer.clock.now(), canceled: true})
	r.timer.worker.summon() // for it looks after what is stuck
}

// spawn starts n runners, if that many are allowed. Called with mu held.
func (r *runners) spawn(n int) {
	if r.limit > 0 {
		n = min(n, r.limit-r.live)
	}
	for range n {
		r.live++
		r.started++
		stripes := r.timer.queue.stripes
		s := &stripes[r.started%len(stripes)]
		go func() {
			r.begun.Add(1)
			r.run(s)
		}()
	}
}

// exit counts a runner, or a task in the executor, as ended. Called with mu held.
func (r *runners) exit() {
	r.live--
	if r.live == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// held reports whether nothing is to be taken from a batch for now: Stop will take what was
// due, or the next job that ends will have it taken. Called with mu held.
func (r *runners) held(b *batch) bool {
	return !b.canceled && (r.timer.IsStopped() || r.full())
}

// next returns a batch for a runner to take from: one that nobody has, or else the oldest,
// whose runner may be stuck. If it returns nil the caller is a runner no more.
func (r *runners) next() *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = slices.DeleteFunc(r.batches, (*batch).done)
	var help *batch
	for _, b := range r.batches {
		switch {
		case r.held(b):
		case !b.begun:
			b.begun = true
			return b
		case help == nil:
			help = b
		}
	}
	if help == nil {
		r.exit()
	}
	return help
}

// look looks after the runners and adds some if they are stuck. It reports whether anything
// waits for them, and whether it has waited since before this tick: then the caller should
// look again soon. Called only by the worker.
func (r *runners) look(tick uint64, elapsed time.Duration) (waiting, overdue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lookLocked(tick, elapsed)
}

// lookLocked is look, with mu held.
func (r *runners) lookLocked(tick uint64, elapsed time.Duration) (waiting, overdue bool) {
	r.batches = slices.DeleteFunc(r.batches, (*batch).done)
	taken, left := r.added, 0
	for _, b := range r.batches {
		n := b.left()
		taken -= n
		if !r.held(b) {
			left += n
			overdue = overdue || b.tick < tick
		}
	}
	if left == 0 || r.limit > 0 && r.live >= r.limit {
		r.looking = false // there is nothing to do, or nothing that may be done
		return false, false
	}
	moved, spent := taken-r.taken, elapsed-r.looked
	r.taken, r.looked = taken, elapsed
	switch slow := time.Duration(moved)*slowTask < time.Duration(r.live)*spent; {
	case !r.looking: // the first look
		r.looking = true
		r.step = growth
	case !overdue, r.begun.Load() < int64(r.started):
		// Either there is time, or those added before have not had a processor yet:
		// then it is not the tasks that are slow, and more runners would not help.
	case slow:
		r.spawn(min(r.step, left))
		r.step = min(r.step*growth, 1<<20)
	}
	return true, overdue
}

// mind looks after what is left to be told when Stop has ended the worker, again and again until
// nothing is left. With a limit there is nothing to look after: there can be no more runners.
// Called with mu held.
func (r *runners) mind() {
	if r.minding || r.limit > 0 {
		return
	}
	clock := &r.timer.clock
	if waiting, _ := r.lookLocked(neverTick, clock.elapsed()); waiting {
		r.minding = true
		time.AfterFunc(max(min(clock.tick/looksPerTick, mindEvery), 1), func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.minding = false
			r.mind()
		})
	}
}

// sweep drops what has been canceled or reset from the batches of before this tick, since the
// one that they wait for may take long. It reports whether there are batches of this tick, for
// which it is to be called again. Called only by the worker.
func (r *runners) sweep(tick uint64) (again bool) {
	r.mu.Lock()
	batches := slices.Clone(r.batches)
	r.mu.Unlock()
	for _, b := range batches {
		if b.canceled || b.done() {
			continue
		}
		if b.tick >= tick {
			again = true
			continue
		}
		kept := &batch{tick: b.tick}
		rest := b.takeRest()
		for _, to := range rest {
			word := to.word.Load()
			if status(word) == pending && (tickOf(word) <= b.tick || to.bucket == 0) {
				kept.due = append(kept.due, to)
			}
		}
		r.mu.Lock()
		r.added -= len(rest) // those kept are added again
		r.mu.Unlock()
		clear(rest)
		if len(kept.due) > 0 {
			r.add(kept)
		}
	}
	return again
}

// rest returns the timeouts that nobody has taken, and those that the executor has not begun,
// in whatever state they are, and forgets them. Called by Stop, with nobody inside the gate.
func (r *runners) rest() []*Timeout {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rest []*Timeout
	r.batches = slices.DeleteFunc(r.batches, func(b *batch) bool {
		if !b.canceled {
			due := b.takeRest()
			rest = append(rest, due...)
			r.added -= len(due)
		}
		return !b.canceled
	})
	for to, j := range r.jobs {
		rest = append(rest, to)
		j.to = nil
	}
	r.jobs = nil
	if len(r.batches) > 0 {
		r.spawn(1) // all runners may be in tasks that block
		r.mind()
	}
	return rest
}

// wait returns when no task is running, none is left to be told, and no runner is there; or
// with the error of the context. Called after Stop.
func (r *runners) wait(ctx context.Context) error {
	r.mu.Lock()
	if r.live == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run is a runner. It counts on stripe s.
func (r *runners) run(s *stripe) {
	ended := false
	defer func() {
		if !ended {
			go r.run(s) // a task has ended this goroutine by runtime.Goexit
		}
	}()
	for b := r.next(); b != nil; b = r.next() {
		switch {
		case b.canceled:
			for to := b.take(); to != nil; to = b.take() {
				r.timer.tellCanceled(to)
			}
		case r.submit != nil:
			for r.submitNext(b, s) {
			}
		default:
			for r.runNext(b, s) {
			}
		}
	}
	ended = true
}

// runNext takes a timeout from the batch and runs its task. It reports whether to go on.
func (r *runners) runNext(b *batch, s *stripe) bool {
	t := r.timer
	// From enter to leave nothing waits and no user code runs, so Stop may wait for it: when
	// it finds nobody inside, whoever took a timeout has also begun its task.
	if !t.enter(s) {
		t.leave(s)
		return false
	}
	to := b.take()
	claimed := to != nil && to.claim(b.tick)
	if claimed {
		s.expired.Add(1)
		t.release()
	}
	t.leave(s)
	if claimed {
		t.runTask(to, s)
	}
	return to != nil
}

// runTask runs the task of a timeout that has been claimed, and survives its panic.
func (t *Timer) runTask(to *Timeout, s *stripe) {
	defer t.taskEnded(to, s)
	to.task.Run(to)
}

func (t *Timer) taskEnded(to *Timeout, s *stripe) {
	if value := recover(); value != nil {
		defer s.finished.Add(1) // even if the handler ends the goroutine
		t.reportPanic(to, value, debug.Stack())
		return
	}
	s.finished.Add(1)
}

// tellCanceled tells the task of a canceled timeout, and survives its panic.
func (t *Timer) tellCanceled(to *Timeout) {
	defer func() {
		if value := recover(); value != nil {
			t.reportPanic(to, value, debug.Stack())
		}
	}()
	to.task.(Canceler).Canceled(to)
}

// eagerRunners returns how many runners can be at work at the same time.
func eagerRunners() int { return min(runtime.GOMAXPROCS(0), maxEager) }
