package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchmath"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// format formats v with three significant digits, all digits before the decimal point, and at most three after it.
func format(v float64) string {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return strconv.FormatFloat(v, 'f', min(digits, 3), 64)
}

// text returns the median of a metric, with the interval if there was more than one run, or "" if there is none.
func (r *Result) text(c *work.Cell, metric string) string {
	s, ok := r.stat(c, metric)
	switch {
	case !ok:
		return ""
	case len(c.Runs) < 2:
		return format(s.Center)
	}
	return fmt.Sprintf("%s (%s to %s)", format(s.Center), format(s.Lo), format(s.Hi))
}

// conditions says what was measured, where and how often.
func (r *Result) conditions() string {
	mode := map[bool]string{true: " A short run: most numbers and times are smaller than the texts say, and the figures say little."}[r.Short]
	return fmt.Sprintf("%s, commit %s, %s, %s, %d processors of %s. Medians of %s.%s",
		r.Date, r.Commit, r.Go, r.Platform, r.Processors, r.CPU, r.rounds(), mode)
}

func (r *Result) rounds() string {
	n := 0
	for _, c := range r.Cells {
		n = max(n, len(c.Runs))
	}
	switch {
	case n == 1:
		return "1 run"
	case n < 6:
		return fmt.Sprintf("%d runs, with the least and the greatest", n)
	}
	return fmt.Sprintf("%d runs, with intervals of 95 %% confidence", n)
}

// WriteTables writes a Markdown table for each workload, and with -against one that compares the commits.
func (r *Result) WriteTables(w io.Writer) {
	fmt.Fprintf(w, "%s\nWall time is the time that passes. CPU time is that of the whole process, user and system.\n", r.conditions())
	column := func(text string) string { // empty without -scaling
		if r.Cells[0].Procs == 0 {
			return ""
		}
		return " " + text + " |"
	}
	for _, wk := range work.List {
		cells := r.of(wk)
		if len(cells) == 0 {
			continue
		}
		metrics := slices.DeleteFunc(slices.Clone(wk.Metrics), func(m work.Metric) bool { // older results lack some
			return !slices.ContainsFunc(cells, func(c *work.Cell) bool { return r.text(c, m.Name) != "" })
		})
		fmt.Fprintf(w, "\n### %s\n\n`%s`: %s.\n\n| |%s tick |", wk.Heading(r.Short), wk.Name, wk.About, column("GOMAXPROCS"))
		for _, m := range metrics {
			fmt.Fprintf(w, " %s%s |", m.Label(), m.Unit)
		}
		fmt.Fprintf(w, " |\n| --- |%s --- |%s --- |\n", column("---"), strings.Repeat(" --- |", len(metrics)))
		for _, c := range cells {
			tick := format(c.TickMS) + " ms"
			if p, _ := work.FindPeer(c.Peer); p.NoTick {
				tick = ""
			}
			fmt.Fprintf(w, "| %s |%s %s |", c.Name(), column(strconv.Itoa(c.Procs)), tick)
			for _, m := range metrics {
				fmt.Fprintf(w, " %s |", r.text(c, m.Name))
			}
			fmt.Fprintf(w, " %s |\n", strings.ReplaceAll(r.verdict(c), "|", "/"))
		}
	}
	r.writeComparison(w)
	r.writeRanking(w)
}

// of returns the cells of a workload.
func (r *Result) of(w *work.Workload) []*work.Cell {
	return slices.DeleteFunc(slices.Clone(r.Cells), func(c *work.Cell) bool { return c.Workload != w.Name })
}

