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

// reportPanic passes a panic to the panic handler, or logs it if there is none. For a panic of the executor, to is
// nil.
func (t *Timer) reportPanic(to *Timeout, value any, stack []byte) {
	t.panics.Add(1)
	switch {
	case to == nil:
		t.log().Error("hashedwheel: executor panicked", "panic", value, "stack", userStack(stack))
	case t.panicHandler != nil:
		t.panicHandler(to, value, stack)
	default:
		t.log().Error("hashedwheel: task panicked", "panic", value, "timeout", to.String(), "stack", userStack(stack))
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

// catch recovers a panic and reports it. It is for a defer statement.
func (t *Timer) catch(to *Timeout) {
	if value := recover(); value != nil {
		t.reportPanic(to, value, debug.Stack())
	}
}

// warnLate logs that the worker was late, and why: if behind is true, the worker had more to do than it could in a tick. The
// fields warn and over of workerLateness are warnLate and onTime. Those of stall are warnStall and stallOver. The worker calls
// all four.
func (t *Timer) warnLate(late time.Duration, behind bool) {
	why := "machine overloaded or suspended"
	if behind {
		why = "very many were armed, canceled or due at once"
	}
	t.logSoon(slog.LevelWarn, "hashedwheel: timeouts fired late; "+why, "late", logtext.Duration(late))
}

func (t *Timer) onTime(lasted time.Duration) {
	t.logSoon(slog.LevelInfo, "hashedwheel: timeouts fire on time again", "lasted", logtext.Duration(lasted))
}

// warnStall logs that tasks are due and wait, and why.
func (t *Timer) warnStall(late time.Duration, r pool.Report[*Timeout]) {
	t.logSoon(slog.LevelWarn, "hashedwheel: tasks are due and wait for "+t.waitFor(r),
		"waiting", r.Waiting, "late", logtext.Duration(late), "running", r.Running)
}

func (t *Timer) stallOver(lasted time.Duration) {
	t.logSoon(slog.LevelInfo, "hashedwheel: tasks no longer wait", "lasted", logtext.Duration(lasted))
}

// waitFor says what tasks that are due wait for.
func (t *Timer) waitFor(r pool.Report[*Timeout]) string {
	switch x := t.executor; {
	case r.AtLimit:
		return fmt.Sprintf("WithMaxConcurrency(%d): as many tasks run", r.Running)
	case x == nil:
		return "a goroutine: tasks block, or the machine is overloaded"
	case x.Goroutines() < r.Starting:
		return fmt.Sprintf("the executor: it has not run %d functions that it has taken", r.Starting-x.Goroutines())
	default:
		return "the executor: its submit blocks"
	}
}

// logSoon logs a message without waiting for the logger.
func (t *Timer) logSoon(level slog.Level, message string, args ...any) {
	t.calls.Call(func() {
		defer func() { _ = recover() }() // if the logger panics there is nowhere to report it
		t.log().Log(context.Background(), level, message, args...)
	})
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
