// Package light marks the tasks of package clock.
package light

// A Task is embedded, by value, in the type of a task that only wakes another goroutine: the task sends on a
// channel that has room, or starts a goroutine.
//
//	type alarm struct {
//		light.Task
//		timeout hashedwheel.Timeout
//		...
//	}
//
// Such a task differs from others in two ways. First, it runs without the executor, and even if
// WithMaxConcurrency allows no more tasks, because running tasks may be waiting for it. Second, Stop does not
// return its timeout, which counts as canceled. If the task has a method Stopped(*Timeout), Stop calls this
// method instead, so that the task learns of the end of its timeout.
//
// Run and Stopped must not block, except on a lock that is held briefly. Stopped is called by Stop, while nothing
// can be armed any more. It must return, and must not call Stop or Shutdown, which would wait for each other.
type Task struct{}

func (Task) light() {}

// Marked is implemented by the types that embed Task, and by no others.
type Marked interface{ light() }
