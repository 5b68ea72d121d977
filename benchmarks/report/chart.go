package report

import (
	"bytes"
	"fmt"
	"html"
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
}

// Distances in a chart, in pixels.
const (
	chartWidth  = 860
	chartLabels = 164 // left of the bars
	chartBars   = 550 // the longest
	chartLine   = 19  // of a text above the bars
	chartRow    = 28
	chartFault  = 96 // letters of a fault, at most
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
	better := "less is better"
	if m.More {
		better = "more is better"
	}
	return fmt.Sprintf("%s%s, %s; median of %s; %s", m.Label(), m.Unit, better, r.rounds(), r.Date)
}

// drawChart returns an SVG with a bar for each value, on one scale. The first text is the title.
func drawChart(m work.Metric, bars []bar, texts ...string) []byte {
	var values []float64
	for _, b := range bars {
		if b.fault == "" {
			values = append(values, b.value)
		}
	}
	var ends scale
	if len(values) > 0 {
		ends = scaleOf(values, m.Unit == "ms")
		for _, b := range bars {
			if b.fault == "" && ends.at(b.hi) > 1 { // the line beyond the bars is on the scale too
				ends = scaleOf(append(values, b.hi), m.Unit == "ms")
			}
		}
	}
	if ends.logarithmic {
		texts[1] += "; logarithmic scale"
	}
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

func drawBar(s *bytes.Buffer, b bar, unit string, ends scale, top int) {
	drawText(s, "", chartLabels-8, top+18, "end", b.label)
	if b.fault != "" {
		fault, _, _ := strings.Cut(b.fault, "; ") // the tables have all
		drawText(s, "fault", chartLabels+2, top+18, "start", fault[:min(len(fault), chartFault)])
		return
	}
	class := "other"
	if b.ours {
		class = "ours"
	}
	fmt.Fprintf(s, `<rect class="%s" x="%d.0" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n",
		class, chartLabels, top+4, max(1, ends.at(b.value)*chartBars), chartRow-8)
	if b.lo < b.hi {
		fmt.Fprintf(s, `<line class="spread" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n",
			chartLabels+ends.at(b.lo)*chartBars, chartLabels+ends.at(b.hi)*chartBars, top+chartRow/2, top+chartRow/2)
	}
	drawText(s, "", chartLabels+ends.at(max(b.value, b.hi))*chartBars+6, top+18, "start", format(b.value)+" "+unit)
}

func drawText(s *bytes.Buffer, class string, x float64, y int, anchor, text string) {
	fmt.Fprintf(s, `<text class="%s" x="%.1f" y="%d" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(text))
}
