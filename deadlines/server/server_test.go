package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// childDir names an environment variable. The test binary runs a server in the folder that it holds.
const childDir = "SERVER_TEST_CHILD_DIR"

func runChild(dir string) {
	s, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.URL())
	select {}
}

func TestLockInProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	first := start(t, Config{Dir: dir})

	_, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0"})
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, dir)

	first.Stop()
	first.Stop()
	start(t, Config{Dir: dir})
}

func TestKilledProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	js := connect(t, strings.TrimSpace(url))
	createStream(t, js, jetstream.StreamConfig{Name: "a"})
	seq := mustPublish(t, js, "a")
	_, err = Start(Config{Dir: dir, Listen: "127.0.0.1:0"})
	require.ErrorIs(t, err, ErrLocked)

	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	js = connect(t, start(t, Config{Dir: dir}).URL())
	stream, err := js.Stream(context.Background(), "a")
	require.NoError(t, err)
	_, err = stream.GetMsg(context.Background(), seq)
	require.NoError(t, err, "the message of the killed server")
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	store := filepath.Join(dir, "store")
	require.NoError(t, os.Mkdir(store, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(store, "jetstream"), nil, 0o600))
	free := filepath.Join(dir, "free")

	cases := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no folder", Config{}, "Dir is empty"},
		{"folder is a file", Config{Dir: file}, "not a directory"},
		{"store is a file", Config{Dir: store}, "Can't start JetStream"},
		{"bad address", Config{Dir: free, Listen: "127.0.0.1"}, "missing port"},
		{"port taken", Config{Dir: free, Listen: taken.Addr().String()}, "Error listening on port"},
		{"no routes", Config{Dir: free, Name: "n1", Cluster: "c", ClusterListen: "127.0.0.1:0"}, "needs Name"},
		{"bad route", Config{
			Dir: free, Name: "n1", Cluster: "c", ClusterListen: "127.0.0.1:0", Routes: []string{"%"},
		}, "Config.Routes"},
		{"cluster port taken", Config{
			Dir: free, Name: "n1", Cluster: "c", ClusterListen: taken.Addr().String(),
			Routes: []string{"nats://127.0.0.1:1"},
		}, "Error listening on router port"},
	}
	for _, c := range cases {
		if c.cfg.Listen == "" {
			c.cfg.Listen = "127.0.0.1:0"
		}
		c.cfg.Logger = newLogs(t).logger()
		begin := time.Now()
		_, err := Start(c.cfg)
		assert.ErrorContains(t, err, c.want, c.name)
		assert.Less(t, time.Since(begin), startLimit, "%s: Start waits although it knows the reason", c.name)
	}
	start(t, Config{Dir: free}) // no failure keeps the lock
}

func TestURL(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:5": "nats://127.0.0.1:5",
		":5":          "nats://127.0.0.1:5",
		"[::]:5":      "nats://[::1]:5",
		"":            nats.DefaultURL,
	} {
		o, err := options(Config{Dir: "x", Listen: listen})
		require.NoError(t, err)
		assert.Equal(t, want, (&Server{options: o}).URL(), listen)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	address := strings.TrimPrefix(start(t, Config{Dir: t.TempDir(), Logger: l.logger()}).URL(), "nats://")
	assert.Contains(t, l.String(), `level=DEBUG msg="Server is ready"`)

	other := newLogs(t)
	_, err := Start(Config{Dir: t.TempDir(), Listen: address, Logger: other.logger()})
	require.Error(t, err)
	assert.Contains(t, other.String(), `level=ERROR msg="Error listening on port`)
}

// The limit is not the end of the disk. The server answers, and goes on when messages are deleted.
func TestMaxBytes(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Dir: t.TempDir(), MaxBytes: 64 << 10})
	js := connect(t, s.URL())
	createStream(t, js, jetstream.StreamConfig{Name: "a"})
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	var err error
	for err == nil {
		_, err = publish(ctx, js, "a")
	}
	var full *jetstream.APIError
	require.ErrorAs(t, err, &full)
	require.Equal(t, jetstream.ErrorCode(10023), full.ErrorCode)

	stream, err := js.Stream(ctx, "a")
	require.NoError(t, err)
	require.NoError(t, stream.Purge(ctx))
	mustPublish(t, js, "a")
}

// The NATS server shuts JetStream down when its disk is full, among other reasons.
func TestJetStreamShutDown(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	s := start(t, Config{Dir: t.TempDir(), Logger: l.logger()})
	js := connect(t, s.URL())
	createStream(t, js, jetstream.StreamConfig{Name: "a"})
	seq := mustPublish(t, js, "a")

	require.NoError(t, s.running.ShutdownJetStream())
	eventually(t, func(ctx context.Context) error {
		if !strings.Contains(l.String(), `level=INFO msg="JetStream is on again`) {
			return errors.New("JetStream is off")
		}
		_, err := publish(ctx, js, "a")
		return err
	})
	assert.Contains(t, l.String(), `level=ERROR msg="JetStream is off, because the server disabled it"`)
	requireStored(t, js, map[uint64]bool{seq: true})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cfgs := clusterConfigs(t, []string{t.TempDir(), t.TempDir(), t.TempDir()})
	cfgs[0].Listen = freeAddresses(t, 1)[0]
	var servers []*Server
	for _, cfg := range cfgs {
		servers = append(servers, start(t, cfg))
	}
	js := connect(t, servers[1].URL())
	createStream(t, js, jetstream.StreamConfig{Name: "a", Replicas: 3})

	servers[0].Stop()
	eventually(t, func(ctx context.Context) error {
		_, err := publish(ctx, js, "a")
		return err
	})
	again := start(t, cfgs[0])
	require.Equal(t, "nats://"+cfgs[0].Listen, again.URL())
	eventually(t, func(ctx context.Context) error { return allCurrent(ctx, js, "a") })
}

// allCurrent returns nil if all three members have all messages of a stream.
func allCurrent(ctx context.Context, js jetstream.JetStream, stream string) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	c := s.CachedInfo().Cluster
	current := 1 // the leader
	for _, r := range c.Replicas {
		if r.Current && !r.Offline && r.Lag == 0 {
			current++
		}
	}
	if c.Leader == "" || current < 3 {
		return fmt.Errorf("only %d members are current, leader %q", current, c.Leader)
	}
	return nil
}
