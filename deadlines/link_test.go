package deadlines

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
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
