// Cron runs tasks at the times of cron expressions. Look at schedule: an expression that github.com/robfig/cron has
// parsed is a Schedule as it is, and one Timeout stands for all its runs.
package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/robfig/cron/v3"
)

// parser takes an optional field of seconds before the five that cron has, and descriptors such as @daily.
var parser = cron.NewParser(
	cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// schedule runs the task at each time of the expression. For @every it uses the library's Every, because the parser
// cuts an interval to whole seconds.
func schedule(t *hashedwheel.Timer, expression string, task hashedwheel.TaskFunc) (*hashedwheel.Timeout, error) {
	if interval, ok := strings.CutPrefix(expression, "@every "); ok {
		d, err := time.ParseDuration(interval)
		if err != nil {
			return nil, err
		}
		return t.Schedule(task, hashedwheel.Every(d))
	}
	times, err := parser.Parse(expression)
	if err != nil {
		return nil, err
	}
	return t.Schedule(task, times)
}

func main() { demo.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("cron", "prints a line at each time of a few cron expressions")
	length := flags.Duration("for", 10*time.Second, "how `long` to run")
	expressions := flags.String("at", "@every 1500ms; */2 * * * * *; * * * * *",
		"`expressions`, with semicolons between them")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		return err
	}
	defer timer.Stop()
	var mu sync.Mutex // different tasks may run at the same time
	for e := range strings.SplitSeq(*expressions, ";") {
		e, runs := strings.TrimSpace(e), 0
		_, err := schedule(timer, e, func(to *hashedwheel.Timeout) {
			mu.Lock()
			defer mu.Unlock()
			runs++
			fmt.Fprintf(out, "%s  %-15s  run %d\n", time.Now().Format("15:04:05.000"), e, runs)
		})
		if err != nil {
			return fmt.Errorf("%q: %w", e, err)
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(*length):
	}
	_, err = timer.Shutdown(context.Background())
	return err
}
