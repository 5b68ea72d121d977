package main

import (
	"context"
	"debug/buildinfo"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The opponent has the library of the commit, and runs its cells in the same rounds.
func TestAgainst(t *testing.T) {
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skipf("not in a git repository: %v", err)
	}
	dir := t.TempDir()
	id, exe, err := buildAgainst(t.Context(), "HEAD", dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range info.Deps {
		if dep.Path == library && (dep.Replace == nil || dep.Replace.Path != filepath.Join(dir, "library")) {
			t.Errorf("built with %+v", dep.Replace)
		}
	}
	r := newResult(true, 1)
	r.Against, r.opponent = id, exe
	if err := r.measure(context.Background(), regexp.MustCompile("^check/(hashedwheel|time)$"), nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, c := range r.Cells {
		labels = append(labels, c.label())
		if len(c.Runs) != 1 || c.Fault != "" {
			t.Errorf("%s: %d runs, fault %q", c.label(), len(c.Runs), c.Fault)
		}
	}
	want := "floor, floor; check, hashedwheel; check, hashedwheel at " + id + "; check, time"
	if got := strings.Join(labels, "; "); got != want {
		t.Errorf("cells %s, want %s", got, want)
	}
}

func TestAgainstUnknownCommit(t *testing.T) {
	_, _, err := buildAgainst(t.Context(), "no-such-commit", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "no-such-commit") {
		t.Errorf("error %v", err)
	}
}

// An opponent that cannot run is a fault of its cell, and not of this library.
func TestComparison(t *testing.T) {
	r := newResult(false, 4)
	r.Commit, r.Against = "new", "old"
	runs := func(walls ...float64) (runs []outcome) {
		for _, wall := range walls {
			runs = append(runs, outcome{Metrics: map[string]float64{"wall": wall, "floors": wall}})
		}
		return runs
	}
	r.Cells = []*cell{
		{Workload: "schedule", Peer: "hashedwheel", Runs: runs(110, 111, 109, 110)},
		{Workload: "schedule", Peer: "hashedwheel", Commit: "old", Runs: runs(100, 101, 99, 100)},
		{Workload: "schedule", Peer: "time", Runs: runs(300, 300, 300, 300)},
		{Workload: "fire", Peer: "hashedwheel", Runs: runs(1)},
		{Workload: "fire", Peer: "hashedwheel", Commit: "old", Runs: []outcome{{Fault: "crashed: exit status 2", Final: true}}},
	}
	r.summarize()
	var table strings.Builder
	r.writeComparison(&table)
	_, rows, _ := strings.Cut(table.String(), "| --- | --- | --- | --- | --- | --- |\n")
	want := "| schedule, hashedwheel | wall time, ns/op | 100 (99.0 to 101) | 110 (109 to 111) | +10.0 % | p=0.029 n=4 |\n"
	if rows != want {
		t.Errorf("rows\n%swant\n%s", rows, want)
	}
	if err := r.ownFaults(); err != nil {
		t.Errorf("a fault of the opponent is an error: %v", err)
	}
}
