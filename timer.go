package hashedwheel

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrStopped is returned when a timeout is armed after Stop.
	ErrStopped = errors.New("hashedwheel: timer is stopped")

	// ErrTooManyPending is returned when a timeout is armed while as many are pending as
	// WithMaxPending allows.
	ErrTooManyPending = errors.New("hashedwheel: too many pending timeouts")

	// ErrNilTask is returned for a nil Task, TaskFunc or function.
	ErrNilTask = errors.New("hashedwheel: nil task")
)

// A Task is what runs when a timeout expires. Tasks of different timeouts may run at the same time, on
// goroutines of the timer or of an executor. With WithMaxConcurrency(1) they run one after another.
type Task interface {
	// Run is called with the handle of the timeout: once when it expires, or for each run of a repeating
	// timeout. In terms of the Go memory model, arming the timeout, or resetting it, happens before the call.
	Run(to *Timeout)
}

// TaskFunc is an adapter that makes a function a Task.
type TaskFunc func(to *Timeout)

// Run calls f(to).
func (f TaskFunc) Run(to *Timeout) { f(to) }

// plainFunc is TaskFunc for a function that does not need the handle.
type plainFunc func()

func (f plainFunc) Run(*Timeout) { f() }

// A Timer runs tasks after a delay. Make one with New and share it: most programs need only one. Any
// goroutine may call its methods, also from inside a task. A Timer must not be copied. Methods of the zero
// Timer panic.
type Timer struct {
	// Immutable after New.
	clock        clock
	panicHandler func(to *Timeout, value any, stack []byte)
	logger       *slog.Logger
	name         string
	queue        queue // its stripes are shared
	limit        limit // its counter is shared
	labels       labels

	worker worker
	tasks  crew[*Timeout] // runs the users' tasks
	own    crew[*Timeout] // runs the library's own tasks, see hook.own
	calls  crew[*call]    // notifies Cancelers, and logs
	submit *crew[*call]   // calls the executor's submit; nil without an executor

	// Shared.
	stopped atomic.Bool
	// The position of the worker: see presence.go. Without Cancelers, executor and refusals, the fields beside
	// it are seldom written.
	position atomic.Uint64
	allTaken chan struct{} // closed when Stop has taken all timeouts
	allTold  chan struct{} // closed when Stop has also notified the own tasks
	returned atomic.Uint64
	rejected atomic.Uint64
	panics   atomic.Uint64

	unsubmitted atomic.Uint64

	lateness atomic.Pointer[recorder] // nil before the first task

	reviving sync.Mutex // if there is a limit, held while a timeout that is not pending is reset
}

// New returns a timer whose ticks count from now. It has no goroutine until the first timeout is armed. It
// takes 4 KiB on a machine of two processors, and 36 KiB on one of 128 or more. While anything is pending,
// a default timer takes 33 KiB more, most of it for the buckets.
//
// An error names the option that is wrong, its value, and what is allowed.
func New(opts ...Option) (*Timer, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	t := &Timer{
		clock:        newClock(c.tick),
		panicHandler: c.panicHandler,
		logger:       c.logger,
		name:         c.name,
		queue:        newQueue(),
		allTaken:     make(chan struct{}),
		allTold:      make(chan struct{}),
	}
	t.limit.max = int64(c.maxPending)
	t.labels.set(c.name)
	t.makeCrews(c)
	t.worker.timer = t
	t.worker.due.crew, t.worker.ownDue.crew = &t.tasks, &t.own
	t.worker.clock = &t.clock
	t.worker.queue = &t.queue
	t.worker.wheelSize = c.wheelSize
	t.worker.levels = c.levels
	t.worker.shown.levels = make([]levelShown, c.levels)
	t.worker.wake = make(chan struct{}, 1)
	t.worker.done = make(chan struct{})
	return t, nil
}

// NewTimeout arms a timeout that runs task once, after delay. With a delay of zero or less, it expires at
// the next tick boundary, never inside the call. A deadline later than some 292 years after New cannot be
// represented (104 days with a tick of 1 ns). Then the timeout stays pending until it is canceled or reset,
// or the timer is stopped.
//
// The error is ErrNilTask, ErrStopped or ErrTooManyPending. After an error the task does not run.
func (t *Timer) NewTimeout(task Task, delay time.Duration) (*Timeout, error) {
	task, bits := prepareTask(task)
	if task == nil {
		return nil, ErrNilTask
	}
	return t.newTimeout(task, bits, t.clock.dueIn(delay))
}

