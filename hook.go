package hashedwheel

// Hooks
//
// The core (timer, timeout, worker, wheel, crews) knows one kind of timeout. All other kinds use a
// hook: a task of the library's own, usually wrapped around the user's task, whose methods are called at
// the events in the life of the timeout. There are hooks for repeating timeouts, for members of a Group,
// for Cancelers, for Light tasks, and for Sleep. Hooks nest: a Group may hold a repeating timeout whose task
// is a Canceler.
//
// The hooked bit of a timeout's word says that its task is a hook. So a timeout without a hook pays only
// for the test of a bit that it has loaded anyway.

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

	// own reports whether the task is the library's own, or a Light one. Such a task runs even if
	// WithMaxConcurrency allows no more tasks, and without the executor, because users' tasks may be
	// waiting for it. Stop cancels its timeout instead of returning it. The task must not block, except on
	// a lock that is held briefly.
	own() bool

	// notifyStopped is called after disarmed, if Stop has ended the timeout of an own task. By then the timer
	// is stopped, and Stop has taken all timeouts. Stop waits for the call.
	notifyStopped(to *Timeout)
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
	case Canceler: // before the case hook, because a Light task may be both
		return &notified{wrap: wrap{task}, canceler: f}, hooked
	case hook:
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

// wrap is a hook around a task that may be a hook itself. It passes each event on.
type wrap struct{ task Task }

// inner returns the task as a hook, or noHook if the task is not a hook.
func (w *wrap) inner() hook {
	if h, ok := w.task.(hook); ok {
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
