package hashedwheel

import "context"

// Labeled returns a task that runs the given task with the profiler labels of ctx. These may be the labels
// of the goroutine that arms the timeout: pprof.Do passes such a context to its function. After the task,
// the goroutine has the labels of the timer again (see WithName), or none if the goroutine belongs to an
// executor. If the task called pprof.Do instead, the goroutine would keep the labels of the context that the
// task passed to pprof.Do.
//
// Labeled returns nil for a nil task, panics for a nil context, and allocates 32 bytes. Only Run has the
// labels: the method Canceled does not have them. Timeout.Task returns the given task.
func Labeled(ctx context.Context, task Task) Task {
	if ctx == nil {
		panic("hashedwheel: Labeled: nil context") // here, because otherwise each run would panic
	}
	task, _ = prepareTask(task)
	if task == nil {
		return nil
	}
	return &labeled{wrap{task}, ctx}
}

// labeled is the hook around a task that runs with the labels of ctx.
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
