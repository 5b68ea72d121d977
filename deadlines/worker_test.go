package deadlines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Each deadline goes to one of the workers, not before its time by the clock of the server.
func TestWork(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	a, b := mustOpen(t, url, quick()), mustOpen(t, url, quick())
	workers := []*testWorker{a.mustWork(t, nil), b.mustWork(t, nil)}
	at := make(map[string]time.Time)
	for i := range 60 {
		key := fmt.Sprint(i)
		at[key] = a.mustSet(t, key, time.Duration(i-10)*40*time.Millisecond)
	}
	for key := range at {
		a.awaitStatus(t, key, Handled)
		calls := append(workers[0].of(key), workers[1].of(key)...)
		require.NotEmpty(t, calls)
		require.False(t, calls[0].began.Before(at[key]), "%s is early", key)
		require.True(t, calls[0].At.Equal(at[key]))
		require.Equal(t, "payload of "+key, string(calls[0].Payload))
		require.Equal(t, 1, calls[0].Attempts)
	}
	r := a.mustCheck(t)
	require.Equal(t, 60, r.Handled)
	require.Zero(t, r.Overdue)
	await(t, "all is acknowledged", func() bool { return a.mustCheck(t).Wakeups == 0 })
	require.EqualValues(t, 60, a.Stats().Handled+b.Stats().Handled)
	await(t, "nothing is held", func() bool {
		st := a.Stats()
		return st.Held+st.Running+st.Overdue+st.Undelivered+st.Delivered == 0
	})
}

// A handler that fails or panics is called again, after growing delays. Its error can be read meanwhile.
func TestFailures(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	c := s.mustWork(t, func(_ context.Context, d Deadline) error {
		switch d.Attempts {
		case 1:
			return errors.New("bad luck")
		case 2:
			panic("worse luck")
		}
		return nil
	})
	s.mustSet(t, "a", 0)
	s.awaitStatus(t, "a", Handled)
	calls := c.of("a")
	require.Len(t, calls, 3)
	require.Equal(t, "bad luck", calls[1].Error)
	require.Equal(t, "panic: worse luck", calls[2].Error)
	require.Contains(t, l.String(), "worker_test.go", "the stack of the panic")
	st := s.Stats()
	require.EqualValues(t, 2, st.Failures)
	require.EqualValues(t, 2, st.Redelivered)
	s.mustCheck(t)
}

