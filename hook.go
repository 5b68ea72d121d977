package hashedwheel

// Hooks
//
// The core (timer, timeout, worker, wheel, runners) knows one kind of timeout. Everything else that
// a timeout can be is a hook: a task of the library's own, usually wrapped around the user's, that
// takes part in the timeout's life. A repeating timeout, a member of a Group, the task of a Canceler,
// a Light task and the task of Sleep are hooks. Hooks nest: a Group may hold a repeating
// timeout whose task is a Canceler.
//
// The hooked bit of a timeout's word says that its task is a hook. So a timeout without one pays for
// hooks with a test of a bit that it has loaded anyway.

// A hook is told of the events in the life of its timeout. No method may block, except to wait
// for a lock of its own that is held briefly, or run user code, except ran.
type hook interface {
	// unwrap returns the task that the hook is wrapped around, or nil if there is none.
	unwrap() Task

	// claim makes a pending timeout that is due expired, or at work, by one compare-and-swap from
	// exactly word. It returns the new word, or 0 if the word was no longer that one. Called by a
	// runner that is claiming.
	claim(to *Timeout, word uint64) (claimed uint64)

	// ran is called when the run that was claimed is over, also after a panic or a Goexit. Called by
	// the runner.
	ran(to *Timeout)

	// arm is called before a timeout that is idle or has ended becomes pending. An error refuses that. Called by
	// Reset, inside the gate.
	arm(to *Timeout) error

	// left is called after the timeout has ceased to be pending other than by a claim: it was
	// canceled by Cancel or Stop, or its schedule has ended, or arm was called and the timeout was not
	// armed after all.
	left(to *Timeout, canceled bool)

	// own reports whether the task is no user's: it is the library's, or a Light one. It runs beyond
	// WithMaxConcurrency and without the executor, because tasks may be waiting for it. Stop cancels
	// its timeout instead of returning it. Such a task must not block, except to wait for a lock that is
	// held briefly.
	own() bool

	// notifyStopped is called after left if it was Stop that ended the timeout of an own task. The timer is
	// stopped then, and Stop waits for the call alone.
	notifyStopped(to *Timeout)
}

// adopt returns what a timeout is armed with for a task, and the bits that its word gets. The task is nil
// if there is nothing to run. A nil pointer in a Task is the user's business: its Run may cope with it.
func adopt(task Task) (adopted Task, bits uint64) {
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
	case Canceler: // also one that is a hook, being Light
		return &notified{wrap: wrap{task}, canceler: f}, hooked
	case hook:
		return task, hooked
	}
	return task, 0
}

// noHook is a hook that changes nothing.
type noHook struct{}

func (noHook) unwrap() Task           { return nil }
func (noHook) ran(*Timeout)           {}
func (noHook) arm(*Timeout) error     { return nil }
func (noHook) left(*Timeout, bool)    {}
func (noHook) own() bool              { return false }
func (noHook) notifyStopped(*Timeout) {}
func (noHook) claim(to *Timeout, word uint64) (claimed uint64) {
	claimed = withStatus(word, expired)
	if !to.word.CompareAndSwap(word, claimed) {
		return 0
	}
	return claimed
}

// wrap is a hook around a task that may be a hook itself. It passes each event on.
type wrap struct{ task Task }

// inner returns the hook that the task is.
func (w *wrap) inner() hook {
	if h, ok := w.task.(hook); ok {
		return h
	}
	return noHook{}
}

func (w *wrap) Run(to *Timeout)                       { w.task.Run(to) }
func (w *wrap) unwrap() Task                          { return w.task }
func (w *wrap) claim(to *Timeout, word uint64) uint64 { return w.inner().claim(to, word) }
func (w *wrap) ran(to *Timeout)                       { w.inner().ran(to) }
func (w *wrap) arm(to *Timeout) error                 { return w.inner().arm(to) }
func (w *wrap) left(to *Timeout, canceled bool)       { w.inner().left(to, canceled) }
func (w *wrap) own() bool                             { return w.inner().own() }
func (w *wrap) notifyStopped(to *Timeout)             { w.inner().notifyStopped(to) }
