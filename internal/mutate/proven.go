package main

import (
	"fmt"
	"strings"
)

// proven returns what -list prints: each promise, the faults that break it, and all tests of it.
func (files tree) proven() string {
	var b strings.Builder
	fmt.Fprintf(&b, "There are %d promises and %d faults.\n\n%s\n\n%s\n", len(promises), len(mutations),
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
				place := m.place()
				if m.stale(files, known) != nil {
					place += ", stale"
				}
				b.WriteString(wrap(fmt.Sprintf("- %s (%s)", m.change, place), "  ") + "\n")
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
