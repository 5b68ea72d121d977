// Pool runs the tasks of a timer on a goroutine pool. Look at serve: the Submit method of a pool of
// github.com/panjf2000/ants is the executor. If the pool refuses a task, the timer runs it itself.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/panjf2000/ants/v2"
)

const (
	tasks = 2000 // due at even intervals within a second
	work  = 10 * time.Millisecond
)

// serve runs the tasks on a pool. While all workers are busy, a blocking pool makes the timer wait, and another pool
// refuses tasks. It returns the counts of the timer, and how many tasks have not run because ctx was done.
func serve(ctx context.Context, workers int, blocking bool) (st hashedwheel.Stats, left int, err error) {
	pool, err := ants.NewPool(workers, ants.WithNonblocking(!blocking))
	if err != nil {
		return st, 0, err
	}
	defer pool.Release()
	timer, err := hashedwheel.New(hashedwheel.WithTick(10*time.Millisecond), hashedwheel.WithExecutor(pool.Submit))
	if err != nil {
		return st, 0, err
	}
	defer timer.Stop()
	done := make(chan struct{}, tasks)
	for i := range tasks {
		_, err := timer.AfterFunc(time.Second*time.Duration(i)/tasks, func() {
			time.Sleep(work)
			done <- struct{}{}
		})
		if err != nil {
			return st, 0, err
		}
	}
	for range tasks {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	pending, err := timer.Shutdown(context.Background()) // waits for the running tasks
	return timer.Stats(), len(pending), err
}

func main() { demo.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("pool", "runs 2,000 tasks of 10 ms on a goroutine pool, within a second")
	workers := flags.Int("workers", 15, "`number` of workers of the pool")
	blocking := flags.Bool("blocking", false, "let a busy pool make the timer wait, instead of refusing tasks")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	st, left, err := serve(ctx, *workers, *blocking)
	if err != nil {
		return err
	}
	demo.Table(out,
		[]any{"run by the pool", st.Expired - st.Unsubmitted},
		[]any{"run by the timer", st.Unsubmitted},
		[]any{"not run", left},
		[]any{"started late by", st.Lateness.Quantile(0.5).Round(time.Millisecond / 10), "(median)"},
		[]any{"", st.Lateness.Quantile(1).Round(time.Millisecond / 10), "(maximum)"})
	if int(st.Expired)+left != tasks {
		return fmt.Errorf("of %d tasks, %d were run and %d are left", tasks, st.Expired, left)
	}
	return nil
}
