package deadlines_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// A Set has read a record that had ended, has stored its wake-up and died. Then the record is removed because its time
// to live is over. The worker drops the wake-up.
func TestWakeupOfRemovedRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	nc, err := deadlines.Connect(b.srv.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	s, err := deadlines.Open(t.Context(), nc, deadlines.Config{Lease: time.Second, Retain: time.Second})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	b.work(s, func(context.Context, deadlines.Deadline) error { return nil })
	require.NoError(t, s.Set(t.Context(), "key", time.Now(), nil))
	eventually(t, "the record is removed", func() error {
		if _, err := s.Get(t.Context(), "key"); !errors.Is(err, deadlines.ErrNotFound) {
			return fmt.Errorf("Get returns %v", err)
		}
		return nil
	})
	wakeup := fmt.Sprintf(`{"key":"key","at":%q,"prior":1}`, time.Now().Format(time.RFC3339Nano))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "deadlines.due.token", []byte(wakeup))
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "deadlines-wakeups")
	require.NoError(t, err)
	eventually(t, "the wake-up is dropped", func() error {
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("deadlines.due.*"))
		if err == nil && len(info.State.Subjects) > 0 {
			err = fmt.Errorf("it is there: %+v", s.Stats())
		}
		return err
	})
	eventually(t, "the worker has dropped it, however often it was delivered", func() error {
		if n := s.Stats().Held; n > 0 {
			return fmt.Errorf("it is held %d times", n)
		}
		return nil
	})
}
