package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// provenFile is the file that -write writes.
const provenFile = "docs/proven.md"

const provenIntro = `# How it is proven

<!-- Written by go run ./internal/mutate -write. Do not edit. -->

This page lists each promise of the library, the tests that check it, and faults in the code. Each fault makes at
least one of these tests fail. The command

    go run ./internal/mutate

makes the faults one after the other, in a copy of the code, and runs the tests. That is done every night. CI makes
only a few of the faults.

The page is generated from that list of faults and from the tests. CI checks that it is up to date.
`

const provenMethods = `## How the tests reach their results

- **Virtual time.** A test of timing runs in a bubble of testing/synctest and asserts exact times.
- **Models.** A test runs random operations, and compares the results with those of an obviously correct model.
  FuzzTimer and FuzzWheel take the operations from a byte string.
- **All orders.** TestExplore cuts the code into its atomic steps. It runs the steps of a few goroutines in every
  order that differs in its effect, within the bounds that its log states. Each scenario is one such search. Among
  them are each pair and triple of push, Cancel, Reset, expiry and Stop, and each of these while a producer prunes
  the queue. The longest searches are bounded to a few preemptions.
- **Outcomes.** TestOutcomes has the same operations race in real time. The outcome must be that of some order in
  which the operations run one after another.
- **Load.** TestFlood has eight goroutines arm and cancel as fast as they can. TestSoak calls most methods at random,
  also from inside tasks, while other tasks panic, exit or block, and the processors are busy.
- **Crossings.** TestCrossing crosses all options and features at random, through the public methods alone. Each
  piece of user code may call each method, and may panic, exit or block.
- **Ends.** TestLifeCycles makes thousands of timers, and stops, shuts down or drops each. After every run of the
  tests, goleak looks for goroutines that are left.
`

const provenCounts = `## How many there are

There are %d promises and %d faults. The table counts the tests of each package. A test can be of several kinds.
A test on virtual time makes its bubble itself. A test with a model has Model in its name. The name of a race in real
time ends with Race, or HASHEDWHEEL_STRESS sets its length.

`

// proven returns the text of the page.
func proven(root string) (string, error) {
	known, err := findTests(root)
	if err != nil {
		return "", err
	}
	counts, err := countTests(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(provenIntro)
	for number, promise := range promises {
		heading, rest, _ := strings.Cut(promise, ". ")
		fmt.Fprintf(&b, "\n## %d. %s\n\n", number+1, heading)
		if rest != "" {
			b.WriteString(wrap(rest+".", "") + "\n\n")
		}
		checked := make(tests)
		for _, name := range alsoHeld[number] {
			dirs, test := known.find(name, ".")
			for _, dir := range dirs {
				checked.add(dir, test)
			}
		}
		faults := ""
		for _, m := range mutations {
			if m.promise != number {
				continue
			}
			faults += wrap(fmt.Sprintf("- %s (%s)", m.change, m.file), "  ") + "\n"
			for dir, names := range known.of(m) {
				for _, name := range names {
					checked.add(dir, name)
				}
			}
		}
		b.WriteString("Faults that the tests notice:\n\n" + faults + "\n")
		b.WriteString(wrap("Tests: "+checked.String()+".", "") + "\n")
	}
	models := known.matching(func(name string) bool { return strings.Contains(name, "Model") })
	fuzz := known.matching(func(name string) bool { return strings.HasPrefix(name, "Fuzz") })
	fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", provenMethods, counts,
		wrap(fmt.Sprintf("Tests with a model: %s.", models), ""), wrap(fmt.Sprintf("Fuzz targets: %s.", fuzz), ""))
	return b.String(), nil
}

// matching returns the tests whose names match.
func (all tests) matching(match func(name string) bool) tests {
	matching := make(tests)
	for dir, names := range all {
		for _, name := range names {
			if match(name) {
				matching.add(dir, name)
			}
		}
	}
	return matching
}

// String lists the tests by package, sorted.
func (all tests) String() string {
	var groups []string
	for _, dir := range all.packages() {
		names := slices.Sorted(slices.Values(all[dir]))
		group := strings.Join(names, ", ")
		if dir != "." {
			group = "in " + dir + ": " + group
		}
		groups = append(groups, group)
	}
	return strings.Join(groups, "; ")
}

// wrap breaks a text into lines of at most 118 characters. All lines but the first begin with indent.
func wrap(text, indent string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case width+1+len(word) > 118:
			b.WriteString("\n" + indent)
			width = len(indent)
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String()
}

// A kind is a kind of tests that can be told from the code.
type kind int

const (
	kindTest kind = iota
	kindVirtual
	kindModel
	kindRace
	kindScenario
	kindFuzz
	kindExample
	kinds
)

var kindNames = [kinds]string{
	kindTest:     "tests",
	kindVirtual:  "on virtual time",
	kindModel:    "with a model",
	kindRace:     "races in real time",
	kindScenario: "scenarios of TestExplore",
	kindFuzz:     "fuzz targets",
	kindExample:  "examples",
}

// counts are the numbers of tests by package.
type counts map[string]*[kinds]int

// countTests counts the tests of all packages, and the scenarios of TestExplore.
func countTests(root string) (counts, error) {
	all := make(counts)
	fset := token.NewFileSet()
	err := walk(root, func(name string, d fs.DirEntry) error {
		dir := path.Dir(name)
		if d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		tested, below, isBelow := strings.Cut("/"+dir+"/", "/testdata/")
		tested = path.Join(".", strings.TrimPrefix(tested, "/"))
		if isBelow && below != "steps/" {
			return nil // tests of tools, or of package time
		}
		file, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if all[tested] == nil {
			all[tested] = new([kinds]int)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				for _, k := range kindsOf(f, isBelow) {
					all[tested][k]++
				}
			}
		}
		return nil
	})
	return all, err
}

// kindsOf returns the kinds of a function in a test file, none if it is no test.
func kindsOf(f *ast.FuncDecl, scenario bool) (all []kind) {
	name := f.Name.Name
	switch {
	case strings.HasPrefix(name, "Fuzz"):
		return []kind{kindFuzz}
	case strings.HasPrefix(name, "Example"):
		return []kind{kindExample}
	case !strings.HasPrefix(name, "Test") || name == "TestMain":
		return nil
	case scenario:
		return []kind{kindScenario}
	}
	all = []kind{kindTest}
	called := make(map[string]bool)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			called[n.Name] = true
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				called[x.Name+"."+n.Sel.Name] = true
			}
		}
		return true
	})
	if called["virtual"] || called["synctest.Test"] {
		all = append(all, kindVirtual)
	}
	if strings.Contains(name, "Model") {
		all = append(all, kindModel)
	}
	if called["stressTime"] || strings.HasSuffix(name, "Race") {
		all = append(all, kindRace)
	}
	return all
}

// String returns the section about the numbers of tests.
func (all counts) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, provenCounts, len(promises), len(mutations))
	b.WriteString("| package | " + strings.Join(kindNames[:], " | ") + " |\n")
	b.WriteString("|" + strings.Repeat(" --- |", 1+int(kinds)) + "\n")
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		name := dir
		if dir == "." {
			name = "hashedwheel"
		}
		b.WriteString("| " + name)
		for _, n := range all[dir] {
			fmt.Fprintf(&b, " | %d", n)
		}
		b.WriteString(" |\n")
	}
	return b.String()
}
