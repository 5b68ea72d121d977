package hashedwheel

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

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
		clock:        ticks.NewClock(c.tick),
		panicHandler: c.panicHandler,
		logger:       c.logger,
		name:         c.name,
		queue:        newQueue(),
		allTaken:     make(chan struct{}),
		allTold:      make(chan struct{}),
	}
	t.limit.max = int64(c.maxPending)
	t.makeCrews(c.tick, c.concurrency, c.executor)
	t.worker.labels = labelsFor(c.name, "worker")
	t.worker.warn = t.warnLate
	t.worker.clock = &t.clock
	t.worker.queue = &t.queue
	t.worker.wheelSize = c.wheelSize
	t.worker.levels = c.levels
	t.worker.shown.levels = make([]levelShown, c.levels)
	t.worker.wake = make(chan struct{}, 1)
	t.worker.done = make(chan struct{})
	return t, nil
}

// Defaults and limits of the options.
const (
	defaultTick      = 100 * time.Millisecond
	defaultWheelSize = 512
	maxWheelSize     = 1 << 20 // 59 MB of buckets for each level: allocating more would take too long
	maxLevels        = 8
)

// An Option changes a default of New.
type Option func(*config)

// config holds what the options set. Its zero value is not the default: see newConfig.
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

// WithTick sets the time from one tick boundary to the next, 100 ms by default. A timeout expires at the
// first boundary at or after its deadline, so the tick is the precision of the timer. Each tick at which
// something happens costs a wake-up of the process.
//
// As a rule of thumb, choose a tick of at most a tenth of the shortest delay that matters. A timeout that
// is armed just after a boundary, with a delay of one tick, expires nearly two ticks later. So a loop that
// waits for one tick at a time takes two ticks for each iteration. ScheduleAtFixedRate does not, because
// its times count from the start.
//
// Any positive duration is allowed. Below a millisecond, the machine's own timers limit the precision. A
// timer with a tick of 1 ns works for 104 days after New. With a longer tick it works proportionally
// longer, up to 292 years.
func WithTick(d time.Duration) Option {
	return func(c *config) { c.tick = d }
}

// WithWheelSize sets the number of buckets of each wheel, 512 by default. It must be 1 to 1,048,576, and is
// rounded up to a power of two. A bucket takes 56 bytes while anything is pending.
//
// One turn of the wheel takes the wheel size times the tick. Choose a turn that is not much shorter than
// the usual delay. A timeout that is more than a turn away shares its bucket with nearer ones, and is
// checked each time they expire. With several levels this happens less often: see WithLevels.
func WithWheelSize(n int) Option {
	return func(c *config) { c.wheelSize = n }
}

// WithLevels sets the number of wheels, 1 by default, at most 8. All have the same wheel size. One wheel is
// a hashed wheel with remaining rounds, like that of Netty. With more wheels, each bucket of an upper wheel
// covers half a turn of the wheel below, and timeouts move down as they come nearer. Then a distant timeout
// is checked once for each wheel, instead of each time that others in its bucket are due. With 512 buckets
// and a tick of 10 ms, 2 wheels reach 22 minutes and 3 reach 4 days. A timeout beyond that stays on the top
// wheel for as many rounds as necessary.
//
// An upper wheel takes no memory until the first timeout gets there. Moving a timeout down one wheel costs
// 20 ns, or 100 ns where memory is cold. If very many timeouts move down together, this work is done between
// the ticks, before they are due. With a wheel size of 1 or 2, more levels bring no advantage.
func WithLevels(n int) Option {
	return func(c *config) { c.levels = n }
}

// WithMaxPending limits the number of pending timeouts to n. Each of them has one of n slots. Arming one
// more fails with ErrTooManyPending. The slot is free again once Cancel has returned true, or the task has
// been started. A repeating timeout keeps its slot until it ends. No call waits for a slot. So a call may
// be refused although a slot is just being freed. Zero, the default, means no limit.
//
// Resetting a timeout that has ended takes a slot again. So when a task resets its own timeout, to try
// something again, the Reset fails if others have taken all slots meanwhile. A repeating timeout also keeps
// its slot while its task runs. So arm a retry with Schedule: the schedule computes the backoff, and
// returns the zero Time after the last try, as in the example named Retry. Or have the task of a repeating
// timeout call Reset, which moves its next run, and Cancel after the last try.
//
// A limit costs some 10 ns for each timeout. All goroutines share its counter, so it costs 100 ns and more
// where several processors do little else than arm and cancel.
func WithMaxPending(n int) Option {
	return func(c *config) { c.maxPending = n }
}

