// Failback shows two uses of a timing wheel in RPC frameworks: calls that fail are retried until the service
// is up again, and providers renew the lease of their registration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// The exit codes, as -h explains them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first Ctrl-C ends the run with its report. A second one ends the program.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program except for the signals, which cancel ctx. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(stdout)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "failback: %v (-h explains the flags)\n", err)
		return exitUsage
	}
	return exitCode(ctx, runBoth(ctx, o, stdout, stderr), stderr)
}

// exitCode returns the exit code of a run that has ended with err, which it prints.
func exitCode(ctx context.Context, err error, stderr io.Writer) int {
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "failback: %v\n", err)
		return exitFailed
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitOK
}

// runBoth runs the two parts at the same time and prints the report. The error says what failed, or which
// checks fail.
func runBoth(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(1_000_000)
	}
	calls, err := newCalls(o)
	if err != nil {
		return err
	}
	fleet, err := newFleet(o)
	if err != nil {
		return err
	}

	fmt.Fprintf(stdout, "%s calls over %v, %d outages; %s providers, leases of %v; ticks of %v; -seed %d\n\n",
		commas(o.count), o.over, o.outages, commas(o.providers), o.ttl, o.tick, o.seed)

	// If one part fails, the other is canceled.
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	stopProgress := showProgress(stderr, calls, fleet)
	var parts sync.WaitGroup
	var callsErr, fleetErr error
	part := func(run func(context.Context) error, err *error) {
		parts.Go(func() {
			if *err = run(both); *err != nil {
				cancel()
			}
		})
	}
	part(calls.run, &callsErr)
	part(fleet.run, &fleetErr)
	parts.Wait()
	stopProgress()
	if err := errors.Join(callsErr, fleetErr); err != nil {
		return err
	}

	report := calls.report(ctx.Err() != nil)
	report.print(stdout)
	fmt.Fprintln(stdout)
	fleet.report.print(stdout)
	err = errors.Join(report.check(), fleet.report.check())
	if err == nil {
		fmt.Fprintln(stdout, "\nno call lost or carried out twice, no lease ended early, late or wrongly")
	}
	return err
}
