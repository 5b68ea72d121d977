package main

import (
	"fmt"
	"math"
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
		cut, logarithmic bool // whether 80 is beyond the scale
		lengths          []float64
	}{
		{barsOf(1, 2, 4), false, false, []float64{0.25, 0.5, 1}},
		{barsOf(1, 2, 4, 80), true, false, []float64{0.25, 0.5, 1, 1}},
		{barsOf(80, 1, 2, 4), true, false, []float64{1, 0.25, 0.5, 1}},
		{barsOf(1, 1, 1, 80, 90), false, true, []float64{0.3333, 0.3333, 0.3333, 0.9677, 0.9847}},
		{barsOf(1, 1, 1, 80, 80), false, true, []float64{0.3333, 0.3333, 0.3333, 0.9677, 0.9677}},
		{barsOf(0, 0, 0, 100), false, true, []float64{0, 0, 0, 1}},
		{barsOf(1, 80), true, false, []float64{1, 1}},
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
		s := scaleOf(tt.bars, metric{})
		if s.logarithmic != tt.logarithmic {
			t.Errorf("%v: %+v", tt.bars, s)
		}
		for i, want := range tt.lengths {
			length, beyond := s.length(tt.bars[i].value)
			if diff := length - want; diff > 1e-4 || diff < -1e-4 {
				t.Errorf("%v: length %.4f, want %.4f", tt.bars[i].value, length, want)
			}
			if beyond != (tt.cut && tt.bars[i].value == 80) {
				t.Errorf("%v of %v: beyond the scale %v", tt.bars[i].value, tt.bars, beyond)
			}
		}
	}
}

// The scale of a lateness is logarithmic and has a ceiling. So has that of a percentile, which is linear here.
func TestCeiling(t *testing.T) {
	late, percentile := metric{"max", "ms", false}, metric{"call-p99.9999", "µs", false}
	for _, tt := range []struct {
		metric  metric
		bars    []bar
		end     float64
		lengths []float64
		beyond  []bool
	}{
		{late, barsOf(1, 2, 10), 10, []float64{0.5, 0.6505, 1}, []bool{false, false, false}},
		{late, barsOf(1, 100, 999, 1000, 9000), 1000, []float64{0.25, 0.75, 0.9999, 1, 1}, []bool{false, false, false, true, true}},
		{late, barsOf(4000), 1000, []float64{1}, []bool{true}},
		{late, barsOf(-1, 0), 0, []float64{0, 0}, []bool{false, false}},
		{late, []bar{{value: 10, least: 1, greatest: 9000, measured: true}}, 1000, []float64{0.3333}, []bool{false}},
		{percentile, barsOf(5e4, 1e5), 1e5, []float64{0.5, 1}, []bool{false, true}},
	} {
		s := scaleOf(tt.bars, tt.metric)
		if math.Abs(s.end-tt.end) > 1e-9 || s.logarithmic != (tt.metric == late && tt.end > 0) {
			t.Errorf("%v: %+v", tt.bars, s)
		}
		for _, m := range s.marks {
			if !(0 <= m.at && m.at <= 1) {
				t.Errorf("%v: mark %q at %v", tt.bars, m.label, m.at)
			}
		}
		for i, b := range tt.bars {
			if length, beyond := s.length(b.value); math.Abs(length-tt.lengths[i]) > 1e-4 || beyond != tt.beyond[i] {
				t.Errorf("%v of %v: length %.4f, beyond the scale %v", b.value, tt.bars, length, beyond)
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
		svg := string(drawChart("", "", metric{}, bars))
		s := scaleOf(bars, metric{})
		reach := func(v float64) float64 {
			length, beyond := s.length(v)
			if beyond {
				length += float64(chartPoint) / chartBars
			}
			return length
		}
		cuts := 0
		for i, a := range bars {
			for _, b := range bars[:i] {
				x, y := reach(a.value), reach(b.value)
				if (a.value > b.value) != (x > y) || (a.value == b.value) != (x == y) {
					t.Errorf("%v is %.4f long, %v is %.4f", a.value, x, b.value, y)
				}
			}
			if _, beyond := s.length(a.value); beyond {
				cuts++
			}
		}
		if cuts > 1 || strings.Count(svg, "beyond the scale") != cuts || strings.Contains(svg, "logarithmic scale") != s.logarithmic {
			t.Errorf("%v: %d bars are beyond the scale, or the chart does not say so, or it does not name its scale:\n%s", values, cuts, svg)
		}
		if s.logarithmic != strings.Contains(svg, `class="grid"`) {
			t.Errorf("%v: a logarithmic scale without its powers of ten:\n%s", values, svg)
		}
	}
}
