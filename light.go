package hashedwheel

// Light is embedded in the type of a task that only wakes another goroutine: the task sends on a channel
// that has room, or starts a goroutine. Package clock is built of such tasks.
//
//	type alarm struct {
//		hashedwheel.Light
//		timeout hashedwheel.Timeout
//		...
//	}
//
// A Light task differs from others in two ways. First, it runs without the executor, and even if
// WithMaxConcurrency allows no more tasks, because running tasks may be waiting for it. Second, Stop does not
// return its timeout, which counts as canceled. If the task has a method Stopped(*Timeout), Stop calls this
// method instead, so that the task learns of the end of its timeout.
//
// Run and Stopped must not block, except on a lock that is held briefly. Stopped is called by the goroutine
// that called Stop or Shutdown, when nothing can be armed any more. It must not wait for that goroutine. A
// panic in Stopped is reported like one in Run.
//
// Embed Light once, by value, in the type that is passed to the timer.
type Light struct{ noHook }

// A stopNotified is a Light task that Stop notifies.
type stopNotified interface{ Stopped(to *Timeout) }

func (Light) own() bool { return true }

func (Light) notifyStopped(to *Timeout) {
	if task, ok := to.Task().(stopNotified); ok {
		task.Stopped(to)
	}
}
