package idle

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/stretchr/testify/require"
)

// Reads and writes happen at random moments, up to the last moment of the limit. The connection is closed
// exactly at the first boundary at or after the end of the limit, counted from the last Read or Write.
func TestClosedAtTheLimit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			const silence = 100 * ms
			start := time.Now()
			until := func(at time.Duration) { pass(at - time.Since(start)) }
			l := newLimit(t, silence)
			last := time.Duration(rnd.IntN(3)) // at a boundary, or a few nanoseconds after it
			until(last)
			c, far := newPipe(t, l)
			b := make([]byte, 1)
			for range rnd.IntN(20) {
				next := last + 1 + time.Duration(rnd.IntN(int(boundary(last+silence)-last-1)))
				switch rnd.IntN(3) {
				case 0:
					next = max(next/tick*tick, last) + time.Duration(rnd.IntN(2))
				case 1:
					next = boundary(last+silence) - 1
				}
				until(next)
				from, to := far, net.Conn(c)
				if rnd.IntN(2) == 0 {
					from, to = c, far
				}
				go from.Write(b)
				_, err := to.Read(b)
				require.NoError(t, err)
				synctest.Wait()
				last = time.Since(start)
			}
			var closed time.Duration
			go func() {
				far.Read(b)
				closed = time.Since(start)
			}()
			n, err := c.Read(b)
			require.Zero(t, n)
			require.ErrorIs(t, err, ErrIdle)
			synctest.Wait()
			require.Equal(t, boundary(last+silence), time.Since(start))
			require.Equal(t, boundary(last+silence), closed)
			require.EqualValues(t, 1, l.NumClosed())
			require.Zero(t, l.timer.Pending())
			_, err = c.Write(b)
			require.ErrorIs(t, err, ErrIdle)
		})
	}
}

// A Write that blocks because the peer does not read is silence, even if the peer has read a part of it.
func TestBlockedWriteIsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c, far := newPipe(t, newLimit(t, 100*ms))
		go func() {
			time.Sleep(50 * ms)
			far.Read(make([]byte, 3))
		}()
		n, err := c.Write(make([]byte, 10))
		require.Equal(t, 3, n)
		require.ErrorIs(t, err, ErrIdle)
		require.Equal(t, 100*ms, time.Since(start))
	})
}

// Deadlines that the user sets work as before, and do not start the limit anew. Neither does an operation that
// moves no data.
func TestDeadlinesOfTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c, _ := newPipe(t, newLimit(t, 100*ms))
		b := make([]byte, 1)
		for n := range 3 {
			require.NoError(t, c.SetReadDeadline(time.Now().Add(15*ms)))
			_, err := c.Read(b)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.NotErrorIs(t, err, ErrIdle)
			require.NoError(t, c.SetWriteDeadline(time.Now().Add(15*ms)))
			_, err = c.Write(b)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.NotErrorIs(t, err, ErrIdle)
			require.Equal(t, time.Duration(n+1)*30*ms, time.Since(start))
		}
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Hour)))
		_, err := c.Read(b)
		require.ErrorIs(t, err, ErrIdle)
		require.Equal(t, 100*ms, time.Since(start), "a distant deadline does not keep the connection open")
	})
}

// A Read or a Write of no bytes does not start the limit anew.
func TestNothingIsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms)
		c, err := l.Conn(&fake{})
		require.NoError(t, err)
		pass(50 * ms)
		for _, op := range []func([]byte) (int, error){c.Read, c.Write} {
			n, err := op(nil)
			require.Zero(t, n)
			require.NoError(t, err)
		}
		pass(50 * ms)
		require.EqualValues(t, 1, l.NumClosed())
	})
}

func TestErrIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newPipe(t, newLimit(t, 100*ms))
		_, err := c.Read(make([]byte, 1))
		require.EqualError(t, err, "read pipe pipe->pipe: connection closed because it was idle")
		timeout, ok := err.(net.Error) // not errors.As, because net/http and crypto/tls do not use it
		require.True(t, ok)
		require.True(t, timeout.Timeout())
		//lint:ignore SA1019 crypto/tls asks for it
		require.False(t, timeout.Temporary())
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

