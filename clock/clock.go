// Package clock provides the timers, tickers and waiting functions of package time on a
// [hashedwheel.Timer], which is called the wheel below. A program that uses the channels of timers, or has
// no place for an error, moves to the wheel by changing time.NewTimer to clock.NewTimer:
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
// Signatures and results are those of package time, as of Go 1.23. No stale value is received after
// [Timer.Stop] or [Timer.Reset] has returned. Both report true if the timer was active and its value has
// not been received. No timer fires early.
//
// No call fails. A Clock uses package time instead of the wheel in three cases, and the caller need not
// know:
//
//   - The duration is shorter than a tick. So a microsecond takes a microsecond, not a tick.
//   - The wheel refuses the timer because too many timeouts are pending.
//   - [hashedwheel.Timer.Stop] has been called. It moves pending timers and tickers to package time.
//
// A Reset moves a timer from the wheel to package time, or back, when needed.
//
// Timers and tickers of a Clock do not count for [hashedwheel.WithMaxConcurrency], and do not use the
// executor. Stop does not return their timeouts.
//
// # Differences from package time
//
//   - A duration of a tick or more ends late by less than a tick, plus what the machine adds. Choose a tick
//     of at most a tenth of the shortest usual duration.
//   - C has a capacity of 1, and a length of 1 while it holds a value. In package time both are always 0.
//   - A timer that is not stopped stays in memory until it is due, even if nothing refers to it any more,
//     and a ticker until it is stopped. Package time did the same before Go 1.23.
//   - A ticker whose interval is shorter than a tick costs a goroutine at each beat, which ends at once,
//     even if nothing receives from C.
//   - A wheel with a tick below 1 µs works for a limited time: with a tick of 1 ns, for 104 days. A timer
//     that is due after that never fires.
//   - Timers that the wheel refuses count in Rejected of [hashedwheel.Stats].
//
// Where very many functions come due at the same time, [hashedwheel.Timer.AfterFunc] is the better
// choice. Unlike AfterFunc of this package and of package time, it does not start a goroutine for each function.
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
	outside bool // made outside of synctest bubbles

	sleepers sync.Pool // of *Timer, for Sleep
}

// New returns a Clock that waits on timer. If timer is nil, the Clock uses only package time, so that a
// program can choose at run time. A Clock has no goroutine and needs no Stop: stop the timer instead.
//
// A Clock made outside of a testing/synctest bubble panics when it is used in one. One made in a bubble
// panics when it is used outside.
func New(timer *hashedwheel.Timer) *Clock {
	c := &Clock{wheel: timer, start: time.Now()}
	c.outside = isMonotonic(c.start)
	if timer != nil {
		c.tick = timer.Tick()
	}
	return c
}

// isMonotonic reports whether a time has a monotonic reading. In a bubble no time has one.
func isMonotonic(t time.Time) bool { return t.Round(0) != t }

// elapsed returns the time since New.
func (c *Clock) elapsed() time.Duration {
	if d := time.Since(c.start); d >= 0 && c.outside {
		return d
	}
	return c.bubbleElapsed()
}

// bubbleElapsed is elapsed for a Clock made in a bubble, or for a call from inside a bubble.
func (c *Clock) bubbleElapsed() time.Duration {
	now := time.Now()
	switch outside := isMonotonic(now); {
	case c.start.IsZero():
		panic("clock: the Clock was not made by New")
	case outside && !c.outside:
		panic("clock: a Clock made in a testing/synctest bubble is used outside of it")
	case !outside && c.outside:
		panic("clock: a Clock made outside of a testing/synctest bubble is used inside one: make it inside the bubble")
	}
	return max(now.Sub(c.start), 0)
}

// Now is time.Now.
func (c *Clock) Now() time.Time { return time.Now() }

// Since is time.Since.
func (c *Clock) Since(t time.Time) time.Duration { return time.Since(t) }

// Until is time.Until.
func (c *Clock) Until(t time.Time) time.Duration { return time.Until(t) }

// Sleep waits until d has passed. It returns at once if d is zero or less. It reuses its timers, so it
// seldom allocates.
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

// After returns a channel on which the time is sent when d has passed. It is NewTimer(d).C. If something
// else usually happens first, use NewTimer and Stop, which need less memory: an unstopped timer stays in
// memory until it is due.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C }

// Tick returns NewTicker(d).C, or nil if d is zero or less. The ticker cannot be stopped.
func (c *Clock) Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return c.NewTicker(d).C
}
