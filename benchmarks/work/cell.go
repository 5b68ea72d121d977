package work

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
)

// cellEnv is an environment variable. It makes the process run that cell instead of the program.
const cellEnv = "HASHEDWHEEL_BENCHMARK_CELL"

// RunCell runs a cell and ends the process, if this process was started for a cell. It prints the outcome in one line.
// It ignores an interrupt, because a terminal sends it to this process too, and the program ends this process.
func RunCell() {
	spec := os.Getenv(cellEnv)
	if spec == "" {
		return
	}
	signal.Ignore(os.Interrupt)
	mode, spec, _ := strings.Cut(spec, "/")
	work, name, _ := strings.Cut(spec, "/")
	w, ok := Find(work)
	p, ok2 := FindPeer(name)
	if !ok || !ok2 {
		fmt.Fprintf(os.Stderr, "no such cell: %s\n", spec)
		os.Exit(2)
	}
	b := &bench{peer: p, work: w, short: mode == "short"}
	b.out.Metrics = map[string]float64{}
	go b.watch()
	if w.caches {
		b.cache = p.MakeCache(w.tick)
	} else {
		b.timer = p.Make(w.tick)
	}
	b.doing("start")
	memory := beside(w.heap)
	w.run(b)
	runtime.KeepAlive(memory)
	b.end(false)
}

// A Cell is a workload with a peer, and its runs.
type Cell struct {
	Workload string    `json:"workload"`
	Peer     string    `json:"peer"`
	Commit   string    `json:"commit,omitempty"` // of this library; empty for the present one
	Exe      string    `json:"-"`                // the program that runs it; empty for this one
	Bench    string    `json:"-"`                // if set, Exe is a test binary, and this chooses its benchmarks
	Procs    int       `json:"procs,omitempty"`  // GOMAXPROCS; 0 for the choice of the runtime
	TickMS   float64   `json:"tick_ms"`
	Runs     []Outcome `json:"runs,omitempty"`
}

// Plan returns the cells that match, for each number of processors. If procs is nil, the runtime chooses. The floor is
// always a cell, because the other cells are multiples of it. The workloads of this library only have cells only where
// commits are compared.
func Plan(match *regexp.Regexp, procs []int, commits bool) (cells []*Cell) {
	if procs == nil {
		procs = []int{0}
	}
	for _, w := range List {
		if w.own() && !commits {
			continue
		}
		for _, n := range procs {
			for _, p := range w.Peers() {
				if w.Floor || match.MatchString(w.Name+"/"+p.Name) {
					cells = append(cells, &Cell{Workload: w.Name, Peer: p.Name, Procs: n, TickMS: float64(w.tick) / 1e6})
				}
			}
		}
	}
	return cells
}

// Name returns the peer, with the commit if it is not the present one.
func (c *Cell) Name() string {
	if c.Commit != "" {
		return c.Peer + " at " + c.Commit
	}
	return c.Peer
}

// Label returns what distinguishes the cell from all others.
func (c *Cell) Label() string {
	if c.Procs > 0 {
		return fmt.Sprintf("%s, %s, GOMAXPROCS %d", c.Workload, c.Name(), c.Procs)
	}
	return c.Workload + ", " + c.Name()
}

// Ours reports whether this library is measured, as it is now.
func (c *Cell) Ours() bool { return strings.HasPrefix(c.Peer, "hashedwheel") && c.Commit == "" }

// Values returns the metric of all runs.
func (c *Cell) Values(metric string) (values []float64) {
	for _, run := range c.Runs {
		if v, ok := run.Metrics[metric]; ok {
			values = append(values, v)
		}
	}
	return values
}

// Faults returns the first fault, and how many runs had one.
func (c *Cell) Faults() (first string, runs int) {
	for _, run := range c.Runs {
		if run.Fault != "" {
			if runs++; runs == 1 {
				first = run.Fault
			}
		}
	}
	return first, runs
}

// run runs the cell once, in a process of its own, and kills it when ctx ends. An error is an error of this program, not
// of the peer.
func (c *Cell) run(ctx context.Context, short bool) (Outcome, error) {
	exe, err := os.Executable()
	if err != nil {
		return Outcome{}, err
	}
	limit := limit(short) + 10*time.Second // the process ends itself before, unless that fails too
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, cmp.Or(c.Exe, exe))
	cmd.Env = append(os.Environ(), cellEnv+"="+pick(&bench{short: short}, "full", "short")+"/"+c.Workload+"/"+c.Peer)
	if c.Procs > 0 {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(c.Procs))
	}
	if c.Bench != "" {
		cmd.Args = append(cmd.Args, "-test.run=^$", "-test.bench="+c.Bench, "-test.benchtime="+pick(&bench{short: short}, "1s", "1x"))
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	failed := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return Outcome{Fault: fmt.Sprintf("killed: no answer within %v", limit), Final: true}, nil
	case c.Bench != "" && failed == nil:
		return benchmarks(&stdout), nil
	}
	for line := range strings.Lines(stdout.String()) {
		if found, ok := strings.CutPrefix(line, resultMark); ok {
			var o Outcome
			err := json.Unmarshal([]byte(found), &o)
			return o, err
		}
	}
	return Outcome{Fault: crash(stderr.String(), failed), Final: true}, nil
}

// benchmarks returns the figures that a test binary has printed, each under the name and the unit of its benchmark. The
// name is that of the sub-benchmark alone, because another commit may have another name for the whole.
func benchmarks(printed io.Reader) Outcome {
	o := Outcome{Metrics: map[string]float64{}}
	for r := benchfmt.NewReader(printed, ""); r.Scan(); {
		if found, ok := r.Result().(*benchfmt.Result); ok {
			name := string(found.Name)
			if _, sub, ok := strings.Cut(name, "/"); ok {
				name = sub
			}
			for _, v := range found.Values {
				if v.OrigUnit != "" {
					v.Value, v.Unit = v.OrigValue, v.OrigUnit
				}
				o.Metrics[name+", "+v.Unit] = v.Value
			}
		}
	}
	if len(o.Metrics) == 0 {
		return Outcome{Fault: "there is no such benchmark", Final: true}
	}
	return o
}

// crash returns why a process ended without a result, from the first line of stderr that says so.
func crash(stderr string, failed error) string {
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return "crashed: " + line[:min(len(line), 80)]
		}
	}
	return fmt.Sprintf("crashed: %v", failed)
}
