package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A client is a connection to the servers, with the ledger and the deadlines that use it. Each machine
// of a fleet has one. Here each worker has its own.
type client struct {
	nc        *nats.Conn
	js        jetstream.JetStream
	wire      *wire
	ledger    *ledger
	deadlines *deadlines
}

// connect returns a client. setUp must have been called for its servers.
func connect(ctx context.Context, o options, urls, name string) (*client, error) {
	c, err := dial(urls, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var kv jetstream.KeyValue
	var stream jetstream.Stream
	err = persist(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		if kv, err = c.js.KeyValue(ctx, bucketName); err == nil {
			stream, err = c.js.Stream(ctx, streamName)
		}
		return err
	})
	if err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	c.ledger = &ledger{kv: kv, now: time.Now}
	c.deadlines = &deadlines{nc: c.nc, js: c.js, stream: stream, window: o.ahead()}
	return c, nil
}

// dial connects. The connection is made again whenever it is lost.
func dial(urls, name string) (*client, error) {
	c := &client{wire: &wire{}}
	var err error
	c.nc, err = nats.Connect(urls, nats.Name(name), nats.SetCustomDialer(c.wire),
		nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 0),
		nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // requests that fail are repeated
	if err != nil {
		return nil, fmt.Errorf("%s: %w", urls, err)
	}
	if c.js, err = jetstream.New(c.nc); err != nil {
		c.nc.Close()
		return nil, err
	}
	return c, nil
}

// close ends the connection after all published messages have been sent.
func (c *client) close() {
	c.nc.FlushTimeout(attemptTimeout) // if an acknowledgment is lost, the message is delivered again
	c.nc.Close()
}

// kill ends the connection as a crash of the machine does: nothing more is sent.
func (c *client) kill() {
	c.wire.cut()
	c.nc.Close()
}

// errCut is returned by Dial after cut.
var errCut = errors.New("the wire is cut")

// A wire dials for a client, which has one connection at a time. A test or a kill can cut the wire.
type wire struct {
	mu    sync.Mutex
	isCut bool
	conn  net.Conn // the latest
}

func (w *wire) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, attemptTimeout)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut {
		conn.Close()
		return nil, errCut
	}
	w.conn = conn
	return conn, nil
}

// cut drops the connection and the data not sent yet, and refuses other connections until mend.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	if tcp, ok := w.conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
		tcp.Close()
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}
