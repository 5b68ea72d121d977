package hashedwheel

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/logtext"
	"github.com/hashedwheel/hashedwheel/internal/octave"
	"github.com/hashedwheel/hashedwheel/internal/pool"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

var (
	// ErrStopped is returned when a timeout is armed after Stop.
	ErrStopped = errors.New("hashedwheel: timer is stopped")

	// ErrTooManyPending is returned when arming a timeout would exceed the limit of WithMaxPending.
	ErrTooManyPending = errors.New("hashedwheel: too many pending timeouts")

	// ErrNilTask is returned for a nil Task, TaskFunc or function.
	ErrNilTask = errors.New("hashedwheel: nil task")

	errZeroDeadline = errors.New("hashedwheel: the deadline is the zero Time, which elsewhere means no deadline")
)

// A Timer runs tasks after a delay. Make one with New and share it: most programs need only one. Any goroutine may
// call its methods, also from inside a task. It must not be copied. Methods of the zero Timer panic.
type Timer struct {
	// Immutable after New.
	clock        ticks.Clock
	panicHandler func(to *Timeout, value any, stack []byte)
	logger       *slog.Logger
	name         string
	region       string // the type of the regions in traces
	queue        queue  // its stripes and its gate are shared
	limit        limit  // its counter is shared

	worker worker
	tasks  pool.Pool[*Timeout] // runs the users' tasks
	light  pool.Pool[*Timeout] // runs light tasks, see hook.light
	calls  pool.Calls          // notifies Cancelers, logs, looks for calls that hang, and runs what an executor refuses

	yielding yielding // shared

	wall *ticks.Wall // immutable

	executor *pool.Executor[*Timeout] // nil without WithExecutor

	// Not nil while a goroutine waits for the worker to catch up. This goroutine closes the channel, on which others wait. See
	// waitForRelief. Rarely written.
	relief atomic.Pointer[chan struct{}]

	// Shared.
	allTaken chan struct{} // closed when Stop has taken all timeouts
	returned atomic.Uint64
	panics   atomic.Uint64

	flood     logtext.Flood // of panics
	queues    queues        // of package keyed
	briefs    briefs        // calls that should be brief
	canceling atomic.Int64  // calls of Canceled in progress
	handling  handling      // of the panic handler
	looking   sync.Mutex    // held by Timer.census
	flushing  atomic.Bool   // what flood keeps after Stop will be logged within a second
	told      atomic.Bool   // the log has the warning of Shutdown

	refusedFull, refusedStopped atomic.Uint64

	lateness octave.Recorder

	reviving sync.Mutex // if there is a limit, held while a timeout that is not pending is reset
}

// NewTimeout arms a timeout that runs task once, after delay. With a delay of zero or less, the timeout expires at the
// next tick boundary, never inside the call. A timeout whose deadline is too far off to be represented, such as 292 years
// after New, never expires. The error is ErrNilTask, ErrStopped or ErrTooManyPending. After an error the task does not run.
func (t *Timer) NewTimeout(task Task, delay time.Duration) (*Timeout, error) {
	task, bits := prepareTask(task)
	if task == nil {
		return nil, ErrNilTask
	}
	return t.newTimeout(task, bits, t.clock.DueIn(delay))
}

// NewTimeoutAt is like NewTimeout, with a deadline instead of a delay. A deadline that has passed counts as a delay of
// zero. The zero Time is an error, because in other packages it means that there is no deadline.
//
// The result of time.Now and Add has a monotonic reading. For such a deadline, NewTimeoutAt reads the clock only to wake the
// timer, to check a deadline that seems to have passed, and in one of some 256 calls. It compares a deadline without a
// monotonic reading with the wall clock once. Setting the wall clock later has no effect.
//
// If only one of the caller and the timer is in a synctest bubble, NewTimeoutAt may panic, even after it has armed the
// timeout.
func (t *Timer) NewTimeoutAt(task Task, deadline time.Time) (*Timeout, error) {
	prepared, bits := prepareTask(task)
	if prepared == nil {
		return nil, ErrNilTask
	}
	tick := t.clock.DueAt(deadline)
	if tick == 0 && deadline.IsZero() {
		return nil, errZeroDeadline
	}
	return t.newTimeout(prepared, bits, t.ahead(tick))
}

