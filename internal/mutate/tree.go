package main

import (
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

// A function is a test, a fuzz target, an example, or a scenario of TestExplore.
type function struct {
	dir, name, text string // dir is that of the package
	scenario        bool
}

var declared = regexp.MustCompile(`^((?:Test|Fuzz|Example)\w*)\(`)

// functions returns the functions of all packages that go test ./... finds.
func (files tree) functions() (all []function) {
	for name, text := range files {
		dir, scenario := strings.CutSuffix("/"+path.Dir(name), "/testdata/steps")
		if !strings.HasSuffix(name, "_test.go") || strings.Contains(dir, "/testdata/") {
			continue
		}
		for _, text := range strings.Split(text, "\nfunc ") {
			if match := declared.FindStringSubmatch(text); match != nil && match[1] != "TestMain" {
				all = append(all, function{path.Join(".", strings.TrimPrefix(dir, "/")), match[1], text, scenario})
			}
		}
	}
	return all
}

// tests are the names of tests and fuzz targets by package. A package has the path of its directory, "." for the root.
type tests map[string][]string

// tests returns the names of the tests that match.
func (files tree) tests(match string) tests {
	all, pattern := make(tests), regexp.MustCompile(match)
	for _, f := range files.functions() {
		if !f.scenario && pattern.MatchString(f.name) {
			all.add(f.dir, f.name)
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
