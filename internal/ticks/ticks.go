// Package ticks has the clock of a timer, which counts time in ticks.
package ticks

import (
	"math"
	"math/bits"
	"time"
)

// Bits is how many bits of the word of a timeout a tick takes.
const Bits = 53

// Never is the tick of a timeout whose deadline cannot be represented. It is the
// largest tick that fits a word, and the clock stops before it.
const Never = 1<<Bits - 1

// NotMade is the message of the panic for a zero Timer, whose clock NewClock has not made.
const NotMade = "hashedwheel: the Timer was not made by New"

// A Clock counts ticks since Start, and converts times and durations to ticks and back. Its time is monotonic: Start
// has a monotonic reading, and time.Since uses that reading.
//
// In a synctest bubble no time has a monotonic reading, and nothing sets the wall clock. So if only one of
// Start and the caller's time.Now has a monotonic reading, one is from inside a bubble and the other from
// outside: see checkBubble.
//
// Immutable after NewClock.
type Clock struct {
	Start     time.Time
	Monotonic bool // Start has a monotonic reading
	Tick      time.Duration
	last      uint64 // the last boundary before Never whose distance from Start fits a Duration

	// For the method ticks.
	factor uint64
	shift  uint
}

// NewClock returns a clock that starts now.
func NewClock(tick time.Duration) Clock {
	start := time.Now()
	c := Clock{
		Start:     start,
		Monotonic: isMonotonic(start),
		Tick:      tick,
		last:      min(uint64(math.MaxInt64/tick), Never-1),
		factor:    1 << 63,
		shift:     uint(bits.Len64(uint64(tick - 1))),
	}
	if c.shift > 0 {
		quo, rem := bits.Div64(1<<(c.shift-1), 0, uint64(tick))
		c.factor = quo + min(rem, 1)
	}
	return c
}

// ticks returns d / tick, for d that is not negative. It replaces the division by a multiplication, after Granlund
// and Montgomery ("Division by Invariant Integers using Multiplication", PLDI 1994). 1<<shift is the least power of
// two that is not less than tick. The field factor is 1<<(63+shift) / tick, rounded up. The result is exact,
// because the error of rounding is too small to matter for the 63 bits of d. A division takes longer, in each
// NewTimeout.
func (c *Clock) ticks(d time.Duration) uint64 {
	hi, lo := bits.Mul64(uint64(d), c.factor)
	return (hi<<1 | lo>>63) >> c.shift
}

// Elapsed returns the time since Start, which is never negative.
//
// Outside of bubbles, it costs only two branches to detect a bubble. In a bubble the year is 2000, so the
// time since the start of a timer made outside is negative there.
func (c *Clock) Elapsed() time.Duration {
	if d := time.Since(c.Start); d >= 0 && c.Monotonic {
		return d
	}
	return c.bubbleElapsed()
}

// Foreign reports whether only one of the caller and the clock is in a synctest bubble. A goroutine that the caller
// starts would be on the caller's side, so it could not use the clock.
func (c *Clock) Foreign() bool {
	if c.Monotonic {
		return time.Since(c.Start) < 0
	}
	return isMonotonic(time.Now())
}

// Check panics if the clock is Foreign. A method that needs no clock, but makes or closes a channel or starts a
// goroutine, calls Check first. Otherwise the runtime would end the process later, where the other side uses these.
func (c *Clock) Check() { c.Elapsed() }

// bubbleElapsed is Elapsed for a timer made in a bubble, or for a call from inside a bubble.
func (c *Clock) bubbleElapsed() time.Duration {
	now := time.Now()
	c.checkBubble(now)
	return c.ElapsedAt(now)
}

// checkBubble panics if only one of the timer and the caller is in a synctest bubble. Now is the caller's
// time. The timeouts of such a timer would never expire, or would all expire at once, or would hang the test.
func (c *Clock) checkBubble(now time.Time) {
	switch outside, madeOutside := isMonotonic(now), isMonotonic(c.Start); {
	case c.Tick == 0: // the clock of a zero Timer
		panic(NotMade)
	case outside && !madeOutside:
		panic("hashedwheel: a Timer made in a testing/synctest bubble is used outside of it")
	case !outside && madeOutside:
		panic("hashedwheel: a Timer made outside of a testing/synctest bubble is used inside one: make it inside the bubble")
	}
}

