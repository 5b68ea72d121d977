//go:build unix

package deadlines_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// A cluster is three servers, each a process with a proxy for its clients.
type cluster struct {
	t       *testing.T
	dir     string
	specs   [3]*serverSpec
	servers [3]*process
	proxies [3]*proxy
	admin   jetstream.JetStream // not through the proxies
}

func startCluster(t *testing.T, dir string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir}
	ports := freePorts(t, 9)
	var routes, direct []string
	for i := range c.specs {
		routes = append(routes, fmt.Sprint("nats://127.0.0.1:", ports[3*i+1]))
	}
	for i := range c.specs {
		name := fmt.Sprint("server", i)
		c.specs[i] = &serverSpec{
			Name: name, Port: ports[3*i], Route: ports[3*i+1], Health: ports[3*i+2],
			Routes: routes, Dir: filepath.Join(dir, name),
		}
		address := fmt.Sprint("127.0.0.1:", ports[3*i])
		c.proxies[i] = startProxy(t, address, nil)
		direct = append(direct, "nats://"+address)
		c.start(i)
	}
	var nc *nats.Conn
	eventually(t, "a server answers", func() (err error) {
		nc, err = deadlines.Connect(strings.Join(direct, ","), nats.Timeout(time.Second))
		return err
	})
	t.Cleanup(nc.Close)
	var err error
	c.admin, err = jetstream.New(nc)
	require.NoError(t, err)
	return c
}

func (c *cluster) start(i int) {
	c.t.Helper()
	c.servers[i] = startProcess(c.t, filepath.Join(c.dir, c.specs[i].Name+".log"), childSpec{Server: c.specs[i]})
}

// urls returns the addresses of the proxies, beginning with one of them.
func (c *cluster) urls(first int) string {
	var urls []string
	for i := range c.proxies {
		urls = append(urls, c.proxies[(first+i)%3].url())
	}
	return strings.Join(urls, ",")
}

// leader returns which server leads the stream of the bucket, or -1.
func (c *cluster) leader() int {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	stream, err := c.admin.Stream(ctx, "KV_deadlines")
	if err == nil && stream.CachedInfo().Cluster != nil {
		for i, s := range c.specs {
			if s.Name == stream.CachedInfo().Cluster.Leader {
				return i
			}
		}
	}
	return -1
}

// check returns an error unless n servers are up to date with both streams and the consumer.
func (c *cluster) check(n int) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	healthy := 0
	for _, s := range c.specs {
		client := http.Client{Timeout: time.Second}
		if answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.Health)); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				healthy++
			}
		}
	}
	if healthy < n {
		return fmt.Errorf("%d servers are healthy", healthy)
	}
	for _, name := range []string{"KV_deadlines", "deadlines-wakeups"} {
		stream, err := c.admin.Stream(ctx, name)
		if err != nil {
			return err
		}
		if err := current(name, stream.CachedInfo().Cluster, n); err != nil {
			return err
		}
	}
	consumer, err := c.admin.Consumer(ctx, "deadlines-wakeups", "workers")
	if err != nil {
		return err
	}
	return current("consumer", consumer.CachedInfo().Cluster, n)
}

func current(name string, info *jetstream.ClusterInfo, n int) error {
	if info == nil || info.Leader == "" {
		return fmt.Errorf("%s has no leader", name)
	}
	up := 1
	for _, r := range info.Replicas {
		if r.Current && !r.Offline {
			up++
		}
	}
	if up < n {
		return fmt.Errorf("%s has %d servers that are up to date", name, up)
	}
	return nil
}

// awaitHealthy waits until n servers are up to date.
func (c *cluster) awaitHealthy(n int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprint(n, " servers are up to date"), func() error { return c.check(n) })
}

// wipe stops a server in good order, deletes its data, and starts it. Before that, the others are up to date, because
// a server without its data may elect one that is not.
func (c *cluster) wipe(i int) {
	c.t.Helper()
	c.awaitHealthy(3)
	require.NoError(c.t, c.servers[i].finish())
	c.awaitHealthy(2)
	require.NoError(c.t, os.RemoveAll(c.specs[i].Dir))
	c.start(i)
	c.awaitHealthy(3)
}
