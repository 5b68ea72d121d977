package deadlines_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/stretchr/testify/require"
)

// A worker has claimed a deadline, but the answer takes longer than its lease. Meanwhile another worker calls the
// handler, which fails, and the deadline is canceled. The first worker then does not call the handler.
func TestCancelAfterSlowClaim(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	opened := make(chan struct{}) // until then, the slow worker hears nothing from the answer to its claim on
	open := sync.OnceFunc(func() { close(opened) })
	p := startProxy(t, strings.TrimPrefix(b.srv.ClientURL(), "nats://"), func(line []byte) []byte {
		if bytes.HasPrefix(line, []byte(`{"stream":"KV_deadlines"`)) {
			<-opened
		}
		return line
	})
	t.Cleanup(open)
	slow, _ := b.open(p.url())
	var canceled, calls, later atomic.Int64
	handle := func(context.Context, deadlines.Deadline) error {
		calls.Add(1)
		later.Add(canceled.Load())
		return errors.New("not now")
	}
	b.work(slow, handle)
	setter, _ := b.open(b.srv.ClientURL())
	require.NoError(t, setter.Set(t.Context(), "key", time.Now().Add(400*time.Millisecond), nil))
	status := func(want deadlines.Status, attempts int) {
		eventually(t, "status", func() error {
			d, err := setter.Get(t.Context(), "key")
			if err == nil && (d.Status != want || d.Attempts != attempts) {
				err = errors.New(string(d.Status))
			}
			return err
		})
	}
	status(deadlines.Running, 1)
	nc, err := deadlines.Connect(b.srv.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	other, err := deadlines.Open(t.Context(), nc, deadlines.Config{MinBackoff: time.Minute, Logger: slog.New(slog.NewTextHandler(&b.log, nil))})
	require.NoError(t, err)
	t.Cleanup(other.Close)
	b.work(other, handle)
	status(deadlines.Pending, 2)
	require.EqualValues(t, 1, calls.Load())
	ok, err := setter.Cancel(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, ok)
	canceled.Store(1)
	open()
	eventually(t, "the first worker has given it up", func() error {
		if slow.Stats().Held > 0 || slow.Stats().Running > 0 {
			return errors.New("it has it")
		}
		return nil
	})
	require.Zero(t, later.Load(), "calls after Cancel")
}
