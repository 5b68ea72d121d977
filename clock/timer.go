package clock

import "time"

// A Timer sends the time on C once, or calls a function, as a time.Timer does. NewTimer and AfterFunc make
// it. It must not be copied.
type Timer struct {
	C     <-chan time.Time // nil if AfterFunc made it
	alarm alarm
}

// NewTimer returns a timer that sends the time on C when d has passed, at once if d is zero or less. It
// costs one allocation and the channel.
func (c *Clock) NewTimer(d time.Duration) *Timer {
	ch := make(chan time.Time, 1)
	t := &Timer{C: ch, alarm: alarm{clock: c, c: ch}}
	t.alarm.begin(d)
	return t
}

// AfterFunc returns a timer that calls f in a goroutine of its own when d has passed. So f may block, and a panic in
// it ends the program, as with time.AfterFunc. If d is zero or less the goroutine is started at once.
func (c *Clock) AfterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{alarm: alarm{clock: c, f: f}}
	t.alarm.begin(d)
	return t
}

// Stop ends the timer, and reports whether it was active. If it was, nothing is sent, and the function is
// not called. Once it has returned nothing is received from C, not even a value that was sent before. Stop
// does not wait for the function.
//
// A timer with a channel counts as active until the value has been received. One with a function is
// active until that has been started.
func (t *Timer) Stop() bool {
	if t.alarm.clock == nil {
		panic("clock: Stop called on uninitialized Timer")
	}
	return t.alarm.stop()
}

// Reset makes the timer end when d has passed from now, and reports whether it was active, as Stop does.
// Once it has returned nothing is received from C that belongs to the time before.
func (t *Timer) Reset(d time.Duration) bool {
	if t.alarm.clock == nil {
		panic("clock: Reset called on uninitialized Timer")
	}
	return t.alarm.reset(d, 0)
}

// A Ticker sends the time on C at intervals, as a time.Ticker does. NewTicker makes it. It must not be
// copied.
type Ticker struct {
	C     <-chan time.Time
	alarm alarm
}

// NewTicker returns a ticker whose beats are d apart. Beat n is due when n times d has passed, without drift, and is
// sent at the first tick boundary of the wheel at or after that. Beats are dropped while the one before has not been
// received, and when the machine has stalled. A beat allocates nothing, except for an interval shorter
// than the wheel's tick.
//
// NewTicker panics if d is zero or less.
func (c *Clock) NewTicker(d time.Duration) *Ticker {
	if d <= 0 {
		panic("clock: non-positive interval for NewTicker")
	}
	ch := make(chan time.Time, 1)
	t := &Ticker{C: ch, alarm: alarm{clock: c, c: ch, interval: d}}
	t.alarm.begin(d)
	return t
}

// Stop ends the ticker. Once it has returned nothing is received from C, which is not closed. Stop does nothing
// for a Ticker that NewTicker has not made.
func (t *Ticker) Stop() {
	if t.alarm.clock != nil {
		t.alarm.stop()
	}
}

// Reset starts the ticker anew, also after Stop: the next beat is due when d has passed from now, and the
// others follow at that distance. Once it has returned nothing is received from C that belongs to the
// time before. Reset panics if d is zero or less.
func (t *Ticker) Reset(d time.Duration) {
	if d <= 0 {
		panic("clock: non-positive interval for Ticker.Reset")
	}
	if t.alarm.clock == nil {
		panic("clock: Reset called on uninitialized Ticker")
	}
	t.alarm.reset(d, d)
}
