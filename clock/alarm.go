package clock

import (
	"math"
	"reflect"
	"runtime"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/light"
)

// Alarms
//
// An alarm is the core of a Timer or a Ticker. Two fields under its mutex are its state: whether it is
// armed, and when it is due.
//
//	           begin, reset
//	idle ------------------------> armed <---+
//	 ^                              |  |     | reset; or a ticker rings, and is due later
//	 |   stop; or a timer rings     |  +-----+
//	 +------------------------------+
//
// When the alarm is due, its timeout on the wheel or a timer of package time calls wake. Two rules hold:
//
//  1. While an alarm is armed, a call of wake will come when the alarm is due, or later. The goroutine that
//     arms the alarm makes sure of that, with the mutex held.
//  2. A wake rings if the alarm is armed and the clock says that it is due. Otherwise it does nothing.
//
// So a stale wake does no harm. A stop or a reset may come when the wheel has already claimed the timeout. Then
// the wake may find the alarm idle. It may find the alarm armed and not due: by rule 1 another wake will come.
// Or it finds the alarm due and rings, and the other wake has nothing to do. Canceling a wake only saves work.
//
// No stale value: values are sent on the channel with the mutex held, and only while the alarm is armed. Stop
// and reset empty the channel, with the mutex held too. So after they have returned, the channel is empty, and
// the next value belongs to the next arming. A receive that races with a stop or a reset counts as earlier. The
// channel has room for one value, and a send to a full channel drops the value. So no goroutine blocks with the
// mutex held.
//
// No lost alarm: Stop of the wheel calls Stopped for each timeout that it takes. If the alarm is armed, it
// moves to package time. An alarm that is armed later uses package time too, because the wheel refuses it.
//
// Lock order: an alarm's mutex, then those of the wheel. The wheel holds no lock when it calls Run or Stopped.
type alarm struct {
	light.Task // its task does not wait for WithMaxConcurrency or the executor

	// Immutable once it has begun.
	clock *Clock         // nil if no Clock made the alarm; a new one without a wheel if that Clock is zero, or from outside the bubble
	c     chan time.Time // nil if the alarm calls a function
	f     func()

	timeout hashedwheel.Timeout // bound to the wheel, if there is one

	// Guarded by mu.
	mu        sync.Mutex
	armed     bool
	onRuntime bool          // runtime is armed
	runtime   *time.Timer   // calls wake; nil before the first use
	when      time.Duration // when the alarm is due, counted from the clock's start
	interval  time.Duration // the interval of a ticker; 0 for a timer
}

// begin arms a new alarm.
func (a *alarm) begin(d time.Duration) {
	now, foreign := a.clock.elapsed()
	if foreign { // there is no wheel, or it does not follow the bubble's time
		a.clock, now = newClock(), 0
	}
	if w := a.clock.wheel; w != nil {
		w.Bind(&a.timeout, a)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arm(now, d)
}

// stop makes the alarm idle, and reports whether it was active.
func (a *alarm) stop() (active bool) {
	if !a.clock.outside {
		a.clock.elapsed() // panics outside of the bubble, where a receive from c would be a fatal error
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	active = a.disarm()
	a.forget()
	return active
}

// reset arms the alarm anew, and reports whether it was active.
func (a *alarm) reset(d, interval time.Duration) (active bool) {
	now := a.elapsed()
	a.mu.Lock()
	defer a.mu.Unlock()
	active = a.disarm()
	a.interval = interval
	a.arm(now, d)
	return active
}

// elapsed returns the time since the clock's start. It panics in a bubble if the alarm was made outside.
func (a *alarm) elapsed() time.Duration {
	now, foreign := a.clock.elapsed()
	if foreign {
		panic("clock: a Timer or Ticker made outside of a testing/synctest bubble is used inside one: make it inside the bubble")
	}
	return now
}

// disarm makes the alarm idle and empties its channel. It reports whether the alarm was active: armed, or
// with a value left in the channel. Called with mu held.
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

// arm makes an idle alarm due when d has passed since now. Called with mu held.
func (a *alarm) arm(now, d time.Duration) {
	a.when = later(now, max(d, 0))
	a.armed = true
	if d <= 0 {
		a.forget()
		a.ring(time.Now())
		return
	}
	a.await(now)
}

// await makes the wheel or package time call wake when the alarm is due. Called with mu held.
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

// forget cancels the call of wake, if that is still possible. Called with mu held.
func (a *alarm) forget() {
	a.timeout.Cancel()
	if a.onRuntime {
		a.runtime.Stop()
		a.onRuntime = false
	}
}

// wake rings if the alarm is due. Called by the wheel and by package time, perhaps for an earlier arming.
func (a *alarm) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); a.armed && now.Sub(a.clock.start) >= a.when {
		a.ring(now)
	}
}

// ring sends the time or starts the function, and arms a ticker for its next beat. Called with mu held.
func (a *alarm) ring(now time.Time) {
	if a.c == nil {
		a.armed = false
		go a.f()
		return
	}
	select {
	case a.c <- now:
	default: // a ticker's last value has not been received
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

// String tells which function of the package has armed the alarm. It is for Tasks of the wheel.
func (a *alarm) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.c == nil:
		return "clock.AfterFunc " + runtime.FuncForPC(reflect.ValueOf(a.f).Pointer()).Name()
	case a.interval > 0:
		return "clock.Ticker"
	}
	return "clock.Timer"
}

// Kind returns the same for two alarms if String does, without making a string. It is for the page of wheeldebug.
func (a *alarm) Kind() uintptr {
	if a.c == nil {
		return reflect.ValueOf(a.f).Pointer()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return uintptr(min(a.interval, 1)) // 0 or 1, and no function lies there
}

// Run is the task of the timeout on the wheel.
func (a *alarm) Run(*hashedwheel.Timeout) { a.wake() }

// Stopped moves an armed alarm to package time. Called by Stop of the wheel when it has taken the timeout.
func (a *alarm) Stopped(*hashedwheel.Timeout) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.armed {
		a.await(a.elapsed()) // on package time, because the wheel is stopped and refuses
	}
}

// later returns elapsed + d, or the longest Duration if that would overflow.
func later(elapsed, d time.Duration) time.Duration {
	if d > math.MaxInt64-elapsed {
		return math.MaxInt64
	}
	return elapsed + d
}
