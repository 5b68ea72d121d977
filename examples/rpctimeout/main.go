// Rpctimeout gives each request of a client of net/rpc a timeout, on one timer for all.
//
// Look at do: Cancel decides whether the reply or the timeout ends a call. Calls come from a pool and hold their
// timeout, so arming it seldom allocates. A call is used again only if nothing that knows it can touch it later:
// neither its task, nor net/rpc, which still writes a late reply.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/rpc"
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
	expired chan struct{}       // closed by the task
	replied chan *rpc.Call      // gets a value from net/rpc, with the reply or an error
	reply   uint64
}

// Run is the task of the timeout.
func (c *call) Run(*hashedwheel.Timeout) { close(c.expired) }

// A client makes calls over one connection. Any number of goroutines may use it.
type client struct {
	rpc   *rpc.Client
	limit time.Duration // for each call
	calls sync.Pool     // of *call
}

func newClient(timer *hashedwheel.Timer, conn *rpc.Client, limit time.Duration) *client {
	return &client{rpc: conn, limit: limit, calls: sync.Pool{New: func() any {
		c := &call{expired: make(chan struct{}), replied: make(chan *rpc.Call, 1)}
		timer.Init(&c.timeout, c) // once for each struct
		return c
	}}}
}

// do sends a number and returns the reply. It returns errTimeout if the timeout expires before the reply comes.
func (cl *client) do(number uint64) (uint64, error) {
	c := cl.calls.Get().(*call)
	if _, err := c.timeout.Reset(cl.limit); err != nil {
		return 0, err // the timer is stopped, or too many timeouts are pending
	}
	cl.rpc.Go("Server.Double", number, &c.reply, c.replied)
	select {
	case <-c.expired:
	case ended := <-c.replied:
		// After Timer.Stop, Cancel returns false and IsCanceled true. The reply is good then, too.
		if c.timeout.Cancel() || c.timeout.IsCanceled() {
			reply := c.reply
			c.reply = 0     // if it were a struct, gob would leave fields that are zero as they are
			cl.calls.Put(c) // the task never starts, and net/rpc has written the reply
			return reply, ended.Error
		}
	}
	return 0, errTimeout // and c is not used again
}

// A Server doubles numbers. It takes up to maxDelay for one reply in 50.
type Server struct{ maxDelay time.Duration }

// Double is a method for net/rpc.
func (s *Server) Double(number uint64, reply *uint64) error {
	if rand.N(50) == 0 {
		time.Sleep(rand.N(s.maxDelay))
	}
	*reply = 2 * number
	return nil
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
	server := rpc.NewServer()
	if err := server.Register(&Server{2 * *limit}); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	go func() {
		if accepted, err := ln.Accept(); err == nil {
			server.ServeConn(accepted)
		}
	}()
	conn, err := rpc.Dial("tcp", ln.Addr().String())
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
				number := rand.Uint64()
				reply, err := cl.do(number)
				if err == nil && reply != 2*number {
					err = fmt.Errorf("the reply to %d is %d", number, reply)
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
