package deadlines

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// The tests of this package run in real time, because the servers do. They wait for a condition, and the only
// bounds on time are the promises: never early, and the limits of calls.

// patience is how long a test waits for a condition. A busy machine may need much of it.
const patience = 60 * time.Second

// await waits for a condition.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "it did not happen: %s", what)
	}
}

// serve starts a server in this process.
func serve(t testing.TB) *server.Server {
	t.Helper()
	return serveOptions(t, &server.Options{StoreDir: t.TempDir()})
}

func serveOptions(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.JetStream, o.NoLog, o.NoSigs = true, true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	srv, err := server.NewServer(o.Clone())
	require.NoError(t, err)
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	require.True(t, srv.ReadyForConnections(patience))
	return srv
}

// quick is a Config for tests that wait for leases.
func quick() Config {
	return Config{Lease: time.Second, Retain: -1, MinBackoff: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
}

// mustOpen opens a store on a connection of its own.
func mustOpen(t testing.TB, url string, cfg Config) *Store {
	t.Helper()
	nc, err := Connect(url)
	require.NoError(t, err)
	s, err := Open(t.Context(), nc, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Close()
		nc.Close()
	})
	return s
}

func (s *Store) mustSet(t testing.TB, key string, in time.Duration) time.Time {
	t.Helper()
	at := time.Now().Add(in).Round(0)
	require.NoError(t, s.Set(t.Context(), key, at, []byte("payload of "+key)))
	return at
}

func (s *Store) mustGet(t testing.TB, key string) Deadline {
	t.Helper()
	d, err := s.Get(t.Context(), key)
	require.NoError(t, err)
	return d
}

func (s *Store) awaitStatus(t testing.TB, key string, status Status) {
	t.Helper()
	await(t, fmt.Sprintf("%s becomes %s", key, status), func() bool {
		d, err := s.Get(t.Context(), key)
		return err == nil && d.Status == status
	})
}

// A call is a call of a handler.
type call struct {
	Deadline
	began time.Time
}

// A testWorker is a worker, with the calls of its handler.
type testWorker struct {
	stop func() // waits until Work has returned

	mu    sync.Mutex
	calls []call
}

// mustWork starts a worker. outcome is what its handler does, or nil.
func (s *Store) mustWork(t testing.TB, outcome func(ctx context.Context, d Deadline) error) *testWorker {
	t.Helper()
	w := &testWorker{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Work(ctx, func(ctx context.Context, d Deadline) error {
			w.mu.Lock()
			w.calls = append(w.calls, call{d, time.Now()})
			w.mu.Unlock()
			if outcome == nil {
				return nil
			}
			return outcome(ctx, d)
		})
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(w.stop)
	return w
}

// of returns the calls for a key.
func (w *testWorker) of(key string) (calls []call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.calls {
		if call.Key == key {
			calls = append(calls, call)
		}
	}
	return calls
}

// mustCheck checks that a store has no faults.
func (s *Store) mustCheck(t testing.TB) *Report {
	t.Helper()
	r, err := Check(t.Context(), s.link().nc, s.cfg.Name)
	require.NoError(t, err)
	require.Zero(t, r.Faults, "%q", r.FirstFaults)
	return r
}

// A log is the text of a logger.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
