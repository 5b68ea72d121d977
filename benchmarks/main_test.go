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

func TestDoublings(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 8: {1, 2, 4, 8}} {
		if got := doublings(n); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

// The cells that -scaling and -against choose exist.
func TestCellsAreChosen(t *testing.T) {
	for n, match := range map[int]*regexp.Regexp{21: scalingCells, 13: againstCells} {
		cells, err := work.Plan(match, nil, "")
		if err != nil || len(cells) != n {
			t.Errorf("%d cells of %v, error %v, want %d", len(cells), match, err, n)
		}
	}
}

// The command measures with each number of processors, writes its files, and draws them again.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	if err := program([]string{"-short", "-procs", "1,2", "-only", "^schedule/(hashedwheel|time)$", "-out", dir}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"result.json", "result.txt", "tables.md", "schedule.svg"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	again := t.TempDir()
	if err := program([]string{"-draw", filepath.Join(dir, "result.json"), "-out", again}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tables.md", "result.txt", "schedule.svg"} {
		one, err1 := os.ReadFile(filepath.Join(dir, name))
		two, err2 := os.ReadFile(filepath.Join(again, name))
		if err1 != nil || err2 != nil || !bytes.Equal(one, two) {
			t.Errorf("%s differs: %v, %v", name, err1, err2)
		}
	}
	for _, args := range [][]string{{"-only", "("}, {"-procs", "0"}, {"more"}, {"-draw", "no such file"}} {
		if err := program(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestMain(m *testing.M) {
	work.RunCell()
	os.Exit(m.Run())
}
