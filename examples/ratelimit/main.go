// Ratelimit indexes files that change in bursts. A throttle and a debounce, each
// built on a keyed.Map, limit how often it reads a file again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// The exit codes, as -h explains them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first Ctrl-C ends the run cleanly; a second one kills the program.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program except for the signals. Canceling ctx interrupts it. It
// returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(stdout)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "ratelimit: %v (-h explains the flags)\n", err)
		return exitUsage
	}
	if o.stdin {
		err = followLines(ctx, o, stdin, stdout)
	} else {
		err = followFiles(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ratelimit: %v\n", err)
		return exitFailed
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	return exitOK
}

// limiters are a throttle and a debounce, with an audit of each.
type limiters struct {
	opts      options
	timer     *hashedwheel.Timer
	throttle  *Throttle[string, event]
	debounce  *Debounce[string, event]
	throttled *audit
	debounced *audit
}

// newLimiters returns a throttle and a debounce that call these functions, with
// a key and one of its events.
func newLimiters(o options, throttled, debounced func(key string, e event)) (*limiters, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(o.tick))
	if err != nil {
		return nil, err
	}
	l := &limiters{opts: o, timer: timer}
	l.throttled = newAudit("throttle", apart(o.interval), throttled)
	l.debounced = newAudit("debounce", quietOrWaited(o.quiet, o.maxWait), debounced)
	l.throttle = NewThrottle(timer, o.interval, o.trailing, l.throttled.called)
	l.debounce = NewDebounce(timer, o.quiet, o.maxWait, l.debounced.called)
	return l, nil
}

// changed gives an event to both limiters. For each key it is called by one goroutine.
func (l *limiters) changed(key, text string) error {
	_, err := l.throttle.Call(key, l.throttled.asked(key, text))
	return errors.Join(err, l.debounce.Call(key, l.debounced.asked(key, text)))
}

// drainLimit is how late the machine may be with the delayed calls.
const drainLimit = 10 * time.Second

// drain waits until all delayed calls have been made, and ends the timer. No more
// events may come.
func (l *limiters) drain() error {
	most := max(l.opts.interval, l.opts.quiet, l.opts.maxWait) + l.opts.tick + drainLimit
	for began := time.Now(); l.throttle.Kept()+l.debounce.Waiting() > 0 && time.Since(began) < most; {
		time.Sleep(l.opts.tick)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	_, err := l.timer.Shutdown(ctx) // waits for calls in progress
	return err
}
