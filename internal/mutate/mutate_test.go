package main

import (
	"fmt"
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

// docs/proven.md has all promises in the words of list.go, and no others. It and the list name only tests that exist.
func TestProven(t *testing.T) {
	files := read(t)
	page, err := os.ReadFile("../../docs/proven.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, promise := range promises {
		item := fmt.Sprintf("%d. %s.", i+1, promise.text)
		if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), item) {
			t.Errorf("docs/proven.md does not say: %s", item)
		}
	}
	if strings.Contains(string(page), fmt.Sprintf("\n%d. ", len(promises)+1)) {
		t.Errorf("docs/proven.md has more promises than list.go, which has %d", len(promises))
	}
	names := regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w*(/\w+)?`).FindAllString(string(page)+files.proven(), -1)
	checkNames(t, files.tests("Test|Fuzz"), names, ".")
}

func checkNames(t *testing.T, known tests, names []string, preferred string) {
	for _, name := range names {
		if dirs, _ := known.find(name, preferred); len(dirs) == 0 {
			t.Errorf("there is no test %s", name)
		}
	}
}

// The code of each mutation is found once, no two are the same, each test exists, and each promise has a mutation.
func TestList(t *testing.T) {
	files, held, seen := read(t), make(map[int]bool), make(map[[4]string]bool)
	known := files.tests("Test|Fuzz")
	for _, m := range mutations {
		held[m.promise] = true
		if fault := [...]string{m.file, m.in, m.old, m.new}; seen[fault] {
			t.Errorf("list.go, %s: the list has this fault twice", m.change)
		} else {
			seen[fault] = true
		}
		checkNames(t, known, strings.Fields(m.tests), path.Dir(m.file))
		if _, err := m.apply(files[m.file]); err != nil {
			t.Errorf("list.go, %s: %v", m.change, err)
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

// A scenario is found under the test that runs it, and that test runs no other.
func TestScenarios(t *testing.T) {
	files := tree{"testdata/steps/a_test.go": "func TestStepsA(", "internal/crossing/testdata/steps/b_test.go": "func TestStepsB(",
		"a_test.go": "func TestExplore(", "testdata/other/c_test.go": "func TestC("}
	if got, want := files.tests("Test").String(), "TestExplore, TestExplore/TestStepsA; in internal/crossing: TestFrozen/TestStepsB"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := runPattern([]string{"TestA", "TestExplore/TestStepsA"}), "^TestA$|^TestExplore$/^TestStepsA$"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A fault is found by its function and its tokens. So comments, line breaks and other functions do not matter.
func TestApply(t *testing.T) {
	m := mutation{file: "a.go", in: "wheel.add", old: `n++; w.count = n // all`, new: `w.count = 0`}
	const head = "package a\n\ntype wheel[T any] struct{ count int }\n\n"
	for name, c := range map[string]struct{ source, want, err string }{
		"as written": {
			head + "func (w *wheel[T]) add(n int) {\n\tn++\n\tw.count = n\n}\n",
			head + "func (w *wheel[T]) add(n int) {\n\tw.count = 0\n}\n", ""},
		"other comments": {
			head + "func (w *wheel[T]) add(n int) {\n\tn++ // one more\n\t/* now */ w.count = n // done\n}\n",
			head + "func (w *wheel[T]) add(n int) {\n\tw.count = 0 // done\n}\n", ""},
		"other line breaks": {
			head + "func (w *wheel[T]) add(n int) {\n\t\tif n > 0 { n++; w.count =\n n }\n}\n",
			head + "func (w *wheel[T]) add(n int) {\n\t\tif n > 0 { w.count = 0 }\n}\n", ""},
		"the same code in other functions": {
			head + "func add(w *wheel[int], n int) {\n\tn++\n\tw.count = n\n}\n\nfunc (w *wheel[T]) add(n int) {\n\tn++\n\tw.count = n\n}\n",
			head + "func add(w *wheel[int], n int) {\n\tn++\n\tw.count = n\n}\n\nfunc (w *wheel[T]) add(n int) {\n\tw.count = 0\n}\n", ""},
		"other code": {head + "func (w *wheel[T]) add(n int) {\n\tw.count += n\n}\n", "",
			"wheel.add in a.go no longer has the code"},
		"twice": {head + "func (w *wheel[T]) add(n int) {\n\tn++\n\tw.count = n\n\tn++\n\tw.count = n\n}\n", "",
			"wheel.add in a.go has this code 2 times"},
		"another name": {head + "func (w *wheel[T]) put(n int) {\n\tn++\n\tw.count = n\n}\n", "",
			"a.go declares wheel.add 0 times"},
		"no Go": {"package", "", "a.go:1:8: expected"},
	} {
		got, err := m.apply(c.source)
		switch {
		case c.err != "":
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: the error is %v, want %s", name, err, c.err)
			}
		case err != nil || got != c.want:
			t.Errorf("%s: got %s, %v, want %s", name, got, err, c.want)
		}
	}
	const all = "package a\n\nvar a, b = 3, 4\n\nconst (\n\tsize = 3\n\tmost = size\n)\n\ntype pair struct{ x, y int }\n"
	for in, want := range map[string]string{"b": "a, b = 3, 4", "size": "size = 3", "pair": "pair struct{ x, y int }"} {
		from, to, err := declaration("a.go", all, in)
		if err != nil || all[from:to] != want {
			t.Errorf("%s: got %s, %v, want %s", in, all[from:to], err, want)
		}
	}
}
