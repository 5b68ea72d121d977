package idle

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/stretchr/testify/require"
)

// These tests use real connections. In most of them the limit is an hour, and the test ends it. So no test
// fails because the machine is slow.
const silence = time.Hour

// newHour returns a Limit of an hour. Its tick is so short that each activity moves the deadline.
func newHour(t testing.TB) *Limit {
	return newLimit(t, silence, hashedwheel.WithTick(time.Microsecond))
}

// endLimit waits for activity since a time, then makes the limit of the connection end soon, and returns when
// it has ended. If there is more activity, it tries again, because a Write may return later than the peer reads.
func endLimit(t *testing.T, c *Conn, since time.Time) {
	t.Helper()
	closed := c.limit.NumClosed()
	require.Eventually(t, func() bool {
		if left := c.timeout.Deadline().Sub(since); left >= silence {
			c.timeout.Move(tick)
		}
		return c.limit.NumClosed() > closed
	}, time.Minute, ms)
}

// newTCP returns the server's end of a connection over loopback, under the limit, and the client's end.
func newTCP(t testing.TB, l *Limit) (*Conn, *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	limited := l.Listener(ln)
	defer limited.Close()
	client, err := net.Dial("tcp", limited.Addr().String())
	require.NoError(t, err)
	server, err := limited.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { client.Close(); server.Close() })
	return server.(*Conn), client.(*net.TCPConn)
}

// After CloseWrite, reading still works, and the limit still holds.
func TestCloseWrite(t *testing.T) {
	c, client := newTCP(t, newHour(t))
	b := make([]byte, 10)
	require.NoError(t, c.CloseWrite())
	_, err := client.Read(b)
	require.Equal(t, io.EOF, err)
	sent := time.Now()
	_, err = client.Write([]byte("hello"))
	require.NoError(t, err)
	n, err := c.Read(b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b[:n]))
	endLimit(t, c, sent)
	_, err = c.Read(b)
	require.ErrorIs(t, err, ErrIdle)
	require.ErrorIs(t, c.CloseWrite(), ErrIdle)
	require.ErrorIs(t, c.CloseRead(), ErrIdle)
}

func TestCloseRead(t *testing.T) {
	c, client := newTCP(t, newHour(t))
	require.NoError(t, c.CloseRead())
	b := make([]byte, 10)
	_, err := c.Read(b)
	require.Equal(t, io.EOF, err)
	sent := time.Now()
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	_, err = io.ReadFull(client, b[:5])
	require.NoError(t, err)
	endLimit(t, c, sent)
	_, err = client.Read(b)
	require.Equal(t, io.EOF, err)
	_, err = c.Read(b)
	require.ErrorIs(t, err, ErrIdle)
}

// A Write that fills the buffers of a peer that does not read fails when the limit ends.
func TestPeerThatDoesNotRead(t *testing.T) {
	c, _ := newTCP(t, newLimit(t, 100*ms))
	b := make([]byte, 1<<20)
	var err error
	for err == nil {
		_, err = c.Write(b)
	}
	require.ErrorIs(t, err, ErrIdle)
}

// A server is an http.Server on a listener under the limit, which ends with the test.
type server struct {
	*httptest.Server
	conns chan *Conn // accepted
}

// newServer returns a server that has not been started.
func newServer(t *testing.T, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{httptest.NewUnstartedServer(handler), make(chan *Conn, 1)}
	s.Listener = &tap{newHour(t).Listener(s.Listener), s.conns}
	t.Cleanup(s.Close)
	return s
}

// A tap is a listener that sends each connection that it accepts on a channel.
type tap struct {
	net.Listener
	conns chan *Conn
}

func (l *tap) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.conns <- c.(*Conn)
	}
	return c, err
}

// dial returns a client's connection, and the server's end of it.
func (s *server) dial(t *testing.T) (net.Conn, *Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn, <-s.conns
}

// ended fails the test unless the other end has been closed.
func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, conn)
	require.NoError(t, err)
}

// get sends a request, and returns the body of the response.
func get(t *testing.T, conn net.Conn) string {
	t.Helper()
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

func TestHTTPServer(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	s.Start()
	conn, c := s.dial(t)
	var began time.Time
	for range 3 {
		began = time.Now()
		require.Equal(t, "hello", get(t, conn))
	}
	endLimit(t, c, began)
	ended(t, conn)
}

// newTLS returns a server over TLS, and the configuration of its clients.
func newTLS(t *testing.T) (*server, *tls.Config) {
	t.Helper()
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.TLS.ServerName) })
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // for a handshake that fails
	s.StartTLS()
	config := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	return s, config
}

func TestTLS(t *testing.T) {
	s, config := newTLS(t)
	conn, c := s.dial(t)
	conn = tls.Client(conn, config)
	began := time.Now()
	require.Equal(t, "example.com", get(t, conn))
	endLimit(t, c, began)
	ended(t, conn)
}

// The limit also covers the TLS handshake.
func TestTLSHandshake(t *testing.T) {
	s, _ := newTLS(t)
	began := time.Now()
	conn, c := s.dial(t)
	endLimit(t, c, began)
	ended(t, conn)
}

// A limit above TLS closes the TLS connection, and so the connection beneath, whose own limit ends then.
func TestAboveTLS(t *testing.T) {
	s, config := newTLS(t)
	near, far := newTCP(t, newHour(t))
	began := time.Now()
	c, err := newHour(t).Conn(tls.Server(near, s.TLS))
	require.NoError(t, err)
	closed := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1)) // does the handshake first
		closed <- err
	}()
	client := tls.Client(far, config)
	require.NoError(t, client.Handshake())
	require.Eventually(t, func() bool { return c.NetConn().(*tls.Conn).ConnectionState().HandshakeComplete }, time.Minute, ms)
	endLimit(t, c, began)
	require.ErrorIs(t, <-closed, ErrIdle)
	ended(t, client)
	require.True(t, near.timeout.IsCanceled())
}

// Hijack returns the limited connection, which still works.
func TestHijack(t *testing.T) {
	reason := make(chan error, 1)
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, err = conn.(*Conn).Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
		}
		if err == nil {
			_, err = io.Copy(conn, conn)
			conn.Close()
		}
		reason <- err
	})
	s.Start()
	conn, c := s.dial(t)
	require.Empty(t, get(t, conn))
	var began time.Time
	b := make([]byte, 5)
	for range 3 {
		began = time.Now()
		_, err := io.WriteString(conn, "hello")
		require.NoError(t, err)
		_, err = io.ReadFull(conn, b)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b))
	}
	endLimit(t, c, began)
	ended(t, conn)
	require.ErrorIs(t, <-reason, ErrIdle)
}

// The connections of an http.Client are under a limit on the client's side. The client replaces one that was
// closed.
func TestDial(t *testing.T) {
	l := newHour(t)
	conns := make(chan *Conn, 1)
	var dialed time.Time
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c, err := l.Conn(conn)
		dialed = time.Now()
		conns <- c
		return c, err
	}}
	defer transport.CloseIdleConnections()
	for range 2 {
		response, err := (&http.Client{Transport: transport}).Get(s.URL)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		endLimit(t, <-conns, dialed)
	}
}
