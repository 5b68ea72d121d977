// Package octave sorts durations into classes for a histogram, and counts them. The first eight are 1.5 microseconds
// wide. Above them, each doubling of the duration, an octave, has four, so a class tells a duration to within a quarter.
package octave

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Classes is the number of classes. They reach three hours, and the last one also has all that is longer.
const Classes = 128

const (
	perOctave = 4

	// The width of the first classes is fifty milliseconds / 32,768, which is this fraction of a nanosecond. So
	// fifty milliseconds are a bound, because alerts need round ones.
	widthNum, widthShift = 390_625, 8
)

// Class returns the class of a duration, which must not be negative.
func Class(d time.Duration) int {
	v := uint64(min(max(d-1, 0), math.MaxInt64>>widthShift)) << widthShift / widthNum // a class includes its upper bound
	octave := max(bits.Len64(v)-3, 0)                                                 // v>>octave is less than 8
	return min(octave*perOctave+int(v>>octave), Classes-1)
}

// UpperBound returns the longest duration of a class.
func UpperBound(class int) time.Duration {
	if class == Classes-1 {
		return math.MaxInt64
	}
	next, octave := uint64(class)+1, uint64(0) // the lower bound of the next class
	if next >= 2*perOctave {
		octave = next/perOctave - 1
		next -= octave * perOctave
	}
	return widths(next << octave)
}

// Bound returns the width of the first classes, doubled a number of times. It is the upper bound of a class.
func Bound(doublings int) time.Duration { return widths(1 << doublings) }

// widths returns the duration of n widths, rounded up.
func widths(n uint64) time.Duration {
	return time.Duration((n*widthNum + 1<<widthShift - 1) >> widthShift)
}

// A Recorder counts durations in their classes. Any goroutine may call its methods. The zero value is empty.
type Recorder struct {
	counts atomic.Pointer[[Classes]atomic.Uint64] // nil before the first
	sum    atomic.Int64                           // nanoseconds
}

// Record counts a duration n times. It must not be negative.
func (r *Recorder) Record(d time.Duration, n uint64) {
	counts := r.counts.Load()
	if counts == nil {
		r.counts.CompareAndSwap(nil, new([Classes]atomic.Uint64))
		counts = r.counts.Load()
	}
	counts[Class(d)].Add(n)
	r.sum.Add(int64(d) * int64(n))
}

// Read returns how many durations of each class have been counted, and the sum of all.
func (r *Recorder) Read() (counts [Classes]uint64, sum time.Duration) {
	if all := r.counts.Load(); all != nil {
		for class := range counts {
			counts[class] = all[class].Load()
		}
		sum = time.Duration(r.sum.Load())
	}
	return counts, sum
}