// Data comes when the limit has ended, but the connection is not closed yet. Read drops it and returns ErrIdle, also
// later: after a gap, io.EOF would say that the stream is complete.
func TestDataMeetsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms)
		closing := make(chan struct{})
		defer close(closing)
		f := &fake{close: func() error { <-closing; return nil }}
		c, err := l.Conn(f)
		require.NoError(t, err)
		b := make([]byte, 1)
		pass(99 * ms)
		n, err := c.Read(b)
		require.Equal(t, 1, n)
		require.NoError(t, err)
		pass(101 * ms)
		require.EqualValues(t, 1, l.NumClosed(), "counted before it is closed")
		data := f.read
		f.read = func([]byte) (int, error) { return 0, io.EOF }
		_, err = c.Read(b)
		require.Equal(t, io.EOF, err, "the stream is complete")

		for _, read := range []func(b []byte) (int, error){
			data, // without an error
			func([]byte) (int, error) { return 1, io.EOF },
			func([]byte) (int, error) { return 1, net.ErrClosed },
			func([]byte) (int, error) { return 0, io.EOF },
			func([]byte) (int, error) { return 0, net.ErrClosed },
		} {
			f.read = read
			n, err = c.Read(b)
			require.Zero(t, n)
			require.ErrorIs(t, err, ErrIdle)
			require.EqualError(t, err, "read: connection closed because it was idle", "no address is known")
		}
		n, err = c.Write(b)
		require.Equal(t, 1, n)
		require.ErrorIs(t, err, ErrIdle)
		require.Zero(t, l.timer.Pending(), "nothing has been armed again")
	})
}

// After Close, data that the wrapped connection still returns is not too late.
func TestDataAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms)
		c, err := l.Conn(&fake{read: func([]byte) (int, error) { return 1, io.EOF }})
		require.NoError(t, err)
		pass(50 * ms)
		require.NoError(t, c.Close())
		n, err := c.Read(make([]byte, 1))
		require.Equal(t, 1, n)
		require.Equal(t, io.EOF, err)
	})
}

// When the boundary has passed, activity is too late, even if the task that closes the connection has yet to start.
func TestLateActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms, hashedwheel.WithMaxConcurrency(1))
		var closes atomic.Int64
		c, err := l.Conn(&fake{close: func() error { closes.Add(1); return nil }})
		require.NoError(t, err)
		release := make(chan struct{})
		_, err = l.timer.AfterFunc(0, func() { <-release })
		require.NoError(t, err)
		pass(boundary(100*ms) - 1)
		_, err = c.Read(make([]byte, 1))
		require.NoError(t, err)
		pass(100*ms + 1)
		for range 2 {
			n, err := c.Read(make([]byte, 1))
			require.Zero(t, n)
			require.ErrorIs(t, err, ErrIdle)
			_, err = c.Write(make([]byte, 1))
			require.ErrorIs(t, err, ErrIdle)
			require.ErrorIs(t, c.SetSilence(time.Hour), ErrIdle)
		}
		require.EqualValues(t, 1, l.NumClosed())
		synctest.Wait()
		require.EqualValues(t, 1, closes.Load(), "although its task still waits")
		other, err := l.Conn(new(fake))
		require.NoError(t, err)
		pass(boundary(100*ms) + 1)
		_, err = other.Read(make([]byte, 1))
		require.ErrorIs(t, err, ErrIdle)
		require.ErrorIs(t, other.Close(), ErrIdle, "before its task")
		_, err = other.Read(make([]byte, 1))
		require.ErrorIs(t, err, ErrIdle)
		close(release)
		synctest.Wait()
		require.EqualValues(t, 2, l.NumClosed())
		require.EqualValues(t, 1, closes.Load())
		require.EqualValues(t, 1, l.timer.Stats().Expired, "the task that has blocked the others")
	})
}

// A wrapped connection may return data even after the task has closed it. The connection is counted once.
func TestActivityAfterTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms)
		c, err := l.Conn(new(fake))
		require.NoError(t, err)
		pass(boundary(100*ms) + 1)
		require.EqualValues(t, 1, l.timer.Stats().Expired)
		require.EqualValues(t, 1, l.NumClosed())
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, ErrIdle)
		_, err = c.Write(make([]byte, 1))
		require.ErrorIs(t, err, ErrIdle)
		require.ErrorIs(t, c.SetSilence(time.Hour), ErrIdle)
		require.EqualValues(t, 1, l.NumClosed())
	})
}

