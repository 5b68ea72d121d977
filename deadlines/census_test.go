package deadlines

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// The servers are asked which of them are up, also when they have no leader.
func TestServersUp(t *testing.T) {
	t.Parallel()
	urls, servers := serveCluster(t, 3)
	s := mustOpen(t, urls, quick())
	up := func() int {
		s.count(t.Context())
		p := s.serversUp()
		require.NotNil(t, p)
		require.Len(t, p.names, 3)
		require.Equal(t, p.up < 3, p.whole.IsZero())
		return p.up
	}
	s.cancel() // so that only the test asks
	s.watchers.Wait()
	await(t, "all are up", func() bool { return up() == 3 })
	whole := s.serversUp().whole
	require.Equal(t, 3, up())
	require.Equal(t, whole, s.serversUp().whole)
	for i, n := range []int{2, 1} {
		servers[i].Shutdown()
		await(t, "the client has another server", s.link().nc.IsConnected)
		await(t, "one less is up", func() bool { return s.link().nc.IsConnected() && up() == n })
	}
}

// A user without the permission to ask gets the other reasons nevertheless.
func TestPingDenied(t *testing.T) {
	t.Parallel()
	no := &server.SubjectPermission{Deny: []string{"$SYS.>"}}
	address := serveOptions(t, &server.Options{StoreDir: t.TempDir(), Users: []*server.User{
		{Username: "a", Password: "a", Permissions: &server.Permissions{Publish: no}},
	}}).ClientURL()
	s := mustOpen(t, "nats://a:a@"+strings.TrimPrefix(address, "nats://"), quick())
	s.count(t.Context())
	await(t, "it is denied", func() bool { return s.denials.ping.Load() == s.link().nc })
	require.ErrorContains(t, s.explain(context.DeadlineExceeded), "no answer")
	began := time.Now()
	s.count(t.Context())
	require.Less(t, time.Since(began), pingLimit, "it does not ask again")
}

// An outage is one of servers that are up only if that was found long enough after it began, and longer if one was away.
func TestAllUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		ago := func(seconds int) time.Time { return time.Now().Add(-time.Duration(seconds) * time.Second) }
		for _, c := range []struct {
			began, whole, at int // seconds ago
			want             bool
		}{
			{began: 11, whole: 100, at: 0, want: true},
			{began: 11, whole: 100, at: 8, want: false}, // it was found when the outage had just begun
			{began: 9, whole: 100, at: 0, want: false},  // it may be an election
			{began: 100, whole: 31, at: 0, want: true},
			{began: 100, whole: 29, at: 0, want: false}, // one was away, and may not be ready
		} {
			p := &peers{at: ago(c.at), whole: ago(c.whole)}
			require.Equal(t, c.want, p.allUp(ago(c.began)), "%+v", c)
		}
		require.False(t, (&peers{at: ago(0)}).allUp(ago(100)), "one is away")
	})
}
