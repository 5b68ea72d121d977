package deadlines

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// requireUnsafe waits until the store is unsafe for a reason. The figures, the log, Set and Open say so.
func requireUnsafe(t *testing.T, s *Store, l *log, want string) {
	t.Helper()
	await(t, "the figures say so: "+want, func() bool { return s.Stats().Unsafe && strings.Contains(s.danger().Error(), want) })
	await(t, "the log says so: "+want, func() bool { return strings.Contains(strings.ReplaceAll(l.String(), `\"`, `"`), want) })
	err := s.Set(t.Context(), "refused", time.Now(), nil)
	require.ErrorIs(t, err, ErrMismatch)
	require.ErrorContains(t, err, want)
}

// Someone removes the bucket and makes it again, by hand or by another program. The processes notice that the deadlines
// are gone: a Set is refused, and workers call no handler whose end could not be stored. So does one that is opened later.
func TestBucketMadeAgain(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger, cfg.Retain = l.logger(), time.Hour
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	js, ctx := s.link().js, t.Context()
	const n = 300
	for i := range n {
		s.mustSet(t, fmt.Sprint(i), time.Hour)
	}
	c := s.mustWork(t, nil)
	config := s.link().records.CachedInfo().Config
	require.NoError(t, js.DeleteStream(ctx, s.bucketName()))
	_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: s.cfg.Name})
	require.NoError(t, err)
	requireUnsafe(t, s, &l, "the stream KV_deadlines was made again at ")
	require.ErrorContains(t, s.danger(), "so all deadlines that were set before are gone; restore it from a backup")
	require.ErrorContains(t, s.danger(), "the bucket was made by another program, because its metadata has no hashedwheel-lease")
	require.ErrorContains(t, s.danger(), "the stream KV_deadlines removes no single message after its time (allow_msg_ttl)")
	require.ErrorContains(t, s.danger(), "; the workers call no handler meanwhile")
	_, err = Open(ctx, s.link().nc, quick())
	require.ErrorIs(t, err, ErrMismatch)

	// A Set that had just begun has stored a record.
	r := record{Status: Pending, At: time.Now(), Token: newToken(time.Now())}
	require.NoError(t, s.wake(ctx, r.Token, wakeup{Key: "late", At: r.At}))
	_, err = s.link().bucket.Put(ctx, "late", r.encode())
	require.NoError(t, err)
	time.Sleep(2 * s.cfg.Lease)
	require.Empty(t, c.of("late"))
	require.NotContains(t, l.String(), "the store is safe again")

	// With the settings of the store it is still another bucket.
	require.NoError(t, js.DeleteStream(ctx, s.bucketName()))
	brief, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = Open(brief, s.link().nc, quick())
	require.ErrorContains(t, err, "no stream: KV_deadlines is gone with all deadlines, and deadlines-wakeups is there")
	config.Metadata = map[string]string{leaseKey: "1s", idKey: "another"}
	_, err = js.CreateStream(ctx, config)
	require.NoError(t, err)
	await(t, "the settings are noticed", func() bool {
		return s.danger() != nil && strings.Contains(s.danger().Error(), "made again at") && !strings.Contains(s.danger().Error(), "allow_msg_ttl")
	})
	requireUnsafe(t, s, &l, "the stream KV_deadlines was made again at ")
	mustOpen(t, s.link().nc.ConnectedUrl(), quick())
}

// Two first Opens at once agree on the streams. Servers before 2.15 may change the time of creation then. The ID in the
// metadata stays, so that counts as the same bucket, and as the same stream of wake-ups.
func TestTimeOfCreationChanges(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	var opened sync.WaitGroup
	var stores [4]*Store
	var errs [len(stores)]error
	for i := range stores {
		nc, err := Connect(url)
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		opened.Go(func() { stores[i], errs[i] = Open(t.Context(), nc, cfg) })
	}
	opened.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	s := stores[0]
	for _, other := range stores {
		other.Close() // so that only the test looks
		require.NotEmpty(t, other.bucket.id)
		require.Equal(t, s.bucket, other.bucket)
		require.NotEmpty(t, other.wakeups.id)
		require.Equal(t, s.wakeups, other.wakeups)
	}
	s.mustLook(t)
	s.bucket.made--
	s.wakeups.made--
	s.mustLook(t)
	require.NoError(t, s.danger())
	require.NotContains(t, l.String(), "level=ERROR")
	s.bucketLast++ // as of a leader that has been replaced
	s.mustLook(t)
	require.NoError(t, s.danger(), "it was the same before")

	s.bucket.made--
	s.bucket.id = "another"
	s.mustLook(t)
	require.ErrorContains(t, s.danger(), "was made again at")
}

func (s *Store) mustLook(t *testing.T) {
	t.Helper()
	require.NoError(t, s.look(t.Context()))
}

