package deadlines

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// limitRecords makes the bucket refuse more than n bytes, as an operator can, or takes that limit away.
func (s *Store) limitRecords(t *testing.T, n int64) {
	t.Helper()
	stream, err := s.link().js.Stream(t.Context(), s.bucketName())
	require.NoError(t, err)
	c := stream.CachedInfo().Config
	c.MaxBytes, c.Discard = n, jetstream.DiscardNew
	_, err = s.link().js.UpdateStream(t.Context(), c)
	require.NoError(t, err)
}

// A repair fails in the middle, because a limit of the bucket is reached. The figures of all processes say how many
// deadlines are still without a wake-up, and never less than none. The log says that it is tried again. When the limit is
// raised, that mends the rest within seconds.
func TestRepairFails(t *testing.T) {
	t.Parallel()
	const n = 400
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	url := serve(t).ClientURL()
	s, other := mustOpen(t, url, cfg), mustOpen(t, url, quick())
	for i := range n {
		s.mustSet(t, fmt.Sprint(i), 20*time.Second) // near, so a repair stores their records
	}
	require.NoError(t, s.link().wakeups.Purge(t.Context()))
	info, err := s.link().records.Info(t.Context())
	require.NoError(t, err)
	s.limitRecords(t, int64(info.State.Bytes)*3/2)
	s.mustWork(t, nil)
	await(t, "it has failed", func() bool {
		return strings.Contains(l.String(), "deadlines: the search for deadlines without wake-ups has failed, and is tried again")
	})
	require.Contains(t, l.String(), `deadlines could not be set again, the first one because deadlines: repair `)
	left := s.Stats().Stranded
	require.Positive(t, left)
	require.GreaterOrEqual(t, left, n-int(s.Stats().Repaired))
	require.Less(t, left, n, "it is counted down")
	other.mustWork(t, nil)
	await(t, "the other process knows", func() bool { return other.Stats().Stranded > 0 })

	s.limitRecords(t, -1)
	began := time.Now()
	await(t, "all are set again", func() bool {
		require.GreaterOrEqual(t, s.Stats().Stranded, 0)
		require.GreaterOrEqual(t, other.Stats().Stranded, 0)
		r, err := Check(t.Context(), s.link().nc, s.cfg.Name)
		return err == nil && r.Faults == 0
	})
	require.Less(t, time.Since(began), auditAgain/2, "the next audit is not waited for")
	await(t, "none is stranded", func() bool { return s.Stats().Stranded == 0 })
	s.mustCheck(t)
}

// A process that asks whether it is its turn, while it is, takes itself for no other process. Its figures stay.
func TestOwnTurn(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	s, other := mustOpen(t, url, quick()), mustOpen(t, url, quick())
	s.counts.stranded.Store(7)
	_, err := s.storeTurn(0, turnTTL)
	require.NoError(t, err)
	s.takeTurn()
	require.Equal(t, 7, s.Stats().Stranded)
	other.takeTurn()
	require.Equal(t, 7, other.Stats().Stranded, "another process knows how many")

	// A process that has died in an audit does not hold up the others for long.
	msg, err := s.link().wakeups.GetLastMsgForSubject(t.Context(), s.subject("probe", "audit"))
	require.NoError(t, err)
	ttl, err := time.ParseDuration(msg.Header.Get(jetstream.MsgTTLHeader))
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, time.Minute)
}

// A request for the turn of the audit fails. The number of stranded deadlines that was known before stays.
func TestTurnCannotBeRead(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	s, other := mustOpen(t, url, quick()), mustOpen(t, url, quick())
	other.Close() // so that only the test asks
	other.ctx = t.Context()
	s.counts.stranded.Store(7)
	_, err := s.storeTurn(0, turnTTL)
	require.NoError(t, err)
	other.takeTurn()
	require.Equal(t, 7, other.Stats().Stranded)
	other.fails(func() error { return nil }, func(string) error { return errors.New("it fails") })
	other.takeTurn()
	require.Equal(t, 7, other.Stats().Stranded)
}

