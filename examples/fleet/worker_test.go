package main

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A worker holds each deadline until it comes. Then it cancels the order, if the order was not paid.
func TestWorker(t *testing.T) {
	for _, wheel := range []bool{true, false} {
		t.Run(fmt.Sprint("wheel=", wheel), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, fmt.Sprint("-wheel=", wheel), "-window=1s", "-lease=1m")
			f.mustHire()
			f.mustHire()
			deadlines := make(map[string]time.Time)
			for i := range 20 {
				id := fmt.Sprint(i)
				deadlines[id] = f.mustPlace(id, time.Second+time.Duration(i)*50*time.Millisecond)
				if i%4 == 0 {
					f.mustPlaceDeadline(id, deadlines[id]) // as after a lost answer
				}
			}
			f.mustEnd("18", paid) // without telling the workers
			f.mustPlaceDeadline("no-order", time.Now().Add(100*time.Millisecond))

			b := f.awaitQuiet(t, 21)
			require.NoError(t, b.verify(nil, time.Now()))
			require.Equal(t, []int{19, 1, 1}, []int{b.count(canceled), b.count(paid), b.count(void)})
			require.EqualValues(t, 1, f.tally.voided.Load())
			require.Positive(t, f.tally.ended.Load())
			require.Zero(t, f.holding())
			for id, deadline := range deadlines {
				require.True(t, b.last(id).Deadline.Equal(deadline))
			}
		})
	}
}

// While a worker sends signs of life, no other worker gets its deadlines. On a busy machine a sign may come too late
// for a short lease. Then the test tries a lease twice as long.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	for lease := 600 * time.Millisecond; ; lease *= 2 {
		f := newFixture(t, "-window=1m", fmt.Sprint("-lease=", lease))
		f.mustHire()
		f.mustHire()
		f.mustPlace("a", 4*lease)
		b := f.awaitQuiet(t, 1)
		delivery, taken, signs := b.last("a").Delivery, f.tally.taken.Load(), f.tally.signs.Load()
		if delivery == 1 && taken == 1 && signs >= 5 { // the worker sends one after two thirds of a lease
			return
		}
		t.Logf("a lease of %v: taken %d times, %d signs of life, ended by delivery %d", lease, taken, signs, delivery)
		require.Less(t, lease, 8*time.Second, "too short in each try")
		f.stop()
	}
}

// The deadlines of a worker that is killed come to another worker when the lease is over. Those of a
// worker that stops come at once.
func TestWorkerEnds(t *testing.T) {
	for _, how := range []string{"killed", "stopped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			lease := "-lease=1m" // longer than the test waits
			if how == "killed" {
				lease = "-lease=1s"
			}
			f := newFixture(t, "-window=1m", lease)
			first := f.mustHire()
			const n = 50
			for i := range n {
				f.mustPlace(fmt.Sprint(i), 5*time.Second+time.Duration(i)*10*time.Millisecond)
			}
			await(t, "held", func() bool { return first.held.Len() == n })
			second := f.mustHire()
			start := time.Now()
			if how == "killed" {
				require.Equal(t, n, f.kill())
			} else {
				f.workers = f.workers[1:]
				first.stop()
			}
			await(t, "taken over", func() bool { return second.held.Len() == n })
			t.Logf("taken over within %v", time.Since(start))
			b := f.awaitQuiet(t, n)
			require.NoError(t, b.verify(nil, time.Now()))
			require.Equal(t, n, b.count(canceled))
			for id := range b.orders {
				require.Equal(t, second.name, b.last(id).By)
				require.Equal(t, 2, b.last(id).Delivery)
			}
		})
	}
}

// A worker does not acknowledge a deadline that it holds when the deadline is delivered again.
func TestDeliveredAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "-window=1h", "-lease=500ms")
	w := f.mustHire()
	f.mustPlaceDeadline("a", time.Now().Add(time.Minute))
	await(t, "held", func() bool { return w.held.Len() == 1 })
	w.client.wire.cut()
	time.Sleep(time.Second) // two leases
	w.client.wire.mend()
	await(t, "delivered again", func() bool { return f.tally.taken.Load() == 2 })
	require.Equal(t, 1, w.held.Len())
	require.NoError(t, w.client.nc.FlushTimeout(far))
	require.Contains(t, f.mustRead().waiting, "a")
	f.kill()
	w = f.mustHire()
	await(t, "the other worker holds it", func() bool { return w.held.Len() == 1 })
}

