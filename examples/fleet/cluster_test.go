package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCluster runs a shop and workers on three servers. Again and again it kills the worker that holds
// the most deadlines, stops the server that leads the stream, and restarts all servers. No order may be
// lost, end early or end twice. The load lasts 10 seconds, or as long as HASHEDWHEEL_SOAK says, such as 10m.
func TestCluster(t *testing.T) {
	t.Parallel()
	length := 10 * time.Second
	if soak := os.Getenv("HASHEDWHEEL_SOAK"); soak != "" {
		var err error
		length, err = time.ParseDuration(soak)
		require.NoError(t, err)
		require.GreaterOrEqual(t, length, 10*time.Second)
	}
	s := mustServe(t, 3)
	o := mustParse(t, "-nats="+s.urls(), "-replicas=3", "-workers=3", "-kills=0", "-least=100ms", "-most=5s",
		"-window=2s", "-lease=1s", "-for="+length.String())
	o.rate, o.orders = 150, int(length.Seconds()*100) // in two thirds of the time
	f, err := newFleet(t.Context(), o, s.urls(), io.Discard)
	require.NoError(t, err)
	defer f.client.close()
	defer f.stop()

	// Another process that joins, without -replicas, does not change the number of replicas.
	require.NoError(t, setUp(t.Context(), f.client.js, o.lease, mustParse(t, "-nats="+s.urls()).replicas))
	for _, name := range []string{streamName, "KV_" + bucketName} {
		stream, err := f.client.js.Stream(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, 3, stream.CachedInfo().Config.Replicas, name)
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := f.run(t.Context())
		assert.NoError(t, err)
	}()
	// progress returns when a worker has canceled another order.
	progress := func(after string) {
		was, start := f.tally.canceled.Load(), time.Now()
		await(t, "nothing is canceled after "+after, func() bool { return f.tally.canceled.Load() > was || isClosed(ended) })
		t.Logf("%v after %s, an order is canceled", time.Since(start).Round(time.Millisecond), after)
	}
	progress("the start")
	for round := 0; round == 0 || !isClosed(ended) && time.Since(f.start) < length*3/4; round++ {
		await(t, "a worker holds deadlines", func() bool { return f.holding() > 0 || isClosed(ended) })
		held := f.kill()
		require.NoError(t, f.hire(t.Context()))
		progress("the end of a worker that held " + plural(held, "deadline"))

		leader := -1
		await(t, "the stream has a leader", func() bool { leader = s.leader(streamName); return leader >= 0 })
		s.stop(leader)
		await(t, "the stream has another leader", func() bool { return s.leader(streamName) >= 0 })
		progress("the end of the stream's leader")
		require.NoError(t, s.start(leader))

		s.stopAll()
		for i := range s.running {
			require.NoError(t, s.start(i))
		}
		await(t, "the stream is back", func() bool { return s.leader(streamName) >= 0 })
		progress("a restart of all servers")
	}
	<-ended

	// Each order is in the books, as acknowledged, or as void because the servers were away until its deadline. A
	// server that was stopped may not know all orders yet.
	b := f.awaitQuiet(t, o.orders)
	require.NoError(t, b.verify(f.shop.acks, time.Now()))
	require.Empty(t, f.shop.problems)
	require.EqualValues(t, o.orders, f.shop.placed.Load()+f.shop.late.Load())
	require.Positive(t, b.count(paid))
	require.Positive(t, b.count(canceled))
	f.print(testWriter{t}, b)
}

// The address for clients is not the address of the routes between the servers, which are on loopback.
func TestClusterAddress(t *testing.T) {
	host, port, err := splitAddress(":4222")
	require.NoError(t, err)
	require.Equal(t, "0.0.0.0", host)
	require.Equal(t, 4222, port)

	s, err := startServers(3, t.TempDir(), ":0", false)
	require.NoError(t, err)
	defer s.stopAll()
	for i, o := range s.options {
		require.Equal(t, "0.0.0.0", o.Host)
		require.Equal(t, "127.0.0.1", o.Cluster.Host)
		require.Equal(t, o.Routes[i].Host, fmt.Sprint("127.0.0.1:", o.Cluster.Port))
	}
	await(t, "the servers have found each other", func() bool {
		return slices.ContainsFunc(s.running, (*server.Server).JetStreamIsLeader)
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
