package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measure runs all cells that match. Each run is a process of its own. So a crash or a deadlock is a result, and
// no peer has the heap of another. In a round all peers take turns at each workload, so that a change in the
// speed of the machine affects all of them. When ctx ends, measure ends the run in progress, and keeps the results
// of the runs before it. If there are none, it returns an error.
func (r *result) measure(ctx context.Context, match *regexp.Regexp, procs []int, progress io.Writer) error {
	if err := r.plan(match, procs); err != nil {
		return err
	}
	start, rounds := time.Now(), r.Rounds
	for round := range rounds {
		for i, c := range r.Cells {
			if c.Cannot != "" || c.final() {
				continue
			}
			fmt.Fprintf(progress, "%5.0f s  round %d of %d, %d of %d: %s: ",
				time.Since(start).Seconds(), round+1, rounds, i+1, len(r.Cells), c.label())
			exe := ""
			if c.Commit != "" {
				exe = r.opponent
			}
			out, err := runProcess(ctx, exe, c.Workload, c.Peer, c.Procs, r.Short)
			if ctx.Err() != nil {
				fmt.Fprintln(progress, "interrupted")
				r.Rounds = 0
				for _, c := range r.Cells {
					r.Rounds = max(r.Rounds, len(c.Runs))
				}
				if r.Rounds == 0 {
					return errors.New("interrupted before the first result")
				}
				if round == 0 {
					r.Cells = r.Cells[:i] // the others have no results
				}
				r.summarize()
				return nil
			}
			if err != nil {
				return err
			}
			c.Runs = append(c.Runs, out)
			fmt.Fprintln(progress, out.line(c.Workload))
		}
	}
	r.summarize()
	return nil
}

// plan makes the cells that match, for each number of processors. If procs is nil, the runtime chooses. The floor
// is always a cell, because the other cells are multiples of it.
func (r *result) plan(match *regexp.Regexp, procs []int) error {
	if procs == nil {
		procs = []int{0}
	}
	matched := false
	for _, w := range workloads {
		for _, n := range procs {
			for _, p := range w.peers() {
				matches := match.MatchString(w.name + "/" + p.name)
				matched = matched || matches
				if matches || w.floor {
					c := &cell{
						Workload: w.name, Peer: p.name, Procs: n, TickMS: float64(p.tick(w)) / 1e6, Cannot: w.cannot(p),
					}
					r.Cells = append(r.Cells, c)
					if r.Against != "" && c.ours() {
						before := *c
						before.Commit = r.Against
						r.Cells = append(r.Cells, &before)
					}
				}
			}
		}
	}
	if !matched {
		return fmt.Errorf("-only: no cell (workload/peer) matches %q", match)
	}
	return nil
}

// parseProcs parses the list of -procs.
func parseProcs(list string) (procs []int, err error) {
	if list == "" {
		return nil, nil
	}
	for _, text := range strings.Split(list, ",") {
		// GOMAXPROCS is a signed number of 32 bits in the runtime.
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("-procs: %q is not a positive integer", text)
		}
		if slices.Contains(procs, int(n)) {
			return nil, fmt.Errorf("-procs: %d is in the list twice", n)
		}
		procs = append(procs, int(n))
	}
	return procs, nil
}

// final reports whether the cell must not be run again.
func (c *cell) final() bool { return len(c.Runs) > 0 && c.Runs[len(c.Runs)-1].Final }

func (o outcome) line(work string) string {
	var parts []string
	if w, ok := findWorkload(work); ok {
		if v, ok := o.Metrics[w.metrics[0].name]; ok {
			parts = append(parts, format(v)+" "+w.metrics[0].unit)
		}
	}
	if o.Fault != "" {
		parts = append(parts, o.Fault)
	}
	return strings.Join(parts, ", ")
}

// runProcess runs one cell once with the program exe, or with this program if exe is empty. It kills the process when
// ctx ends. It sets GOMAXPROCS to procs unless that is 0. An error is an error of this program, not of the peer.
func runProcess(ctx context.Context, exe, work, peer string, procs int, short bool) (outcome, error) {
	if exe == "" {
		self, err := os.Executable()
		if err != nil {
			return outcome{}, err
		}
		exe = self
	}
	w, ok := findWorkload(work)
	if !ok {
		return outcome{}, fmt.Errorf("no workload %q", work)
	}
	mode := "full"
	if short {
		mode = "short"
	}
	limit := w.limit(short) + 10*time.Second // the process ends itself before, unless that fails too
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), cellEnv+"="+mode+"/"+work+"/"+peer)
	if procs > 0 {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(procs))
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	failed := cmd.Run()
	for line := range strings.Lines(stdout.String()) {
		if found, ok := strings.CutPrefix(line, resultMark); ok {
			var o outcome
			err := json.Unmarshal([]byte(found), &o)
			return o, err
		}
	}
	if ctx.Err() != nil {
		return outcome{Fault: fmt.Sprintf("killed: no answer within %v", limit), Final: true}, nil
	}
	return outcome{Fault: crash(stderr.String(), failed), Final: true}, nil
}

// crash returns why a process ended without a result, from the first line of stderr that says so.
func crash(stderr string, failed error) string {
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "fatal error: all goroutines are asleep") {
			return "deadlock: all goroutines are asleep"
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return "crashed: " + line[:min(len(line), 80)]
		}
	}
	return fmt.Sprintf("crashed: %v", failed)
}
