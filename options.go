package hashedwheel

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// New returns a timer whose ticks count from now. It starts nothing until the first timeout is armed. An error names
// the option that is wrong, its value, and what is allowed.
//
// The timer counts monotonic time, as package time does. On Linux this stands still while the machine sleeps. So delays,
// limits and leases count only the time for which the machine is awake. For a time of the wall clock, use
// [Timer.Schedule], or the module in deadlines, whose deadlines also outlive the process.
//
// For a variable of a package, see [Must].
func New(opts ...Option) (*Timer, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	t := &Timer{
		clock:        ticks.NewClock(c.tick),
		panicHandler: c.panicHandler,
		logger:       c.logger,
		name:         c.name,
		allTaken:     make(chan struct{}),
	}
	t.wall = ticks.NewWall(&t.clock)
	t.queue.init(c.tick, defaultStripes())
	t.limit.max = int64(c.maxPending)
	t.makePools(c.tick, c.concurrency, c.executor)
	t.worker.labels = labelsFor(c.name, "worker")
	t.worker.warn = t.warn
	t.briefs.look, t.briefs.clock = t.lookSoon, &t.clock
	t.worker.clock = &t.clock
	t.worker.queue = &t.queue
	t.worker.wheelSize = c.wheelSize
	t.worker.state.Store(resting)
	t.worker.levels = c.levels
	t.worker.published.levels = make([]publishedLevel, c.levels)
	t.worker.work = t.worker.run
	t.worker.done = make(chan struct{})
	if c.tick < shortestTick {
		t.write(func() {
			t.log().Warn(fmt.Sprintf("hashedwheel: WithTick(%v): no machine keeps so short a tick; "+
				"for %d milliseconds write %[2]d*time.Millisecond", c.tick, c.tick))
		})
	}
	return t, nil
}

// Must returns the timer, or panics if the error is not nil. It is for variables of a package, whose options are constants:
//
//	var timer = hashedwheel.Must(hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond)))
func Must(t *Timer, err error) *Timer {
	if err != nil {
		panic(err)
	}
	return t
}

const (
	defaultTick      = 100 * time.Millisecond
	defaultWheelSize = 512
	maxWheelSize     = 1 << 20 // allocating more buckets at once would take too long
	maxLevels        = 8
	shortestTick     = 10 * time.Microsecond // New warns of a shorter one, which most likely lacks its unit
)

// The numbers of buckets (wheel.placeOf) leave the bit listed clear.
var _ [listed - 1 - maxLevels*maxWheelSize]struct{}

// An Option changes a default of New.
type Option func(*config)

// config holds what the options set. Its defaults are in newConfig.
type config struct {
	tick         time.Duration
	wheelSize    int
	levels       int
	maxPending   int
	concurrency  int
	executor     func(run func()) error // submit; nil for none
	panicHandler func(to *Timeout, value any, stack []byte)
	logger       *slog.Logger
	name         string
}

// WithTick sets the time from one tick boundary to the next, 100 ms by default. It is the precision of the timer:
// choose at most a tenth of the shortest delay that matters. Each tick at which something happens costs a wake-up of
// the process. Any positive duration is allowed. Below a millisecond, the machine limits the precision. Below 10 µs,
// New also logs a warning, because WithTick(10) is 10 ns.
func WithTick(d time.Duration) Option {
	return func(c *config) { c.tick = d }
}

// WithWheelSize sets the number of buckets of each level: 1 to 1,048,576, rounded up to a power of two, 512 by
// default. A turn of the wheel takes the size times the tick, and should not be much shorter than the usual delay. With
// one level, a timeout that is more than a turn away costs a check each time that others in its bucket expire.
func WithWheelSize(n int) Option {
	return func(c *config) { c.wheelSize = n }
}

// WithLevels sets the number of levels of the wheel, 1 to 8. One, the default, is a hashed wheel with remaining rounds.
// With more levels, each bucket of an upper level covers half a turn of the level below, and timeouts move down as they
// come nearer. So a distant timeout is checked once on each level. With 512 buckets and a tick of 10 ms, 2 levels reach
// 22 minutes and 3 reach 4 days. Timeouts beyond that go round on the top level.
func WithLevels(n int) Option {
	return func(c *config) { c.levels = n }
}

// WithMaxPending limits the number of pending timeouts to n. When n are pending, arming one more fails with
// ErrTooManyPending. Zero, the default, means no limit. No call waits for a slot. A call may fail while another
// goroutine is freeing a slot.
//
// A slot is free once Cancel has returned true, or the task has been started. So a Reset inside the task needs a slot
// again, and may fail. A repeating timeout keeps its slot until it ends. To retry, use Schedule: see the example
// Timer.Schedule (Retry).
func WithMaxPending(n int) Option {
	return func(c *config) { c.maxPending = n }
}