// newTimeout arms a new timeout for a tick, which must lie ahead. Task and bits are the results of
// prepareTask.
func (t *Timer) newTimeout(task Task, bits, tick uint64) (*Timeout, error) {
	to := &Timeout{timer: t, task: task}
	*to.wordPtr() = bits
	long, err := t.start(to, tick)
	if err != nil {
		return nil, err
	}
	if long != nil {
		t.prune(long)
	}
	return to, nil
}

// start arms an idle timeout for a tick. No other goroutine may know the timeout yet, and the tick must lie
// ahead. If long is not nil, the caller must prune that stripe as soon as it holds no lock.
func (t *Timer) start(to *Timeout, tick uint64) (long *stripe, err error) {
	word := to.wordPtr()
	*word = pendingAt(*word|queued|fresh, tick)
	s := t.queue.stripe()
	if !t.takeSlot() {
		t.rejected.Add(1)
		return nil, ErrTooManyPending
	}
	if s.armed.Add(1)%pruneEvery == 0 {
		long = s
	}
	alone, ok := t.push(&s.fresh, to)
	if !ok {
		s.armed.Add(^uint64(0))
		t.freeSlot()
		t.rejected.Add(1)
		return nil, ErrStopped
	}
	if !alone {
		t.queue.changeStripe()
	}
	return long, nil
}

const notMade = "hashedwheel: the Timer was not made by New"

// checkMade panics if New has not made the timer. Methods that arm a timeout need not call it: they read
// the clock, which checks this too (see clock.checkBubble).
func (t *Timer) checkMade() {
	if t.queue.stripes == nil {
		panic(notMade)
	}
}

// Tick returns the time from one tick boundary to the next, as set by WithTick.
func (t *Timer) Tick() time.Duration {
	t.checkMade()
	return t.clock.tick
}

// AfterFunc arms a timeout that calls f once, after delay. It is like NewTimeout, for a function that does
// not need the handle.
func (t *Timer) AfterFunc(delay time.Duration, f func()) (*Timeout, error) {
	return t.NewTimeout(plainFunc(f), delay)
}

// push puts a timeout on the queue, and wakes or starts the worker if necessary. Alone is the result of
// stack.push. The push fails only after Stop has closed the queue, so it never fails inside the gate.
func (t *Timer) push(st *stack, to *Timeout) (alone, ok bool) {
	first, alone, ok := st.push(to)
	if first {
		t.worker.summon()
	}
	return alone, ok
}

// passed reports whether the boundary of a tick has passed. It reads the clock only if the position of the worker
// does not settle this.
func (t *Timer) passed(tick uint64) bool {
	return tick <= t.position.Load()>>1 || tick <= t.clock.now()
}

// pushAgain is push for a timeout that the worker has taken off the queue before. The worker moves it,
// removes it from its bucket, or places it again. Called inside the gate, or by a runner that is claiming.
func (t *Timer) pushAgain(s *stripe, to *Timeout) {
	s.pushedAgain.Add(1)
	t.push(&s.known, to)
}

// reportPanic passes a panic to the panic handler, or logs it if there is none. If to is nil, the executor
// has panicked: that is always logged.
func (t *Timer) reportPanic(to *Timeout, value any, stack []byte) {
	t.panics.Add(1)
	if t.panicHandler != nil && to != nil {
		t.panicHandler(to, value, stack)
		return
	}
	if to == nil {
		t.log().Error("hashedwheel: executor panicked", "panic", value, "stack", string(stack))
		return
	}
	t.log().Error("hashedwheel: task panicked",
		"panic", value, "timeout", to.String(), "stack", string(stack))
}

// log returns the logger to use. Logging runs user code: the handler of the logger.
func (t *Timer) log() *slog.Logger {
	l := t.logger
	if l == nil {
		l = slog.Default()
	}
	if t.name != "" {
		l = l.With("timer", t.name)
	}
	return l
}

// Name returns the name set by WithName.
func (t *Timer) Name() string {
	t.checkMade()
	return t.name
}
