package deadlines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// A Set has read a record that had ended, has stored its wake-up and died. Then the record is removed because its time
// to live is over. The worker drops the wake-up.
func TestWakeupOfRemovedRecord(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.cfg.Retain = time.Second
	s.mustWork(t, nil)
	s.mustSet(t, "key", 0)
	s.awaitRemoved(t, "key")
	require.NoError(t, s.wake(t.Context(), "token", wakeup{Key: "key", At: time.Now(), Prior: 1}))
	s.awaitNoWakeups(t)
	await(t, "the worker has dropped it, however often it was delivered", func() bool { return s.Stats().Held == 0 })
}

// The answer to the wake-up of a Set is lost. Before the Set tries again, another process sets the key, that deadline
// is handled, its record is removed, and the worker drops the wake-up of the first Set. Revision 0 means no record
// both times, so the Set needs another wake-up.
func TestSetMeetsRemovedRecord(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	other, s := mustOpen(t, url, quick()), mustOpen(t, url, quick())
	other.cfg.Retain = time.Second
	calls := other.mustWork(t, nil)
	lost := false
	s.link().js = lossy{s.link().js, func(subject string) error {
		if lost || strings.HasPrefix(subject, "$KV") {
			return nil
		}
		lost = true
		other.mustSet(t, "key", 0)
		other.awaitRemoved(t, "key")
		other.awaitNoWakeups(t)
		return errors.New("the answer is lost")
	}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, s.Set(ctx, "key", time.Now(), []byte("second")))
	require.True(t, lost)
	await(t, "both are handled", func() bool { return len(calls.of("key")) == 2 })
	require.Equal(t, "second", string(calls.of("key")[1].Payload))
}

// A Create whose record was stored, but whose answer was lost, has succeeded.
func TestCreateWithoutAnswer(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	inner := s.link().bucket
	s.link().bucket = lossyBucket{inner, func() error { s.link().bucket = inner; return errors.New("the answer is lost") }}
	created, err := s.Create(t.Context(), "key", time.Now().Add(time.Hour), nil)
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, inner, s.link().bucket)
	created, err = s.Create(t.Context(), "key", time.Now().Add(time.Hour), nil)
	require.NoError(t, err)
	require.False(t, created)
}

// A lossy loses answers to messages that the server has stored.
type lossy struct {
	jetstream.JetStream
	stored func(subject string) error
}

func (l lossy) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ack, err := l.JetStream.PublishMsg(ctx, msg, opts...)
	if err == nil {
		err = l.stored(msg.Subject)
	}
	return ack, err
}

type lossyBucket struct {
	jetstream.KeyValue
	stored func() error
}

func (l lossyBucket) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	rev, err := l.KeyValue.Create(ctx, key, value, opts...)
	if err == nil {
		err = l.stored()
	}
	return rev, err
}

func (s *Store) awaitRemoved(t *testing.T, key string) {
	t.Helper()
	await(t, key+" is removed", func() bool {
		_, err := s.Get(t.Context(), key)
		return errors.Is(err, ErrNotFound)
	})
}

func (s *Store) awaitNoWakeups(t *testing.T) {
	t.Helper()
	await(t, fmt.Sprint("no wake-up is left: ", s.Stats()), func() bool {
		info, err := s.link().wakeups.Info(t.Context(), jetstream.WithSubjectFilter(s.subject("due", "*")))
		return err == nil && len(info.State.Subjects) == 0
	})
}
