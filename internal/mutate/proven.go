package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// provenFile is the file that -write completes.
const provenFile = "docs/proven.md"

// generated is the line of the file after which -write writes.
const generated = "<!-- What follows is written by go run ./internal/mutate -write. Do not edit it. -->\n"

// proven returns a page with what -write writes on it.
func (files tree) proven(page string) string {
	var b strings.Builder
	head, _, _ := strings.Cut(page, generated)
	b.WriteString(head + generated)
	fmt.Fprintf(&b, "\nThere are %d promises and %d faults.\n\n%s\n%s\n\n%s\n", len(promises), len(mutations), files.counts(),
		wrap(fmt.Sprintf("Tests with a model: %s.", files.tests("Model")), ""),
		wrap(fmt.Sprintf("Fuzz targets: %s.", files.tests("^Fuzz")), ""))
	known := files.tests("Test|Fuzz")
	for number, promise := range promises {
		heading, rest, _ := strings.Cut(promise.text, ". ")
		fmt.Fprintf(&b, "\n## %d. %s\n\n", number+1, heading)
		if rest != "" {
			b.WriteString(wrap(rest+".", "") + "\n\n")
		}
		checked := known.of(strings.Fields(promise.tests), ".")
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
	{"on virtual time", regexp.MustCompile(`^Test(?s:.*)\b([vV]irtual|synctest\.Test)\(`)},
	{"with a model", regexp.MustCompile(`^Test\w*Model`)},
	{"races in real time", regexp.MustCompile(`^Test(\w*Race\(|(?s:.*)\b[sS]tressTime\()`)},
	{"scenarios of TestExplore", nil},
	{"fuzz targets", regexp.MustCompile("^Fuzz")},
	{"examples", regexp.MustCompile("^Example")},
}

// counts returns a table of the numbers of tests.
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
