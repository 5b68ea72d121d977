package report

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// filled matches a row of a table whose figures come from a result. A comment, which a reader does not see, says which:
//
//	| fire <!-- fire: hashedwheel=last ms; time=last ms; ratio --> | 40 ms | 4000 ms | 100 |
//
// Metrics with a plus between them share a column. The ratio is that of the second column to the first. A column without
// a peer is empty.
var filled = regexp.MustCompile(`(?m)^(\|.*<!-- ([a-z0-9-]+): (.*) --> \|).*$`)

// Fill writes the medians of the result into the tables of a Markdown file. If the result lacks a figure of a row, as
// with -only, or it is zero, the row stays as it is. If a peer has a fault and no figure, the fault takes its place.
func (r *Result) Fill(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(filled.ReplaceAllStringFunc(string(text), r.row)), 0o666)
}

// row returns a row of a table with its figures.
func (r *Result) row(old string) string {
	parts := filled.FindStringSubmatch(old)
	row := parts[1]
	var first []float64 // of each column
	for column := range strings.SplitSeq(parts[3], "; ") {
		if column == "ratio" && len(first) == 2 {
			row += " " + format(first[1]/first[0])
		}
		if column == "ratio" || column == "" {
			row += " |"
			continue
		}
		peer, what, _ := strings.Cut(column, "=")
		names, unit, _ := strings.Cut(what, " ")
		i := slices.IndexFunc(r.Cells, func(c *work.Cell) bool { return c.Workload == parts[2] && c.Peer == peer && c.Procs == 0 })
		if i < 0 {
			return old
		}
		var figures []string
		for name := range strings.SplitSeq(names, "+") {
			if s, ok := r.stat(r.Cells[i], name); ok && s.Center > 0 {
				figures = append(figures, format(s.Center))
				if len(figures) == 1 {
					first = append(first, s.Center)
				}
			}
		}
		fault, _ := r.Cells[i].Faults()
		switch {
		case len(figures) > 0:
			row += " " + strings.TrimSpace(strings.Join(figures, " / ")+" "+unit) + " |"
		case fault != "":
			row += " " + fault + " |"
		default:
			return old
		}
	}
	return row
}
