package deadlines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/stretchr/testify/require"
)

// Three servers have reached their limit. They then have no leader. The calls, the log and the figures say that there
// is no room. When an operator raises the limit, all goes on.
func TestFullCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long beside other tests; it runs every night")
	}
	t.Parallel()
	const limit = 4 << 20
	urls, _, raise := serveLimited(t, 3, limit)
	var l log
	cfg := quick()
	cfg.Logger, cfg.Lease, cfg.Timeout = l.logger(), 2*time.Second, 4*time.Second
	s := mustOpen(t, urls, cfg)
	s.mustWork(t, nil)
	const far = 50
	came := time.Now().Add(12 * time.Second)
	for i := range far {
		s.mustSet(t, fmt.Sprint("far/", i), time.Until(came))
	}
	payload := make([]byte, 64<<10)
	stored := 0
	await(t, "the store is full", func() bool {
		err := s.Set(t.Context(), fmt.Sprint("large/", stored), time.Now().Add(time.Hour), payload)
		for ; err == nil; err = s.Set(t.Context(), fmt.Sprint("large/", stored), time.Now().Add(time.Hour), payload) {
			stored++
		}
		return errors.Is(err, ErrNoRoom)
	})
	await(t, "it is logged", func() bool { return strings.Contains(l.String(), `because="no room: `) })
	await(t, "all have come", func() bool { return s.Stats().Overdue == far })
	require.True(t, s.Stats().Full)
	time.Sleep(fullFor + time.Second) // since a server has refused something
	require.True(t, s.Stats().Full)
	await(t, "calls do not wait", func() bool {
		_, err := s.Cancel(t.Context(), "far/0")
		require.Error(t, err)
		return errors.Is(err, ErrNoRoom) && !errors.Is(err, context.DeadlineExceeded)
	})

	raise(64 << 20)
	raised := time.Now()
	for i := range far {
		s.awaitStatus(t, fmt.Sprint("far/", i), Handled)
	}
	t.Logf("all were handled %v after the limit was raised", time.Since(raised).Round(time.Millisecond))
	await(t, "the figures say so", func() bool { st := s.Stats(); return st.Overdue == 0 && !st.Full })
	require.GreaterOrEqual(t, s.mustCheck(t).Pending, stored)
}

// Three servers are full and have lost their leader. A process whose calls have no limit of their own, and which no
// server has refused anything, also says that there is no room.
func TestFullClusterWithDefaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long beside other tests; it runs every night")
	}
	t.Parallel()
	const limit = 4 << 20
	urls, _, _ := serveLimited(t, 3, limit)
	cfg := quick()
	cfg.Lease = 2 * time.Second
	s, caller := mustOpen(t, urls, cfg), mustOpen(t, urls, cfg)
	s.cfg.Timeout = time.Second // it repeats each call for longer than the caller waits
	payload := make([]byte, 64<<10)
	await(t, "the servers have no leader", func() bool {
		err := s.Set(t.Context(), nuid.Next(), time.Now().Add(time.Hour), payload)
		return errors.Is(err, ErrNoRoom) && s.room.headless.at.Load() != nil
	})
	require.Nil(t, caller.room.answered.Load())
	for range 3 {
		began := time.Now()
		err := caller.Set(t.Context(), "key", time.Now().Add(time.Hour), nil)
		require.ErrorIs(t, err, ErrNoRoom, "after %v", time.Since(began))
	}
}

// The store was full when it lost its leader. That is the reason for as long as it has none, also when nothing has asked
// in between.
func TestFullWithoutLeader(t *testing.T) {
	t.Parallel()
	s := &Store{}
	s.linked.Store(&link{nc: mustOpen(t, serve(t).ClientURL(), quick()).link().nc})
	ago := func(d time.Duration) *time.Time {
		at := time.Now().Add(-d)
		return &at
	}
	s.room.refused.Store(ago(time.Hour + time.Second))
	s.room.headless.at.Store(&span{since: *ago(time.Hour), last: *ago(time.Hour)})
	require.ErrorIs(t, s.explain(jetstream.ErrNoStreamResponse), ErrNoRoom)
	s.room.refused.Store(ago(2 * time.Hour))
	require.ErrorContains(t, s.explain(jetstream.ErrNoStreamResponse), "no leader")
}

// Full servers elect a leader again and again, and each one answers some requests. An election that is over is forgotten.
func TestLeaderForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r room
		for range 5 {
			r.headless.failed()
			time.Sleep(time.Second)
			r.headless.succeeded()
			time.Sleep(time.Second)
		}
		require.Equal(t, 10*time.Second, time.Since(r.headless.failed()))
		time.Sleep(sickAfter)
		r.headless.succeeded()
		time.Sleep(time.Second)
		require.Zero(t, time.Since(r.headless.failed()))
	})
}

// No server leads for longer than an election takes, although all are up. Then they have no room, also if none has said
// so.
func TestNoLeaderForLong(t *testing.T) {
	t.Parallel()
	s := &Store{} // without the goroutine that reads the clock, whose requests succeed
	s.linked.Store(&link{nc: mustOpen(t, serve(t).ClientURL(), quick()).link().nc})
	began := time.Now()
	whole := began.Add(-time.Hour)
	failed := func(up int) error {
		p := &peers{names: []string{"a", "b", "c"}, up: up, at: time.Now()}
		if up == 3 {
			p.whole = whole
		}
		s.peers.Store(p)
		return s.explain(jetstream.ErrNoStreamResponse)
	}
	ago := func(d time.Duration) {
		s.room.headless.at.Store(&span{since: time.Now().Add(-d), last: time.Now()})
	}
	require.ErrorContains(t, failed(3), "no leader: 3 of 3 servers are up, so they elect one, or a disk is full, or a limit is reached")
	ago(electionLimit)
	require.ErrorContains(t, failed(1), "no leader: too few servers are up: 1 of 3")
	require.ErrorContains(t, failed(2), "no leader: 2 of 3 servers are up")
	whole = began
	require.ErrorContains(t, failed(3), "no leader: 3 of 3 servers are up", "they were away")
	require.False(t, s.full())
	whole = began.Add(-time.Hour)
	err := failed(3)
	require.ErrorIs(t, err, ErrNoRoom)
	require.ErrorContains(t, err, "no room: there is no leader although 3 servers are up")
	require.True(t, s.full())
	require.True(t, s.hopeless(err))
	require.ErrorContains(t, failed(1), "no leader: too few servers are up: 1 of 3", "a full store may also lose servers")
}
