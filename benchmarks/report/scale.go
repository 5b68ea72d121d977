package report

import (
	"math"
	"slices"
	"strconv"
)

// A scale computes where a value is on an axis, from 0 to 1. Each value is on the axis.
type scale struct {
	start, end  float64
	logarithmic bool
	marks       []float64
}

// readable is the greatest ratio of the end of a linear scale to the middle value, so that half of the bars have at least
// a tenth of the greatest length.
const readable = 10

// scaleOf returns a linear scale from zero if the bars are readable on it, or a logarithmic scale between powers of ten.
// A scale of lateness is always logarithmic. The values must not be empty.
func scaleOf(values []float64, lateness bool) scale {
	values = slices.Sorted(slices.Values(values))
	end := values[len(values)-1]
	positive := values[len(values)-1:]
	if i := slices.IndexFunc(values, func(v float64) bool { return v > 0 }); i >= 0 {
		positive = values[i:]
	}
	switch {
	case end <= 0:
		return scale{end: 1, marks: []float64{0, 1}}
	case lateness || end > readable*values[(len(values)-1)/2]:
		return logarithmic(positive[0], end)
	}
	step := math.Pow(10, math.Floor(math.Log10(end/2)))
	for _, more := range []float64{2, 2.5, 2} { // 2, 5 and 10 times
		if end > 4*step {
			step *= more
		}
	}
	s := scale{end: step * math.Ceil(end/step)}
	for v := 0.0; v <= s.end+step/2; v += step {
		s.marks = append(s.marks, v)
	}
	return s
}

// logarithmic returns a scale between powers of ten. The least value is at least a tenth of a decade above the start.
func logarithmic(least, greatest float64) scale {
	from, to := math.Floor(math.Log10(least)-0.1), math.Ceil(math.Log10(greatest))
	s := scale{logarithmic: true, start: math.Pow(10, from), end: math.Pow(10, to)}
	for e := from; e <= to; e++ {
		s.marks = append(s.marks, math.Pow(10, e))
	}
	return s
}

func (s scale) at(v float64) float64 {
	switch {
	case v <= s.start:
		return 0
	case s.logarithmic:
		return math.Log10(v/s.start) / math.Log10(s.end/s.start)
	}
	return v / s.end
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
