package deadlines

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// An operator removes the stream of wake-ups, on one server and on a cluster. The processes make it again. No Set fails,
// and all deadlines are handled: far ones, near ones that a worker has, and one whose handler runs.
func TestWakeupsRemoved(t *testing.T) {
	for name, serve := range map[string]func(t *testing.T) string{
		"server":  func(t *testing.T) string { return serve(t).ClientURL() },
		"cluster": func(t *testing.T) string { urls, _ := serveCluster(t, 3); return urls },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l log
			cfg := quick()
			cfg.Logger = l.logger()
			url := serve(t)
			s, caller := mustOpen(t, url, cfg), mustOpen(t, url, quick())
			running, release := make(chan bool, 10), make(chan bool)
			free := sync.OnceFunc(func() { close(release) })
			s.mustWork(t, func(_ context.Context, d Deadline) error {
				if d.Key == "running" {
					running <- true
					<-release
				}
				return nil
			})
			t.Cleanup(free)
			s.mustSet(t, "running", 0)
			<-running
			came := time.Now().Add(15 * time.Second)
			for i := range 20 {
				s.mustSet(t, fmt.Sprint("far/", i), time.Until(came))
				s.mustSet(t, fmt.Sprint("near/", i), time.Duration(i)*20*time.Millisecond)
			}
			require.NoError(t, s.link().js.DeleteStream(t.Context(), s.wakeupsName()))
			for i := range 20 {
				caller.mustSet(t, fmt.Sprint("after/", i), time.Second)
			}
			free()
			for i := range 20 {
				for _, key := range []string{"near/", "after/", "far/"} {
					s.awaitStatus(t, fmt.Sprint(key, i), Handled)
				}
			}
			s.awaitStatus(t, "running", Handled)
			require.Contains(t, l.String(), "deadlines: the stream of wake-ups was gone, and has been made again")
			require.Contains(t, l.String(), "deadlines: deadlines have lost their wake-ups")
			require.Positive(t, s.Stats().Repaired)
			require.Zero(t, s.Stats().Stranded)
			s.mustCheck(t)
		})
	}
}

// The stream of wake-ups is gone and cannot be made again, or the bucket is gone, which is never made again. The errors,
// the log and the figures say so.
func TestStreamGone(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger, cfg.Timeout = l.logger(), 3*time.Second
	srv := serve(t)
	s := mustOpen(t, srv.ClientURL(), cfg)
	s.mustWork(t, nil)
	s.mustSet(t, "key", time.Hour)
	js := s.link().js
	require.NoError(t, js.DeleteStream(t.Context(), s.wakeupsName()))
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "other", Subjects: []string{s.subject("at", "*")}})
	require.NoError(t, err) // the same subjects, so that the stream cannot be made
	await(t, "the figures say so", func() bool { return s.Stats().Unsafe })
	require.ErrorContains(t, s.Set(t.Context(), "key", time.Now(), nil), "no stream: deadlines-wakeups is gone, and cannot be made again")
	await(t, "it is logged", func() bool {
		return strings.Contains(l.String(), `because="no stream: deadlines-wakeups is gone`) && strings.Contains(l.String(), "requests have failed for")
	})
	require.NoError(t, js.DeleteStream(t.Context(), "other"))
	await(t, "it is made again", func() bool { return !s.Stats().Unsafe })
	await(t, "the deadline is set again", func() bool { return s.Stats().Repaired == 1 })
	s.mustCheck(t)

	require.NoError(t, js.DeleteStream(t.Context(), s.bucketName()))
	await(t, "the figures say so", func() bool { return s.Stats().Unsafe })
	require.ErrorContains(t, s.Set(t.Context(), "key", time.Now(), nil),
		"no stream: KV_deadlines is gone with all deadlines; restore it from a backup: stream not found (10059)")
	_, err = js.Stream(t.Context(), s.bucketName())
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

