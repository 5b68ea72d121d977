package idle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A Conn is a connection under a [Limit]. After the limit has ended, all methods that can fail return [ErrIdle]. The
// limit also holds after a hijack and after a half-close.
//
// A Conn hides methods that would move data without Read or Write, because the Limit could not see it. So io.Copy
// between two connections does not use splice. There is no SyscallConn, so go-redis, for example, skips its check for
// connections that the server has closed. NetConn gives access to these.
//
// WriteTo of net.Buffers makes a Write, and a system call, for each buffer. So the buffers of several goroutines mix,
// unlike on a *net.TCPConn. Hold a lock of your own around each WriteTo, or join the buffers and call Write once.
type Conn struct {
	netConn
	limit   *Limit
	timeout hashedwheel.Timeout // its task is a closer
	writing sync.Mutex          // held by a call that sends, for all its pieces; Close does not take it, so it ends that call
	moving  sync.Mutex          // held only to move the timeout
	silence time.Duration       // guarded by moving
	covered atomic.Int64        // until this time, counted from Limit.start, activity needs no Move
	gap     atomic.Bool         // Read has dropped data
	over    atomic.Bool         // the task, or activity that came too late, has found that the limit has ended
}

// netConn keeps the embedded field unexported.
type netConn = net.Conn

// The task, a packet and Close race for the timeout. There are three outcomes:
//
//   - Move returns true. The packet came in time, and the task does not run for the old deadline.
//   - Cancel returns true. The caller of Close closes the connection, and the task never runs.
//   - The boundary passes. Then the task, or a packet that comes before it, ends the limit and closes the connection.
//     Read drops that packet.

// A closer is a Conn as the task of its timeout.
type closer Conn

// String tells the type of the connection. It is for Tasks of the timer.
func (c *closer) String() string { return fmt.Sprintf("idle.Conn of %T", c.netConn) }

// Kind returns the same for two connections if String does, without making a string. It is for the page of wheeldebug.
func (c *closer) Kind() uintptr { return reflect.ValueOf(reflect.TypeOf(c.netConn)).Pointer() }

// Run closes the connection. Close may block, for instance because of SO_LINGER or to send the last alert of
// TLS. Without WithMaxConcurrency or an executor, that delays no other task by more than two ticks.
func (c *closer) Run(*hashedwheel.Timeout) {
	(*Conn)(c).end()
	c.netConn.Close()
}

// Read reads from the wrapped connection, and starts the limit anew if it has read data.
//
// With ErrIdle it returns no data: Read drops data that arrives after the limit has ended. A server that executed
// such a request could not answer, and the client might send the request again.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.netConn.Read(b)
	switch {
	case n > 0 && c.putOff():
		return n, err
	case n > 0:
		c.gap.Store(true)
	case err == io.EOF && !c.gap.Load():
		return 0, io.EOF // even if the limit has expired, because all data that the peer sent has been read
	}
	return 0, c.because("read", err)
}

// Write sends b to the wrapped connection in pieces of 64 KiB. Unless the Limit has [WithReadsOnly], each piece starts the
// limit anew when it has been sent. As on connections of package net, the data of one call stays together, even if several
// goroutines write. WriteTo of net.Buffers makes several calls: see [Conn].
//
// If the limit ends meanwhile, Write returns ErrIdle with the number of bytes that it has sent. That may be all of them.
//
// Do not use a Conn for messages that are longer than a piece, such as those of a unixgram socket.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for {
		piece := b[n:min(n+pieceSize, len(b))] // empty if b is: the wrapped connection sees that Write too
		var sent int
		sent, err = c.netConn.Write(piece)
		err = c.wrote(sent > 0, err)
		n += sent
		if err != nil || sent != len(piece) || n == len(b) {
			return n, err
		}
	}
}

// wrote starts the limit anew if data has been sent, except with WithReadsOnly. It returns err, or ErrIdle if the limit has
// ended: then the operation failed because of that, or sent its data too late.
func (c *Conn) wrote(data bool, err error) error {
	if data && !c.limit.readsOnly && c.putOff() {
		return err
	}
	return c.because("write", err)
}

// putOff starts the limit anew, if Close or Timer.Stop has not ended the timeout. It returns false only if the limit
// has ended. Within a tick the deadline stays the same, so only the first packet of a tick moves it. Each other
// packet costs only a reading of the clock.
//
// The lock orders the calls of Move. Without it, a goroutine that loses its processor after Move has read
// the clock could later set a deadline that is too early.
func (c *Conn) putOff() bool {
	l := c.limit
	now := time.Since(l.start)
	if 0 <= now && int64(now) <= c.covered.Load() { // less than 0 in a synctest bubble: Move panics
		return true // the timeout is pending, or Close or Timer.Stop has ended it
	}
	c.moving.Lock()
	defer c.moving.Unlock()
	return c.move(now, c.silence) || !c.ended()
}

// move starts a limit of the given silence, and reports whether it has. The caller has read now before, counted from
// Limit.start. Called with moving held.
func (c *Conn) move(now, silence time.Duration) bool {
	if !c.timeout.Move(silence) {
		return false
	}
	covered := c.timeout.Deadline().Sub(c.limit.start) - silence
	if covered < now { // the deadline has saturated, so the timeout never expires
		covered = math.MaxInt64
	}
	// After Move, and with the lock, so that covered never promises more than the deadline.
	c.covered.Store(int64(covered))
	return true
}

// ended reports, after move has failed, whether that was because the limit had ended.
func (c *Conn) ended() bool {
	passed := c.timeout.IsPending() && !c.limit.timer.IsStopped() // before IsExpired: the task may be started in between
	if passed || c.timeout.IsExpired() {
		c.end()
	}
	return c.over.Load()
}

