package deadlines_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A bench is a server in this process, and what the tests of single faults do with it.
type bench struct {
	t       *testing.T
	options server.Options
	srv     *server.Server
	log     lines
}

// newBench starts a server whose store has a limit, or none if that is 0.
func newBench(t *testing.T, limit int64) *bench {
	t.Helper()
	b := &bench{t: t, options: server.Options{
		Host: "127.0.0.1", Port: freePorts(t, 1)[0], NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: limit,
	}}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *bench) start() {
	b.t.Helper()
	options := b.options // the server changes them
	var err error
	b.srv, err = server.NewServer(&options)
	require.NoError(b.t, err)
	b.srv.Start()
	require.True(b.t, b.srv.ReadyForConnections(patience))
}

func (b *bench) stop() {
	b.srv.Shutdown()
	b.srv.WaitForShutdown()
}

// open opens a store with a lease of one second. It logs to b.log.
func (b *bench) open(url string) (*deadlines.Store, jetstream.JetStream) {
	b.t.Helper()
	nc, err := deadlines.Connect(url)
	require.NoError(b.t, err)
	b.t.Cleanup(nc.Close)
	s, err := deadlines.Open(b.t.Context(), nc, deadlines.Config{
		Lease: time.Second, MinBackoff: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
	})
	require.NoError(b.t, err)
	b.t.Cleanup(s.Close)
	js, err := jetstream.New(nc)
	require.NoError(b.t, err)
	return s, js
}

// work works until the test ends.
func (b *bench) work(s *deadlines.Store, handle deadlines.Handler) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(b.t, s.Work(ctx, handle))
	}()
	b.t.Cleanup(func() {
		stop()
		<-ended
	})
}

// awaitLog waits until a line has been logged that contains a text.
func (b *bench) awaitLog(text string) {
	b.t.Helper()
	eventually(b.t, "logged: "+text, func() error {
		if !strings.Contains(b.log.String(), text) {
			return errors.New("it was not logged")
		}
		return nil
	})
}

// awaitHandled waits until all deadlines are handled, and verifies that Check finds no fault.
func (b *bench) awaitHandled(n int) {
	b.t.Helper()
	nc, err := nats.Connect(b.srv.ClientURL())
	require.NoError(b.t, err)
	defer nc.Close()
	eventually(b.t, fmt.Sprint(n, " deadlines are handled"), func() error {
		r, err := deadlines.Check(b.t.Context(), nc, "deadlines")
		if err == nil && r.Handled != n {
			err = fmt.Errorf("%d deadlines are handled, %d pending, %d running", r.Handled, r.Pending, r.Running)
		}
		if err == nil {
			require.Zero(b.t, r.Faults, r.FirstFaults)
		}
		return err
	})
}

// freePorts returns ports that are free. They are below the range from which the kernel takes ports for outgoing
// connections, so that they are still free when a server is started again.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for len(ports) < n {
		port := 20000 + rand.N(12000)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		defer l.Close()
		ports = append(ports, port)
	}
	return ports
}

// patience is longer than anything takes, unless something hangs.
const patience = 60 * time.Second

