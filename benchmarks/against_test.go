package main

import (
	"debug/buildinfo"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// The opponent has the library of the commit, and runs its cells in the same rounds. So do the benchmarks of its tests.
func TestAgainst(t *testing.T) {
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skipf("not in a git repository: %v", err)
	}
	dir := t.TempDir()
	match := regexp.MustCompile("^late-10ms/(hashedwheel|time)$|^BenchmarkCrew/")
	id, cells, err := addOpponents(t.Context(), "HEAD", dir, match, work.Plan(match, nil))
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
		name := "Crew/how=add/runners=2"
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
		"BenchmarkCrew, hashedwheel; BenchmarkCrew, hashedwheel at " + id
	if got := strings.Join(labels, "; "); got != want {
		t.Errorf("cells %s, want %s", got, want)
	}
}

func TestAgainstUnknownCommit(t *testing.T) {
	_, _, err := addOpponents(t.Context(), "no-such-commit", t.TempDir(), againstCells, nil)
	if err == nil || !strings.Contains(err.Error(), "no-such-commit") {
		t.Errorf("error %v", err)
	}
}
