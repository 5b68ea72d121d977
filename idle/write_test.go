package idle

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What is written in one call is sent in pieces, and each of them is activity. So a peer that takes longer than the
// limit to read everything, but not to read a piece, is not cut off.
func TestLargeWriteToASlowReader(t *testing.T) {
	const size = 5*pieceSize + 1
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i >> 10)
	}
	for name, send := range map[string]func(c *Conn) (int64, error){
		"Write": func(c *Conn) (int64, error) {
			n, err := c.Write(content)
			return int64(n), err
		},
		"WriterTo":    func(c *Conn) (int64, error) { return io.Copy(c, bytes.NewReader(content)) },
		"ReadFrom":    func(c *Conn) (int64, error) { return c.ReadFrom(bytes.NewBuffer(bytes.Clone(content))) },
		"net.Buffers": func(c *Conn) (int64, error) { return (&net.Buffers{content[:size-9], content[size-9:]}).WriteTo(c) },
		"string": func(c *Conn) (int64, error) {
			text := string(content)
			n, err := io.WriteString(c, text)
			return int64(n), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimit(t, 100*ms)
				c, far := newPipe(t, l)
				received := make(chan []byte, 1)
				go func() {
					b := make([]byte, size)
					for n := 0; n < size; n += 1 << 10 {
						time.Sleep(ms) // 64 ms for a piece
						io.ReadFull(far, b[n:min(n+1<<10, size)])
					}
					received <- b
				}()
				start := time.Now()
				n, err := send(c)
				require.NoError(t, err)
				require.EqualValues(t, size, n)
				require.Equal(t, 321*ms, time.Since(start))
				require.True(t, bytes.Equal(content, <-received))
				pass(99 * ms)
				require.Zero(t, l.NumClosed(), "the last piece is activity too")
				pass(tick)
				require.EqualValues(t, 1, l.NumClosed())
			})
		})
	}
}

// Write passes on at most a piece at a time. After an error, or a short write, it sends no more and returns the sum.
func TestPiecesOfAWrite(t *testing.T) {
	var pieces []int
	var last struct {
		n   int
		err error
	}
	f := &fake{write: func(b []byte) (int, error) {
		pieces = append(pieces, len(b))
		if len(pieces) == 3 {
			return last.n, last.err
		}
		return len(b), nil
	}}
	c, err := newLimit(t, time.Hour).Conn(f)
	require.NoError(t, err)
	defer c.Close()
	for _, test := range []struct {
		size, n int // of the Write, and what the third piece returns
		err     error
		want    int
		pieces  []int
	}{
		{size: 0, want: 0, pieces: []int{0}}, // a Write of nothing reaches the wrapped connection, too
		{size: 1, want: 1, pieces: []int{1}},
		{size: 2 * pieceSize, want: 2 * pieceSize, pieces: []int{pieceSize, pieceSize}},
		{size: 2*pieceSize + 7, n: 7, want: 2*pieceSize + 7, pieces: []int{pieceSize, pieceSize, 7}},
		{size: 4 * pieceSize, n: 5, err: io.ErrUnexpectedEOF, want: 2*pieceSize + 5, pieces: []int{pieceSize, pieceSize, pieceSize}},
		{size: 4 * pieceSize, n: 0, err: os.ErrDeadlineExceeded, want: 2 * pieceSize, pieces: []int{pieceSize, pieceSize, pieceSize}},
		{size: 4 * pieceSize, n: 6, want: 2*pieceSize + 6, pieces: []int{pieceSize, pieceSize, pieceSize}},
	} {
		pieces, last.n, last.err = nil, test.n, test.err
		n, err := c.Write(make([]byte, test.size))
		require.Equal(t, test.err, err)
		require.Equal(t, test.want, n)
		require.Equal(t, test.pieces, pieces)
	}
}

// The limit ends during a Write that has sent some of its pieces. Write returns how much it has sent, and ErrIdle.
func TestLimitEndsWithinAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c, far := newPipe(t, newLimit(t, 100*ms))
		go func() {
			time.Sleep(50 * ms)
			io.ReadFull(far, make([]byte, 2*pieceSize+3))
		}()
		n, err := c.Write(make([]byte, 10*pieceSize))
		require.Equal(t, 2*pieceSize+3, n)
		require.ErrorIs(t, err, ErrIdle)
		require.Equal(t, 150*ms, time.Since(start))
	})
}

// A slow connection takes its time for each piece, and records it.
type slow struct {
	net.Conn
	mu  sync.Mutex
	got []byte
}

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(ms / 10)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, b...)
	return len(b), nil
}

func (s *slow) ReadFrom(r io.Reader) (int64, error) {
	b, err := io.ReadAll(r)
	if err == nil {
		s.Write(b)
	}
	return int64(len(b)), err
}

// The pieces of a Write, or of a file, stay together when others write at the same time, as the bytes of one Write do
// on a connection of package net. It sleeps for real, because a bubble does not wait for goroutines that wait for a
// mutex.
func TestWritesStayTogether(t *testing.T) {
	const pieces, rounds = 4, 5
	s := &slow{}
	c, err := newHour(t).Conn(s)
	require.NoError(t, err)
	var writers sync.WaitGroup
	for _, name := range []string{"a", "b", "file", "s"} {
		data := bytes.Repeat([]byte(name[:1]), pieces*pieceSize)
		var f *os.File
		switch name {
		case "file":
			f, _ = newFile(t, 0)
			require.NoError(t, os.WriteFile(f.Name(), data, 0o600))
		case "s":
			data = data[:1] // a small Write
		}
		writers.Go(func() {
			for range rounds {
				var err error
				if f == nil {
					_, err = c.Write(data)
				} else {
					f.Seek(0, io.SeekStart)
					_, err = c.ReadFrom(f)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	require.Len(t, s.got, rounds*(3*pieces*pieceSize+1))
	for calls, all := 0, s.got; len(all) > 0; calls++ {
		size := pieces * pieceSize
		if all[0] == 's' {
			size = 1
		}
		require.Equal(t, size, bytes.Count(all[:size], all[:1]), "call %d", calls)
		all = all[size:]
	}
}

// A Write that blocks ends when the connection is closed, by Close or by the limit, or when its deadline passes. So
// does one that waits for it. It uses no bubble, because goroutines wait for a mutex.
func TestBlockedWriteEnds(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(c *Conn)
		want error
	}{
		"Close":    {func(c *Conn) { c.Close() }, io.ErrClosedPipe},
		"limit":    {func(c *Conn) { c.timeout.Move(0) }, ErrIdle},
		"deadline": {func(c *Conn) { c.SetWriteDeadline(time.Now().Add(ms)) }, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			c, far := newPipe(t, newHour(t))
			results := make(chan error, 2)
			for range cap(results) {
				go func() {
					_, err := c.Write(make([]byte, 3*pieceSize))
					results <- err
				}()
			}
			_, err := io.ReadFull(far, make([]byte, pieceSize+1)) // within the second piece of one of them
			require.NoError(t, err)
			test.end(c)
			for range cap(results) {
				require.ErrorIs(t, <-results, test.want)
			}
		})
	}
}
