package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// A pipeListener makes connections without a network, so that they work on
// virtual time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// virtualRun runs the program on virtual time. All checks must hold.
func virtualRun(t *testing.T, o options) *report {
	ln := newPipeListener()
	r, err := exercise(t.Context(), o, ln, ln.dial, io.Discard, io.Discard)
	require.NoError(t, err)
	require.NoError(t, r.check())
	require.EqualValues(t, o.conns, r.conns)
	return r
}

// Without other traffic, a client that does not fall silent sends exactly one
// heartbeat each interval, and is not closed.
func TestVirtualHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := virtualRun(t, options{conns: 100, interval: 100 * ms, limit: 120 * ms, tick: 10 * ms, duration: 5050 * ms})
		require.EqualValues(t, 50*100, r.heartbeats)
		require.EqualValues(t, 50*100, r.packets)
		require.Empty(t, r.lateness)
		require.Equal(t, 5050*ms, time.Since(began))
	})
}

// Each silent client is closed at the first tick boundary at or after the end of
// the limit. Here the last packet came at a boundary, so the close is 5 ms late.
func TestVirtualSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtualRun(t, options{conns: 100, interval: 100 * ms, limit: 305 * ms, tick: 10 * ms, duration: time.Second, silent: 0.4})
		require.EqualValues(t, 40, r.fellSilent)
		require.EqualValues(t, 40, r.closedSilent)
		require.Len(t, r.lateness, 40)
		require.Equal(t, 5*ms, r.lateness[0])
		require.Equal(t, 5*ms, r.lateness[39])
	})
}

// Other traffic saves heartbeats. The limit is still exact to the tick, because
// on virtual time the machine adds nothing.
func TestVirtualTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(3) {
			r := virtualRun(t, options{conns: 200, interval: 100 * ms, limit: 333 * ms, tick: 7 * ms, duration: 3 * time.Second,
				traffic: 50 * ms, silent: 0.5, seed: seed})
			require.EqualValues(t, 100, r.closedSilent)
			require.Len(t, r.lateness, 100)
			require.Less(t, r.lateness[99], 7*ms)
			require.Positive(t, r.heartbeats)
			require.Less(t, r.heartbeats, r.packets/4, "most intervals see other traffic")
		}
	})
}

// An interruption leaves silent clients open, which is not an error.
func TestVirtualInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options{conns: 20, interval: 100 * ms, limit: time.Second, tick: 10 * ms, duration: 300 * ms, silent: 1}
		for _, until := range []time.Duration{0, 500 * ms} {
			ctx, cancel := context.WithTimeout(t.Context(), until)
			defer cancel()
			began := time.Now()
			ln := newPipeListener()
			r, err := exercise(ctx, o, ln, ln.dial, io.Discard, io.Discard)
			require.NoError(t, err)
			require.NoError(t, r.check())
			require.Equal(t, until, time.Since(began))
			if until > 0 {
				require.EqualValues(t, 20, r.fellSilent)
				require.EqualValues(t, 20, r.stillOpen)
			}
		}
	})
}

// If there is no room for all connections, the run continues with fewer.
func TestVirtualShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options{conns: 50, interval: 100 * ms, limit: time.Second, tick: 10 * ms, duration: 550 * ms, silent: 0.1}
		for _, room := range []int64{30, 0} {
			ln := newPipeListener()
			var dialed atomic.Int64
			dial := func(ctx context.Context) (net.Conn, error) {
				if dialed.Add(1) > room {
					return nil, io.ErrNoProgress
				}
				return ln.dial(ctx)
			}
			var stdout bytes.Buffer
			r, err := exercise(t.Context(), o, ln, dial, &stdout, io.Discard)
			if room == 0 {
				require.ErrorIs(t, err, io.ErrNoProgress)
				break
			}
			require.NoError(t, err)
			require.NoError(t, r.check())
			require.EqualValues(t, 30, r.conns)
			require.EqualValues(t, 3, r.closedSilent)
			require.Contains(t, stdout.String(), "30 connections instead of 50: "+io.ErrNoProgress.Error()+"\n30 connections, opened in 0s")
		}
	})
}

// A lossy connection drops what is written to it.
type lossy struct{ net.Conn }

func (lossy) Write(b []byte) (int, error) { return len(b), nil }

// Clients whose packets are lost are closed at the limit, and the report names the
// checks that fail.
func TestVirtualLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options{conns: 10, interval: 100 * ms, limit: 300 * ms, tick: 10 * ms, duration: time.Second}
		ln := newPipeListener()
		dial := func(ctx context.Context) (net.Conn, error) {
			conn, err := ln.dial(ctx)
			return lossy{conn}, err
		}
		r, err := exercise(t.Context(), o, ln, dial, io.Discard, io.Discard)
		require.NoError(t, err)
		require.EqualValues(t, 10, r.closedOthers)
		require.ErrorContains(t, r.check(), "10 connections closed that had not fallen silent")
		require.ErrorContains(t, r.check(), "0 packets received of ")
	})
}

// start makes the server handle a connection with its limit.
func (s *server) start(t *testing.T, conn net.Conn) <-chan error {
	limited, err := s.limit.Conn(&stamped{Conn: conn, last: time.Now()})
	require.NoError(t, err)
	handled := make(chan error, 1)
	go func() { handled <- s.handle(limited) }()
	return handled
}

// newPeer returns a server with one connection, and the client's end of that connection.
func newPeer(t *testing.T, o options) (*server, net.Conn, <-chan error) {
	s, err := newServer(o)
	require.NoError(t, err)
	t.Cleanup(func() { s.timer.Stop() })
	near, far := net.Pipe()
	return s, near, s.start(t, far)
}

