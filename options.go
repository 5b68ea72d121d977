package hashedwheel

import (
	"fmt"
	"log/slog"
	"math/bits"
	"time"
)

// Limits of the options.
const (
	defaultTick      = 100 * time.Millisecond
	defaultWheelSize = 512
	maxWheelSize     = 1 << 20 // 59 MB of buckets for each level: more takes the worker too long to allocate
	maxLevels        = 8
)

// An Option changes a default of New.
type Option func(*config)

// config is what the options set. Its zero value is not the default: see newConfig.
type config struct {
	tick         time.Duration
	wheelSize    int
	levels       int
	maxPending   int
	concurrency  int
	dispatcher   func(r *runners) dispatcher // nil for none
	panicHandler func(to *Timeout, value any, stack []byte)
	logger       *slog.Logger
	name         string
}

// WithTick sets the distance of the tick boundaries, 100 ms by default. A timeout expires
// at the first boundary at or after its deadline, so the tick is the precision of the
// timer. Each tick at which something happens costs a wake-up of the process.
//
// As a rule of thumb, choose a tick of at most a tenth of the shortest delay that matters. A timeout armed just after
// a boundary for exactly one tick waits for nearly two: a loop that waits for one tick each time, and arms
// again when it is over, takes two for each turn. ScheduleAtFixedRate does not, because its times are
// counted from the start.
//
// Any positive duration is allowed; below a millisecond the machine's own timers set the limit. With one of 1 ns the
// timer works for 104 days after New, and in proportion longer with longer ones.
func WithTick(d time.Duration) Option {
	return func(c *config) { c.tick = d }
}

// WithWheelSize sets the number of buckets, 512 by default. It is rounded up to a power of
// two; allowed are 1 to 1,048,576. A bucket costs 56 bytes while anything is pending.
//
// A turn of the wheel, wheel size times tick, is best not much shorter than the
// usual delay: timeouts further off than a turn share their bucket with nearer ones, and
// are looked at when those expire. Or see WithLevels.
func WithWheelSize(n int) Option {
	return func(c *config) { c.wheelSize = n }
}

// WithLevels sets the number of wheels, 1 by default, at most 8. All have the wheel size. With 1
// it is a hashed wheel with remaining rounds, as Netty's. With more, a bucket of each further wheel
// is for half a turn of the one below, and a timeout that is far off is looked at once for each
// wheel that it comes down, instead of each time that others of its bucket are due. With a tick of
// 10 ms and 512 buckets 2 wheels reach 22 minutes and 3 reach 4 days; what lies beyond stays on the
// last one by rounds.
//
// A wheel takes its memory when the first timeout gets there. To come down costs 20 ns for
// each wheel and timeout, 100 where memory is cold, spent between the ticks before they are due. With a wheel size of 1 or 2
// there is nothing to be gained by levels.
func WithLevels(n int) Option {
	return func(c *config) { c.levels = n }
}

// WithMaxPending limits the number of pending timeouts. One more is refused with
// ErrTooManyPending. A slot is free when Cancel has returned true, or when the task has been started; a
// repeating timeout has its slot until it ends. No call waits for a slot, so one that overlaps with the
// call or the start that frees it may still be refused. Zero, the default, means no limit.
//
// An ended timeout takes a slot again when it is reset. So a Reset from inside its own task, to try
// something again, is refused if others have taken all slots meanwhile. A repeating timeout keeps its
// slot also while its task runs. Arm a retry by Schedule, with a schedule that computes the backoff and
// returns the zero Time after the last try, as in the example. Or have the task of a repeating timeout
// call Reset, which moves its next run, and Cancel after the last try.
//
// A limit costs some 20 ns for each timeout, and more where nearly all slots are in use: then goroutines
// have to look for them on each other's part of the queue, one after another.
func WithMaxPending(n int) Option {
	return func(c *config) { c.maxPending = n }
}

// WithMaxConcurrency limits the number of tasks that run at the same time. With 1 they run one
// after another, as in Netty and Dubbo. Zero, the default, means no limit: a task that blocks
// then gets out of the way of the others by itself.
//
// With a limit, n goroutines are at work whenever there are tasks for them, and tasks that
// block hold up the others as soon as there are n of them. A timeout that waits for its turn
// is pending: it can be canceled and reset. Sleep, and tasks that are Light, need no turn.
func WithMaxConcurrency(n int) Option {
	return func(c *config) { c.concurrency = n }
}

// WithPanicHandler sets the function that is told of a panic in a task, or in what belongs to it, a
// Canceler or a Schedule: the timeout, the
// value recovered, and the stack of the goroutine at the panic. It runs where the task ran
// and counts as part of its run. If it panics itself the program crashes. Nil, the default,
// logs the panic as an error through the logger.
//
// A panic that is meant to end the program, such as that of a watchdog, is recovered too. This handler lets
// every panic in a task crash the program, with the stack of the task, as one in a goroutine does:
//
//	hashedwheel.WithPanicHandler(func(_ *hashedwheel.Timeout, v any, _ []byte) { panic(v) })
func WithPanicHandler(h func(to *Timeout, value any, stack []byte)) Option {
	return func(c *config) { c.panicHandler = h }
}

// WithLogger sets the logger for what no caller can be told: a panic, unless there is a handler for it; a
// panic of the executor; and that
// timeouts were late by more than a second, at most once a second. Nil, the default, is slog.Default() at the time of the message.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) { c.logger = l }
}

// WithName names the timer, for those who have several: in what is logged, in Timer.String, in metrics, and in
// profiles. Each goroutine of the timer's carries the profiler labels "hashedwheel", which is the name, and
// "hashedwheel.role", which is "worker" for the goroutine that turns the wheel and "runner" for those that
// run tasks and other user code. So a profile of the program shows what the timer costs, and its tasks: with
// go tool pprof, -tagfocus hashedwheel=rpc. Goroutines that a task starts inherit the labels. Those of an executor
// do not: submit is called without them.
//
// A task that changes the labels of its goroutine leaves the change to tasks that come due together with it. So
// does pprof.Do, which ends with the labels of its context. Labeled does not.
//
// The name is empty by default, and the label is "timer" then.
func WithName(name string) Option {
	return func(c *config) { c.name = name }
}

// newConfig applies the options to the defaults. The error names the option that is wrong,
// its value, and what is allowed. A nil Option is passed over.
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

// ceilPowerOfTwo returns the least power of two that is not less than n, for n >= 1.
func ceilPowerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }
