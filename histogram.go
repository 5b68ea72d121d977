package hashedwheel

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	perOctave  = 4   // classes for each doubling of the duration, so a class tells it to within a quarter
	classShift = 10  // the binary logarithm of the width of the first classes: 1,024 ns
	classes    = 128 // up to two hours; the last one also counts all that is longer
)

// A Histogram counts durations in classes. The first eight are 1,024 ns wide. Above them, each doubling of the
// duration has four classes. The zero value is empty.
type Histogram struct {
	counts [classes]uint64
	sum    time.Duration
}

// classOf returns the class of a duration, which must not be negative.
func classOf(d time.Duration) int {
	v := uint64(d) >> classShift
	octave := max(bits.Len64(v)-3, 0) // v>>octave is less than 8
	return min(octave*perOctave+int(v>>octave), classes-1)
}

func upperBound(class int) time.Duration {
	if class == classes-1 {
		return math.MaxInt64
	}
	next, octave := uint64(class)+1, uint64(0) // the lower bound of the next class
	if next >= 2*perOctave {
		octave = next/perOctave - 1
		next -= octave * perOctave
	}
	return time.Duration(next<<octave<<classShift - 1)
}

// Count returns how many durations have been counted.
func (h Histogram) Count() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Sum returns the sum of the durations, to the nanosecond.
func (h Histogram) Sum() time.Duration { return h.sum }

// Quantile returns a duration such that at least the fraction q, 0 to 1, of the durations are not longer. It returns
// 0 if there are none. The result may be too long by a quarter, or by a microsecond if that is more. Beyond two hours
// it is the longest Duration.
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
	return upperBound(class)
}

// Sub returns the histogram of the durations counted since before, an earlier histogram of the same timer.
func (h Histogram) Sub(before Histogram) Histogram {
	for class := range h.counts {
		h.counts[class] -= before.counts[class]
	}
	h.sum -= before.sum
	return h
}

// Buckets returns an iterator over 25 upper bounds, and the exact number of durations up to each. The bounds go from
// 16 microseconds to four and a half minutes, each twice the one before. For an infinite bound, use Count.
func (h Histogram) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		n, class := uint64(0), 0
		for octave := firstBound; octave <= lastBound; octave++ {
			bound := time.Duration(1<<octave - 1)
			for ; class <= classOf(bound); class++ {
				n += h.counts[class]
			}
			if !yield(bound, n) {
				return
			}
		}
	}
}

// The bounds of Buckets are a nanosecond below the powers of two with these exponents.
const (
	firstBound = 14
	lastBound  = 38
)

// String returns the count and some quantiles.
func (h Histogram) String() string {
	return fmt.Sprintf("%d, p50 %v, p99 %v, max %v", h.Count(), h.Quantile(0.5), h.Quantile(0.99), h.Quantile(1))
}

// MarshalJSON returns the count, the sum and some quantiles, in nanoseconds.
func (h Histogram) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count                     uint64
		Sum                       time.Duration
		P50, P90, P99, P999, P100 time.Duration
	}{h.Count(), h.sum, h.Quantile(0.5), h.Quantile(0.9), h.Quantile(0.99), h.Quantile(0.999), h.Quantile(1)})
}

type recorder struct {
	counts atomic.Pointer[[classes]atomic.Uint64] // nil before the first
	sum    atomic.Int64                           // nanoseconds
}

// record counts a duration, which must not be negative.
func (r *recorder) record(d time.Duration) {
	counts := r.counts.Load()
	if counts == nil {
		r.counts.CompareAndSwap(nil, new([classes]atomic.Uint64))
		counts = r.counts.Load()
	}
	counts[classOf(d)].Add(1)
	r.sum.Add(int64(d))
}

func (r *recorder) histogram() (h Histogram) {
	if counts := r.counts.Load(); counts != nil {
		for class := range h.counts {
			h.counts[class] = counts[class].Load()
		}
		h.sum = time.Duration(r.sum.Load())
	}
	return h
}
