// Orders cancels orders that are not paid in time. All orders are in a database, and the wheel holds those
// that are due soon. So a restart loses no order and cancels none twice. To show that, the program starts a
// second process and kills it again and again.
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
	// The first Ctrl-C ends the run cleanly; a second one kills the program.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program except for the signals. Canceling ctx interrupts it. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(stdout)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "orders: %v (-h explains the flags)\n", err)
		return exitUsage
	}

	switch {
	case o.shop:
		err = runShop(ctx, o, stdin, stdout, stderr)
	case o.look:
		err = look(o.db, stdout)
	default:
		err = demonstrate(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "orders:", err)
		return exitFailed
	}
	if ctx.Err() != nil && !o.shop {
		return exitInterrupted
	}
	return exitOK
}
