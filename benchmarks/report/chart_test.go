package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// A drawn is an element of a chart, with its attributes and its text.
type drawn struct {
	name string
	at   map[string]string
	text string
}

func (d drawn) number(t *testing.T, attribute string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(d.at[attribute], 64)
	if err != nil {
		t.Fatalf("%s of %v: %v", attribute, d, err)
	}
	return v
}

// elements parses a chart. Text after the end of an element belongs to no element.
func elements(t *testing.T, svg []byte) (all []drawn) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	open := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := drawn{name: token.Name.Local, at: map[string]string{}}
			for _, a := range token.Attr {
				e.at[a.Name.Local] = a.Value
			}
			all, open = append(all, e), true
		case xml.CharData:
			if open {
				all[len(all)-1].text += string(token)
			}
		case xml.EndElement:
			open = false
		}
	}
}

// chartOfAll has a bar of each kind, faults included.
func chartOfAll() []byte {
	return drawChart(work.Metric{Name: "wall", Unit: "ns/op"}, []bar{
		{label: "ours", value: 1, lo: 0.5, hi: 2, ours: true},
		{label: "early", value: -3, lo: -4, hi: -2, fault: "early by up to 3 ms; lost 1 of 2"},
		{label: "apart", fault: strings.Repeat("x", 200)},
		{label: "far", value: 1000, lo: 900, hi: 1100},
		{label: "near", value: 2, lo: 1, hi: 3},
	}, "a < b & \"c\"", "ns/op, less is better", "why these")
}

func TestChart(t *testing.T) {
	svg := chartOfAll()
	elements(t, svg)
	for _, want := range []string{
		`<title>a &lt; b &amp;`, "ns/op, less is better; logarithmic scale", "why these", `class="ours"`,
		`class="fault" x="202.0" y="137" text-anchor="start">early by up to 3 ms</text>`,
		"1000 ns/op", `>10000</text>`,
	} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	drawChart(work.Metric{}, nil, "no bars", "")
}

// Each value and its interval are on the scale, and no text is beyond the chart.
func TestChartHidesNothing(t *testing.T) {
	for _, values := range [][3]float64{{1, 2, 3}, {9, 10, 3000}, {131072, 16000, 241172}, {0.5, 0.5, 0.5}, {100, 110, 900}} {
		var bars []bar
		for _, v := range values {
			bars = append(bars, bar{label: "a", value: v, lo: v / 2, hi: v * 3})
		}
		bars = append(bars, bar{label: "a", fault: strings.Repeat("x", 200)})
		svg := drawChart(work.Metric{Name: "call-max", Unit: "M tasks/s"}, bars, "", "")
		for _, e := range elements(t, svg) {
			switch {
			case e.name == "line" && e.at["class"] == "spread":
				if from, to := e.number(t, "x1"), e.number(t, "x2"); from >= to || to > chartLabels+chartBars {
					t.Errorf("%v: a line from %.0f to %.0f", values, from, to)
				}
			case e.name == "rect" && e.at["class"] == "other":
				if w := e.number(t, "width"); w <= 1 || w > chartBars {
					t.Errorf("%v: a bar of %.0f", values, w)
				}
			case e.name == "text" && e.at["text-anchor"] == "start":
				if end := e.number(t, "x") + 7*float64(len([]rune(e.text))); end > chartWidth {
					t.Errorf("%v: %q ends at %.0f", values, e.text, end)
				}
			}
		}
	}
}

// cutChart has a bar that would squeeze the others.
func cutChart() []byte {
	return drawChart(work.Metric{Name: "wall", Unit: "ns/op"}, []bar{
		{label: "ours", value: 104, lo: 100, hi: 105, ours: true}, {label: "time", value: 206, lo: 200, hi: 210},
		{label: "far", value: 2008, lo: 2000, hi: 2180}, {label: "faulty", value: 9999, fault: "early"}, {label: "other", value: 223},
	}, "title", "ns/op")
}

