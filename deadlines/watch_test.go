package deadlines

import (
	"net"
	"strings"
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
	await(t, "it says so", says("deadlines: cannot end deadlines for "))
	serveOptions(t, o)
	await(t, "it says so", says("deadlines: connected again"))
	await(t, "it says so", says("deadlines: deadlines are ended again"))
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
	require.Len(t, figures, 13)
}
