// Mutate shows that the tests fail if the code breaks a promise of the library. It makes one fault after
// another in a copy of the module, runs the tests of the broken promise, and expects them to fail.
//
//	go run ./internal/mutate             # all faults: an hour on two cores
//	go run ./internal/mutate -part 2/6   # the second of six parts
//	go run ./internal/mutate -only Reset # faults whose description, file, code or tests match
//	go run ./internal/mutate -list       # prints each promise with its tests and faults, and runs nothing
//
// # How it finds a fault
//
// The faults are written by hand, in list.go: each is some code of a function, other code that replaces it, and the tests
// that notice. It is an error if the function has the old code twice, or if the new code does not compile. Comments, line
// breaks and what other functions contain do not matter. A fault is noticed when one of its tests fails. If a test does not
// end in time, the line says so: look whether the fault makes it hang, or the machine is too slow. A scenario of the explorer
// is named as TestExplore/StopStop, because all of them take two minutes.
//
// A fault is stale if its old code or one of its tests is gone. A run skips stale faults, and prints them at its end, so a
// change of the code need not change the list at once. With HASHEDWHEEL_RELEASE=1 the run fails if there are any, so no
// version is released with a list that has fallen behind the code.
//
// # What it cannot find
//
// It does not find faults that nobody has put on the list, and does not look for code that no test needs. A race that a
// test notices only sometimes may pass for noticed: the tests of such faults search all orders or repeat the race.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A promise is one of the library.
type promise struct {
	text  string // as in docs/proven.md; its first sentence is a heading of -list
	tests string // tests of it that no mutation names, separated by spaces
}

// A mutation is a change to the code that breaks a promise.
type mutation struct {
	promise  int    // the number in promises
	change   string // the fault that it makes, in words
	file     string // its path from the root of the module
	in       string // the function, the method as in Timer.Stop, or another top-level declaration
	old, new string // some of its code, and what replaces it; a semicolon may stand for a line break
	tests    string // the tests that fail, separated by spaces; see tests.find
}

// named returns the tests that the mutation names, by package.
func (m mutation) named(known tests) tests {
	return known.of(strings.Fields(m.tests), path.Dir(m.file))
}

func main() {
	part := flag.String("part", "1/1", "run part `i/n` of the list")
	only := flag.String("only", "", "run the mutations that match this regular expression")
	list := flag.Bool("list", false, "print each promise with its tests and faults, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	files, err := readTree(".")
	switch {
	case err != nil:
	case *list:
		_, err = fmt.Print(files.proven())
	default:
		err = run(ctx, os.Stdout, files, mutations, *part, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run makes the chosen mutations of a list, until ctx ends.
func run(ctx context.Context, to io.Writer, files tree, list []mutation, part, only string) error {
	var i, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		return fmt.Errorf("-part %s: want i/n, such as 2/6", part)
	}
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	dir := filepath.Join(temp, "module")
	if err := files.write(dir); err != nil {
		return err
	}
	var chosen []mutation
	var stale []string
	known, matching := files.tests("Test|Fuzz"), 0
	for k, m := range list {
		gone := m.stale(files, known)
		if gone != nil {
			stale = append(stale, fmt.Sprintf("stale %s, %s: %v", m.file, m.change, gone))
		}
		if k%n == i-1 && pattern.MatchString(fmt.Sprint(m)) {
			if matching++; gone == nil {
				chosen = append(chosen, m)
			}
		}
	}
	switch {
	case matching == 0:
		return errors.New("no mutation matches")
	case len(chosen) > 0:
		cache := ""
		if len(chosen) > 20 { // for fewer it would not pay to compile the standard library again
			cache = filepath.Join(temp, "cache")
		}
		err = makeAll(ctx, to, dir, cache, files, known, chosen)
	}
	if len(stale) > 0 { // of the whole list, so that a run of a few says so too
		fmt.Fprintf(to, "%s\nskipped %d of %d mutations, which are stale\n", strings.Join(stale, "\n"), len(stale), len(list))
		if releasing() {
			err = errors.Join(err, fmt.Errorf("%d mutations are stale", len(stale)))
		}
	}
	return err
}

// makeAll makes mutations in the copy in dir, one after the other, and prints which of them the tests notice. Each adds some
// 100 MB to the build cache that no other mutation uses. If cache is not empty, it is the directory of a cache for this run, and
// makeAll removes from it what a mutation has added. If it is empty, the cache is that of the user.
func makeAll(ctx context.Context, to io.Writer, dir, cache string, files tree, known tests, chosen []mutation) error {
	all := make(tests)
	for _, m := range chosen {
		for pkg, names := range m.named(known) {
			all.add(pkg, names...)
		}
	}
	start := time.Now()
	const most = 8 * time.Minute           // on a busy machine
	took := make(map[string]time.Duration) // by the tests of a package
	for _, pkg := range all.packages() {
		began := time.Now()
		if failed, out, err := goTest(ctx, dir, cache, tests{pkg: all[pkg]}, most); failed || err != nil {
			return fmt.Errorf("without a mutation: %v\n%s", cmp.Or(err, errors.New("the tests fail")), out)
		}
		took[pkg] = time.Since(began)
	}
	fmt.Fprintf(to, "ok    the tests pass without a mutation (%.1f s)\n", time.Since(start).Seconds())
	shared, err := filesBelow(cache) // what all mutations use
	if err != nil {
		return err
	}
	unnoticed := 0
	for _, m := range chosen {
		began := time.Now()
		named := m.named(known)
		limit := time.Minute // a mutation may make a test hang
		for pkg := range named {
			limit = max(limit, took[pkg])
		}
		failed, out, err := m.try(ctx, dir, cache, files[m.file], named, limit)
		err = cmp.Or(err, removeOthers(cache, shared))
		how := ""
		switch {
		case ctx.Err() != nil:
			return errors.New("interrupted")
		case err != nil:
			unnoticed++
			fmt.Fprintf(to, "FAIL  %s, %s: %v\n%s", m.file, m.change, err, out)
			continue
		case !failed:
			unnoticed++
			fmt.Fprintf(to, "FAIL  %s, %s: the tests do not fail\n", m.file, m.change)
			continue
		case strings.Contains(out, "test timed out after"):
			how = "by the time limit, "
		}
		fmt.Fprintf(to, "ok    %s, %s: %s (%s%.1f s)\n", m.file, m.change, m.tests, how, time.Since(began).Seconds())
	}
	fmt.Fprintf(to, "the tests noticed %d of %d mutations, in %.0f s\n", len(chosen)-unnoticed, len(chosen), time.Since(start).Seconds())
	if unnoticed > 0 {
		return fmt.Errorf("%d mutations were not noticed, or could not be made", unnoticed)
	}
	return nil
}

// filesBelow returns the paths of the files below a directory, none if the path is empty.
func filesBelow(dir string) (map[string]bool, error) {
	found := make(map[string]bool)
	if dir == "" {
		return found, nil
	}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found[name] = true
		}
		return err
	})
	return found, err
}

