package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// CONTRIBUTING.md contains the table that -table prints.
func TestTable(t *testing.T) {
	data, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), tableOf(mutations)) {
		t.Error("CONTRIBUTING.md does not contain the table that go run ./testdata/mutate -table prints")
	}
}

// The code of each mutation is found once, each test exists, and each promise has a mutation.
func TestList(t *testing.T) {
	files, err := filepath.Glob("../../*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^func ((Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(data), -1) {
			known[match[1]] = true
		}
	}
	check := func(names []string) {
		for _, name := range names {
			if !known[name] {
				t.Errorf("there is no test %s", name)
			}
		}
	}
	held := make(map[int]bool)
	for _, m := range mutations {
		held[m.promise] = true
		check(strings.Fields(m.tests))
		data, err := os.ReadFile(filepath.Join("../..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(data), m.old); n != 1 {
			t.Errorf("%s, %s: the code to change is there %d times, want once", m.file, m.change, n)
		}
	}
	for number, promise := range promises {
		if check(alsoHeld[number]); !held[number] {
			t.Errorf("no mutation breaks the promise: %s", promise)
		}
	}
}
