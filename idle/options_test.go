package idle

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// With WithReadsOnly, a connection is closed if nothing has been read for the limit, whatever is written: by Write, from a
// file, or in pieces. What is read is activity as before.
func TestReadsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newLimit(t, 100*ms)
		l, err := New(l.timer, 100*ms, nil, WithReadsOnly()) // a nil Option is ignored
		require.NoError(t, err)
		c, far := newPipe(t, l)
		go func() {
			for range 3 { // the peer is alive until 150 ms
				time.Sleep(50 * ms)
				far.Write([]byte("pong"))
			}
		}()
		go io.Copy(io.Discard, far)
		f, _ := newFile(t, 1)
		pings := 0
		var last error
		var closed time.Duration
		go func() {
			for last == nil {
				time.Sleep(15 * ms)
				pings++
				if _, last = c.Write([]byte("ping")); last == nil {
					f.Seek(0, io.SeekStart)
					_, last = c.ReadFrom(f)
				}
			}
			closed = time.Since(start)
		}()
		b, err := io.ReadAll(c)
		require.ErrorIs(t, err, ErrIdle)
		require.Equal(t, "pongpongpong", string(b))
		require.Equal(t, 250*ms, time.Since(start))
		require.EqualValues(t, 1, l.NumClosed())
		pass(15 * ms)
		require.Equal(t, 255*ms, closed)
		require.Equal(t, 17, pings)
		require.ErrorIs(t, last, ErrIdle)
	})
}

// With WithReadsOnly, a Write that goes on in pieces is cut off at the limit, too.
func TestReadsOnlyInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newLimit(t, 100*ms)
		l.readsOnly = true
		c, far := newPipe(t, l)
		go func() {
			for {
				time.Sleep(30 * ms)
				if _, err := io.ReadFull(far, make([]byte, pieceSize)); err != nil {
					return
				}
			}
		}()
		n, err := c.Write(make([]byte, 10*pieceSize))
		require.ErrorIs(t, err, ErrIdle)
		require.Equal(t, 3*pieceSize, n)
		require.Equal(t, 100*ms, time.Since(start))
		pass(30 * ms)
	})
}
