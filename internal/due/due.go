// Package due gives package keyed and package wheeldebug what package hashedwheel has no public methods for: which timeouts are due,
// and which are pending or run.
package due

import "time"

// Root is set by package hashedwheel, in bridge.go, when it is initialized.
var Root Access

// An Access has the methods. A timer is a *hashedwheel.Timer, and a timeout is a *hashedwheel.Timeout.
type Access interface {
	// Each is Timer.Tasks. It also yields whether the timeout repeats.
	Each(timer any, yield func(task any, at time.Time, repeats bool) bool)

	// EachRun calls yield for the runs of tasks that are in progress, with what Each yields of the timeout. The channel over is
	// closed when the run is over. No two runs have the same channel.
	EachRun(timer any, yield func(task any, at time.Time, repeats bool, over <-chan struct{}))

	// Now returns the current tick of a timer. If only one of the caller and the timer is in a synctest bubble, no clock tells
	// the tick. Then Now returns the one that the worker has reached.
	Now(timer any) uint64

	// NowHere is Now, except that it panics if only one of the caller and the timer is in a synctest bubble.
	NowHere(timer any) uint64

	// Ahead reports whether a timeout is pending and due later than tick now.
	Ahead(timeout any, now uint64) bool

	// MoveAt is Timeout.Move to a deadline, which must not be the zero Time.
	MoveAt(timeout any, deadline time.Time) bool

	// Catch recovers a panic, and reports it as one of the task of a timeout. Call it by a defer statement.
	Catch(timeout any)

	// Waits reports whether tasks of a timer are due and wait for a runner. It misses those whose boundary the worker has not
	// reached yet.
	Waits(timer any) bool
}
