// Package report turns the runs of cells into tables, charts and files.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// A Result is the content of result.json.
type Result struct {
	Date       string       `json:"date"`
	Commit     string       `json:"commit"`
	Go         string       `json:"go"`
	Platform   string       `json:"platform"`
	CPU        string       `json:"cpu"`
	Processors int          `json:"processors"`
	Against    string       `json:"against,omitempty"` // commits with commas between them: their cells are compared with those of Commit
	Short      bool         `json:"short"`
	Cells      []*work.Cell `json:"cells"`
}

// New returns a result without cells.
func New(short bool) *Result {
	return &Result{
		Date:       time.Now().UTC().Format(time.DateOnly),
		Commit:     commit(),
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
		CPU:        cpuModel(),
		Processors: runtime.GOMAXPROCS(0),
		Short:      short,
	}
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

// Read reads a result.json, or several that are parts of one run.
func Read(files ...string) (r *Result, err error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		part := new(Result)
		if err = json.Unmarshal(data, part); err == nil && r != nil {
			err = r.join(part)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		r = cmp.Or(r, part)
	}
	if r == nil {
		return nil, errors.New("no result.json is named")
	}
	return r, nil
}

// join adds the cells of another part of the same run: other cells, or further rounds of the same.
func (r *Result) join(part *Result) error {
	if part.Commit != r.Commit || part.Against != r.Against || part.Short != r.Short || part.Go != r.Go || part.CPU != r.CPU ||
		part.Processors != r.Processors {
		return errors.New("not a part of the same run: another commit, machine or version of Go")
	}
	for _, c := range part.Cells {
		i := slices.IndexFunc(r.Cells, func(mine *work.Cell) bool { return mine.Label() == c.Label() })
		if i < 0 {
			r.Cells = append(r.Cells, c)
		} else {
			r.Cells[i].Runs = append(r.Cells[i].Runs, c.Runs...)
		}
	}
	return nil
}

// Write writes the result in two formats, the tables, and the charts. It rounds the figures, also those of r.
func (r *Result) Write(dir string) error {
	for _, c := range r.Cells {
		for _, run := range c.Runs {
			for name, v := range run.Metrics {
				run.Metrics[name] = round(v)
			}
		}
	}
	var tables, lines bytes.Buffer
	r.WriteTables(&tables)
	if err := r.writeBenchmarks(&lines); err != nil {
		return err
	}
	files := r.charts()
	files["tables.md"], files["result.txt"] = tables.Bytes(), lines.Bytes()
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	files["result.json"] = append(deep.ReplaceAll(data, nil), '\n')
	err = os.MkdirAll(dir, 0o777)
	for name, data := range files {
		err = cmp.Or(err, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	return err
}

// deep matches the line breaks inside of the runs of a cell, which take one line.
var deep = regexp.MustCompile(`\n\t{4,}`)

// round keeps six digits of a figure: the others say nothing.
func round(v float64) float64 {
	if math.Abs(v) >= 1e6 {
		return math.Round(v)
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return v
}

// writeBenchmarks writes a line for each run without a fault, in the format of Go's benchmarks, for benchstat. It has no
// configuration that differs between runs, because benchstat compares only what is equal.
func (r *Result) writeBenchmarks(buf *bytes.Buffer) (err error) {
	fmt.Fprintf(buf, "# %s\n", r.conditions())
	w := benchfmt.NewWriter(buf)
	for _, c := range r.Cells {
		if _, ok := work.Find(c.Workload); !ok {
			continue // a benchmark of a test, or of an older result
		}
		name := ""
		for _, part := range strings.Split(c.Workload, "-") {
			name += strings.ToUpper(part[:1]) + part[1:]
		}
		procs := cmp.Or(c.Procs, r.Processors)
		for _, run := range c.Runs {
			if run.Fault != "" {
				continue
			}
			line := &benchfmt.Result{Iters: 1, Config: []benchfmt.Config{
				{Key: "platform", Value: []byte(r.Platform), File: true}, {Key: "cpu", Value: []byte(r.CPU), File: true},
			}, Name: fmt.Appendf(nil, "%s/peer=%s-%d", name, strings.ReplaceAll(c.Name(), " ", "_"), procs)}
			for _, m := range metrics(c) {
				unit := m.Name + "-" + strings.ReplaceAll(m.Unit, " ", "-")
				if m.Name == "wall" {
					unit = m.Unit
				}
				if v, ok := run.Metrics[m.Name]; ok {
					line.Values = append(line.Values, benchfmt.Value{Value: v, Unit: unit})
				}
			}
			err = errors.Join(err, w.Write(line))
		}
	}
	return err
}

// metrics returns the metrics of a cell. If there is no such workload, they are those that its runs have: the benchmarks
// of a test have their units in the name.
func metrics(c *work.Cell) (list []work.Metric) {
	if w, ok := work.Find(c.Workload); ok {
		return w.Metrics
	}
	names := map[string]bool{}
	for _, run := range c.Runs {
		for name := range run.Metrics {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, work.Metric{Name: name, Unit: name})
	}
	return list
}
