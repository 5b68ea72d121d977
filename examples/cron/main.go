// Cron runs tasks at the times of cron expressions. The expressions are parsed by
// github.com/robfig/cron, whose schedules go straight into Timer.Schedule.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/robfig/cron/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// parser takes an optional field of seconds before the five that cron has, and descriptors such as @daily.
var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// parse returns the schedule of an expression. For @every it is the library's, because the parser cuts the
// interval to whole seconds.
func parse(expression string) (hashedwheel.Schedule, error) {
	interval, ok := strings.CutPrefix(expression, "@every ")
	if !ok {
		return parser.Parse(expression)
	}
	d, err := time.ParseDuration(strings.TrimSpace(interval))
	return hashedwheel.Every(d), err
}

// A job is a task that prints when it runs.
type job struct {
	expression string
	timeout    *hashedwheel.Timeout // one for all runs
	runs       int                  // without a lock, because runs never overlap
	out        func(format string, args ...any)
}

// Run is the task.
func (j *job) Run(to *hashedwheel.Timeout) {
	j.runs++
	j.out("%s  %-20s run %d\n", time.Now().Format("15:04:05.000"), j.expression, j.runs)
}

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("cron", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage: cron [flags] [expression...]\nCron prints a line at each time of each expression. Press Ctrl-C to end it.")
		flags.PrintDefaults()
	}
	length := flags.Duration("for", 10*time.Second, "how `long` to run")
	tick := flags.Duration("tick", 10*time.Millisecond, "`tick` of the timer")
	jitter := flags.Float64("jitter", 0, "delay each run at random, by up to this `fraction` of the time since the previous run, from 0 to 1")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	expressions := flags.Args()
	if len(expressions) == 0 {
		expressions = []string{"@every 1500ms", "*/2 * * * * *", "* * * * *"}
	}
	timer, err := hashedwheel.New(hashedwheel.WithTick(*tick))
	if err != nil {
		fmt.Fprintln(stderr, "cron:", err)
		return 2
	}
	defer timer.Shutdown(context.WithoutCancel(ctx))

	var mu sync.Mutex // different jobs may run at the same time
	printf := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(stdout, format, args...)
	}
	var jobs []*job
	for _, e := range expressions {
		s, err := parse(e)
		if err != nil {
			fmt.Fprintf(stderr, "cron: expression %q: %v\n", e, err)
			return 2
		}
		j := &job{expression: e, out: printf}
		jobs = append(jobs, j)
		if j.timeout, err = timer.Schedule(j, hashedwheel.Jitter(s, *jitter)); err != nil {
			fmt.Fprintf(stderr, "cron: expression %q: %v\n", e, err)
			return 2
		}
	}

	select {
	case <-ctx.Done():
	case <-time.After(*length):
	}
	if _, err := timer.Shutdown(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(stderr, "cron:", err)
		return 1
	}
	for _, j := range jobs {
		printf("%-20s ran %d times, next at %s\n", j.expression, j.runs, j.timeout.Deadline().Format(time.DateTime))
	}
	return 0
}
