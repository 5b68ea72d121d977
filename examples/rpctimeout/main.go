// Rpctimeout gives every request of a TCP client its own timeout on one
// shared timer, and reports how late those timeouts fired.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
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
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program except for the signals. Canceling ctx interrupts it. It
// returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(stdout)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "rpctimeout: %v (-h explains the flags)\n", err)
		return exitUsage
	}

	if o.listen != "" {
		err = serveOnly(ctx, o, stdout)
	} else {
		err = callAndReport(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "rpctimeout: %v\n", err)
		return exitFailed
	}
	if ctx.Err() != nil && o.listen == "" {
		return exitInterrupted
	}
	return exitOK
}

// serveOnly answers clients of other processes until ctx is canceled.
func serveOnly(ctx context.Context, o options, stdout io.Writer) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "serving on %v, press Ctrl-C to end\n", ln.Addr())
	err = s.serve(ctx, ln)
	fmt.Fprintf(stdout, "received %s, replied %s, dropped %s\n",
		commas(s.received.Load()), commas(s.replied.Load()), commas(s.dropped.Load()))
	return err
}

// callAndReport makes the calls and prints the report, also when the run is
// interrupted. The error names the checks that fail.
func callAndReport(ctx context.Context, o options, stdout, stderr io.Writer) error {
	r, err := measure(ctx, o, stderr)
	if err != nil {
		return err
	}
	r.print(stdout)
	return r.check()
}

// measure makes the calls to the server at o.connect. Without that option it runs
// its own server until the calls have ended.
func measure(ctx context.Context, o options, stderr io.Writer) (*report, error) {
	if o.connect != "" {
		return runClient(ctx, o, o.connect, stderr)
	}
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	// An interruption ends the client first. Otherwise the client would count the
	// connections that the server closes as lost.
	serving, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- s.serve(serving, ln) }()

	r, err := runClient(ctx, o, ln.Addr().String(), stderr)
	stopServer()
	if serveErr := <-served; err == nil {
		err = serveErr
	}
	if err != nil {
		return nil, err
	}
	r.dropped = s.dropped.Load()
	return r, nil
}