// While the timer stops, its timeouts are pending and cannot be moved to an earlier deadline. The limit has not ended then. The test
// runs on real time, because the race needs goroutines that run at the same time.
func TestSetSilenceWhileTheTimerStops(t *testing.T) {
	l := newHour(t)
	others := clock.New(l.timer)
	for range 100_000 { // Stop moves each to package time
		defer others.AfterFunc(time.Hour, func() {}).Stop()
	}
	c, err := l.Conn(new(fake))
	require.NoError(t, err)
	time.Sleep(1500 * time.Millisecond) // real time: until it is in a bucket
	over := make(chan struct{})
	go func() { defer close(over); l.timer.Stop() }()
	for !l.timer.IsStopped() {
		runtime.Gosched()
	}
	for {
		require.ErrorIs(t, c.SetSilence(time.Minute), hashedwheel.ErrStopped)
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		select {
		case <-over:
			return
		default:
			runtime.Gosched()
		}
	}
}

// Every method returns the reason once the limit has closed the connection, so that no caller takes it for a fault of
// its own.
func TestEveryMethodReturnsTheReason(t *testing.T) {
	c, _ := newTCP(t, newLimit(t, 20*ms)) // a pipe has no half-close
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, ErrIdle)
	f, _ := newFile(t, 10)
	for name, call := range map[string]func() (any, error){
		"read":          func() (any, error) { return c.Read(make([]byte, 1)) },
		"write":         func() (any, error) { return c.Write(make([]byte, 1)) },
		"write nothing": func() (any, error) { return c.Write(nil) },
		"file":          func() (any, error) { return c.ReadFrom(f) },
		"copy":          func() (any, error) { return c.ReadFrom(strings.NewReader("data")) },
		"close read":    func() (any, error) { return 0, c.CloseRead() },
		"close write":   func() (any, error) { return 0, c.CloseWrite() },
		"deadline":      func() (any, error) { return 0, c.SetDeadline(time.Now()) },
		"read deadline": func() (any, error) { return 0, c.SetReadDeadline(time.Now()) },
		"no deadline":   func() (any, error) { return 0, c.SetWriteDeadline(time.Time{}) },
		"silence":       func() (any, error) { return 0, c.SetSilence(time.Second) },
		"close":         func() (any, error) { return 0, c.Close() },
	} {
		n, err := call()
		require.ErrorIs(t, err, ErrIdle, name)
		require.EqualValues(t, 0, n, name)
	}
}

// Close ends the limit at once, and later errors are not ErrIdle. If the limit has closed the connection
// before, Close returns ErrIdle.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms)
		closes := 0
		c, err := l.Conn(&fake{close: func() error { closes++; return nil }})
		require.NoError(t, err)
		require.Equal(t, 1, l.timer.Pending())
		require.NoError(t, c.Close())
		require.Zero(t, l.timer.Pending())
		b := make([]byte, 1)
		_, err = c.Write(b)
		require.NoError(t, err, "Close returns the error of the wrapped connection")
		require.Zero(t, l.timer.Pending(), "a limit that has ended is not armed again")
		pass(200 * ms)
		require.Equal(t, 1, closes)
		require.Zero(t, l.NumClosed())

		c, far := newPipe(t, l)
		require.NoError(t, c.Close())
		_, err = far.Read(b)
		require.Equal(t, io.EOF, err)
		_, err = c.Read(b)
		require.Equal(t, io.ErrClosedPipe, err)
		require.Zero(t, l.timer.Pending())

		c, _ = newPipe(t, l)
		pass(200 * ms)
		require.ErrorIs(t, c.Close(), ErrIdle)
		require.EqualValues(t, 1, l.NumClosed())
	})
}

// When too many timeouts are pending, a connection is refused. The next one is accepted when there is room.
func TestFullTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms, hashedwheel.WithMaxPending(1))
		pipes := newPipeListener()
		ln := l.Listener(pipes)
		defer ln.Close()
		accepted := make(chan net.Conn)
		go func() {
			defer close(accepted)
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		first := pipes.dial()
		c := <-accepted
		require.IsType(t, (*Conn)(nil), c)
		_, err := l.Conn(first)
		require.Equal(t, hashedwheel.ErrTooManyPending, err)
		go first.Write([]byte("x"))
		_, err = c.Read(make([]byte, 1))
		require.NoError(t, err, "Conn has left it open")

		second := pipes.dial()
		_, err = second.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.EqualValues(t, 1, l.NumRefused())
		c.Close()
		third := pipes.dial()
		<-accepted
		pass(100 * ms)
		_, err = third.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.EqualValues(t, 1, l.NumClosed())
		require.EqualValues(t, 1, l.NumRefused())
	})
}

