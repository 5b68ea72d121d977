// Package octave sorts durations into classes for a histogram, and counts them. The first eight are 1.5 microseconds
// wide. Above them, each doubling of the duration, an octave, has four, so a class tells a duration to within a quarter.
package octave

import (
	"math"
	"math/bits"
	"sync"
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

// A Sum is a sum of durations. It has 128 bits, because the tasks of one timer can be late by more than the 292 years of a
// Duration, all together: a million of them wait for three hours, or a fixed rate is behind for a day.
type Sum struct{ hi, lo uint64 } // nanoseconds

// Add returns the sum of s and n times d, which must not be negative.
func (s Sum) Add(d time.Duration, n uint64) Sum {
	hi, lo := bits.Mul64(uint64(d), n)
	return s.plus(Sum{hi, lo})
}

func (s Sum) plus(other Sum) Sum {
	lo, carry := bits.Add64(s.lo, other.lo, 0)
	hi, _ := bits.Add64(s.hi, other.hi, carry)
	return Sum{hi, lo}
}

// Sub returns s without before, which must not be larger.
func (s Sum) Sub(before Sum) Sum {
	lo, borrow := bits.Sub64(s.lo, before.lo, 0)
	hi, _ := bits.Sub64(s.hi, before.hi, borrow)
	return Sum{hi, lo}
}

// Duration returns the sum, or the longest Duration if the sum is longer.
func (s Sum) Duration() time.Duration {
	if s.hi > 0 || s.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(s.lo)
}

// Seconds returns the sum in seconds. It has no upper limit.
func (s Sum) Seconds() float64 {
	return (float64(s.hi)*(1<<64) + float64(s.lo)) / float64(time.Second)
}

// A Recorder counts durations in their classes. Any goroutine may call its methods. The zero value is empty.
type Recorder struct {
	counts atomic.Pointer[[Classes]atomic.Uint64] // nil before the first

	// The sum of all is recent plus older.
	recent atomic.Uint64 // nanoseconds; about maxRecent at most
	mu     sync.Mutex
	older  Sum // guarded by mu, as is what moves from recent to older
}

const (
	// maxRecent is the value of Recorder.recent at which it is moved to older. That happens once in 146 years of lateness.
	maxRecent = 1 << 62

	// maxShort is the most that is added to recent. A larger value goes to older at once. So recent does not overflow, unless
	// thousands of goroutines are each stopped between the two steps of add.
	maxShort = 1 << 50
)

// Record counts a duration n times. It must not be negative.
func (r *Recorder) Record(d time.Duration, n uint64) {
	counts := r.counts.Load()
	if counts == nil {
		r.counts.CompareAndSwap(nil, new([Classes]atomic.Uint64))
		counts = r.counts.Load()
	}
	counts[Class(d)].Add(n)
	r.add(Sum{}.Add(d, n))
}

// add adds to the sum.
func (r *Recorder) add(s Sum) {
	long := s.hi > 0 || s.lo > maxShort
	if !long && r.recent.Add(s.lo) < maxRecent {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if long {
		r.older = r.older.plus(s)
	}
	if r.recent.Load() >= maxRecent { // otherwise another goroutine has moved it
		r.recent.Add(^uint64(maxRecent - 1)) // subtracts maxRecent
		r.older = r.older.plus(Sum{lo: maxRecent})
	}
}

// Read returns how many durations of each class have been counted, and the sum of all. The sum never goes back.
func (r *Recorder) Read() (counts [Classes]uint64, sum Sum) {
	if all := r.counts.Load(); all != nil {
		for class := range counts {
			counts[class] = all[class].Load()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		sum = r.older.plus(Sum{lo: r.recent.Load()})
	}
	return counts, sum
}
