package deadlines

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// Requests that fail for a while are logged once, and then every half minute, and again when they succeed.
func TestHealth(t *testing.T) {
	var l log
	h := health{log: l.logger()}
	now := time.Now()
	at := func(after time.Duration, err error) string {
		before := len(l.String())
		h.reportAt(err, now.Add(after))
		return l.String()[before:]
	}
	bad := errors.New("no room")
	require.Empty(t, at(0, nil))
	require.Empty(t, at(time.Second, bad))
	require.Empty(t, at(5*time.Second, bad))
	require.Empty(t, at(5500*time.Millisecond, nil), "it was too short")
	require.Empty(t, at(6*time.Second, bad))
	require.Empty(t, at(10*time.Second, bad))
	text := at(11*time.Second, bad)
	require.Contains(t, text, "deadlines: cannot end deadlines for 5s")
	require.Contains(t, text, `because="no room"`)
	require.Empty(t, at(12*time.Second, bad))
	require.Empty(t, at(40*time.Second, bad))
	require.Contains(t, at(41*time.Second, bad), "cannot end deadlines for 35s")
	require.Contains(t, at(50*time.Second, nil), "deadlines are ended again")
	require.Contains(t, l.String(), "after=44s")
	require.Empty(t, at(51*time.Second, nil))
}

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
