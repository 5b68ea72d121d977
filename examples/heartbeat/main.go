// Heartbeat is a TCP server that closes connections on which nothing arrives. Its clients send heartbeats, until some
// of them fall silent.
//
// Look at serve and handle: with the Listener of package idle, a server needs no timeouts of its own. After the limit,
// Read returns idle.ErrIdle. Then look at client: it is the task of a repeating timeout.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/hashedwheel/hashedwheel/idle"
)

// A server records when the limit has closed the connection of a client.
type server struct {
	closed sync.Map // from numbers of clients to times
}

// serve accepts connections until ln is closed, or accepting fails. Each has the limit.
func (s *server) serve(ln net.Listener, limit *idle.Limit) error {
	ln = limit.Listener(ln)
	conn, err := ln.Accept()
	for ; err == nil; conn, err = ln.Accept() {
		go s.handle(conn)
	}
	return err
}

// handle reads heartbeats until the client or the limit closes the connection. A heartbeat is the client's number.
func (s *server) handle(conn net.Conn) {
	defer conn.Close()
	heartbeat := make([]byte, 4)
	var client uint32
	known := false
	for {
		_, err := io.ReadFull(conn, heartbeat)
		if known && errors.Is(err, idle.ErrIdle) {
			s.closed.Store(client, time.Now())
		}
		if err != nil {
			return
		}
		client, known = binary.BigEndian.Uint32(heartbeat), true
	}
}

// A client is the task that sends its heartbeats.
type client struct {
	number    uint32
	conn      net.Conn
	heartbeat *hashedwheel.Timeout
	last      time.Time // just before the last heartbeat
	err       error     // of the last heartbeat
}

func (c *client) Run(*hashedwheel.Timeout) {
	c.last = time.Now()
	_, c.err = c.conn.Write(binary.BigEndian.AppendUint32(nil, c.number))
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("heartbeat", "closes the connections of clients that fall silent.")
	n := flags.Uint("n", 10_000, "how many `clients`")
	silent := flags.Uint("silent", 500, "how many of them fall `silent`")
	limit := flags.Duration("limit", 2*time.Second, "`how long` a client may be silent")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	if most := uint(max(0, openFiles()-100)) / 2; *n > most {
		fmt.Fprintf(out, "%d clients instead of %d, because a process may not open more files\n", most, *n)
		*n = most
	}
	*silent = min(*silent, *n)
	timer, err := hashedwheel.New(hashedwheel.WithTick(*limit / 40))
	if err != nil {
		return err
	}
	defer timer.Stop()
	idleLimit, err := idle.New(timer, *limit)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	var s server
	go s.serve(ln, idleLimit)

	var connected, fallen atomic.Uint64
	stop := demo.Progress(func() string {
		return fmt.Sprintf("%d of %d clients are connected, %d have fallen silent, %d connections are closed",
			connected.Load(), *n, fallen.Load(), idleLimit.NumClosed())
	})
	defer stop()
	var clients []*client
	for i := range *n {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		c := &client{number: uint32(i), conn: conn}
		if c.heartbeat, err = timer.ScheduleAtFixedRate(c, rand.N(*limit/4), *limit/4); err != nil {
			return err
		}
		clients = append(clients, c)
		connected.Add(1)
	}
	if err := timer.Sleep(ctx, *limit); err != nil {
		return err
	}
	for _, c := range clients[:*silent] {
		c.heartbeat.Cancel()
		fallen.Add(1)
	}
	if err := timer.Sleep(ctx, 2**limit); err != nil {
		return err
	}
	if _, err := timer.Shutdown(ctx); err != nil { // after that, no heartbeat is in progress
		return err
	}
	stop()
	return s.report(out, clients, int(*silent), *limit)
}

// report compares the clients that fell silent, which are the first ones, with the clients that the limit has closed.
func (s *server) report(out io.Writer, clients []*client, silent int, limit time.Duration) error {
	var late []time.Duration
	for i, c := range clients {
		at, closed := s.closed.Load(c.number)
		switch {
		case closed != (i < silent):
			return fmt.Errorf("client %d: silent %t, closed %t", i, i < silent, closed)
		case closed && at.(time.Time).Sub(c.last) < limit:
			return fmt.Errorf("client %d: closed %v after its last heartbeat", i, at.(time.Time).Sub(c.last))
		case closed:
			late = append(late, at.(time.Time).Sub(c.last)-limit)
		case c.err != nil:
			return c.err
		}
	}
	fmt.Fprintf(out, "%d clients, of which %d fell silent: the limit closed these and no others\n", len(clients), silent)
	if len(late) > 0 {
		fmt.Fprintf(out, "%v after their last heartbeat, and %v to %v late\n",
			limit, slices.Min(late).Round(time.Microsecond), slices.Max(late).Round(time.Microsecond))
	}
	return nil
}

func main() { demo.Main(run) }
