package hashedwheel

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/octave"
)

// A Histogram counts durations in classes. The first eight are 1.5 microseconds wide. Above them, there are four classes
// for each doubling of the duration. The zero value is empty.
type Histogram struct {
	counts [octave.Classes]uint64
	sum    octave.Sum
}

// Count returns how many durations have been counted.
func (h Histogram) Count() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Sum returns the sum of the durations, to the nanosecond, or the longest Duration, 292 years, if the sum is longer. The
// lateness of all tasks of a timer can add up to more: see SumSeconds.
func (h Histogram) Sum() time.Duration { return h.sum.Duration() }

// SumSeconds returns the sum of the durations in seconds. Unlike Sum it has no upper limit, so it is for metrics.
func (h Histogram) SumSeconds() float64 { return h.sum.Seconds() }

// Quantile returns a duration d for a fraction q, 0 to 1: at least this fraction of the durations is d or less. It
// returns 0 if there are no durations. The result may be too long by a quarter, or by 1.5 microseconds if that is
// more. Beyond three hours it is the longest Duration.
func (h Histogram) Quantile(q float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	left := min(max(uint64(math.Ceil(q*float64(n))), 1), n) // the rank of the duration: the shortest has 1
	class := 0
	for left > h.counts[class] {
		left -= h.counts[class]
		class++
	}
	return octave.UpperBound(class)
}

// Sub returns the histogram of the durations counted since before, an earlier histogram of the same timer.
func (h Histogram) Sub(before Histogram) Histogram {
	for class := range h.counts {
		h.counts[class] -= before.counts[class]
	}
	h.sum = h.sum.Sub(before.sum)
	return h
}

// Buckets returns an iterator over 25 upper bounds, and the exact number of durations up to each. Each bound is twice the
// one before, from 12 microseconds to 205 seconds. One is 50 milliseconds. For an infinite bound, use Count.
func (h Histogram) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		n, class := uint64(0), 0
		for i := firstBound; i <= lastBound; i++ {
			upTo := octave.Bound(i)
			for ; class <= octave.Class(upTo); class++ {
				n += h.counts[class]
			}
			if !yield(upTo, n) {
				return
			}
		}
	}
}

// The bounds of Buckets are 1<<i times the width of the first classes, for each i from firstBound to lastBound.
const firstBound, lastBound = 3, 27

// String returns the count and some quantiles.
func (h Histogram) String() string {
	return fmt.Sprintf("n=%d, p50 %v, p99 %v, max %v", h.Count(), h.Quantile(0.5), h.Quantile(0.99), h.Quantile(1))
}

// MarshalJSON returns the count, the sum and some quantiles, in nanoseconds.
func (h Histogram) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count                     uint64
		Sum                       time.Duration
		P50, P90, P99, P999, P100 time.Duration
	}{h.Count(), h.Sum(), h.Quantile(0.5), h.Quantile(0.9), h.Quantile(0.99), h.Quantile(0.999), h.Quantile(1)})
}
