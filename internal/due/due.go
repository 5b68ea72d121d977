// Package due tells package keyed which timeouts are due, and package wheeldebug which are pending. It is a bridge to what
// package hashedwheel has no public methods for: that package sets the variables when it is initialized, in handle.go, reset.go,
// schedule.go, log.go and stats.go.
package due

import "time"

var (
	// Each is Timer.Tasks of a timer, a *hashedwheel.Timer. It also yields whether the timeout repeats.
	Each func(timer any, yield func(task any, at time.Time, repeats bool) bool)

	// EachRun calls yield for the runs of tasks that are in progress, with what Each yields of the timeout. Over is closed when
	// the run is over. No two runs have the same channel.
	EachRun func(timer any, yield func(task any, at time.Time, repeats bool, over <-chan struct{}))

	// EachCall calls yield for the calls of user code that are in progress on goroutines of a timer, a *hashedwheel.Timer, or of its
	// executor. If only one of the caller and the timer is in a synctest bubble, it finds none.
	EachCall func(timer any, yield func(Call))

	// Now returns the current tick of a timer, a *hashedwheel.Timer. If only one of the caller and the timer is in a synctest
	// bubble, no clock tells the tick. Then Now returns the one that the worker has reached.
	Now func(timer any) uint64

	// NowHere is Now, except that it panics if only one of the caller and the timer is in a synctest bubble.
	NowHere func(timer any) uint64

	// Ahead reports whether a timeout, a *hashedwheel.Timeout, is pending and due later than tick now.
	Ahead func(timeout any, now uint64) bool

	// Left reports whether Timer.Stop has returned a timeout, a *hashedwheel.Timeout, or it was canceled.
	Left func(timeout any) bool

	// Catch recovers a panic, and reports it as one of the task of a timeout, a *hashedwheel.Timeout. Call it by a defer statement.
	Catch func(timeout any)

	// Move is Timeout.Move, except that it fails if the boundary of the timeout, a *hashedwheel.Timeout, has passed. It reads
	// the clock once. So even if the caller is stopped meanwhile, the delay counts from before the boundary.
	Move func(timeout any, delay time.Duration) bool

	// MoveAt is Move to a deadline, which must not be the zero Time.
	MoveAt func(timeout any, deadline time.Time) bool

	// Hold tells a timer, a *hashedwheel.Timer, that keys wait in a queue. Release tells it that none do any more.
	Hold, Release func(timer any, q Queue)

	// Wait reports whether tasks of a timer, a *hashedwheel.Timer, are due and wait for a runner. It misses those whose
	// boundary the worker has not reached yet.
	Wait func(timer any) bool
)

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
