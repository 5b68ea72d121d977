// Package clock has the functions and types of package time that wait, on a [hashedwheel.Timer]. A
// program that uses channels of timers, or has no place for an error, moves to the wheel by
// changing time.NewTimer to clock.NewTimer:
//
//	clock := clock.New(timer)
//	...
//	limit := clock.NewTimer(idleTimeout)
//	for {
//		select {
//		case packet := <-packets:
//			limit.Reset(idleTimeout)
//		case <-limit.C:
//			return errIdle
//		}
//	}
//
// # Guarantees
//
// Signatures and results are those of package time, as of Go 1.23: no stale value is received after
// [Timer.Stop] or [Timer.Reset] has returned, and both report true if the timer was active and
// nothing has been received yet. Nothing is early.
//
// Nothing fails. What the wheel cannot do package time does, and no caller needs to know: what is shorter than
// a tick, so that a microsecond is one; what the wheel refuses because too many are pending; and
// everything from [hashedwheel.Timer.Stop] on, including what was pending then. A Reset moves from one
// to the other as need be.
//
// What waits on a Clock needs no turn of [hashedwheel.WithMaxConcurrency], and no goroutine of an
// executor. Stop does not return it.
//
// # Differences from package time
//
//   - What is a tick or longer is late by less than a tick, plus what the machine adds. A tick of at most a
//     tenth of the shortest usual delay is a good choice.
//   - The capacity of C is 1, and its length is 1 while a value lies in it; package time says 0 for both.
//   - A timer that was neither stopped nor received from stays in memory until it is due, and a
//     ticker until it is stopped, as was so in package time before Go 1.23.
//   - A ticker whose interval is shorter than a tick costs a goroutine, which ends at once, at each beat,
//     even if nobody receives.
//   - What is refused counts in Rejected of [hashedwheel.Stats].
//
// Where very many functions come due at the same time, [hashedwheel.Timer.AfterFunc] is the better
// choice: it costs no goroutine each, as AfterFunc does here and in package time.
package clock

import (
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A Clock makes timers and tickers that wait on a wheel. Make one with New. Its methods may be called by
// any goroutine.
type Clock struct {
	// Immutable after New.
	wheel   *hashedwheel.Timer // nil for package time alone
	tick    time.Duration
	start   time.Time
	outside bool // not in a synctest bubble

	sleepers sync.Pool // of *Timer, for Sleep
}

// New returns a clock that waits on timer. If timer is nil it waits on package time alone, so that a program can
// choose at run time. A clock holds no goroutine, and needs no end: stop the timer.
//
// One that was made outside of a bubble of testing/synctest must not be used in one, nor the other way
// round: it panics.
func New(timer *hashedwheel.Timer) *Clock {
	c := &Clock{wheel: timer, start: time.Now()}
	c.outside = isMonotonic(c.start)
	if timer != nil {
		c.tick = timer.Tick()
	}
	return c
}

// isMonotonic reports whether a time has a monotonic reading. In a bubble none has.
func isMonotonic(t time.Time) bool { return t.Round(0) != t }

// elapsed returns the time since New.
func (c *Clock) elapsed() time.Duration {
	if d := time.Since(c.start); d >= 0 && c.outside {
		return d
	}
	return c.bubbleElapsed()
}

// bubbleElapsed is elapsed for a clock of a bubble, or in a bubble.
func (c *Clock) bubbleElapsed() time.Duration {
	now := time.Now()
	switch outside := isMonotonic(now); {
	case c.start.IsZero():
		panic("clock: the Clock was not made by New")
	case outside && !c.outside:
		panic("clock: a Clock made in a testing/synctest bubble is used outside of it")
	case !outside && c.outside:
		panic("clock: a Clock made outside of a testing/synctest bubble is used in one: make it in there")
	}
	return max(now.Sub(c.start), 0)
}

// Now is time.Now.
func (c *Clock) Now() time.Time { return time.Now() }

// Since is time.Since.
func (c *Clock) Since(t time.Time) time.Duration { return time.Since(t) }

// Until is time.Until.
func (c *Clock) Until(t time.Time) time.Duration { return time.Until(t) }

// Sleep waits until d has passed. It returns at once if d is zero or less. It allocates nothing, once as
// many as now have slept at the same time.
func (c *Clock) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t, ok := c.sleepers.Get().(*Timer)
	if ok {
		t.Reset(d)
	} else {
		t = c.NewTimer(d)
	}
	<-t.C
	c.sleepers.Put(t)
}

// After returns a channel on which the time is sent when d has passed. It is NewTimer(d).C. Where something
// else usually comes first, NewTimer and Stop need less memory: see Differences above.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C }

// Tick is NewTicker(d).C, or nil if d is zero or less. The ticker cannot be stopped.
func (c *Clock) Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return c.NewTicker(d).C
}