// ElapsedAt is Elapsed for a time that the caller has read from time.Now on its side of a bubble.
func (c *Clock) ElapsedAt(now time.Time) time.Duration { return max(now.Sub(c.Start), 0) }

// Now returns the current tick, which is the number of boundaries that have passed.
func (c *Clock) Now() uint64 { return c.TickAt(c.Elapsed()) }

// NowOrZero is Now, except that it returns 0 if the clock is Foreign.
func (c *Clock) NowOrZero() uint64 {
	if d := time.Since(c.Start); d >= 0 && c.Monotonic { // as in Elapsed
		return c.TickAt(d)
	}
	if c.Foreign() {
		return 0
	}
	return c.Now()
}

// TickAt returns the tick that is current when the given time has elapsed since Start.
func (c *Clock) TickAt(elapsed time.Duration) uint64 { return min(c.ticks(elapsed), Never-1) }

// Due returns the first boundary at or after elapsed+delay. It rounds up, so that no timeout expires
// early: a deadline inside a tick belongs to the boundary that ends the tick.
//
// A delay of zero or less counts as a nanosecond, so that the boundary lies ahead even if elapsed is
// exactly at a boundary.
func (c *Clock) Due(elapsed, delay time.Duration) uint64 {
	return c.At(elapsed + max(delay, 1))
}

// DueIn returns the first boundary at or after delay from now.
func (c *Clock) DueIn(delay time.Duration) uint64 { return c.Due(c.Elapsed(), delay) }

// DueAt returns the first boundary at or after a deadline, which may have passed. Outside of bubbles, a
// deadline without a monotonic reading counts by its distance from the current wall-clock time. A deadline with
// one costs no reading of the clock. For the zero Time it always returns 0.
func (c *Clock) DueAt(deadline time.Time) (tick uint64) {
	if !c.Monotonic {
		c.checkBubble(time.Now())
	} else if !isMonotonic(deadline) {
		now := time.Now()
		c.checkBubble(now)
		if deadline.IsZero() {
			return 0
		}
		return c.Due(c.ElapsedAt(now), deadline.Sub(now))
	}
	return c.At(max(deadline.Sub(c.Start), 0))
}

// isMonotonic reports whether a time has a monotonic reading, which Round(0) would strip.
func isMonotonic(t time.Time) bool { return t.Round(0) != t }

// At returns the first boundary at or after deadline, which counts from Start. A deadline that has
// overflowed is negative, and At returns Never for it. No other method checks for that.
func (c *Clock) At(deadline time.Duration) uint64 {
	switch {
	case deadline < 0:
		return Never
	case deadline == 0:
		return 0
	}
	tick := c.ticks(deadline-1) + 1
	if tick > c.last {
		return Never
	}
	return tick
}

// Boundary returns how long after Start the tick begins. For Never, which never begins, that is the
// longest Duration.
func (c *Clock) Boundary(tick uint64) time.Duration {
	if tick > c.last {
		return math.MaxInt64
	}
	return time.Duration(tick) * c.Tick
}

// TimeOf returns the time at which the tick begins. It is right by the present wall clock, which may have been
// set since Start. Its monotonic reading is exactly the boundary. The caller may be on the other side of a
// synctest bubble: then the result is right by the wall clock of Start.
func (c *Clock) TimeOf(tick uint64) time.Time {
	now := time.Now() // read once: a second reading would be later
	if isMonotonic(now) != c.Monotonic {
		now = c.Start
	}
	return now.Add(c.Boundary(tick) - now.Sub(c.Start))
}

// Later returns elapsed + d, or the longest Duration if that would overflow.
func Later(elapsed, d time.Duration) time.Duration {
	if d > math.MaxInt64-elapsed {
		return math.MaxInt64
	}
	return elapsed + d
}
