package deadlines

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// An operator sees that the connection was lost and has come back, and why nothing ended meanwhile.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	o := &server.Options{StoreDir: t.TempDir()}
	srv := serveOptions(t, o)
	o.Port = srv.Addr().(*net.TCPAddr).Port
	s := mustOpen(t, srv.ClientURL(), cfg)
	s.mustWork(t, nil)
	at := s.mustSet(t, "a", time.Second)
	says := func(text string) func() bool { return func() bool { return strings.Contains(l.String(), text) } }
	srv.Shutdown()
	srv.WaitForShutdown()
	await(t, "it says so", says("deadlines: disconnected"))
	await(t, "it says so", says("deadlines: requests have failed for "))
	serveOptions(t, o)
	await(t, "it says so", says("deadlines: connected again"))
	await(t, "it says so", says("deadlines: requests succeed again"))
	s.awaitStatus(t, "a", Handled)
	require.True(t, s.mustGet(t, "a").Changed.After(at))
	s.mustCheck(t)
}

func TestFigures(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.mustWork(t, nil)
	s.mustSet(t, "a", 0)
	s.awaitStatus(t, "a", Handled)
	await(t, "it is counted", func() bool { return s.Stats().Handled == 1 })
	figures := make(map[string]float64)
	s.Figures(func(name, help string, counter bool, value float64) {
		require.NotContains(t, figures, name)
		require.NotEmpty(t, help)
		require.Equal(t, strings.HasSuffix(help, "."), true)
		figures[name] = value
	})
	require.Equal(t, 1.0, figures["set"])
	require.Equal(t, 1.0, figures["handled"])
	require.Zero(t, figures["failures"])
	require.Zero(t, figures["full"])
	require.Equal(t, s.cfg.Name, s.Name())
}

// All handlers hang while other deadlines wait. That is logged, and so is the end of it. Handlers that take long while
// nothing waits are not.
func TestAllHandlersHang(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger, cfg.Concurrency = l.logger(), 2
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	release := make(chan bool)
	c := s.mustWork(t, func(context.Context, Deadline) error { <-release; return nil })
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	for _, key := range []string{"a", "b"} {
		s.mustSet(t, key, 0)
		await(t, "it runs", func() bool { return len(c.of(key)) == 1 })
	}
	await(t, "both run", func() bool { return s.Stats().Running == 2 })
	time.Sleep((hangsAfter + 1) * s.cfg.Lease)
	require.Empty(t, l.String())
	s.mustSet(t, "c", 0)
	await(t, "it is logged", func() bool { return strings.Contains(l.String(), "deadlines: no handler has returned for 3s") })
	require.Contains(t, l.String(), "running=2 waiting=")
	require.Contains(t, l.String(), `longest="[a b]" for=`)
	free()
	await(t, "it is logged", func() bool { return strings.Contains(l.String(), "deadlines: handlers return again") })
	s.awaitStatus(t, "c", Handled)
	c.stop()
}

// A handler hangs while others go on. The log names its key once a minute, and the figures say for how long it has run.
func TestHandlerHangs(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	release := make(chan bool)
	c := s.mustWork(t, func(_ context.Context, d Deadline) error {
		if d.Key == "hung" {
			<-release
		}
		return nil
	})
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	require.Zero(t, s.Stats().Longest)
	s.mustSet(t, "hung", 0)
	await(t, "it runs", func() bool { return len(c.of("hung")) == 1 })
	s.mustSet(t, "other", 0)
	s.awaitStatus(t, "other", Handled)
	await(t, "the figures say so", func() bool { return s.Stats().Longest > time.Second })
	var h hung
	now := time.Now()
	h.check(s, now.Add(50*time.Second))
	require.Empty(t, l.String())
	h.check(s, now.Add(70*time.Second))
	require.Contains(t, l.String(), `msg="deadlines: a handler has not returned for 1m1`)
	require.Contains(t, l.String(), `key=hung longest=[hung]`)
	h.check(s, now.Add(129*time.Second))
	require.Equal(t, 1, strings.Count(l.String(), "has not returned"))
	h.check(s, now.Add(130*time.Second))
	require.Equal(t, 2, strings.Count(l.String(), "has not returned"))
	s.calls.mu.Lock()
	for held := range s.calls.began {
		s.calls.began[held] = now.Add(-2 * time.Minute)
	}
	s.calls.mu.Unlock()
	free()
	s.awaitStatus(t, "hung", Handled)
	await(t, "it is logged", func() bool { return strings.Contains(l.String(), "a handler that had run for long has returned") })
	c.stop()
	require.Zero(t, s.Stats().Longest)
}

// A worker that is alive loses its lease while a handler runs. The log does not say that it has died. The process calls
// the handler no second time while the first call runs, and another process does.
func TestLeaseLostAlive(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	for _, processes := range []int{1, 2} {
		var l log
		cfg := quick()
		cfg.Name, cfg.Logger, cfg.Lease = fmt.Sprint("s", processes), l.logger(), 2*time.Second
		release := make(chan bool)
		free := sync.OnceFunc(func() { close(release) })
		s := mustOpen(t, url, cfg)
		first := s.mustWork(t, func(context.Context, Deadline) error { <-release; return nil })
		t.Cleanup(free)
		s.mustSet(t, "key", 0)
		await(t, "it runs", func() bool { return len(first.of("key")) == 1 })
		if processes == 2 {
			second := mustOpen(t, url, cfg).mustWork(t, nil)
			await(t, "the first worker says that it is alive", func() bool {
				alive, err := s.alive(t.Context(), s.by)
				return err == nil && alive
			})
			s.calls.mu.Lock()
			for h := range s.calls.began {
				h.msg.Nak()
			}
			s.calls.mu.Unlock()
			// The server may give it to the first process again, which waits for a lease.
			await(t, "the other one calls it", func() bool { return len(second.of("key")) == 1 })
		} else {
			s.calls.mu.Lock()
			for h := range s.calls.began {
				h.msg.Nak()
			}
			s.calls.mu.Unlock()
			time.Sleep(2 * cfg.Lease)
		}
		require.Len(t, first.of("key"), 1)
		require.Contains(t, l.String(), "a worker that is alive has lost its lease while a handler ran")
		require.NotContains(t, l.String(), "died")
		free()
		s.awaitStatus(t, "key", Handled)
		s.mustCheck(t)
		first.stop()
		require.Zero(t, s.Stats().Deaths)
	}
}
