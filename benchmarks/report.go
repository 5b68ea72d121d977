package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

func printList(w io.Writer) {
	fmt.Fprintln(w, "workloads:")
	for _, work := range workloads {
		fmt.Fprintf(w, "  %-36s %s: %s\n", work.name, work.heading(false), work.about)
	}
	fmt.Fprintln(w, "peers:")
	for _, p := range peers {
		fmt.Fprintf(w, "  %-36s %s %s\n", p.name, p.about, p.version())
	}
}

// format formats v with three significant digits, all digits before the decimal point, and at most
// three after it.
func format(v float64) string {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return strconv.FormatFloat(v, 'f', min(digits, 3), 64)
}

// text returns the median, with its spread if there was more than one run.
func (s stat) text(runs int) string {
	if runs < 2 {
		return format(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", format(s.Median), format(s.Min), format(s.Max))
}

// verdict returns the fault of the cell, or why it was not run. It returns "" if there is neither.
func (c *cell) verdict() string {
	if c.Cannot != "" {
		return c.Cannot
	}
	if c.Faulty > 0 && len(c.Runs) > 1 {
		return fmt.Sprintf("%s (in %d of %d runs)", c.Fault, c.Faulty, len(c.Runs))
	}
	if c.belowFloor() {
		return "below its floor, so the floor is none"
	}
	return c.Fault
}

// conditions says what was measured, where and how often.
func (r *result) conditions() string {
	mode := ""
	if r.Short {
		mode = " A short run: most numbers and times are smaller than the texts say, and the figures say little."
	}
	return fmt.Sprintf("%s, commit %s, %s, %s, %d processors of %s. Medians of %s, with the least and the greatest.%s",
		r.Date, r.Commit, r.Go, r.Platform, r.Processors, r.CPU, r.rounds(), mode)
}

// writeTables writes a Markdown table for each workload.
func (r *result) writeTables(w io.Writer) {
	fmt.Fprintf(w, "%s\nWall time is the time that passes. CPU time is that of the whole process, user and system.\n", r.conditions())
	column := func(text string) string { // empty unless -procs was given
		if !r.chosen() {
			return ""
		}
		return " " + text + " |"
	}
	for _, work := range workloads {
		cells := r.of(work)
		if len(cells) == 0 {
			continue
		}
		metrics := slices.DeleteFunc(slices.Clone(work.metrics), func(m metric) bool { // older results lack some
			return !slices.ContainsFunc(cells, func(c *cell) bool { _, ok := c.Metrics[m.name]; return ok })
		})
		fmt.Fprintf(w, "\n### %s\n\n`%s`: %s.\n\n| |%s tick |", work.heading(r.Short), work.name, work.about, column("GOMAXPROCS"))
		for _, m := range metrics {
			fmt.Fprintf(w, " %s%s |", m.label(), m.unit)
		}
		fmt.Fprintf(w, " |\n| --- |%s --- |%s --- |\n", column("---"), strings.Repeat(" --- |", len(metrics)))
		for _, c := range cells {
			fmt.Fprintf(w, "| %s |%s %s |", c.name(), column(strconv.Itoa(c.Procs)), c.tick())
			for _, m := range metrics {
				text := ""
				if s, ok := c.Metrics[m.name]; ok {
					text = s.text(len(c.Runs))
				}
				fmt.Fprintf(w, " %s |", text)
			}
			fmt.Fprintf(w, " %s |\n", strings.ReplaceAll(c.verdict(), "|", "/"))
		}
	}
}

// label distinguishes metrics of the same unit, and says which time is meant.
func (m metric) label() string {
	if m.name == "wall" {
		return "wall time, "
	}
	switch m.unit {
	case "ms", "µs", "ns":
		return m.name + ", "
	}
	return ""
}

// tick returns the tick, or "" for package time and the heap, which have none.
func (c *cell) tick() string {
	switch c.Peer {
	case "time", "time, reused", "heap design", floorPeer.name:
		return ""
	}
	return format(c.TickMS) + " ms"
}

// procs returns the values of GOMAXPROCS that have cells.
func (r *result) procs() (procs []int) {
	for _, c := range r.Cells {
		if !slices.Contains(procs, c.Procs) {
			procs = append(procs, c.Procs)
		}
	}
	return procs
}

// chosen reports whether -procs was given.
func (r *result) chosen() bool {
	return slices.ContainsFunc(r.Cells, func(c *cell) bool { return c.Procs > 0 })
}

func (c *cell) label() string {
	if c.Procs > 0 {
		return fmt.Sprintf("%s, %s, GOMAXPROCS %d", c.Workload, c.name(), c.Procs)
	}
	return c.Workload + ", " + c.name()
}

// name returns the peer, with the commit if it is not that of the result.
func (c *cell) name() string {
	if c.Commit != "" {
		return c.Peer + " at " + c.Commit
	}
	return c.Peer
}

func (r *result) of(w *workload) (cells []*cell) {
	for _, c := range r.Cells {
		if c.Workload == w.name {
			cells = append(cells, c)
		}
	}
	return cells
}

// bars returns the bars of the chart of a workload with procs processors. They show its first metric.
func (r *result) bars(w *workload, procs int) (bars []bar) {
	for _, c := range r.of(w) {
		if c.Procs != procs {
			continue
		}
		b := bar{label: c.name(), ours: c.ours(), fault: c.verdict(), cannot: c.Cannot != ""}
		if s, ok := c.Metrics[w.metrics[0].name]; ok {
			b.value, b.least, b.greatest, b.measured = s.Median, s.Min, s.Max, true
		}
		bars = append(bars, b)
	}
	return bars
}

// belowFloor reports whether the cell needs less than its floor, so that the floor is none.
func (c *cell) belowFloor() bool {
	f, ok := c.Metrics["floors"]
	return ok && f.Median < 1 && c.Fault == ""
}

// ownFaults returns an error if this library has a fault in any cell, or if a floor is none. Other peers may have
// faults.
func (r *result) ownFaults() error {
	var faults []error
	for _, c := range r.Cells {
		if c.belowFloor() || c.ours() && c.Fault != "" {
			faults = append(faults, fmt.Errorf("%s: %s", c.label(), c.verdict()))
		}
	}
	return errors.Join(faults...)
}

// ours reports whether this library is measured, as it is now.
func (c *cell) ours() bool { return strings.HasPrefix(c.Peer, "hashedwheel") && c.Commit == "" }

func (r *result) rounds() string {
	if r.Rounds == 1 {
		return "1 run"
	}
	return strconv.Itoa(r.Rounds) + " runs"
}

// caption says what the bars and the lines on them show, and whether less or more is better.
func (r *result) caption(w *workload) string {
	m := w.metrics[0]
	better := "less is better"
	if m.more {
		better = "more is better"
	}
	shown := "1 run"
	if r.Rounds > 1 {
		shown = fmt.Sprintf("median of %s, line from the least to the greatest", r.rounds())
	}
	return fmt.Sprintf("%s%s, %s; %s; %s", m.label(), m.unit, better, shown, r.Date)
}
