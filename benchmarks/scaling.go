package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
)

// scalingCells matches the cells of -scaling. Package time has a heap for each processor, and this library has one
// worker, so the number of processors matters to both. Where timeouts are kept, both arm them again.
var scalingCells = regexp.MustCompile(
	`^(schedule-cancel-parallel(-heap)?|cancel-by-other|reset-parallel|fire|rpc|storm-(at-once|later|by-other))/(hashedwheel|time)$` +
		`|^reuse-parallel/(hashedwheel, embedded|time, reused)$`)

// doublings returns 1, 2, 4, and so on below n, and n.
func doublings(n int) (procs []int) {
	for p := 1; p < n; p *= 2 {
		procs = append(procs, p)
	}
	return append(procs, n)
}

// A line is a line of a chart of -scaling.
type line struct {
	name, class string
	points      map[int]float64 // wall time of an operation, in nanoseconds, by number of processors
	texts       map[int]string  // for the table
}

// lines returns the lines of this library, package time and the floor, if -scaling measures the workload.
func (r *result) lines(w *workload) []line {
	var lines [3]line
	add := func(i int, name, class, metric string, c *cell) {
		if lines[i].name == "" {
			lines[i] = line{name, class, map[int]float64{}, map[int]string{}}
		}
		lines[i].points[c.Procs], lines[i].texts[c.Procs] = c.cost(metric)
	}
	for _, c := range r.Cells {
		switch {
		case c.Workload == "floor":
			add(2, c.Peer, "floor", w.floorMetric(peer{}), c)
		case c.Workload != w.name || !scalingCells.MatchString(c.Workload+"/"+c.Peer):
		case c.ours():
			add(0, c.Peer, "ours", "wall", c)
		default:
			add(1, "package "+c.Peer, "time", "wall", c)
		}
	}
	if lines[0].name == "" && lines[1].name == "" {
		return nil
	}
	return slices.DeleteFunc(lines[:], func(l line) bool { return l.name == "" })
}

// cost returns the metric, which is in nanoseconds, and a text for the table. A cell without the metric has a rate, in
// millions a second. The cost is zero if there is neither, or a fault, because a figure measured with a fault is not
// comparable.
func (c *cell) cost(metric string) (ns float64, text string) {
	s := c.Metrics[metric]
	if rate := c.Metrics["rate"]; s.Median == 0 && rate.Min > 0 {
		s = stat{1e3 / rate.Median, 1e3 / rate.Max, 1e3 / rate.Min}
	}
	if fault := c.verdict(); fault != "" || s.Median <= 0 {
		return 0, fault
	}
	text = s.text(len(c.Runs))
	if cpu, ok := c.Metrics["cpu"]; ok {
		text += ", CPU " + format(cpu.Median)
	}
	return s.Median, text
}

// Distances in a chart of -scaling, in pixels.
const (
	linesLeft   = 80 // of the point of one processor
	linesWidth  = 640
	linesTop    = 60
	linesHeight = 240
)

// scalingStyle follows chartStyle. The charts are white, and the rest of the page is light or dark.
const scalingStyle = `
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2em auto; padding: 0 1em; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; margin: .5em 0 3em; }
th, td { border-bottom: 1px solid #7b8590; padding: .2em 1em .2em 0; text-align: left; }
.time { fill: #0969da; }
.floor { fill: #7b8590; }
.line { fill: none; stroke-width: 2; }
.line.ours { stroke: #1a7f37; }
.line.time { stroke: #0969da; stroke-dasharray: 8 4; }
.line.floor { stroke: #7b8590; stroke-dasharray: 2 4; }
`

