package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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

// The code of each mutation is found once, no two are the same, and each promise has a mutation. Stale ones are skipped, by name.
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
		if gone := m.stale(files, known); gone != nil {
			t.Run("stale "+m.change, func(t *testing.T) {
				if !releasing() {
					t.Skip(gone) // -v shows it, and so does each run of the command
				}
				t.Error(gone)
			})
		} else if _, err := m.apply(files[m.file]); err != nil {
			t.Errorf("list.go, %s: %v", m.change, err)
		}
	}
	for number, promise := range promises {
		if checkNames(t, known, strings.Fields(promise.tests), "."); !held[number] {
			t.Errorf("no mutation breaks the promise: %s", promise.text)
		}
	}
}

// A module of its own has three faults. One is noticed, one is of code that is gone, and one has a test that is gone. The command
// makes the first, and prints the others at the end. With HASHEDWHEEL_RELEASE=1 it also fails.
func TestStale(t *testing.T) {
	files := tree{"go.mod": "module a\n\ngo 1.25\n", "a.go": "package a\n\nfunc One() int { return 1 }\n",
		"a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif One() != 1 {\n\t\tt.Fail()\n\t}\n}\n"}
	list := []mutation{
		{change: "it is two", file: "a.go", in: "One", old: "1", new: "2", tests: "TestOne"},
		{change: "it is three", file: "a.go", in: "Three", old: "3", new: "2", tests: "TestOne"},
		{change: "it is four", file: "a.go", in: "One", old: "4", new: "2", tests: "TestOne"},
		{change: "it is five", file: "b.go", in: "One", old: "5", new: "2", tests: "TestOne"},
		{change: "it is nobody's", file: "a.go", in: "One", old: "1", new: "3", tests: "TestOne TestTwo"},
	}
	run := func(only string) (out string, err error) {
		var b strings.Builder
		err = run(t.Context(), &b, files, list, "1/1", only)
		return b.String(), err
	}
	for release, want := range map[string]string{"": "<nil>", "1": "4 mutations are stale"} {
		t.Setenv("HASHEDWHEEL_RELEASE", release)
		only := "three|nobody"
		if !testing.Short() { // this compiles a program
			only = ""
		}
		out, err := run(only)
		if fmt.Sprint(err) != want {
			t.Errorf("with HASHEDWHEEL_RELEASE=%s: %v, want %s", release, err, want)
		}
		for _, line := range []string{
			"stale a.go, it is three: a.go no longer declares Three: ",
			"stale a.go, it is four: One in a.go no longer has the code `4`: ",
			"stale b.go, it is five: there is no file b.go: ",
			"stale a.go, it is nobody's: there is no test TestTwo: ",
			"skipped 4 of 5 mutations, which are stale\n",
		} {
			if !strings.Contains(out, line) {
				t.Errorf("%s\nhas no line %s", out, line)
			}
		}
		if noticed := strings.Contains(out, "the tests noticed 1 of 1 mutations"); noticed == testing.Short() {
			t.Error(out)
		}
	}
	if _, err := run("six"); err == nil {
		t.Error("no error if no mutation matches")
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
	files := tree{"steps_a_test.go": "\t\"A\": search(\n\t\"B\":  func(", "internal/crossing/steps_b_test.go": "\t\"C\": func(",
		"a_test.go": "func TestExplore(\n\t\"D\": func(", "testdata/other/c_test.go": "func TestC("}
	if got, want := files.tests("Test").String(), "TestExplore, TestExplore/A, TestExplore/B; in internal/crossing: TestFrozen/C"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := runPattern([]string{"TestA", "TestExplore/A"}), "^TestA$|^TestExplore$/^A$"; got != want {
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
			"wheel.add in a.go no longer has the code `n++; w.count = n // all`: "},
		"twice": {head + "func (w *wheel[T]) add(n int) {\n\tn++\n\tw.count = n\n\tn++\n\tw.count = n\n}\n", "",
			"wheel.add in a.go has this code 2 times"},
		"another name": {head + "func (w *wheel[T]) put(n int) {\n\tn++\n\tw.count = n\n}\n", "",
			"a.go no longer declares wheel.add: "},
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

// What a mutation adds to the build cache is removed, in each directory of it, and nothing else.
func TestRemoveOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("a/before")
	write("b/before")
	keep, err := filesBelow(dir)
	if err != nil || len(keep) != 2 {
		t.Fatal(keep, err)
	}
	write("a/after")
	write("c/after")
	if err := removeOthers(dir, keep); err != nil {
		t.Fatal(err)
	}
	if left, err := filesBelow(dir); err != nil || !maps.Equal(left, keep) {
		t.Errorf("left %v, %v, want %v", left, err, keep)
	}
	if none, err := filesBelow(""); err != nil || len(none) != 0 { // the cache of the user
		t.Error(none, err)
	}
}
