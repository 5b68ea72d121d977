package deadlines

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// A failing stream fails requests for the subjects, and for the last message of a subject.
type failing struct {
	jetstream.Stream
	info func() error
	last func(subject string) error
}

func (f failing) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	if err := f.info(); err != nil && len(opts) > 0 {
		return nil, err
	}
	return f.Stream.Info(ctx, opts...)
}

func (f failing) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if err := f.last(subject); err != nil {
		return nil, err
	}
	return f.Stream.GetLastMsgForSubject(ctx, subject)
}

// fails makes requests to the stream of wake-ups fail until it is called again with nil functions.
func (s *Store) fails(info func() error, last func(subject string) error) {
	l := *s.link()
	if f, is := l.wakeups.(failing); is {
		l.wakeups = f.Stream
	}
	if info != nil {
		l.wakeups = failing{l.wakeups, info, last}
	}
	s.linked.Store(&l)
}

// Requests fail that ask whether the worker is alive that has claimed a deadline before. Nobody takes that for a death,
// and the deadline waits until there is an answer.
func TestFailedRequestIsNoDeath(t *testing.T) {
	t.Parallel()
	fails := errors.New("it fails")
	for name, last := range map[string]func(id string) func(string) error{
		"subjects": nil,
		"message": func(id string) func(string) error {
			return func(subject string) error {
				if strings.Contains(subject, id+"-") {
					return fails
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const id, by = "123abcdef", "host-1-abcdef"
			s := mustOpen(t, serve(t).ClientURL(), quick())
			_, err := s.link().js.Publish(t.Context(), s.subject("probe", id+"-0"), nil)
			require.NoError(t, err)
			alive, err := s.askAlive(t.Context(), by)
			require.NoError(t, err)
			require.True(t, alive)
			if last == nil {
				s.fails(func() error { return fails }, func(string) error { return nil })
			} else {
				s.fails(func() error { return nil }, last(id))
			}
			r := record{Status: Running, At: time.Now().Add(-time.Minute), Token: newToken(time.Now()), By: by, Attempts: 1}
			_, err = s.link().bucket.Put(t.Context(), "key", r.encode())
			require.NoError(t, err)
			require.NoError(t, s.wake(t.Context(), r.Token, wakeup{Key: "key", At: r.At}))
			c := s.mustWork(t, nil)
			time.Sleep(2 * s.cfg.Lease)
			require.Empty(t, c.of("key"))
			require.Zero(t, s.Stats().Deaths)
			s.fails(nil, nil)
			s.awaitStatus(t, "key", Handled)
			require.Len(t, c.of("key"), 1)
			require.EqualValues(t, 1, s.Stats().Deaths)
		})
	}
}

// A request whether a process is alive takes long. It holds up no question about another process, and no second one
// waits for it. When it fails, the last answer counts.
func TestNoLockAcrossRequest(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.Close() // so that only the test asks
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.lives.note("asked", life{at: time.Now().Add(-s.cfg.Lease / 2), alive: true})
	s.lives.note("known", life{at: time.Now().Add(time.Hour), alive: true})
	begun, end := make(chan bool), make(chan bool)
	s.fails(func() error {
		close(begun)
		<-end
		return errors.New("it fails")
	}, nil)
	answer := make(chan bool)
	go func() {
		alive, err := s.alive(ctx, "asked")
		answer <- alive && err == nil
	}()
	<-begun
	_, err := s.alive(ctx, "asked")
	require.ErrorIs(t, err, errAsking)
	alive, err := s.alive(ctx, "known")
	require.NoError(t, err)
	require.True(t, alive)
	close(end)
	require.True(t, <-answer)
}

// It takes longer than the lease to ask whether the worker is alive that has claimed a deadline before. Another worker may
// have the deadline by then, so this one does not claim it.
func TestNoClaimAfterLongQuestion(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.Close() // so that only the test asks
	w := s.mustMakeWorker(t, nil)
	r := record{Status: Running, At: time.Now().Add(-time.Minute), Token: newToken(time.Now()), By: "host-1-abcdef", Attempts: 1}
	_, err := s.link().bucket.Put(t.Context(), "key", r.encode())
	require.NoError(t, err)
	before, err := s.load(t.Context(), "key")
	require.NoError(t, err)
	s.counts.held.Add(1)
	h := &held{w: w, msg: silent{}, token: r.Token, wakeup: wakeup{Key: "key", At: r.At}, delivery: 1, signed: time.Now()}
	s.fails(func() error {
		time.Sleep(s.cfg.Lease) // the server counts in real time
		return nil
	}, func(string) error { return nil })
	claimed, err := h.claim(t.Context())
	require.NoError(t, err)
	require.Nil(t, claimed)
	after, err := s.load(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, before.rev, after.rev)
	require.Zero(t, s.Stats().Held)
	require.Zero(t, s.Stats().Deaths)
}
