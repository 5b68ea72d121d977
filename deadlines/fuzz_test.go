package deadlines

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Whatever the key and the payload are, a call works or returns an error, and the connection and the workers live on.
func FuzzSet(f *testing.F) {
	for _, key := range []string{
		"", ".", "..", ".a", "a.", "a..b", "a.b", " ", "a b", "*", ">", "a.*", "a.>", "$KV", "a\r\nPUB b 0\r\n\r\n", "a\x00", "\t",
		"\xff\xfe", "ü", "-/_=.A9", "\"", "_INBOX.a", "%s", strings.Repeat("a.", 500) + "a",
	} {
		f.Add(key, uint16(1), uint32(10), false)
	}
	for _, n := range []uint16{1023, 1024, 1025, 4096, 10_000} {
		f.Add("k", n, uint32(0), true)
	}
	for _, n := range []uint32{0, 770_000, 780_000, 1 << 20, 1<<20 + 1, 1_200_000} {
		f.Add("payload", uint16(1), n, true)
	}
	srv := serve(f)
	cfg := quick()
	cfg.Timeout = patience
	s := mustOpen(f, srv.ClientURL(), cfg)
	handled := make(chan string, 10)
	s.mustWork(f, func(_ context.Context, d Deadline) error {
		handled <- d.Key
		return nil
	})
	await := func(t *testing.T, key string) {
		t.Helper()
		for got := ""; got != key; {
			select {
			case got = <-handled:
			case <-time.After(patience):
				require.Fail(t, "the worker does not go on", "it has not handled %q", key)
			}
		}
	}
	f.Fuzz(func(t *testing.T, key string, times uint16, size uint32, near bool) {
		key = strings.Repeat(key, int(times))
		key = key[:min(len(key), 10_000)]
		at := time.Now().Add(time.Hour)
		if near {
			at = time.Now()
		}
		ctx := t.Context()
		bad := checkKey(key)
		answer := func(err error) error {
			t.Helper()
			if bad != nil {
				require.ErrorIs(t, err, jetstream.ErrInvalidKey)
				require.Less(t, len(err.Error()), 600)
			}
			return err
		}
		err := answer(s.Set(ctx, key, at, make([]byte, size%1_300_000)))
		if bad == nil && !errors.Is(err, nats.ErrMaxPayload) {
			require.NoError(t, err)
		}
		set := err == nil
		for _, call := range []func() error{
			func() error { _, err := s.Get(ctx, key); return err },
			func() error { _, err := s.Move(ctx, key, at); return err },
			func() error { _, err := s.Create(ctx, key, at, nil); return err },
			func() error {
				canceled, err := s.Cancel(ctx, key)
				if set && !canceled {
					require.True(t, near)
					await(t, key)
				}
				return err
			},
		} {
			if err := answer(call()); bad == nil && !errors.Is(err, ErrNotFound) {
				require.NoError(t, err)
			}
		}
		require.NoError(t, s.Set(ctx, "live", time.Now(), nil))
		await(t, "live")
		require.True(t, s.link().nc.IsConnected())
		require.Zero(t, s.link().nc.Stats().Reconnects)
	})
}
