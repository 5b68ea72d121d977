package main

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T) tree {
	files, err := readTree("../..")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The page about the promises is up to date, and names only tests that exist.
func TestProven(t *testing.T) {
	files := read(t)
	page, err := os.ReadFile("../../" + provenFile)
	if err != nil {
		t.Fatal(err)
	}
	text := files.proven(string(page))
	if string(page) != text {
		t.Errorf("%s is not what go run ./internal/mutate -write writes", provenFile)
	}
	checkNames(t, files.tests("Test|Fuzz"), regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w*`).FindAllString(text, -1), ".")
}

func checkNames(t *testing.T, known tests, names []string, preferred string) {
	for _, name := range names {
		if dirs, _ := known.find(name, preferred); len(dirs) == 0 {
			t.Errorf("there is no test %s", name)
		}
	}
}

// The code of each mutation is found once, each test exists, and each promise has a mutation.
func TestList(t *testing.T) {
	files, held := read(t), make(map[int]bool)
	known := files.tests("Test|Fuzz")
	for _, m := range mutations {
		held[m.promise] = true
		checkNames(t, known, strings.Fields(m.tests), path.Dir(m.file))
		if n := strings.Count(files[m.file], m.old); n != 1 {
			t.Errorf("%s, %s: the code to change is there %d times, want once", m.file, m.change, n)
		}
	}
	for number, promise := range promises {
		if checkNames(t, known, strings.Fields(promise.tests), "."); !held[number] {
			t.Errorf("no mutation breaks the promise: %s", promise.text)
		}
	}
}

func TestFind(t *testing.T) {
	all := tests{
		".":             {"TestA", "TestB"},
		"clock":         {"TestA", "TestC"},
		"internal/pool": {"TestA", "TestC", "TestD"},
	}
	for _, c := range []struct{ name, preferred, want string }{
		{"TestA", ".", ".: TestA"},
		{"TestA", "internal/pool", "internal/pool: TestA"},
		{"TestA", "keyed", ".: TestA"},
		{"TestB", "internal/pool", ".: TestB"},
		{"TestC", ".", "clock internal/pool: TestC"},
		{"pool.TestC", ".", "internal/pool: TestC"},
		{"hashedwheel.TestA", "internal/pool", ".: TestA"},
		{"hashedwheel.TestD", "internal/pool", ": TestD"},
		{"TestE", ".", ": TestE"},
	} {
		dirs, test := all.find(c.name, c.preferred)
		if got := strings.Join(dirs, " ") + ": " + test; got != c.want {
			t.Errorf("find(%q, %q) = %s, want %s", c.name, c.preferred, got, c.want)
		}
	}
}