// Repair sets the earliest deadlines first, and many at a time. One that cannot be set holds up no other one.
func TestRepairEarliestFirst(t *testing.T) {
	t.Parallel()
	const n = 500
	s := mustOpen(t, serve(t).ClientURL(), quick())
	var keys []string
	for _, i := range rand.Perm(n) {
		s.mustSet(t, fmt.Sprintf("%03d", i), time.Hour+time.Duration(i)*time.Minute)
	}
	for i := range n {
		keys = append(keys, fmt.Sprintf("%03d", i))
	}
	require.NoError(t, s.link().wakeups.Purge(t.Context()))
	report, err := Check(t.Context(), s.link().nc, s.cfg.Name)
	require.NoError(t, err)
	require.Len(t, report.stranded, n)
	_, err = s.link().bucket.Put(t.Context(), keys[3], []byte("not a record"))
	require.NoError(t, err)
	repaired, err := s.Repair(t.Context(), report)
	require.ErrorContains(t, err, "not a record")
	require.Equal(t, n-1, repaired)
	order := make(map[string]uint64)
	keys = slices.Delete(keys, 3, 4)
	for _, key := range keys {
		r, err := s.load(t.Context(), key)
		require.NoError(t, err)
		msg, err := s.link().wakeups.GetLastMsgForSubject(t.Context(), s.subject("at", r.Token))
		require.NoError(t, err)
		order[key] = msg.Sequence
	}
	stored := slices.SortedFunc(slices.Values(keys), func(a, b string) int { return int(order[a]) - int(order[b]) })
	for i, key := range stored {
		require.InDelta(t, slices.Index(keys, key), i, 2*parallelism, key)
	}
}

// One deadline cannot be set again. The others are, in the same audit, and the error says how many are left.
func TestOneKeyFails(t *testing.T) {
	t.Parallel()
	const n = 300
	s := mustOpen(t, serve(t).ClientURL(), quick())
	for i := range n {
		s.mustSet(t, fmt.Sprint(i), repairMargin-time.Second) // so a repair reads it
	}
	require.NoError(t, s.link().wakeups.Purge(t.Context()))
	inner := s.link().bucket
	s.link().bucket = badKey{inner, "7"}
	err := s.audit(t.Context())
	require.ErrorContains(t, err, `1 of 300 deadlines could not be set again, the first one because deadlines: repair "7": it fails`)
	require.EqualValues(t, n-1, s.Stats().Repaired)
	require.Equal(t, 1, s.Stats().Stranded)
	s.link().bucket = inner
	require.NoError(t, s.audit(t.Context()))
	require.Zero(t, s.Stats().Stranded)
	s.mustCheck(t)
}

// A badKey cannot be read.
type badKey struct {
	jetstream.KeyValue
	key string
}

func (b badKey) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if key == b.key {
		return nil, final{errors.New("it fails")}
	}
	return b.KeyValue.Get(ctx, key)
}

// Nothing can be stored, such as in a sealed stream. The repair ends soon, and does not try each deadline.
func TestAllKeysFail(t *testing.T) {
	t.Parallel()
	const n = 20 * parallelism
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.Close()
	s.ctx = t.Context()
	r := &Report{stranded: make(map[string]record)}
	for i := range n {
		r.stranded[fmt.Sprint(i)] = record{Status: Pending, At: time.Now().Add(time.Hour)}
	}
	var tried atomic.Int64
	s.cfg.Timeout = time.Nanosecond
	s.link().bucket = countedBucket{s.link().bucket, &tried}
	require.ErrorContains(t, s.repair(t.Context(), r, func(bool) {}), "deadlines could not be set again")
	require.Less(t, tried.Load(), int64(5*parallelism))
}

type countedBucket struct {
	jetstream.KeyValue
	tried *atomic.Int64
}

func (b countedBucket) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	b.tried.Add(1)
	return nil, errors.New("it fails")
}

// The pause after an audit that failed is no shorter than the audit was.
func TestPauseAfterAudit(t *testing.T) {
	require.Equal(t, 5*time.Second, pauseAfter(auditRetry, time.Second))
	require.Equal(t, 4*time.Minute, pauseAfter(auditRetry, 4*time.Minute))
	require.Equal(t, auditEvery, pauseAfter(auditRetry, time.Hour))
}

