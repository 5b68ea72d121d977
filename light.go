package hashedwheel

// Light is embedded in the type of a task that only wakes somebody: it sends on a channel that has
// room, or starts a goroutine. Package clock is built of such tasks.
//
//	type alarm struct {
//		hashedwheel.Light
//		timeout hashedwheel.Timeout
//		...
//	}
//
// A Light task differs from others in two ways. It runs beyond WithMaxConcurrency and without the
// executor, because tasks that take up all there may be at a time may be waiting for it. And Stop does
// not return its timeout, which counts as canceled. If the task has a method Stopped(*Timeout), Stop
// calls that instead, so that none of them is lost without a word.
//
// Such a task, and Stopped, must not block, except to wait for a lock that is held briefly. Stopped is
// called by the goroutine that called Stop or Shutdown, when nothing can be armed any more. It must not wait for
// that goroutine. A panic in it is reported like one in the task.
type Light struct{ noHook }

// A stopNotified is a Light task that wants to know of Stop.
type stopNotified interface{ Stopped(to *Timeout) }

func (Light) own() bool { return true }

func (Light) notifyStopped(to *Timeout) {
	if task, ok := to.Task().(stopNotified); ok {
		task.Stopped(to)
	}
}
