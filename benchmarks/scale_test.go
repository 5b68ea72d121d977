package main

import (
	"fmt"
	"strings"
	"testing"
)

func barsOf(values ...float64) (bars []bar) {
	for _, v := range values {
		bars = append(bars, bar{label: fmt.Sprint(v), value: v, least: v, greatest: v, measured: true})
	}
	return bars
}

func TestScale(t *testing.T) {
	for _, tt := range []struct {
		bars             []bar
		cut, logarithmic bool
		lengths          []float64
	}{
		{barsOf(1, 2, 4), false, false, []float64{0.25, 0.5, 1}},
		{barsOf(1, 2, 4, 80), true, false, []float64{0.2, 0.4, 0.8, 1}},
		{barsOf(80, 1, 2, 4), true, false, []float64{1, 0.2, 0.4, 0.8}},
		{barsOf(1, 1, 1, 80, 90), false, true, []float64{0.3333, 0.3333, 0.3333, 0.9677, 0.9847}},
		{barsOf(1, 1, 1, 80, 80), false, true, []float64{0.3333, 0.3333, 0.3333, 0.9677, 0.9677}},
		{barsOf(0, 0, 0, 100), false, true, []float64{0, 0, 0, 1}},
		{barsOf(1, 80), true, false, []float64{0.8, 1}},
		{barsOf(0, 0.01, 0.02, 1, 10), false, true, []float64{0, 0.25, 0.3253, 0.75, 1}},
		{barsOf(0, 0), false, false, []float64{0, 0}},
		{barsOf(-1), false, false, []float64{0}},
		{barsOf(7), false, false, []float64{1}},
		{nil, false, false, nil},
		// A value behind a fault does not count.
		{append(barsOf(1, 2), bar{value: 900, greatest: 900, measured: true, fault: "early"}), false, false, []float64{0.5, 1}},
		// The scale has room for the spread of every bar, not only of the longest.
		{append(barsOf(1, 2), bar{value: 1, greatest: 4, measured: true}), false, false, []float64{0.25, 0.5, 0.25}},
	} {
		s := scaleOf(tt.bars)
		if s.cut != tt.cut || s.logarithmic != tt.logarithmic {
			t.Errorf("%v: %+v", tt.bars, s)
		}
		for i, want := range tt.lengths {
			length, cut := s.length(tt.bars[i].value)
			if diff := length - want; diff > 1e-4 || diff < -1e-4 {
				t.Errorf("%v: length %.4f, want %.4f", tt.bars[i].value, length, want)
			}
			if cut != (tt.cut && tt.bars[i].value == 80) {
				t.Errorf("%v of %v: cut %v", tt.bars[i].value, tt.bars, cut)
			}
		}
	}
}

// The bar of a greater value is always longer.
func TestBarsKeepTheirOrder(t *testing.T) {
	for _, values := range [][]float64{
		{27.9, 28.4, 3.59, 2.58, 6.98, 1.67, 76.2, 4.25}, // the values of fire
		{27.9, 76.2, 1, 1, 1, 1, 900, 5000}, {1, 1e6}, {1, 2, 1e6, 1e7, 1e8}, {0.02, 0.021, 5.7, 5.5, 0.62}, {3, 4, 5},
	} {
		bars := barsOf(values...)
		svg := string(drawChart("", "", "", bars))
		s := scaleOf(bars)
		cuts := 0
		for i, a := range bars {
			for _, b := range bars[:i] {
				x, _ := s.length(a.value)
				y, _ := s.length(b.value)
				if (a.value > b.value) != (x > y) || (a.value == b.value) != (x == y) {
					t.Errorf("%v is %.4f long, %v is %.4f", a.value, x, b.value, y)
				}
			}
			if _, cut := s.length(a.value); cut {
				cuts++
			}
		}
		if cuts > 1 || strings.Count(svg, "(bar cut)") != cuts || strings.Contains(svg, "logarithmic scale") != s.logarithmic {
			t.Errorf("%v: %d bars are cut, or the chart does not say so, or it does not name its scale:\n%s", values, cuts, svg)
		}
		if s.logarithmic != strings.Contains(svg, `class="grid"`) {
			t.Errorf("%v: a logarithmic scale without its powers of ten:\n%s", values, svg)
		}
	}
}
