package clock

import "time"

// A Timer sends the time on C once, or calls a function once, as a time.Timer does. Make one with
// [Clock.NewTimer] or [Clock.AfterFunc]. It must not be copied.
type Timer struct {
	C     <-chan time.Time // nil if AfterFunc made it
	alarm alarm
}

// NewTimer returns a Timer that sends the time on C when d has passed. If d is zero or less, it sends at
// once. NewTimer makes one allocation besides the channel, and more if it uses package time.
func (c *Clock) NewTimer(d time.Duration) *Timer {
	ch := make(chan time.Time, 1)
	t := &Timer{C: ch, alarm: alarm{clock: c, c: ch}}
	t.alarm.begin(d)
	return t
}

// AfterFunc returns a Timer that calls f in its own goroutine when d has passed. If d is zero or less, it
// starts at once. As with time.AfterFunc, f may block, and a panic in f crashes the program. AfterFunc panics
// if f is nil.
func (c *Clock) AfterFunc(d time.Duration, f func()) *Timer {
	if f == nil {
		panic("clock: AfterFunc: nil function")
	}
	t := &Timer{alarm: alarm{clock: c, f: f}}
	t.alarm.begin(d)
	return t
}

// Stop ends the timer and reports whether it was active. If it was, the function will not be called. After
// Stop has returned, nothing is received from C, not even a value that was sent before. Stop does not
// wait for a function that is running.
//
// A timer with a channel is active until its value has been received. A timer with a function is active
// until its function has been started.
//
// Stop panics if the timer was not made by NewTimer or AfterFunc.
func (t *Timer) Stop() bool {
	if t.alarm.clock == nil {
		panic("clock: Stop called on uninitialized Timer")
	}
	return t.alarm.stop()
}

// Reset makes the timer fire when d has passed from now, and reports whether it was active, as Stop does.
// After Reset has returned, no value from before is received from C.
//
// Reset panics if the timer was not made by NewTimer or AfterFunc.
func (t *Timer) Reset(d time.Duration) bool {
	if t.alarm.clock == nil {
		panic("clock: Reset called on uninitialized Timer")
	}
	return t.alarm.reset(d, 0)
}

// A Ticker sends the time on C at intervals, as a time.Ticker does. Make one with [Clock.NewTicker]. It
// must not be copied.
type Ticker struct {
	C     <-chan time.Time
	alarm alarm

	// inBubble is a ticker of package time that replaces the alarm in a bubble where there is no wheel,
	// otherwise nil. It makes no beat for which nothing waits. An alarm makes one, which keeps the bubble's
	// time going and hides a deadlock.
	inBubble *time.Ticker
}

// NewTicker returns a Ticker whose beats are d apart. Beat n is due when n times d has passed, without drift.
// If the wheel holds the ticker, the beat is sent at the first tick boundary at or after that. A beat is
// dropped if the previous one has not been received. After the machine has stalled, all missed beats except one
// are dropped. A beat allocates nothing while the wheel is in use, unless the interval is shorter than the
// wheel's tick.
//
// NewTicker panics if d is zero or less.
func (c *Clock) NewTicker(d time.Duration) *Ticker {
	if d <= 0 {
		panic("clock: non-positive interval for NewTicker")
	}
	if _, foreign := c.elapsed(); foreign {
		if here := newClock(); !here.outside {
			std := time.NewTicker(d)
			return &Ticker{C: std.C, alarm: alarm{clock: here}, inBubble: std}
		}
	}
	ch := make(chan time.Time, 1)
	t := &Ticker{C: ch, alarm: alarm{clock: c, c: ch, interval: d}}
	t.alarm.begin(d)
	return t
}

// Stop ends the ticker. After Stop has returned, nothing is received from C. Stop does not close C. It does
// nothing if the ticker was not made by NewTicker.
func (t *Ticker) Stop() {
	switch {
	case t.alarm.clock == nil:
	case t.inBubble != nil:
		t.alarm.elapsed() // panics outside of the bubble, where Stop of package time would be a fatal error
		t.inBubble.Stop()
	default:
		t.alarm.stop()
	}
}

// Reset starts the ticker again with interval d, also after Stop. The next beat is due when d has passed from
// now. After Reset has returned, no value from before is received from C. Reset panics if d is zero or less,
// or if the ticker was not made by NewTicker.
func (t *Ticker) Reset(d time.Duration) {
	if d <= 0 {
		panic("clock: non-positive interval for Ticker.Reset")
	}
	if t.alarm.clock == nil {
		panic("clock: Reset called on uninitialized Ticker")
	}
	if t.inBubble != nil {
		t.alarm.elapsed() // as in Stop
		t.inBubble.Reset(d)
		return
	}
	t.alarm.reset(d, d)
}
