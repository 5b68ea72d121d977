package report

import (
	"slices"
	"strconv"

	moremath "github.com/aclements/go-moremath/scale"
)

// A scale computes where a value is on an axis, from 0 to 1. Each value is on the axis.
type scale struct {
	moremath.Quantitative
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
	middle, end := values[(len(values)-1)/2], values[len(values)-1]
	first := slices.IndexFunc(values, func(v float64) bool { return v > 0 })
	s := scale{logarithmic: first >= 0 && (lateness || end > readable*middle)}
	options := moremath.TickOptions{Max: 6}
	if s.logarithmic {
		// The least bar is at least a tenth of a decade long.
		log, err := moremath.NewLog(values[first]/1.25, end, 10)
		if err != nil {
			panic(err)
		}
		s.Quantitative, options.Max = &log, 20
	} else {
		if first < 0 {
			end = 1
		}
		s.Quantitative = &moremath.Linear{Max: end}
	}
	s.Nice(options)
	s.marks, _ = s.Ticks(options)
	return s
}

func (s scale) at(v float64) float64 {
	if v <= 0 {
		return 0
	}
	return max(0, s.Map(v))
}

// number formats a mark, without what binary fractions add to it.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }
