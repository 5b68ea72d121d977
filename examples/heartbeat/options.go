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
	conns    int
	interval time.Duration
	limit    time.Duration
	tick     time.Duration
	duration time.Duration
	traffic  time.Duration
	silent   float64
	seed     uint64
}

// newFlags returns the flags that fill o, and sets o to their defaults.
func newFlags(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("heartbeat", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints the error, in one line
	fs.Usage = func() {}
	fs.IntVar(&o.conns, "conns", 10_000, "open `N` connections, or as many as the machine allows")
	fs.DurationVar(&o.interval, "interval", time.Second, "client: `time` of silence after which a client sends a heartbeat")
	fs.DurationVar(&o.limit, "limit", 3*time.Second, "server: `time` without data after which the server closes a connection")
	fs.DurationVar(&o.tick, "tick", 50*time.Millisecond, "`time` between two ticks of each of the two timers")
	fs.DurationVar(&o.duration, "duration", 3*time.Second, "`time` during which clients fall silent, at random moments")
	fs.DurationVar(&o.traffic, "traffic", 2*time.Second, "client: mean `time` between two packets that are not heartbeats, 0 for none")
	fs.Float64Var(&o.silent, "silent", 0.05, "`fraction` of the clients that fall silent, from 0 to 1")
	fs.Uint64Var(&o.seed, "seed", 1, "`number` that determines which clients fall silent, when, and when clients send other packets")
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
		within("conns", o.conns, 1, 1_000_000),
		within("tick", o.tick, time.Millisecond, time.Minute),
		within("interval", o.interval, time.Millisecond, time.Hour),
		within("limit", o.limit, time.Millisecond, 24*time.Hour),
		within("duration", o.duration, time.Millisecond, 24*time.Hour),
		within("traffic", o.traffic, 0, time.Hour),
		within("silent", o.silent, 0, 1),
	)
	// A heartbeat may be a tick late. With a shorter limit the server could close
	// clients that are not silent.
	if least := o.interval + 2*o.tick; err == nil && o.limit < least {
		err = fmt.Errorf("invalid value %v for flag -limit: allowed is -interval plus two times -tick (%v) or more", o.limit, least)
	}
	return o, err
}

// within returns an error if the value of a flag is not from min to max. For NaN
// it always does.
func within[T cmp.Ordered](name string, value, min, max T) error {
	if value >= min && value <= max {
		return nil
	}
	return fmt.Errorf("invalid value %v for flag -%s: allowed is %v to %v", value, name, min, max)
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, `Heartbeat opens thousands of TCP connections over loopback. A client that has
been silent for an interval sends a heartbeat. The server closes a connection
when no data has arrived for the time of a limit. Some clients fall silent at a
random moment. The server must close these when the limit is over, not earlier,
and must close no others.

The server and the clients run in this program. They have one timer each.
A time is written 200ms or 1.5s.

Exit codes: 0 all checks passed, 1 a check or something else failed, 2 bad
flags, 130 interrupted by Ctrl-C or SIGTERM, after the report so far.

Flags:
`)
	fs := newFlags(new(options))
	fs.SetOutput(w)
	fs.PrintDefaults()
}