// eventually waits until a function returns nil. It polls, because servers do their work on real time.
func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	require.NoError(t, err, "not in %v: %s", patience, what)
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The store is full. Some deadlines come meanwhile: near ones, which the worker gets, and far ones, which the server
// keeps and forgets. When there is room again, all are handled.
func TestFullStore(t *testing.T) {
	t.Parallel()
	b := newBench(t, 4<<20)
	s, js := b.open(b.srv.ClientURL())
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "other", Subjects: []string{"other"}, Storage: jetstream.FileStorage})
	require.NoError(t, err)

	full := time.Now().Add(2 * time.Second)
	for i := range 10 {
		require.NoError(t, s.Set(t.Context(), fmt.Sprint("near/", i), full.Add(-2*time.Second), nil))
		require.NoError(t, s.Set(t.Context(), fmt.Sprint("far/", i), full, nil))
	}
	eventually(t, "the store is full", func() error {
		var api *jetstream.APIError
		for {
			if _, err := js.Publish(t.Context(), "other", make([]byte, 64<<10)); errors.As(err, &api) {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
	b.work(s, func(context.Context, deadlines.Deadline) error { return nil })

	for what, call := range map[string]func() error{
		`set "far/0"`:    func() error { return s.Set(t.Context(), "far/0", time.Now(), nil) },
		`move "far/0"`:   func() error { _, err := s.Move(t.Context(), "far/0", time.Now()); return err },
		`cancel "far/0"`: func() error { _, err := s.Cancel(t.Context(), "far/0"); return err },
	} {
		require.ErrorIs(t, call(), deadlines.ErrNoRoom)
		require.EqualError(t, call(), "deadlines: "+what+": no room: insufficient resources (10023)")
	}
	require.True(t, s.Stats().Full)

	// The near ones are with the worker, and the server does not deliver the far ones.
	eventually(t, "all are overdue", func() error {
		if st := s.Stats(); st.Overdue != 20 || !st.Full {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	b.awaitLog("requests have failed for")
	require.Contains(t, b.log.String(), "no room: insufficient resources (10023)")
	require.NoError(t, js.DeleteStream(t.Context(), "other"))
	b.awaitHandled(20)
	b.awaitLog("requests succeed again")
	require.NoError(t, s.Set(t.Context(), "full", time.Now(), nil))
	b.awaitHandled(21)
	eventually(t, "none is overdue, and the store is not full", func() error {
		if st := s.Stats(); st.Overdue != 0 || st.Full {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
}

// An operator deletes the consumer while a worker has deadlines and others are to come.
func TestConsumerDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	s, js := b.open(b.srv.ClientURL())
	running := make(chan struct{})
	b.work(s, func(_ context.Context, d deadlines.Deadline) error {
		if d.Key == "running" && d.Attempts == 1 {
			close(running)
			time.Sleep(1500 * time.Millisecond) // longer than the lease
		}
		return nil
	})
	start := time.Now()
	require.NoError(t, s.Set(t.Context(), "running", start, nil))
	for i := range 20 {
		require.NoError(t, s.Set(t.Context(), fmt.Sprint(i), start.Add(time.Duration(i)*100*time.Millisecond), nil))
	}
	<-running
	require.NoError(t, js.DeleteConsumer(t.Context(), "deadlines-wakeups", "workers"))
	require.NoError(t, s.Set(t.Context(), "later", time.Now().Add(500*time.Millisecond), nil))
	b.awaitHandled(22)
	b.awaitLog("the consumer is gone")
}

// The clock of the server is off, as this worker sees it, by more than a lease. The proxy makes that so.
func TestClockOff(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Minute, time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 0)
			var now atomic.Int64
			now.Store(int64(off))
			stamp := regexp.MustCompile(`"ts":"[^"]+"`)
			p := startProxy(t, strings.TrimPrefix(b.srv.ClientURL(), "nats://"), func(line []byte) []byte {
				return stamp.ReplaceAllFunc(line, func(field []byte) []byte {
					was, err := time.Parse(time.RFC3339Nano, string(field[6:len(field)-1]))
					assert.NoError(t, err)
					// The fraction stays the same, and so does the length, which the server has announced.
					return fmt.Appendf(nil, `"ts":%q`, was.Add(time.Duration(now.Load())).Format(time.RFC3339Nano))
				})
			})
			worker, _ := b.open(p.url())
			setter, _ := b.open(b.srv.ClientURL())
			require.InDelta(t, -off, worker.Stats().Skew, float64(10*time.Second))
			var calls, early atomic.Int64
			b.work(worker, func(_ context.Context, d deadlines.Deadline) error {
				calls.Add(1)
				if time.Now().Before(d.At) || now.Load() != 0 {
					early.Add(1)
				}
				return nil
			})
			for i := range 10 {
				at := time.Now().Add(time.Duration(i-3) * 100 * time.Millisecond)
				require.NoError(t, setter.Set(t.Context(), fmt.Sprint(i), at, nil))
			}
			b.awaitLog("the clocks differ by more than a lease")
			eventually(t, "the deadlines have come", func() error {
				if n := setter.Stats().Undelivered; n < 10 {
					return fmt.Errorf("%d deadlines wait for a worker", n)
				}
				return nil
			})
			require.Zero(t, calls.Load())
			now.Store(0)
			b.awaitLog("the clocks agree again")
			b.awaitHandled(10)
			require.EqualValues(t, 10, calls.Load())
			require.Zero(t, early.Load())
		})
	}
}

// The bucket has no room, and the stream of wake-ups has. The operator is told.
func TestFullBucket(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	s, js := b.open(b.srv.ClientURL())
	for i := range 10 {
		require.NoError(t, s.Set(t.Context(), fmt.Sprint(i), time.Now(), nil))
	}
	bucket, err := js.Stream(t.Context(), "KV_deadlines")
	require.NoError(t, err)
	limit := func(n int64) {
		cfg := bucket.CachedInfo().Config
		cfg.MaxBytes = n
		_, err = js.UpdateStream(t.Context(), cfg)
		require.NoError(t, err)
	}
	limit(int64(bucket.CachedInfo().State.Bytes))
	b.work(s, func(context.Context, deadlines.Deadline) error { return nil })
	b.awaitLog(`request="store records" because=`)
	require.Contains(t, b.log.String(), "maximum bytes exceeded")
	require.NotContains(t, b.log.String(), `request="store wake-ups"`)
	limit(-1)
	b.awaitHandled(10)
	b.awaitLog("requests succeed again")
}

// A server has the version that delivers nothing while deadlines are set. The proxy makes it look so. The log says that.
func TestLateVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.open(b.srv.ClientURL())
	require.NotContains(t, b.log.String(), "a server of this version")
	version := regexp.MustCompile(`"version":"[^"]+"`)
	p := startProxy(t, strings.TrimPrefix(b.srv.ClientURL(), "nats://"), func(line []byte) []byte {
		return version.ReplaceAll(line, []byte(`"version":"2.12.0"`))
	})
	b.open(p.url())
	require.Contains(t, b.log.String(), "a server of this version delivers nothing as long as deadlines are set again and again")
	require.Contains(t, b.log.String(), "version=2.12.0")
}