// An earlier version has made the streams, without an ID. The time of creation tells them from others.
func TestStreamsWithoutID(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.Close()
	for _, name := range []string{s.bucketName(), s.wakeupsName()} {
		stream, err := s.link().js.Stream(t.Context(), name)
		require.NoError(t, err)
		c := stream.CachedInfo().Config
		delete(c.Metadata, idKey)
		_, err = s.link().js.UpdateStream(t.Context(), c)
		require.NoError(t, err)
	}
	s.mustLook(t)
	require.NoError(t, s.danger(), "it is the same bucket")
	s = mustOpen(t, s.link().nc.ConnectedUrl(), quick())
	s.Close()
	require.Empty(t, s.bucket.id)
	s.bucket.made--
	s.mustLook(t)
	require.ErrorContains(t, s.danger(), "was made again at")
}

// A backup of the bucket is restored while processes run. Its ID comes back, but what was done since is undone. That stays
// so for a process that ran, also when others have done more since than was undone. A single nats-server 2.12 brings the
// time of creation back too.
func TestBucketRestored(t *testing.T) {
	t.Parallel()
	for _, sameTime := range []bool{false, true} {
		var l log
		cfg := quick()
		cfg.Logger = l.logger()
		url := serve(t).ClientURL()
		s, other := mustOpen(t, url, cfg), mustOpen(t, url, quick())
		other.mustSet(t, "key", time.Hour)
		backup := other.backUp(t, s.bucketName())
		other.mustSet(t, "undone", time.Hour)
		s.Close() // so that only the test looks
		s.mustLook(t)
		require.NoError(t, s.danger())
		require.NoError(t, other.link().js.DeleteStream(t.Context(), s.bucketName()))
		if sameTime {
			require.ErrorIs(t, s.look(t.Context()), jetstream.ErrStreamNotFound)
		}
		backup.restore(t, other.link().nc)
		if sameTime {
			records, err := other.link().js.Stream(t.Context(), s.bucketName())
			require.NoError(t, err)
			s.bucket.made = records.CachedInfo().Created.UnixNano()
		}
		s.mustLook(t)
		const want = "an earlier state of the stream KV_deadlines was restored"
		require.ErrorContains(t, s.danger(), want)
		require.ErrorIs(t, s.danger(), ErrMismatch)

		other = mustOpen(t, url, quick())
		for i := range 10 {
			other.mustSet(t, fmt.Sprint(i), time.Hour)
		}
		s.mustLook(t)
		require.ErrorContains(t, s.danger(), want)
		require.NotContains(t, l.String(), "the store is safe again")
		require.NoError(t, other.danger(), "it was started after that")
	}
}

// A backup is what a server sends of a stream.
type backup struct {
	stream  string
	request []byte // to restore it
	chunks  [][]byte
}

func (s *Store) backUp(t *testing.T, stream string) backup {
	t.Helper()
	nc := s.link().nc
	sub, err := nc.SubscribeSync(nc.NewInbox())
	require.NoError(t, err)
	defer sub.Unsubscribe()
	answer, err := nc.Request("$JS.API.STREAM.SNAPSHOT."+stream, fmt.Appendf(nil, `{"deliver_subject":%q}`, sub.Subject), patience)
	require.NoError(t, err)
	var info struct{ Config, State json.RawMessage }
	require.NoError(t, json.Unmarshal(answer.Data, &info))
	require.NotEmpty(t, info.State, "%s", answer.Data)
	b := backup{stream: stream, request: fmt.Appendf(nil, `{"config":%s,"state":%s}`, info.Config, info.State)}
	for {
		msg, err := sub.NextMsg(patience)
		require.NoError(t, err)
		b.chunks = append(b.chunks, msg.Data)
		if len(msg.Data) == 0 { // the end
			return b
		}
		msg.Respond(nil) // so the server sends more; the last one asks for none
	}
}

func (b backup) restore(t *testing.T, nc *nats.Conn) {
	t.Helper()
	answer, err := nc.Request("$JS.API.STREAM.RESTORE."+b.stream, b.request, patience)
	require.NoError(t, err)
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	require.NoError(t, json.Unmarshal(answer.Data, &to))
	require.NotEmpty(t, to.Subject, "%s", answer.Data)
	for _, chunk := range b.chunks {
		answer, err = nc.Request(to.Subject, chunk, patience)
		require.NoError(t, err)
	}
	require.NotContains(t, string(answer.Data), `"error"`)
}