// scalingPage returns a page with a chart and a table for each workload of -scaling.
func (r *result) scalingPage() ([]byte, error) {
	procs := slices.DeleteFunc(slices.Sorted(slices.Values(r.procs())), func(n int) bool { return n < 1 })
	var body bytes.Buffer
	for _, w := range workloads {
		if lines := r.lines(w); len(lines) > 0 && len(procs) > 0 {
			fmt.Fprintf(&body, "<h2>%s</h2>\n<p><code>%s</code>: %s.</p>\n", escape(w.heading(r.Short)), w.name, escape(w.about))
			drawLines(&body, w.heading(r.Short), procs, lines)
			writeLines(&body, procs, lines)
		}
	}
	if body.Len() == 0 {
		return nil, errors.New("-scaling: the result has no cell of these workloads with a number of processors")
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width"/>
<title>Cost of an operation with more processors</title>
<style>%s%s</style></head><body>
<h1>Cost of an operation with more processors</h1>
<p>%s</p>
<p>The charts show the wall time: the time that passes, divided by the number of operations on all goroutines. Both
scales are logarithmic. If twice as many processors do twice the work, the cost is halved. The points are
medians, and the tables have the spread and the CPU time of the whole process for each operation. A figure measured
with a fault has no point. The floor is what an operation must do: README.md says what that is.</p>
%s</body></html>
`, chartStyle, scalingStyle, escape(r.conditions()), body.Bytes())
	return page.Bytes(), nil
}

// drawLines draws a chart with logarithmic scales.
func drawLines(s *bytes.Buffer, title string, procs []int, lines []line) {
	least, greatest := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l.points {
			if v > 0 {
				least, greatest = min(least, v), max(greatest, v)
			}
		}
	}
	if greatest == 0 {
		return // all cells had faults
	}
	scale := logarithmic(least, greatest, math.Inf(1))
	const bottom, right = linesTop + linesHeight, linesLeft + linesWidth
	last := max(2, procs[len(procs)-1])
	x := func(n int) float64 { return linesLeft + linesWidth*math.Log2(float64(n))/math.Log2(float64(last)) }
	fmt.Fprintf(s, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", right+40, bottom+50, escape(title))
	fmt.Fprintf(s, `<rect class="background" x="0" y="0" width="%d" height="%d"/>`+"\n", right+40, bottom+50)
	drawText(s, "quiet", 12, 44, "start", "wall time, ns/op")
	drawText(s, "quiet", right, bottom+40, "end", "processors (GOMAXPROCS)")
	for _, m := range scale.marks {
		y := bottom - m.at*linesHeight
		fmt.Fprintf(s, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", linesLeft, right, y, y)
		drawText(s, "quiet", linesLeft-12, int(y)+4, "end", m.label)
	}
	for _, n := range procs {
		drawText(s, "quiet", x(n), bottom+20, "middle", fmt.Sprint(n))
	}
	for i, l := range lines {
		left := linesLeft + 220*i
		fmt.Fprintf(s, `<path class="line %s" d="M%d 20h30"/>`+"\n", l.class, left)
		drawText(s, "", float64(left+38), 24, "start", l.name)
		var path bytes.Buffer
		for _, n := range procs {
			if v := l.points[n]; v > 0 {
				length, _ := scale.length(v)
				y := bottom - length*linesHeight
				fmt.Fprintf(&path, " %.1f,%.1f", x(n), y)
				fmt.Fprintf(s, `<circle class="%s" cx="%.1f" cy="%.1f" r="4"/>`+"\n", l.class, x(n), y)
			}
		}
		fmt.Fprintf(s, `<polyline class="line %s" points="%s"/>`+"\n", l.class, bytes.TrimSpace(path.Bytes()))
	}
	s.WriteString("</svg>\n")
}

// writeLines writes the table below a chart.
func writeLines(s *bytes.Buffer, procs []int, lines []line) {
	s.WriteString("<table><tr><th>processors</th>")
	for _, l := range lines {
		fmt.Fprintf(s, "<th>%s, ns/op</th>", escape(l.name))
	}
	for _, n := range procs {
		fmt.Fprintf(s, "</tr>\n<tr><td>%d</td>", n)
		for _, l := range lines {
			fmt.Fprintf(s, "<td>%s</td>", escape(l.texts[n]))
		}
	}
	s.WriteString("</tr></table>\n")
}
