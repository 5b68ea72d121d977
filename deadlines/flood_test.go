package deadlines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// The first event of a kind is logged at once, and then one each minute, with the number of events.
func TestFlood(t *testing.T) {
	var l log
	f := flood{log: l.logger()}
	now := time.Now()
	said := func(do func()) string {
		before := len(l.String())
		do()
		_, text, _ := strings.Cut(l.String()[before:], "level=")
		return text
	}
	report := func(after time.Duration, kind string, n int) string {
		return said(func() { f.reportAt(now.Add(after), kind, event{slog.LevelWarn, kind, []any{"n", n}}) })
	}
	settle := func(after time.Duration) string { return said(func() { f.settleAt(now.Add(after)) }) }
	require.Equal(t, "WARN msg=a n=1\n", report(0, "a", 1))
	require.Empty(t, report(time.Second, "a", 2))
	require.Equal(t, "WARN msg=b n=1\n", report(time.Second, "b", 1), "another kind")
	require.Empty(t, report(59*time.Second, "a", 3))
	require.Empty(t, settle(59*time.Second))
	require.Equal(t, "WARN msg=a n=3 times=2 in=1m0s\n", settle(60*time.Second))
	require.Empty(t, settle(61*time.Second), "b was logged when it happened")
	require.Equal(t, "WARN msg=b n=2\n", report(62*time.Second, "b", 2), "b is forgotten")
	require.Empty(t, report(70*time.Second, "a", 4))
	require.Equal(t, "WARN msg=a n=5 times=2 in=1m10s\n", report(130*time.Second, "a", 5), "nobody settles")
	require.Empty(t, settle(150*time.Second))
	require.Empty(t, report(151*time.Second, "a", 6))
	require.Contains(t, said(f.flush), "WARN msg=a n=6 times=1 in=")
	require.Empty(t, said(f.flush))
}

// Handlers that always fail, and a permission that is missing, do not fill the log.
func TestFloods(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger, cfg.MaxBackoff = l.logger(), cfg.MinBackoff
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	c := s.mustWork(t, func(context.Context, Deadline) error { return errors.New("always") })
	for i := range 20 {
		s.mustSet(t, fmt.Sprint(i), 0)
	}
	await(t, "many calls", func() bool { return s.Stats().Failures >= 300 })
	for i := range 320 {
		err := fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, fmt.Sprint("$KV.deadlines.", i))
		s.link().nc.ErrorHandler()(s.link().nc, nil, err)
	}
	c.stop()
	s.Close()
	failures := strings.Count(l.String(), "a handler failed")
	require.GreaterOrEqual(t, failures, 2, "the first one, and the sum")
	require.LessOrEqual(t, failures, 3, "a minute may be over")
	require.Contains(t, l.String(), "times=319")
	require.Equal(t, 2, strings.Count(l.String(), "error of the connection"))
	require.Contains(t, l.String(), `$KV.deadlines.0`)
	require.Contains(t, l.String(), `$KV.deadlines.319`)
}

// The logger of a program may call the library, or block. So neither holds a lock while it logs.
func TestNoLockWhileLogging(t *testing.T) {
	now := time.Now()
	within := make(chan func(), 10)
	logger := slog.New(hook(func() { (<-within)() }))
	f := flood{log: logger}
	h := health{log: logger, forget: time.Hour}
	unlocked := func() {
		require.True(t, f.mu.TryLock(), "flood")
		f.mu.Unlock()
		require.True(t, h.mu.TryLock(), "health")
		h.mu.Unlock()
	}
	bad := errors.New("it fails")
	for _, logs := range []func(){
		func() { f.reportAt(now, "a", event{}) },
		func() {
			f.reportAt(now, "a", event{})
			f.reportAt(now.Add(floodEvery), "a", event{})
		},
		func() {
			f.reportAt(now.Add(floodEvery), "a", event{})
			f.settleAt(now.Add(2 * floodEvery))
		},
		func() {
			f.reportAt(now.Add(2*floodEvery), "a", event{})
			f.flush()
		},
		func() {
			h.reportAt("a", bad, now)
			h.reportAt("a", bad, now.Add(sickAfter))
		},
		func() {
			h.reportAt("a", nil, now.Add(sickAfter))
			h.settleAt(now.Add(3 * sickAfter))
		},
	} {
		within <- unlocked
		logs()
		require.Empty(t, within, "it has logged once")
	}
}

// A hook is a handler of logs that calls a function for each line.
type hook func()

func (h hook) Enabled(context.Context, slog.Level) bool { return true }
func (h hook) Handle(context.Context, slog.Record) error {
	h()
	return nil
}
func (h hook) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h hook) WithGroup(string) slog.Handler      { return h }
