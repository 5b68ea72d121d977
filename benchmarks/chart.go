package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// A bar is a row of a chart: a value with its spread, or a fault as text, or both.
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
.fault { fill: #b42318; }
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

// drawChart returns an SVG with a bar for each value, all from zero on one linear scale. A value
// below zero has no bar.
func drawChart(title, caption string, bars []bar) []byte {
	longest := 0.0
	for _, b := range bars {
		if b.measured {
			longest = max(longest, b.greatest)
		}
	}
	length := func(v float64) float64 {
		if longest == 0 {
			return 0
		}
		return math.Max(0, v/longest*chartBars)
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
		fmt.Fprintf(&s, `<text x="%d" y="%g" text-anchor="end">%s</text>`+"\n", chartLabels-8, middle+4, escape(b.label))
		x := float64(chartLabels)
		if b.measured {
			class := "other"
			if b.ours {
				class = "ours"
			}
			fmt.Fprintf(&s, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n",
				class, chartLabels, top+4, math.Max(1, length(b.value)), chartRow-8)
			if b.greatest > b.least {
				fmt.Fprintf(&s, `<line class="spread" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`+"\n",
					x+length(b.least), x+length(b.greatest), middle, middle)
			}
			x += math.Max(length(b.value), length(b.greatest)) + 6
			fmt.Fprintf(&s, `<text x="%.1f" y="%g">%s`, x, middle+4, format(b.value))
		} else {
			fmt.Fprintf(&s, `<text x="%.1f" y="%g">`, x, middle+4)
		}
		if b.fault != "" {
			fmt.Fprintf(&s, `<tspan class="fault" dx="6">%s</tspan>`, escape(shorten(b.fault, x)))
		}
		fmt.Fprintf(&s, "</text>\n")
	}
	s.WriteString("</svg>\n")
	return s.Bytes()
}

// shorten cuts a text that begins at x to what has room; the tables have all of it.
func shorten(text string, x float64) string {
	room := int((chartWidth - x - 60) / 6.6)
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
