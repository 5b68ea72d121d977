package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// A bar is a row of a chart: a value with its spread, or text in its place.
type bar struct {
	label                  string
	value, least, greatest float64
	measured, ours         bool
	fault                  string
	cannot                 bool // the peer cannot take part, and fault says why
}

// Distances in a chart, in pixels.
const (
	chartWidth   = 860
	chartLabels  = 164 // left of the bars
	chartBars    = 400 // the longest
	chartTop     = 64
	chartAxis    = 22 // additional space above the bars of a logarithmic scale
	chartRow     = 28
	chartPoint   = 10                                       // the point of a bar beyond the scale
	chartLine    = 17                                       // the height of each further line of a text
	chartLetters = (chartWidth - chartLabels - 8) * 10 / 74 // in a line of a text, about 7.4 pixels each
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

// drawChart returns an SVG with a bar for each value, on one scale. A fault takes the place of the bar, because
// figures measured with a fault are not comparable.
func drawChart(title, caption string, m metric, bars []bar) []byte {
	scale := scaleOf(bars, m)
	top := chartTop
	if scale.logarithmic {
		caption += "; logarithmic scale"
		top += chartAxis
	}
	var rows bytes.Buffer
	end := top
	for _, b := range bars {
		end += drawRow(&rows, b, m, scale, end)
	}
	var s bytes.Buffer
	height := end + 8
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`,
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&s, "\n<title>%s</title>\n<style>%s</style>\n", escape(title), chartStyle)
	fmt.Fprintf(&s, `<rect class="background" x="0" y="0" width="%d" height="%d"/>`+"\n", chartWidth, height)
	drawText(&s, "title", 12, 26, "start", title)
	drawText(&s, "quiet", 12, 47, "start", caption)
	for _, m := range scale.marks {
		x := chartLabels + m.at*chartBars
		fmt.Fprintf(&s, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", x, x, top-4, end)
		drawText(&s, "quiet", x, top-8, "middle", m.label)
	}
	s.Write(rows.Bytes())
	s.WriteString("</svg>\n")
	return s.Bytes()
}

// drawRow draws one bar, or the text in its place, and returns the height of the row.
func drawRow(s *bytes.Buffer, b bar, m metric, scale scale, top int) int {
	const base = 18 // of the first line, below the top
	drawText(s, "", chartLabels-8, top+base, "end", b.label)
	value := format(b.value) + " " + m.unit
	switch {
	case b.fault != "":
		text, class := b.fault, "fault"
		if b.measured {
			text += "; " + value
		}
		if b.cannot {
			class = "quiet"
		}
		lines := wrap(text, chartLetters)
		for i, line := range lines {
			drawText(s, class, chartLabels, top+base+i*chartLine, "start", line)
		}
		return chartRow + max(0, len(lines)-1)*chartLine
	case b.measured:
		drawBar(s, b, top, scale)
		right, _ := scale.length(max(b.value, b.greatest))
		x := chartLabels + right*chartBars + 6
		if _, beyond := scale.length(b.value); beyond {
			x += chartPoint
			if b.value == m.ceiling() {
				value += " or more"
			} else {
				value += ", beyond the scale"
			}
		}
		drawText(s, "", x, top+base, "start", value)
	}
	return chartRow
}

// drawBar draws the bar of one value, and a line from the least to the greatest value. A bar beyond the scale has a
// point, and a line beyond the scale has an arrowhead.
func drawBar(s *bytes.Buffer, b bar, top int, scale scale) {
	class := "other"
	if b.ours {
		class = "ours"
	}
	length, beyond := scale.length(b.value)
	if beyond {
		fmt.Fprintf(s, `<path class="%s" d="M%d %dh%dl%d %dl-%d %dh-%dz"/>`+"\n", class, chartLabels, top+4,
			chartBars, chartPoint, chartRow/2-4, chartPoint, chartRow/2-4, chartBars)
	} else {
		fmt.Fprintf(s, `<rect class="%s" x="%d.0" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n",
			class, chartLabels, top+4, max(1, length*chartBars), chartRow-8)
	}
	least, _ := scale.length(b.least)
	greatest, beyond := scale.length(b.greatest)
	if from, to, y := chartLabels+least*chartBars, chartLabels+greatest*chartBars, top+chartRow/2; from < to {
		fmt.Fprintf(s, `<line class="spread" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", from, to, y, y)
		if beyond {
			fmt.Fprintf(s, `<path class="spread" fill="none" d="M%.1f %dl5 5l-5 5"/>`+"\n", to-5, y-5)
		}
	}
}

func drawText(s *bytes.Buffer, class string, x float64, y int, anchor, text string) {
	fmt.Fprintf(s, `<text class="%s" x="%.1f" y="%d" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, escape(text))
}

// wrap breaks a text between words into lines of at most width characters. It leaves out the text after three
// lines, because the tables have the whole text.
func wrap(text string, width int) []string {
	const most = 3
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		r := []rune(word)
		if len(r) > width {
			word = string(r[:width-1]) + "…"
		}
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len([]rune(*last))+1+len([]rune(word)) <= width:
			*last += " " + word
		case len(lines) == most:
			*last = string([]rune(*last + strings.Repeat(" ", width))[:width-1])
			*last = strings.TrimRight(*last, " ") + "…"
			return lines
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

func escape(text string) string {
	var s bytes.Buffer
	if err := xml.EscapeText(&s, []byte(text)); err != nil {
		panic(err)
	}
	return s.String()
}
