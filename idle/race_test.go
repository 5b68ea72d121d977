package idle

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/stretchr/testify/require"
)

// A stamped connection records when data last moved, and when data was last in time.
type stamped struct {
	net.Conn
	start            time.Time
	reading, writing atomic.Int64  // when the last Read or Write returned
	active           atomic.Int64  // the latest of these times that started the limit anew
	closes           *atomic.Int64 // how often all connections were closed
	closed           atomic.Int64  // when it was first closed
}

func (s *stamped) now() int64 { return int64(time.Since(s.start)) }

func (s *stamped) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.reading.Store(s.now())
	return n, err
}

func (s *stamped) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.writing.Store(s.now())
	return n, err
}

func (s *stamped) Close() error {
	s.closes.Add(1)
	s.closed.CompareAndSwap(0, s.now())
	return s.Conn.Close()
}

// note records activity, which may be older than activity that another goroutine has recorded.
func (s *stamped) note(at int64) {
	for old := s.active.Load(); at > old && !s.active.CompareAndSwap(old, at); old = s.active.Load() {
	}
}

// Both ends of connections read and write at random. They fall silent or are closed about when the limit ends.
// Each connection ends once, and none is closed as idle before its limit. All goroutines that read and write get the reason.
func TestRace(t *testing.T) {
	const silence = 5 * ms
	l := newLimit(t, silence, hashedwheel.WithTick(ms))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	start := time.Now()
	end := start.Add(testkit.StressTime(t))
	var conns, byUser, idle atomic.Uint64
	var closes, closeCalls atomic.Int64
	var users sync.WaitGroup
	for n := range 60 {
		users.Go(func() {
			for time.Now().Before(end) || idle.Load() == 0 || byUser.Load() == 0 {
				near, far := net.Pipe()
				if n%4 == 0 {
					near.Close()
					far.Close()
					near, far = loopback(t, tcp)
				}
				conns.Add(1)
				s := &stamped{Conn: near, start: start, closes: &closes}
				c, err := l.Conn(s)
				if err != nil {
					t.Error(err)
					return
				}
				closed, wasIdle := useOne(t, c, s, far, &closeCalls)
				if closed {
					byUser.Add(1)
				}
				if wasIdle {
					idle.Add(1)
					if silent := s.closed.Load() - s.active.Load(); silent < int64(silence) {
						t.Errorf("closed after %v of silence", time.Duration(silent))
					}
				}
			}
		})
	}
	users.Wait()
	require.Eventually(t, func() bool { return l.timer.Stats().Running == 0 }, time.Minute, ms)
	st := l.timer.Stats()
	require.Zero(t, st.Pending)
	require.Equal(t, conns.Load(), st.Accepted)
	require.Equal(t, conns.Load(), byUser.Load()+idle.Load())
	require.Equal(t, idle.Load(), l.NumClosed())
	require.LessOrEqual(t, st.Expired, idle.Load(), "activity that comes too late cancels the task")
	require.Eventually(t, func() bool { return int64(idle.Load()) == closes.Load()-closeCalls.Load() }, time.Minute, ms, "by the limit, once each")
	t.Logf("%d connections, %d closed by their users, %d idle", conns.Load(), byUser.Load(), idle.Load())
}

// loopback returns both ends of a connection.
func loopback(t *testing.T, ln net.Listener) (near, far net.Conn) {
	far, err := net.Dial("tcp", ln.Addr().String())
	if err == nil {
		near, err = ln.Accept() // perhaps the other end of another call's connection
	}
	if err != nil {
		panic(err)
	}
	return near, far
}

// useOne uses a connection until it has ended. It reports whether its user has closed it, and whether it was
// closed because it was idle.
func useOne(t *testing.T, c *Conn, s *stamped, far net.Conn, closeCalls *atomic.Int64) (byUser, idle bool) {
	var ends sync.WaitGroup
	var reasons [2]error
	pause := func() { time.Sleep(rand.N(7 * ms)) }
	for i, op := range []func([]byte) (int, error){c.Read, c.Write} {
		stamp := []*atomic.Int64{&s.reading, &s.writing}[i]
		ends.Go(func() {
			b := make([]byte, 10)
			for reasons[i] == nil {
				if i == 1 || rand.IntN(4) == 0 {
					pause()
				}
				n, err := op(b)
				if n > 0 && err == nil {
					s.note(stamp.Load())
				}
				reasons[i] = err
			}
		})
	}
	ends.Go(func() {
		defer far.Close()
		ends.Go(func() { io.Copy(io.Discard, far) })
		for range rand.IntN(10) {
			if _, err := far.Write([]byte("x")); err != nil {
				return
			}
			pause()
		}
		pause()
		if rand.IntN(2) == 0 {
			time.Sleep(20 * ms)
		}
	})
	if rand.IntN(2) == 0 {
		pause()
		pause()
		closeCalls.Add(1)
		c.Close()
	}
	ends.Wait()
	closeCalls.Add(1)
	err := c.Close()
	idle = errors.Is(err, ErrIdle)
	for _, reason := range reasons {
		if errors.Is(reason, ErrIdle) && !idle {
			t.Errorf("%v, and then %v", reason, err)
		}
	}
	return !idle, idle
}

// When goroutines read and write at the same time, the deadline never falls behind the last of them. It would if a
// goroutine that has read the clock lost its processor, and then set a deadline that is out of date.
func TestDeadlineOnlyAdvances(t *testing.T) {
	const silence = time.Hour
	l := newLimit(t, silence, hashedwheel.WithTick(time.Microsecond))
	c, err := l.Conn(&fake{})
	require.NoError(t, err)
	defer c.Close()
	start := time.Now()
	var written atomic.Int64 // the latest time at which an operation that has returned began
	var users sync.WaitGroup
	for _, op := range []func([]byte) (int, error){c.Write, c.Read, c.Read, c.Read} { // one Write at a time moves data
		users.Go(func() {
			b := make([]byte, 1)
			for time.Since(start) < testkit.StressTime(t) && !t.Failed() {
				began := int64(time.Since(start))
				op(b)
				latest := written.Load()
				for began > latest && !written.CompareAndSwap(latest, began) {
					latest = written.Load()
				}
				latest = max(began, latest)
				if left := c.timeout.Deadline().Sub(start) - time.Duration(latest); left < silence {
					t.Errorf("the deadline is %v too early", silence-left)
				}
			}
		})
	}
	users.Wait()
}
