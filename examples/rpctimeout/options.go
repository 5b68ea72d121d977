package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strconv"
	"time"
)

// options are the flags. All values are within the limits that newFlags sets.
type options struct {
	count    int
	conns    int
	inFlight int
	timeout  time.Duration
	tick     time.Duration
	payload  int

	median time.Duration
	spread float64
	drop   float64
	seed   uint64

	listen  string
	connect string
}

// newFlags returns the flags that fill o, and sets o to their defaults.
func newFlags(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("rpctimeout", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints the error, in one line
	fs.Usage = func() {}

	*o = options{
		count: 200_000, conns: 4, inFlight: 2000, timeout: 200 * time.Millisecond,
		tick: 10 * time.Millisecond, payload: 32,
		median: 20 * time.Millisecond, spread: 1, drop: 0.01, seed: 1,
	}
	number := strconv.Atoi
	fraction := func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }
	seed := func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }
	ranged(fs, &o.count, "count", number, 1, 10_000_000, "client: send `N` requests")
	ranged(fs, &o.conns, "conns", number, 1, 256, "client: use `N` connections")
	ranged(fs, &o.inFlight, "inflight", number, 1, 1_000_000, "client: keep at most `N` requests in flight, over all connections")
	ranged(fs, &o.timeout, "timeout", time.ParseDuration, time.Millisecond, time.Hour, "client: `time` after which a call is given up")
	ranged(fs, &o.tick, "tick", time.ParseDuration, time.Millisecond, time.Minute, "client: `time` between two ticks of the timer that holds the timeouts")
	ranged(fs, &o.payload, "payload", number, 0, maxPayload, "client: `bytes` of payload in a request")
	ranged(fs, &o.median, "median", time.ParseDuration, 0, 10*time.Second, "server: median `time` before a reply; the times have a log-normal distribution")
	ranged(fs, &o.spread, "spread", fraction, 0, 3, "server: `sigma` of the distribution of these times, see -median; the larger it is, the longer the slowest replies take")
	ranged(fs, &o.drop, "drop", fraction, 0, 1, "server: `fraction` of the requests that are never answered, from 0 to 1")
	ranged(fs, &o.seed, "seed", seed, 0, math.MaxUint64, "server: `number` that determines which requests are dropped and how long each reply is delayed")
	fs.StringVar(&o.listen, "listen", "", "only serve, on this loopback `address`, such as 127.0.0.1:7070")
	fs.StringVar(&o.connect, "connect", "", "only call the server at this loopback `address`")
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
	if o.listen != "" && o.connect != "" {
		return o, errors.New("-listen and -connect are both set: only one of them is allowed")
	}
	for name, addr := range map[string]string{"listen": o.listen, "connect": o.connect} {
		if ap, err := netip.ParseAddrPort(addr); addr != "" && (err != nil || !ap.Addr().IsLoopback()) {
			return o, fmt.Errorf("invalid value %q for flag -%s: allowed is a loopback address with a port, such as 127.0.0.1:7070", addr, name)
		}
	}
	return o, nil
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, `Rpctimeout sends requests over a few TCP connections, each request with its own
timeout on one shared timer, and reports how late those timeouts fired.

The server delays and drops replies, to make calls time out. It runs in the same
program unless -listen or -connect is given. A time is written 200ms or 1.5s.

Exit codes: 0 all checks passed, 1 a check or something else failed, 2 bad
flags, 130 interrupted by Ctrl-C or SIGTERM, after the report so far. A server
started with -listen ends in this way too, but its exit code is 0.

Flags:
`)
	fs := newFlags(new(options))
	fs.SetOutput(w)
	fs.PrintDefaults()
}

// A limited is a flag.Value that refuses values outside its limits. The error states the limits.
type limited[T cmp.Ordered] struct {
	to       *T
	parse    func(string) (T, error)
	min, max T
}

func ranged[T cmp.Ordered](fs *flag.FlagSet, to *T, name string, parse func(string) (T, error), min, max T, usage string) {
	fs.Var(limited[T]{to, parse, min, max}, name, usage)
}

func (l limited[T]) Set(s string) error {
	v, err := l.parse(s)
	if err != nil || !(v >= l.min && v <= l.max) { // also refuses NaN
		return fmt.Errorf("allowed is %v to %v", l.min, l.max)
	}
	*l.to = v
	return nil
}

func (l limited[T]) String() string {
	if l.to == nil { // flag calls String on a zero value
		return ""
	}
	return fmt.Sprint(*l.to)
}
