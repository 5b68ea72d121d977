package report

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// filled matches a row of a table whose figures come from a result. A comment, which a reader does not see, says which:
//
//	| fire <!-- fire: hashedwheel=last ms; time=last ms; ratio --> | 40 ms | 4000 ms | 100 |
//
// Metrics with a plus between them share a column. The ratio is that of the second column to the first, in each round. A
// column without a peer is empty.
var filled = regexp.MustCompile(`(?m)^(\|.*<!-- ([a-z0-9-]+): (.*) --> \|).*$`)

// rangeFrom is how much greater the greatest run is than the least, so that a table has a range in place of the median.
const rangeFrom = 1.25

// Fill writes the figures of the result into the tables of a Markdown file: the median, or from the least run to the greatest
// if the runs differ by a quarter and the metric has a column to itself. A ratio is from the least to the greatest too. If the least is
// zero, it is the greatest, after "up to". If the result lacks a figure of a row, as
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
	var compared []*work.Cell // of each column
	var first []string        // its first metric
	for column := range strings.SplitSeq(parts[3], "; ") {
		if column == "ratio" && len(compared) == 2 {
			row += " " + span(ratios(compared[0], first[0], compared[1], first[1]))
		}
		if column == "ratio" || column == "" {
			row += " |"
			continue
		}
		peer, what, _ := strings.Cut(column, "=")
		joined, unit, _ := strings.Cut(what, " ")
		names := strings.Split(joined, "+")
		i := slices.IndexFunc(r.Cells, func(c *work.Cell) bool { return c.Workload == parts[2] && c.Peer == peer && c.Procs == 0 })
		if i < 0 {
			return old
		}
		compared, first = append(compared, r.Cells[i]), append(first, names[0])
		var figures []string
		for _, name := range names {
			if s, ok := r.stat(r.Cells[i], name); ok && s.Center > 0 {
				figures = append(figures, format(s.Center))
			}
		}
		values := r.values(r.Cells[i], joined)
		fault, _ := r.Cells[i].Faults()
		switch {
		case len(values) > 0 && slices.Min(values) == 0 && slices.Max(values) > 0:
			row += " up to " + strings.TrimSpace(twoDigits(slices.Max(values))+" "+unit) + " |"
		case len(values) > 0 && slices.Min(values) > 0 && slices.Max(values) >= rangeFrom*slices.Min(values):
			row += " " + strings.TrimSpace(span(values)+" "+unit) + " |"
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

// ratios returns the ratio of b to a in each round that has both.
func ratios(a *work.Cell, metricA string, b *work.Cell, metricB string) (all []float64) {
	for i := range min(len(a.Runs), len(b.Runs)) {
		if x, y := a.Runs[i].Metrics[metricA], b.Runs[i].Metrics[metricB]; x > 0 && y > 0 {
			all = append(all, y/x)
		}
	}
	return all
}

// span returns the range of the values, with two digits, or one number if that is both ends.
func span(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	lo, hi := twoDigits(slices.Min(values)), twoDigits(slices.Max(values))
	if lo == hi {
		return lo
	}
	return lo + " to " + hi
}

// twoDigits formats v with two significant digits.
func twoDigits(v float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	v = math.Round(v/unit) * unit
	return strconv.FormatFloat(v, 'f', max(0, int(1-math.Floor(math.Log10(v)))), 64)
}
