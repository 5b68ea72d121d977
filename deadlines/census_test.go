package deadlines

import (
	"context"
	"strings"
	"testing"
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

// All servers are up only if that was found long enough after the outage began, and longer if one was away.
func TestAllUp(t *testing.T) {
	began := time.Now()
	after := func(d time.Duration) time.Time { return began.Add(d) }
	for p, want := range map[*peers]bool{
		{up: 1, at: after(time.Hour)}:                                              false,
		{up: 3, at: began, whole: after(-time.Hour)}:                               false, // an old answer says nothing
		{up: 3, at: after(electionLimit), whole: after(-time.Hour)}:                true,
		{up: 3, at: after(electionLimit + time.Second), whole: after(time.Second)}: false,
		{up: 3, at: after(rejoinLimit + time.Second), whole: after(time.Second)}:   true,
		{up: 3, at: after(rejoinLimit + time.Second/2), whole: after(time.Second)}: false,
	} {
		require.Equal(t, want, p.allUp(began), "%+v", p)
	}
}
