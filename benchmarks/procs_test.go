package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestParseProcs(t *testing.T) {
	if procs, err := parseProcs(""); procs != nil || err != nil {
		t.Errorf("without a list: %v, %v", procs, err)
	}
	if procs, err := parseProcs("4,1,2"); !slices.Equal(procs, []int{4, 1, 2}) || err != nil {
		t.Errorf("%v, %v", procs, err)
	}
	for list, want := range map[string]string{
		"0":          `"0" is not a positive integer`,
		"1,-2":       `"-2" is not a positive integer`,
		"+1":         `"+1" is not a positive integer`,
		"1.5":        `"1.5" is not a positive integer`,
		"2147483648": `"2147483648" is not a positive integer`,
		"1,,2":       `"" is not a positive integer`,
		"1, 2":       `" 2" is not a positive integer`,
		"two":        `"two" is not a positive integer`,
		"2,1,2":      "2 is in the list twice",
	} {
		procs, err := parseProcs(list)
		if err == nil || !strings.Contains(err.Error(), "-procs: "+want) {
			t.Errorf("%s: %v, %v; want %s", list, procs, err, want)
		}
	}
}

// The process of a cell has the number of processors that its label says.
func TestProcs(t *testing.T) {
	r := newResult(true, 1)
	var progress bytes.Buffer
	match := regexp.MustCompile(`^check/fake that counts processors$`)
	if err := r.measure(context.Background(), match, []int{3, 1}, &progress); err != nil {
		t.Fatal(err)
	}
	for procs, want := range map[int]string{1: "crashed: panic: 1 processors", 3: "crashed: panic: 3 processors"} {
		c := r.find("check", "fake that counts processors", procs)
		if c == nil || c.verdict() != want {
			t.Errorf("%d processors: %+v, want %q", procs, c, want)
		}
		if f := r.find("floor", "floor", procs); f == nil || f.Metrics["new-parallel"].Median <= 0 {
			t.Errorf("%d processors: floor %+v", procs, f)
		}
	}
	if len(r.Cells) != 4 {
		t.Errorf("%d cells, want 4", len(r.Cells))
	}
	for _, want := range []string{
		"1 of 4: floor, floor, GOMAXPROCS 3: ", "check, fake that counts processors, GOMAXPROCS 1: crashed",
	} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("no %q in\n%s", want, &progress)
		}
	}
}

// Each number of processors has its own floor, its own rows in the table and a chart.
func TestProcsAreLabeled(t *testing.T) {
	r := newResult(true, 1)
	for procs, wall := range map[int]float64{1: 20, 4: 60} {
		for _, c := range []*cell{{Workload: "floor", Peer: "floor"}, {Workload: "schedule", Peer: "hashedwheel"}} {
			c.Procs = procs
			c.Runs = []outcome{{Metrics: map[string]float64{"wall": wall, "large-new": 10}}}
			r.Cells = append(r.Cells, c)
		}
	}
	r.find("floor", "floor", 4).Runs[0].Metrics["large-new"] = 15
	r.find("schedule", "hashedwheel", 4).Runs[0].Fault = "lost 1 of 2"
	r.summarize()
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"result.json": {`"procs": 1,`, `"procs": 4,`},
		"tables.md": {
			"| | GOMAXPROCS | tick |", "| --- | --- | --- | --- |",
			"| hashedwheel | 1 | 0 ms | 20.0 | 2.00 |", "| hashedwheel | 4 | 0 ms | 60.0 | 4.00 |",
		},
		"schedule-procs-1.svg": {"20.0 ns/op", "GOMAXPROCS 1"},
		"schedule-procs-4.svg": {"60.0 ns/op", "GOMAXPROCS 4"},
	} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(data), want) {
				t.Errorf("no %q in %s:\n%s", want, file, data)
			}
		}
	}
	if err := r.ownFaults(); err == nil || err.Error() != "schedule, hashedwheel, GOMAXPROCS 4: lost 1 of 2" {
		t.Errorf("error %v", err)
	}
}

// A result without -procs shows no number of processors, and is drawn as before.
func TestResultsAreDrawnAgain(t *testing.T) {
	r, err := readResult(filepath.Join("results", "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if r.chosen() {
		t.Skip("the results have numbers of processors")
	}
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil || strings.Contains(f.Name(), "procs") || bytes.Contains(data, []byte("GOMAXPROCS")) {
			t.Errorf("%s: error %v, or it has a number of processors", f.Name(), err)
		}
	}
}

func TestOnlyMatchesNothing(t *testing.T) {
	r := newResult(true, 1)
	err := r.measure(context.Background(), regexp.MustCompile("^no such"), nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `-only: no cell (workload/peer) matches "^no such"`) {
		t.Errorf("error %v", err)
	}
	r = newResult(true, 1)
	if err := r.plan(regexp.MustCompile("^floor/"), nil); err != nil || len(r.Cells) != 1 {
		t.Errorf("the floor alone: %d cells, error %v", len(r.Cells), err)
	}
}
