package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Rounds says how cells are run.
type Rounds struct {
	Rounds   int
	Short    bool
	Progress io.Writer // one line for each run
}

// Measure runs all cells. Each run is a process of its own. So a crash or a deadlock is a result, and no peer has the
// heap of another. In a round all peers take turns at each workload, so that a change in the speed of the machine affects
// all of them. When ctx ends, Measure ends the run in progress, and returns the cells that have results. If there are
// none, it returns an error.
func (r *Rounds) Measure(ctx context.Context, cells []*Cell) ([]*Cell, error) {
	start := time.Now()
	for round := range r.Rounds {
		for i, c := range cells {
			if n := len(c.Runs); n > 0 && c.Runs[n-1].Final {
				continue
			}
			fmt.Fprintf(r.Progress, "%5.0f s  round %d of %d, %d of %d: %s: ",
				time.Since(start).Seconds(), round+1, r.Rounds, i+1, len(cells), c.Label())
			out, err := c.run(ctx, r.Short)
			if ctx.Err() != nil {
				fmt.Fprintln(r.Progress, "interrupted")
				if round == 0 {
					cells = cells[:i]
				}
				if len(cells) == 0 {
					return nil, errors.New("interrupted before the first result")
				}
				return cells, nil
			}
			if err != nil {
				return nil, err
			}
			c.Runs = append(c.Runs, out)
			fmt.Fprintln(r.Progress, out.line(c.Workload))
		}
	}
	return cells, nil
}

// line returns the first figure of a workload, and the fault.
func (o Outcome) line(work string) (text string) {
	if w, ok := Find(work); ok && len(o.Metrics) > 0 {
		text = fmt.Sprintf("%.4g %s ", o.Metrics[w.Metrics[0].Name], w.Metrics[0].Unit)
	}
	return text + o.Fault
}
