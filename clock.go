package hashedwheel

import (
	"math"
	"math/bits"
	"time"
)

// neverTick is the tick of a timeout whose deadline cannot be represented. It is the
// largest that a word holds, and the clock stops before it.
const neverTick = 1<<(64-tickShift) - 1

// A clock counts ticks since start. It is the only place where durations become ticks
// and ticks become durations, and the only one that reads the time. All of it is
// monotonic: start carries a monotonic reading, and time.Since uses no other. In a synctest
// bubble no time has one, and nobody sets the clock. So a clock and a time that differ in this
// belong to different worlds, see checkBubble.
//
// Immutable after New.
type clock struct {
	start     time.Time
	monotonic bool // start has a monotonic reading
	tick      time.Duration
	last      uint64 // the last boundary whose distance from start fits a Duration

	// For ticks, see there.
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

// ticks returns d / tick, for d that is not negative. A division by a number that stays the same is a
// multiplication, as Granlund and Montgomery show ("Division by Invariant Integers using
// Multiplication", PLDI 1994): with 1<<shift the power of two not below tick, factor is
// 1<<(63+shift) / tick, rounded up, and the error that makes is too small to be seen in 63 bits. It
// saves 5 ns in 85 of NewTimeout and Cancel.
func (c *clock) ticks(d time.Duration) uint64 {
	hi, lo := bits.Mul64(uint64(d), c.factor)
	return (hi<<1 | lo>>63) >> c.shift
}

// elapsed returns the time since start, which is never negative.
//
// Outside of bubbles it costs two branches beside the reading. In a bubble the year is 2000, so the time
// since the start of a timer from outside is negative there.
func (c *clock) elapsed() time.Duration {
	if d := time.Since(c.start); d >= 0 && c.monotonic {
		return d
	}
	return c.bubbleElapsed()
}

// bubbleElapsed is elapsed for a timer of a bubble, or in a bubble.
func (c *clock) bubbleElapsed() time.Duration {
	now := time.Now()
	c.checkBubble(now)
	return max(now.Sub(c.start), 0)
}

// checkBubble panics if one of the timer and the caller, whose time is now, is in a synctest bubble and the
// other one is not. Such a timer would never fire, or all at once, or hang the test.
func (c *clock) checkBubble(now time.Time) {
	switch outside, madeOutside := isMonotonic(now), isMonotonic(c.start); {
	case c.tick == 0: // that of a zero Timer
		panic(notMade)
	case outside && !madeOutside:
		panic("hashedwheel: a Timer made in a testing/synctest bubble is used outside of it")
	case !outside && madeOutside:
		panic("hashedwheel: a Timer made outside of a testing/synctest bubble is used in one: make it in there")
	}
}

// now returns the number of boundaries passed: the current tick.
func (c *clock) now() uint64 { return c.tickAt(c.elapsed()) }

// tickAt returns the number of boundaries passed when so much time has elapsed.
func (c *clock) tickAt(elapsed time.Duration) uint64 { return min(c.ticks(elapsed), neverTick-1) }

// due returns the first boundary at or after elapsed+delay. Rounding up is what makes
// early impossible: a deadline inside a tick belongs to the boundary that ends it.
//
// A delay of zero or less counts as a nanosecond, so that the boundary lies ahead even
// when elapsed is one itself.
func (c *clock) due(elapsed, delay time.Duration) uint64 {
	return c.at(elapsed + max(delay, 1))
}

// dueIn returns the first boundary at or after delay from now.
func (c *clock) dueIn(delay time.Duration) uint64 { return c.due(c.elapsed(), delay) }

// dueAt returns the first boundary at or after a deadline, and reports whether that is sure to lie ahead,
// because it has read the clock. It reads the clock only if the deadline lacks a monotonic reading. Then the wall
// clock, now, is all that tells how far off the deadline is.
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

// at returns the first boundary at or after deadline, which counts from start. What has
// overflowed, and is negative, saturates, here and nowhere else.
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

// boundary returns how long after start the tick begins; for neverTick, which has no
// beginning, the longest Duration.
func (c *clock) boundary(tick uint64) time.Duration {
	if tick > c.last {
		return math.MaxInt64
	}
	return time.Duration(tick) * c.tick
}

// timeOf returns the time at which the tick begins, in a location. By the wall clock that is
// what it would be if nobody set it until then.
func (c *clock) timeOf(tick uint64, loc *time.Location) time.Time {
	return time.Now().Add(c.boundary(tick) - c.elapsed()).In(loc)
}
