package ticks

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

func TestClockDue(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		tick, elapsed, delay time.Duration
		want                 uint64
	}{
		{10 * ms, 0, 1, 1},
		{10 * ms, 0, 10*ms - 1, 1},
		{10 * ms, 0, 10 * ms, 1},
		{10 * ms, 0, 10*ms + 1, 2},
		{10 * ms, 3 * ms, 7 * ms, 1},
		{10 * ms, 3 * ms, 7*ms + 1, 2},

		// A timeout with a delay of zero or less is due at the next boundary, even if it is armed exactly at one.
		{10 * ms, 0, 0, 1},
		{10 * ms, 10*ms - 1, 0, 1},
		{10 * ms, 10 * ms, 0, 2},
		{10 * ms, 10 * ms, -1, 2},
		{10 * ms, 10 * ms, math.MinInt64, 2},

		// A deadline that cannot be represented is never due, and no number overflows.
		{10 * ms, 0, math.MaxInt64, Never},
		{10 * ms, 1, math.MaxInt64, Never},
		{10 * ms, math.MaxInt64, math.MaxInt64, Never},
		{10 * ms, 0, math.MaxInt64 / (10 * ms) * (10 * ms), math.MaxInt64 / uint64(10*ms)},
		{10 * ms, 0, math.MaxInt64/(10*ms)*(10*ms) + 1, Never},
		{math.MaxInt64, 0, math.MaxInt64, 1},
		{math.MaxInt64, 1, math.MaxInt64, Never},
		{1, 0, 1 << 53, Never}, // the tick does not fit the word
		{1, 0, 1<<53 - 2, 1<<53 - 2},
		{1, 0, math.MaxInt64, Never},
	} {
		clock := NewClock(c.tick)
		require.Equal(t, c.want, clock.Due(c.elapsed, c.delay), "tick %v, elapsed %v, delay %v", c.tick, c.elapsed, c.delay)
	}
}

func TestClockBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(10_000)
		require.EqualValues(t, 0, c.Boundary(0))
		require.EqualValues(t, 20_000, c.Boundary(2))
		require.Equal(t, time.Duration(math.MaxInt64/10_000*10_000), c.Boundary(c.last))
		require.Equal(t, time.Duration(math.MaxInt64), c.Boundary(c.last+1))
		require.Equal(t, time.Duration(math.MaxInt64), c.Boundary(Never))

		fast := NewClock(1)
		fast.Start = time.Now().Add(-200 * 365 * 24 * time.Hour)
		require.Equal(t, uint64(Never-1), fast.Now())
		ahead := NewClock(1)
		ahead.Start = time.Now().Add(time.Hour)
		require.Zero(t, ahead.Elapsed())

		require.EqualValues(t, 0, c.Now())
		time.Sleep(9999 * time.Nanosecond)
		require.EqualValues(t, 0, c.Now())
		time.Sleep(1 * time.Nanosecond)
		require.EqualValues(t, 1, c.Now())
	})
}

// The time of a tick is exactly its boundary, whenever it is asked for. It is right by the present wall clock, also if that was
// set since New.
func TestClockTimeOfIsTheBoundary(t *testing.T) {
	for _, set := range []time.Duration{-8 * time.Hour, 0, 8 * time.Hour} {
		c := NewClock(time.Millisecond)
		testkit.SetWall(&c.Start, -set)
		for tick := range uint64(1000) {
			before := time.Now()
			at := c.TimeOf(tick)
			require.Equal(t, c.Boundary(tick), at.Sub(c.Start))
			require.True(t, isMonotonic(at), "a step of the wall clock does not move it")
			wall := before.Round(0).Add(at.Sub(before))
			require.WithinDuration(t, wall, at.Round(0), time.Minute)
		}
	}
}

// On the other side of a bubble, the time is right by the clock of the timer's side.
func TestClockTimeOfAcrossABubble(t *testing.T) {
	outside := NewClock(time.Second)
	var inside Clock
	synctest.Test(t, func(t *testing.T) {
		inside = NewClock(time.Second)
		time.Sleep(time.Hour)
		require.Equal(t, inside.Start.Add(7*time.Second), inside.TimeOf(7))
		require.Equal(t, outside.Start.Add(7*time.Second), outside.TimeOf(7))
	})
	require.Equal(t, inside.Start.Add(7*time.Second), inside.TimeOf(7))
}

// The method ticks divides exactly, for all ticks and durations. The test tries durations next to a multiple
// of the tick, where an error would show, and others.
func TestClockTicksIsADivision(t *testing.T) {
	r := testkit.Rand(t)
	ticks := []time.Duration{1, 2, 3, 5, 7, 10, 641, time.Millisecond, 100 * time.Millisecond, time.Hour, math.MaxInt64/2 + 1, math.MaxInt64 - 1, math.MaxInt64}
	for shift := range 63 {
		for _, d := range []time.Duration{-1, 0, 1} {
			ticks = append(ticks, max(1<<shift+d, 1))
		}
		ticks = append(ticks, 1+time.Duration(r.Int64()>>shift))
	}
	for _, tick := range ticks {
		c := NewClock(tick)
		check := func(d time.Duration) {
			if d >= 0 && c.ticks(d) != uint64(d/tick) {
				t.Fatalf("%d / %d is %d, not %d", d, tick, d/tick, c.ticks(d))
			}
		}
		for range 300 {
			d := time.Duration(r.Int64() >> r.IntN(63))
			multiple := d - d%tick
			for _, d := range []time.Duration{d, multiple - 1, multiple, multiple + 1, math.MaxInt64, math.MaxInt64 - math.MaxInt64%tick - 1} {
				check(d)
			}
		}
	}
}