// WithMaxConcurrency limits the number of tasks that run at the same time to n. With 1, tasks run one after another, as
// in Netty and Dubbo by default. Zero, the default, means no limit: the timer adds goroutines when tasks block. A
// timeout that waits for its turn is pending. The limit does not count Sleep, nor the timers and tickers of package
// clock.
//
// A task must not wait for another task of the timer, such as a timeout of its own. If n tasks do so, they wait forever.
// In a task, use AfterFunc of a clock.Clock on the same timer, or a second timer.
//
// If a Reset races with the start of a task, the timer may keep the ended timeout in memory until the tasks queued before
// it have been started. Under a limit or an executor that may take long.
func WithMaxConcurrency(n int) Option {
	return func(c *config) { c.concurrency = n }
}

// WithExecutor makes submit run the tasks. The function submit may be the method of a goroutine pool. It must arrange for
// run to be called exactly once, soon, on any goroutine. Each call of run runs the due task that has waited longest, if
// there is one. With nil, the default, tasks run on goroutines of the timer.
//
// Calls of submit share goroutines. So submit must not leave its thread locked, nor call debug.SetPanicOnFault. A call
// of runtime.Goexit in submit counts as an error.
//
// A timeout is pending until its task starts. If submit returns an error or panics, the timer runs one due task itself,
// and counts it in Stats.Unsubmitted. Sleep, and the timers and tickers of package clock, run without the executor.
//
// If the executor queues functions, tasks must not wait for other tasks of the timer: see WithMaxConcurrency.
func WithExecutor(submit func(run func()) error) Option {
	return func(c *config) { c.executor = submit }
}

// WithPanicHandler sets the function that the timer calls for a panic in Run, in Canceled, or in Schedule.Next after
// a run. The timer calls h on the goroutine that panicked, with its stack. With nil, the default, the timer logs the
// first panic of a task at once, and later ones in one line a minute. If nothing is pending, that line waits for the
// next panic of the task, the next timeout, or Stop. The log names the function or the type of the task, and does not
// call its method String: for that use h.
//
// A panic in the handler is not recovered. So this handler makes each panic in a task crash the program:
//
//	hashedwheel.WithPanicHandler(func(_ *hashedwheel.Timeout, v any, _ []byte) { panic(v) })
func WithPanicHandler(h func(to *Timeout, value any, stack []byte)) Option {
	return func(c *config) { c.panicHandler = h }
}

// WithLogger sets the logger of the timer. The timer logs panics that have no handler, and the warning of WithTick.
// When tasks are late by a second, or calls of the program's functions do not return, it logs a warning that says why, at
// most once a minute. With nil, the default, each message goes to the logger that slog.Default returns at that time. A panic of the
// logger is recovered and counted in Stats.Panics, and its message is lost.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) { c.logger = l }
}

// WithName names the timer in logs, metrics and profiles. The goroutines of the timer have two profiler labels. The
// label "hashedwheel" is the name, or "timer" if there is none. The label "hashedwheel.role" is "worker" for the
// goroutine that turns the wheel, and "runner" for others.
func WithName(name string) Option {
	return func(c *config) { c.name = name }
}

func newConfig(opts []Option) (config, error) {
	c := config{tick: defaultTick, wheelSize: defaultWheelSize, levels: 1}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	switch {
	case c.tick <= 0:
		return c, fmt.Errorf("hashedwheel: WithTick(%v): the tick must be positive", c.tick)
	case c.wheelSize < 1 || c.wheelSize > maxWheelSize:
		return c, fmt.Errorf("hashedwheel: WithWheelSize(%d): the size must be 1 to %d", c.wheelSize, maxWheelSize)
	case c.levels < 1 || c.levels > maxLevels:
		return c, fmt.Errorf("hashedwheel: WithLevels(%d): the number must be 1 to %d", c.levels, maxLevels)
	case c.maxPending < 0:
		return c, fmt.Errorf("hashedwheel: WithMaxPending(%d): the limit must be positive, or 0 for none", c.maxPending)
	case c.concurrency < 0:
		return c, fmt.Errorf("hashedwheel: WithMaxConcurrency(%d): the limit must be positive, or 0 for none", c.concurrency)
	}
	c.wheelSize = ceilPowerOfTwo(c.wheelSize)
	return c, nil
}
