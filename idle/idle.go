// Package idle closes network connections that have been silent for too long: an idle limit for each, all
// of them on one [hashedwheel.Timer].
//
//	limit, err := idle.New(timer, 30*time.Second)
//	...
//	err = server.Serve(limit.Listener(ln)) // or limit.Conn(c) for one connection
//
// Each Read or Write that moves data gives the connection another limit. That costs a reading of the clock, a
// fifth of a SetReadDeadline, and for the first one in each tick a Timeout.Move. No connection has a goroutine
// of its own, and a packet allocates nothing.
//
// # What counts as silence
//
// A Read counts if it returns data, and a Write if it has written any. A Read that waits is silence, and so
// is a Write that blocks because the peer does not read. Both count when they return: data that nobody reads
// does not, nor does the part of a Write that has been sent already. So the limit must be longer than the
// server itself ever pauses, for instance in a slow handler, and than its largest Write takes.
//
// A connection is never closed before the limit has passed since it was last active. It is closed at the first
// tick boundary after that: less than one tick later, plus what the machine adds.
//
// # TLS
//
// The limit belongs beneath TLS, as in http.Server.ServeTLS(limit.Listener(ln), ...). There it also bounds the
// handshake, and net/http finds the *tls.Conn that it looks for.
package idle

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// ErrIdle is the reason why Read, Write and other methods of a [Conn] fail after it was closed for silence.
// They return it in a *net.OpError, so test for it by errors.Is.
//
// It is a net.Error whose Timeout method returns true, like the error of a connection that TCP has given up.
// Unlike a deadline it is final, and it is no os.ErrDeadlineExceeded.
var ErrIdle error = idleError{}

type idleError struct{}

func (idleError) Error() string   { return "connection closed because it was idle" }
func (idleError) Timeout() bool   { return true }
func (idleError) Temporary() bool { return false } // crypto/tls retries temporary errors

// A Limit closes connections that are silent for longer than a duration. One Limit serves any number of
// connections, and any number of Limits share a timer. Its methods may be called by any goroutine.
//
// [hashedwheel.Timer.Stop] ends all limits of the timer: the connections stay open, without a limit.
type Limit struct {
	// Immutable after New.
	timer   *hashedwheel.Timer
	silence time.Duration
	start   time.Time

	// Shared.
	closed, refused atomic.Uint64
}

// New returns a Limit that closes a connection after so much silence. The timer, which the caller stops, may
// be in use for other things too. Its tick is the precision of the limit.
//
// The error says that the timer is nil, or that the duration is not positive.
func New(timer *hashedwheel.Timer, silence time.Duration) (*Limit, error) {
	switch {
	case timer == nil:
		return nil, errors.New("idle: New: nil timer")
	case silence <= 0:
		return nil, fmt.Errorf("idle: New: silence %v: it must be positive", silence)
	}
	return &Limit{timer: timer, silence: silence, start: time.Now()}, nil
}

// Conn puts a connection under the limit, which begins now. The caller then uses the returned Conn in
// place of c. The call makes one allocation, of 96 bytes on 64-bit machines.
//
// The error is hashedwheel.ErrStopped or hashedwheel.ErrTooManyPending. Then c is untouched, and
// closing it is up to the caller.
func (l *Limit) Conn(c net.Conn) (*Conn, error) {
	limited := &Conn{netConn: c, limit: l}
	l.timer.Init(&limited.timeout, (*closer)(limited))
	if _, err := limited.timeout.Reset(l.silence); err != nil {
		return nil, err
	}
	return limited, nil
}

// Listener returns a listener that accepts from ln, and returns each connection as a *Conn under the limit.
//
// When the timer has no room for one more timeout, Accept closes the connection, counts it as refused
// and waits for the next one: the server goes on, and nothing is served without a limit. When the timer has
// been stopped, Accept closes the connection and returns an error that wraps hashedwheel.ErrStopped.
func (l *Limit) Listener(ln net.Listener) net.Listener { return &listener{ln, l} }

// Closed returns how many connections have been closed for silence.
func (l *Limit) Closed() uint64 { return l.closed.Load() }

// Refused returns how many connections Accept has closed because the timer was full, or stopped.
func (l *Limit) Refused() uint64 { return l.refused.Load() }

type listener struct {
	net.Listener
	limit *Limit
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limited, err := l.limit.Conn(c)
		if err == nil {
			return limited, nil
		}
		l.limit.refused.Add(1)
		c.Close()
		if !errors.Is(err, hashedwheel.ErrTooManyPending) {
			return nil, &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: err}
		}
	}
}