// Data one nanosecond before the deadline is in time, a whole packet or not. Then
// the connection is closed at the first tick boundary after the deadline of that data.
func TestPeerIsClosedAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn, handled := newPeer(t, options{limit: 100 * ms, tick: 10 * ms})
		for _, b := range newFrame(data, "payload") {
			time.Sleep(100*ms - 1) // the boundary is a nanosecond later
			_, err := conn.Write([]byte{b})
			require.NoError(t, err)
			synctest.Wait()
			time.Sleep(time.Nanosecond)
		}
		require.EqualValues(t, 1, s.packets.Load())
		require.Equal(t, 1, s.timer.Pending())
		time.Sleep(100*ms - 2) // the last byte came a nanosecond ago
		synctest.Wait()
		require.Empty(t, handled)
		require.Zero(t, s.limit.Closed())
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		require.NoError(t, <-handled)
		require.EqualValues(t, 1, s.limit.Closed())
		require.Equal(t, []time.Duration{1}, s.lateness)
		_, err := conn.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.Zero(t, s.timer.Pending())
	})
}

// When a client closes its connection, the limit of the connection ends.
func TestPeerIsClosedByTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn, handled := newPeer(t, options{limit: time.Hour, tick: 10 * ms})
		conn.Close()
		require.NoError(t, <-handled)
		require.Zero(t, s.timer.Pending())
		require.Zero(t, s.limit.Closed())

		s, conn, handled = newPeer(t, options{limit: time.Hour, tick: 10 * ms})
		conn.Write([]byte("?"))
		require.ErrorContains(t, <-handled, "unknown kind '?'")
		require.Zero(t, s.timer.Pending())
	})
}

// A slowConn takes some time to close.
type slowConn struct {
	net.Conn
	closing time.Duration
}

func (c *slowConn) Close() error {
	time.Sleep(c.closing)
	return c.Conn.Close()
}

// A packet comes after the limit, while the connection is being closed. It is
// received, but does not count as activity.
func TestPacketAfterTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newServer(options{limit: 100 * ms, tick: 10 * ms})
		require.NoError(t, err)
		defer s.timer.Stop()
		near, far := net.Pipe()
		handled := s.start(t, &slowConn{far, time.Second})
		for i, wait := range []time.Duration{99 * ms, 102 * ms} {
			time.Sleep(wait)
			require.EqualValues(t, i, s.limit.Closed())
			_, err = near.Write(newFrame(heartbeat, ""))
			require.NoError(t, err)
		}
		_, err = near.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.NoError(t, <-handled)
		require.EqualValues(t, 2, s.packets.Load())
		require.Equal(t, []time.Duration{2 * ms}, s.lateness, "since the last packet that was in time")
		require.EqualValues(t, 1, s.limit.Closed())
		require.Zero(t, s.timer.Pending())
	})
}

// A silent client has one timeout: the wait for the server to close it.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn, _ := newPeer(t, options{limit: time.Hour, tick: 10 * ms})
		cs, err := newClients(options{interval: 100 * ms, limit: time.Hour, tick: 10 * ms, traffic: 50 * ms}, nil)
		require.NoError(t, err)
		defer cs.timer.Stop()
		c := cs.newClient(conn, time.Now())
		require.NoError(t, c.start(rand.New(rand.NewPCG(1, 1))))
		require.Equal(t, 2, cs.timer.Pending())
		time.Sleep(time.Second)
		synctest.Wait()
		sent := s.packets.Load()
		require.Positive(t, sent)
		c.fallSilent()
		c.fallSilent()
		require.Equal(t, 1, cs.timer.Pending())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, sent, s.packets.Load())
		require.EqualValues(t, 1, cs.fellSilent.Load())
		c.end()
		require.EqualValues(t, 1, cs.stillOpen.Load())
		require.Zero(t, cs.timer.Pending())
	})
}

// A packet is written before a heartbeat that is already due. That heartbeat is
// not sent. The next one is sent when the client has been silent for an interval.
func TestPacketOvertakesHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn, _ := newPeer(t, options{limit: time.Hour, tick: 10 * ms})
		cs, err := newClients(options{interval: 100 * ms, limit: time.Hour, tick: 10 * ms}, nil)
		require.NoError(t, err)
		defer cs.timer.Stop()
		c := &client{clients: cs, conn: conn, group: hashedwheel.NewGroup(cs.timer), last: time.Now()}
		held := make(chan struct{})
		cs.timer.Init(&c.heartbeat, hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) { // Run, which has only started
			<-held
			c.Run(to)
		}))
		_, err = c.heartbeat.Reset(100 * ms)
		require.NoError(t, err)
		time.Sleep(101 * ms)
		c.talk(nil)
		synctest.Wait()
		require.EqualValues(t, 1, s.packets.Load())
		require.True(t, c.overtaken)
		close(held)
		synctest.Wait()
		require.EqualValues(t, 1, s.packets.Load())
		require.False(t, c.overtaken)

		time.Sleep(108 * ms) // the boundary after 201 ms is 210
		synctest.Wait()
		require.Zero(t, s.heartbeats.Load())
		time.Sleep(ms)
		synctest.Wait()
		require.EqualValues(t, 1, s.heartbeats.Load())

		c.talk(nil) // moves the pending heartbeat
		time.Sleep(50 * ms)
		c.talk(nil)
		time.Sleep(99 * ms)
		synctest.Wait()
		require.EqualValues(t, 1, s.heartbeats.Load())
		require.False(t, c.overtaken)
		time.Sleep(ms)
		synctest.Wait()
		require.EqualValues(t, 2, s.heartbeats.Load())
		require.EqualValues(t, 5, s.packets.Load())
		require.Zero(t, cs.tooSoon.Load())
		c.end()
		require.Zero(t, cs.timer.Pending())
	})
}
