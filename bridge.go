package hashedwheel

import (
	"runtime/debug"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/due"
)

// A bridge is due.Root, for packages keyed and wheeldebug. Package due says what the methods do.
type bridge struct{}

func init() { due.Root = bridge{} }

func (bridge) Each(t any, yield func(task any, at time.Time, repeats bool) bool) {
	t.(*Timer).walk(func(to *Timeout) bool { return yield(to.Task(), to.Deadline(), to.repeats()) })
}

func (bridge) EachRun(t any, match func(task any) bool, yield func(task any, at time.Time, repeats bool, over <-chan struct{})) {
	t.(*Timer).eachRun(func(task Task) bool { return match(task) }, func(to *Timeout, over <-chan struct{}) { yield(to.Task(), to.Deadline(), to.repeats(), over) })
}

func (bridge) EachCall(t any, yield func(due.Call)) {
	timer := t.(*Timer)
	timer.checkMade()
	if timer.clock.Foreign() {
		return
	}
	elapsed := timer.clock.Elapsed()
	timer.eachActivity(elapsed, func(a activity) {
		c := due.Call{What: a.what, Of: a.of, AtLeast: max(elapsed-a.since, 0)}
		if a.to != nil {
			c.At, c.Repeats = a.to.Deadline(), a.to.repeats()
		}
		yield(c)
	})
}

func (bridge) Now(t any) uint64     { return t.(*Timer).latest(t.(*Timer).clock.NowOrZero()) }
func (bridge) NowHere(t any) uint64 { return t.(*Timer).latest(t.(*Timer).clock.Now()) }

// latest returns a tick that the clock tells, or the one that the worker has reached, if that is later.
func (t *Timer) latest(now uint64) uint64 { return max(t.worker.progress.tick(), now) }

func (bridge) Ahead(to any, now uint64) bool {
	word := to.(*Timeout).word.Load()
	return status(word) == pending && tickOf(word) > now
}

func (bridge) MoveAt(to any, deadline time.Time) bool { return to.(*Timeout).moveAt(deadline) }

func (bridge) Catch(to any) {
	if value := recover(); value != nil {
		to.(*Timeout).timer.reportPanic(to.(*Timeout), "task", value, debug.Stack())
	}
}

func (bridge) Waits(t any) bool { return t.(*Timer).tasks.Waiting() > 0 }

func (bridge) Hold(t any, q due.Queue)    { t.(*Timer).queues.hold(q) }
func (bridge) Release(t any, q due.Queue) { t.(*Timer).queues.release(q) }

// repeats reports whether the timeout is one that repeats.
func (to *Timeout) repeats() bool {
	for task := to.task; ; {
		if _, ok := task.(*repeating); ok {
			return true
		}
		w, ok := task.(wrapper)
		if !ok {
			return false
		}
		task = w.wrapped()
	}
}