// writeComparison writes a table with the figures of this library at both commits. It writes nothing unless there is one
// other commit.
func (r *Result) writeComparison(w io.Writer) {
	if r.Against == "" || strings.Contains(r.Against, ",") {
		return
	}
	fmt.Fprintf(w, "\n### %s compared with %s\n\n", r.Commit, r.Against)
	fmt.Fprint(w, "Medians of both commits. The benchmarks are those of the tests of each commit. The p-value is that of a Mann-Whitney U test. "+
		"Above 0.05 the rounds show no difference, and fewer than 4 rounds never do.\n\n")
	fmt.Fprintf(w, "| | | %s | %s | change | |\n| --- | --- | --- | --- | --- | --- |\n", r.Against, r.Commit)
	for i, before := range r.Cells {
		if before.Commit == "" {
			continue
		}
		after := r.Cells[i-1]
		for _, m := range metrics(after) {
			old, ok1 := r.stat(before, m.Name)
			new, ok2 := r.stat(after, m.Name)
			switch fault, _ := before.Faults(); {
			case m.Name == "floors" || !ok2:
			case !ok1:
				fmt.Fprintf(w, "| %s | %s%s | %s | %s | | |\n", after.Label(), m.Label(), m.Unit,
					cmp.Or(fault, "not measured"), r.text(after, m.Name))
			default:
				p := benchmath.AssumeNothing.Compare(sample(before.Values(m.Name)), sample(after.Values(m.Name)))
				fmt.Fprintf(w, "| %s | %s%s | %s | %s | %+.1f %% | %v |\n", after.Label(), m.Label(), m.Unit,
					r.text(before, m.Name), r.text(after, m.Name), 100*(new.Center/old.Center-1), p)
			}
		}
	}
}

// worseBy is how much worse than the best commit a row may be. Smaller differences are often chance.
const worseBy = 0.1

// alsoRanked are the metrics of a table of several commits, beside the first of each cell. Others differ too much from run to
// run.
var alsoRanked = []string{"cpu", "gc", "p90"}

// Worse returns an error if this library is worse than the best of several commits in any row.
func (r *Result) Worse() error {
	if marked := r.writeRanking(io.Discard); marked > 0 {
		return fmt.Errorf("%d rows are worse than the best commit by more than %.0f %%", marked, 100*worseBy)
	}
	return nil
}

// writeRanking writes a table with the figures of this library at several commits, and returns how many rows it marks.
func (r *Result) writeRanking(w io.Writer) (marked int) {
	commits := strings.Split(r.Against, ",")
	if len(commits) < 2 {
		return 0
	}
	fmt.Fprintf(w, "\n### %s compared with the best of several commits\n\n", r.Commit)
	fmt.Fprintf(w, "The best run of each commit. A row is marked if %s is worse than the best commit by more than %.0f %%, "+
		"except in a short run.\n\n", r.Commit, 100*worseBy)
	fmt.Fprintf(w, "| | | %s | %s | best | x best | |\n| --- | --- |%s --- | --- | --- | --- |\n",
		strings.Join(commits, " | "), r.Commit, strings.Repeat(" --- |", len(commits)))
	for i, ours := range r.Cells {
		others := r.Cells[i+1:]
		if n := slices.IndexFunc(others, func(c *work.Cell) bool { return c.Commit == "" }); n >= 0 {
			others = others[:n]
		}
		for j, m := range metrics(ours) {
			if ours.Ours() && (j == 0 || slices.Contains(alsoRanked, m.Name)) {
				row, worse := r.rank(append(slices.Clone(others), ours), m)
				fmt.Fprintln(w, row)
				if worse {
					marked++
				}
			}
		}
	}
	return marked
}

// rank returns a row with the best run of each cell, because other work of the machine makes runs worse, not better. A cell
// with a fault has no figure. The last cell is that of this library. worse reports whether the row is marked.
func (r *Result) rank(cells []*work.Cell, m work.Metric) (row string, worse bool) {
	bestOf := slices.Min[[]float64]
	if m.More {
		bestOf = slices.Max[[]float64]
	}
	row = fmt.Sprintf("| %s | %s%s |", cells[len(cells)-1].Label(), m.Label(), m.Unit)
	best, mine, figures := "", math.NaN(), []float64(nil)
	for _, c := range cells {
		fault, _ := c.Faults()
		values := c.Values(m.Name)
		if fault != "" || len(values) == 0 {
			row += " " + strings.ReplaceAll(cmp.Or(fault, "not measured"), "|", "/") + " |"
			mine = math.NaN()
			continue
		}
		mine = bestOf(values)
		row += " " + format(mine) + " |"
		if figures = append(figures, mine); bestOf(figures) == mine {
			best = cmp.Or(c.Commit, r.Commit)
		}
	}
	if math.IsNaN(mine) {
		return row + " | | |", false
	}
	multiple := mine / bestOf(figures)
	worse = math.Abs(multiple-1) > worseBy && !r.Short
	mark := map[bool]string{true: "worse"}[worse]
	return fmt.Sprintf("%s %s | %s | %s |", row, best, format(multiple), mark), worse
}
