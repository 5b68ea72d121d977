package hashedwheel

import (
	"sync"

	"github.com/hashedwheel/hashedwheel/internal/light"
)

// Hooks
//
// A hook is the library's own, and usually wraps the user's task. Its methods are called at events in the
// life of the timeout. Repeating timeouts, members of a Group, Cancelers, light tasks and Sleep have one. Other timeouts pay
// only a bit test. The core knows no kind of hook. It reads from the word whether a timeout has a hook, or is at work, and
// calls the methods of the outermost hook. A hook calls the methods of the hook that it wraps. The order is always the same:
// a member of a Group, a repeating, the hook of a Canceler, the task.

// A hook is notified of the events in the life of its timeout. Only claim and ran run user code themselves. The other
// methods block only on locks that are held briefly.
type hook interface {
	// putOff is called when the tick of a timeout has come. If the run follows the wall clock and is not due yet, putOff
	// gives the timeout a later tick. It reports whether the word has changed, by putOff or otherwise. Called by the worker
	// or the runner that has the timeout.
	putOff(to *Timeout, word uint64) bool

	// claim is called by Timeout.claim when the tick in word has passed. One compare-and-swap, from exactly word, makes the
	// timeout expired, or puts it at work. If that succeeds, ok is true, and claimed is the word that it has written. But a
	// repeating timeout may then be armed again or ended instead of run. In that case claimed is 0, and the runner must not
	// run the task.
	claim(to *Timeout, word uint64) (claimed uint64, ok bool)

	// ran is called by the runner when the task of the claimed run is over, also after a panic or a Goexit. The call is a part
	// of the run: see Timeout.WaitRunning. The result is true if the timeout is due again and not on the queue. Then the runner
	// runs the task again or requeues it.
	ran(to *Timeout) (again bool)

	// arm is called inside the gate, before a Reset makes a timeout pending that was not pending. An error prevents this.
	// NewTimeout does not call it: see Group.start.
	arm(to *Timeout) error

	// notices returns the counter of the calls of Canceled that have not returned, or nil if the task is no Canceler.
	notices() *notices

	// disarmed is called when Cancel, Stop or the end of its schedule has ended the timeout. It is not called when a claim
	// has made the timeout expired, nor when Cancel claims what Stop has returned. It is also called when arm has succeeded
	// and arming failed. After Cancel and Stop, byCancel is true. The caller may be inside the gate or not.
	disarmed(to *Timeout, byCancel bool)

	// light reports whether the task is light: see package light. It runs without the executor and does not count for
	// WithMaxConcurrency, because users' tasks may wait for it. Stop cancels its timeout. The task must not block.
	light() bool

	// dueTick returns the tick at which the timeout is due, or was to be due. That may be later than the tick in the word: see
	// putOff. Called by any goroutine.
	dueTick(to *Timeout, word uint64) uint64
}

func hookOf(task Task) hook {
	switch task := task.(type) {
	case hook:
		return task
	case light.Marked:
		return lightHook{}
	}
	return nil
}

func (to *Timeout) hook() hook {
	if to.word.Load()&hooked == 0 {
		return nil
	}
	return hookOf(to.task)
}

// isLight is hook.light for a timeout with or without a hook.
func (to *Timeout) isLight() bool {
	h := to.hook()
	return h != nil && h.light()
}

// putOff is hook.putOff for a timeout with or without a hook. It is also wheel.putOff.
func (to *Timeout) putOff(word uint64) bool {
	return word&hooked != 0 && hookOf(to.task).putOff(to, word)
}

// notices is hook.notices for a timeout with or without a hook.
func (to *Timeout) notices() *notices {
	if h := to.hook(); h != nil {
		return h.notices()
	}
	return nil
}

// dueTick is hook.dueTick for a timeout with or without a hook.
func (to *Timeout) dueTick(word uint64) uint64 {
	if word&hooked == 0 {
		return tickOf(word)
	}
	return hookOf(to.task).dueTick(to, word)
}

// prepareTask returns the task to arm a timeout with, or a hook around it, and the bits to set in its word. It
// returns nil if there is nothing to run. A nil pointer in a Task is allowed: its Run may handle that.
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

