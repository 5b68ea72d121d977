package deadlines

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// All yields what is set, and not what has ended.
func TestAll(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	ctx := t.Context()
	for range s.All(ctx) {
		t.Fatal("an empty store")
	}
	running, release := make(chan bool, 1), make(chan bool)
	c := s.mustWork(t, func(_ context.Context, d Deadline) error {
		if d.Key == "running" {
			running <- true
			<-release
		}
		return nil
	})
	end := sync.OnceFunc(func() { close(release) })
	t.Cleanup(end) // before that of mustWork
	want := make(map[string]Deadline)
	for i := range 1000 {
		key := fmt.Sprint("pending/", i)
		s.mustSet(t, key, time.Hour)
		if i%3 == 0 {
			moved, err := s.Move(ctx, key, time.Now().Add(2*time.Hour))
			require.True(t, moved)
			require.NoError(t, err)
		}
		if i%5 == 0 {
			canceled, err := s.Cancel(ctx, key)
			require.True(t, canceled)
			require.NoError(t, err)
			continue
		}
		want[key] = s.mustGet(t, key)
	}
	s.mustSet(t, "handled", 0)
	s.awaitStatus(t, "handled", Handled)
	s.mustSet(t, "running", 0)
	<-running
	want["running"] = s.mustGet(t, "running")
	got := make(map[string]Deadline)
	for d, err := range s.All(ctx) {
		require.NoError(t, err)
		require.NotContains(t, got, d.Key)
		got[d.Key] = d
	}
	require.Equal(t, want, got)

	n := 0
	for range s.All(ctx) { // while other calls are made, and to be left
		s.mustSet(t, "pending/1", time.Hour)
		if n++; n == 10 {
			break
		}
	}
	require.Equal(t, 10, n)

	_, err := s.link().bucket.Put(ctx, "foreign", []byte("{}"))
	require.NoError(t, err)
	failed, n := 0, 0
	for d, err := range s.All(ctx) {
		if n++; err != nil {
			failed++
			require.Equal(t, "foreign", d.Key)
			require.ErrorContains(t, err, `deadlines: list "foreign": revision `)
		}
	}
	require.Equal(t, []int{1, len(want) + 1}, []int{failed, n}, "the loop goes on")

	// only returns the only error, and requires that nothing else is yielded.
	only := func(ctx context.Context) (only error) {
		for d, err := range s.All(ctx) {
			require.Empty(t, d)
			require.NoError(t, only)
			only = err
		}
		return only
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, only(canceled), context.Canceled)
	done := false
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	for _, err := range s.All(ctx) {
		cancel()
		done = done || errors.Is(err, context.Canceled)
	}
	require.True(t, done, "an error says that the loop has not come to the end")
	end()
	c.stop()
	s.Close()
	require.ErrorIs(t, only(t.Context()), ErrClosed)
}

// The servers send less than they hold, as for some seconds after a restoration. All says so.
func TestAllIncomplete(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	for i := range 5 {
		s.mustSet(t, fmt.Sprint(i), time.Hour)
	}
	before, err := s.link().records.Info(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.complete(t.Context(), 5, before))
	err = s.complete(t.Context(), 4, before)
	require.ErrorIs(t, err, ErrIncomplete)
	require.ErrorContains(t, err, "4 of 5 keys")
	s.mustSet(t, "more", time.Hour)
	require.NoError(t, s.complete(t.Context(), 5, before), "one may have come later")
}

// No server is up. All gives up after Config.Timeout, and says why.
func TestAllWithoutServer(t *testing.T) {
	t.Parallel()
	srv := serve(t)
	cfg := quick()
	cfg.Timeout = time.Second
	s := mustOpen(t, srv.ClientURL(), cfg)
	srv.Shutdown()
	srv.WaitForShutdown()
	n := 0
	for d, err := range s.All(t.Context()) {
		n++
		require.Empty(t, d)
		require.ErrorContains(t, err, "deadlines: list: context deadline exceeded: no connection to "+srv.ClientURL())
	}
	require.Equal(t, 1, n)
}
