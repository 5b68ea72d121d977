package report

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// A bar is a row of a chart: a value with its interval, or a fault in its place, because figures measured with a fault
// are not comparable.
type bar struct {
	label         string
	value, lo, hi float64
	ours          bool
	fault         string
	cut           bool // not to scale
}

// squeezing is how many times as long as the next one a bar is that is cut, because all others would be short beside it.
const squeezing = 4

// Distances in a chart, in pixels.
const (
	chartWidth  = 860
	chartLabels = 200 // left of the bars: 24 letters of a wide font
	chartBars   = 514 // the longest
	chartLine   = 19  // of a text above the bars
	chartRow    = 28
	chartFault  = 84 // letters of a fault, at most
)

// chartStyle has one set of colors, because the chart has its own white background, also on a dark page.
// TestChartContrast checks their contrast.
const chartStyle = `
.background { fill: #ffffff; stroke: #d0d7de; }
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.quiet { fill: #59636e; }
.fault { fill: #b42318; }
.ours { fill: #1a7f37; }
.other { fill: #7b8590; }
.spread { stroke: #1f2328; stroke-width: 1.5; }
.gap { stroke: #ffffff; stroke-width: 4; }
.grid { stroke: #d0d7de; stroke-width: 1; }
`

// charts returns a chart for each workload that has one.
func (r *Result) charts() map[string][]byte {
	files := map[string][]byte{}
	for _, w := range work.List {
		var bars []bar
		for _, c := range r.of(w) {
			bars = append(bars, r.bar(c, w.Metrics[0]))
		}
		if w.Chart && len(bars) > 0 {
			files[w.Name+".svg"] = drawChart(w.Metrics[0], bars, w.Heading(r.Short), r.caption(w.Metrics[0]))
		}
	}
	return files
}

// bar returns the bar of a cell. It shows the metric.
func (r *Result) bar(c *work.Cell, m work.Metric) bar {
	b := bar{label: c.Name(), ours: c.Ours()}
	if c.Procs > 0 {
		b.label = fmt.Sprintf("%s, %d", c.Name(), c.Procs)
	}
	s, ok := r.stat(c, m.Name)
	b.value, b.lo, b.hi = s.Center, s.Lo, s.Hi
	if b.fault, _ = c.Faults(); b.fault == "" && !ok {
		b.fault = "failed"
	}
	return b
}

// caption says what the bars and the lines on them show, and whether less or more is better.
func (r *Result) caption(m work.Metric) string {
	better := map[bool]string{true: "more", false: "less"}[m.More] + " is better"
	return fmt.Sprintf("%s%s, %s; median of %s; %s", m.Label(), m.Unit, better, r.rounds(), r.Date)
}

// drawChart returns an SVG with a bar for each value, on one scale. The first text is the title.
func drawChart(m work.Metric, bars []bar, texts ...string) []byte {
	ends, note := scaleBars(bars, m.Unit == "ms")
	texts[1] += note
	top := chartLine*len(texts) + 34
	bottom := top + chartRow*len(bars)
	var s bytes.Buffer
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`,
		chartWidth, bottom+8, chartWidth, bottom+8)
	fmt.Fprintf(&s, "\n<title>%s</title>\n<style>%s</style>\n", html.EscapeString(texts[0]), chartStyle)
	fmt.Fprintf(&s, `<rect class="background" x="0" y="0" width="%d" height="%d"/>`+"\n", chartWidth, bottom+8)
	for i, text := range texts {
		drawText(&s, []string{"title", "quiet"}[min(i, 1)], 12, 26+chartLine*i, "start", text)
	}
	for _, v := range ends.marks {
		x := chartLabels + ends.at(v)*chartBars
		fmt.Fprintf(&s, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", x, x, top-4, bottom)
		drawText(&s, "quiet", x, top-8, "middle", number(v))
	}
	for i, b := range bars {
		drawBar(&s, b, m.Unit, ends, top+i*chartRow)
	}
	s.WriteString("</svg>\n")
	return s.Bytes()
}

// scaleBars returns the scale of the bars, and a note on it. It cuts a bar that is far longer than all others, unless the
// scale is logarithmic.
func scaleBars(bars []bar, lateness bool) (ends scale, note string) {
	var values []float64
	for _, b := range bars {
		if b.fault == "" {
			values = append(values, b.value)
		}
	}
	if len(values) == 0 {
		return ends, ""
	}
	slices.Sort(values)
	ends = scaleOf(values, lateness)
	if n := len(values) - 1; n > 1 && !ends.logarithmic && values[n] > squeezing*values[n-1] {
		long := &bars[slices.IndexFunc(bars, func(b bar) bool { return b.fault == "" && b.value == values[n] })]
		long.cut, note = true, "; the bar of "+long.label+" is cut"
		values = values[:n]
		ends = scaleOf(values, lateness)
	}
	for _, b := range bars {
		if b.fault == "" && !b.cut && ends.at(b.hi) > 1 { // the line beyond the bars is on the scale too
			ends = scaleOf(append(values, b.hi), lateness)
		}
	}
	return ends, note + map[bool]string{true: "; logarithmic scale"}[ends.logarithmic]
}

func drawBar(s *bytes.Buffer, b bar, unit string, ends scale, top int) {
	drawText(s, "", chartLabels-8, top+18, "end", b.label)
	if b.fault != "" {
		fault, _, _ := strings.Cut(b.fault, "; ") // the tables have all
		drawText(s, "fault", chartLabels+2, top+18, "start", fault[:min(len(fault), chartFault)])
		return
	}
	at := func(v float64) float64 { return chartLabels + min(1, ends.at(v))*chartBars } // only a bar that is cut would be longer
	fmt.Fprintf(s, `<rect class="%s" x="%d.0" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n",
		map[bool]string{true: "ours", false: "other"}[b.ours], chartLabels, top+4, max(1, at(b.value)-chartLabels), chartRow-8)
	line := `<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>` + "\n"
	if b.cut {
		fmt.Fprintf(s, line, "gap", at(b.value)-24, at(b.value)-16, top+chartRow-2, top+2)
	} else if b.lo < b.hi {
		fmt.Fprintf(s, line, "spread", at(b.lo), at(b.hi), top+chartRow/2, top+chartRow/2)
	}
	drawText(s, "", at(max(b.value, b.hi))+6, top+18, "start", format(b.value)+" "+unit)
}

func drawText(s *bytes.Buffer, class string, x float64, y int, anchor, text string) {
	fmt.Fprintf(s, `<text class="%s" x="%.1f" y="%d" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(text))
}
