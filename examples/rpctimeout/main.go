// Rpctimeout gives each request of a client over TCP a timeout, on one timer for all.
//
// Look at do and end: Cancel decides whether the reply or the timeout ends a call. Calls come from a pool and hold their
// timeout, so a call needs no new Timeout. A call is used again only if nothing that knows it can touch it later:
// neither its task, nor the goroutine that reads the replies.
//
// The client does not use net/rpc, because that needs package net/http, which takes long to compile.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
)

var errTimeout = errors.New("the request has timed out")

// A call is a request that waits for its reply.
type call struct {
	timeout hashedwheel.Timeout // the call is its task
	ended   chan error          // gets one value: nil, errTimeout, or why there is no reply
	reply   uint64
}

// Run is the task of the timeout.
func (c *call) Run(*hashedwheel.Timeout) { c.ended <- errTimeout }

// end ends the call with a reply or an error, unless its timeout has expired.
func (c *call) end(reply uint64, err error) {
	if c.timeout.Cancel() {
		c.reply = reply
		c.ended <- err
	}
}

// A client makes calls over one connection. Any number of goroutines may use it.
type client struct {
	conn  net.Conn
	limit time.Duration // for each call
	pool  sync.Pool     // of *call
	mu    sync.Mutex
	calls map[uint64]*call // calls without a reply yet, by the number of the request
	last  uint64           // the number of the last request
	err   error            // why there are no more replies
}

func newClient(timer *hashedwheel.Timer, conn net.Conn, limit time.Duration) *client {
	cl := &client{conn: conn, limit: limit, calls: make(map[uint64]*call)}
	cl.pool.New = func() any {
		c := &call{ended: make(chan error, 1)}
		timer.Bind(&c.timeout, c) // once for each struct
		return c
	}
	go cl.readReplies()
	return cl
}

// do sends a value and returns the reply. It returns errTimeout if the timeout expires before the reply comes.
func (cl *client) do(value uint64) (uint64, error) {
	c := cl.pool.Get().(*call)
	if _, err := c.timeout.Reset(cl.limit); err != nil {
		return 0, err // the timer is stopped, or too many timeouts are pending
	}
	number := cl.send(c, value)
	if err := <-c.ended; err != nil {
		cl.take(number)
		return 0, err // and c is not used again, because readReplies may still have it
	}
	reply := c.reply
	cl.pool.Put(c) // the task never starts, and readReplies has done with it
	return reply, nil
}

// send writes a request, and lets readReplies find its call.
func (cl *client) send(c *call, value uint64) (number uint64) {
	cl.mu.Lock()
	cl.last++
	number, err := cl.last, cl.err
	if err == nil {
		cl.calls[number] = c
	}
	cl.mu.Unlock()
	if err != nil {
		c.end(0, err)
	} else if write(cl.conn, number, value) != nil {
		cl.conn.Close() // so readReplies ends all calls
	}
	return number
}

// take returns the call that waits for a reply to the request, or nil. The next take finds none.
func (cl *client) take(number uint64) *call {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	c := cl.calls[number]
	delete(cl.calls, number)
	return c
}

// readReplies ends each call whose reply comes, and, when the connection is lost, all others.
func (cl *client) readReplies() {
	in := bufio.NewReader(cl.conn)
	for {
		number, reply, err := read(in)
		if err != nil {
			cl.mu.Lock()
			cl.err = fmt.Errorf("the connection is lost: %w", err)
			left := cl.calls
			cl.calls = nil
			cl.mu.Unlock()
			for _, c := range left {
				c.end(0, cl.err)
			}
			return
		}
		if c := cl.take(number); c != nil { // otherwise its timeout has expired
			c.end(reply, nil)
		}
	}
}

// serve replies to each request with twice its value, after a delay.
func serve(conn net.Conn, delay func(value uint64) time.Duration) {
	in := bufio.NewReader(conn)
	for {
		number, value, err := read(in)
		if err != nil {
			return
		}
		go func() {
			time.Sleep(delay(value))
			write(conn, number, 2*value) // if that fails, the client has gone
		}()
	}
}

// A request and its reply are each two numbers: that of the request, and a value. The numbers are written at once, so
// those of several goroutines do not mix.
func write(out io.Writer, number, value uint64) error {
	message := binary.BigEndian.AppendUint64(nil, number)
	_, err := out.Write(binary.BigEndian.AppendUint64(message, value))
	return err
}

func read(in io.Reader) (number, value uint64, err error) {
	var message [16]byte
	_, err = io.ReadFull(in, message[:])
	return binary.BigEndian.Uint64(message[:8]), binary.BigEndian.Uint64(message[8:]), err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("rpctimeout", "makes requests over TCP, each with a timeout.")
	n := flags.Uint64("n", 200_000, "how many `requests`")
	limit := flags.Duration("timeout", 200*time.Millisecond, "the `timeout` of each")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d requests begin, each with a timeout of %v\n", *n, *limit)
	timer, err := hashedwheel.New(hashedwheel.WithTick(*limit / 20))
	if err != nil {
		return err
	}
	defer timer.Stop()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	go func() {
		if accepted, err := ln.Accept(); err == nil {
			serve(accepted, func(uint64) time.Duration { // one reply in 50 takes up to twice the timeout
				if rand.N(50) == 0 {
					return rand.N(2 * *limit)
				}
				return 0
			})
		}
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := demo.Progress(func() string {
		stats := timer.Stats()
		return fmt.Sprintf("%d of %d requests have ended, %d by their timeout", stats.Canceled+stats.Expired, *n, stats.Expired)
	})
	defer stop()
	start := time.Now()
	answered, timedOut, err := makeCalls(ctx, newClient(timer, conn, *limit), *n)
	if err != nil {
		return err
	}
	timer.Shutdown(context.Background()) // waits for tasks, so that the counts are exact
	stop()
	stats := timer.Stats()
	fmt.Fprintf(out, "%d requests in %v: %d answered, %d timed out\n",
		stats.Accepted, time.Since(start).Round(time.Millisecond), answered, timedOut)
	fmt.Fprintln(out, "from the tick of a timeout to its task:", stats.Lateness)
	if stats.Accepted < *n && ctx.Err() == nil || answered != stats.Canceled || timedOut != stats.Expired ||
		stats.Accepted != answered+timedOut {
		return fmt.Errorf("a request was not answered or timed out exactly once: %+v", stats)
	}
	fmt.Fprintln(out, "each request was answered or timed out, and none was both")
	return nil
}

// makeCalls makes n calls, up to 1,000 at a time. If ctx is canceled, it makes fewer.
func makeCalls(ctx context.Context, cl *client, n uint64) (answered, timedOut uint64, err error) {
	var callers sync.WaitGroup
	var begun atomic.Uint64
	results := make(chan error, 1000)
	for range cap(results) {
		callers.Go(func() {
			for ctx.Err() == nil && begun.Add(1) <= n {
				value := rand.Uint64()
				reply, err := cl.do(value)
				if err == nil && reply != 2*value {
					err = fmt.Errorf("the reply to %d is %d", value, reply)
				}
				results <- err
			}
		})
	}
	go func() {
		callers.Wait()
		close(results)
	}()
	for result := range results {
		switch {
		case result == nil:
			answered++
		case errors.Is(result, errTimeout):
			timedOut++
		default:
			err = result
		}
	}
	return answered, timedOut, err
}

func main() { demo.Main(run) }
