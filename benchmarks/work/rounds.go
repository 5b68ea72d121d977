package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Rounds says how cells are run.
type Rounds struct {
	Rounds   int
	Short    bool
	Opponent string    // the program for the cells with a commit
	Progress io.Writer // one line for each run
}

// Measure runs all cells. Each run is a process of its own. So a crash or a deadlock is a result, and no peer has the
// heap of another. In a round all peers take turns at each workload, so that a change in the speed of the machine affects
// all of them. When ctx ends, Measure ends the run in progress, and returns the cells that have results. If there are
// none, it returns an error.
func (r *Rounds) Measure(ctx context.Context, cells []*Cell) ([]*Cell, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for round := range r.Rounds {
		for i, c := range cells {
			if c.Cannot != "" || c.final() {
				continue
			}
			fmt.Fprintf(r.Progress, "%5.0f s  round %d of %d, %d of %d: %s: ",
				time.Since(start).Seconds(), round+1, r.Rounds, i+1, len(cells), c.Label())
			exe := self
			if c.Commit != "" {
				exe = r.Opponent
			}
			out, err := c.run(ctx, exe, r.Short)
			switch {
			case ctx.Err() != nil && round == 0 && i == 0:
				return nil, errors.New("interrupted before the first result")
			case ctx.Err() != nil && round == 0:
				fmt.Fprintln(r.Progress, "interrupted")
				return cells[:i], nil
			case ctx.Err() != nil:
				fmt.Fprintln(r.Progress, "interrupted")
				return cells, nil
			case err != nil:
				return nil, err
			}
			c.Runs = append(c.Runs, out)
			fmt.Fprintln(r.Progress, out.line(c.Workload))
		}
	}
	return cells, nil
}

func (o Outcome) line(work string) (text string) {
	w, _ := Find(work)
	if v, ok := o.Metrics[w.Metrics[0].Name]; ok {
		text = fmt.Sprintf("%.4g %s", v, w.Metrics[0].Unit)
	}
	if text != "" && o.Fault != "" {
		text += ", "
	}
	return text + o.Fault
}
