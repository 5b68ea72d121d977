package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"time"
)

// options are the flags. All values are within the limits that parseOptions
// checks.
type options struct {
	interval time.Duration
	trailing bool
	quiet    time.Duration
	maxWait  time.Duration
	tick     time.Duration
	files    int
	duration time.Duration
	seed     uint64
	stdin    bool
}

// newFlags returns the flags that fill o, and sets o to their defaults.
func newFlags(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("ratelimit", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints the error, in one line
	fs.Usage = func() {}
	fs.DurationVar(&o.interval, "interval", 250*time.Millisecond, "throttle: shortest `time` between two calls of a key")
	fs.BoolVar(&o.trailing, "trailing", true, "throttle: make the last call of an interval when the interval ends; if false, the last contents are missed and the check fails")
	fs.DurationVar(&o.quiet, "quiet", 100*time.Millisecond, "debounce: `time` without an event of a key after which its call is made")
	fs.DurationVar(&o.maxWait, "maxwait", 500*time.Millisecond, "debounce: longest `time` that further events can delay a call; 0 for no limit")
	fs.DurationVar(&o.tick, "tick", 10*time.Millisecond, "`time` between two ticks of the timer")
	fs.IntVar(&o.files, "files", 100, "write to `N` files")
	fs.DurationVar(&o.duration, "duration", 4*time.Second, "`time` for which files are written")
	fs.Uint64Var(&o.seed, "seed", 1, "`number` that determines what is written, and the pauses between writes")
	fs.BoolVar(&o.stdin, "stdin", false, "use the lines of standard input as events, instead of files; a line is a key, a space and a value")
	return fs
}

// parseOptions returns the options that args ask for, flag.ErrHelp, or an
// error of one line that names the flag, its value and what is allowed.
func parseOptions(args []string) (options, error) {
	var o options
	fs := newFlags(&o)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: only flags are allowed", fs.Arg(0))
	}
	err := cmp.Or(
		within("interval", o.interval, time.Millisecond, time.Minute),
		within("quiet", o.quiet, time.Millisecond, time.Minute),
		within("maxwait", o.maxWait, 0, time.Hour),
		within("tick", o.tick, time.Millisecond, time.Minute),
		within("files", o.files, 1, 10_000),
		within("duration", o.duration, time.Millisecond, 24*time.Hour),
	)
	if err == nil && o.maxWait != 0 && o.maxWait < o.quiet {
		err = fmt.Errorf("invalid value %v for flag -maxwait: allowed is 0, or -quiet (%v) or more", o.maxWait, o.quiet)
	}
	return o, err
}

// within returns an error if the value of a flag is not from min to max.
func within[T cmp.Ordered](name string, value, min, max T) error {
	if value >= min && value <= max {
		return nil
	}
	return fmt.Errorf("invalid value %v for flag -%s: allowed is %v to %v", value, name, min, max)
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, `Ratelimit writes to many files in bursts, in a temporary directory, and indexes
each file that has changed: once by a throttle, and once by a debounce. At the
end it checks that the last content of every file is in both indexes, and that
no file was indexed more often than allowed.

With -stdin the events are lines, and each call prints its line.
A time is written 200ms or 1.5s.

Exit codes: 0 all checks passed, 1 a check or something else failed, 2 bad
flags, 130 interrupted by Ctrl-C or SIGTERM: no more events are taken, the
delayed calls are made, and the report is printed.

Flags:
`)
	fs := newFlags(new(options))
	fs.SetOutput(w)
	fs.PrintDefaults()
}