// removeOthers removes the files below a directory that are not among those to keep, which filesBelow has returned before.
func removeOthers(dir string, keep map[string]bool) error {
	found, err := filesBelow(dir)
	for name := range found {
		if !keep[name] {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

// goTest runs tests of the packages below a directory, up to the first package with a test that fails. It returns
// the output of that package. If cache is not empty, it is the directory of the build cache. After limit, go test ends
// the tests of a package, and they have failed. It is an error if no tests run, or if go test does not end.
func goTest(ctx context.Context, dir, cache string, all tests, limit time.Duration) (failed bool, out string, err error) {
	const compiling = 4 * time.Minute // on a busy machine
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(all))*(compiling+limit))
	defer cancel()
	for _, pkg := range all.packages() {
		cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-vet=off", "-timeout="+limit.String(), "-run="+runPattern(all[pkg]), "-v", ".")
		cmd.Dir = filepath.Join(dir, filepath.FromSlash(pkg))
		cmd.Env = append(os.Environ(), "HASHEDWHEEL_EXPLORE_TIME=20s") // for each scenario, on a busy machine too
		if cache != "" {
			cmd.Env = append(cmd.Env, "GOCACHE="+cache)
		}
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that go test deletes its files
		cmd.WaitDelay = 5 * time.Second                                       // then it is killed
		text, err := cmd.CombinedOutput()
		switch {
		case ctx.Err() != nil:
			return false, string(text), errors.New("go test has neither ended nor stopped the tests")
		case !strings.Contains(string(text), "=== RUN"):
			return false, string(text), errors.New("the code does not compile, or there is no such test")
		case err != nil:
			return true, string(text), nil
		}
	}
	return false, "", nil
}

// runPattern returns the pattern for -run that matches these tests and no others. It has a part for each part of a name.
func runPattern(names []string) string {
	return strings.ReplaceAll("^"+strings.Join(names, "$|^")+"$", "/", "$/^")
}

// try makes the change in the copy, runs the tests as goTest does, and undoes the change.
func (m mutation) try(ctx context.Context, dir, cache, source string, named tests, limit time.Duration) (failed bool, out string, err error) {
	changed, err := m.apply(source)
	if err != nil {
		return false, "", err
	}
	file := filepath.Join(dir, filepath.FromSlash(m.file))
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		return false, "", err
	}
	defer os.WriteFile(file, []byte(source), 0o644)
	return goTest(ctx, dir, cache, named, limit)
}