// If two messages are for the deadline of one order, a worker keeps one of them.
func TestPlacedTwice(t *testing.T) {
	f := newFixture(t, "-window=1h", "-lease=1m")
	w := f.mustHire()
	for range 2 {
		f.mustPlaceDeadline("a", time.Now().Add(time.Minute))
	}
	await(t, "one is acknowledged", func() bool {
		info, err := f.client.deadlines.stream.Info(t.Context())
		return err == nil && info.State.LastSeq == 2 && info.State.Msgs == 1
	})
	require.EqualValues(t, 2, f.tally.taken.Load())
	require.Equal(t, 1, w.held.Len())
}

// A worker holds all near deadlines. By default the server would stop at a thousand.
func TestWorkerHoldsMany(t *testing.T) {
	f := newFixture(t, "-window=1h", "-lease=1m")
	w := f.mustHire()
	const n = 1100
	for i := range n {
		f.mustPlaceDeadline(fmt.Sprint(i), time.Now().Add(time.Minute))
	}
	await(t, "held", func() bool { return w.held.Len() == n })
}

// A message that cannot be parsed is not delivered forever.
func TestBadMessages(t *testing.T) {
	f := newFixture(t)
	f.mustHire()
	_, err := f.client.js.Publish(t.Context(), dueSubject+"a", []byte("soon"))
	require.NoError(t, err)
	_, err = f.client.ledger.kv.Put(t.Context(), "b", []byte("an order"))
	require.NoError(t, err)
	f.mustPlaceDeadline("b", time.Now())
	await(t, "both are dropped", func() bool {
		info, err := f.client.deadlines.stream.Info(t.Context())
		return err == nil && info.State.LastSeq == 2 && info.State.Msgs == 0
	})
	require.EqualValues(t, 2, f.tally.failed.Load())
	_, err = f.client.readBooks(t.Context())
	require.ErrorContains(t, err, "order b: not an order")
}

// After the consumer is deleted and made again, the worker finds it, although the library ends a pull of
// a deleted consumer.
func TestConsumerIsMadeAnew(t *testing.T) {
	f := newFixture(t, "-window=1h", "-lease=1m")
	f.mustHire()
	consumer, err := f.client.js.Consumer(t.Context(), streamName, consumerName)
	require.NoError(t, err)
	for i := range 2 {
		await(t, "the worker pulls", func() bool {
			info, err := consumer.Info(t.Context())
			return err == nil && info.NumWaiting == 1
		})
		require.NoError(t, f.client.js.DeleteConsumer(t.Context(), streamName, consumerName))
		require.NoError(t, setUp(t.Context(), f.client.js, f.opts.lease, 0))
		f.mustPlace(fmt.Sprint(i), 500*time.Millisecond)
		f.awaitQuiet(t, i+1)
	}
}

// A worker that is cut off continues, and comes back when another worker holds its deadlines too.
func TestWorkerCutOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "-window=1m", "-lease=500ms")
	first := f.mustHire()
	const n = 50
	for i := range n {
		f.mustPlace(fmt.Sprint(i), 5*time.Second)
	}
	await(t, "held", func() bool { return first.held.Len() == n })
	second := f.mustHire()
	first.client.wire.cut()
	await(t, "taken over", func() bool { return second.held.Len() == n })
	first.client.wire.mend()
	await(t, "back", first.client.nc.IsConnected)
	require.Equal(t, n, first.held.Len(), "both hold all")

	b := f.awaitQuiet(t, n)
	require.NoError(t, b.verify(nil, time.Now()))
	require.Equal(t, n, b.count(canceled))
	await(t, "both have seen the end of each order", func() bool { return first.held.Len()+second.held.Len() == 0 })
}

// If the clock of a worker is set, the worker goes by the clock, and not by the time that has passed.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "-window=1h", "-lease=900ms")
	w := f.mustHire()
	var step atomic.Int64
	w.client.ledger.now = func() time.Time { return time.Now().Add(time.Duration(step.Load())) }

	// The clock is set back after the timeout was armed. The timeout fires too soon, so the worker waits longer.
	back := f.mustPlace("back", time.Second)
	await(t, "held", func() bool { return w.held.Len() == 1 })
	step.Store(int64(-2 * time.Second))
	b := f.awaitQuiet(t, 1)
	require.NoError(t, b.verify(nil, time.Now()))
	late := b.orders["back"][1].stored.Sub(back)
	require.GreaterOrEqual(t, late, 2*time.Second)

	// The clock is set forward. The worker notices it when the next sign of life is due.
	ahead := f.mustPlace("ahead", time.Minute)
	await(t, "held", func() bool { return w.held.Len() == 1 })
	step.Store(int64(time.Hour))
	b = f.awaitQuiet(t, 2)
	require.Equal(t, canceled, b.last("ahead").State)
	require.True(t, b.orders["ahead"][1].stored.Before(ahead), "the server's clock was not set")
}
