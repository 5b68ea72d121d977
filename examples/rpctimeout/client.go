package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// drainLimit bounds the wait for late replies after all calls have ended.
const drainLimit = 5 * time.Second

// A client makes calls over its links. One timer holds the timeouts of all calls.
type client struct {
	opts    options
	timer   *hashedwheel.Timer
	payload []byte
	links   []*link
	calls   sync.Pool // of *call

	lastID  atomic.Uint64
	slots   chan struct{} // holds a token for each call in flight
	closing chan struct{} // closed when all calls have ended, or the run is interrupted
	stats   stats
}

// makeCalls makes calls until the client has made all of them, the link is lost,
// or ctx is canceled.
func (l *link) makeCalls(ctx context.Context) error {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.lost:
			return nil
		case <-ctx.Done():
			return nil
		}
		id := l.lastID.Add(1)
		if id > uint64(l.opts.count) || ctx.Err() != nil {
			l.freeSlot()
			return nil
		}
		if err := l.call(id); err != nil {
			l.freeSlot()
			return err
		}
	}
}

// readReplies reads replies until the connection ends. If it ends too early, the
// link counts as lost, and its calls time out.
func (l *link) readReplies() {
	defer close(l.lost)
	r := bufio.NewReader(l.conn)
	for {
		id, _, err := readFrame(r)
		if err != nil {
			select {
			case <-l.closing:
			default:
				l.stats.addLost(err)
			}
			l.conn.Close()
			return
		}
		l.reply(id)
	}
}

// writeRequests writes the requests, and then closes its half of the connection.
// If a write fails, readReplies ends too.
func (l *link) writeRequests() {
	if err := l.out.write(l.conn, l.closing); err != nil {
		l.conn.Close()
		return
	}
	l.conn.CloseWrite()
}

// runClient makes the calls that o asks for to the server at addr. If ctx is
// canceled it abandons the calls in flight, and the report covers the calls so far.
func runClient(ctx context.Context, o options, addr string, progress io.Writer) (*report, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(o.tick))
	if err != nil {
		return nil, err
	}
	defer timer.Stop()
	c := &client{
		opts:    o,
		timer:   timer,
		payload: make([]byte, o.payload),
		slots:   make(chan struct{}, o.inFlight),
		closing: make(chan struct{}),
	}
	c.calls.New = c.newCall
	for range o.conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		c.links = append(c.links, &link{
			client: c, conn: conn.(*net.TCPConn), out: newOutbox(),
			lost: make(chan struct{}), pending: make(map[uint64]*call),
		})
	}
	defer showProgress(progress, &c.stats)()
	elapsed, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	return c.report(elapsed), nil
}

// run makes the calls and returns how long they took. When it returns, no call is
// in flight and every link is closed.
func (c *client) run(ctx context.Context) (elapsed time.Duration, err error) {
	var senders, streams sync.WaitGroup
	failed := make(chan error, len(c.links))
	start := time.Now()
	for _, l := range c.links {
		streams.Go(l.readReplies)
		streams.Go(l.writeRequests)
		senders.Go(func() {
			if err := l.makeCalls(ctx); err != nil {
				failed <- fmt.Errorf("arming a timeout: %w", err)
			}
		})
	}

	senders.Wait()
	ended := closedAfter(c.waitCalls)
	select {
	case <-ended:
	case <-ctx.Done():
	}
	elapsed = time.Since(start)

	// Wait for late replies, unless the run is interrupted.
	close(c.closing)
	drained := closedAfter(streams.Wait)
	select {
	case <-drained:
	case <-ctx.Done():
	case <-time.After(drainLimit):
	}
	for _, l := range c.links {
		l.conn.Close()
	}
	<-drained

	// Only an interruption leaves calls to abandon.
	for _, l := range c.links {
		l.abandon()
	}
	<-ended
	select {
	case err = <-failed:
	default:
	}
	return elapsed, err
}

// waitCalls waits until no call is in flight. After that no call can be made.
func (c *client) waitCalls() {
	for range cap(c.slots) {
		c.slots <- struct{}{}
	}
}

// closedAfter returns a channel that is closed when wait has returned.
func closedAfter(wait func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	return done
}