// WithMaxConcurrency limits the number of tasks that run at the same time to n. With 1 they run one after
// another, as they do in Netty and Dubbo. Zero, the default, means no limit: then the timer adds goroutines
// when tasks block, so that these do not hold up other tasks.
//
// Tasks that block hold up others only when n of them do. Tasks that do not block need few goroutines, whatever
// the limit is. A timeout that waits for its turn is still pending: it can be canceled and reset. The limit does not
// apply to Sleep, or to the timers and tickers of package clock.
func WithMaxConcurrency(n int) Option {
	return func(c *config) { c.concurrency = n }
}

// WithExecutor has tasks run by submit, which may be the Submit method of a goroutine pool. While timeouts that
// have come due wait, the timer calls submit with one function after another. Submit must see to it that this
// function is called once, soon, on any goroutine. Each function runs one of the tasks that have been due longest,
// or does nothing if none is left. If a function is never called, a task waits until another timeout comes due, or
// forever with WithMaxConcurrency. With nil, the default, the timer runs tasks on its own goroutines. An
// executor costs two allocations for each task.
//
// Until its task starts, a timeout is pending: it can be canceled and reset, and Stop returns it. If submit
// returns an error or panics, a task runs on a goroutine of the timer, and Stats counts it as Unsubmitted. A
// submit that blocks costs a goroutine, and at most 64 block at the same time. With WithMaxConcurrency, the
// executor is given at most that many functions at a time, and a submit that blocks counts as one of them.
// A task that calls runtime.Goexit ends the goroutine of the executor. Sleep, and the timers and tickers
// of package clock, run without the executor.
func WithExecutor(submit func(run func()) error) Option {
	return func(c *config) { c.executor = submit }
}

// WithPanicHandler sets the function that is called when a task panics, in Run or Canceled, or when its Schedule
// panics after a run. Its arguments are the timeout, the recovered value, and the stack
// of the goroutine at the panic. The handler runs on that goroutine. A panic in the handler is not
// recovered, so it usually crashes the program. With nil, the default, the panic is logged as an error: see
// WithLogger. If the Schedule panics when the task is armed, the caller of Timer.Schedule gets the panic.
//
// A panic that is meant to end the program, such as that of a watchdog, is recovered too. With the following
// handler, a panic in a task crashes the program, unless an executor recovers it. It shows the stack of the
// task, like a panic in any goroutine:
//
//	hashedwheel.WithPanicHandler(func(_ *hashedwheel.Timeout, v any, _ []byte) { panic(v) })
func WithPanicHandler(h func(to *Timeout, value any, stack []byte)) Option {
	return func(c *config) { c.panicHandler = h }
}

// WithLogger sets the logger for events that no call can return as an error. A panic is logged unless there is
// a panic handler for it. A panic of the executor is always logged. Timeouts that were late by more than a
// second are logged at most once a second. With nil, the default, each message goes to the logger that
// slog.Default returns at that moment.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) { c.logger = l }
}

// WithName names the timer in logs, in Timer.String, in metrics and in profiles. It is meant for programs
// that have several timers. Each goroutine of the timer has two profiler labels. The label "hashedwheel" is
// the name. The label "hashedwheel.role" is "worker" for the goroutine that turns the wheel, and "runner"
// for those that run tasks and other user code. So if the name is rpc, go tool pprof -tagfocus
// hashedwheel=rpc shows what the timer and its tasks cost. Goroutines that a task starts inherit the
// labels. Goroutines that an executor starts do not, because submit is called without labels.
//
// A task may change the labels of its goroutine, for instance by pprof.Do: the next task starts with those of
// the timer again. On a goroutine of an executor, that is up to the executor.
//
// By default the name is empty, and the label "hashedwheel" is "timer".
func WithName(name string) Option {
	return func(c *config) { c.name = name }
}

// newConfig applies the options to the defaults. The error names the option that is wrong, its value, and
// what is allowed. A nil Option is ignored.
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