// Between two calls a deadline that fails can be canceled or moved.
func TestCancelBetweenAttempts(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.MinBackoff = 500 * time.Millisecond
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	c := s.mustWork(t, func(context.Context, Deadline) error { return errors.New("no") })
	s.mustSet(t, "canceled", 0)
	s.mustSet(t, "moved", 0)
	for _, key := range []string{"canceled", "moved"} {
		await(t, "it fails", func() bool {
			d := s.mustGet(t, key)
			return d.Status == Pending && d.Error == "no"
		})
	}
	ok, err := s.Cancel(t.Context(), "canceled")
	require.NoError(t, err)
	require.True(t, ok)
	calls := len(c.of("canceled"))
	ok, err = s.Move(t.Context(), "moved", time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.True(t, ok)
	await(t, "the wake-ups of the failures are dropped", func() bool { return s.mustCheck(t).Wakeups == 1 })
	require.Len(t, c.of("canceled"), calls)
}

// A deadline whose handler runs is not pending. Set makes it pending again, and the present call changes nothing.
func TestSetWhileRunning(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	running, release := make(chan bool), make(chan bool)
	c := s.mustWork(t, func(_ context.Context, d Deadline) error {
		if string(d.Payload) == "payload of a" {
			running <- true
			<-release
		}
		return nil
	})
	s.mustSet(t, "a", 0)
	<-running
	for name, call := range map[string]func() (bool, error){
		"move":   func() (bool, error) { return s.Move(t.Context(), "a", time.Now()) },
		"cancel": func() (bool, error) { return s.Cancel(t.Context(), "a") },
	} {
		ok, err := call()
		require.NoError(t, err)
		require.False(t, ok, name)
	}
	require.NoError(t, s.Set(t.Context(), "a", time.Now().Add(time.Hour), []byte("second")))
	release <- true
	await(t, "only the wake-up of the second is left", func() bool { return s.mustCheck(t).Wakeups == 1 })
	d := s.mustGet(t, "a")
	require.Equal(t, Pending, d.Status)
	require.Equal(t, "second", string(d.Payload))
	require.Len(t, c.of("a"), 1)
}

// While a handler runs for longer than a lease, no other worker calls it.
func TestLongHandler(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Lease = 3 * time.Second // so that a busy machine sends a sign of life in time
	url := serve(t).ClientURL()
	a, b := mustOpen(t, url, cfg), mustOpen(t, url, cfg)
	var calls atomic.Int64
	slow := func(context.Context, Deadline) error {
		calls.Add(1)
		time.Sleep(2 * cfg.Lease)
		return nil
	}
	a.mustWork(t, slow)
	b.mustWork(t, slow)
	a.mustSet(t, "a", 0)
	a.awaitStatus(t, "a", Handled)
	require.EqualValues(t, 1, calls.Load())
	a.mustCheck(t)
}

// A worker that stops hands its deadlines to others at once. Its handlers end first.
func TestStop(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Lease = time.Minute
	url := serve(t).ClientURL()
	a, b := mustOpen(t, url, cfg), mustOpen(t, url, cfg)
	begun := make(chan bool)
	first := a.mustWork(t, func(ctx context.Context, d Deadline) error {
		if d.Key == "running" {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	at := a.mustSet(t, "held", 3*time.Second)
	a.mustSet(t, "running", 0)
	<-begun
	await(t, "one is held besides", func() bool { return a.Stats().Held == 2 })
	first.stop()
	require.Zero(t, a.Stats().Held)
	require.Zero(t, a.Stats().Running)
	require.Equal(t, Pending, a.mustGet(t, "running").Status)
	second := b.mustWork(t, nil)
	b.awaitStatus(t, "running", Handled)
	b.awaitStatus(t, "held", Handled)
	require.False(t, second.of("held")[0].began.Before(at))
	require.Less(t, time.Since(at), cfg.Lease/2, "it did not wait for the lease")
	b.mustCheck(t)
}

// A worker that dies loses its lease, and another one calls the handler again.
func TestDeadWorker(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	a, b := mustOpen(t, url, quick()), mustOpen(t, url, quick())
	begun, release := make(chan bool), make(chan bool)
	work := make(chan error)
	go func() {
		work <- a.Work(t.Context(), func(ctx context.Context, d Deadline) error {
			close(begun)
			<-release
			return nil
		})
	}()
	a.mustSet(t, "running", 0)
	<-begun
	a.link().nc.Close() // nothing more is sent
	second := b.mustWork(t, nil)
	b.awaitStatus(t, "running", Handled)
	require.Equal(t, 2, second.of("running")[0].Attempts)
	close(release)
	require.ErrorIs(t, <-work, nats.ErrConnectionClosed)
	b.mustCheck(t)
}

// When two workers call the handler at a time, because the lease of the first one ended, the first success counts.
func TestTwoCalls(t *testing.T) {
	for _, failure := range []error{nil, errors.New("too late")} {
		t.Run(fmt.Sprint(failure), func(t *testing.T) {
			t.Parallel()
			url := serve(t).ClientURL()
			a, b := mustOpen(t, url, quick()), mustOpen(t, url, quick())
			var gates [2]struct{ begun, release chan bool }
			for i := range gates {
				gates[i].begun, gates[i].release = make(chan bool), make(chan bool)
			}
			var n atomic.Int64
			handle := func(context.Context, Deadline) error {
				i := n.Add(1) - 1
				if i > 1 {
					return nil
				}
				gates[i].begun <- true
				<-gates[i].release
				if i == 0 {
					return failure
				}
				return nil
			}
			a.mustWork(t, handle)
			a.mustSet(t, "a", 0)
			<-gates[0].begun
			r, err := a.load(t.Context(), "a")
			require.NoError(t, err)
			// As if the lease had ended: the server delivers the wake-up once more.
			var once sync.Once
			h := &held{msg: silent{}, w: &worker{Store: b, ctx: t.Context(), last: t.Context(), handle: handle}, token: r.Token,
				wakeup: wakeup{Key: "a", At: r.At}, delivery: r.Delivery + 1, signed: time.Now()}
			claimed, err := h.claim(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, claimed.Attempts)
			go once.Do(func() { h.w.protect(claimed.deadline("a")) })
			<-gates[1].begun

			gates[0].release <- true
			if failure == nil {
				a.awaitStatus(t, "a", Handled)
			} else {
				await(t, "the first has ended", func() bool { return a.Stats().Running == 0 })
				require.Equal(t, Running, a.mustGet(t, "a").Status, "the second call goes on")
			}
			gates[1].release <- true
			_, err = h.conclude(t.Context(), claimed, nil)
			require.NoError(t, err)
			a.awaitStatus(t, "a", Handled)
			require.Equal(t, 2, a.mustGet(t, "a").Attempts)
			a.mustCheck(t)
		})
	}
}

// A silent message sends nothing.
type silent struct{ jetstream.Msg }

func (silent) InProgress() error { return nil }

// Of a deadline that two workers have, only the one of the later delivery may claim it.
func TestClaimOfAnEarlierDelivery(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.mustSet(t, "a", 0)
	r, err := s.load(t.Context(), "a")
	require.NoError(t, err)
	w := &worker{Store: s, ctx: t.Context(), last: t.Context()}
	holds := func(delivery uint64) *held {
		s.counts.held.Add(1)
		return &held{w: w, msg: silent{}, token: r.Token, wakeup: wakeup{Key: "a", At: r.At}, delivery: delivery, signed: time.Now()}
	}
	second := holds(2)
	claimed, err := second.claim(t.Context())
	require.NoError(t, err)
	require.NotNil(t, claimed)
	for _, delivery := range []uint64{1, 2} {
		claimed, err = holds(delivery).claim(t.Context())
		require.NoError(t, err)
		require.Nil(t, claimed, "delivery %d", delivery)
	}
	claimed, err = second.claim(t.Context())
	require.NoError(t, err)
	require.NotNil(t, claimed, "the answer to its first claim may have been lost")
	require.Equal(t, 1, claimed.Attempts)
	claimed, err = holds(3).claim(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, claimed.Attempts)
}

// A worker that holds all it can, or whose handlers are all busy, leaves the rest to others.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Concurrency = 2
	cfg.Lease = 30 * time.Second
	url := serve(t).ClientURL()
	a := mustOpen(t, url, cfg)
	release := make(chan bool)
	a.mustWork(t, func(ctx context.Context, _ Deadline) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	for i := range 10 {
		a.mustSet(t, fmt.Sprint(i), -time.Hour)
	}
	await(t, "two run, and two wait", func() bool { st := a.Stats(); return st.Running == 2 && st.Held == 4 })
	close(release)
	for i := range 10 {
		a.awaitStatus(t, fmt.Sprint(i), Handled)
	}
}

// If somebody deletes the consumer, it is made again, and its deadlines are delivered again.
func TestConsumerDeleted(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	c := s.mustWork(t, nil)
	at := s.mustSet(t, "held", 400*time.Millisecond)
	await(t, "it is held", func() bool { return s.Stats().Held == 1 })
	require.NoError(t, s.link().wakeups.DeleteConsumer(t.Context(), consumerName))
	s.mustSet(t, "next", 0)
	s.awaitStatus(t, "held", Handled)
	s.awaitStatus(t, "next", Handled)
	require.False(t, c.of("held")[0].began.Before(at))
	await(t, "all is acknowledged", func() bool { return s.mustCheck(t).Wakeups == 0 })
}

// If the clocks differ by more than a lease, a worker says so and does not act until they agree.
func TestClockOff(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	var shift atomic.Int64
	shift.Store(int64(-2 * cfg.Lease))
	s.Close() // so that nothing reads the clock while it is changed
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.clock.wall = func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
	s.watch()
	c := s.mustWork(t, nil)
	s.mustSet(t, "a", 0)
	await(t, "it says so", func() bool { return strings.Contains(l.String(), "the clocks differ by more than a lease") })
	require.Less(t, s.Stats().Skew, -cfg.Lease)
	require.Empty(t, c.of("a"))
	require.Equal(t, Pending, s.mustGet(t, "a").Status)
	shift.Store(0)
	s.awaitStatus(t, "a", Handled)
	require.Len(t, c.of("a"), 1)
	await(t, "it says so", func() bool { return strings.Contains(l.String(), "the clocks agree again") })
}

func TestBackoff(t *testing.T) {
	s := &Store{cfg: Config{MinBackoff: time.Second, MaxBackoff: time.Minute}}
	for attempts, mean := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 7: time.Minute, 100: time.Minute} {
		var sum time.Duration
		for range 1000 {
			d := s.backoff(attempts)
			require.GreaterOrEqual(t, d, mean/2)
			require.LessOrEqual(t, d, mean*3/2)
			sum += d
		}
		require.InEpsilon(t, mean, sum/1000, 0.1)
	}
}

// The longest delays do not overflow, whatever the number of failures is.
func TestLargeBackoff(t *testing.T) {
	s := &Store{cfg: Config{MinBackoff: 1<<41 + 1, MaxBackoff: maxDelay}} // shifted by 23, it is 8 ms
	for failures := range 200 {
		least := maxDelay
		if failures < 14 {
			least = s.cfg.MinBackoff << failures
		}
		require.GreaterOrEqual(t, s.backoff(failures+1), least/2, failures)
	}
}

// Wake-ups that no worker can handle, as an earlier version stored for a key that is too long, or another program, are
// set aside. Workers go on, and Check reports each.
func TestSetAside(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	ctx := t.Context()
	long := strings.Repeat("k", 4096)
	require.NoError(t, s.wake(ctx, "long", wakeup{Key: long, At: time.Now()}))
	require.NoError(t, s.wake(ctx, "later", wakeup{Key: long, At: time.Now().Add(time.Second)}))
	require.NoError(t, s.wake(ctx, "wild", wakeup{Key: "a.*", At: time.Now()}))
	_, err := s.link().js.Publish(ctx, s.subject("due", "other"), []byte(strings.Repeat("x", 1<<20)))
	require.NoError(t, err)
	s.mustWork(t, nil)
	s.mustWork(t, nil)
	s.mustSet(t, "key", 0)
	s.awaitStatus(t, "key", Handled)
	var r *Report
	await(t, "all are set aside", func() bool {
		r, err = Check(ctx, s.link().nc, s.cfg.Name)
		require.NoError(t, err)
		return r.Aside == 4 && r.Wakeups == 0
	})
	require.Equal(t, 4, r.Faults)
	faults := strings.Join(r.FirstFaults, "\n")
	require.Contains(t, faults, `the wake-up long is set aside: key "kkkk`)
	require.Contains(t, faults, `... (4096 bytes): nats: invalid key`)
	require.Contains(t, faults, `the wake-up wild is set aside: key "a.*"`)
	require.Contains(t, faults, `the wake-up other is set aside: not a wake-up: "xxx`)
	require.Less(t, len(faults), 2000)
	s.flood.flush()
	require.Equal(t, 2, strings.Count(l.String(), "is set aside"), "the first one, and the sum")
	require.Contains(t, l.String(), "times=3")
	require.True(t, s.link().nc.IsConnected())
	require.Zero(t, s.link().nc.Stats().Reconnects)
	repaired, err := s.Repair(ctx, r)
	require.NoError(t, err)
	require.Zero(t, repaired)
}
