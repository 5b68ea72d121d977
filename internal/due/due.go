// Package due tells package keyed which timeouts are due, and package wheeldebug which are pending. It also lets package keyed
// limit how many tasks run. It is a bridge to what
// package hashedwheel has no public methods for: that package sets the variables, when it is initialized.
package due

import (
	"time"

	"github.com/hashedwheel/hashedwheel/internal/semaphore"
)

var (
	// Each is Timer.Tasks of a timer, a *hashedwheel.Timer. It also yields whether the timeout repeats.
	Each func(timer any, yield func(task any, at time.Time, repeats bool) bool)

	// Now returns the current tick of a timer, a *hashedwheel.Timer. If only one of the caller and the timer is in a synctest
	// bubble, no clock tells the tick. Then Now returns the one that the worker has reached.
	Now func(timer any) uint64

	// NowHere is Now, except that it panics if only one of the caller and the timer is in a synctest bubble.
	NowHere func(timer any) uint64

	// Ahead reports whether a timeout, a *hashedwheel.Timeout, is pending and due later than tick now.
	Ahead func(timeout any, now uint64) bool

	// Left reports whether Timer.Stop has returned a timeout, a *hashedwheel.Timeout, or it was canceled.
	Left func(timeout any) bool

	// Move is Timeout.Move, except that it fails if the boundary of the timeout, a *hashedwheel.Timeout, has passed. It reads
	// the clock once. So even if the caller is stopped meanwhile, the delay counts from before the boundary.
	Move func(timeout any, delay time.Duration) bool

	// Wait reports whether tasks of a timer, a *hashedwheel.Timer, are due and wait for a runner or a semaphore. It misses those
	// whose boundary the worker has not reached yet.
	Wait func(timer any) bool

	// NewSemaphore returns a semaphore with n permits for tasks of a timer, a *hashedwheel.Timer.
	NewSemaphore func(timer any, n int) any // a *semaphore.Semaphore[*hashedwheel.Timeout]
)

// A Limited is a task that needs a permit of a semaphore to run. Timeout is *hashedwheel.Timeout. As long as no permit is
// free, a timeout that is due waits in the queue of the semaphore. It is pending then, and holds no runner.
//
// The timer holds the lock of the task while it decides whether the task starts or waits. No other goroutine may cancel or
// reset the timeout without the lock, or when its boundary has passed.
type Limited[Timeout comparable] interface {
	Lock()
	Unlock()
	Semaphore() (s *semaphore.Semaphore[Timeout], place *semaphore.Place) // always the same
	Ended() bool                                                          // with the lock held: Run does nothing, and needs no permit
}
