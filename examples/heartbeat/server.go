package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/idle"
)

// drainLimit bounds the wait for connections to end after the clients have ended.
const drainLimit = 5 * time.Second

// A server reads packets and closes connections on which no data arrives. One
// timer holds the idle limits of all connections.
type server struct {
	timer   *hashedwheel.Timer
	limit   *idle.Limit
	silence time.Duration // that the limit allows

	accepted, packets, heartbeats atomic.Int64

	mu       sync.Mutex
	lateness []time.Duration // of each close for silence, from the end of the limit
	broken   []error         // the errors of connections that ended in any other way
}

func newServer(o options) (*server, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(o.tick))
	if err != nil {
		return nil, err
	}
	limit, err := idle.New(timer, o.limit)
	return &server{timer: timer, limit: limit, silence: o.limit}, err
}

// serve accepts connections from ln until ctx is canceled or accepting fails.
// Then it closes ln and reads the remaining data of clients that have ended. When
// it returns, every connection has ended.
func (s *server) serve(ctx context.Context, ln net.Listener) error {
	open, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	var handlers sync.WaitGroup
	defer func() {
		defer time.AfterFunc(drainLimit, cutOff).Stop()
		handlers.Wait()
		cutOff()
	}()
	ln = s.limit.Listener(stamping{ln}) // other servers need no stamping
	defer ln.Close()
	defer context.AfterFunc(ctx, func() { ln.Close() })()

	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		s.accepted.Add(1)
		handlers.Go(func() {
			defer context.AfterFunc(open, func() { conn.Close() })()
			if err := s.handle(conn); err != nil {
				s.mu.Lock()
				s.broken = append(s.broken, err)
				s.mu.Unlock()
			}
		})
	}
}

// handle reads the packets of one connection until the client or the limit
// closes it.
func (s *server) handle(conn net.Conn) error {
	defer conn.Close()
	r := bufio.NewReaderSize(conn, maxFrame)
	for {
		k, err := readFrame(r)
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, idle.ErrIdle):
			late := silentFor(conn) - s.silence
			s.mu.Lock()
			s.lateness = append(s.lateness, late)
			s.mu.Unlock()
			return nil
		case err != nil:
			return err
		}
		s.packets.Add(1)
		if k == heartbeat {
			s.heartbeats.Add(1)
		}
	}
}
