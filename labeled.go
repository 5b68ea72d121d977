package hashedwheel

import "context"

// Labeled returns a task that does what task does, under the profiler labels of ctx, such as those of the
// goroutine that arms the timeout: pprof.Do passes them to its function. Afterwards the goroutine has the
// labels of the timer again, which pprof.Do inside a task would not bring back; see WithName. On a
// goroutine of an executor it has none.
//
// It is nil for a nil task, panics for a nil context, and allocates 32 bytes. Only the task runs under the labels,
// not its Canceled method. Timeout.Task returns the task without them.
func Labeled(ctx context.Context, task Task) Task {
	if ctx == nil {
		panic("hashedwheel: Labeled: nil context") // here, or each run would be lost by a panic of its own
	}
	task, _ = adopt(task)
	if task == nil {
		return nil
	}
	return &labeled{wrap{task}, ctx}
}

// labeled is the hook around a task that runs under the labels of ctx.
type labeled struct {
	wrap
	ctx context.Context
}

func (l *labeled) Run(to *Timeout) {
	setLabels(l.ctx)
	t := to.timer
	after := t.labels.runner
	if t.runnersOf(to).dispatch != nil {
		after = context.Background()
	}
	defer setLabels(after) // also after a panic
	l.task.Run(to)
}
