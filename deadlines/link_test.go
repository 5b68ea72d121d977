package deadlines

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The server closes the connection because the program has sent too long a line. The store makes another one: its
// worker goes on, and so do calls. Close closes that connection, and leaves that of the program to the program.
func TestServerClosesConnection(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	c := s.mustWork(t, nil)
	s.mustSet(t, "held", 600*time.Millisecond)
	await(t, "it is held", func() bool { return s.Stats().Held == 1 })
	for range 2 {
		nc := s.link().nc
		require.NoError(t, nc.Publish(strings.Repeat("k", 5000), nil))
		await(t, "the server closes the connection", nc.IsClosed)
		s.mustSet(t, "set", 0)
		s.awaitStatus(t, "set", Handled)
		require.NotSame(t, nc, s.link().nc)
	}
	s.awaitStatus(t, "held", Handled)
	require.Contains(t, l.String(), "the server has closed the connection, and another one is made")
	require.Contains(t, l.String(), "maximum control line exceeded")
	s.mustCheck(t)
	c.stop()
	nc := s.link().nc
	s.Close()
	require.True(t, nc.IsClosed())
}

// A connection that the program has closed is not made again.
func TestProgramClosesConnection(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	nc := s.link().nc
	work := make(chan error, 1)
	go func() { work <- s.Work(t.Context(), func(context.Context, Deadline) error { return nil }) }()
	nc.Close()
	require.ErrorIs(t, <-work, nats.ErrConnectionClosed)
	require.ErrorIs(t, s.Set(t.Context(), "key", time.Now(), nil), nats.ErrConnectionClosed)
	require.Same(t, nc, s.link().nc)
}

// A program starts before its servers. Connect succeeds, and Open waits and says so.
func TestServersStartLater(t *testing.T) {
	t.Parallel()
	srv := serve(t)
	o := &server.Options{StoreDir: t.TempDir(), Port: srv.Addr().(*net.TCPAddr).Port}
	url := srv.ClientURL()
	srv.Shutdown()
	srv.WaitForShutdown()
	nc, err := Connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	opened := make(chan *Store, 1)
	go func() {
		s, err := Open(t.Context(), nc, cfg)
		assert.NoError(t, err)
		opened <- s
	}()
	await(t, "it says so", func() bool { return strings.Contains(l.String(), "no connection yet, and Open waits for one") })
	require.Contains(t, l.String(), "servers="+url)
	require.Empty(t, opened)
	serveOptions(t, o)
	s := <-opened
	require.NotNil(t, s)
	t.Cleanup(s.Close)
	s.mustWork(t, nil)
	s.mustSet(t, "key", 0)
	s.awaitStatus(t, "key", Handled)

	_, err = Connect(url+"1", nats.RetryOnFailedConnect(false))
	require.Error(t, err)
}

// Open says in the log why it waits. What will not change is an error at once.
func TestOpenSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	srv := serveOptions(t, &server.Options{StoreDir: t.TempDir(), Username: "a", Password: "right"})
	open := func(password string, cfg Config) (chan error, func()) {
		nc, err := Connect("nats://a:" + password + "@" + strings.TrimPrefix(srv.ClientURL(), "nats://"))
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		ctx, cancel := context.WithCancel(t.Context())
		opened := make(chan error, 1)
		go func() {
			_, err := Open(ctx, nc, cfg)
			opened <- err
		}()
		return opened, cancel
	}
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	opened, cancel := open("wrong", cfg)
	await(t, "it says so", func() bool { return strings.Contains(l.String(), "Authorization Violation") })
	require.Empty(t, opened, "Open still waits")
	require.Contains(t, l.String(), `msg="deadlines: the store is not open yet, and Open tries again"`)
	require.NotContains(t, l.String(), "wrong")
	cancel()
	require.ErrorContains(t, <-opened, "Authorization Violation")

	cfg.Replicas = 3
	opened, cancel = open("right", cfg)
	defer cancel()
	err := <-opened
	require.ErrorContains(t, err, "3 replicas need as many servers, and nats://")
	require.ErrorContains(t, err, " is no member of a cluster")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// After Close, calls fail and Work returns, when its handlers have ended.
func TestClose(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	require.ErrorContains(t, s.Work(t.Context(), nil), "deadlines: work: the handler is nil")
	running, work := make(chan bool), make(chan error, 1)
	go func() {
		work <- s.Work(t.Context(), func(ctx context.Context, _ Deadline) error {
			close(running)
			<-ctx.Done()
			return nil
		})
	}()
	s.mustSet(t, "key", 0)
	<-running
	s.Close()
	require.ErrorIs(t, <-work, ErrClosed)
	require.ErrorIs(t, s.Work(t.Context(), func(context.Context, Deadline) error { return nil }), ErrClosed)
	for _, call := range []func() error{
		func() error { return s.Set(t.Context(), "key", time.Now(), nil) },
		func() error { _, err := s.Cancel(t.Context(), "key"); return err },
		func() error { _, err := s.Get(t.Context(), "key"); return err },
	} {
		require.ErrorIs(t, call(), ErrClosed)
	}
	require.True(t, s.link().nc.IsConnected(), "the connection is the program's")
}

// The password is changed on the servers, and is right again later. The log then says that there is a connection, and not
// how often it was refused before.
func TestPasswordRightAgain(t *testing.T) {
	t.Parallel()
	o := &server.Options{StoreDir: t.TempDir(), Username: "a", Password: "right"}
	srv := serveOptions(t, o)
	o.Port = srv.Addr().(*net.TCPAddr).Port
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, "nats://a:right@"+strings.TrimPrefix(srv.ClientURL(), "nats://"), cfg)
	password := func(p string) {
		changed := o.Clone()
		changed.Password = p
		require.NoError(t, srv.ReloadOptions(changed))
	}
	password("other")
	await(t, "it is refused several times", func() bool {
		s.flood.mu.Lock()
		defer s.flood.mu.Unlock()
		b := s.flood.kinds[refusedKind]
		return b != nil && b.times >= 2
	})
	require.Contains(t, l.String(), "authorization violation")
	password("right")
	await(t, "it says so", func() bool { return strings.Contains(l.String(), "deadlines: connected again") })
	s.mustSet(t, "key", time.Hour)
	s.flood.settleAt(time.Now().Add(2 * floodEvery))
	s.Close()
	require.NotContains(t, l.String(), "times=")
}
