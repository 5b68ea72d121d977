package deadlines

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

func serve(t *testing.T) *server.Server {
	srv, err := server.NewServer(&server.Options{Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(10*time.Second))
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	return srv
}

func open(t *testing.T, url string, cfg Config) *Store {
	nc, err := Connect(url)
	require.NoError(t, err)
	s, err := Open(t.Context(), nc, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close(); nc.Close() })
	return s
}

func TestScratch(t *testing.T) {
	srv := serve(t)
	s := open(t, srv.ClientURL(), Config{Lease: time.Second, Retain: -1, MinBackoff: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	got := map[string][]time.Duration{}
	done := make(chan error)
	go func() {
		done <- s.Work(ctx, func(ctx context.Context, d Deadline) error {
			mu.Lock()
			defer mu.Unlock()
			got[d.Key] = append(got[d.Key], time.Since(d.At))
			if d.Key == "fail" && d.Attempts < 3 {
				return errors.New("not yet")
			}
			return nil
		})
	}()
	start := time.Now()
	for i := range 20 {
		require.NoError(t, s.Set(t.Context(), fmt.Sprint(i), time.Now().Add(time.Duration(i)*100*time.Millisecond), []byte("x")))
	}
	t.Log("20 sets", time.Since(start))
	require.NoError(t, s.Set(t.Context(), "past", time.Now().Add(-time.Hour), nil))
	require.NoError(t, s.Set(t.Context(), "fail", time.Now().Add(time.Second), nil))
	ok, err := s.Cancel(t.Context(), "19")
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = s.Move(t.Context(), "18", time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.True(t, ok)
	d, err := s.Get(t.Context(), "18")
	t.Log(d, err)
	time.Sleep(4 * time.Second)
	for i := 0; ; i++ {
		d, err = s.Get(t.Context(), "19")
		if errors.Is(err, ErrNotFound) {
			break
		}
		t.Log(d, err)
		time.Sleep(time.Second)
		if i > 0 {
			break
		}
	}
	cancel()
	require.NoError(t, <-done)
	r, err := Check(t.Context(), s.nc, "deadlines")
	require.NoError(t, err)
	r.keys = nil
	t.Logf("%+v", r)
	mu.Lock()
	for k, v := range got {
		t.Log(k, v)
	}
	t.Logf("%+v", s.Stats())
}
