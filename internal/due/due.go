// Package due tells package keyed which timeouts are due, and package wheeldebug which are pending. It is a bridge to what
// package hashedwheel has no public methods for: that package sets the variables, when it is initialized.
package due

import "time"

var (
	// Each is Timer.Tasks of a timer, a *hashedwheel.Timer. It also yields whether the timeout repeats.
	Each func(timer any, yield func(task any, at time.Time, repeats bool) bool)

	// Ahead reports whether a timeout, a *hashedwheel.Timeout, is pending and its tick boundary lies ahead. It is false
	// when the worker has reached that boundary, even if the task still waits for a runner. It reads no clock.
	Ahead func(timeout any) bool

	// Wait reports whether tasks of a timer, a *hashedwheel.Timer, are due and wait for a runner. It may miss those
	// that have come due at this moment.
	Wait func(timer any) bool

	// CheckSide panics if only one of the caller and a timer, a *hashedwheel.Timer, is in a synctest bubble.
	CheckSide func(timer any)
)
