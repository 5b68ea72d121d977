package idle

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A Conn is a connection under a [Limit]. Deadlines, addresses and all else that it does not define are those
// of the connection that it wraps. It may also be used after a hijack, and after a half-close, and is then
// still limited.
//
// It hides what would move data unseen: io.Copy between two connections does not use splice, several buffers
// of net.Buffers are not written by one system call, and there is no SyscallConn. NetConn gives access to these.
type Conn struct {
	netConn
	limit   *Limit
	timeout hashedwheel.Timeout // its task is a closer
	moving  sync.Mutex          // held to move the timeout, and for nothing else
	covered atomic.Int64        // activity until then, since the start of the Limit, needs no move; only grows
}

// netConn keeps the embedded field unexported.
type netConn = net.Conn

// The task, a packet and Close race for the timeout, and what becomes of that decides:
//
//   - Move returns true: the packet came in time. The task will not run for the deadline that was.
//   - Cancel returns true: the caller of Close ends the connection, and the task never runs.
//   - The timeout has expired: its task closes the connection. A packet that comes before this is done
//     is too late, although it is handed on, with ErrIdle.

// A closer is a Conn as the task of its timeout.
type closer Conn

// Run closes the connection. Close may block, for instance by SO_LINGER or for the last alert of TLS. That
// delays no other timeout, because tasks run apart from the wheel.
func (c *closer) Run(*hashedwheel.Timeout) {
	c.limit.closed.Add(1)
	c.netConn.Close()
}

// Read is the Read of the wrapped connection, and puts the limit off if it has read anything. If the limit ends
// as data arrives, Read returns the data together with ErrIdle.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.netConn.Read(b)
	return n, c.passed("read", n > 0, err)
}

// Write is the Write of the wrapped connection, and puts the limit off if it has written anything. If the limit
// ends meanwhile, Write returns ErrIdle, also if it has written all of b.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.netConn.Write(b)
	return n, c.passed("write", n > 0, err)
}

// passed puts the limit off if an operation has moved data. It returns err, or ErrIdle if that is why the
// operation failed, or if the limit has ended before the data came.
func (c *Conn) passed(op string, data bool, err error) error {
	if data && c.putOff() && err == nil {
		return nil
	}
	return c.because(op, err)
}

// putOff gives the connection another limit, unless it has ended. Within a tick the deadline stays the same,
// so only the first packet of a tick moves it: the others cost a look at the clock.
//
// The lock keeps a goroutine that loses the processor after Move has read the clock from undoing what
// another one has done meanwhile.
func (c *Conn) putOff() bool {
	l := c.limit
	if int64(time.Since(l.start)) <= c.covered.Load() {
		return true // pending, or ended by Close or Timer.Stop
	}
	c.moving.Lock()
	defer c.moving.Unlock()
	if !c.timeout.Move(l.silence) {
		return false
	}
	c.covered.Store(int64(c.timeout.Deadline().Sub(l.start) - l.silence))
	return true
}

// because returns err, or ErrIdle if the limit has ended. The end of the stream stays what it is: all that
// the peer sent has been read.
func (c *Conn) because(op string, err error) error {
	if err == io.EOF || !c.timeout.IsExpired() {
		return err
	}
	reason := &net.OpError{Op: op, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: ErrIdle}
	if reason.Addr != nil { // it may be unknown
		reason.Net = reason.Addr.Network()
	}
	return reason
}

// Close ends the limit at once, and closes the wrapped connection. After an idle close it returns ErrIdle.
func (c *Conn) Close() error {
	c.timeout.Cancel()
	return c.because("close", c.netConn.Close())
}

// NetConn returns the wrapped connection. What is read and written on it directly does not count as activity.
func (c *Conn) NetConn() net.Conn { return c.netConn }

// CloseWrite shuts down the writing side, as that of *net.TCPConn and *tls.Conn does. If the wrapped
// connection has no such method it returns errors.ErrUnsupported.
func (c *Conn) CloseWrite() error {
	if half, ok := c.netConn.(interface{ CloseWrite() error }); ok {
		return c.because("close", half.CloseWrite())
	}
	return errors.ErrUnsupported
}

// CloseRead shuts down the reading side, as that of *net.TCPConn does. If the wrapped connection has no
// such method it returns errors.ErrUnsupported.
func (c *Conn) CloseRead() error {
	if half, ok := c.netConn.(interface{ CloseRead() error }); ok {
		return c.because("close", half.CloseRead())
	}
	return errors.ErrUnsupported
}

// pieceSize is how much of a file ReadFrom sends before that counts as activity. A peer that reads so much
// within the limit is not closed. Larger pieces were not faster over loopback.
const pieceSize = 64 << 10

// ReadFrom serves io.Copy. It sends a regular file by the ReadFrom of the wrapped connection, which uses sendfile
// where there is such a thing, in pieces that count as activity each. All else it copies by Read and
// Write, because a source that delivers slowly would look like silence.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	rf, ok := c.netConn.(io.ReaderFrom)
	rest, limited := r.(*io.LimitedReader)
	if !limited {
		rest = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	if !ok || !isFile(rest.R) {
		return io.Copy(writer{c}, r)
	}
	for rest.N > 0 && err == nil {
		size := min(rest.N, pieceSize)
		piece := io.LimitedReader{R: rest.R, N: size}
		var sent int64
		sent, err = rf.ReadFrom(&piece)
		err = c.passed("write", sent > 0, err)
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

// isFile reports whether r is a regular file. It may be a type of package os other than *os.File, with
// which an *os.File calls io.Copy.
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
