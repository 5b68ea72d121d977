package report

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// stat returns the median of a metric over the runs of a cell, and an interval that has the true median with a
// probability of 95 %. With fewer than six runs the interval goes from the least to the greatest. If ok is false, the
// cell has no such metric.
func (r *Result) stat(c *work.Cell, metric string) (s benchmath.Summary, ok bool) {
	values := r.values(c, metric)
	if len(values) == 0 {
		return s, false
	}
	// So many runs allow no greater confidence than this.
	most := 1 - math.Pow(2, 1-float64(len(values)))
	s = benchmath.AssumeNothing.Summary(sample(values), min(0.95, most))
	if len(values) == 1 {
		s.Lo, s.Hi = s.Center, s.Center
	}
	return s, true
}

func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
}

// values returns the metric of each run. The metric floors is the wall time as a multiple of the least floor with as
// many processors.
func (r *Result) values(c *work.Cell, metric string) []float64 {
	if metric != "floors" {
		return c.Values(metric)
	}
	w, ok := work.Find(c.Workload)
	i := slices.IndexFunc(r.Cells, func(f *work.Cell) bool { return f.Workload == "floor" && f.Procs == c.Procs })
	if !ok || i < 0 {
		return nil
	}
	p, _ := work.FindPeer(c.Peer)
	floors, walls := r.Cells[i].Values(w.FloorMetric(p)), c.Values("wall")
	if len(floors) == 0 {
		return nil
	}
	for j := range walls {
		walls[j] /= slices.Min(floors)
	}
	return walls
}

// belowFloor reports whether the cell needs less than its floor, so that the floor is none. A short run is too short to
// tell.
func (r *Result) belowFloor(c *work.Cell) bool {
	s, ok := r.stat(c, "floors")
	_, faulty := c.Faults()
	return ok && s.Center < 1 && faulty == 0 && !r.Short
}

// verdict returns the fault of the cell, or "" if there is none.
func (r *Result) verdict(c *work.Cell) string {
	fault, faulty := c.Faults()
	switch {
	case faulty > 0 && len(c.Runs) > 1:
		return fmt.Sprintf("%s (in %d of %d runs)", fault, faulty, len(c.Runs))
	case r.belowFloor(c):
		return "below its floor, so the floor is none"
	}
	return fault
}

// Faults returns an error if this library has a fault in any cell, or if a floor is none. Other peers may have faults.
func (r *Result) Faults() error {
	var faults []error
	for _, c := range r.Cells {
		if _, faulty := c.Faults(); c.Ours() && faulty > 0 || r.belowFloor(c) {
			faults = append(faults, fmt.Errorf("%s: %s", c.Label(), r.verdict(c)))
		}
	}
	return errors.Join(faults...)
}
