// Orders cancels orders that are not paid in time. They are kept in a database, and the wheel
// holds those that are due soon, so that a restart loses none and cancels none twice. To show
// that, it kills itself: a process of its own, over and over again.
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

// run is the whole program apart from signals: canceling ctx is the interruption. It returns the
// exit code.
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
