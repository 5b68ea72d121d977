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
	EachRun(timer any, match func(task any) bool, yield func(task any, at time.Time, repeats bool, over <-chan struct{}))

	// EachCall calls yield for the calls of user code that are in progress on goroutines of a timer, or of its executor. If only one of
	// the caller and the timer is in a synctest bubble, it finds none.
	EachCall(timer any, yield func(Call))

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

	// Hold tells a timer that keys wait in a queue. Release tells it that none do any more.
	Hold(timer any, q Queue)
	Release(timer any, q Queue)
}

// A Call is a call of user code that is in progress.
type Call struct {
	What    string        // "" for a task; "Next", "Canceled", "panic handler" or "submit"
	Of      any           // the task, the Schedule of Next, the task of Canceled, or the function
	At      time.Time     // what Each yields of the timeout; zero for submit
	Repeats bool          // the same
	AtLeast time.Duration // since EachCall, or the timer itself, first found it
}

// A Queue has keys that have expired and wait for WithConcurrency of package keyed.
type Queue interface {
	// Waiting returns how many keys wait, how long the first of them has waited, and how many calls may be in progress at the same
	// time.
	Waiting() (keys int, longest time.Duration, limit int)
}