// A bar that is far longer than all others is cut. It has a mark and its figure, and the chart says so. The scale is that
// of the others.
func TestLongBarIsCut(t *testing.T) {
	svg := string(cutChart())
	gaps, greatest := 0, 0.0
	for _, e := range elements(t, cutChart()) {
		switch e.at["class"] {
		case "gap":
			gaps++
			if from, to := e.number(t, "x1"), e.number(t, "x2"); from < chartLabels+0.8*chartBars || to > chartLabels+chartBars {
				t.Errorf("a gap from %.0f to %.0f", from, to)
			}
		case "ours":
			greatest = e.number(t, "width")
		}
	}
	if gaps != 1 || greatest < chartBars/4 || strings.Count(svg, `class="spread"`) != 2 {
		t.Errorf("%d gaps, and our bar is %.0f long:\n%s", gaps, greatest, svg)
	}
	for _, want := range []string{">ns/op; the bar of far is cut<", ">2008 ns/op<", ">250<", `width="514.0"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	for _, values := range [][]float64{{1, 5}, {10, 11, 44}, {1, 2, 3, 400}} { // too few, near enough, and logarithmic
		var bars []bar
		for _, v := range values {
			bars = append(bars, bar{value: v})
		}
		if _, note := scaleBars(bars, false); strings.Contains(note, "cut") {
			t.Errorf("%v: %s", values, note)
		}
	}
}

// The titles, and the names of the peers beside the bars, fit in a wide font, such as DejaVu Sans.
func TestChartFitsAWideFont(t *testing.T) {
	const letter, bold = 7.75, 10.5 // pixels: "hashedwheel, embedded" has 21 letters and needs 162
	for _, w := range work.List {
		if title := w.Heading(false); w.Chart && 12+bold*float64(len(title)) > chartWidth {
			t.Errorf("%q does not fit", title)
		}
		for _, p := range w.Peers() {
			if label := p.Name + ", 8"; w.Chart && letter*float64(len(label)) > chartLabels-8 {
				t.Errorf("%q does not fit", label)
			}
		}
	}
}

// contrast returns the contrast of two colors by WCAG 2, from 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(color string) float64 {
		rgb, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 24)
		if err != nil || len(color) != 7 {
			t.Fatalf("color %q: %v", color, err)
		}
		sum := 0.0
		for i, weight := range []float64{0.0722, 0.7152, 0.2126} { // blue, green, red
			c := float64(rgb>>(8*i)&0xff) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestContrast(t *testing.T) {
	for colors, want := range map[[2]string]float64{
		{"#000000", "#ffffff"}: 21, {"#ffffff", "#767676"}: 4.54, {"#ff0000", "#ffffff"}: 4.0, {"#123456", "#123456"}: 1,
	} {
		if got := contrast(t, colors[0], colors[1]); math.Abs(got-want) > 0.005 {
			t.Errorf("%v: %.3f, want %.2f", colors, got, want)
		}
	}
}

// A chart is readable on any page. It has its own background. On it, all texts have a contrast of at least 4.5,
// and all bars and lines of at least 3. The theme of the system changes nothing.
func TestChartContrast(t *testing.T) {
	svg := chartOfAll()
	colors := map[string]string{} // by property and selector, as in "fill .ours"
	style := regexp.MustCompile(`<style>([^<]*)</style>`).FindSubmatch(svg)
	if strings.Contains(string(svg), "@media") || style == nil {
		t.Fatalf("a style for some themes, or none:\n%s", svg)
	}
	for _, rule := range regexp.MustCompile(`([^{}]+)\{([^{}]*)\}`).FindAllSubmatch(style[1], -1) {
		for _, p := range regexp.MustCompile(`(fill|stroke): (\S+);`).FindAllSubmatch(rule[2], -1) {
			colors[string(p[1])+" "+strings.TrimSpace(string(rule[1]))] = string(p[2])
		}
	}
	all := append(elements(t, cutChart()), elements(t, svg)...)
	var root, background drawn
	texts, shapes := 0, 0
	for _, e := range all {
		class := "." + e.at["class"]
		least, color := 0.0, ""
		switch {
		case e.name == "svg":
			root = e
		case class == ".background":
			background = e
		case e.name == "text":
			texts++
			least, color = 4.5, colors["fill "+class]
			if color == "" {
				color = colors["fill text"]
			}
		case e.name == "rect", e.name == "path" && class != ".spread":
			shapes++
			least, color = 3, colors["fill "+class]
		case class == ".gap": // on a bar
			for _, bar := range []string{"fill .ours", "fill .other"} {
				if c := contrast(t, colors["stroke .gap"], colors[bar]); c < 3 {
					t.Errorf("a gap in %s: contrast %.2f", bar, c)
				}
			}
		case class == ".spread", e.name == "line" && class != ".grid": // grid lines need no contrast, because they only guide the eye
			shapes++
			least, color = 3, colors["stroke "+class]
		}
		if least == 0 {
			continue
		}
		if background.name == "" {
			t.Fatalf("%v is drawn before the background", e)
		}
		if c := contrast(t, color, colors["fill .background"]); c < least {
			t.Errorf("%s %s %q: contrast %.2f, want %.1f", e.name, class, e.text, c, least)
		}
	}
	if texts < 10 || shapes < 5 {
		t.Errorf("%d texts, %d bars and lines", texts, shapes)
	}
	size := fmt.Sprintf("0 0 %s %s", background.at["width"], background.at["height"])
	if background.at["x"] != "0" || background.at["y"] != "0" || root.at["viewBox"] != size {
		t.Errorf("background %v of %v", background.at, root.at)
	}
	for _, bar := range []string{"fill .ours", "fill .other"} {
		if c := contrast(t, colors["stroke .spread"], colors[bar]); c < 3 {
			t.Errorf("a line on %s: contrast %.2f", bar, c)
		}
	}
}
