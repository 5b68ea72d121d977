package hashedwheel

// The crews of a timer
//
// A timer has three crews. One runs the users' tasks, one the library's own (see hook.own), and one makes calls:
// it notifies Cancelers, and logs. An executor adds one that calls submit. The timer is their host, under other
// types, so that a Timer has no methods for it.

// timeoutHost is the Timer as the host of the crews whose items are timeouts.
type timeoutHost Timer

var (
	_ host[*Timeout] = (*timeoutHost)(nil)
	_ host[*call]    = (*callHost)(nil)
)

// makeCrews prepares the crews of a new timer.
func (t *Timer) makeCrews(c config) {
	for _, crew := range []*crew[*Timeout]{&t.tasks, &t.own} {
		crew.init((*timeoutHost)(t), c.tick)
		crew.labels = t.labels.runner
		crew.prompt = true
	}
	t.calls.init((*callHost)(t), c.tick)
	t.calls.labels = t.labels.runner
	t.tasks.limit = c.concurrency
	if c.executor != nil {
		c.executor(t)
	}
}

// crewOf returns the crew that runs the task of a timeout.
func (t *Timer) crewOf(to *Timeout) *crew[*Timeout] {
	if h := to.hook(); h != nil && h.own() {
		return &t.own
	}
	return &t.tasks
}

// listed is the value of Timeout.bucket while the timeout is on the list of its crew, or on its way there, at
// position pos. It stays when a runner takes the timeout.
const listed = ^uint32(0)

func (h *timeoutHost) placed(due []*Timeout, pos uint32) {
	for i, to := range due {
		to.bucket, to.pos = listed, pos+uint32(i)
	}
}

func (h *timeoutHost) claim(to *Timeout, measure bool) claim {
	t := (*Timer)(h)
	if to.timer != t {
		return refused // the user has overwritten the struct
	}
	word := to.claim()
	if word == 0 {
		return refused
	}
	if word&atWork != 0 {
		t.queue.stripe().rearmed.Add(1) // for its next run; a repeating timeout keeps its slot
	} else {
		t.freeSlot()
	}
	if measure {
		t.measure(to)
	}
	if word&hooked != 0 {
		return claimedHooked
	}
	return claimed
}

func (h *timeoutHost) run(to *Timeout) { to.task.Run(to) }

func (h *timeoutHost) ran(to *Timeout) bool { return to.task.(hook).ran(to) }

// requeue has the worker hand the timeout over again, at once. After Stop it waits until Stop has taken the timeout
// from its runner.
func (h *timeoutHost) requeue(to *Timeout) {
	t := (*Timer)(h)
	s := t.queue.stripe()
	if !t.enter(s) {
		t.leave(s)
		<-t.allTaken
		return
	}
	defer t.leave(s)
	for word := to.word.Load(); waits(word) && word&queued == 0; word = to.word.Load() {
		if to.word.CompareAndSwap(word, word|queued) {
			t.pushAgain(s, to)
			t.worker.nudge()
			return
		}
	}
}

func (h *timeoutHost) panicked(to *Timeout, value any, stack []byte) {
	(*Timer)(h).reportPanic(to, value, stack)
}

// A call is user code that is called once, on a goroutine of the timer.
type call struct{ f func() }

// call has f called soon. It works in every state of the timer, also after Stop.
func (t *Timer) call(f func()) { t.calls.add(&call{f}) }

// callHost is the Timer as the host of the crews whose items are calls. A call recovers its own panics.
type callHost Timer

func (h *callHost) placed([]*call, uint32)            {}
func (h *callHost) claim(*call, bool) claim           { return claimed }
func (h *callHost) run(c *call)                       { c.f() }
func (h *callHost) ran(*call) bool                    { return false }
func (h *callHost) requeue(*call)                     {}
func (h *callHost) panicked(_ *call, v any, _ []byte) { panic(v) }