// noHook stands for the hook of a timeout that has none.
type noHook struct{}

func (noHook) ran(*Timeout) bool                      { return false }
func (noHook) arm(*Timeout) error                     { return nil }
func (noHook) notices() *notices                      { return nil }
func (noHook) disarmed(*Timeout, bool)                {}
func (noHook) light() bool                            { return false }
func (noHook) putOff(*Timeout, uint64) bool           { return false }
func (noHook) dueTick(_ *Timeout, word uint64) uint64 { return tickOf(word) }
func (noHook) claim(to *Timeout, word uint64) (claimed uint64, ok bool) {
	claimed = withStatus(word, expired)
	return claimed, to.word.CompareAndSwap(word, claimed)
}

// A wrapper is a hook that is wrapped around a task.
type wrapper interface{ wrapped() Task }

// wrap is a hook around a task. It passes each event to the hook of the task, if any.
type wrap struct{ task Task }

func (w *wrap) inner() hook {
	if h := hookOf(w.task); h != nil {
		return h
	}
	return noHook{}
}

func (w *wrap) wrapped() Task                           { return w.task }
func (w *wrap) Run(to *Timeout)                         { w.task.Run(to) }
func (w *wrap) putOff(to *Timeout, word uint64) bool    { return w.inner().putOff(to, word) }
func (w *wrap) dueTick(to *Timeout, word uint64) uint64 { return w.inner().dueTick(to, word) }
func (w *wrap) ran(to *Timeout) bool                    { return w.inner().ran(to) }
func (w *wrap) arm(to *Timeout) error                   { return w.inner().arm(to) }
func (w *wrap) notices() *notices                       { return w.inner().notices() }
func (w *wrap) disarmed(to *Timeout, byCancel bool)     { w.inner().disarmed(to, byCancel) }
func (w *wrap) light() bool                             { return w.inner().light() }

func (w *wrap) claim(to *Timeout, word uint64) (claimed uint64, ok bool) {
	return w.inner().claim(to, word)
}

// A lightHook is the hook of a light task: see package light.
type lightHook struct{ noHook }

func (lightHook) light() bool { return true }

// A Canceler is a Task that is notified when its timeout is canceled.
type Canceler interface {
	// Canceled is called once, soon after Cancel or Stop has ended the timeout, on a goroutine of the timer. When
	// Cancel claims a timeout that Stop has returned, Canceled is not called again. A call may overlap with a run that
	// began before a Reset, or with a run of a repeating timeout. Calls do not count toward WithMaxConcurrency, and
	// share goroutines, as tasks do: see Task. Timeout.WaitRunning waits for them.
	Canceled(to *Timeout)
}

// A notified is the hook of a Canceler.
type notified struct {
	wrap
	canceler Canceler
	count    notices
}

func (n *notified) notices() *notices { return &n.count }

func (n *notified) disarmed(to *Timeout, byCancel bool) {
	if byCancel {
		n.count.begin()
		to.timer.calls.CallFor(to, func() { n.notify(to) })
	}
}

func (n *notified) notify(to *Timeout) {
	defer n.count.end() // last, also if Canceled ends the goroutine
	to.timer.canceling.Add(1)
	defer to.timer.canceling.Add(-1)
	to.timer.briefs.begin()
	defer to.timer.briefs.end()
	defer to.timer.catch(to, "Canceled")
	n.canceler.Canceled(to)
}

// notices counts the unfinished calls of Canceled for one timeout, and the calls of Cancel that may make one. So the count
// stays above 0 from before a Cancel ends the timeout until Canceled has returned. For a Stop, only the call of Canceled
// counts: see Timeout.WaitRunning.
type notices struct {
	mu   sync.Mutex
	n    int
	over chan struct{} // closed when n becomes 0; nil if no goroutine waits
}

func (c *notices) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *notices) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.over != nil {
		close(c.over)
		c.over = nil
	}
}

// untilOver returns a channel that is closed when the count is 0, or nil if it is 0 now.
func (c *notices) untilOver() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n > 0 && c.over == nil {
		c.over = make(chan struct{})
	}
	return c.over
}
