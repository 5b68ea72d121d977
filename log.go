package hashedwheel

import (
	"bytes"
	"fmt"
	"log/slog"
	"path"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// reportPanic passes a panic to the panic handler, or logs it if there is none. To is nil for a panic of the executor.
func (t *Timer) reportPanic(to *Timeout, value any, stack []byte) {
	t.panics.Add(1)
	switch {
	case to == nil:
		t.log().Error("hashedwheel: executor panicked", "panic", value, "stack", stackLine(stack))
	case t.panicHandler != nil:
		t.panicHandler(to, value, stack)
	default:
		t.log().Error("hashedwheel: task panicked", "panic", value, "timeout", to.String(), "stack", stackLine(stack))
	}
}

// catch recovers a panic and reports it. It is for a defer statement.
func (t *Timer) catch(to *Timeout) {
	if value := recover(); value != nil {
		t.reportPanic(to, value, debug.Stack())
	}
}

// stackLine returns a stack of debug.Stack as one line for a log: the functions from the one that panicked to the
// task, such as main.charge (main.go:41).
func stackLine(stack []byte) string {
	from := bytes.Index(stack, []byte("\npanic("))
	if from < 0 {
		return string(stack)
	}
	var calls []string
	function := ""
	for line := range strings.SplitSeq(string(stack[from+1:]), "\n") {
		if strings.Contains(line, ".(*host).Work(") || strings.Contains(line, "/internal/crew.") {
			break
		}
		place, isPlace := strings.CutPrefix(line, "\t")
		if !isPlace {
			function = line[:max(strings.LastIndexByte(line, '('), 0)] // without the arguments
		} else if function != "panic" && !strings.HasPrefix(function, "runtime.") {
			place, _, _ = strings.Cut(path.Base(place), " +0x")
			calls = append(calls, function+" ("+place+")")
		}
	}
	return strings.Join(calls, ", ")
}

// warnLate logs that timeouts were handed over late. It does not wait for the logger.
func (t *Timer) warnLate(late time.Duration) {
	t.calls.Call(func() {
		defer func() { _ = recover() }() // if the logger panics there is nowhere to report it
		t.log().Warn("hashedwheel: timeouts fired late; machine overloaded or suspended", "late", rounded(late))
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
	fmt.Fprintf(&b, "%d pending, tick %v)", t.Pending(), t.clock.Tick)
	return b.String()
}

// String describes the timeout for logs: its status, its deadline and its task. The format may change.
func (to *Timeout) String() string {
	to.checkNil()
	word := to.word.Load()
	if status(word) == idle {
		return fmt.Sprintf("hashedwheel.Timeout(idle, task %s)", taskName(to.Task()))
	}
	state := [...]string{pending: "pending", expired: "expired", canceled: "canceled"}[status(word)]
	if word&atWork != 0 {
		state += ", running"
	}
	c := &to.timer.clock
	left := c.Boundary(tickOf(word)) - c.Elapsed()
	deadline := "in " + rounded(left).String()
	if left < 0 {
		deadline = rounded(-left).String() + " ago"
	}
	return fmt.Sprintf("hashedwheel.Timeout(%s, deadline %s, task %s)", state, deadline, taskName(to.Task()))
}

// taskName returns the type of a task, or the name of a function, such as main.(*call).fail-fm for a method value.
func taskName(task Task) string {
	switch task.(type) {
	case plainFunc, TaskFunc:
		if f := runtime.FuncForPC(reflect.ValueOf(task).Pointer()); f != nil {
			return path.Base(f.Name()) // without the path of its package, like %T
		}
	}
	return fmt.Sprintf("%T", task)
}

// rounded returns a duration, which must not be negative, rounded to three digits.
func rounded(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
