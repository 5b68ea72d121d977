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
	// perOctave is the number of classes for each octave of durations. So a class tells a duration to
	// within a quarter, or a microsecond if that is more.
	perOctave = 4

	// classShift is the binary logarithm of the width of the first classes: 1,024 ns, about a microsecond.
	classShift = 10

	// classes is the number of classes, which reach up to two hours. The last one also counts all longer
	// durations, and its bound is the longest Duration.
	classes = 128
)

// A Histogram counts durations in classes. The first eight classes are a microsecond (1,024 ns) wide. Beyond
// them there are four classes for each doubling of the duration. The zero Histogram is empty.
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

// upperBound returns the greatest duration of a class.
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

// Quantile returns a duration that at least the fraction q of the counted durations do not exceed, for q
// from 0 to 1. It is the upper bound of a class, so it may be too long by up to a quarter, or by a
// microsecond if that is more. Beyond two hours it is the longest Duration. It is 0 if nothing was counted.
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

// Sub returns the histogram of the durations counted since before, which is an earlier histogram of the
// same timer.
func (h Histogram) Sub(before Histogram) Histogram {
	for class := range h.counts {
		h.counts[class] -= before.counts[class]
	}
	h.sum -= before.sum
	return h
}

// Buckets returns an iterator over pairs of an upper bound and the number of durations that do not exceed
// it. This is the form that Prometheus and OpenTelemetry use. The bounds are the same for each
// Histogram. There are 25 of them, from 16 microseconds to four and a half minutes, each twice the one
// before. All are bounds of classes, so the numbers are exact. Count returns the number for an infinite
// bound.
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

// The bounds of Buckets are a nanosecond below the powers of two with these exponents. Lateness below the
// first bound is the machine's noise.
const (
	firstBound = 14
	lastBound  = 38
)

// All returns an iterator over the classes that are not empty, from the shortest: the upper bound of the
// class, and the number of durations in it.
func (h Histogram) All() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for class, c := range h.counts {
			if c > 0 && !yield(upperBound(class), c) {
				return
			}
		}
	}
}

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

// A recorder counts durations for a Histogram. The zero recorder has counted none.
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
