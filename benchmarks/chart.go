package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// A bar is a row of a chart: a value with its spread, or a fault as text.
type bar struct {
	label                  string
	value, least, greatest float64
	measured, ours         bool
	fault                  string
}

// Distances in a chart, in pixels.
const (
	chartWidth  = 860
	chartLabels = 160 // left of the bars
	chartBars   = 400 // the longest
	chartTop    = 64
	chartRow    = 28
)

// chartStyle has colors that can be read on white, and others for a dark page.
const chartStyle = `
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.quiet { fill: #59636e; }
text.fault { fill: #b42318; }
.ours { fill: #1a7f37; }
.other { fill: #8c959f; }
.spread { stroke: #1f2328; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .quiet { fill: #9198a1; }
  .fault { fill: #ff7b72; }
  .ours { fill: #3fb950; }
  .other { fill: #6e7681; }
  .spread { stroke: #e6edf3; }
}
`

// drawChart returns an SVG with a bar for each value, from zero on one linear scale. A bar of more
// than four times the median is cut, and has a gap, for the others to be seen. A fault stands in
// place of the bar: what was measured beside it is not comparable.
func drawChart(title, caption, unit string, bars []bar) []byte {
	var values []float64
	longest := 0.0
	for _, b := range bars {
		if b.measured && b.fault == "" {
			values = append(values, b.value)
			longest = max(longest, b.greatest)
		}
	}
	if m := median(values); longest > 4*m {
		longest = 4 * m
	}
	length := func(v float64) float64 {
		if longest == 0 {
			return 0
		}
		return min(max(0, v/longest), 1) * chartBars
	}
	var s bytes.Buffer
	height := chartTop + chartRow*len(bars) + 8
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`,
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&s, "\n<title>%s</title>\n<style>%s</style>\n", escape(title), chartStyle)
	fmt.Fprintf(&s, `<text class="title" x="12" y="26">%s</text>`+"\n", escape(title))
	fmt.Fprintf(&s, `<text class="quiet" x="12" y="47">%s</text>`+"\n", escape(caption))
	for i, b := range bars {
		top := chartTop + i*chartRow
		middle := float64(top) + chartRow/2
		text := func(class string, x float64, anchor, content string) {
			fmt.Fprintf(&s, `<text class="%s" x="%.1f" y="%g" text-anchor="%s">%s</text>`+"\n",
				class, x, middle+4, anchor, escape(content))
		}
		text("", chartLabels-8, "end", b.label)
		value := format(b.value) + " " + unit
		switch {
		case b.fault != "" && b.measured:
			text("fault", chartLabels, "start", shorten(b.fault+"; "+value, chartLabels))
		case b.fault != "":
			text("fault", chartLabels, "start", shorten(b.fault, chartLabels))
		case b.measured:
			text("", chartLabels+max(length(b.value), length(b.greatest))+6, "start", value)
			drawBar(&s, b, top, length, b.value > longest)
		}
	}
	s.WriteString("</svg>\n")
	return s.Bytes()
}

// drawBar draws the bar of one value, and a line from the least to the greatest.
func drawBar(s *bytes.Buffer, b bar, top int, length func(float64) float64, cut bool) {
	class := "other"
	if b.ours {
		class = "ours"
	}
	rect := func(x, width float64) {
		fmt.Fprintf(s, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n",
			class, chartLabels+x, top+4, max(1, width), chartRow-8)
	}
	if cut {
		rect(0, 0.88*chartBars)
		rect(0.91*chartBars, 0.09*chartBars)
		return
	}
	rect(0, length(b.value))
	if b.greatest > b.least {
		fmt.Fprintf(s, `<line class="spread" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n",
			chartLabels+length(b.least), chartLabels+length(b.greatest), top+chartRow/2, top+chartRow/2)
	}
}

// shorten cuts a text that begins at x to what has room; the tables have all of it.
func shorten(text string, x float64) string {
	room := int((chartWidth - x) / 6.6)
	if r := []rune(text); len(r) > room {
		return string(r[:room-1]) + "…"
	}
	return text
}

func escape(text string) string {
	var s bytes.Buffer
	if err := xml.EscapeText(&s, []byte(text)); err != nil {
		panic(err)
	}
	return s.String()
}
