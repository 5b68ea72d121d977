// Package demo has what the examples share, so that each of them shows only its subject: flags, Ctrl-C, exit codes, a
// table, and a line of progress.
package demo

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
	"syscall"
	"text/tabwriter"
	"time"
)

// The exit codes of the examples.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// An Exit is an error with an exit code of its own.
type Exit struct {
	Code int
	Err  error
}

func (e Exit) Error() string { return e.Err.Error() }

func (e Exit) Unwrap() error { return e.Err }

// Main runs an example and exits: with 1 if run returns an error, with 2 for a wrong flag, with 130 after Ctrl-C, and
// otherwise with 0. Ctrl-C cancels the context. A second one ends the program at once.
func Main(run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	inMain = true
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(exitCode(err, ctx.Err() != nil))
}

func exitCode(err error, interrupted bool) int {
	var exit Exit
	switch {
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, flag.ErrHelp):
		return 0
	case interrupted && (err == nil || errors.Is(err, context.Canceled)):
		return exitInterrupted
	case err != nil:
		return exitFailed
	}
	return 0
}

// Flags returns a set of flags for an example. The first line of its help says what the example does.
func Flags(name, does string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // Parse prints the help, and Main the error
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "%s %s\n", name, does)
		flags.PrintDefaults()
	}
	return flags
}

// Parse parses the arguments. If they ask for help, it prints the help to out and returns flag.ErrHelp.
func Parse(flags *flag.FlagSet, args []string, out io.Writer) error {
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(out)
		flags.Usage()
		return err
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		return Exit{exitUsage, fmt.Errorf("%s: %w (-h lists the flags)", flags.Name(), err)}
	}
	return nil
}

// Table prints rows of cells in columns.
func Table(out io.Writer, rows ...[]any) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		format := strings.TrimSuffix(strings.Repeat("%v\t", len(row)), "\t") + "\n"
		fmt.Fprintf(w, format, row...)
	}
	w.Flush()
}

// Progress shows the result of line and the time since the call, until the returned function is called, which may be
// more than once. On a terminal it rewrites a line, five times a second. Otherwise it prints a line every two seconds.
// It writes to standard error, and only in a program of Main.
func Progress(line func() string) (stop func()) {
	if !inMain {
		return func() {}
	}
	info, err := os.Stderr.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return progress(os.Stderr, line, terminal)
}

var inMain bool // set before run is called

const clearLine = "\r\x1b[K"

func progress(out io.Writer, line func() string, terminal bool) (stop func()) {
	every, format, end := 2*time.Second, "%s, %.0fs\n", ""
	if terminal {
		// The cursor returns to the start of the line, so that a log message takes its place.
		every, format, end = 200*time.Millisecond, clearLine+"%s, %.0fs\r", clearLine
	}
	start := time.Now()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(out, format, line(), time.Since(start).Seconds())
			case <-done:
				fmt.Fprint(out, end)
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}
