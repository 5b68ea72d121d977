// Mutate shows that the tests fail if the code breaks a promise of the library. It makes one change after
// another to a copy of the package, runs the tests of the broken promise, and expects them to fail.
//
//	go run ./testdata/mutate             # all changes: some ten minutes on two cores
//	go run ./testdata/mutate -part 2/6   # the second of six parts
//	go run ./testdata/mutate -only Reset # changes whose description, file, code or tests match
//	go run ./testdata/mutate -table      # the table of CONTRIBUTING.md
//
// The changes are in list.go. It is an error if the old code of a change does not occur exactly once, or if
// the new code does not compile. So the list cannot fall behind the code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A mutation is a change to the code that breaks a promise.
type mutation struct {
	promise  int    // the number in promises
	change   string // the fault that it makes, in words
	file     string
	old, new string
	tests    string // the tests that fail, separated by spaces
}

func main() {
	part := flag.String("part", "1/1", "run part `i/n` of the list")
	only := flag.String("only", "", "run the mutations that match this regular expression")
	table := flag.Bool("table", false, "print the table of promises, and run nothing")
	flag.Parse()
	if *table {
		fmt.Print(tableOf(mutations))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *part, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run makes the chosen mutations, until ctx ends.
func run(ctx context.Context, part, only string) error {
	var i, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		return fmt.Errorf("-part %s: want i/n, such as 2/6", part)
	}
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyPackage(dir); err != nil {
		return err
	}
	var chosen []mutation
	var tests []string
	for k, m := range mutations {
		if k%n == i-1 && pattern.MatchString(fmt.Sprint(m)) {
			chosen = append(chosen, m)
			tests = append(tests, m.tests)
		}
	}
	if len(chosen) == 0 {
		return errors.New("no mutation matches")
	}
	start := time.Now()
	const most = 4 * time.Minute // on a busy machine
	if out, err := goTest(ctx, dir, strings.Join(tests, " "), most); ctx.Err() != nil {
		return errInterrupted
	} else if err != nil {
		return fmt.Errorf("without a mutation: %v\n%s", err, out)
	}
	took := time.Since(start)
	fmt.Printf("ok    the tests pass without a mutation (%.1f s)\n", took.Seconds())
	limit := max(time.Minute, took) // a mutation may make a test hang
	failed, done := 0, len(chosen)
	for _, m := range chosen {
		began := time.Now()
		err := m.try(ctx, dir, limit)
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			failed++
			fmt.Printf("FAIL  %s, %s: %v\n", m.file, m.change, err)
			continue
		}
		fmt.Printf("ok    %s, %s: %s (%.1f s)\n", m.file, m.change, m.tests, time.Since(began).Seconds())
	}
	fmt.Printf("the tests noticed %d of %d mutations, in %.0f s\n", done-failed, done, time.Since(start).Seconds())
	if failed > 0 {
		return fmt.Errorf("%d mutations were not noticed, or could not be made", failed)
	}
	return nil
}

var (
	errInterrupted = errors.New("interrupted")
	errNotEnded    = errors.New("go test has neither ended nor stopped the tests")
)

// goTest runs the given tests in a directory, and returns their output. After limit, go test ends the tests, and
// they have failed. If it does not get that far, the error is errNotEnded.
func goTest(ctx context.Context, dir, tests string, limit time.Duration) (out string, err error) {
	const compiling = 4 * time.Minute // on a busy machine
	ctx, cancel := context.WithTimeout(ctx, compiling+limit)
	defer cancel()
	pattern := "^(" + strings.ReplaceAll(tests, " ", "|") + ")$"
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-vet=off", "-timeout="+limit.String(), "-run="+pattern, "-v", ".")
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that go test deletes its files
	cmd.WaitDelay = 5 * time.Second                                       // then it is killed
	text, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errNotEnded
	}
	return string(text), err
}

// copyPackage copies what the tests of the mutations need from the current directory.
func copyPackage(dir string) error {
	return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && path != "clock" && path != "testdata" && !strings.HasPrefix(path, filepath.FromSlash("testdata/explore")) {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(dir, path), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), data, 0o644)
	})
}

// try makes the change in the copy, runs the tests, and undoes the change. It returns nil if the tests fail.
func (m mutation) try(ctx context.Context, dir string, limit time.Duration) error {
	path := filepath.Join(dir, m.file)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	source := string(data)
	if n := strings.Count(source, m.old); n != 1 {
		return fmt.Errorf("%q occurs %d times, not once", m.old, n)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(source, m.old, m.new, 1)), 0o644); err != nil {
		return err
	}
	defer os.WriteFile(path, data, 0o644)

	text, err := goTest(ctx, dir, m.tests, limit)
	switch {
	case err == errNotEnded:
		return err
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return fmt.Errorf("the changed code does not compile:\n%s", text)
	case err == nil:
		return errors.New("the tests do not fail")
	case !strings.Contains(text, "=== RUN"):
		return fmt.Errorf("no test was run: %v\n%s", err, text)
	}
	return nil
}

// tableOf returns a table of the promises, with the tests of each and the faults that make those tests fail.
// Each fault has a line of its own, because a cell has up to two dozen.
func tableOf(all []mutation) string {
	var b strings.Builder
	b.WriteString("| promise | tests | fail if |\n| --- | --- | --- |\n")
	for number, promise := range promises {
		var tests, changes []string
		for _, m := range all {
			if m.promise == number {
				tests = append(tests, strings.Fields(m.tests)...)
				changes = append(changes, m.change)
			}
		}
		tests = append(tests, alsoHeld[number]...)
		seen := make(map[string]bool)
		names := ""
		for _, name := range tests {
			if !seen[name] {
				seen[name] = true
				names += ", `" + name + "`"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", promise, strings.TrimPrefix(names, ", "), strings.Join(changes, "<br>"))
	}
	return b.String()
}
