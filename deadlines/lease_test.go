package deadlines

import (
	"context"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// A worker has a message in its buffer for longer than the lease, because its handlers are slow. The server gives the
// deadline to another worker. The first one neither calls the handler nor takes the deadline away from the other one.
func TestMessageIsOlderThanTheLease(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.mustSet(t, "key", 0)
	consumer, err := s.link().wakeups.Consumer(t.Context(), consumerName)
	require.NoError(t, err)
	empty := time.Now()
	first, err := consumer.Next()
	require.NoError(t, err)
	_, err = consumer.Next(jetstream.FetchMaxWait(patience)) // after the lease
	require.NoError(t, err)

	called := false
	w := s.mustMakeWorker(t, func(context.Context, Deadline) error { called = true; return nil })
	w.take(first, empty)
	await(t, "it is dropped", func() bool { return s.Stats().Held == 0 })
	_, err = w.wheel.Shutdown(t.Context())
	require.NoError(t, err)
	require.False(t, called)
	require.Equal(t, Pending, s.mustGet(t, "key").Status)

	w.giveBack(first, empty, 0)
	_, err = consumer.Next(jetstream.FetchMaxWait(s.cfg.Lease / 2)) // the other worker's lease is longer
	require.ErrorIs(t, err, nats.ErrTimeout)
}

// A message waits in the buffer of a worker, because the handlers are slow. Its deadline has not come yet. The worker
// prolongs the lease, so that it still has the message at the deadline.
func TestMessageWaitsBehindOthers(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Lease = 6 * time.Second // a busy machine may hold up the handler for more than a second
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	s.mustSet(t, "key", cfg.Lease*9/20)
	consumer, err := s.link().wakeups.Consumer(t.Context(), consumerName)
	require.NoError(t, err)
	msg, err := consumer.Next()
	require.NoError(t, err)

	called := false
	w := s.mustMakeWorker(t, func(context.Context, Deadline) error { called = true; return nil })
	w.take(msg, time.Now().Add(-cfg.Lease*2/5))
	await(t, "it is ended", func() bool { return s.Stats().Held == 0 })
	_, err = w.wheel.Shutdown(t.Context())
	require.NoError(t, err)
	require.True(t, called)
	require.Equal(t, Handled, s.mustGet(t, "key").Status)
}

// A worker has a message whose deadline has come, but all of its handlers are busy. It hands the message back long
// before the lease ends, because another worker may be free.
func TestFullWorkerHandsBack(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Lease = 6 * time.Second
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	s.mustSet(t, "key", 0)
	consumer, err := s.link().wakeups.Consumer(t.Context(), consumerName)
	require.NoError(t, err)
	msg, err := consumer.Next()
	require.NoError(t, err)
	w := s.mustMakeWorker(t, nil)
	for range cap(w.room) {
		w.room <- struct{}{}
	}
	began := time.Now()
	w.take(msg, began)
	_, err = consumer.Next(jetstream.FetchMaxWait(cfg.Lease / 2))
	require.NoError(t, err)
	require.Less(t, time.Since(began), cfg.Lease)
	require.Zero(t, s.Stats().Held)
}

// The request for a record took so long that the lease has ended. The worker does not claim the deadline.
func TestNoClaimAfterTheLease(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.mustSet(t, "key", time.Hour)
	r, err := s.load(t.Context(), "key")
	require.NoError(t, err)
	s.counts.held.Add(1)
	h := &held{w: s.mustMakeWorker(t, nil), msg: silent{}, token: r.Token, wakeup: wakeup{Key: "key", At: r.At}, delivery: 1,
		signed: time.Now().Add(-s.cfg.Lease)}
	claimed, err := h.claim(t.Context())
	require.NoError(t, err)
	require.Nil(t, claimed)
	require.Equal(t, Pending, s.mustGet(t, "key").Status)
	require.Zero(t, s.Stats().Held)
}

// A worker has lost its lease, and its handler runs on. The deadline is put off, because that has happened several times.
// Then the handler succeeds. That counts.
func TestSuccessAfterPutOff(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.MinBackoff = time.Hour
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	s.mustSet(t, "key", 0)
	consumer, err := s.link().wakeups.Consumer(t.Context(), consumerName)
	require.NoError(t, err)
	w := s.mustMakeWorker(t, func(context.Context, Deadline) error { return nil })
	next := func() *held {
		msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
		require.NoError(t, err)
		h, err := w.parse(msg, time.Now())
		require.NoError(t, err)
		s.counts.held.Add(1)
		return h
	}
	first := next()
	claimed, err := first.claim(t.Context())
	require.NoError(t, err)
	r := *claimed
	r.Deaths = calmDeaths - 1
	_, err = s.save(t.Context(), "key", r)
	require.NoError(t, err)
	again, err := next().claim(t.Context()) // when the lease has ended
	require.NoError(t, err)
	require.Nil(t, again)
	require.Equal(t, Pending, s.mustGet(t, "key").Status)
	require.Equal(t, "3 workers in a row have died in the handler, or have lost their lease", s.mustGet(t, "key").Error)
	s.mustCheck(t)
	first.call(*claimed)
	require.Equal(t, Handled, s.mustGet(t, "key").Status)
	require.EqualValues(t, 1, s.Stats().Deaths)
	s.mustCheck(t)
}

// Wake-ups are newer than the record, as after the restoration of a backup of the bucket alone. Workers go on with
// other deadlines.
func TestRecordIsOlderThanItsWakeup(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Concurrency = 1
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	s.mustSet(t, "old", time.Hour)
	for _, token := range []string{"a", "b", "c"} {
		require.NoError(t, s.wake(t.Context(), token, wakeup{Key: "old", At: time.Now(), Prior: 1 << 40}))
	}
	s.mustWork(t, nil)
	await(t, "they take the room of all handlers", func() bool { return s.Stats().Held == 2 })
	s.mustSet(t, "key", 0)
	s.awaitStatus(t, "key", Handled)
}

// mustMakeWorker makes a worker that takes no messages by itself.
func (s *Store) mustMakeWorker(t *testing.T, handle Handler) *worker {
	t.Helper()
	w := &worker{Store: s, ctx: t.Context(), last: t.Context(), room: make(chan struct{}, 2), handle: handle}
	for _, wheel := range []**hashedwheel.Timer{&w.wheel, &w.signs} {
		var err error
		*wheel, err = hashedwheel.New(hashedwheel.WithTick(tick))
		require.NoError(t, err)
		t.Cleanup(func() { (*wheel).Stop() })
	}
	return w
}

// If handlers take longer than a lease, each is called once nevertheless, because what a worker has not begun goes
// to others before its lease ends.
func TestSlowHandlers(t *testing.T) {
	t.Parallel()
	const n = 18
	cfg := quick()
	cfg.Concurrency, cfg.Lease = 2, 3*time.Second // a busy machine may hold up signs of life for two seconds
	url := serve(t).ClientURL()
	s := mustOpen(t, url, cfg)
	for i := range n {
		s.mustSet(t, string(rune('a'+i)), 0)
	}
	var workers []*testWorker
	for range 3 {
		workers = append(workers, mustOpen(t, url, cfg).mustWork(t, func(context.Context, Deadline) error {
			time.Sleep(cfg.Lease * 5 / 4)
			return nil
		}))
	}
	await(t, "all are handled", func() bool { return s.mustCheck(t).Handled == n })
	for i := range n {
		key, calls := string(rune('a'+i)), 0
		for _, w := range workers {
			calls += len(w.of(key))
		}
		require.Equal(t, 1, calls, key)
	}
}
