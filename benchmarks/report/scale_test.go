package report

import (
	"math"
	"slices"
	"testing"
)

func TestScale(t *testing.T) {
	for _, tt := range []struct {
		name        string
		values      []float64
		lateness    bool
		logarithmic bool
		marks       []float64
	}{
		{"near", []float64{10, 20, 35}, false, false, []float64{0, 10, 20, 30, 40}},
		{"one", []float64{170}, false, false, []float64{0, 50, 100, 150, 200}},
		{"small", []float64{0.02, 0.05}, false, false, []float64{0, 0.01, 0.02, 0.03, 0.04, 0.05}},
		{"far", []float64{15, 20, 900}, false, true, []float64{10, 100, 1000}},
		{"two far", []float64{1, 20, 30, 900}, false, true, []float64{0.1, 1, 10, 100, 1000}},
		{"lateness", []float64{11, 12}, true, true, []float64{1, 10, 100}},
		{"early", []float64{-4, 2, 3}, true, true, []float64{1, 10}},
		{"nothing", []float64{0, 0}, false, false, []float64{0, 0.5, 1}},
		{"all early", []float64{-2, -1}, true, false, []float64{0, 0.5, 1}},
	} {
		s := scaleOf(tt.values, tt.lateness)
		same := slices.EqualFunc(s.marks, tt.marks, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
		if s.logarithmic != tt.logarithmic || !same {
			t.Errorf("%s: %+v, want marks %v", tt.name, s, tt.marks)
		}
		for _, v := range tt.values {
			if at := s.at(v); at < 0 || at > 1 {
				t.Errorf("%s: %v is at %v", tt.name, v, at)
			}
		}
	}
}

// The bar of a greater value is longer.
func TestBarsKeepTheirOrder(t *testing.T) {
	for _, values := range [][]float64{{1, 2, 3}, {1, 2, 3, 400}, {0.1, 5, 70, 7000}} {
		s := scaleOf(values, false)
		for i := range values[1:] {
			if !(s.at(values[i]) < s.at(values[i+1])) {
				t.Errorf("%v: %v is at %v, %v at %v", values, values[i], s.at(values[i]), values[i+1], s.at(values[i+1]))
			}
		}
	}
}
