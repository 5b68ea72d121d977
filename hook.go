package hashedwheel

import (
	"runtime/debug"

	"github.com/hashedwheel/hashedwheel/internal/light"
)

// Hooks
//
// The core (timer, timeout, worker, wheel, crews) knows one kind of timeout. All other kinds use a
// hook: a task of the library's own, usually wrapped around the user's task, whose methods are called at
// the events in the life of the timeout. There are hooks for repeating timeouts, for members of a Group,
// for Cancelers, for light tasks, and for Sleep. Hooks nest: a Group may hold a repeating timeout whose task
// is a Canceler.
//
// The hooked bit of a timeout's word says that its task has a hook: see hookOf. So a timeout without a hook pays
// only for the test of a bit that it has loaded anyway.

// A hook is notified of the events in the life of its timeout. Only ran and notifyStopped run user code. The
// other methods block only on locks that are held briefly.
type hook interface {
	// unwrap returns the task that the hook is wrapped around, or nil if there is none.
	unwrap() Task

	// claim makes a pending timeout that is due expired, or at work, by one compare-and-swap from exactly
	// word. It returns the new word, or 0 if the word was no longer the one given. Called by a runner that
	// is claiming.
	claim(to *Timeout, word uint64) (claimed uint64)

	// ran is called when the run that was claimed is over, also after a panic or a Goexit. It reports whether the
	// timeout is pending and already due again, without being on the queue. Called by the runner, which then runs
	// the task again or puts the timeout on the queue.
	ran(to *Timeout) (again bool)

	// arm is called before Reset makes a timeout pending that is idle or has ended. An error prevents this.
	// Called inside the gate.
	arm(to *Timeout) error

	// disarmed is called after Cancel or Stop has canceled the timeout, or its schedule has ended. A claim
	// that ends a timeout does not call it. It is also called if arm was called but the timeout was not armed
	// in the end.
	disarmed(to *Timeout, canceled bool)

	// own reports whether the task is the library's own: that of a Sleep, or a light one. Such a task runs even if
	// WithMaxConcurrency allows no more tasks, and without the executor, because users' tasks may be
	// waiting for it. Stop cancels its timeout instead of returning it. The task must not block, except on
	// a lock that is held briefly.
	own() bool

	// notifyStopped is called after disarmed, if Stop has ended the timeout of an own task. By then the timer
	// is stopped, and Stop has taken all timeouts. Stop waits for the call.
	notifyStopped(to *Timeout)
}

// hookOf returns the hook of a task, nil if it has none.
func hookOf(task Task) hook {
	switch task := task.(type) {
	case hook:
		return task
	case light.Marked:
		return lightHook{}
	}
	return nil
}

// hook returns the timeout's hook, nil if it has none.
func (to *Timeout) hook() hook {
	if to.word.Load()&hooked == 0 {
		return nil
	}
	return hookOf(to.task)
}

// prepareTask returns the task to arm a timeout with, which may be a hook around the given one. The caller must
// set bits in the timeout's word. A nil result means that there is nothing to run. A nil pointer in a Task is
// allowed, because its Run may handle that.
func prepareTask(task Task) (prepared Task, bits uint64) {
	switch f := task.(type) {
	case nil:
		return nil, 0
	case TaskFunc:
		if f == nil {
			return nil, 0
		}
	case plainFunc:
		if f == nil {
			return nil, 0
		}
	case Canceler: // before the case light.Marked, because a task may be both
		return &notified{wrap: wrap{task}, canceler: f}, hooked
	case hook, light.Marked:
		return task, hooked
	}
	return task, 0
}

// noHook is a hook that adds nothing.
type noHook struct{}

func (noHook) unwrap() Task            { return nil }
func (noHook) ran(*Timeout) bool       { return false }
func (noHook) arm(*Timeout) error      { return nil }
func (noHook) disarmed(*Timeout, bool) {}
func (noHook) own() bool               { return false }
func (noHook) notifyStopped(*Timeout)  {}
func (noHook) claim(to *Timeout, word uint64) (claimed uint64) {
	claimed = withStatus(word, expired)
	if !to.word.CompareAndSwap(word, claimed) {
		return 0
	}
	return claimed
}

// wrap is a hook around a task that may have a hook itself. It passes each event on.
type wrap struct{ task Task }

// inner returns the hook of the task, or noHook if the task has none.
func (w *wrap) inner() hook {
	if h := hookOf(w.task); h != nil {
		return h
	}
	return noHook{}
}

func (w *wrap) Run(to *Timeout)                       { w.task.Run(to) }
func (w *wrap) unwrap() Task                          { return w.task }
func (w *wrap) claim(to *Timeout, word uint64) uint64 { return w.inner().claim(to, word) }
func (w *wrap) ran(to *Timeout) bool                  { return w.inner().ran(to) }
func (w *wrap) arm(to *Timeout) error                 { return w.inner().arm(to) }
func (w *wrap) disarmed(to *Timeout, canceled bool)   { w.inner().disarmed(to, canceled) }
func (w *wrap) own() bool                             { return w.inner().own() }
func (w *wrap) notifyStopped(to *Timeout)             { w.inner().notifyStopped(to) }

// A lightHook is the hook of a light task: see package light. The task need not hold it, because it is empty.
type lightHook struct{ noHook }

func (lightHook) own() bool { return true }

func (lightHook) notifyStopped(to *Timeout) {
	if task, ok := to.Task().(interface{ Stopped(to *Timeout) }); ok {
		task.Stopped(to)
	}
}

// A Canceler is a Task that is notified when its timeout is canceled.
type Canceler interface {
	// Canceled is called once, soon after Cancel or Stop has ended the timeout, on a goroutine of the
	// timer. A timeout whose task has been started has expired, and cannot be canceled unless it is reset. A
	// repeating timeout can be canceled at any time. In both cases the call may overlap with a run of the
	// task. The call does not count toward WithMaxConcurrency.
	//
	// Up to as many goroutines as there are processors make these calls, and more while calls block. Where
	// timeouts are canceled faster than that, the calls that are yet to be made take 80 bytes each.
	Canceled(to *Timeout)
}

// notified is the hook around a Canceler.
type notified struct {
	wrap
	canceler Canceler
}

func (n *notified) disarmed(to *Timeout, canceled bool) {
	if canceled {
		to.timer.calls.Call(func() { n.notify(to) })
	}
}

// notify notifies the task that its timeout was canceled. It recovers and reports a panic.
func (n *notified) notify(to *Timeout) {
	defer func() {
		if value := recover(); value != nil {
			to.timer.reportPanic(to, value, debug.Stack())
		}
	}()
	n.canceler.Canceled(to)
}
