package idle

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

const (
	ms   = time.Millisecond
	tick = 10 * ms
)

// A server of net/http keeps a connection that it has closed for half a second, longer than goleak waits.
func TestMain(m *testing.M) { testkit.Main(m, "net/http.(*conn).closeWriteAndWait") }

// newLimit returns a Limit on a new timer, and stops the timer when the test ends.
func newLimit(t testing.TB, silence time.Duration, opts ...hashedwheel.Option) *Limit {
	t.Helper()
	timer, err := hashedwheel.New(append([]hashedwheel.Option{hashedwheel.WithTick(tick)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	l, err := New(timer, silence)
	require.NoError(t, err)
	return l
}

// newPipe returns a connection under the limit, and its peer.
func newPipe(t testing.TB, l *Limit) (*Conn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	c, err := l.Conn(near)
	require.NoError(t, err)
	return c, far
}

var pass = testkit.Pass

func boundary(d time.Duration) time.Duration { return testkit.Boundary(d, tick) }

// A fake is a connection in memory whose operations succeed at once, except those for which it has a function.
type fake struct {
	net.Conn
	read, write func(b []byte) (int, error)
	close       func() error
}

func (f *fake) Read(b []byte) (int, error) {
	if f.read != nil {
		return f.read(b)
	}
	return len(b), nil
}

func (f *fake) Write(b []byte) (int, error) {
	if f.write != nil {
		return f.write(b)
	}
	return len(b), nil
}

func (f *fake) Close() error {
	if f.close != nil {
		return f.close()
	}
	return nil
}

func (f *fake) LocalAddr() net.Addr             { return nil }
func (f *fake) RemoteAddr() net.Addr            { return nil }
func (f *fake) SetReadDeadline(time.Time) error { return nil }

// A pipeListener accepts connections without a network.
type pipeListener struct {
	conns   chan net.Conn
	done    chan struct{}
	once    sync.Once
	unknown bool // its address
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	return near
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

func (l *pipeListener) Addr() net.Addr {
	if l.unknown {
		return nil
	}
	return &net.TCPAddr{}
}