// end notes that the limit has ended, and has the connection closed. From then on each method returns ErrIdle.
func (c *Conn) end() {
	if c.over.Swap(true) {
		return
	}
	c.limit.closed.Add(1)
	if c.timeout.Cancel() {
		go c.netConn.Close() // in place of the task, which may wait for a runner, or be left by Timer.Stop. Close may block
	}
}

// SetSilence sets another limit for this connection, which begins now: the connection is closed when it has been silent for
// d. It is for protocols whose clients choose the limit, such as MQTT with its keep-alive. With math.MaxInt64 there is no
// limit.
//
// The error is ErrIdle if the limit has ended, net.ErrClosed after Close, and hashedwheel.ErrStopped after the timer was
// stopped, each in a *net.OpError. If d is not positive, the error says so. After an error nothing has changed.
func (c *Conn) SetSilence(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("idle: Conn.SetSilence: silence %v: it must be positive", d)
	}
	c.moving.Lock()
	defer c.moving.Unlock()
	c.covered.Store(-1) // before Move, because the new limit may cover less: activity that sees the old value came before Move
	var reason error
	switch {
	case c.move(time.Since(c.limit.start), d):
		c.silence = d
		return nil
	case c.ended():
		reason = ErrIdle
	case c.limit.timer.IsStopped():
		reason = hashedwheel.ErrStopped
	default:
		reason = net.ErrClosed
	}
	return opError("set", c.LocalAddr(), c.RemoteAddr(), reason)
}

// because returns err, or ErrIdle if the limit has ended and the task or a call has noticed.
func (c *Conn) because(op string, err error) error {
	if !c.over.Load() && !c.timeout.IsExpired() {
		return err
	}
	return opError(op, c.LocalAddr(), c.RemoteAddr(), ErrIdle)
}

// opError returns an error of an operation. The addresses may be unknown, and then are nil.
func opError(op string, source, addr net.Addr, err error) error {
	e := &net.OpError{Op: op, Source: source, Addr: addr, Err: err}
	if addr != nil {
		e.Net = addr.Network()
	}
	return e
}

// Close ends the limit and closes the wrapped connection. It returns ErrIdle if the limit had already closed
// the connection.
func (c *Conn) Close() (err error) {
	defer func() { err = c.because("close", c.netConn.Close()) }() // also if Cancel panics, on the other side of a synctest bubble
	c.timeout.Cancel()
	return nil
}

// SetDeadline sets the deadlines of Read and Write on the wrapped connection. It is no activity, and a deadline
// does not extend the limit. SetReadDeadline and SetWriteDeadline set one of them.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.because("set", c.netConn.SetDeadline(t))
}

// SetReadDeadline is [Conn.SetDeadline] for Read.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.because("set", c.netConn.SetReadDeadline(t))
}

// SetWriteDeadline is [Conn.SetDeadline] for Write and ReadFrom.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.because("set", c.netConn.SetWriteDeadline(t))
}

// NetConn returns the wrapped connection. Reads and writes on it directly do not count as activity.
func (c *Conn) NetConn() net.Conn { return c.netConn }

// CloseWrite shuts down the writing side, as CloseWrite of *net.TCPConn and *tls.Conn does. It returns
// errors.ErrUnsupported if the wrapped connection has no such method.
func (c *Conn) CloseWrite() error {
	if half, ok := c.netConn.(interface{ CloseWrite() error }); ok {
		return c.because("close", half.CloseWrite())
	}
	return errors.ErrUnsupported
}

// CloseRead shuts down the reading side, as CloseRead of *net.TCPConn does. It returns
// errors.ErrUnsupported if the wrapped connection has no such method.
func (c *Conn) CloseRead() error {
	if half, ok := c.netConn.(interface{ CloseRead() error }); ok {
		return c.because("close", half.CloseRead())
	}
	return errors.ErrUnsupported
}

// pieceSize is how many bytes are sent for each activity. Smaller pieces let slower peers live, but pieces of 16 KiB
// cost a quarter of the throughput over loopback. Larger pieces gain nothing. No UDP datagram is longer, so none is
// split.
const pieceSize = 64 << 10

// ReadFrom copies from r to the connection, for io.Copy. It sends a regular file with the ReadFrom of the
// wrapped connection, which uses sendfile where the system has it. It sends the file in pieces, like Write, and each
// piece counts as activity. It copies any other r with Read and Write, because otherwise a slow source would look like
// silence.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	rf, ok := c.netConn.(io.ReaderFrom)
	rest, limited := r.(*io.LimitedReader)
	if !limited {
		rest = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	if !ok || !isFile(rest.R) {
		return io.Copy(writer{c}, r)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	for rest.N > 0 && err == nil {
		size := min(rest.N, pieceSize)
		piece := io.LimitedReader{R: rest.R, N: size}
		var sent int64
		sent, err = rf.ReadFrom(&piece)
		err = c.wrote(sent > 0, err)
		n += sent
		rest.N -= size - piece.N
		if sent < size {
			break // the end of the file, or an error
		}
	}
	return n, err
}

// writer hides the ReadFrom of a Conn from io.Copy.
type writer struct{ io.Writer }

// isFile reports whether r is a regular file. It need not be an *os.File, which may call io.Copy with another type of
// package os that wraps it.
func isFile(r io.Reader) bool {
	f, ok := r.(interface {
		syscall.Conn
		Stat() (fs.FileInfo, error)
	})
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}
