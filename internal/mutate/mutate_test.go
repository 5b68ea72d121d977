package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page about the promises is up to date, and names only tests that exist.
func TestProven(t *testing.T) {
	text, err := proven("../..")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(provenFile)))
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != text {
		t.Errorf("%s is not what go run ./internal/mutate -write writes", provenFile)
	}
	known, err := findTests("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w*`).FindAllString(text, -1) {
		if dirs, _ := known.find(name, "."); len(dirs) == 0 {
			t.Errorf("%s names %s, which does not exist", provenFile, name)
		}
	}
}

// The code of each mutation is found once, each test exists, and each promise has a mutation.
func TestList(t *testing.T) {
	known, err := findTests("../..")
	if err != nil {
		t.Fatal(err)
	}
	check := func(names []string, preferred string) {
		for _, name := range names {
			if dirs, _ := known.find(name, preferred); len(dirs) == 0 {
				t.Errorf("there is no test %s", name)
			}
		}
	}
	held := make(map[int]bool)
	for _, m := range mutations {
		held[m.promise] = true
		check(strings.Fields(m.tests), path.Dir(m.file))
		data, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(m.file)))
		if err != nil {
			t.Errorf("%s: %v", m.change, err)
			continue
		}
		if n := strings.Count(string(data), m.old); n != 1 {
			t.Errorf("%s, %s: the code to change is there %d times, want once", m.file, m.change, n)
		}
	}
	for number, promise := range promises {
		if check(alsoHeld[number], "."); !held[number] {
			t.Errorf("no mutation breaks the promise: %s", promise)
		}
	}
}

func TestFind(t *testing.T) {
	all := tests{
		".":             {"TestA", "TestB"},
		"clock":         {"TestA", "TestC"},
		"internal/crew": {"TestA", "TestC", "TestD"},
	}
	for _, c := range []struct{ name, preferred, want string }{
		{"TestA", ".", ".: TestA"},
		{"TestA", "internal/crew", "internal/crew: TestA"},
		{"TestA", "keyed", ".: TestA"},
		{"TestB", "internal/crew", ".: TestB"},
		{"TestC", ".", "clock internal/crew: TestC"},
		{"crew.TestC", ".", "internal/crew: TestC"},
		{"hashedwheel.TestA", "internal/crew", ".: TestA"},
		{"hashedwheel.TestD", "internal/crew", ": TestD"},
		{"TestE", ".", ": TestE"},
	} {
		dirs, test := all.find(c.name, c.preferred)
		if got := strings.Join(dirs, " ") + ": " + test; got != c.want {
			t.Errorf("find(%q, %q) = %s, want %s", c.name, c.preferred, got, c.want)
		}
	}
}
