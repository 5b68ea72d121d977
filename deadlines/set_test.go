package deadlines

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestSetMoveCancelGet(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	ctx := t.Context()
	_, err := s.Get(ctx, "a")
	require.ErrorIs(t, err, ErrNotFound)
	for name, call := range map[string]func() (bool, error){
		"move":   func() (bool, error) { return s.Move(ctx, "a", time.Now()) },
		"cancel": func() (bool, error) { return s.Cancel(ctx, "a") },
	} {
		ok, err := call()
		require.NoError(t, err)
		require.False(t, ok, name)
	}

	at := s.mustSet(t, "a", time.Hour)
	d := s.mustGet(t, "a")
	require.True(t, at.Equal(d.At))
	require.Equal(t, "payload of a", string(d.Payload))
	require.Equal(t, Pending, d.Status)
	require.WithinDuration(t, time.Now(), d.Changed, patience)

	ok, err := s.Move(ctx, "a", at.Add(time.Hour))
	require.NoError(t, err)
	require.True(t, ok)
	d = s.mustGet(t, "a")
	require.True(t, at.Add(time.Hour).Equal(d.At))
	require.Equal(t, "payload of a", string(d.Payload))
	require.Equal(t, 1, s.mustCheck(t).Wakeups, "the schedule of the earlier time is removed")

	ok, err = s.Cancel(ctx, "a")
	require.NoError(t, err)
	require.True(t, ok)
	d = s.mustGet(t, "a")
	require.Equal(t, Canceled, d.Status)
	require.Nil(t, d.Payload)
	require.Zero(t, s.mustCheck(t).Wakeups)
	ok, err = s.Cancel(ctx, "a")
	require.NoError(t, err)
	require.False(t, ok, "it is canceled already")
	ok, err = s.Move(ctx, "a", at)
	require.NoError(t, err)
	require.False(t, ok)

	created, err := s.Create(ctx, "a", at, nil)
	require.NoError(t, err)
	require.False(t, created, "it has ended, but is retained")
	s.mustSet(t, "a", time.Hour)
	require.Equal(t, Pending, s.mustGet(t, "a").Status, "a deadline that has ended begins again")
	for _, want := range []bool{true, false} {
		created, err = s.Create(ctx, "b", at, []byte("first"))
		require.NoError(t, err)
		require.Equal(t, want, created)
	}
	require.Equal(t, "first", string(s.mustGet(t, "b").Payload))
	ok, err = s.Cancel(ctx, "b")
	require.NoError(t, err)
	require.True(t, ok)
	s.mustSet(t, "a", 2*time.Hour)
	r := s.mustCheck(t)
	require.Equal(t, []int{2, 1, 1, 7}, []int{r.Keys, r.Pending, r.Wakeups, r.Revisions})
	st := s.Stats()
	require.Equal(t, []uint64{4, 1, 2}, []uint64{st.Set, st.Moved, st.Canceled})
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	start := time.Now()
	err := s.Set(t.Context(), "not a key", time.Now(), nil)
	require.ErrorIs(t, err, jetstream.ErrInvalidKey)
	require.ErrorContains(t, err, `deadlines: set "not a key"`)
	require.ErrorContains(t, s.Set(t.Context(), "a", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), nil), "year")
	require.ErrorContains(t, s.Set(t.Context(), "a", time.Now(), make([]byte, 2<<20)), "maximum payload")
	require.Less(t, time.Since(start), s.cfg.Timeout, "they are not repeated")
}

// Two processes that cancel and move the same deadline agree on who did.
func TestOneOutcome(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	a, b := mustOpen(t, url, quick()), mustOpen(t, url, quick())
	for i := range 50 {
		key := fmt.Sprint(i)
		a.mustSet(t, key, time.Hour)
		var canceled atomic.Int64
		var both sync.WaitGroup
		for _, s := range []*Store{a, b, a, b} {
			both.Go(func() {
				if ok, err := s.Cancel(t.Context(), key); err == nil && ok {
					canceled.Add(1)
				}
			})
		}
		both.Wait()
		require.EqualValues(t, 1, canceled.Load())
	}
	require.Equal(t, 50, a.mustCheck(t).Canceled)
}

// Sets of one key from several processes leave one deadline with one wake-up.
func TestSetAtTheSameTime(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	a, b := mustOpen(t, url, quick()), mustOpen(t, url, quick())
	var both sync.WaitGroup
	for i := range 20 {
		s := []*Store{a, b}[i%2]
		both.Go(func() { require.NoError(t, s.Set(t.Context(), "key", time.Now().Add(time.Hour+time.Duration(i)), nil)) })
	}
	both.Wait()
	r := a.mustCheck(t)
	require.Equal(t, 1, r.Pending)
	a.mustSet(t, "key", 0)
	a.mustWork(t, nil)
	a.awaitStatus(t, "key", Handled)
}

