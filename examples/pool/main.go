// Pool runs the tasks of a timer on a goroutine pool, github.com/panjf2000/ants. The timer itself
// runs the tasks that the pool refuses. With -blocking the pool refuses none, and limits how many
// tasks run at a time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/panjf2000/ants/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are what the flags set.
type options struct {
	tasks, workers int
	work, tick     time.Duration
	blocking       bool
}

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("pool", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Pool runs tasks that are due within a second on a pool of workers.\nPress Ctrl-C to end it with the report so far.")
		flags.PrintDefaults()
	}
	flags.IntVar(&o.tasks, "tasks", 2000, "`number` of tasks, due at even intervals within a second")
	flags.IntVar(&o.workers, "workers", 15, "`number` of workers of the pool")
	flags.DurationVar(&o.work, "work", 10*time.Millisecond, "`time` that each task blocks")
	flags.DurationVar(&o.tick, "tick", 10*time.Millisecond, "`tick` of the timer")
	flags.BoolVar(&o.blocking, "blocking", false, "while all workers are busy, let the pool make the timer wait, instead of\nrefusing tasks; then the timer runs no task itself")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if o.tasks < 1 || o.workers < 1 || o.work < 0 {
		fmt.Fprintln(stderr, "pool: -tasks and -workers must be positive, and -work must not be negative")
		return 2
	}
	if err := o.run(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, "pool:", err)
		return 1
	}
	return 0
}

// run does the work and prints the report.
func (o options) run(ctx context.Context, stdout io.Writer) error {
	pool, err := ants.NewPool(o.workers, ants.WithNonblocking(!o.blocking))
	if err != nil {
		return err
	}
	defer pool.Release()

	// The Submit method of the pool is the executor.
	timer, err := hashedwheel.New(hashedwheel.WithTick(o.tick), hashedwheel.WithExecutor(pool.Submit))
	if err != nil {
		return err
	}

	var mu sync.Mutex
	var late []time.Duration
	done := make(chan struct{}, o.tasks)
	for i := range o.tasks {
		delay := time.Second * time.Duration(i) / time.Duration(o.tasks)
		due := time.Now().Add(delay)
		_, err := timer.AfterFunc(delay, func() {
			l := time.Since(due)
			mu.Lock()
			late = append(late, l)
			mu.Unlock()
			time.Sleep(o.work)
			done <- struct{}{}
		})
		if err != nil {
			return err
		}
	}
	for range o.tasks {
		select {
		case <-done:
			continue
		case <-ctx.Done():
		}
		break
	}
	left, err := timer.Shutdown(context.Background()) // waits for the running tasks
	if err != nil {
		return err
	}

	st := timer.Stats()
	fmt.Fprintf(stdout, "%d tasks of %v, %d workers, tick %v\n", o.tasks, o.work, o.workers, o.tick)
	fmt.Fprintf(stdout, "run by the pool        %d\n", st.Expired-st.Unsubmitted)
	fmt.Fprintf(stdout, "refused by the pool    %d, and run by the timer itself\n", st.Unsubmitted)
	fmt.Fprintf(stdout, "not run (interrupted)  %d\n", len(left))
	if slices.Sort(late); len(late) > 0 {
		fmt.Fprintf(stdout, "started late by        p50 %v, p99 %v\n",
			late[len(late)/2].Round(10*time.Microsecond), late[len(late)*99/100].Round(10*time.Microsecond))
	}
	if int(st.Expired)+len(left) != o.tasks {
		return fmt.Errorf("%d tasks, but %d were run and %d are left", o.tasks, st.Expired, len(left))
	}
	return nil
}
