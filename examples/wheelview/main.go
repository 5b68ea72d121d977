// Wheelview shows a timer at work in the browser: its wheel, bucket by bucket, under a load that the
// page sets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// The exit codes, as -h explains them.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first Ctrl-C ends the program cleanly; a second one kills it.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program except for signals. It runs until ctx is canceled and returns the exit
// code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("wheelview", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error is printed below, in one line
	port := 8080
	flags.Func("port", "listen on this `port` of 127.0.0.1; 0 takes any free port (default 8080)", func(s string) (err error) {
		if port, err = strconv.Atoi(s); err != nil || port < 0 || port > 65535 {
			return errors.New("allowed is 0 to 65535")
		}
		return nil
	})
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, `Wheelview shows a timer at work: open the address that it prints in a browser.
Ctrl-C ends the program, which then prints the sums over all its timers.

Exit codes: 0 all checks passed, 1 a check or something else failed, 2 bad flags.

Flags:
`)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return exitOK
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: only flags are allowed", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(stderr, "wheelview: %v (-h explains the flags)\n", err)
		return exitUsage
	}

	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		fmt.Fprintf(stderr, "wheelview: %v (-port 0 takes any free port)\n", err)
		return exitFailed
	}
	fmt.Fprintf(stdout, "http://%v/ shows the wheel; press Ctrl-C to end\n", ln.Addr())
	sums, err := show(ctx, ln)
	sums.print(stdout)
	if err = errors.Join(err, sums.check()); err != nil {
		fmt.Fprintf(stderr, "wheelview: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// shutdownLimit bounds how long a request in flight may take after ctx is canceled.
const shutdownLimit = 10 * time.Second

// show serves the page until ctx is canceled, and returns the sums of all timers. It leaves no
// goroutine behind.
func show(ctx context.Context, ln net.Listener) (sums, error) {
	l, err := newLab(startWheel, startLoad)
	if err != nil {
		ln.Close()
		return sums{}, err
	}
	srv := &http.Server{
		Handler:           newHandler(l),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		// Event streams end when ctx is canceled, because Shutdown waits for them.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case <-ctx.Done():
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
		defer cancel()
		if err = srv.Shutdown(limit); err != nil {
			srv.Close() // drop requests that are still in flight
			err = nil
		}
		<-served
	case err = <-served:
	}
	return l.close(), err
}