// A listener may have no address to name in the error of Accept.
func TestAcceptWithoutAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms)
		l.timer.Stop()
		pipes := newPipeListener()
		pipes.unknown = true
		go func() { pipes.dial().Close() }()
		_, err := l.Listener(pipes).Accept()
		require.ErrorIs(t, err, hashedwheel.ErrStopped)
		require.EqualError(t, err, "accept: "+hashedwheel.ErrStopped.Error())
	})
}

// After Stop no connection is accepted. Those accepted before stay open without a limit.
func TestStoppedTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms)
		pipes := newPipeListener()
		ln := l.Listener(pipes)
		c, far := newPipe(t, l)
		require.Len(t, l.timer.Stop(), 1)
		pass(time.Hour)
		go far.Write([]byte("x"))
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		_, err = c.Read(make([]byte, 1))
		require.Equal(t, io.ErrClosedPipe, err)
		require.Zero(t, l.NumClosed())

		go func() {
			_, err := pipes.dial().Read(make([]byte, 1))
			if err != io.EOF {
				t.Errorf("not closed: %v", err)
			}
		}()
		_, err = ln.Accept()
		require.ErrorIs(t, err, hashedwheel.ErrStopped)
		require.EqualError(t, err, "accept tcp :0: "+hashedwheel.ErrStopped.Error())
		require.EqualValues(t, 1, l.NumRefused())
		synctest.Wait()
		ln.Close()
		_, err = ln.Accept()
		require.Equal(t, net.ErrClosed, err)
		require.EqualValues(t, 1, l.NumRefused())
	})
}

func TestNew(t *testing.T) {
	timer, err := hashedwheel.New()
	require.NoError(t, err)
	defer timer.Stop()
	for _, silence := range []time.Duration{0, -time.Second} {
		_, err = New(timer, silence)
		require.EqualError(t, err, "idle: New: silence "+silence.String()+": it must be positive")
	}
}

// A nil connection is noticed at once, not when it is used or closed.
func TestNilConn(t *testing.T) {
	timer, err := hashedwheel.New()
	require.NoError(t, err)
	defer timer.Stop()
	limit, err := New(timer, time.Second)
	require.NoError(t, err)
	_, err = limit.Conn(nil)
	require.EqualError(t, err, "idle: Limit.Conn: nil net.Conn")
	require.Zero(t, timer.Pending())
}

func TestNoHalfClose(t *testing.T) {
	l := newLimit(t, time.Hour)
	c, _ := newPipe(t, l)
	require.Equal(t, errors.ErrUnsupported, c.CloseWrite())
	require.Equal(t, errors.ErrUnsupported, c.CloseRead())
	require.NoError(t, c.Close())
}

// Ten thousand connections need only the goroutine of the timer, and those that end at the same boundary are closed together.
func TestNoGoroutineEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conns = 10_000
		l := newLimit(t, 100*ms)
		before := runtime.NumGoroutine()
		var closed atomic.Int64
		f := &fake{close: func() error { closed.Add(1); return nil }}
		b := make([]byte, 1)
		all := make([]*Conn, conns)
		for i := range all {
			c, err := l.Conn(f)
			require.NoError(t, err)
			all[i] = c
		}
		pass(99 * ms)
		for i, c := range all {
			if i%2 == 0 {
				c.Read(b)
			}
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), before+1)
		pass(ms)
		require.EqualValues(t, conns/2, closed.Load())
		pass(99 * ms)
		require.EqualValues(t, conns/2, closed.Load())
		pass(ms)
		require.EqualValues(t, conns, closed.Load())
		require.EqualValues(t, conns, l.NumClosed())
	})
}

func TestAllocations(t *testing.T) {
	l := newLimit(t, time.Hour)
	f := &fake{}
	c, err := l.Conn(f)
	require.NoError(t, err)
	b := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		c.Read(b)
		c.Write(b)
	}))
	require.EqualValues(t, 1, testing.AllocsPerRun(1000, func() {
		c, err := l.Conn(f)
		if err != nil {
			panic(err)
		}
		c.Close()
	}))
	require.NoError(t, c.Close())
}

func TestNilListener(t *testing.T) {
	require.PanicsWithValue(t, "idle: Limit.Listener: nil net.Listener", func() { newHour(t).Listener(nil) })
}
