// Package idle closes network connections that have been silent for too long. Each connection has an idle
// limit, and all limits wait on one [hashedwheel.Timer].
//
//	limit, err := idle.New(timer, 30*time.Second)
//	...
//	err = server.Serve(limit.Listener(ln)) // or limit.Conn(c) for one connection
//
// Each Read or Write that moves data starts the limit anew. This costs a reading of the clock, which takes a
// fifth of the time of a SetReadDeadline. The first Read or Write in a tick also costs a call of
// [hashedwheel.Timeout.Move]. A connection needs no goroutine of its own, and no packet needs an allocation.
//
// # What counts as silence
//
// A Read is activity if it returns data, at the moment when it returns. A Write sends pieces of 64 KiB, and
// each piece is activity when it has been sent. A Read that waits is silence. So is a Write that blocks because
// the peer does not read. Data that has arrived is not activity until it is read. Therefore the limit must be
// longer than any pause of the server itself, for instance in a slow handler.
//
// Data counts as sent when it is in the send buffer of the system. A full buffer takes more data only when a
// good part of it is free again. On Linux that part may be 1.5 MB. A peer that needs longer than the limit to
// read that much counts as silent. SetWriteBuffer of *net.TCPConn with 64 KiB makes the part smaller than 200
// kB.
//
// A connection is never closed before the limit has passed since it was last active. It is closed at the
// first tick boundary at or after that: less than one tick later, plus what the machine adds.
//
// # Pings
//
// A server that sends pings is active, even if its peer is dead, as long as the send buffer takes the pings.
// With [WithReadsOnly], only what the peer sends is activity, such as its pongs.
//
// # HTTP servers
//
// The limit is no substitute for the IdleTimeout of an http.Server. Over HTTP/2, IdleTimeout tells the client that the
// connection ends, and no request is lost. The limit just closes the connection, and requests that come at that moment
// fail: about 2 in 100, if clients pause for about as long as the limit. So set IdleTimeout, and a limit that is at
// least twice as long. Then the limit closes connections that are silent during a request, because the handler neither
// reads nor writes for that long. IdleTimeout does not close these.
//
// A client that sends a byte now and then is not silent. So an http.Server still needs its
// ReadHeaderTimeout.
//
// A limit that must not end while a request is in progress needs a Timeout of your own: see the package example
// Requests.
//
// # TLS
//
// Put the limit beneath TLS, as in http.Server.ServeTLS(limit.Listener(ln), ...). There it also bounds the
// handshake, and net/http finds the *tls.Conn that it expects.
package idle

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// ErrIdle is the error of Read, Write and other methods of a [Conn] after the limit has closed it. It comes in
// a *net.OpError, so test for it with errors.Is.
//
// It is a net.Error whose Timeout method returns true, like the error of a connection that TCP has given up on.
// It is not os.ErrDeadlineExceeded, because it is final: the connection is closed.
var ErrIdle error = idleError{}

type idleError struct{}

func (idleError) Error() string   { return "connection closed because it was idle" }
func (idleError) Timeout() bool   { return true }
func (idleError) Temporary() bool { return false } // crypto/tls retries temporary errors

// A Limit closes connections that are silent for longer than a duration. One Limit serves any number of
// connections, and any number of Limits may share a timer. [Conn.SetSilence] sets another duration for one connection. Any
// goroutine may call the methods of a Limit.
//
// After [hashedwheel.Timer.Stop], connections under a Limit of that timer stay open and have no limit. So
// shut down the server before the timer.
type Limit struct {
	// Immutable after New.
	timer   *hashedwheel.Timer
	silence time.Duration
	start   time.Time
	config

	// Shared.
	closed, refused atomic.Uint64
}

// New returns a Limit that closes a connection when it has been silent for the given duration. The timer
// may have other uses too, and the caller stops it. Its tick is the precision of the limit. If it has
// WithMaxConcurrency, tasks that block also delay the closing of connections.
//
// For an http.Server, make the limit longer than the longest pause of a handler. A shorter one closes the connection during
// the request, and then an HTTP client may send a GET a second time.
//
// New returns an error if the duration is not positive. It panics if the timer is nil, or was not made by hashedwheel.New.
func New(timer *hashedwheel.Timer, silence time.Duration, opts ...Option) (*Limit, error) {
	if timer == nil {
		panic("idle: New: nil Timer")
	}
	timer.IsStopped() // panics if the timer is zero
	if silence <= 0 {
		return nil, fmt.Errorf("idle: New: silence %v: it must be positive", silence)
	}
	l := &Limit{timer: timer, silence: silence, start: time.Now()}
	for _, o := range opts {
		if o != nil {
			o(&l.config)
		}
	}
	return l, nil
}

// An Option changes a default of New.
type Option func(*config)

// config holds what the options set.
type config struct {
	readsOnly bool
}

// WithReadsOnly makes only reading an activity: a connection is silent while nothing is read from it, whatever
// is written. So pings do not keep a connection to a dead peer open. The limit must then be longer than any
// silence of a live peer.
func WithReadsOnly() Option {
	return func(c *config) { c.readsOnly = true }
}

// Conn puts a connection under the limit, which begins now. The caller then uses the returned Conn
// instead of c. The call makes one allocation, of 112 bytes on 64-bit machines.
//
// The error is hashedwheel.ErrStopped or hashedwheel.ErrTooManyPending, or says that c is nil. Then Conn has not
// touched c, and the caller must close it.
func (l *Limit) Conn(c net.Conn) (*Conn, error) {
	if c == nil {
		return nil, errors.New("idle: Limit.Conn: nil net.Conn")
	}
	limited := &Conn{netConn: c, limit: l, silence: l.silence}
	l.timer.Bind(&limited.timeout, (*closer)(limited))
	if _, err := limited.timeout.Reset(l.silence); err != nil {
		return nil, err
	}
	return limited, nil
}

// Listener returns a listener that accepts connections from ln and returns each as a *Conn under the limit.
//
// If too many timeouts are pending on the timer, Accept closes the connection, counts it as refused
// and waits for the next one. So the server goes on, and no connection is without a limit. If the timer has
// been stopped, Accept closes the connection and returns an error that wraps hashedwheel.ErrStopped.
//
// Listener panics if ln is nil.
func (l *Limit) Listener(ln net.Listener) net.Listener {
	if ln == nil {
		panic("idle: Limit.Listener: nil net.Listener")
	}
	return &listener{ln, l}
}

// NumClosed returns how many connections the Limit has closed because they were silent.
func (l *Limit) NumClosed() uint64 { return l.closed.Load() }

// NumRefused returns how many connections Accept has closed because too many timeouts were pending, or because
// the timer was stopped.
func (l *Limit) NumRefused() uint64 { return l.refused.Load() }

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
			return nil, opError("accept", nil, l.Addr(), err)
		}
	}
}
