package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel/benchmarks/report"
	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// The opponent has the library of the commit, and runs its cells in the same rounds. So do the benchmarks of its tests.
func TestAgainst(t *testing.T) {
	needsCommit(t, "HEAD")
	dir := t.TempDir()
	match := regexp.MustCompile("^late-10ms/(hashedwheel|time)$|^BenchmarkPool/")
	id, cells, err := addOpponents(t.Context(), "HEAD", dir, true, match, work.Plan(match, nil, true))
	if err != nil {
		t.Fatal(err)
	}
	rounds := work.Rounds{Rounds: 1, Short: true, Progress: io.Discard}
	if cells, err = rounds.Measure(t.Context(), cells); err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, c := range cells {
		labels = append(labels, c.Label())
		if fault, _ := c.Faults(); len(c.Runs) != 1 || fault != "" {
			t.Errorf("%s: %d runs, fault %q", c.Label(), len(c.Runs), fault)
		}
		name := "how=add/runners=2"
		if procs := runtime.GOMAXPROCS(0); procs > 1 {
			name += "-" + strconv.Itoa(procs)
		}
		if c.Bench != "" && !(c.Runs[0].Metrics[name+", ns/op"] > 0) {
			t.Errorf("no %s in %v", name, c.Runs[0].Metrics)
		}
		if c.Commit == "" || c.Bench != "" {
			continue
		}
		info, err := buildinfo.ReadFile(c.Exe)
		if err != nil {
			t.Fatal(err)
		}
		for _, dep := range info.Deps {
			if dep.Path == library && (dep.Replace == nil || dep.Replace.Path != filepath.Join(dir, "library")) {
				t.Errorf("built with %+v", dep.Replace)
			}
		}
	}
	want := "floor, floor; late-10ms, hashedwheel; late-10ms, hashedwheel at " + id + "; late-10ms, time; " +
		"BenchmarkPool, hashedwheel; BenchmarkPool, hashedwheel at " + id
	if got := strings.Join(labels, "; "); got != want {
		t.Errorf("cells %s, want %s", got, want)
	}
}

// Before it was called pool, the pool was the package internal/crew, and its benchmark was BenchmarkCrew.
func TestAgainstCrew(t *testing.T) {
	const commit = "7b4b05a66bea"
	needsCommit(t, commit)
	_, cells, err := addOpponents(t.Context(), commit, t.TempDir(), true, regexp.MustCompile("^BenchmarkPool/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	rounds := work.Rounds{Rounds: 1, Short: true, Progress: io.Discard}
	if cells, err = rounds.Measure(t.Context(), cells); err != nil {
		t.Fatal(err)
	}
	var metrics [][]string
	for _, c := range cells {
		metrics = append(metrics, slices.Sorted(maps.Keys(c.Runs[0].Metrics)))
	}
	if len(metrics) != 2 || len(metrics[0]) < 4 || !slices.Equal(metrics[0], metrics[1]) {
		t.Errorf("cells with these metrics: %q", metrics)
	}
}

func needsCommit(t *testing.T, commit string) {
	t.Helper()
	if err := exec.Command("git", "rev-parse", "--verify", commit).Run(); err != nil {
		t.Skipf("not in a git repository that has %s: %v", commit, err)
	}
}

// Of several commits, each runs all cells in the same rounds, but not the benchmarks of tests. The workloads that are only
// for this library run too.
func TestAgainstTwo(t *testing.T) {
	needsCommit(t, "HEAD~1")
	dir := t.TempDir()
	const match = "^(own-group|late-1ms)/(hashedwheel|time)$|^BenchmarkPool/"
	err := program([]string{"-short", "-against", "HEAD,HEAD~1", "-only", match, "-out", dir})
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.Read(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	head, before, _ := strings.Cut(r.Against, ",")
	if head == before || !strings.HasPrefix(r.Commit, head) || len(before) != len(head) {
		t.Errorf("against %q at %s", r.Against, r.Commit)
	}
	var labels []string
	for _, c := range r.Cells {
		labels = append(labels, c.Label())
		if fault, _ := c.Faults(); len(c.Runs) != 1 || fault != "" {
			t.Errorf("%s: %d runs, fault %q", c.Label(), len(c.Runs), fault)
		}
	}
	want := "floor, floor; late-1ms, hashedwheel; late-1ms, hashedwheel at " + head + "; late-1ms, hashedwheel at " + before +
		"; late-1ms, time; own-group, hashedwheel; own-group, hashedwheel at " + head + "; own-group, hashedwheel at " + before
	if got := strings.Join(labels, "; "); got != want {
		t.Errorf("cells %s, want %s", got, want)
	}
	tables, err := os.ReadFile(filepath.Join(dir, "tables.md"))
	row := "\n| | | " + head + " | " + before + " | " + r.Commit + " | best | x best | |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n" +
		"| late-1ms, hashedwheel | p99, ms | "
	if err != nil || !strings.Contains(string(tables), row) {
		t.Errorf("error %v, no %s in\n%s", err, row, tables)
	}
}

// A list has a commit and a reason in each line. It may have comments and empty lines.
func TestParseCommits(t *testing.T) {
	for list, want := range map[string]string{
		"# a comment\n\n a1b2 why it is here\n\t\nHEAD~2 another\n  # the end": "[a1b2 HEAD~2] <nil>",
		"a1b2\twhy":            "[a1b2] <nil>",
		"a1b2 why\nc3d4 \n":    "[] commit c3d4 has no reason",
		"":                     "[] no commit is listed",
		"# only a comment\n\n": "[] no commit is listed",
	} {
		commits, err := parseCommits(list)
		if got := fmt.Sprint(commits, " ", err); got != want {
			t.Errorf("%q: %s, want %s", list, got, want)
		}
	}
	if commits, err := parseCommits(bestCommits); len(commits) < 4 || err != nil {
		t.Errorf("best-commits.txt: %v, error %v", commits, err)
	}
}

func TestAgainstUnknownCommit(t *testing.T) {
	_, _, err := addOpponents(t.Context(), "no-such-commit", t.TempDir(), true, againstCells, nil)
	if err == nil || !strings.Contains(err.Error(), "no-such-commit") {
		t.Errorf("error %v", err)
	}
}
