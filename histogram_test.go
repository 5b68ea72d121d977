package hashedwheel_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/octave"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Quantiles of random durations are those of the sorted durations, up to the bounds of their classes.
func TestHistogramQuantile(t *testing.T) {
	r := testkit.Rand(t)
	require.Zero(t, hashedwheel.Histogram{}.Quantile(0.5))
	for range 200 {
		all := make([]time.Duration, 1+r.IntN(300))
		for i := range all {
			all[i] = time.Duration(r.Int64() >> r.IntN(63))
		}
		h := hashedwheel.HistogramOf(all...)
		slices.Sort(all)
		require.EqualValues(t, len(all), h.Count())
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.999, 1, r.Float64()} {
			rank := max(int(math.Ceil(q*float64(len(all)))), 1)
			require.Equal(t, octave.UpperBound(octave.Class(all[rank-1])), h.Quantile(q), "%v of %v", q, all)
		}
	}
}

func TestHistogramSub(t *testing.T) {
	short, long := octave.UpperBound(3), octave.UpperBound(9)
	before := hashedwheel.HistogramOf(short, short, short, short, short)
	h := hashedwheel.HistogramOf(short, short, short, short, short, short, short, long)
	since := h.Sub(before)
	require.EqualValues(t, 3, since.Count())
	require.Equal(t, long, since.Quantile(1))
	require.Equal(t, 2*short+long, since.Sum())
	require.EqualValues(t, 8, h.Count())
}

// Buckets always has the same bounds. For each bound it counts the durations that do not exceed it. The test uses
// random durations and those on both sides of each bound.
func TestHistogramBuckets(t *testing.T) {
	var bounds []time.Duration
	for bound, n := range (hashedwheel.Histogram{}).Buckets() {
		require.Zero(t, n)
		bounds = append(bounds, bound)
	}
	require.Len(t, bounds, 25)
	require.Equal(t, 12_208*time.Nanosecond, bounds[0])
	require.Equal(t, 50*time.Millisecond, bounds[12])
	require.Equal(t, 204_800*time.Millisecond, bounds[24])

	r := testkit.Rand(t)
	all := []time.Duration{0, math.MaxInt64}
	for _, bound := range bounds {
		all = append(all, bound-1, bound, bound+1)
	}
	for range 1000 {
		all = append(all, time.Duration(r.Int64()>>r.IntN(63)))
	}
	h := hashedwheel.HistogramOf(all...)
	i := 0
	for bound, n := range h.Buckets() {
		require.Equal(t, bounds[i], bound)
		want := 0
		for _, d := range all {
			if d <= bound {
				want++
			}
		}
		require.EqualValues(t, want, n, "up to %v", bound)
		i++
	}
	require.Equal(t, len(bounds), i)
	for range h.Buckets() { // a loop may end early
		break
	}
}

func TestHistogramJSON(t *testing.T) {
	h := hashedwheel.HistogramOf(append(slices.Repeat([]time.Duration{time.Millisecond}, 99), time.Second)...)
	text, err := json.Marshal(h)
	require.NoError(t, err)
	var got map[string]int64
	require.NoError(t, json.Unmarshal(text, &got))
	ms, s := int64(octave.UpperBound(octave.Class(time.Millisecond))), int64(octave.UpperBound(octave.Class(time.Second)))
	require.Equal(t, map[string]int64{"Count": 100, "Sum": 1_099_000_000, "P50": ms, "P90": ms, "P99": ms, "P999": s, "P100": s}, got)
}
