package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
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
	return drawChart("a < b & \"c\"", "ns/op, less is better", metric{"wall", "ns/op", false}, []bar{
		{label: "ours", value: 1, least: 0.5, greatest: 2, measured: true, ours: true},
		{label: "early", value: -3, least: -4, greatest: -2, measured: true, fault: "early by <4> ms"},
		{label: "crashed", fault: "crashed: " + strings.Repeat("& so on ", 100)},
		{label: "apart", fault: "cannot: no cancel", cannot: true},
		{label: "nothing"},
		{label: "far", value: 1000, least: 900, greatest: 1100, measured: true},
		{label: "near", value: 2, least: 1, greatest: 3, measured: true},
	})
}

func TestChart(t *testing.T) {
	svg := chartOfAll()
	elements(t, svg)
	for _, want := range []string{
		`<title>a &lt; b &amp;`, "ns/op, less is better", `class="ours"`, "early by &lt;4&gt; ms", "…", "1000 ns/op, beyond the scale",
		`class="quiet" x="164.0" y="200" text-anchor="start">cannot`,
	} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	drawChart("no bars", "", metric{}, nil)
}

// Values beyond the scale do not look like the value at its end, and the text has them. A percentile at its ceiling
// may be any greater value.
func TestChartMarksWhatIsBeyondTheScale(t *testing.T) {
	for _, tt := range []struct {
		metric metric
		bar    bar
		text   string
		paths  []string
	}{
		{metric{"max", "ms", false}, bar{value: 999, least: 9, greatest: 999}, "999 ms", nil},
		{metric{"max", "ms", false}, bar{value: 9, least: 1, greatest: 3000}, "9.00 ms", []string{"spread"}},
		{metric{"max", "ms", false}, bar{value: 2000, least: 1500, greatest: 3000}, "2000 ms, beyond the scale", []string{"other"}},
		{metric{"max", "ms", false}, bar{value: 2000, least: 9, greatest: 3000}, "2000 ms, beyond the scale", []string{"other", "spread"}},
		{metric{"call-p99.9999", "µs", false}, bar{value: 1e5, least: 1e5, greatest: 1e5}, "100000 µs or more", []string{"other"}},
	} {
		tt.bar.measured = true
		var texts, paths []string
		for _, e := range elements(t, drawChart("", "", tt.metric, []bar{tt.bar})) {
			switch {
			case e.name == "path":
				paths = append(paths, e.at["class"])
			case e.name == "text" && e.at["class"] == "":
				texts = append(texts, e.text)
				if slices.Contains(tt.paths, "other") && e.text == tt.text && e.number(t, "x") <= chartLabels+chartBars+chartPoint {
					t.Errorf("%v: the text is on the point", tt.bar)
				}
			case e.name == "rect" && e.at["class"] == "other" && slices.Contains(tt.paths, "other"):
				t.Errorf("%v: a bar without a point", tt.bar)
			}
		}
		if !slices.Contains(texts, tt.text) || !slices.Equal(paths, tt.paths) {
			t.Errorf("%v: %q and marks %q, want %q and %q", tt.bar, texts, paths, tt.text, tt.paths)
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
	all := elements(t, svg)
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
	if texts < 10 || shapes < 4 {
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

// The whole text of a fault is in the chart, on lines that end within it.
func TestFaultIsReadable(t *testing.T) {
	fault := "arming took 0.5 s too long; lost 123456 of 1000000; early by up to 10 ms, 100 of 100; more (in 3 of 3 runs)"
	svg := drawChart("", "", metric{"rate", "M tasks/s", true}, []bar{
		{label: "a", value: 1.75, measured: true, fault: fault}, {label: "b", value: 1, measured: true},
	})
	var lines []string
	for _, e := range elements(t, svg) {
		if e.at["class"] == "fault" {
			lines = append(lines, e.text)
			if y := e.number(t, "y"); y != float64(82+17*(len(lines)-1)) {
				t.Errorf("line %d at %v", len(lines), y)
			}
			if end := e.number(t, "x") + 7.4*float64(len([]rune(e.text))); end > chartWidth {
				t.Errorf("%q ends at %.0f", e.text, end)
			}
		}
		if e.name == "text" && e.text == "b" && e.number(t, "y") != 82+28+17 {
			t.Errorf("the next row is at %s, inside the row of the fault", e.at["y"])
		}
	}
	if got := strings.Join(lines, " "); got != fault+"; 1.75 M tasks/s" || len(lines) != 2 {
		t.Errorf("%d lines: %q", len(lines), got)
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"one two":                  "one two",
		"one two six":              "one two/six",
		"abcdefghijklm":            "abcdefg…",
		"aaaa bbbb cccc dddd":      "aaaa/bbbb/cccc…",
		"aaaa bbbb cccccccc ddddd": "aaaa/bbbb/ccccccc…",
	} {
		if got := strings.Join(wrap(text, 8), "/"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
