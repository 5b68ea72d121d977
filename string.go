package hashedwheel

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"time"
)

// String describes the timeout for logs: its status, the time to its deadline rounded to three digits, and
// its task. A task that is a function is described by its name, any other by its type. The format may
// change.
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

// taskName returns the name of a task that is a function, such as main.(*call).fail-fm for a method value.
// For any other task it returns the type.
func taskName(task Task) string {
	switch task.(type) {
	case plainFunc, TaskFunc:
		if f := runtime.FuncForPC(reflect.ValueOf(task).Pointer()); f != nil {
			return path.Base(f.Name()) // without the path of its package, like %T
		}
	}
	return fmt.Sprintf("%T", task)
}

// rounded returns a duration rounded to three digits. The duration must not be negative.
func rounded(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
