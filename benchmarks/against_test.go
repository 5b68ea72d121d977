package main

import (
	"debug/buildinfo"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
	"github.com/hashedwheel/hashedwheel/benchmarks/work"
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
		if dep.Path == peers.Library && (dep.Replace == nil || dep.Replace.Path != filepath.Join(dir, "library")) {
			t.Errorf("built with %+v", dep.Replace)
		}
	}
	cells, err := work.Plan(regexp.MustCompile("^check/(hashedwheel|time)$"), nil, id)
	if err != nil {
		t.Fatal(err)
	}
	rounds := work.Rounds{Rounds: 1, Short: true, Opponent: exe, Progress: io.Discard}
	if cells, err = rounds.Measure(t.Context(), cells); err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, c := range cells {
		labels = append(labels, c.Label())
		if fault, _ := c.Faults(); len(c.Runs) != 1 || fault != "" {
			t.Errorf("%s: %d runs, fault %q", c.Label(), len(c.Runs), fault)
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
