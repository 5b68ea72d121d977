package deadlines

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// An operator sees that the connection was lost and has come back, and why nothing ended meanwhile.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	o := &server.Options{StoreDir: t.TempDir()}
	srv := serveOptions(t, o)
	o.Port = srv.Addr().(*net.TCPAddr).Port
	s := mustOpen(t, srv.ClientURL(), cfg)
	s.mustWork(t, nil)
	at := s.mustSet(t, "a", time.Second)
	says := func(text string) func() bool { return func() bool { return strings.Contains(l.String(), text) } }
	srv.Shutdown()
	srv.WaitForShutdown()
	await(t, "it says so", says("deadlines: disconnected"))
	await(t, "it says so", says("deadlines: requests have failed for "))
	serveOptions(t, o)
	await(t, "it says so", says("deadlines: connected again"))
	await(t, "it says so", says("deadlines: requests succeed again"))
	s.awaitStatus(t, "a", Handled)
	require.True(t, s.mustGet(t, "a").Changed.After(at))
	s.mustCheck(t)
}

func TestFigures(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.mustWork(t, nil)
	s.mustSet(t, "a", 0)
	s.awaitStatus(t, "a", Handled)
	await(t, "it is counted", func() bool { return s.Stats().Handled == 1 })
	figures := make(map[string]float64)
	s.Figures(func(name, help string, counter bool, value float64) {
		require.NotContains(t, figures, name)
		require.NotEmpty(t, help)
		require.Equal(t, strings.HasSuffix(help, "."), true)
		figures[name] = value
	})
	require.Equal(t, 1.0, figures["set"])
	require.Equal(t, 1.0, figures["handled"])
	require.Zero(t, figures["failures"])
	require.Zero(t, figures["full"])
	require.Equal(t, s.cfg.Name, s.Name())
}

// All handlers hang while other deadlines wait. That is logged, and so is the end of it. Handlers that take long while
// nothing waits are not.
func TestAllHandlersHang(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger, cfg.Concurrency = l.logger(), 2
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	release := make(chan bool)
	c := s.mustWork(t, func(context.Context, Deadline) error { <-release; return nil })
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	for _, key := range []string{"a", "b"} {
		s.mustSet(t, key, 0)
		await(t, "it runs", func() bool { return len(c.of(key)) == 1 })
	}
	await(t, "both run", func() bool { return s.Stats().Running == 2 })
	time.Sleep((hangsAfter + 1) * s.cfg.Lease)
	require.Empty(t, l.String())
	s.mustSet(t, "c", 0)
	await(t, "it is logged", func() bool { return strings.Contains(l.String(), "deadlines: no handler has returned for 3s") })
	require.Contains(t, l.String(), "running=2 waiting=")
	require.Contains(t, l.String(), `longest="[a b]" for=`)
	free()
	await(t, "it is logged", func() bool { return strings.Contains(l.String(), "deadlines: handlers return again") })
	s.awaitStatus(t, "c", Handled)
	c.stop()
}
