package hashedwheel

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"time"
)

// String describes the timeout for logs: its status, its deadline from now in three digits, and its
// task: the name of the function that AfterFunc or TaskFunc was given, else the type. The form may change.
func (to *Timeout) String() string {
	word := to.word.Load()
	if status(word) == idle {
		return fmt.Sprintf("hashedwheel.Timeout(idle, task %s)", taskName(to.Task()))
	}
	state := [...]string{pending: "pending", expired: "expired", canceled: "canceled"}[status(word)]
	if word&atWork != 0 {
		state += ", running"
	}
	c := &to.timer.clock
	left := c.boundary(tickOf(word)) - c.elapsed()
	if left < 0 {
		return fmt.Sprintf("hashedwheel.Timeout(%s, deadline %v ago, task %s)", state, rounded(-left), taskName(to.Task()))
	}
	return fmt.Sprintf("hashedwheel.Timeout(%s, deadline in %v, task %s)", state, rounded(left), taskName(to.Task()))
}

// taskName returns the name of the function that a task is, such as main.(*call).fail-fm for a method
// value, or else the type of the task.
func taskName(task Task) string {
	switch task.(type) {
	case plainFunc, TaskFunc:
		if f := runtime.FuncForPC(reflect.ValueOf(task).Pointer()); f != nil {
			return path.Base(f.Name()) // without the path of its package, as %T is
		}
	}
	return fmt.Sprintf("%T", task)
}

// rounded returns a duration that is not negative, rounded to three digits.
func rounded(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
