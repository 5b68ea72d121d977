// Fleet cancels orders that are not paid in time, on several machines that share the deadlines. A
// stream of NATS JetStream has all deadlines, and the wheels of workers hold the near ones. It kills
// workers, to show that no deadline is lost, and that no order is canceled early or twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	// The first Ctrl-C ends the run with its report; a second one kills the program.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program except for the signals. Canceling ctx interrupts it. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(stdout)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "fleet: %v (-h explains the flags)\n", err)
		return exitUsage
	}
	if err := runFleet(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "fleet:", err)
		return exitFailed
	}
	if ctx.Err() != nil && o.orders > 0 {
		return exitInterrupted
	}
	return exitOK
}