// An operator changes settings of the streams, or of the consumer, without which the store does not keep its promises. A
// process that is running notices each within a lease, and so does Open.
func TestSettingsChanged(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(records, wakeups *jetstream.StreamConfig, consumer *jetstream.ConsumerConfig){
		"its lease is 1s, but the consumer waits for 200ms (ack_wait)":                func(_, _ *jetstream.StreamConfig, c *jetstream.ConsumerConfig) { c.AckWait = 200 * time.Millisecond },
		"its lease is 1s, but the consumer waits for 1h0m0s (ack_wait)":               func(_, _ *jetstream.StreamConfig, c *jetstream.ConsumerConfig) { c.AckWait = time.Hour },
		"the consumer workers delivers only 10 deadlines at a time (max_ack_pending)": func(_, _ *jetstream.StreamConfig, c *jetstream.ConsumerConfig) { c.MaxAckPending = 10 },
		"the consumer workers delivers no data (headers_only)":                        func(_, _ *jetstream.StreamConfig, c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
		"the consumer workers waits for [200ms] in place of the lease (backoff)": func(_, _ *jetstream.StreamConfig, c *jetstream.ConsumerConfig) {
			c.BackOff, c.MaxDeliver = []time.Duration{200 * time.Millisecond}, 100
		},
		"its lease is 2s, not 1s": func(records, _ *jetstream.StreamConfig, _ *jetstream.ConsumerConfig) {
			records.Metadata = map[string]string{leaseKey: "2s"}
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			var l log
			cfg := quick()
			cfg.Logger, cfg.MaxBackoff = l.logger(), cfg.MinBackoff
			s := mustOpen(t, serve(t).ClientURL(), cfg)
			c := s.mustWork(t, func(_ context.Context, d Deadline) error {
				if d.Key == "running" {
					time.Sleep(4 * time.Second)
				}
				return nil
			})
			s.mustSet(t, "running", 0)
			await(t, "it runs", func() bool { return len(c.of("running")) == 1 })
			records, err := s.link().js.Stream(t.Context(), s.bucketName())
			require.NoError(t, err)
			consumer, err := s.link().wakeups.Consumer(t.Context(), consumerName)
			require.NoError(t, err)
			was, wasRecords := consumer.CachedInfo().Config, records.CachedInfo().Config
			now, nowRecords := was, wasRecords
			change(&nowRecords, nil, &now)
			update := func(records jetstream.StreamConfig, consumer jetstream.ConsumerConfig) {
				_, err := s.link().js.UpdateStream(t.Context(), records)
				require.NoError(t, err)
				_, err = s.link().wakeups.UpdateConsumer(t.Context(), consumer)
				require.NoError(t, err)
			}
			update(nowRecords, now)
			requireUnsafe(t, s, &l, want)
			_, err = Open(t.Context(), s.link().nc, Config{Lease: 1 * time.Second})
			require.ErrorIs(t, err, ErrMismatch)
			time.Sleep(2 * time.Second)
			update(wasRecords, was)
			await(t, "it is safe again", func() bool { return !s.Stats().Unsafe })
			s.awaitStatus(t, "running", Handled)
			s.mustSet(t, "key", 0)
			s.awaitStatus(t, "key", Handled)
			require.Len(t, c.of("running"), 1)
			require.NotContains(t, l.String(), "has died")
			require.Zero(t, s.Stats().Aside)
		})
	}
}

// An operator takes replicas away. Processes that have set their deadlines for three servers refuse to set more.
func TestReplicasRemoved(t *testing.T) {
	t.Parallel()
	urls, _ := serveCluster(t, 3)
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, urls, cfg)
	for _, name := range []string{s.bucketName(), s.wakeupsName()} {
		replicas := func(n int) {
			stream, err := s.link().js.Stream(t.Context(), name)
			require.NoError(t, err)
			c := stream.CachedInfo().Config
			c.Replicas = n
			_, err = s.link().js.UpdateStream(t.Context(), c)
			require.NoError(t, err)
		}
		replicas(1)
		requireUnsafe(t, s, &l, "the stream "+name+" has 1 replicas, not 3 (num_replicas)")
		replicas(3)
		await(t, "it is safe again", func() bool { return !s.Stats().Unsafe })
	}
}

// An operator pauses the consumer. That is told at once, and what comes meanwhile is overdue. Nothing is lost, so a Set
// succeeds, and so does Open.
func TestConsumerPaused(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	s.mustWork(t, nil)
	_, err := s.link().wakeups.PauseConsumer(t.Context(), consumerName, time.Now().Add(time.Hour))
	require.NoError(t, err)
	paused := time.Now()
	await(t, "the figures say so", func() bool { return s.Stats().Unsafe })
	require.Less(t, time.Since(paused), 10*time.Second)
	require.Contains(t, l.String(), "the consumer workers is paused until ")
	const n = 50
	for i := range n {
		s.mustSet(t, fmt.Sprint(i), 0)
	}
	s.mustSet(t, "later", time.Hour)
	await(t, "they are overdue", func() bool { return s.Stats().Overdue == n })
	mustOpen(t, s.link().nc.ConnectedUrl(), quick())
	_, err = s.link().wakeups.ResumeConsumer(t.Context(), consumerName)
	require.NoError(t, err)
	await(t, "it is safe again", func() bool { return !s.Stats().Unsafe })
	for i := range n {
		s.awaitStatus(t, fmt.Sprint(i), Handled)
	}
	await(t, "none is overdue", func() bool { return s.Stats().Overdue == 0 })
}
