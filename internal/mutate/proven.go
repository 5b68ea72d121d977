package main

import (
	"fmt"
	"maps"
	"regexp"
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
func (files tree) proven() string {
	var b strings.Builder
	b.WriteString(provenIntro)
	known := files.tests("Test|Fuzz")
	for number, promise := range promises {
		heading, rest, _ := strings.Cut(promise, ". ")
		fmt.Fprintf(&b, "\n## %d. %s\n\n", number+1, heading)
		if rest != "" {
			b.WriteString(wrap(rest+".", "") + "\n\n")
		}
		checked := known.of(alsoHeld[number], ".")
		b.WriteString("Faults that the tests notice:\n\n")
		for _, m := range mutations {
			if m.promise == number {
				b.WriteString(wrap(fmt.Sprintf("- %s (%s)", m.change, m.file), "  ") + "\n")
				for dir, names := range m.named(known) {
					checked.add(dir, names...)
				}
			}
		}
		b.WriteString("\n" + wrap("Tests: "+checked.String()+".", "") + "\n")
	}
	fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", provenMethods, files.counts(),
		wrap(fmt.Sprintf("Tests with a model: %s.", files.tests("Model")), ""),
		wrap(fmt.Sprintf("Fuzz targets: %s.", files.tests("^Fuzz")), ""))
	return b.String()
}

// wrap breaks a text into lines of at most 118 characters. All lines but the first begin with indent.
func wrap(text, indent string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		if width+1+len(word) > 118 {
			b.WriteString("\n" + indent)
			width = len(indent)
		} else if i > 0 {
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String()
}

// kinds are the kinds of tests that can be told from the code. A pattern matches the name and the text of a function.
var kinds = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"tests", regexp.MustCompile("^Test")},
	{"on virtual time", regexp.MustCompile(`^Test(?s:.*)\b(virtual|synctest\.Test)\(`)},
	{"with a model", regexp.MustCompile(`^Test\w*Model`)},
	{"races in real time", regexp.MustCompile(`^Test(\w*Race\(|(?s:.*)\bstressTime\()`)},
	{"scenarios of TestExplore", nil},
	{"fuzz targets", regexp.MustCompile("^Fuzz")},
	{"examples", regexp.MustCompile("^Example")},
}

// counts returns the section about the numbers of tests.
func (files tree) counts() string {
	counts := make(map[string][]int) // by package and kind
	for _, f := range files.functions() {
		if counts[f.dir] == nil {
			counts[f.dir] = make([]int, len(kinds))
		}
		for i, kind := range kinds {
			if f.scenario == (kind.pattern == nil) && (f.scenario || kind.pattern.MatchString(f.text)) {
				counts[f.dir][i]++
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, provenCounts, len(promises), len(mutations))
	b.WriteString("| package |")
	for _, kind := range kinds {
		b.WriteString(" " + kind.name + " |")
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", 1+len(kinds)) + "\n")
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		b.WriteString("| " + strings.Replace(dir, ".", "hashedwheel", 1))
		for _, n := range counts[dir] {
			fmt.Fprintf(&b, " | %d", n)
		}
		b.WriteString(" |\n")
	}
	return b.String()
}
