package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The tests use real time, because real servers elect leaders and watch their disks in real time. Most
// of the time they wait. waitLimit bounds each wait, and a test that works ends long before.
const waitLimit = time.Minute

func TestMain(m *testing.M) {
	if cfg := os.Getenv(childDir); cfg != "" {
		runChild(cfg)
	}
	goleak.VerifyTestMain(m)
}

// A logs is a log for a server. It prints the log if the test fails.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func newLogs(t *testing.T) *logs {
	l := &logs{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l.String())
		}
	})
	return l
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.Logger == nil {
		cfg.Logger = newLogs(t).logger()
	}
	s, err := Start(cfg)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// clusterConfigs returns configurations for a cluster of three on loopback.
func clusterConfigs(t *testing.T, dirs []string) (cfgs []Config) {
	t.Helper()
	addresses := freeAddresses(t, 3)
	var routes []string
	for _, a := range addresses {
		routes = append(routes, "nats://"+a)
	}
	l := newLogs(t).logger()
	for i, a := range addresses {
		name := fmt.Sprintf("n%d", i+1)
		cfgs = append(cfgs, Config{
			Dir: dirs[i], Name: name, Cluster: "test", ClusterListen: a, Routes: routes,
			Logger: l.With("server", name),
		})
	}
	return cfgs
}

var nextPort atomic.Int32

func init() { nextPort.Store(20000 + rand.Int32N(10000)) }

// freeAddresses returns addresses on loopback that nobody listens on. The servers of a cluster must know
// the addresses of all of them before they start. The ports are below those that systems choose for the
// port 0, so nobody else takes them before the servers listen.
func freeAddresses(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for len(addresses) < n {
		address := fmt.Sprintf("127.0.0.1:%d", nextPort.Add(1))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			addresses = append(addresses, address)
		}
	}
	return addresses
}

func connect(t *testing.T, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	opts = append(opts, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	nc, err := nats.Connect(url, opts...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

// createStream creates a stream. A cluster refuses it until it has a leader and enough members.
func createStream(t *testing.T, js jetstream.JetStream, cfg jetstream.StreamConfig) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		_, err := js.CreateOrUpdateStream(ctx, cfg)
		return err
	})
}

// eventually calls f until it returns nil.
func eventually(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	var err error
	for end := time.Now().Add(waitLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err = f(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	require.NoError(t, err, "after %v", waitLimit)
}

// publish publishes a message of a kilobyte. An error says nothing about whether the message is stored.
func publish(ctx context.Context, js jetstream.JetStream, subject string) (seq uint64, err error) {
	ack, err := js.Publish(ctx, subject, make([]byte, 1024), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func mustPublish(t *testing.T, js jetstream.JetStream, subject string) (seq uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	seq, err := publish(ctx, js, subject)
	require.NoError(t, err)
	return seq
}

func requireStored(t *testing.T, js jetstream.JetStream, acked map[uint64]bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	stream, err := js.Stream(ctx, "a")
	require.NoError(t, err)
	for seq := range acked {
		_, err := stream.GetMsg(ctx, seq)
		require.NoError(t, err, "acknowledged message %d", seq)
	}
}
