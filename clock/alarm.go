package clock

import (
	"math"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// Alarms
//
// An alarm is a timer or a ticker. Two words under its mutex say all there is to say of it: whether it is armed,
// and when it is due.
//
//	           begin, reset
//	idle ------------------------> armed <---+
//	 ^                              |  |     | reset; or a ticker rings, and is due later
//	 |   stop; or a timer rings     |  +-----+
//	 +------------------------------+
//
// Something has to come when it is due: its timeout on the wheel, or a timer of package time. Either one
// only calls wake, and wake decides what that means:
//
//  1. While an alarm is armed, a call of wake is on its way that comes when it is due, or later. Whoever
//     arms it sees to that, with the mutex held.
//  2. Wake rings if the alarm is armed and due by the clock. Otherwise it does nothing.
//
// So it does not matter which arming a wake was meant for. One that the wheel had already claimed when a stop
// or a reset came finds the alarm idle, or not due; then by rule 1 another one is on its way. If it finds
// the alarm due it may as well ring, and the other one finds nothing to do. Wheel and package time may be
// asked to forget a wake, which spares the work, but need not have done so.
//
// No stale value: values are sent on the channel with the mutex held, and only while the alarm is
// armed. Stop and reset take off what lies in the channel with the mutex held too. So when they have returned
// the channel is empty, and what is sent next belongs to the next arming. A receive beside them is as
// if it had come before. The channel has room for one value, and a send drops the value if there is none, so
// nobody waits with the mutex held.
//
// No lost alarm: Stop of the wheel calls Stopped for each timeout that it takes. An alarm that is armed then
// asks package time instead. One that is armed later is refused by the wheel, and does the same.
//
// Lock order: an alarm's mutex, then those of the wheel. The wheel holds no lock when it calls Run or Stopped.
type alarm struct {
	hashedwheel.Light // its task needs no turn

	// Immutable once it has begun.
	clock *Clock         // nil: no Clock has made it
	c     chan time.Time // nil for a function
	f     func()

	timeout hashedwheel.Timeout // bound to the wheel, if there is one

	// Guarded by mu.
	mu        sync.Mutex
	armed     bool
	onRuntime bool          // the timer of package time is set
	runtime   *time.Timer   // calls wake; nil before the first use
	when      time.Duration // it is due, since the clock's start
	interval  time.Duration // of a ticker; 0 for a timer
}

// begin arms a new alarm.
func (a *alarm) begin(d time.Duration) {
	if w := a.clock.wheel; w != nil {
		w.Init(&a.timeout, a)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arm(d)
}

// stop makes the alarm idle, and reports whether it was active.
func (a *alarm) stop() (active bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	active = a.disarm()
	a.forget()
	return active
}

// reset arms the alarm anew, and reports whether it was active.
func (a *alarm) reset(d, interval time.Duration) (active bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	active = a.disarm()
	a.interval = interval
	a.arm(d)
	return active
}

// disarm makes the alarm idle and its channel empty, and reports whether it was armed or a value was left. Called
// with mu held.
func (a *alarm) disarm() (active bool) {
	active = a.armed
	a.armed = false
	if a.c == nil {
		return active
	}
	select {
	case <-a.c:
		return true
	default:
		return active
	}
}

// arm makes an idle alarm due when d has passed. Called with mu held.
func (a *alarm) arm(d time.Duration) {
	now := a.clock.elapsed()
	a.when = later(now, max(d, 0))
	a.armed = true
	if d <= 0 {
		a.forget()
		a.ring(time.Now())
		return
	}
	a.await(now)
}

// await has wake called when the alarm is due. Called with mu held.
func (a *alarm) await(now time.Duration) {
	left := a.when - now
	if a.clock.wheel != nil && max(left, a.interval) >= a.clock.tick {
		if _, err := a.timeout.ResetAt(a.clock.start.Add(a.when)); err == nil {
			if a.onRuntime {
				a.runtime.Stop()
				a.onRuntime = false
			}
			return
		}
	}
	a.timeout.Cancel()
	a.onRuntime = true
	if a.runtime == nil {
		a.runtime = time.AfterFunc(left, a.wake)
	} else {
		a.runtime.Reset(left)
	}
}

// forget asks that wake be not called any more. Called with mu held.
func (a *alarm) forget() {
	a.timeout.Cancel()
	if a.onRuntime {
		a.runtime.Stop()
		a.onRuntime = false
	}
}

// wake rings if the alarm is due. Called by the wheel and by package time, perhaps for an arming that has
// gone by.
func (a *alarm) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); a.armed && now.Sub(a.clock.start) >= a.when {
		a.ring(now)
	}
}

// ring does what an alarm is for: it sends the time, or starts the function. Called with mu held.
func (a *alarm) ring(now time.Time) {
	if a.c == nil {
		a.armed = false
		go a.f()
		return
	}
	select {
	case a.c <- now:
	default: // only a ticker's value may still be there
	}
	if a.interval == 0 {
		a.armed = false
		return
	}
	elapsed := now.Sub(a.clock.start)
	missed := (elapsed - a.when) / a.interval * a.interval
	a.when = later(a.when+missed, a.interval)
	a.await(elapsed)
}

// Run is the task of the timeout on the wheel.
func (a *alarm) Run(*hashedwheel.Timeout) { a.wake() }

// Stopped is called by Stop of the wheel if it has taken the timeout.
func (a *alarm) Stopped(*hashedwheel.Timeout) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.armed {
		a.await(a.clock.elapsed()) // the wheel refuses
	}
}

// later returns elapsed + d, or the longest Duration.
func later(elapsed, d time.Duration) time.Duration {
	if d > math.MaxInt64-elapsed {
		return math.MaxInt64
	}
	return elapsed + d
}
