package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In each state, each request has the right result.
func TestLedger(t *testing.T) {
	f := newFixture(t)
	l := f.client.ledger
	now := time.Now().Round(0)
	l.now = func() time.Time { return now }
	ctx, deadline := t.Context(), now.Add(time.Minute)
	const by = "test"
	cancel := func(id string) (order, bool, error) {
		return l.end(ctx, request{id: id, to: canceled, by: by, deadline: deadline, delivery: 2})
	}

	require.NoError(t, l.open(ctx, "a", by, deadline))
	require.NoError(t, l.open(ctx, "a", by, deadline), "the first answer may have been lost")
	require.ErrorIs(t, l.open(ctx, "a", "another", deadline), errTaken)
	created := now

	// A cancellation a nanosecond early fails.
	now = deadline.Add(-time.Nanosecond)
	_, _, err := cancel("a")
	require.ErrorIs(t, err, errEarly)
	_, _, err = cancel("b")
	require.ErrorIs(t, err, errEarly)
	require.NotContains(t, f.mustRead().orders, "b")
	now = deadline
	want := order{State: canceled, Created: created, Deadline: deadline, Ended: now, By: by, Delivery: 2}
	for range 2 { // twice, because an answer may have been lost
		o, ended, err := cancel("a")
		require.NoError(t, err)
		require.True(t, ended)
		requireOrder(t, want, o)
		now = now.Add(time.Second)
	}
	require.ErrorIs(t, l.open(ctx, "a", by, deadline), errTaken)
	o, ended := f.mustEnd("a", paid)
	require.False(t, ended)
	requireOrder(t, want, o)
	for _, r := range []request{{by: "another", delivery: 2}, {by: by, delivery: 3}} {
		r.id, r.to, r.deadline = "a", canceled, deadline
		_, ended, err = l.end(ctx, r)
		require.NoError(t, err)
		require.False(t, ended)
	}

	// A deadline without an order.
	o, ended, err = cancel("b")
	require.NoError(t, err)
	require.True(t, ended)
	require.Equal(t, void, o.State)
	require.ErrorIs(t, l.open(ctx, "b", by, deadline), errTaken)

	// A payment needs an order, but may come after its deadline.
	_, _, err = l.end(ctx, request{id: "c", to: paid, by: by})
	require.Error(t, err)
	require.NoError(t, l.open(ctx, "c", by, now.Add(-time.Second)))
	for range 2 {
		_, ended = f.mustEnd("c", paid)
		require.True(t, ended)
	}
	o, ended, err = cancel("c")
	require.NoError(t, err)
	require.False(t, ended)
	require.Equal(t, paid, o.State)

	b := f.mustRead()
	require.Len(t, b.orders["a"], 2)
	require.Len(t, b.orders["b"], 1)
	require.Len(t, b.orders["c"], 2)
}

func requireOrder(t *testing.T, want, is order) {
	t.Helper()
	require.Equal(t, string(want.encode()), string(is.encode()))
}

// Payments and cancellations race for each order, and one of them ends it.
func TestLedgerRace(t *testing.T) {
	f := newFixture(t)
	const orders, racers = 100, 6
	var ended [orders]atomic.Int64
	for i := range orders {
		require.NoError(t, f.client.ledger.open(t.Context(), fmt.Sprint(i), "test", time.Now()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), far)
	defer cancel()
	var all sync.WaitGroup
	for r := range racers {
		all.Go(func() {
			to := []state{paid, canceled}[r%2]
			for _, i := range rand.Perm(orders) {
				var ok bool
				err := persist(ctx, func(ctx context.Context) (err error) {
					_, ok, err = f.client.ledger.end(ctx, request{id: fmt.Sprint(i), to: to, by: fmt.Sprint("racer ", r)})
					return err
				})
				if assert.NoError(t, err) && ok {
					ended[i].Add(1)
				}
			}
		})
	}
	all.Wait()
	b := f.mustRead()
	for i := range orders {
		require.EqualValues(t, 1, ended[i].Load(), "order %d", i)
		require.Len(t, b.orders[fmt.Sprint(i)], 2)
	}
	require.Positive(t, b.count(paid))
	require.Positive(t, b.count(canceled))
}

func TestParseOrder(t *testing.T) {
	for _, bad := range []string{"", "{}", `{"state":"lost"}`, "open"} {
		_, err := parseOrder([]byte(bad))
		require.ErrorIs(t, err, errOrder, bad)
	}
	want := order{State: paid, Created: time.Unix(0, 1), Deadline: time.Unix(0, 2), Ended: time.Unix(0, 3), By: "w", Delivery: 4}
	o, err := parseOrder(want.encode())
	require.NoError(t, err)
	require.True(t, o.Created.Equal(want.Created) && o.Deadline.Equal(want.Deadline) && o.Ended.Equal(want.Ended))
	requireOrder(t, want, o)
}
