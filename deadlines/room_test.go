package deadlines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Three servers have reached their limit. They then have no leader. The calls, the log and the figures say that there
// is no room. When an operator raises the limit, all goes on.
func TestFullCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long beside other tests; it runs every night")
	}
	t.Parallel()
	const limit = 4 << 20
	urls, _, raise := serveLimited(t, 3, limit)
	var l log
	cfg := quick()
	cfg.Logger, cfg.Lease, cfg.Timeout = l.logger(), 2*time.Second, 4*time.Second
	s := mustOpen(t, urls, cfg)
	s.mustWork(t, nil)
	const far = 50
	came := time.Now().Add(12 * time.Second)
	for i := range far {
		s.mustSet(t, fmt.Sprint("far/", i), time.Until(came))
	}
	payload := make([]byte, 64<<10)
	stored := 0
	await(t, "the store is full", func() bool {
		err := s.Set(t.Context(), fmt.Sprint("large/", stored), time.Now().Add(time.Hour), payload)
		for ; err == nil; err = s.Set(t.Context(), fmt.Sprint("large/", stored), time.Now().Add(time.Hour), payload) {
			stored++
		}
		return errors.Is(err, ErrNoRoom)
	})
	await(t, "it is logged", func() bool { return strings.Contains(l.String(), `because="no room: `) })
	await(t, "all have come", func() bool { return s.Stats().Overdue == far })
	require.True(t, s.Stats().Full)
	time.Sleep(fullFor + time.Second) // since a server has refused something
	require.True(t, s.Stats().Full)
	await(t, "calls do not wait", func() bool {
		_, err := s.Cancel(t.Context(), "far/0")
		require.Error(t, err)
		return errors.Is(err, ErrNoRoom) && !errors.Is(err, context.DeadlineExceeded)
	})

	raise(64 << 20)
	raised := time.Now()
	for i := range far {
		s.awaitStatus(t, fmt.Sprint("far/", i), Handled)
	}
	t.Logf("all were handled %v after the limit was raised", time.Since(raised).Round(time.Millisecond))
	await(t, "the figures say so", func() bool { st := s.Stats(); return st.Overdue == 0 && !st.Full })
	require.GreaterOrEqual(t, s.mustCheck(t).Pending, stored)
}

// No server leads for longer than an election takes, although all are up. Then they have no room, also if none has said
// so.
func TestNoLeaderForLong(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long beside other tests; it runs every night")
	}
	t.Parallel()
	s := &Store{} // without the goroutine that reads the clock, whose requests succeed
	s.linked.Store(&link{nc: mustOpen(t, serve(t).ClientURL(), quick()).link().nc})
	failed := func(up int) error {
		s.peers.Store(&peers{up: up, all: 3, at: time.Now()})
		return s.explain(jetstream.ErrNoStreamResponse)
	}
	ago := func(d time.Duration) {
		at := time.Now().Add(-d)
		s.room.headless.Store(&at)
	}
	require.ErrorContains(t, failed(3), "no leader: the 3 servers seem to be up, so they elect one, or have no room")
	ago(fullFor)
	require.ErrorContains(t, failed(1), "no leader: too few servers are up")
	require.False(t, s.full())
	err := failed(3)
	require.ErrorIs(t, err, ErrNoRoom)
	require.ErrorContains(t, err, "no room: there is no leader although 3 servers are up")
	require.True(t, s.full())
	require.True(t, s.hopeless(err))
	require.ErrorContains(t, failed(1), "no leader: too few servers are up", "a full store may also lose servers")
}
