package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// options are the flags. All values are within the limits that newFlags and check set.
type options struct {
	count, callers int
	over           time.Duration
	outages        int
	busy, mute     float64

	timeout     time.Duration
	base, max   time.Duration
	jitter      jitter
	attempts    int
	deadline    time.Duration
	concurrency int

	providers, stop int
	ttl             time.Duration

	tick, grace time.Duration
	seed        uint64
}

// newFlags returns the flags that fill o, and sets o to their defaults.
func newFlags(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("failback", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints the error, in one line
	fs.Usage = func() {}

	*o = options{
		count: 2000, callers: 16, over: 5 * time.Second, outages: 3, busy: 0.05, mute: 0.02,
		timeout: 150 * time.Millisecond, base: 20 * time.Millisecond, max: 400 * time.Millisecond,
		concurrency: 64,
		providers:   200, stop: 20, ttl: 1500 * time.Millisecond,
		tick: 10 * time.Millisecond, grace: 500 * time.Millisecond,
	}
	const ms = time.Millisecond
	number, span := strconv.Atoi, time.ParseDuration
	fraction := func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }
	seed := func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }
	within(fs, &o.count, "count", number, 1, 1_000_000, "calls: make `N` calls")
	within(fs, &o.over, "over", span, 10*ms, time.Hour, "calls: spread the calls evenly over this `time`")
	within(fs, &o.callers, "callers", number, 1, 10_000, "calls: `N` goroutines make the calls and their first attempts")
	within(fs, &o.outages, "outages", number, 0, 100, "calls: take the service down `N` times, at random moments")
	within(fs, &o.busy, "busy", fraction, 0, 0.9, "calls: `fraction` of the requests that the service answers with status 503")
	within(fs, &o.mute, "mute", fraction, 0, 0.9, "calls: of the requests that the service carries out, the `fraction` that it does not answer")
	within(fs, &o.timeout, "timeout", span, ms, time.Minute, "calls: `time` that an attempt may take")
	within(fs, &o.base, "base", span, ms, time.Hour, "calls: longest `time` before the first retry; it doubles with each further retry")
	within(fs, &o.max, "max", span, ms, time.Hour, "calls: longest `time` before any retry")
	fs.TextVar(&o.jitter, "jitter", o.jitter, "calls: `kind` of jitter: with full, the time before a retry is random; with equal, only its upper half is")
	within(fs, &o.attempts, "attempts", number, 0, 1_000_000, "calls: give up a call after `N` attempts; 0 for never")
	within(fs, &o.deadline, "deadline", span, 0, time.Hour, "calls: give up a call after this `time`; 0 for never")
	within(fs, &o.concurrency, "concurrency", number, 0, 100_000, "calls: at most `N` retries are in progress at a time; 0 for no limit")
	within(fs, &o.providers, "providers", number, 1, 10_000, "registry: start `N` providers")
	within(fs, &o.stop, "stop", number, 0, 10_000, "registry: stop `N` providers, at random moments after the restart")
	within(fs, &o.ttl, "ttl", span, 100*ms, time.Hour, "registry: `time` that a lease lasts; a provider renews its lease after each third of this time")
	within(fs, &o.tick, "tick", span, ms, time.Second, "`time` between two ticks of each timer")
	within(fs, &o.grace, "grace", span, 0, time.Hour, "`time` that the machine may add to a bound")
	within(fs, &o.seed, "seed", seed, 0, math.MaxUint64, "`number` that determines the random moments; 0 to choose a number at random")
	return fs
}

// check returns an error if two flags contradict each other.
func (o *options) check() error {
	switch {
	case o.base > o.max:
		return fmt.Errorf("-base %v is more than -max %v", o.base, o.max)
	case o.stop > o.providers:
		return fmt.Errorf("-stop %d is more than -providers %d", o.stop, o.providers)
	case o.ttl < 10*o.tick:
		return fmt.Errorf("-ttl %v is less than 10 ticks, with -tick %v", o.ttl, o.tick)
	}
	return nil
}

// parseOptions returns the options that args ask for, flag.ErrHelp, or an error of one line that
// names the flag, its value and what is allowed.
func parseOptions(args []string) (options, error) {
	var o options
	fs := newFlags(&o)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: only flags are allowed", fs.Arg(0))
	}
	return o, o.check()
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, `Failback makes calls to an HTTP service that goes down and comes up again, and
retries the calls that fail, with exponential backoff on one timer, until each is
answered. At the same time it keeps providers registered with a registry that
forgets them all once. Both run on loopback in this program, which checks that no
call is lost or carried out twice, and that leases end when they should.

Exit codes: 0 all checks passed, 1 a check or something else failed, 2 bad
flags, 130 interrupted by Ctrl-C or SIGTERM, after the report so far.
A time is written 200ms or 1.5s.

Flags:
`)
	fs := newFlags(new(options))
	fs.SetOutput(w)
	fs.PrintDefaults()
}

// limits is a flag.Value that refuses values outside its limits. The error states the limits.
type limits[T cmp.Ordered] struct {
	value    *T
	parse    func(string) (T, error)
	min, max T
}

func within[T cmp.Ordered](fs *flag.FlagSet, value *T, name string, parse func(string) (T, error), min, max T, usage string) {
	fs.Var(limits[T]{value, parse, min, max}, name, usage)
}

func (l limits[T]) Set(s string) error {
	v, err := l.parse(s)
	if err == nil && v >= l.min && v <= l.max { // NaN fails both
		*l.value = v
		return nil
	}
	return fmt.Errorf("allowed is %v to %v", l.min, l.max)
}

func (l limits[T]) String() string {
	if l.value == nil { // package flag calls String on a zero value
		return ""
	}
	return fmt.Sprint(*l.value)
}
