package deadlines

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
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

// A user without the permission to ask gets the other reasons nevertheless. The denial is logged once. When the permission
// is given, also without another connection, the servers are asked again after a while.
func TestPingDenied(t *testing.T) {
	t.Parallel()
	user := func(deny ...string) []*server.User {
		return []*server.User{{Username: "a", Password: "a", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: deny},
		}}}
	}
	o := &server.Options{StoreDir: t.TempDir(), Users: user("$SYS.>")}
	srv := serveOptions(t, o)
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, "nats://a:a@"+strings.TrimPrefix(srv.ClientURL(), "nats://"), cfg)
	s.cancel() // so that only the test asks
	s.watchers.Wait()
	s.ctx = t.Context()
	nc := s.link().nc
	s.count(t.Context())
	await(t, "it is denied", func() bool { return s.denials.ping.Load() != nil })
	require.ErrorContains(t, s.explain(context.DeadlineExceeded), "no answer")
	began := time.Now()
	s.count(t.Context())
	require.Less(t, time.Since(began), pingLimit, "it does not ask again")

	later := func() *denial { // the denial was a minute ago
		d := &denial{nc, nil, time.Now().Add(-deniedFor)}
		s.denials.ping.Store(d)
		return d
	}
	d := later()
	s.count(t.Context())
	await(t, "it is denied again", func() bool { return s.denials.ping.Load() != d })
	s.flood.flush()
	require.Equal(t, 1, strings.Count(l.String(), "error of the connection"), l.String())

	now := *o
	now.Users = user("other")
	require.NoError(t, srv.ReloadOptions(&now))
	s.peers.Store(&peers{names: []string{nc.ConnectedServerName()}})
	await(t, "the server has answered", func() bool {
		later()
		s.count(t.Context())
		return s.serversUp() != nil && s.denials.ping.Load() == nil
	})
	require.Same(t, nc, s.link().nc)
}

// A server is replaced by another one, which has not shown yet that it is up. Then that one counts. An answer without a
// leader does not name all servers.
func TestPeerReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{}
		info := func(leader string, active time.Duration, names ...string) *jetstream.StreamInfo {
			c := &jetstream.ClusterInfo{Leader: leader}
			for _, name := range names {
				c.Replicas = append(c.Replicas, &jetstream.PeerInfo{Name: name, Active: active})
			}
			return &jetstream.StreamInfo{Cluster: c}
		}
		s.see(info("a", time.Second, "b", "c"))
		began := time.Now()
		require.Equal(t, 3, s.serversUp().up)
		s.see(info("", 0, "a", "b"))
		require.ElementsMatch(t, []string{"a", "b", "c"}, s.peers.Load().names)
		time.Sleep(time.Second)
		s.see(info("b", 0, "c", "a"))
		require.Equal(t, 3, s.serversUp().up, "they are the same")
		s.see(info("a", 0, "b", "d"))
		require.Nil(t, s.serversUp(), "it is not known")
		s.note(s.peers.Load().names, []string{"a", "b", "d"})
		require.Equal(t, 3, s.serversUp().up)
		require.Equal(t, []string{"a", "b", "d"}, s.serversUp().names)

		time.Sleep(time.Second)
		s.see(info("a", time.Second, "b", "e"))
		require.Equal(t, time.Now(), s.serversUp().whole, "not since the time of another server")
		time.Sleep(time.Second)
		s.see(info("b", time.Second, "a", "e"))
		require.Equal(t, began.Add(2*time.Second), s.serversUp().whole)
	})
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
