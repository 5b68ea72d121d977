package main

import (
	"math"
	"slices"
	"strconv"
)

// A scale computes the length of each bar of a chart, as a fraction of the longest.
type scale struct {
	end         float64 // the value of the longest bar
	ceiling     float64 // values from here on are beyond the scale; may be infinite
	logarithmic bool
	start       float64 // of a logarithmic scale
	marks       []mark  // the powers of ten of a logarithmic scale
}

type mark struct {
	at    float64
	label string
}

// readable is the greatest ratio of the end of a linear scale to a typical value. With it, half of the bars
// are longer than 50 pixels.
const readable = 6

// scaleOf returns a linear scale from zero if the bars are readable on it. If a single bar is too long, the scale
// ends below it. If several bars are, or if they show a lateness, the scale is logarithmic.
func scaleOf(bars []bar, m metric) scale {
	ceiling := m.ceiling()
	var values, ends []float64 // of the bars that are drawn; ends include the spread
	for _, b := range bars {
		if b.measured && b.fault == "" {
			values = append(values, min(b.value, ceiling))
			ends = append(ends, min(max(b.value, b.greatest), ceiling))
		}
	}
	if len(values) == 0 {
		return scale{}
	}
	end := slices.Max(ends)
	if !m.lateness() {
		typical := slices.Sorted(slices.Values(values))[(len(values)-1)/2]
		if end <= readable*typical {
			return scale{end: end, ceiling: ceiling}
		}
		longest := slices.Index(values, slices.Max(values))
		others := slices.Delete(slices.Clone(ends), longest, longest+1)
		if len(others) > 0 {
			if end := slices.Max(others); 0 < end && end <= readable*typical && end < values[longest] {
				return scale{end: end, ceiling: values[longest]}
			}
		}
	}
	least := math.Inf(1)
	for _, v := range values {
		if v > 0 {
			least = min(least, v)
		}
	}
	if math.IsInf(least, 1) {
		return scale{end: end, ceiling: ceiling}
	}
	return logarithmic(least, end, ceiling)
}

// logarithmic returns a scale between powers of ten. The shortest bar is at least a tenth of a decade.
func logarithmic(least, greatest, ceiling float64) scale {
	from, to := math.Floor(math.Log10(least)-0.1), math.Ceil(math.Log10(greatest))
	s := scale{logarithmic: true, start: math.Pow(10, from), end: math.Pow(10, to), ceiling: ceiling}
	for e := from; e <= to; e++ {
		s.marks = append(s.marks, mark{(e - from) / (to - from), strconv.FormatFloat(math.Pow(10, e), 'f', -1, 64)})
	}
	return s
}

// length returns how long the bar of a value is, and whether the value is beyond the scale.
func (s scale) length(v float64) (length float64, beyond bool) {
	switch {
	case s.end <= 0 || v <= 0:
		return 0, false
	case v >= s.ceiling:
		return 1, true
	case s.logarithmic:
		return min(max(0, math.Log10(v/s.start)/math.Log10(s.end/s.start)), 1), false
	}
	return min(v/s.end, 1), false
}
