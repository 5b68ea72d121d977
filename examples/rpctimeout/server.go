package main

import (
	"bufio"
	"context"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

const (
	serverTick = time.Millisecond // short, because it adds to the delay of every reply
	maxLatency = time.Minute
)

// A server echoes requests after a delay, and drops some. The delayed replies are
// timeouts on its own timer.
type server struct {
	timer *hashedwheel.Timer
	opts  options

	received, replied, dropped atomic.Int64
}

func newServer(o options) (*server, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(serverTick))
	if err != nil {
		return nil, err
	}
	return &server{timer: timer, opts: o}, nil
}

// serve answers the clients that connect to ln until ctx is canceled or accepting
// fails. It closes ln. When it returns, every connection has ended.
func (s *server) serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var handlers sync.WaitGroup
	defer func() {
		cancel()
		handlers.Wait()
		s.timer.Stop()
	}()
	context.AfterFunc(ctx, func() { ln.Close() })

	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return err
		}
		handlers.Go(func() { s.handle(ctx, conn) })
	}
}

// handle serves one connection. After its last request, a client may close its
// half of the connection, and still gets all remaining replies.
func (s *server) handle(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	out := newOutbox()
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	defer context.AfterFunc(ctx, func() { conn.Close(); end() })()

	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		out.write(conn, stop)
		conn.Close() // ends the read loop below
	})

	// owed counts the remaining replies, plus one for the read loop, so that it
	// does not become zero while requests still come.
	var owed atomic.Int64
	owed.Store(1)
	settle := func() {
		if owed.Add(-1) == 0 {
			end()
		}
	}
	defer settle()
	r := bufio.NewReader(conn)
	for {
		id, payload, err := readFrame(r)
		if err != nil {
			return
		}
		s.received.Add(1)
		latency, drop := s.opts.draw(id)
		if drop {
			s.dropped.Add(1)
			continue
		}
		owed.Add(1)
		_, err = s.timer.AfterFunc(latency, func() {
			out.send(id, payload)
			s.replied.Add(1)
			settle()
		})
		if err != nil { // the timer is stopped
			end()
			return
		}
	}
}

// draw returns the latency of the reply to request id, and whether the server
// drops the request. Both depend only on the id and the seed, so two runs delay
// and drop the same requests.
func (o options) draw(id uint64) (latency time.Duration, drop bool) {
	rng := rand.New(rand.NewPCG(o.seed, id))
	if rng.Float64() < o.drop {
		return 0, true
	}
	latency = time.Duration(min(float64(o.median)*math.Exp(o.spread*rng.NormFloat64()), float64(maxLatency)))
	return latency, false
}
