package deadlines

import (
	"context"
	"flag"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		`name "a.b"`:                       {Name: "a.b"},
		"lease 999ms: it must be at least": {Lease: 999 * time.Millisecond},
		"2 replicas":                       {Replicas: 2},
		"retain 59s":                       {Retain: 59 * time.Second},
		"MaxBackoff":                       {MinBackoff: time.Hour, MaxBackoff: time.Second},
		"negative":                         {Concurrency: -1},
		"concurrency 100001 over":          {Concurrency: maxWorkers + 1},
		"backoff 8785h0m0s over":           {MinBackoff: maxDelay + time.Hour},
	} {
		_, err := Open(t.Context(), nil, cfg)
		require.ErrorContains(t, err, want)
	}
	cfg, err := Config{}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, "deadlines", cfg.Name)
	require.Equal(t, 24*time.Hour, cfg.Retain)
	require.Equal(t, 15*time.Second, cfg.Timeout)
	require.Equal(t, 64, cfg.Concurrency)
	cfg, err = Config{MinBackoff: time.Hour}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, time.Hour, cfg.MaxBackoff)
}

// What must agree between processes is kept with the store.
func TestMismatch(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	first := mustOpen(t, url, Config{Lease: 2 * time.Second})
	require.Equal(t, 1, first.Config().Replicas, "a single server keeps one")
	same := mustOpen(t, url, Config{})
	require.Equal(t, 2*time.Second, same.cfg.Lease)
	require.Equal(t, 24*time.Hour, same.cfg.Retain)
	for want, cfg := range map[string]Config{
		"its lease is 2s, not 3s":     {Lease: 3 * time.Second},
		"it has 1 replicas, not 3":    {Replicas: 3},
		"was made by another program": {Name: "other"},
	} {
		if cfg.Name != "" {
			_, err := first.link().js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: cfg.Name})
			require.NoError(t, err)
		}
		_, err := Open(t.Context(), first.link().nc, cfg)
		require.ErrorIs(t, err, ErrMismatch)
		require.ErrorContains(t, err, want)
	}

	// An operator changes the lease: in the metadata, and by a new consumer.
	config := first.link().records.CachedInfo().Config
	config.Metadata[leaseKey] = "4s"
	_, err := first.link().js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	_, err = Open(t.Context(), first.link().nc, Config{})
	require.ErrorIs(t, err, ErrMismatch)
	require.ErrorContains(t, err, "its lease is 4s, but the consumer waits for 2s")
	require.NoError(t, first.link().wakeups.DeleteConsumer(t.Context(), consumerName))
	require.Equal(t, 4*time.Second, mustOpen(t, first.link().nc.ConnectedUrl(), Config{}).cfg.Lease)
}

// On a cluster the store has three replicas. One replica is refused unless it is asked for.
func TestReplicas(t *testing.T) {
	t.Parallel()
	urls, _ := serveCluster(t, 3)
	cfg := quick()
	safe := mustOpen(t, urls, cfg)
	require.Equal(t, 3, safe.cfg.Replicas)
	for _, stream := range []jetstream.Stream{safe.link().records, safe.link().wakeups} {
		require.Equal(t, 3, stream.CachedInfo().Config.Replicas)
	}
	cfg.Name, cfg.Replicas = "one", 1
	mustOpen(t, urls, cfg)
	cfg.Replicas = 0
	_, err := Open(t.Context(), safe.link().nc, cfg)
	require.ErrorIs(t, err, ErrMismatch)
	require.ErrorContains(t, err, "the loss of one server loses deadlines")

	cfg.Name, cfg.Replicas = "five", 5
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = Open(ctx, safe.link().nc, cfg)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "5 replicas need as many servers with JetStream")
}

// serveCluster starts a cluster in this process.
func serveCluster(t *testing.T, n int) (urls string, servers []*server.Server) {
	t.Helper()
	urls, servers, _ = serveLimited(t, n, 0)
	return urls, servers
}

// serveLimited starts a cluster whose servers have a limit on their files, or none if that is 0. An operator can raise it.
func serveLimited(t *testing.T, n int, limit int64) (urls string, servers []*server.Server, raise func(limit int64)) {
	t.Helper()
	ports := make([]int, n)
	var routes []string
	for i := range n { // the servers must know all addresses before they start
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ports[i] = l.Addr().(*net.TCPAddr).Port
		routes = append(routes, "nats://"+l.Addr().String())
		l.Close()
	}
	var all []string
	var options []*server.Options
	for i := range n {
		options = append(options, &server.Options{
			StoreDir: t.TempDir(), ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", JetStreamMaxStore: limit,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		})
		srv := serveOptions(t, options[i])
		servers = append(servers, srv)
		all = append(all, srv.ClientURL())
	}
	return strings.Join(all, ","), servers, func(limit int64) {
		for i, srv := range servers {
			options[i].JetStreamMaxStore = limit
			require.NoError(t, srv.ReloadOptions(options[i].Clone()))
		}
	}
}

// Without servers Open gives up, and says why.
func TestOpenWithoutJetStream(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	require.NoError(t, err)
	srv.Start()
	defer srv.Shutdown()
	nc, err := Connect(srv.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Open(ctx, nc, Config{})
	require.ErrorContains(t, err, `deadlines: open "deadlines"`)
	require.ErrorIs(t, err, nats.ErrNoResponders)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A connection that gives up some day is reported.
func TestConnectionThatGivesUp(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	srv := serve(t)
	nc, err := nats.Connect(srv.ClientURL(), nats.MaxReconnects(1), nats.ReconnectWait(time.Millisecond))
	require.NoError(t, err)
	defer nc.Close()
	s, err := Open(t.Context(), nc, cfg)
	require.NoError(t, err)
	defer s.Close()
	require.Contains(t, l.String(), "the connection will be given up")
	srv.Shutdown()
	await(t, "it says so", func() bool {
		return strings.Contains(l.String(), `deadlines: the connection is closed" store=deadlines err="nats: no servers available`)
	})
}

// The tests wait most of the time, so twice as many run at once as there are processors, unless -parallel says how many.
//
// The server leaves two goroutines: one that keeps the time for the whole process, and sometimes one of a store that
// it was opening when it was stopped.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(server+"/ats.Register.func1"),
		goleak.IgnoreAnyFunction(server+".(*fileStore).flushStreamStateLoop"))
}
