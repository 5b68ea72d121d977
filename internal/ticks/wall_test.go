package ticks

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Steps are a minute apart, or a tick if that is longer. None is in the past.
func TestWallDue(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		tick, elapsed, delay time.Duration
		want                 uint64
	}{
		{s, 0, 5 * s, 5},
		{s, 0, 59 * s, 59},
		{s, 0, time.Hour, 59},
		{s, 58*s + 1, time.Hour, 59},
		{s, 59 * s, time.Hour, 118},
		{s, 59 * s, s, 60},
		{s, 59 * s, -s, 60},
		{s, 0, math.MaxInt64, 59},
		{5 * s, 0, time.Hour, 11},
		{5 * s, 55 * s, time.Hour, 22},
		{time.Hour, 0, 10 * time.Hour, 1},
		{time.Hour, time.Hour, 10 * time.Hour, 2},
	} {
		clock := NewClock(c.tick)
		require.Equal(t, c.want, NewWall(&clock).Due(c.elapsed, c.delay), "%+v", c)
	}
	synctest.Test(t, func(t *testing.T) {
		clock := NewClock(s)
		require.EqualValues(t, 3600, NewWall(&clock).Due(0, time.Hour), "there are no steps in a bubble")
	})
}

// A Wall shows the time of package time, unless a test sets it.
func TestWallAt(t *testing.T) {
	clock := NewClock(time.Second)
	w := NewWall(&clock)
	now := time.Now()
	require.False(t, isMonotonic(w.At(now)))
	require.Equal(t, now.Round(0), w.At(now))
	w.Ahead = func() time.Duration { return -time.Hour }
	require.Equal(t, now.Round(0).Add(-time.Hour), w.At(now))
}
