package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Correct books pass, and each fault is found.
func TestVerify(t *testing.T) {
	due := time.Unix(1000, 0)
	entry := func(s state, after time.Duration) change {
		c := change{order: order{State: s, Deadline: due}, stored: due.Add(after)}
		if s != open {
			c.Ended = c.stored
		}
		return c
	}
	opened, paying, canceling := entry(open, -time.Second), entry(paid, -time.Millisecond), entry(canceled, 0)
	earlyByServer := entry(canceled, -1)
	earlyByServer.Ended = due
	earlyByWorker := entry(canceled, 0)
	earlyByWorker.Ended = due.Add(-1)

	moved := entry(canceled, 0)
	moved.Deadline = due.Add(-time.Second)

	for _, tt := range []struct {
		name    string
		history []change
		acks    map[string]state
		waiting bool
		end     time.Time
		want    string
	}{
		{name: "open", history: []change{opened}, waiting: true, end: due, acks: map[string]state{"a": open}},
		{name: "paid", history: []change{opened, paying}, acks: map[string]state{"a": paid}},
		{name: "paid late", history: []change{opened, entry(paid, time.Hour)}, end: due.Add(time.Minute)},
		{name: "canceled", history: []change{opened, canceling}, acks: map[string]state{"a": canceled}},
		{name: "canceled, and the customer does not know", history: []change{opened, canceling}, acks: map[string]state{"a": open}},
		{name: "void", history: []change{entry(void, 0)}},
		{name: "a deadline is left", history: []change{opened, paying}, waiting: true},

		{name: "never opened", history: []change{paying}, want: `order a became paid after it was ""`},
		{name: "opened twice", history: []change{opened, opened}, waiting: true, want: `order a became open after it was "open"`},
		{name: "ended twice", history: []change{opened, paying, canceling}, want: `order a became canceled after it was "paid"`},
		{name: "canceled twice", history: []change{opened, canceling, canceling}, want: `order a became canceled after it was "canceled"`},
		{name: "void and opened", history: []change{entry(void, 0), opened}, waiting: true, want: `order a became open after it was "void"`},
		{name: "early by the server", history: []change{opened, earlyByServer}, want: "order a was ended 1ns before its deadline"},
		{name: "early by the worker", history: []change{opened, earlyByWorker}, want: "order a was ended 1ns before its deadline"},
		{name: "by another deadline", history: []change{opened, moved}, want: "order a got another deadline, -1s after the first"},
		{name: "void early", history: []change{entry(void, -1)}, want: "order a was ended 1ns before its deadline"},
		{name: "forgotten", history: []change{opened}, waiting: true, end: due.Add(1), want: "order a is open, but was due 1ns before the end"},
		{name: "deadline lost", history: []change{opened}, want: "order a is open, but its deadline is not in the stream"},
		{name: "order lost", acks: map[string]state{"a": open}, want: `order a was acknowledged as open, but is ""`},
		{name: "payment lost", history: []change{opened, canceling}, acks: map[string]state{"a": paid}, want: `order a was acknowledged as paid, but is "canceled"`},
		{name: "wrongly refused", history: []change{opened, paying}, acks: map[string]state{"a": canceled}, want: `order a was acknowledged as canceled, but is "paid"`},
		{name: "refused as void", history: []change{entry(void, 0)}, acks: map[string]state{"a": open}, want: `order a was acknowledged as open, but is "void"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &books{orders: make(map[string][]change), waiting: map[string]bool{"a": tt.waiting}}
			if tt.history != nil {
				b.orders["a"] = tt.history
			}
			err := b.verify(tt.acks, tt.end)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestVerifyShowsTheFirst(t *testing.T) {
	b := &books{orders: make(map[string][]change)}
	acks := make(map[string]state)
	for id := range 12 {
		acks[string(rune('a'+id))] = open
	}
	err := b.verify(acks, time.Time{})
	require.ErrorContains(t, err, `order j was acknowledged as open, but is ""`)
	require.NotContains(t, err.Error(), "order k")
	require.ErrorContains(t, err, "and 2 more")
}

// An order that ends after the orders are read and before the deadlines are read does not count as an order
// whose deadline was lost. An order whose deadline was really lost does.
func TestReadAgain(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"ended", "lost"} {
		require.NoError(t, f.client.ledger.open(t.Context(), id, "test", time.Now()))
	}
	b := f.mustRead()
	require.Equal(t, 2, b.count(open))
	_, ended := f.mustEnd("ended", paid)
	require.True(t, ended)
	require.NoError(t, f.client.readAgain(t.Context(), b))
	require.Equal(t, paid, b.last("ended").State)
	require.EqualError(t, b.verify(nil, time.Time{}), "order lost is open, but its deadline is not in the stream")
}

// A silentKV is a bucket without orders. It loses the first request, as servers do that elect a leader.
type silentKV struct {
	jetstream.KeyValue
	requests int
}

func (kv *silentKV) WatchAll(ctx context.Context, _ ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	if kv.requests++; kv.requests == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w := emptyWatcher{updates: make(chan jetstream.KeyValueEntry, 1)}
	w.updates <- nil
	return w, nil
}

type emptyWatcher struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
}

func (w emptyWatcher) Updates() <-chan jetstream.KeyValueEntry { return w.updates }
func (w emptyWatcher) Stop() error                             { return nil }

// An emptyStream has no deadlines. It loses the first request.
type emptyStream struct {
	jetstream.Stream
	requests int
}

func (s *emptyStream) Info(ctx context.Context, _ ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	if s.requests++; s.requests == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &jetstream.StreamInfo{}, nil
}

// If the servers lose a request, readBooks reads again.
func TestReadBooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, stream := &silentKV{}, &emptyStream{}
		c := &client{ledger: &ledger{kv: kv}, deadlines: &deadlines{stream: stream}}
		start := time.Now()
		b, err := c.readBooks(t.Context())
		require.NoError(t, err)
		require.Empty(t, b.orders)
		require.Equal(t, 2*silenceLimit, time.Since(start)) // one for each lost request
		require.Equal(t, 3, kv.requests)

		// It ends when its context does.
		kv.requests = 0
		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), silenceLimit/2)
		defer cancel()
		_, err = c.readBooks(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, silenceLimit/2, time.Since(start))
	})
}