// Two processes set the same deadlines again at the same time, shortly after they were set. Each far one has one wake-up,
// and its record stays. A near one is called once.
func TestRepairAtOnce(t *testing.T) {
	t.Parallel()
	const n = 50 // handlers at a time
	url := serve(t).ClientURL()
	s, other := mustOpen(t, url, quick()), mustOpen(t, url, quick())
	for i := range n {
		s.mustSet(t, fmt.Sprint("far/", i), time.Hour)
		s.mustSet(t, fmt.Sprint("near/", i), 0)
	}
	require.NoError(t, s.link().wakeups.Purge(t.Context()))
	r, err := Check(t.Context(), s.link().nc, s.cfg.Name)
	require.NoError(t, err)
	require.Len(t, r.stranded, 2*n)
	c := s.mustWork(t, func(context.Context, Deadline) error {
		time.Sleep(2 * s.cfg.Lease)
		return nil
	})
	var repairs sync.WaitGroup
	for _, s := range []*Store{s, other} {
		repairs.Go(func() { s.Repair(t.Context(), r) })
	}
	repairs.Wait()
	for i := range n {
		s.awaitStatus(t, fmt.Sprint("near/", i), Handled)
		require.Len(t, c.of(fmt.Sprint("near/", i)), 1)
		far, err := s.load(t.Context(), fmt.Sprint("far/", i))
		require.NoError(t, err)
		require.Equal(t, r.stranded[fmt.Sprint("far/", i)].rev, far.rev)
	}
	s.awaitNoWakeups(t)
	require.Equal(t, n, s.mustCheck(t).Wakeups)
}

// Requests fail until a far deadline has become a near one. The wake-up that another process may have stored may be with a
// worker by then, so the deadline gets another token.
func TestRepairTakesLong(t *testing.T) {
	t.Parallel()
	for _, audit := range []bool{false, true} {
		s := mustOpen(t, serve(t).ClientURL(), quick())
		s.mustSet(t, "key", time.Hour)
		s.Close() // so that only the test sets the clock
		s.ctx = t.Context()
		before, err := s.load(t.Context(), "key")
		require.NoError(t, err)
		l := *s.link()
		l.js = slowToStore{l.js, new(atomic.Bool), func() {
			now := time.Now()
			s.clock.set(before.At.Add(-s.window()-repairMargin), now, now)
		}}
		s.linked.Store(&l)
		changed, err := s.repairOne(t.Context(), "key", before, audit)
		require.NoError(t, err)
		require.True(t, changed)
		after, err := s.load(t.Context(), "key")
		require.NoError(t, err)
		require.NotEqual(t, before.Token, after.Token)
		require.Equal(t, before.At, after.At)
	}
}

// With a slowToStore, time passes before the first message, which is not stored.
type slowToStore struct {
	jetstream.JetStream
	passed *atomic.Bool
	pass   func()
}

func (s slowToStore) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if !s.passed.Swap(true) {
		s.pass()
		return nil, errors.New("it fails")
	}
	return s.JetStream.PublishMsg(ctx, msg, opts...)
}

// The servers stop to answer while the records are read. What has been found until then is set again.
func TestAuditIsCutShort(t *testing.T) {
	t.Parallel()
	const n = 600
	s := mustOpen(t, serve(t).ClientURL(), quick())
	for i := range n {
		s.mustSet(t, fmt.Sprint(i), time.Hour)
	}
	require.NoError(t, s.link().wakeups.Purge(t.Context()))
	inner := s.link().bucket
	s.link().bucket = cutBucket{inner, n / 2}
	require.ErrorIs(t, s.audit(t.Context()), errSilent)
	require.EqualValues(t, n/2, s.Stats().Repaired)
	s.link().bucket = inner
	require.NoError(t, s.audit(t.Context()))
	require.EqualValues(t, n, s.Stats().Repaired)
	require.Zero(t, s.Stats().Stranded)
}

// A cutBucket yields some keys, and then nothing any more.
type cutBucket struct {
	jetstream.KeyValue
	n int
}

func (b cutBucket) WatchAll(ctx context.Context, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	w, err := b.KeyValue.WatchAll(ctx, opts...)
	if err != nil {
		return nil, err
	}
	updates := make(chan jetstream.KeyValueEntry, b.n)
	for range b.n {
		updates <- <-w.Updates()
	}
	return cutWatcher{w, updates}, nil
}

type cutWatcher struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
}

func (w cutWatcher) Updates() <-chan jetstream.KeyValueEntry { return w.updates }
func (w cutWatcher) Stop() error {
	close(w.updates)
	err := w.KeyWatcher.Stop()
	for range w.KeyWatcher.Updates() {
	}
	return err
}
