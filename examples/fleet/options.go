package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"time"
)

// options are the flags, after the checks of parseOptions.
type options struct {
	orders, clients, workers, kills int
	length, least, most             time.Duration
	window, lease, tick             time.Duration
	rate, pay                       float64
	wheel                           bool

	servers, replicas int
	dir, listen, url  string
	fsync             bool
}

// anyPort is the address of servers that only this process uses.
const anyPort = "127.0.0.1:0"

// ahead is how long before a deadline a worker should get it.
func (o options) ahead() time.Duration {
	if o.wheel {
		return o.window
	}
	return 0
}

func newFlags(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("fleet", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints the error, in one line
	fs.Usage = func() {}
	fs.IntVar(&o.orders, "orders", 4000, "`number` of orders; 0: place none, and serve other processes until Ctrl-C")
	fs.Float64Var(&o.rate, "rate", 400, "`number` of orders a second; 0 for no limit")
	fs.DurationVar(&o.length, "for", 20*time.Second, "`time` of the run, unless the orders take longer")
	fs.IntVar(&o.clients, "clients", 20, "`number` of customers who order at the same time")
	fs.DurationVar(&o.least, "least", time.Second, "shortest `time` after which an unpaid order is canceled")
	fs.DurationVar(&o.most, "most", 3*time.Minute, "longest `time` after which an unpaid order is canceled")
	fs.Float64Var(&o.pay, "pay", 0.7, "`fraction` of the orders that customers intend to pay, from 0 to 1")
	fs.IntVar(&o.workers, "workers", 4, "`number` of workers")
	fs.IntVar(&o.kills, "kills", 2, "`number` of times that a worker is killed and another one started")
	fs.DurationVar(&o.window, "window", 5*time.Second, "`time` before a deadline from which a worker holds it; -window and -lease\nmust be the same on all machines")
	fs.DurationVar(&o.lease, "lease", 3*time.Second, "`time` without a sign of life of a worker after which another one gets\nits deadlines")
	fs.DurationVar(&o.tick, "tick", 10*time.Millisecond, "`time` between two ticks of the wheels of workers and shop")
	fs.BoolVar(&o.wheel, "wheel", true, "hold near deadlines on a wheel; false: cancel an order when the server\ndelivers the deadline")
	fs.StringVar(&o.url, "nats", "", "`addresses` of servers to use, such as nats://host:4222, separated by commas;\nwithout -nats, servers are started in this process")
	fs.IntVar(&o.servers, "servers", 1, "`number` of servers to start: 1, or 3 or more for a cluster")
	fs.IntVar(&o.replicas, "replicas", 0, "`number` of servers that store each message; 0: all servers that are\nstarted, at most 5; with -nats, as many as are set there, or 1 if none are")
	fs.StringVar(&o.listen, "listen", anyPort, "`address` of the first server that is started; with port 0, any free port")
	fs.StringVar(&o.dir, "dir", "", "`directory` for the files of the servers, which is kept and can be used\nagain; without -dir a temporary directory, which is removed")
	fs.BoolVar(&o.fsync, "fsync", false, "servers acknowledge a message when it is on disk, not when only the\noperating system has it")
	return fs
}

// parseOptions returns the options that args ask for, flag.ErrHelp, or an error of one line that
// names the flag, its value and what is allowed.
func parseOptions(args []string) (o options, err error) {
	fs := newFlags(&o)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: only flags are allowed", fs.Arg(0))
	}
	within := func(name string, d, least, most time.Duration) {
		if err == nil && (d < least || d > most) {
			err = fmt.Errorf("invalid value %v for flag -%s: allowed is %v to %v", d, name, least, most)
		}
	}
	among := func(name string, n, least, most int) {
		if err == nil && (n < least || n > most) {
			err = fmt.Errorf("invalid value %d for flag -%s: allowed is %d to %d", n, name, least, most)
		}
	}
	among("orders", o.orders, 0, 10_000_000)
	among("clients", o.clients, 1, 1000)
	among("workers", o.workers, 0, 1000)
	among("kills", o.kills, 0, 1000)
	among("servers", o.servers, 1, 9)
	among("replicas", o.replicas, 0, 5) // of JetStream
	within("for", o.length, time.Second, 24*time.Hour)
	within("least", o.least, time.Millisecond, 24*time.Hour)
	within("most", o.most, o.least, 24*time.Hour)
	within("tick", o.tick, time.Millisecond, time.Second)
	within("lease", o.lease, max(300*time.Millisecond, 10*o.tick), time.Minute)
	within("window", o.window, 10*o.tick, 24*time.Hour)
	switch {
	case err != nil:
	case !(o.pay >= 0 && o.pay <= 1): // also refuses NaN
		err = fmt.Errorf("invalid value %v for flag -pay: allowed is 0 to 1", o.pay)
	case !(o.rate >= 0 && o.rate <= 1e6):
		err = fmt.Errorf("invalid value %v for flag -rate: allowed is 0 to 1000000", o.rate)
	case o.servers == 2:
		err = errors.New("invalid value 2 for flag -servers: a cluster needs 3 or more, because with 2 no server may fail")
	case o.workers == 0 && o.orders > 0 && o.url == "":
		err = errors.New("-workers=0 with orders needs workers elsewhere: set -nats")
	case o.url != "" && (o.servers != 1 || o.dir != "" || o.listen != anyPort || o.fsync):
		err = errors.New("-servers, -dir, -listen and -fsync are for servers that this program starts: not allowed with -nats")
	case o.url == "" && o.replicas > o.servers:
		err = fmt.Errorf("invalid value %d for flag -replicas: allowed is 0 to %d, the number of servers", o.replicas, o.servers)
	}
	if _, e := net.ResolveTCPAddr("tcp", o.listen); err == nil && e != nil {
		err = fmt.Errorf("invalid value %q for flag -listen: %v", o.listen, e)
	}
	if o.replicas == 0 && o.url == "" {
		o.replicas = min(o.servers, 5)
	}
	return o, err
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, `Fleet cancels orders that are not paid in time, on several machines that share the
deadlines through NATS JetStream.

It starts a server, workers and a shop in one process, and kills workers during the
run. At the end it checks that each order has ended correctly. A time is written
200ms or 1.5s.

Exit codes: 0 all checks passed, 1 a check or something else failed, 2 bad flags,
130 interrupted by Ctrl-C or SIGTERM, after the report so far (with -orders 0: 0).

Flags:
`)
	fs := newFlags(new(options))
	fs.SetOutput(w)
	fs.PrintDefaults()
}
