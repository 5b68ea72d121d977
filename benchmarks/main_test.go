package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

func TestDoublings(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 8: {1, 2, 4, 8}} {
		if got := doublings(n); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

// Each name in the patterns of -scaling and -against is one of a cell.
func TestCellsAreChosen(t *testing.T) {
	for _, match := range []*regexp.Regexp{scalingCells, againstCells} {
		var chosen []string
		for _, c := range work.Plan(match, nil, match == againstCells) {
			chosen = append(chosen, c.Workload+"/"+c.Peer)
		}
		names := strings.FieldsFunc(strings.ReplaceAll(match.String(), "|^Benchmark", ""), func(r rune) bool { return strings.ContainsRune("^()|/?.*$", r) })
		for _, name := range names {
			if !slices.ContainsFunc(chosen, func(cell string) bool { return strings.Contains(cell, name) }) {
				t.Errorf("%v chooses no cell of the name %q, only %q", match, name, chosen)
			}
		}
	}
}

// The command measures with each number of processors, writes its files, and draws them again. Of two parts it draws the
// runs of both.
func TestProgram(t *testing.T) {
	dir, again, joined := t.TempDir(), t.TempDir(), t.TempDir()
	result := filepath.Join(dir, "result.json")
	for _, args := range [][]string{
		{"-short", "-scaling", "-only", "^schedule/(hashedwheel|time)$", "-out", dir},
		{"-out", again, "-draw", result},
		{"-out", joined, "-draw", result, result},
	} {
		if err := program(args); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"result.json", "tables.md", "result.txt", "schedule.svg"} {
		one, err1 := os.ReadFile(filepath.Join(dir, name))
		two, err2 := os.ReadFile(filepath.Join(again, name))
		if err1 != nil || err2 != nil || !bytes.Equal(one, two) {
			t.Errorf("%s differs: %v, %v", name, err1, err2)
		}
	}
	lines := func(dir string) int {
		data, err := os.ReadFile(filepath.Join(dir, "result.txt"))
		if err != nil {
			t.Error(err)
		}
		return bytes.Count(data, []byte("\nBenchmarkSchedule/"))
	}
	if one, both := lines(dir), lines(joined); one < 2 || both != 2*one {
		t.Errorf("%d lines of one part, %d of two", one, both)
	}
	for args, want := range map[string]string{
		"-only (":            "-only: error parsing",
		"-only ^no.such":     `-only: no cell (workload/peer) matches "^no.such"`,
		"more":               `unexpected argument "more"`,
		"-draw":              "no result.json is named",
		"-draw no-such-file": "no-such-file",
	} {
		if err := program(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", args, err)
		}
	}
}

func TestMain(m *testing.M) {
	work.RunCell()
	os.Exit(m.Run())
}
