package idle

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// newFile returns a file and its content.
func newFile(t *testing.T, size int) (*os.File, []byte) {
	t.Helper()
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f, b
}

// A recorder is a connection that records the calls of its ReadFrom, and may make them slow.
type recorder struct {
	net.Conn
	slow  time.Duration
	limit []int64 // the length of the piece of each call
}

func (c *recorder) ReadFrom(r io.Reader) (int64, error) {
	piece := r.(*io.LimitedReader)
	_ = piece.R.(syscall.Conn) // because sendfile needs it
	c.limit = append(c.limit, piece.N)
	time.Sleep(c.slow)
	if rf, ok := c.Conn.(io.ReaderFrom); ok {
		return rf.ReadFrom(r)
	}
	return io.Copy(writer{c.Conn}, r)
}

// The wrapped connection sends a file in pieces, and each piece is activity. The connection stays open if the
// peer takes longer than the limit for the whole file, but not for any piece.
func TestFile(t *testing.T) {
	for _, copied := range []struct {
		name string
		copy func(c *Conn, f *os.File) (int64, error)
		want int
	}{
		{"whole", func(c *Conn, f *os.File) (int64, error) { return io.Copy(c, f) }, 3*pieceSize + 5},
		{"limited", func(c *Conn, f *os.File) (int64, error) { return io.CopyN(c, f, 2*pieceSize+5) }, 2*pieceSize + 5},
		{"no more", func(c *Conn, f *os.File) (int64, error) { return io.Copy(c, io.LimitReader(f, pieceSize)) }, pieceSize},
		{"direct", func(c *Conn, f *os.File) (int64, error) { return c.ReadFrom(f) }, 3*pieceSize + 5},
	} {
		t.Run(copied.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				f, content := newFile(t, 3*pieceSize+5)
				near, far := net.Pipe()
				rec := &recorder{Conn: near, slow: 60 * ms}
				l := newLimit(t, 100*ms)
				c, err := l.Conn(rec)
				require.NoError(t, err)
				received := make(chan []byte, 1)
				go func() {
					b := make([]byte, copied.want)
					io.ReadFull(far, b)
					received <- b
					io.Copy(io.Discard, far)
				}()
				n, err := copied.copy(c, f)
				require.NoError(t, err)
				require.EqualValues(t, copied.want, n)
				require.Equal(t, time.Duration(len(rec.limit))*60*ms, time.Since(start))
				require.Len(t, rec.limit, (copied.want+pieceSize-1)/pieceSize)
				require.LessOrEqual(t, rec.limit[0], int64(pieceSize))
				require.True(t, bytes.Equal(content[:copied.want], <-received))

				rec.slow = 101 * ms
				_, err = f.Seek(0, io.SeekStart)
				require.NoError(t, err)
				_, err = copied.copy(c, f)
				require.ErrorIs(t, err, ErrIdle)
			})
		})
	}
}

// After ReadFrom, an io.LimitedReader has as much left as after any other copy.
func TestLimitedReaderIsLeftRight(t *testing.T) {
	f, content := newFile(t, pieceSize+10)
	c, client := newTCP(t, newHour(t))
	r := &io.LimitedReader{R: f, N: pieceSize + 3}
	got := make([]byte, r.N)
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(c, r)
		copied <- err
	}()
	_, err := io.ReadFull(client, got)
	require.NoError(t, err)
	require.NoError(t, <-copied)
	require.True(t, bytes.Equal(content[:pieceSize+3], got))
	require.Zero(t, r.N)

	r.N = 10 // more than the file has left
	n, err := c.ReadFrom(r)
	require.EqualValues(t, 7, n)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.N)
	n, err = c.ReadFrom(&io.LimitedReader{R: f})
	require.Zero(t, n)
	require.NoError(t, err)
}

// Copying from a source that delivers a byte now and then is activity. The source may be a connection, a pipe
// of the system, or a reader that the wrapped connection's ReadFrom would copy in one call.
func TestSlowSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		rec := &recorder{Conn: near}
		l := newLimit(t, 100*ms)
		c, err := l.Conn(rec)
		require.NoError(t, err)
		source, w := net.Pipe()
		go io.Copy(io.Discard, far)
		go func() {
			for range 20 {
				time.Sleep(60 * ms)
				w.Write([]byte("x"))
			}
			w.Close()
		}()
		n, err := io.Copy(c, source)
		require.NoError(t, err)
		require.EqualValues(t, 20, n)
		require.Empty(t, rec.limit)
		require.Zero(t, l.NumClosed())
		pass(100 * ms)
		require.EqualValues(t, 1, l.NumClosed())
	})
	for _, source := range []func() (io.Reader, io.WriteCloser){
		func() (io.Reader, io.WriteCloser) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			t.Cleanup(func() { r.Close() })
			return r, w
		},
		func() (io.Reader, io.WriteCloser) {
			c, client := newTCP(t, newHour(t))
			return c.NetConn(), client
		},
	} {
		r, w := source()
		near, client := newTCP(t, newHour(t))
		rec := &recorder{Conn: near}
		c, err := near.limit.Conn(rec)
		require.NoError(t, err)
		copied := make(chan error)
		go func() {
			_, err := io.Copy(c, r)
			copied <- err
		}()
		for range 3 {
			_, err := w.Write([]byte("x"))
			require.NoError(t, err)
			_, err = io.ReadFull(client, make([]byte, 1)) // before the next byte is written
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		require.NoError(t, <-copied)
		require.Empty(t, rec.limit)
		require.NoError(t, c.Close())
	}
}

// Copying from a connection to a file is activity. Package os would splice without Read if the Conn had a
// SyscallConn.
func TestUpload(t *testing.T) {
	c, client := newTCP(t, newHour(t))
	f, err := os.Create(filepath.Join(t.TempDir(), "upload"))
	require.NoError(t, err)
	defer f.Close()
	_, err = client.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, client.CloseWrite())
	before := c.timeout.Deadline()
	n, err := io.Copy(f, c)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
	require.Greater(t, c.timeout.Deadline(), before)
}

// Package net/http sends files in the same way.
func TestServeFile(t *testing.T) {
	const sniffed = 512 // bytes sent first, by Write
	f, content := newFile(t, 3*pieceSize+sniffed)
	recorders := make(chan *recorder, 1)
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, f.Name()) })
	limited := s.Listener.(*tap).Listener.(*listener)
	limited.Listener = &recording{limited.Listener, recorders}
	s.Start()
	conn, _ := s.dial(t)
	require.True(t, string(content) == get(t, conn))
	require.Equal(t, []int64{pieceSize, pieceSize, pieceSize}, (<-recorders).limit)
}

// recording is a listener whose connections are recorders.
type recording struct {
	net.Listener
	recorders chan *recorder
}

func (l *recording) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	rec := &recorder{Conn: c}
	l.recorders <- rec
	return rec, nil
}
