package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// skipped are the directories that no test of a mutation needs.
var skipped = []string{"benchmarks", "docs", "examples", "metrics", "internal/mutate"}

// walk calls f for each file and directory that the tests of mutations may need. The paths have slashes.
func walk(root string, f func(name string, d fs.DirEntry) error) error {
	return fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipped, name)):
			return fs.SkipDir
		}
		return f(name, d)
	})
}

// copyTree copies what walk finds.
func copyTree(root, dir string) error {
	return walk(root, func(name string, d fs.DirEntry) error {
		from, to := filepath.Join(root, filepath.FromSlash(name)), filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
}

// tests are the names of the tests and fuzz targets of each package. A package has the path of its directory, "."
// for the root.
type tests map[string][]string

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// findTests returns the tests of all packages that go test ./... finds.
func findTests(root string) (tests, error) {
	all := make(tests)
	err := walk(root, func(name string, d fs.DirEntry) error {
		if d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		for _, match := range declared.FindAllStringSubmatch(string(data), -1) {
			if match[1] != "TestMain" {
				all[path.Dir(name)] = append(all[path.Dir(name)], match[1])
			}
		}
		return err
	})
	return all, err
}

// packages returns the packages that have tests, in order: the root is the first.
func (all tests) packages() []string {
	var dirs []string
	for dir := range all {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}

// find returns the packages of a test that list.go names. If several packages have a test of this name, the
// package that is preferred counts, or else the root, or else all of them. A name such as crew.TestClose means
// only the package in a directory crew, and hashedwheel.TestStop means the root.
func (all tests) find(name, preferred string) (dirs []string, test string) {
	pkg, test, qualified := strings.Cut(name, ".")
	if !qualified {
		test = name
	}
	for _, dir := range all.packages() {
		if slices.Contains(all[dir], test) && (!qualified || pkg == packageName(dir)) {
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

// packageName returns the name of the package in a directory.
func packageName(dir string) string {
	if dir == "." {
		return "hashedwheel"
	}
	return path.Base(dir)
}

// of returns the tests that a mutation names, by package.
func (all tests) of(m mutation) tests {
	named := make(tests)
	for _, name := range strings.Fields(m.tests) {
		dirs, test := all.find(name, path.Dir(m.file))
		for _, dir := range dirs {
			named.add(dir, test)
		}
	}
	return named
}

// add adds a test of a package, if it is not there yet.
func (all tests) add(dir, test string) {
	if !slices.Contains(all[dir], test) {
		all[dir] = append(all[dir], test)
	}
}
