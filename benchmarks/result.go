package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A result is the content of result.json.
type result struct {
	Date       string            `json:"date"`
	Commit     string            `json:"commit"`
	Go         string            `json:"go"`
	Platform   string            `json:"platform"`
	CPU        string            `json:"cpu"`
	Processors int               `json:"processors"`
	Against    string            `json:"against,omitempty"` // a commit: its cells are compared with those of Commit
	Short      bool              `json:"short"`
	Rounds     int               `json:"rounds"`
	Versions   map[string]string `json:"versions"` // of the peers that are modules
	Cells      []*cell           `json:"cells"`

	opponent string // the program that runs the cells of Against
}

// A cell is a workload with a peer.
type cell struct {
	Workload string          `json:"workload"`
	Peer     string          `json:"peer"`
	Commit   string          `json:"commit,omitempty"` // of this library; empty for the commit of the result
	Procs    int             `json:"procs,omitempty"`  // GOMAXPROCS; 0 for the choice of the runtime
	TickMS   float64         `json:"tick_ms"`
	Cannot   string          `json:"cannot,omitempty"`
	Runs     []outcome       `json:"runs,omitempty"`
	Metrics  map[string]stat `json:"metrics,omitempty"`
	Fault    string          `json:"fault,omitempty"` // of the first run that had one
	Faulty   int             `json:"faulty_runs,omitempty"`
}

// A stat summarizes a metric over the rounds.
type stat struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func newResult(short bool, rounds int) *result {
	r := &result{
		Date:       time.Now().UTC().Format(time.DateOnly),
		Commit:     commit(),
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
		CPU:        cpuModel(),
		Processors: runtime.GOMAXPROCS(0),
		Short:      short,
		Rounds:     rounds,
		Versions:   map[string]string{},
	}
	for _, p := range peers {
		if v := p.version(); v != "" {
			r.Versions[p.name] = v
		}
	}
	return r
}

// commit returns the current commit, and whether there are changes. It returns "unknown" if git fails.
func commit() string {
	id, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	c := strings.TrimSpace(string(id))
	if changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err != nil || len(changes) > 0 {
		c += " with changes"
	}
	return c
}

// cpuModel returns the name of the processor if the system tells. Linux on arm64 has it in lscpu only.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for _, command := range [][]string{{"lscpu"}, {"sysctl", "machdep.cpu.brand_string"}} {
		out, _ := exec.Command(command[0], command[1:]...).Output()
		info = append(info, out...)
	}
	for line := range bytes.Lines(info) {
		k, v, _ := strings.Cut(string(line), ":")
		switch strings.TrimSpace(k) {
		case "model name", "Model name", "machdep.cpu.brand_string":
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// summarize computes the statistics of each cell from its runs. The multiples of the floor are relative to the least
// floor with as many processors.
func (r *result) summarize() {
	for _, c := range r.Cells {
		c.Metrics, c.Fault, c.Faulty = map[string]stat{}, "", 0
		values := map[string][]float64{}
		for _, run := range c.Runs {
			if run.Fault != "" {
				if c.Faulty++; c.Faulty == 1 {
					c.Fault = run.Fault
				}
			}
			for m, v := range run.Metrics {
				values[m] = append(values[m], v)
			}
		}
		for m, v := range values {
			s := stat{Median: median(v), Min: math.Inf(1), Max: math.Inf(-1)}
			for _, x := range v {
				s.Min, s.Max = min(s.Min, x), max(s.Max, x)
			}
			c.Metrics[m] = s
		}
		w, ok := findWorkload(c.Workload)
		p, _ := findPeer(c.Peer)
		wall, measured := c.Metrics["wall"]
		floor := r.find("floor", floorPeer.name, c.Procs)
		if !ok || !measured || floor == nil {
			continue
		}
		if f := floor.Metrics[w.floorMetric(p)].Min; f > 0 {
			c.Metrics["floors"] = stat{wall.Median / f, wall.Min / f, wall.Max / f}
		}
	}
}

func (r *result) find(workload, peer string, procs int) *cell {
	for _, c := range r.Cells {
		if c.Workload == workload && c.Peer == peer && c.Procs == procs && c.Commit == "" {
			return c
		}
	}
	return nil
}

func readResult(file string) (*result, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(result)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r.summarize()
	return r, nil
}

// draw adds the charts of a workload to files, one for each number of processors.
func (r *result) draw(w *workload, files map[string][]byte) {
	for _, procs := range r.procs() {
		name, title := w.name, w.heading(r.Short)
		if procs > 0 {
			name += fmt.Sprintf("-procs-%d", procs)
			title += fmt.Sprintf(", GOMAXPROCS %d", procs)
		}
		if bars := r.bars(w, procs); len(bars) > 0 {
			files[name+".svg"] = drawChart(title, r.caption(w), w.metrics[0], bars)
		}
	}
}

// drawShort adds the chart of the main README to files: the RPC mix with this library, package time and one other
// library.
func (r *result) drawShort(files map[string][]byte) {
	names := map[string]string{"hashedwheel": "hashedwheel", "time": "package time", "go-zero": "go-zero"}
	w, _ := findWorkload("rpc")
	var bars []bar
	for _, b := range r.bars(w, 0) {
		if name, ok := names[b.label]; ok {
			b.label = name
			bars = append(bars, b)
		}
	}
	if len(bars) > 0 {
		files["readme.svg"] = drawChart("A timeout for each request, 99 % of them canceled", r.caption(w), w.metrics[0], bars)
	}
}

// write writes the result, the tables, and a chart for each workload and number of processors.
func (r *result) write(dir string) error {
	var tables bytes.Buffer
	r.writeTables(&tables)
	r.writeComparison(&tables)
	files := map[string][]byte{"tables.md": tables.Bytes()}
	for _, w := range workloads {
		if w.drawn() {
			r.draw(w, files)
		}
	}
	r.drawShort(files)
	return r.save(dir, files)
}

// save writes the files, and the result to result.json.
func (r *result) save(dir string, files map[string][]byte) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	files["result.json"] = append(data, '\n')
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return err
		}
	}
	return nil
}
