package hashedwheel

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/logtext"
	"github.com/hashedwheel/hashedwheel/internal/pool"
)

// reportPanic passes a panic to the panic handler, or logs it if there is none. To is nil for a panic of the executor. What says
// which code has panicked.
func (t *Timer) reportPanic(to *Timeout, what string, value any, stack []byte) {
	t.panics.Add(1)
	switch {
	case to == nil:
		t.logPanic("executor", "", "", value, stack)
	case t.panicHandler != nil:
		began := t.elapsedHere()
		t.handling.begin(to, began)
		defer t.handling.end(to, began)
		t.briefs.begin()
		defer t.briefs.end()
		t.panicHandler(to, value, stack)
	default:
		t.logPanic(what, taskName(to.Task()), to.String(), value, stack)
	}
}

// elapsedHere returns the time since New, or 0 on the other side of a synctest bubble.
func (t *Timer) elapsedHere() time.Duration {
	if t.clock.Foreign() {
		return 0
	}
	return t.clock.Elapsed()
}

// logPanic logs a panic of what, in a task, and of a timeout if there is one. The first of a kind is logged at once, and later ones
// in a line a minute. That line comes with the next panic of the kind or with a round, and when the timer is stopped. So a timer that
// has nothing left to do does not wait for a minute to be over.
func (t *Timer) logPanic(what, task, timeout string, value any, stack []byte) {
	tell := func(value any, times int) {
		args := []any{"panic", value}
		if timeout != "" {
			args = append(args, "timeout", timeout)
		}
		if times > 1 {
			args = append(args, "times", times)
		}
		t.write(func() { t.log().Error("hashedwheel: "+what+" panicked", append(args, "stack", userStack(stack))...) })
	}
	if t.clock.Foreign() { // there is no common clock
		tell(value, 1)
		return
	}
	kind, elapsed := what+" "+task, t.clock.Elapsed()
	if times, now := t.flood.Add(kind, elapsed); now {
		tell(value, times)
		return
	}
	text := fmt.Sprint(value) // not the value, which may lead to the timeout
	first := t.flood.Keep(kind, elapsed, func(times int) { tell(text, times) })
	switch {
	case t.queue.shut.Load(): // read after Keep: either this is true, or Stop finds what is kept
		if t.flushing.CompareAndSwap(false, true) {
			time.AfterFunc(time.Second, func() {
				t.flushing.Store(false)
				t.logKept(true)
			})
		}
	case first:
		t.worker.wakeNow() // the round knows when to log it
	}
}

// logKept has the panics logged that are kept, if the last line of their kind was a minute ago, or all of them. It does not call the
// logger itself, because that may end its goroutine.
func (t *Timer) logKept(all bool) {
	for _, w := range t.flood.Take(t.clock.Elapsed(), all) {
		t.soon(w)
	}
}

// userStack returns the functions of a stack as one line, from the one that panicked to the methods of host (pools.go) or the
// functions of package pool, from which all user code is called. It compares the whole path, because a user's type or package
// may have the same name. The path is that of this build, because the library may be vendored.
func userStack(stack []byte) string {
	ofHost := strings.TrimSuffix(logtext.Symbol((*Timer).reportPanic), "(*Timer).reportPanic") + "(*host)."
	ofPool := strings.TrimSuffix(logtext.Symbol((*pool.Calls).Call), "(*Calls).Call")
	return logtext.Stack(stack, ofHost, ofPool)
}

// catch recovers a panic of what and reports it. It is for a defer statement.
func (t *Timer) catch(to *Timeout, what string) {
	if value := recover(); value != nil {
		t.reportPanic(to, what, value, debug.Stack())
	}
}

// logSoon logs a message without waiting for the logger.
func (t *Timer) logSoon(level slog.Level, message string, args ...any) {
	t.soon(func() { t.log().Log(context.Background(), level, message, args...) })
}

// soon has a function called soon that logs.
func (t *Timer) soon(logs func()) { t.calls.Call(func() { t.write(logs) }) }

// write calls a function that logs. A panic of the logger has nowhere to be reported. It counts, and ends nothing.
func (t *Timer) write(logs func()) {
	defer func() {
		if recover() != nil {
			t.panics.Add(1)
		}
	}()
	logs()
}

// log returns the logger to use. Logging runs user code: the handler of the logger.
func (t *Timer) log() *slog.Logger {
	l := t.logger
	if l == nil {
		l = slog.Default()
	}
	if t.name != "" {
		l = l.With("timer", t.name)
	}
	return l
}

// Name returns the name set by WithName.
func (t *Timer) Name() string {
	t.checkMade()
	return t.name
}

// String describes the timer for logs. The format may change.
func (t *Timer) String() string {
	var b strings.Builder
	b.WriteString("hashedwheel.Timer(")
	if t.name != "" {
		fmt.Fprintf(&b, "%s, ", t.name)
	}
	if t.IsStopped() {
		b.WriteString("stopped, ")
	}
	w := &t.worker
	fmt.Fprintf(&b, "%d pending, tick %v, wheel size %d, levels %d", t.Pending(), t.clock.Tick, w.wheelSize, w.levels)
	if t.limit.max > 0 {
		fmt.Fprintf(&b, ", max pending %d", t.limit.max)
	}
	if t.tasks.Limit > 0 {
		fmt.Fprintf(&b, ", max concurrency %d", t.tasks.Limit)
	}
	if t.executor != nil {
		b.WriteString(", executor")
	}
	b.WriteByte(')')
	return b.String()
}

// String describes the timeout for logs: its status, its deadline and its task. The format may change.
func (to *Timeout) String() string {
	to.checkNil()
	word := to.word.Load()
	if neverArmed(word) {
		return fmt.Sprintf("hashedwheel.Timeout(idle, task %s)", taskName(to.Task()))
	}
	state := [...]string{unarmed: "returned by Stop", pending: "pending", expired: "expired", canceled: "canceled"}[status(word)]
	if word&atWork != 0 {
		state += ", running"
	}
	return fmt.Sprintf("hashedwheel.Timeout(%s, deadline %s, task %s)", state, to.timer.describeTick(to.dueTick(word)), taskName(to.Task()))
}

// describeTick tells when a tick begins.
func (t *Timer) describeTick(tick uint64) string {
	at := t.clock.Boundary(tick)
	if t.clock.Foreign() { // reading the time would panic
		return at.String() + " after New"
	}
	left := at - t.clock.Elapsed()
	if left < 0 {
		return logtext.Duration(-left).String() + " ago"
	}
	return "in " + logtext.Duration(left).String()
}

// taskName returns the type of a task, or the name of a function.
func taskName(task Task) string {
	switch task.(type) {
	case plainFunc, TaskFunc:
		if name := logtext.Func(task); name != "" {
			return name
		}
	}
	return fmt.Sprintf("%T", task)
}
