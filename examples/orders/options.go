package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// options are the flags, after the checks of parseOptions.
type options struct {
	timeout time.Duration
	horizon time.Duration
	tick    time.Duration
	clients int
	pay     float64
	kills   int
	every   time.Duration
	db      string
	shop    bool
	look    bool
}

func newFlags(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("orders", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints the error, in one line
	fs.Usage = func() {}
	fs.DurationVar(&o.timeout, "timeout", 2*time.Second, "`time` after which an order that is not paid is canceled")
	fs.DurationVar(&o.horizon, "horizon", time.Second, "`time` before its deadline from which the wheel holds an order;\nthe order is read from the database in the first half of this time")
	fs.DurationVar(&o.tick, "tick", 10*time.Millisecond, "`time` between two ticks of the wheel")
	fs.IntVar(&o.clients, "clients", 20, "`number` of customers, who order one thing after another")
	fs.Float64Var(&o.pay, "pay", 0.7, "`fraction` of the orders that customers intend to pay, from 0 to 1")
	fs.IntVar(&o.kills, "kills", 5, "`number` of times that the second process is killed")
	fs.DurationVar(&o.every, "every", 600*time.Millisecond, "mean `time` from the start of the second process until it is killed")
	fs.StringVar(&o.db, "db", "", "database `file`, which is kept, and made if it does not exist;\nwithout -db a temporary file, which is removed")
	fs.BoolVar(&o.look, "look", false, "print what is in the database, and change nothing")
	fs.BoolVar(&o.shop, "shop", false, "run as the second process: take orders until Ctrl-C or the end of standard\ninput, and print each change. After a line \""+drainCommand+"\" take no more\norders, and end when no order is open")
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
	within("timeout", o.timeout, time.Millisecond, 24*time.Hour)
	within("tick", o.tick, time.Millisecond, time.Second)
	within("horizon", o.horizon, 10*o.tick, 24*time.Hour) // readAhead is on the wheel too
	within("every", o.every, time.Millisecond, time.Hour)
	switch {
	case err != nil:
	case o.clients < 1 || o.clients > 1000:
		err = fmt.Errorf("invalid value %d for flag -clients: allowed is 1 to 1000", o.clients)
	case !(o.pay >= 0 && o.pay <= 1): // also refuses NaN
		err = fmt.Errorf("invalid value %v for flag -pay: allowed is 0 to 1", o.pay)
	case o.kills < 0 || o.kills > 1000:
		err = fmt.Errorf("invalid value %d for flag -kills: allowed is 0 to 1000", o.kills)
	case o.look && o.shop:
		err = errors.New("-look and -shop are both set: only one of them is allowed")
	case (o.look || o.shop) && o.db == "":
		err = errors.New("-look and -shop need a database: set -db")
	}
	return o, err
}

// shopArgs returns the arguments of the process that is killed.
func (o options) shopArgs(db string) []string {
	return []string{
		"-shop", "-db=" + db,
		fmt.Sprint("-timeout=", o.timeout), fmt.Sprint("-horizon=", o.horizon), fmt.Sprint("-tick=", o.tick),
		fmt.Sprint("-clients=", o.clients), fmt.Sprint("-pay=", o.pay),
	}
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, `Orders cancels orders that are not paid in time, and loses none in a kill -9.

It starts itself as a second process, which takes orders and keeps them in a
database. It kills that process again and again. At the end it checks that each
order has ended correctly. A time is written 200ms or 1.5s.

Exit codes: 0 all checks passed, 1 a check or something else failed, 2 bad flags,
130 interrupted by Ctrl-C or SIGTERM, after the report so far (0 with -shop).

Flags:
`)
	fs := newFlags(new(options))
	fs.SetOutput(w)
	fs.PrintDefaults()
}
