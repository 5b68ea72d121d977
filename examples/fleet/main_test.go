package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/hashedwheel/hashedwheel/deadlines/server"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The tests run in real time, because a server is involved.

// far is longer than any run takes, unless it hangs. Then the context ends it, and the report has open orders.
const far = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, dir string) *server.Server {
	srv, err := server.Start(server.Config{Dir: dir, Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(srv.Stop)
	return srv
}

func newShop(t *testing.T, srv *server.Server) *shop {
	s, err := openShop(t.Context(), srv.URL())
	require.NoError(t, err)
	t.Cleanup(s.close)
	return s
}

// A result has the figures of a report.
type result struct {
	found, left            struct{ open, paid, canceled int }
	placed, killed, faults int
}

func mustRun(t *testing.T, ctx context.Context, args ...string) (r result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, far)
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, args, &out), out.String())
	t.Log(out.String())
	lines := strings.SplitAfterN(out.String(), "\n", 3) // after the line at the start, and the head of the table
	_, err := fmt.Sscanf(lines[2], "found %d %d %d\nleft %d %d %d\nplaced %d, workers killed %d, faults %d\n",
		&r.found.open, &r.found.paid, &r.found.canceled, &r.left.open, &r.left.paid, &r.left.canceled, &r.placed, &r.killed, &r.faults)
	require.NoError(t, err, out.String())
	return r
}

// Each order ends, although a worker is killed while it holds some of them.
func TestRun(t *testing.T) {
	t.Parallel()
	r := mustRun(t, t.Context(), "-dir="+t.TempDir(), "-orders=400", "-time=1s", "-workers=2")
	assert.Equal(t, 400, r.placed)
	assert.Equal(t, 1, r.killed)
	assert.Zero(t, r.left.open)
	assert.Equal(t, 400, r.left.paid+r.left.canceled)
	assert.Positive(t, r.left.paid)
	assert.Positive(t, r.left.canceled)
}

// A run that is interrupted reports its open orders, and the next one on the same directory ends them.
func TestContinue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := serve(t, dir)
	s := newShop(t, srv)
	ctx, interrupt := context.WithCancelCause(t.Context())
	go func() {
		defer interrupt(errors.New("Ctrl-C")) // as signal.NotifyContext does, with a cause of its own
		for ended, err := s.ends.Keys(ctx); err != nil || len(ended) < 30; ended, err = s.ends.Keys(ctx) {
			if !sleep(t.Context(), 10*time.Millisecond) {
				return
			}
		}
	}()
	first := mustRun(t, ctx, "-nats="+srv.URL(), "-orders=100000", "-time=2s")
	assert.Positive(t, first.left.open)
	// An order counts twice if Ctrl-C has come between the end of an order and the end of its deadline.
	assert.GreaterOrEqual(t, first.left.open+first.left.paid+first.left.canceled, first.placed)
	s.close()
	srv.Stop()

	second := mustRun(t, t.Context(), "-dir="+dir, "-orders=1", "-time=1s")
	assert.Equal(t, first.left, second.found)
	assert.Zero(t, second.left.open)
	assert.Equal(t, first.placed+1, second.left.paid+second.left.canceled)
	assert.LessOrEqual(t, second.left.paid, first.left.paid+1, "nobody pays an order that was found")
}

// Payments and cancellations that meet, and that are repeated, agree on how an order has ended.
func TestEndsOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, serve(t, t.TempDir()))
	for i := range 100 {
		o := order{ID: fmt.Sprint(i), Deadline: time.Now().Add(time.Hour)}
		require.NoError(t, s.place(t.Context(), o))
		var tries sync.WaitGroup
		var told [2]state
		for j := range told {
			tries.Go(func() {
				as, err := s.pay(t.Context(), o)
				assert.NoError(t, err)
				told[j] = as
			})
			tries.Go(func() {
				assert.NoError(t, s.expire(t.Context(), deadlines.Deadline{Key: o.ID, Payload: o.encode()}))
			})
		}
		tries.Wait()
		history, err := s.ends.History(t.Context(), o.ID)
		require.NoError(t, err)
		require.Len(t, history, 1)
		assert.Contains(t, string(history[0].Value()), `"State":"`+string(told[0])+`"`)
		assert.Equal(t, told[0], told[1])
		d, err := s.deadlines.Get(t.Context(), o.ID)
		require.NoError(t, err)
		assert.Equal(t, told[0] == paid, d.Status == deadlines.Canceled)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	srv := serve(t, t.TempDir())
	s := newShop(t, srv)
	put := func(id string, as state, deadline time.Time) {
		_, err := s.ends.Put(t.Context(), id, order{ID: id, State: as, Deadline: deadline}.encode())
		require.NoError(t, err)
	}
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	place := func(id string) {
		require.NoError(t, s.place(t.Context(), order{ID: id, Deadline: soon}))
	}
	for _, id := range []string{"open", "stuck"} {
		place(id)
	}
	_, err := s.deadlines.Cancel(t.Context(), "stuck")
	require.NoError(t, err)
	put("paid", paid, soon)
	put("late", canceled, past)
	put("wrong", canceled, past)
	put("early", canceled, soon)
	put("twice", paid, past)
	put("twice", canceled, past)
	c := &crowd{shop: s, told: map[string]state{
		"open": open, "stuck": open, "lost": open, "paid": paid, "late": canceled, "wrong": paid, "never": canceled,
	}}
	b, err := c.audit(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[state]int{open: 1, paid: 2, canceled: 4}, b.count)
	assert.Len(t, b.late, 2)
	faults := strings.Join(b.faults, "\n")
	assert.Len(t, b.faults, 6, faults)
	for _, want := range []string{
		`stuck has no end (nats: key not found), and its deadline is "canceled"`,
		`lost has no end (nats: key not found), and its deadline is "" (deadlines: not found)`,
		`wrong is "canceled", but its customer was told that it is paid`,
		`never is "", but its customer was told that it is canceled`,
		`early was canceled 59m`,
		`twice was canceled after it was paid`,
	} {
		assert.Contains(t, faults, "order "+want)
	}

	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	err = c.report(io.Discard, b, b, 0)
	assert.ErrorContains(t, err, "fleet: 6 faults, such as: order ")
	assert.ErrorIs(t, run(ctx, []string{"-nats=" + srv.URL()}, io.Discard), context.Canceled)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-workers=0", "-orders=-1", "-rate=0", "-rate=1000001", "-time=0s", "more"} {
		var exit demo.Exit
		require.ErrorAs(t, run(t.Context(), strings.Fields(args), io.Discard), &exit, args)
		assert.Equal(t, 2, exit.Code, args)
	}
	dir := t.TempDir()
	serve(t, dir)
	assert.ErrorIs(t, run(t.Context(), []string{"-dir=" + dir}, io.Discard), server.ErrLocked)
	assert.ErrorContains(t, run(t.Context(), []string{"-nats=nats://127.0.0.1:1"}, io.Discard), "nats://127.0.0.1:1: ")
}
