package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// library is the module path of this library.
const library = "github.com/hashedwheel/hashedwheel"

// bestCommits is the list of -best.
//
//go:embed best-commits.txt
var bestCommits string

// againstCells matches the cells of -against and -best, if -only chooses no others.
var againstCells = regexp.MustCompile(
	`^(schedule-cancel-(serial|parallel)(-pending)?|schedule|reset-(serial|parallel)|fire|burst|pending|rpc|storm-at-once|own-.*)/hashedwheel$` +
		`|^reuse-(serial|parallel)/hashedwheel, embedded$|^reuse-serial/hashedwheel, deadline$|^Benchmark`)

// testBenchmarks are benchmarks of the library's tests that -against runs too, if it has one commit. Each commit has its
// own, so they do not tell which of several is best. The first of the directories that a commit has counts.
var testBenchmarks = []struct {
	name, bench string
	dirs        []string
}{
	{"BenchmarkFire", "^BenchmarkFire$/./^impl=wheel$", []string{"."}},
	{"BenchmarkPool", "^Benchmark(Pool|Crew)$", []string{"internal/pool", "internal/crew"}}, // older commits have a crew
}

// againstRuns is the number of rounds of -against. A U test of fewer than four rounds never finds a difference.
const againstRuns = 5

// parseCommits returns the commits of a list. Each line that is neither empty nor a comment has a commit and a reason.
func parseCommits(list string) (commits []string, err error) {
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case len(fields) == 1:
			return nil, fmt.Errorf("commit %s has no reason", fields[0])
		default:
			commits = append(commits, fields[0])
		}
	}
	if commits == nil {
		return nil, errors.New("no commit is listed")
	}
	return commits, nil
}

// addOpponents builds this program with this library as it was at a commit, in dir, a temporary folder. It puts such a
// cell behind each cell of this library, and returns the abbreviated commit. With tests, it adds the benchmarks that match
// of the tests of both commits. The program is that of the working directory, also with the other library.
func addOpponents(ctx context.Context, commit, dir string, tests bool, match *regexp.Regexp, cells []*work.Cell) (
	id string, all []*work.Cell, err error) {
	// output runs a command and returns its first line. After an error, it does nothing.
	output := func(in string, command ...string) string {
		if err != nil {
			return ""
		}
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Dir = in
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, failed := cmd.Output()
		if failed != nil {
			err = fmt.Errorf("%s: %w: %s", strings.Join(command, " "), failed, strings.TrimSpace(stderr.String()))
		}
		line, _, _ := strings.Cut(string(out), "\n")
		return line
	}
	before, archive, modfile := filepath.Join(dir, "library"), filepath.Join(dir, "library.tar"), filepath.Join(dir, "go.mod")
	exe := filepath.Join(dir, "benchmarks")
	if err := os.MkdirAll(before, 0o777); err != nil {
		return "", nil, err
	}
	output(".", "cp", "go.mod", "go.sum", dir) // the directory of the benchmarks
	id = output(".", "git", "rev-parse", "--verify", "--short=12", commit+"^{commit}")
	top := output(".", "git", "rev-parse", "--show-toplevel")
	output(top, "git", "archive", "--output", archive, id) // elsewhere it would archive a part of the repository
	output(before, "tar", "-xf", archive)
	if slices.ContainsFunc(cells, (*work.Cell).Ours) {
		output(dir, "go", "mod", "edit", "-replace", library+"="+before, modfile)
		// The commit may need other dependencies, so the build may change the copies of go.mod and go.sum.
		tags := ""
		if _, missing := os.Stat(filepath.Join(before, "keyed")); missing != nil {
			tags = "withoutkeyed" // an old commit: see peers/keyed.go
		}
		output(".", "go", "build", "-mod=mod", "-modfile="+modfile, "-tags="+tags, "-o", exe, ".")
	}
	for _, c := range cells {
		all = append(all, c)
		if c.Ours() {
			opponent := *c
			opponent.Commit, opponent.Exe = id, exe
			all = append(all, &opponent)
		}
	}
	for _, b := range testBenchmarks {
		if !tests || !match.MatchString(b.name+"/hashedwheel") {
			continue
		}
		for _, at := range []struct{ commit, source string }{{"", top}, {id, before}} {
			c := &work.Cell{Workload: b.name, Peer: "hashedwheel", Commit: at.commit, Bench: b.bench,
				Exe: filepath.Join(dir, b.name+at.commit+".test")}
			all = append(all, c)
			i := slices.IndexFunc(b.dirs, func(dir string) bool {
				_, missing := os.Stat(filepath.Join(at.source, dir))
				return missing == nil
			})
			if i < 0 {
				c.Runs = []work.Outcome{{Fault: "there is no " + b.dirs[0], Final: true}}
				continue
			}
			output(filepath.Join(at.source, b.dirs[i]), "go", "test", "-c", "-o", c.Exe, ".")
		}
	}
	return id, all, err
}