// An operator gives the streams settings that lose deadlines. Set is refused, and so is Open. The log and the figures say
// so. What was lost is set again when the settings are right.
func TestUnsafeSettings(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	js := s.link().js
	update := func(name string, change func(*jetstream.StreamConfig)) (restore func()) {
		stream, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		was := stream.CachedInfo().Config
		now := was
		change(&now)
		_, err = js.UpdateStream(t.Context(), now)
		require.NoError(t, err)
		return func() {
			_, err := js.UpdateStream(t.Context(), was)
			require.NoError(t, err)
		}
	}
	for want, damage := range map[string]func() func(){
		"the stream deadlines-wakeups removes old messages at its limit (max_msgs=50, max_bytes=-1, discard=old)": func() func() {
			return update(s.wakeupsName(), func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 50, jetstream.DiscardOld })
		},
		"the stream deadlines-wakeups removes messages after 1h0m0s": func() func() {
			return update(s.wakeupsName(), func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
		},
		"the stream KV_deadlines removes old messages at its limit (max_msgs=-1, max_bytes=1000000, discard=old)": func() func() {
			return update(s.bucketName(), func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 1e6, jetstream.DiscardOld })
		},
		"the stream KV_deadlines removes messages after 1h0m0s": func() func() {
			return update(s.bucketName(), func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
		},
		"the consumer workers delivers only 3 times": func() func() {
			consumer, err := s.link().wakeups.Consumer(t.Context(), consumerName)
			require.NoError(t, err)
			was := consumer.CachedInfo().Config
			now := was
			now.MaxDeliver = 3
			_, err = s.link().wakeups.UpdateConsumer(t.Context(), now)
			require.NoError(t, err)
			return func() {
				_, err := s.link().wakeups.UpdateConsumer(t.Context(), was)
				require.NoError(t, err)
			}
		},
	} {
		restore := damage()
		await(t, "the figures say so", func() bool { return s.Stats().Unsafe })
		await(t, "the log says so", func() bool { return strings.Contains(l.String(), want) })
		err := s.Set(t.Context(), "key", time.Now(), nil)
		require.ErrorIs(t, err, ErrMismatch)
		require.ErrorContains(t, err, want)
		_, err = Open(t.Context(), s.link().nc, quick())
		require.ErrorIs(t, err, ErrMismatch)
		require.ErrorContains(t, err, want)
		_, err = s.Cancel(t.Context(), "key")
		require.NoError(t, err)
		restore()
		await(t, "the figures say so", func() bool { return !s.Stats().Unsafe })
		s.mustSet(t, "key", time.Hour)
	}

	// A limit that refuses what is new loses nothing.
	update(s.bucketName(), func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 1e6, jetstream.DiscardNew })
	mustOpen(t, s.link().nc.ConnectedUrl(), quick())
	time.Sleep(s.cfg.Lease)
	require.False(t, s.Stats().Unsafe)
}

// Wake-ups are discarded at a limit, or purged. A worker finds which deadlines have lost theirs, and sets them again. The
// others are left alone. No worker runs, so that only the test takes turns.
func TestStranded(t *testing.T) {
	t.Parallel()
	var l log
	cfg := quick()
	cfg.Logger = l.logger()
	s := mustOpen(t, serve(t).ClientURL(), cfg)
	for i := range 20 {
		s.mustSet(t, fmt.Sprint(i), time.Hour)
	}
	kept, err := s.load(t.Context(), "19")
	require.NoError(t, err)
	msg, err := s.link().wakeups.GetLastMsgForSubject(t.Context(), s.subject("at", kept.Token))
	require.NoError(t, err)
	require.NoError(t, s.link().wakeups.Purge(t.Context(), jetstream.WithPurgeSequence(msg.Sequence)))

	limit := func(n int64) {
		stream, err := s.link().js.Stream(t.Context(), s.wakeupsName())
		require.NoError(t, err)
		c := stream.CachedInfo().Config
		c.MaxMsgs = n
		_, err = s.link().js.UpdateStream(t.Context(), c)
		require.NoError(t, err)
		await(t, "it is noticed", func() bool { return s.Stats().Unsafe == (n > 0) })
	}
	limit(1000)
	s.takeTurn()
	require.Zero(t, s.Stats().Repaired)
	require.Equal(t, 19, s.Stats().Stranded, "they cannot be set again")
	require.NoError(t, s.link().wakeups.Purge(t.Context(), jetstream.WithPurgeSubject(s.subject("probe", "audit"))))
	limit(-1)
	s.takeTurn()
	require.Equal(t, []int{19, 0}, []int{int(s.Stats().Repaired), s.Stats().Stranded})
	require.Contains(t, l.String(), "deadlines have lost their wake-ups")
	require.Contains(t, l.String(), "deadlines=19 first=")
	s.takeTurn() // it is not the turn of any process
	require.Equal(t, 1, strings.Count(l.String(), "are set again"))
	r, err := s.load(t.Context(), "19")
	require.NoError(t, err)
	require.Equal(t, kept.rev, r.rev)
	s.mustCheck(t)
}
