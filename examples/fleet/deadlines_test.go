package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// The message of a schedule comes at its time and not earlier, also if the time has a fraction of a second.
func TestScheduleIsNotEarly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "-window=1s")
	consumer, err := f.client.js.Consumer(t.Context(), streamName, consumerName)
	require.NoError(t, err)
	const n = 10
	start := time.Now()
	for i := range n {
		f.mustPlaceDeadline(fmt.Sprint(i), start.Add(2*time.Second+time.Duration(i)*99*time.Millisecond))
	}
	require.Len(t, f.mustRead().waiting, n)
	for range n {
		msg, err := consumer.Next(jetstream.FetchMaxWait(far))
		require.NoError(t, err)
		now := time.Now()
		d, err := parseDue(msg)
		require.NoError(t, err)
		meta, err := msg.Metadata()
		require.NoError(t, err)
		due := d.deadline.Add(-time.Second)
		t.Logf("late by %v", meta.Timestamp.Sub(due))
		require.False(t, now.Before(due), "early by %v", due.Sub(now))
		require.False(t, meta.Timestamp.Before(due), "stored early by %v", due.Sub(meta.Timestamp))
		require.Equal(t, 1, d.delivery)
		require.NoError(t, msg.DoubleAck(t.Context()))
	}
	require.Empty(t, f.mustRead().waiting, "a schedule is gone once it has come")
}

// A near deadline needs no schedule. The message of a schedule that is placed twice comes once.
func TestPlace(t *testing.T) {
	f := newFixture(t, "-window=1s")
	near, distant := time.Now().Add(900*time.Millisecond), time.Now().Add(time.Hour)
	f.mustPlaceDeadline("near", near)
	f.mustPlaceDeadline("far", distant)
	f.mustPlaceDeadline("far", distant)
	info, err := f.client.deadlines.stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{dueSubject + "near": 1, atSubject + "far": 1}, info.State.Subjects)

	m, err := f.client.deadlines.stream.GetLastMsgForSubject(t.Context(), atSubject+"far")
	require.NoError(t, err)
	at, err := time.Parse("@at "+time.RFC3339Nano, m.Header.Get(jetstream.ScheduleHeader))
	require.NoError(t, err)
	require.True(t, at.Equal(distant.Add(-time.Second)), "%v", at)
}

// A payment withdraws the deadline from the stream or from the wheel.
func TestWithdraw(t *testing.T) {
	f := newFixture(t, "-window=10m")
	w := f.mustHire()
	distant, near := f.mustPlace("far", time.Hour), f.mustPlace("near", 5*time.Minute)
	f.mustPlace("other", time.Hour)
	await(t, "held", func() bool { return w.held.Len() == 1 })
	for id, deadline := range map[string]time.Time{"far": distant, "near": near} {
		_, ended := f.mustEnd(id, paid)
		require.True(t, ended)
		isNear, err := f.client.deadlines.withdraw(t.Context(), id, deadline)
		require.NoError(t, err)
		require.Equal(t, id == "near", isNear)
	}
	await(t, "withdrawn", func() bool { return len(f.mustRead().waiting) == 1 })
	require.Contains(t, f.mustRead().waiting, "other")
	require.Zero(t, w.held.Len())
	require.EqualValues(t, 1, f.tally.hinted.Load())
}
