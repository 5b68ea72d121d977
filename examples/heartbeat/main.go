// Heartbeat keeps thousands of TCP connections alive by heartbeats. The server
// closes connections that fall silent: each has an idle limit, on one timer.
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
	"time"
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
		fmt.Fprintf(stderr, "heartbeat: %v (-h explains the flags)\n", err)
		return exitUsage
	}
	r, err := measure(ctx, o, stdout, stderr)
	if err == nil {
		r.print(stdout)
		err = r.check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "heartbeat: %v\n", err)
		return exitFailed
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	fmt.Fprintln(stdout, "\nall checks passed")
	return exitOK
}

// spareFiles is how many descriptors are left for everything except the connections.
const spareFiles = 32

// measure runs the connections over loopback, or as many as descriptors allow. Each
// takes two, because both of its ends are in this process.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) (*report, error) {
	files := descriptors()
	if room := (files - spareFiles) / 2; room < o.conns {
		if room < 1 {
			return nil, fmt.Errorf("a limit of %d open files leaves no room for connections", files)
		}
		fmt.Fprintf(stdout, "%s connections instead of %s: the limit of %s open files allows no more\n",
			commas(int64(room)), commas(int64(o.conns)), commas(int64(files)))
		o.conns = room
	}

	// Heartbeats replace the keepalive of TCP.
	listener := net.ListenConfig{KeepAlive: -1}
	ln, err := listener.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{KeepAlive: -1}
	dial := func(ctx context.Context) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", ln.Addr().String())
	}
	return exercise(ctx, o, ln, dial, stdout, stderr)
}

// exercise runs the server on ln and the clients that dial makes.
func exercise(ctx context.Context, o options, ln net.Listener, dial dialFunc, stdout, stderr io.Writer) (*report, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	cs, err := newClients(o, dial)
	if err != nil {
		return nil, err
	}
	// An interruption ends the clients first, so that for the server it looks
	// as if the clients had closed the connections.
	serving, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- s.serve(serving, ln) }()
	endProgress := showProgress(stderr, func() string {
		return fmt.Sprintf("%s connected, %s packets, %s heartbeats, %s closed as idle", commas(s.accepted.Load()),
			commas(s.packets.Load()), commas(s.heartbeats.Load()), commas(int64(s.limit.Closed())))
	})

	began := time.Now()
	err = cs.connect(ctx)
	connecting := time.Since(began)
	if err == nil {
		cs.header(stdout, connecting)
		cs.run(ctx)
	}
	cs.end()
	awaitAccepted(s, len(cs.all))
	stopServer()
	serveErr := <-served
	endProgress()
	if err = errors.Join(err, serveErr); err != nil {
		return nil, err
	}
	return newReport(o, s, cs), nil
}

// awaitAccepted waits until a server that is behind has accepted n connections.
// When the server stops, a connection that it has not accepted is reset, and the
// data sent on it is lost.
func awaitAccepted(s *server, n int) {
	for began := time.Now(); int(s.accepted.Load()) < n && time.Since(began) < drainLimit; {
		time.Sleep(time.Millisecond)
	}
}
