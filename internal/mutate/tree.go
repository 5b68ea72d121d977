package main

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing/fstest"
)

// A tree has the files that the tests of mutations may need, by path with slashes.
type tree map[string]string

// skipped are the directories that no test of a mutation needs.
var skipped = []string{"benchmarks", "docs", "examples", "metrics", "internal/mutate"}

func readTree(root string) (tree, error) {
	files, from := make(tree), os.DirFS(root)
	return files, fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipped, name)):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		data, err := fs.ReadFile(from, name)
		files[name] = string(data)
		return err
	})
}

func (files tree) write(dir string) error {
	copied := make(fstest.MapFS)
	for name, text := range files {
		copied[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return os.CopyFS(dir, copied)
}

// explored has the test that runs the scenarios of a package, if that is not TestExplore.
var explored = map[string]string{"internal/crossing": "TestFrozen"}

var (
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(`)
	scenario = regexp.MustCompile(`(?m)^\t"(\w+)": +(?:search|func)\(`) // in a file steps_*_test.go
)

// tests are the names of tests, fuzz targets and scenarios by package. A package has the path of its directory, "." for the root.
// A scenario of the explorer has the name of a subtest, as in TestExplore/StopStop.
type tests map[string][]string

// tests returns the names of the tests that match, of all packages that go test ./... finds.
func (files tree) tests(match string) tests {
	all, matching := make(tests), regexp.MustCompile(match)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		dir := path.Dir(name)
		if !strings.HasSuffix(name, "_test.go") || strings.Contains("/"+dir+"/", "/testdata/") {
			continue
		}
		pattern, parent := declared, ""
		if strings.HasPrefix(path.Base(name), "steps_") {
			pattern, parent = scenario, cmp.Or(explored[dir], "TestExplore")+"/"
		}
		for _, found := range pattern.FindAllStringSubmatch(files[name], -1) {
			if test := parent + found[1]; test != "TestMain" && matching.MatchString(test) {
				all.add(dir, test)
			}
		}
	}
	return all
}

// packages returns the packages that have tests, in order: the root is the first.
func (all tests) packages() []string { return slices.Sorted(maps.Keys(all)) }

// find returns the packages of a test that list.go names. If several packages have a test of this name, the
// package that is preferred counts, or else the root, or else all of them. A name such as pool.TestClose means
// only the package in a directory pool, and hashedwheel.TestStop means the root.
func (all tests) find(name, preferred string) (dirs []string, test string) {
	pkg, test, qualified := strings.Cut(name, ".")
	if !qualified {
		test = name
	}
	for _, dir := range all.packages() {
		if slices.Contains(all[dir], test) && (!qualified || pkg == path.Base(path.Join("hashedwheel", dir))) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range []string{preferred, "."} {
		if slices.Contains(dirs, dir) {
			return []string{dir}, test
		}
	}
	return dirs, test
}

// of returns the tests of these names, by package.
func (all tests) of(names []string, preferred string) tests {
	named := make(tests)
	for _, name := range names {
		dirs, test := all.find(name, preferred)
		for _, dir := range dirs {
			named.add(dir, test)
		}
	}
	return named
}

// add adds tests of a package that are not there yet.
func (all tests) add(dir string, names ...string) {
	for _, name := range names {
		if !slices.Contains(all[dir], name) {
			all[dir] = append(all[dir], name)
		}
	}
}

// String lists the tests by package, sorted.
func (all tests) String() string {
	var groups []string
	for _, dir := range all.packages() {
		group := strings.Join(slices.Sorted(slices.Values(all[dir])), ", ")
		if dir != "." {
			group = "in " + dir + ": " + group
		}
		groups = append(groups, group)
	}
	return strings.Join(groups, "; ")
}
