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
	mode := ""
	if r.Short {
		mode = " A short run: most numbers and times are smaller than the texts say, and the figures say little."
	}
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

// WriteTables writes a Markdown table for each workload, and with -against one for the change.
func (r *Result) WriteTables(w io.Writer) {
	fmt.Fprintf(w, "%s\nWall time is the time that passes. CPU time is that of the whole process, user and system.\n", r.conditions())
	column := func(text string) string { // empty unless -procs was given
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
}

// of returns the cells of a workload.
func (r *Result) of(w *work.Workload) []*work.Cell {
	return slices.DeleteFunc(slices.Clone(r.Cells), func(c *work.Cell) bool { return c.Workload != w.Name })
}

// writeComparison writes a table with the figures of this library at both commits. It writes nothing without -against.
func (r *Result) writeComparison(w io.Writer) {
	if r.Against == "" {
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
