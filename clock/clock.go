// Package clock provides the timers, tickers and waiting functions of package time on a [hashedwheel.Timer], which is
// called the wheel below. A program that uses the channels of timers, or cannot return an error, moves to the wheel
// by changing time.NewTimer to clock.NewTimer:
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
// No call fails. A Clock uses package time instead of the wheel in four cases, and the caller need not
// know:
//
//   - The duration is shorter than a tick. So a microsecond takes a microsecond, not a tick.
//   - The wheel refuses the timer because too many timeouts are pending.
//   - [hashedwheel.Timer.Stop] has been called. It moves pending timers and tickers to package time before it
//     returns. So Stop takes a microsecond or more for each of them, half a second or more for half a million.
//   - The caller is in a testing/synctest bubble, and the Clock was made outside. Then timers and tickers
//     run on the bubble's time, exactly, so one Clock can be a variable of the package.
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
//   - C has a capacity of 1, and a length of 1 while it holds a value. In package time both are always 0. They are
//     also 0 for a ticker in a testing/synctest bubble, unless its Clock was made there.
//   - A timer that is not stopped stays in memory until it is due, even if nothing refers to it any more.
//     A ticker stays until it is stopped. Package time did the same before Go 1.23.
//   - If a Clock was made in a bubble, its tickers keep the bubble's time going until they are stopped. Until then
//     synctest reports no deadlock, and a deadlocked test runs until its time limit. With other Clocks, synctest
//     reports it.
//   - A beat that nothing receives costs as much processor time as any other, some 400 ns. In package time it costs
//     none. If the interval is shorter than a tick, each beat also starts a goroutine, which ends at once.
//   - A wheel with a tick of 1 µs or less works for less than 292 years: with a tick of 1 ns, for 104 days.
//     A timer with a later deadline never expires.
//   - Timers that the wheel refuses count in RejectedFull or RejectedStopped of [hashedwheel.Stats].
//
// Where very many functions come due at the same time, [hashedwheel.Timer.AfterFunc] is the better
// choice. Unlike AfterFunc of this package and of package time, it does not start a goroutine for each function.
package clock

import (
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A Clock makes timers and tickers that wait on a wheel. Make one with New. A zero Clock uses package time alone, everywhere,
// so that a program can choose at run time. Any goroutine may call the methods of a Clock.
type Clock struct {
	// Immutable after New.
	wheel   *hashedwheel.Timer // nil for package time alone: see alarm.begin
	tick    time.Duration
	start   time.Time
	outside bool // made outside of synctest bubbles

	sleepers sync.Pool // of *Timer made outside of bubbles, for Sleep
}

// An Option changes a default of New. There are none yet. New takes options so that a later version can add some.
type Option func(*config)

// config will hold what the options set.
type config struct{}

// New returns a Clock that waits on timer. A Clock has no goroutine and needs no Stop: stop the timer instead. New panics if
// timer is nil, or was not made by hashedwheel.New.
//
// A Clock made outside of testing/synctest bubbles may be used in all of them, where it uses package time. A Clock
// made in a bubble runs on the bubble's time, and needs a wheel made there. Outside of the bubble, it panics.
//
// A timer or ticker belongs to the bubble in which it was made, as in package time. Outside of that bubble, its
// methods panic. If a timer or ticker was made outside of bubbles, Reset panics inside a bubble. Stop stops it
// there, but may panic.
func New(timer *hashedwheel.Timer, opts ...Option) *Clock {
	if timer == nil {
		panic("clock: New: nil Timer")
	}
	c := newClock()
	c.wheel, c.tick = timer, timer.Tick() // Tick panics if the timer is zero
	return c
}

// newClock returns a Clock without a wheel, for one side of a bubble.
func newClock() *Clock {
	now := time.Now()
	return &Clock{start: now, outside: isMonotonic(now)}
}

// isMonotonic reports whether a time has a monotonic reading. In a bubble no time has one.
func isMonotonic(t time.Time) bool { return t.Round(0) != t }

// elapsed returns the time since New. If there is none, foreign is true: the Clock is zero, or was made outside of
// bubbles and the caller is in one.
//
// Outside of bubbles, only two branches detect a bubble. In a bubble, which begins in the year 2000, the time since
// New of a Clock made outside is negative, unless the bubble lasts for decades.
func (c *Clock) elapsed() (d time.Duration, foreign bool) {
	if d := time.Since(c.start); d >= 0 && c.outside {
		return d, false
	}
	return c.bubbleElapsed()
}

// bubbleElapsed is elapsed for a zero Clock, a Clock made in a bubble, or a call from inside a bubble.
func (c *Clock) bubbleElapsed() (d time.Duration, foreign bool) {
	now := time.Now()
	switch outside := isMonotonic(now); {
	case c.start.IsZero():
		return 0, true
	case outside && !c.outside:
		panic("clock: a Clock, Timer or Ticker made in a testing/synctest bubble is used outside of it")
	case !outside && c.outside:
		return 0, true
	}
	return max(now.Sub(c.start), 0), false
}

// Now is time.Now.
func (c *Clock) Now() time.Time { return time.Now() }

// Since is time.Since.
func (c *Clock) Since(t time.Time) time.Duration { return time.Since(t) }

// Until is time.Until.
func (c *Clock) Until(t time.Time) time.Duration { return time.Until(t) }

// Sleep waits until d has passed. It returns at once if d is zero or less. It reuses the timers of calls that are
// over.
func (c *Clock) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	if _, foreign := c.elapsed(); foreign || !c.outside {
		<-c.NewTimer(d).C // a timer of a bubble must not be used in another
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

// After returns NewTimer(d).C, a channel on which the time is sent when d has passed. A timer that is not stopped
// stays in memory until it is due. So if another event usually comes first, use NewTimer and Stop.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C }

// Tick returns NewTicker(d).C, or nil if d is zero or less. The ticker cannot be stopped.
func (c *Clock) Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return c.NewTicker(d).C
}
