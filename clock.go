package hashedwheel

import (
	"math"
	"math/bits"
	"time"
)

// neverTick is the tick of a timeout whose deadline cannot be represented. It is the
// largest tick that fits a word, and the clock stops before it.
const neverTick = 1<<(64-tickShift) - 1

// A clock counts ticks since start. Only a clock converts durations to ticks and ticks to durations. The
// worker reads the time only from it. Its time is monotonic: start has a monotonic reading, and time.Since
// uses that reading.
//
// In a synctest bubble no time has a monotonic reading, and nothing sets the wall clock. So if only one of
// start and the caller's time.Now has a monotonic reading, one is from inside a bubble and the other from
// outside: see checkBubble.
//
// Immutable after New.
type clock struct {
	start     time.Time
	monotonic bool // start has a monotonic reading
	tick      time.Duration
	last      uint64 // the last boundary before neverTick whose distance from start fits a Duration

	// For the method ticks.
	factor uint64
	shift  uint
}

func newClock(tick time.Duration) clock {
	start := time.Now()
	c := clock{
		start:     start,
		monotonic: isMonotonic(start),
		tick:      tick,
		last:      min(uint64(math.MaxInt64/tick), neverTick-1),
		factor:    1 << 63,
		shift:     uint(bits.Len64(uint64(tick - 1))),
	}
	if c.shift > 0 {
		quo, rem := bits.Div64(1<<(c.shift-1), 0, uint64(tick))
		c.factor = quo + min(rem, 1)
	}
	return c
}

// ticks returns d / tick, for d that is not negative. It replaces the division by a multiplication, after
// Granlund and Montgomery ("Division by Invariant Integers using Multiplication", PLDI 1994). 1<<shift is
// the least power of two that is not less than tick. Factor is 1<<(63+shift) / tick, rounded up. The
// result is exact, because the error of rounding is too small to matter for the 63 bits of d. This saves
// some 5 ns of each NewTimeout.
func (c *clock) ticks(d time.Duration) uint64 {
	hi, lo := bits.Mul64(uint64(d), c.factor)
	return (hi<<1 | lo>>63) >> c.shift
}

// elapsed returns the time since start, which is never negative.
//
// Outside of bubbles, it costs only two branches to detect a bubble. In a bubble the year is 2000, so the
// time since the start of a timer made outside is negative there.
func (c *clock) elapsed() time.Duration {
	if d := time.Since(c.start); d >= 0 && c.monotonic {
		return d
	}
	return c.bubbleElapsed()
}

// bubbleElapsed is elapsed for a timer made in a bubble, or for a call from inside a bubble.
func (c *clock) bubbleElapsed() time.Duration {
	now := time.Now()
	c.checkBubble(now)
	return max(now.Sub(c.start), 0)
}

// checkBubble panics if only one of the timer and the caller is in a synctest bubble. Now is the caller's
// time. The timeouts of such a timer would never expire, or would all expire at once, or would hang the test.
func (c *clock) checkBubble(now time.Time) {
	switch outside, madeOutside := isMonotonic(now), isMonotonic(c.start); {
	case c.tick == 0: // the clock of a zero Timer
		panic(notMade)
	case outside && !madeOutside:
		panic("hashedwheel: a Timer made in a testing/synctest bubble is used outside of it")
	case !outside && madeOutside:
		panic("hashedwheel: a Timer made outside of a testing/synctest bubble is used inside one: make it inside the bubble")
	}
}

// now returns the current tick, which is the number of boundaries that have passed.
func (c *clock) now() uint64 { return c.tickAt(c.elapsed()) }

// tickAt returns the current tick when the given time has elapsed since start.
func (c *clock) tickAt(elapsed time.Duration) uint64 { return min(c.ticks(elapsed), neverTick-1) }

// due returns the first boundary at or after elapsed+delay. It rounds up, so that no timeout expires
// early: a deadline inside a tick belongs to the boundary that ends the tick.
//
// A delay of zero or less counts as a nanosecond, so that the boundary lies ahead even if elapsed is
// exactly at a boundary.
func (c *clock) due(elapsed, delay time.Duration) uint64 {
	return c.at(elapsed + max(delay, 1))
}

// dueIn returns the first boundary at or after delay from now.
func (c *clock) dueIn(delay time.Duration) uint64 { return c.due(c.elapsed(), delay) }

// dueAt returns the first boundary at or after a deadline. Ahead reports whether that boundary certainly
// lies ahead. Outside of bubbles, a deadline without a monotonic reading counts by its distance from the
// current wall-clock time. Then dueAt reads the clock, and ahead is true.
func (c *clock) dueAt(deadline time.Time) (tick uint64, ahead bool) {
	if !c.monotonic {
		c.checkBubble(time.Now())
	} else if !isMonotonic(deadline) {
		now := time.Now()
		c.checkBubble(now)
		return c.due(max(now.Sub(c.start), 0), deadline.Sub(now)), true
	}
	return c.at(max(deadline.Sub(c.start), 0)), false
}

// isMonotonic reports whether a time has a monotonic reading, which Round(0) would strip.
func isMonotonic(t time.Time) bool { return t.Round(0) != t }

// at returns the first boundary at or after deadline, which counts from start. A deadline that has
// overflowed is negative, and at returns neverTick for it. No other method checks for that.
func (c *clock) at(deadline time.Duration) uint64 {
	switch {
	case deadline < 0:
		return neverTick
	case deadline == 0:
		return 0
	}
	tick := c.ticks(deadline-1) + 1
	if tick > c.last {
		return neverTick
	}
	return tick
}

// boundary returns how long after start the tick begins. For neverTick, which never begins, that is the
// longest Duration.
func (c *clock) boundary(tick uint64) time.Duration {
	if tick > c.last {
		return math.MaxInt64
	}
	return time.Duration(tick) * c.tick
}

// timeOf returns the time at which the tick begins, in a location. The wall-clock time is right only if
// nobody sets the wall clock until then. In time.Local, the result also has a monotonic reading, which is
// exactly the boundary.
func (c *clock) timeOf(tick uint64, loc *time.Location) time.Time {
	now := time.Now() // read once: a second reading would be later
	at := now.Add(c.boundary(tick) - now.Sub(c.start))
	if loc != at.Location() {
		at = at.In(loc) // strips the monotonic reading
	}
	return at
}
