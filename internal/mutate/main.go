// Mutate shows that the tests fail if the code breaks a promise of the library. It makes one fault after
// another in a copy of the module, runs the tests of the broken promise, and expects them to fail.
//
//	go run ./internal/mutate             # all faults: some ten minutes on two cores
//	go run ./internal/mutate -part 2/6   # the second of six parts
//	go run ./internal/mutate -only Reset # faults whose description, file, code or tests match
//	go run ./internal/mutate -write      # writes docs/proven.md, and runs nothing
//
// # How it finds a fault
//
// The faults are written by hand, in list.go: each is a text in a file, another text that replaces it, and the tests
// that notice. It is an error if the old text does not occur exactly once, or if the new code does not compile. So the
// list cannot fall behind the code. A fault is noticed when one of its tests fails.
//
// # What it cannot find
//
// It does not find faults that nobody has put on the list, and does not look for code that no test needs. A race that a
// test notices only sometimes may pass for noticed: the tests of such faults search all orders or repeat the race.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	file     string // its path from the root of the module
	old, new string
	tests    string // the tests that fail, separated by spaces; see tests.find
}

func main() {
	part := flag.String("part", "1/1", "run part `i/n` of the list")
	only := flag.String("only", "", "run the mutations that match this regular expression")
	write := flag.Bool("write", false, "write "+provenFile+", and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *write {
		err = writeProven()
	} else {
		err = run(ctx, *part, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// writeProven writes the page about the promises.
func writeProven() error {
	text, err := proven(".")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.FromSlash(provenFile), []byte(text), 0o644)
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
	if err := copyTree(".", dir); err != nil {
		return err
	}
	known, err := findTests(dir)
	if err != nil {
		return err
	}
	var chosen []mutation
	all := make(tests)
	for k, m := range mutations {
		if k%n == i-1 && pattern.MatchString(fmt.Sprint(m)) {
			chosen = append(chosen, m)
			for pkg, names := range known.of(m) {
				for _, name := range names {
					all.add(pkg, name)
				}
			}
		}
	}
	if len(chosen) == 0 {
		return errors.New("no mutation matches")
	}
	start := time.Now()
	const most = 4 * time.Minute // on a busy machine
	if out, err := goTest(ctx, dir, all, most); ctx.Err() != nil {
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
		err := m.try(ctx, dir, known.of(m), limit)
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
	errNotCompiled = errors.New("the code does not compile")
	errNoTest      = errors.New("no test was run")
)

// goTest runs tests of the packages below a directory, up to the first package with a test that fails. It returns
// the output of that package. After limit, go test ends the tests of a package, and they have failed. If it does not
// get that far, the error is errNotEnded.
func goTest(ctx context.Context, dir string, all tests, limit time.Duration) (out string, err error) {
	if len(all) == 0 {
		return "", errNoTest
	}
	for _, pkg := range all.packages() {
		if out, err = goTestPackage(ctx, filepath.Join(dir, filepath.FromSlash(pkg)), all[pkg], limit); err != nil {
			return out, err
		}
	}
	return "", nil
}

// goTestPackage is goTest for the package in a directory.
func goTestPackage(ctx context.Context, dir string, names []string, limit time.Duration) (out string, err error) {
	const compiling = 4 * time.Minute // on a busy machine
	ctx, cancel := context.WithTimeout(ctx, compiling+limit)
	defer cancel()
	pattern := "^(" + strings.Join(names, "|") + ")$"
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-vet=off", "-timeout="+limit.String(),
		"-run="+pattern, "-v", ".")
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that go test deletes its files
	cmd.WaitDelay = 5 * time.Second                                       // then it is killed
	text, err := cmd.CombinedOutput()
	out = string(text)
	switch {
	case ctx.Err() != nil:
		return out, errNotEnded
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return out, errNotCompiled
	case !strings.Contains(out, "=== RUN"):
		return out, errNoTest
	}
	return out, err
}

// try makes the change in the copy, runs the tests, and undoes the change. It returns nil if the tests fail.
func (m mutation) try(ctx context.Context, dir string, named tests, limit time.Duration) error {
	path := filepath.Join(dir, filepath.FromSlash(m.file))
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

	text, err := goTest(ctx, dir, named, limit)
	switch err {
	case nil:
		return errors.New("the tests do not fail")
	case errNotEnded:
		return err
	case errNotCompiled, errNoTest:
		return fmt.Errorf("%w:\n%s", err, text)
	}
	return nil
}
