package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoffDoublesUpToMax(t *testing.T) {
	b := backoff{base: 20 * time.Millisecond, max: 400 * time.Millisecond}
	for retry, want := range map[int]time.Duration{
		-1: 20, 0: 20, 1: 20, 2: 40, 3: 80, 4: 160, 5: 320, 6: 400, 7: 400, 1000: 400, math.MaxInt: 400,
	} {
		want *= time.Millisecond
		require.Equal(t, want, b.ceiling(retry), "retry %d", retry)
		b.jitter = fullJitter
		require.Zero(t, b.floor(retry), "retry %d", retry)
		b.jitter = equalJitter
		require.Equal(t, want/2, b.floor(retry), "retry %d", retry)
	}
	require.Equal(t, time.Second, backoff{base: time.Second, max: time.Second}.ceiling(5))
	require.Equal(t, time.Second, backoff{base: time.Minute, max: time.Second}.ceiling(1), "max bounds the first delay too")
}

func TestBackoffDoesNotOverflow(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	require.Equal(t, time.Duration(1)<<62, backoff{base: 1, max: most}.ceiling(63))
	require.Equal(t, most, backoff{base: 1, max: most}.ceiling(64), "1<<63 is no Duration")
	require.Equal(t, time.Duration(3)<<61, backoff{base: 3, max: most}.ceiling(62))
	require.Equal(t, most, backoff{base: 3, max: most}.ceiling(63), "3<<62 would be negative")
	require.Equal(t, most, backoff{base: 5, max: most}.ceiling(65), "5<<64 would be 0")
	require.Equal(t, most, backoff{base: most, max: most}.ceiling(1))
	for _, base := range []time.Duration{1, 7, time.Millisecond, time.Hour, most / 2, most/2 + 1, most} {
		before := time.Duration(0)
		for retry := 1; retry <= 200; retry++ {
			c := backoff{base: base, max: most}.ceiling(retry)
			require.GreaterOrEqual(t, c, base)
			require.GreaterOrEqual(t, c, before, "base %d, retry %d", base, retry)
			before = c
		}
		require.Equal(t, most, before)
	}
}

// TestBackoffBounds uses the least and the greatest random number.
func TestBackoffBounds(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	for _, tt := range []struct {
		jitter    jitter
		base, max time.Duration
		retry     int
		low, high time.Duration
	}{
		{fullJitter, 100, 1000, 1, 0, 100},
		{fullJitter, 100, 1000, 3, 0, 400},
		{fullJitter, 100, 1000, 5, 0, 1000},
		{fullJitter, 1, most, 64, 0, most},
		{equalJitter, 100, 1000, 1, 50, 100},
		{equalJitter, 100, 1000, 5, 500, 1000},
		{equalJitter, 1, 1000, 1, 0, 1},
		{equalJitter, 101, 101, 9, 50, 101},
		{equalJitter, 1, most, 64, most / 2, most},
	} {
		var asked uint64
		b := backoff{base: tt.base, max: tt.max, jitter: tt.jitter}
		b.uint64n = func(n uint64) uint64 { asked = n; return 0 }
		require.Equal(t, tt.low, b.delay(tt.retry), "%+v", tt)
		require.Equal(t, uint64(tt.high-tt.low)+1, asked, "%+v: both bounds are possible", tt)
		b.uint64n = func(n uint64) uint64 { return n - 1 }
		require.Equal(t, tt.high, b.delay(tt.retry), "%+v", tt)
		b.uint64n = nil
		for range 1000 {
			d := b.delay(tt.retry)
			require.True(t, d >= tt.low && d <= tt.high, "%+v: %d", tt, d)
		}
	}
}

// TestBackoffIsEvenlyDistributed uses a fixed seed, so its result is always the same.
func TestBackoffIsEvenlyDistributed(t *testing.T) {
	const draws, bins = 100_000, 10
	for _, j := range []jitter{fullJitter, equalJitter} {
		rng := rand.New(rand.NewPCG(1, 2))
		b := backoff{base: 20 * time.Millisecond, max: 400 * time.Millisecond, jitter: j, uint64n: rng.Uint64N}
		const retry = 4
		low, high := b.floor(retry), b.ceiling(retry)
		var counts [bins]int
		var sum time.Duration
		for range draws {
			d := b.delay(retry)
			sum += d
			counts[min(bins*(d-low)/(high-low), bins-1)]++
		}
		for bin, n := range counts {
			// The standard deviation is 95.
			require.InDelta(t, draws/bins, n, 500, "%v jitter, tenth %d of the range", j, bin)
		}
		require.InEpsilon(t, float64(low+high)/2, float64(sum)/draws, 0.01, "%v jitter", j)
	}
}

func TestJitterIsAFlag(t *testing.T) {
	o, err := parseOptions([]string{"-jitter=equal"})
	require.NoError(t, err)
	require.Equal(t, equalJitter, o.jitter)
	o, err = parseOptions(nil)
	require.NoError(t, err)
	require.Equal(t, fullJitter, o.jitter)
}