// A Set whose process dies after the wake-up, or is slow, leaves nothing behind that a worker cannot end.
func TestWakeupWithoutRecord(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	ctx := t.Context()
	// One key has never been set, one is pending, and one has ended.
	s.mustSet(t, "pending", time.Hour)
	s.mustSet(t, "canceled", time.Hour)
	_, err := s.Cancel(ctx, "canceled")
	require.NoError(t, err)
	prior := map[string]record{}
	for _, key := range []string{"new", "pending", "canceled"} {
		r, err := s.load(ctx, key)
		require.NoError(t, err)
		prior[key] = r
		require.NoError(t, s.wake(ctx, "dead-"+key, wakeup{Key: key, At: time.Now(), Prior: r.rev}))
	}
	c := s.mustWork(t, nil)
	await(t, "the worker drops the wake-ups", func() bool {
		r, err := Check(ctx, s.link().nc, s.cfg.Name)
		return err == nil && r.Wakeups == 1
	})
	require.Empty(t, c.calls)
	s.mustCheck(t)
	// A Set that was only slow fails now, and so begins again with another wake-up.
	for key, r := range prior {
		r.Status, r.Token = Pending, "dead-"+key
		_, err := s.save(ctx, key, r)
		require.True(t, isConflict(err), "%s: %v", key, err)
	}
	_, err = s.Get(ctx, "new")
	require.ErrorIs(t, err, ErrNotFound, "a void record is none")
	require.Equal(t, Pending, s.mustGet(t, "pending").Status)
	require.Equal(t, Canceled, s.mustGet(t, "canceled").Status)
	at := s.mustSet(t, "new", 0)
	s.awaitStatus(t, "new", Handled)
	require.False(t, c.of("new")[0].began.Before(at))
}

// A wake-up of an earlier Set does nothing.
func TestWakeupOfAnEarlierSet(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	at := s.mustSet(t, "a", 300*time.Millisecond) // near, so it is a message for the workers already
	at = s.mustSet(t, "a", time.Until(at)+time.Second)
	c := s.mustWork(t, nil)
	s.awaitStatus(t, "a", Handled)
	calls := c.of("a")
	require.Len(t, calls, 1)
	require.False(t, calls[0].began.Before(at))
	await(t, "both wake-ups are gone", func() bool { return s.mustCheck(t).Wakeups == 0 })
}

// Without servers a call returns within its bound, and says what happened.
func TestServersAway(t *testing.T) {
	t.Parallel()
	srv := serve(t)
	cfg := quick()
	cfg.Timeout = 300 * time.Millisecond
	s := mustOpen(t, srv.ClientURL(), cfg)
	srv.Shutdown()
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return s.Set(ctx, "a", time.Now(), nil) },
		func(ctx context.Context) error { _, err := s.Cancel(ctx, "a"); return err },
		func(ctx context.Context) error { _, err := s.Get(ctx, "a"); return err },
	} {
		err := call(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, call(ctx), context.Canceled)
	}
}

// A deadline that has ended can be read for a while, and then it is gone with all its revisions.
func TestRetain(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.cfg.Retain = time.Second // Config allows no less than a minute
	s.mustWork(t, nil)
	s.mustSet(t, "handled", 0)
	s.mustSet(t, "canceled", time.Hour)
	_, err := s.Cancel(t.Context(), "canceled")
	require.NoError(t, err)
	s.mustSet(t, "again", time.Hour)
	_, err = s.Cancel(t.Context(), "again")
	require.NoError(t, err)
	s.mustSet(t, "again", time.Hour)
	s.awaitStatus(t, "handled", Handled)
	require.Equal(t, Canceled, s.mustGet(t, "canceled").Status)
	await(t, "both are removed", func() bool {
		_, handled := s.Get(t.Context(), "handled")
		_, canceled := s.Get(t.Context(), "canceled")
		return handled == ErrNotFound && canceled == ErrNotFound
	})
	await(t, "only one revision is left", func() bool {
		info, err := s.link().records.Info(t.Context())
		return err == nil && info.State.Msgs == 1
	})
	require.Equal(t, Pending, s.mustGet(t, "again").Status, "it was set again before its time was over")
	s.mustSet(t, "handled", time.Hour)
	require.Equal(t, Pending, s.mustGet(t, "handled").Status)
	s.mustCheck(t)
}

// Set accepts no payload for which a worker has no room, whatever the handler returns.
func TestLargePayload(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	set := func(n int) error { return s.Set(t.Context(), "key", time.Now().Add(time.Hour), make([]byte, n)) }
	refused := sort.Search(1<<20, func(n int) bool { return set(n) != nil })
	require.Greater(t, refused, 770_000)
	require.ErrorIs(t, set(refused), nats.ErrMaxPayload)
	require.ErrorContains(t, set(refused), fmt.Sprintf("the payload has %d bytes, and at most %d are possible with the max_payload "+
		"of the servers, 1048576", refused, refused-1))

	require.NoError(t, set(refused-1))
	moved, err := s.Move(t.Context(), "key", time.Now())
	require.NoError(t, err)
	require.True(t, moved)
	calls := 0
	s.mustWork(t, func(context.Context, Deadline) error {
		if calls++; calls < 3 {
			return errors.New(strings.Repeat("\x01", 2<<20)) // which is six times as long in JSON
		}
		return nil
	})
	s.awaitStatus(t, "key", Handled)
	require.Len(t, s.mustGet(t, "key").Error, maxError)
}