// AfterFunc is NewTimeout for a function that does not need the handle.
func (t *Timer) AfterFunc(delay time.Duration, f func()) (*Timeout, error) {
	return t.NewTimeout(plainFunc(f), delay)
}

// AfterFuncAt is NewTimeoutAt for a function that does not need the handle.
func (t *Timer) AfterFuncAt(deadline time.Time, f func()) (*Timeout, error) {
	return t.NewTimeoutAt(plainFunc(f), deadline)
}

// newTimeout arms a new timeout for a tick that lies ahead. The caller gets task and bits from prepareTask.
func (t *Timer) newTimeout(task Task, bits, tick uint64) (*Timeout, error) {
	s := t.queue.stripe()
	to := &Timeout{timer: t, task: task}
	*to.wordPtr() = pendingAt(bits|young, tick)
	if !t.limit.acquire() { // before the timeout is pending, so that never more than the limit are
		return nil, t.refuse()
	}
	yields, uncontended, ok := s.nursery.put(to, t.queue.nearAt(tick), false)
	if !ok {
		t.limit.release()
		t.refusedStopped.Add(1)
		return nil, ErrStopped
	}
	if !uncontended {
		t.queue.seats.Move()
	}
	t.worker.wakeFor(tick) // after put: either this finds the worker idle, or the worker finds the slot when it leaves
	if yields {
		t.yielding.yieldTo(&t.worker, false)
	}
	return to, nil
}

// refuse counts a call that finds no free slot of the limit, or the timer stopped, and returns its error. Slots may be in
// use after Stop, because other calls take them before they notice it.
func (t *Timer) refuse() error {
	if t.queue.shut.Load() {
		t.refusedStopped.Add(1)
		return ErrStopped
	}
	t.refusedFull.Add(1)
	return ErrTooManyPending
}

// isPast reports whether a tick has passed. It reads the clock only if the worker has not reached the tick.
func (t *Timer) isPast(tick uint64) bool {
	return tick <= t.worker.progress.tick() || tick <= t.clock.Now()
}

// ahead returns the tick if it lies ahead, and otherwise the next tick. If the progress or the state of the worker shows
// that the tick lies ahead, ahead reads no clock. A tick that the worker has not reached because it is late counts as ahead.
// The worker comes to that tick in its next round.
func (t *Timer) ahead(tick uint64) uint64 {
	if t.worker.progress.isBefore(tick) {
		return tick
	}
	// An idle worker comes by the tick in its state, so it has reached no later one. If the clock has, the worker is late.
	if state := t.worker.state.Load(); isIdle(state) && tick > state>>idleShift {
		return tick
	}
	return max(tick, t.clock.DueIn(0))
}

// checkMade panics if New has not made the timer. Arming a timeout reads the clock, which checks this too.
func (t *Timer) checkMade() {
	if t.queue.stripes == nil {
		panic(ticks.NotMade)
	}
}

// Tick returns the time from one tick boundary to the next.
func (t *Timer) Tick() time.Duration {
	t.checkMade()
	return t.clock.Tick
}

// IsStopped reports whether Stop has been called.
func (t *Timer) IsStopped() bool {
	t.checkMade()
	return t.queue.shut.Load()
}

// A limit gives each pending timeout one of max slots: taken before it becomes pending, freed after it has ended.
type limit struct {
	max int64 // immutable after New; 0 for no limit

	// All goroutines write inUse, so no other field lies in its cache line. Unused without a limit.
	_     [64]byte
	inUse atomic.Int64 // never more than max
	_     [64]byte
}

// acquire takes a slot if there is one. It uses compare-and-swap, not Add(1) and undo: one caller's overshoot could
// refuse another although a slot is free.
func (l *limit) acquire() bool {
	if l.max == 0 {
		return true
	}
	for n := l.inUse.Load(); n < l.max; n = l.inUse.Load() {
		if l.inUse.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// isFull reports whether acquire would fail now.
func (l *limit) isFull() bool { return l.max > 0 && l.inUse.Load() >= l.max }

// release frees a slot that acquire has taken.
func (l *limit) release() {
	if l.max > 0 {
		l.inUse.Add(-1)
	}
}
