package deadlines

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// The errors of Open and Set, and the log, say why a request fails.
func TestReasons(t *testing.T) {
	// open opens a store with a log.
	open := func(t *testing.T, url string, l *log) (*Store, error) {
		t.Helper()
		nc, err := Connect(url)
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		cfg := quick()
		cfg.Logger, cfg.Timeout = l.logger(), time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := Open(ctx, nc, cfg)
		if err == nil {
			t.Cleanup(s.Close)
		}
		return s, err
	}
	requireReason := func(t *testing.T, err error, want ...string) {
		t.Helper()
		for _, w := range want {
			require.ErrorContains(t, err, w)
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, strings.Count(err.Error(), "context deadline exceeded"), "%v", err)
	}
	logs := func(t *testing.T, l *log, want ...string) {
		t.Helper()
		for _, w := range want {
			await(t, "logged: "+w, func() bool { return strings.Contains(l.String(), w) })
		}
		require.NotContains(t, l.String(), "<nil>")
		require.NotContains(t, l.String(), "context deadline exceeded")
	}

	t.Run("no permission", func(t *testing.T) {
		t.Parallel()
		denied := map[string]string{
			"open":  "$JS.API.STREAM.INFO.>",
			"inbox": "_INBOX.>",
			"set":   "$KV.deadlines.>",
			"wake":  "deadlines.due.*",
		}
		o := &server.Options{StoreDir: t.TempDir(), Users: []*server.User{{Username: "all", Password: "a"}}}
		for name, subject := range denied {
			no := &server.SubjectPermission{Deny: []string{subject}}
			o.Users = append(o.Users, &server.User{
				Username: name, Password: "a", Permissions: &server.Permissions{Publish: no, Subscribe: no},
			})
		}
		address := strings.TrimPrefix(serveOptions(t, o).ClientURL(), "nats://")
		var l log
		_, err := open(t, "nats://all:a@"+address, &l)
		require.NoError(t, err)
		for name, subject := range denied {
			var l log
			s, err := open(t, fmt.Sprintf("nats://%s:a@%s", name, address), &l)
			if name == "set" || name == "wake" {
				require.NoError(t, err)
				err = s.Set(t.Context(), "key", time.Now(), nil)
			}
			requireReason(t, err, "no permission", strings.TrimRight(subject, ">*"))
			logs(t, &l, "error of the connection", strings.TrimRight(subject, ">*"))
		}
	})

	t.Run("no leader", func(t *testing.T) {
		t.Parallel()
		urls, servers := serveCluster(t, 3)
		var l, other log
		s := mustOpen(t, urls, quick()) // which waits for a leader
		s.Close()
		s, err := open(t, urls, &l)
		require.NoError(t, err)
		s.mustWork(t, nil)
		s.mustSet(t, "key", time.Second)
		for _, srv := range servers[1:] {
			srv.Shutdown()
		}
		await(t, "the server knows that it has no leader", func() bool {
			err := s.Set(t.Context(), "key", time.Now(), nil)
			if err == nil { // the others are still going down
				return false
			}
			requireReason(t, err, "no ")
			return strings.Contains(err.Error(), "no leader: too few servers are up")
		})
		logs(t, &l, "requests have failed for", `because="no leader: too few servers are up`)
		await(t, "Open says so", func() bool {
			_, err := open(t, servers[0].ClientURL(), &other)
			if err == nil { // the server still believes in the leader
				return false
			}
			requireReason(t, err, "no ")
			return strings.Contains(err.Error(), "no leader")
		})
	})

	t.Run("no connection", func(t *testing.T) {
		t.Parallel()
		srv := serve(t)
		var l log
		s, err := open(t, srv.ClientURL(), &l)
		require.NoError(t, err)
		s.mustWork(t, nil)
		s.mustSet(t, "key", time.Second)
		srv.Shutdown()
		requireReason(t, s.Set(t.Context(), "key", time.Now(), nil), "no connection to "+srv.ClientURL())
		logs(t, &l, "deadlines: disconnected", "requests have failed for", `because="no connection to `+srv.ClientURL())
	})

	t.Run("no JetStream", func(t *testing.T) {
		t.Parallel()
		srv, err := server.NewServer(&server.Options{Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
		require.NoError(t, err)
		srv.Start()
		defer srv.Shutdown()
		var l log
		_, err = open(t, srv.ClientURL(), &l)
		requireReason(t, err, "no JetStream")
	})

	t.Run("no room", func(t *testing.T) {
		t.Parallel()
		srv := serve(t)
		var l log
		s, err := open(t, srv.ClientURL(), &l)
		require.NoError(t, err)
		s.mustSet(t, "key", time.Second)
		info, err := s.link().records.Info(t.Context())
		require.NoError(t, err)
		info.Config.MaxBytes = int64(info.State.Bytes)
		_, err = s.link().js.UpdateStream(t.Context(), info.Config)
		require.NoError(t, err)
		s.mustWork(t, nil)
		err = s.Set(t.Context(), "key", time.Now().Add(time.Minute), []byte("more"))
		require.EqualError(t, err, `deadlines: set "key": no room: maximum bytes exceeded (10077)`)
		require.ErrorIs(t, err, ErrNoRoom)
		require.ErrorAs(t, err, new(*jetstream.APIError))
		logs(t, &l, `because="no room: maximum bytes exceeded (10077)"`)
	})

	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		s := &Store{}
		s.linked.Store(&link{nc: mustOpen(t, serve(t).ClientURL(), quick()).link().nc})
		err := s.explain(context.DeadlineExceeded)
		require.EqualError(t, err, "no answer: the servers elect a leader, or are too slow, or a disk is full")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, err, s.explain(err), "it is explained once")
	})
}
