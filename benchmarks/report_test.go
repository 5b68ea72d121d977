package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// example returns a result with a floor, a peer with a figure, and one that lost timeouts in one of two runs.
func example() *result {
	r := newResult(true, 2)
	r.Cells = []*cell{
		{Workload: "floor", Peer: "floor", Runs: []outcome{
			{Metrics: map[string]float64{"large-new": 40}}, {Metrics: map[string]float64{"large-new": 60}},
		}},
		{Workload: "schedule", Peer: "hashedwheel", TickMS: 100, Runs: []outcome{
			{Metrics: map[string]float64{"wall": 100}}, {Metrics: map[string]float64{"wall": 150}},
		}},
		{Workload: "schedule", Peer: "gost", TickMS: 10, Runs: []outcome{
			{Metrics: map[string]float64{"wall": 200}}, {Fault: "lost 1 <of> 2"},
		}},
		{Workload: "schedule", Peer: "time", Runs: []outcome{{Fault: "crashed: exit status 1", Final: true}}},
	}
	r.summarize()
	return r
}

func TestSummarize(t *testing.T) {
	r := example()
	c := r.find("schedule", "hashedwheel", 0)
	if got, want := c.Metrics["wall"], (stat{125, 100, 150}); got != want {
		t.Errorf("wall %v, want %v", got, want)
	}
	if got, want := c.Metrics["floors"], (stat{3.125, 2.5, 3.75}); got != want {
		t.Errorf("multiple of the floor %v, want %v", got, want)
	}
	if got, want := r.find("schedule", "gost", 0).verdict(), "lost 1 <of> 2 (in 1 of 2 runs)"; got != want {
		t.Errorf("verdict %q, want %q", got, want)
	}
}

// A fault of a peer is a result. A fault of this library is an error.
func TestOwnFaults(t *testing.T) {
	r := example()
	if err := r.ownFaults(); err != nil {
		t.Errorf("error %v for the faults of peers", err)
	}
	r.find("schedule", "hashedwheel", 0).Runs[1].Fault = "lost 1 of 2"
	r.summarize()
	if err := r.ownFaults(); err == nil || !strings.Contains(err.Error(), "lost 1 of 2") {
		t.Errorf("error %v", err)
	}
}

// A cell below its floor shows that the floor is none, and that is an error of the program. The least run of the floor
// counts. A cell with a fault may have done less.
func TestBelowFloor(t *testing.T) {
	r := example()
	for i := range r.find("schedule", "hashedwheel", 0).Runs {
		r.find("schedule", "hashedwheel", 0).Runs[i].Metrics["wall"] = 39
	}
	r.find("schedule", "gost", 0).Runs[0].Metrics["wall"] = 10
	r.summarize()
	want := "schedule, hashedwheel: below its floor, so the floor is none"
	if err := r.ownFaults(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	var tables strings.Builder
	r.writeTables(&tables)
	if want := "| 0.975 (0.975 to 0.975) | below its floor, so the floor is none |"; !strings.Contains(tables.String(), want) {
		t.Errorf("no %s in\n%s", want, &tables)
	}
	for i := range r.find("schedule", "hashedwheel", 0).Runs {
		r.find("schedule", "hashedwheel", 0).Runs[i].Metrics["wall"] = 41
	}
	r.summarize()
	if err := r.ownFaults(); err != nil {
		t.Errorf("error %v above the floor", err)
	}
}

// Each cell that has a floor finds it among the figures of the floor.
func TestFloorsAreMeasured(t *testing.T) {
	out := testFigures(t, workloads[0], floorPeer.name)
	for _, w := range workloads {
		for _, p := range w.peers() {
			if metric := w.floorMetric(p); !w.floor && !(out.Metrics[metric] > 0) {
				t.Errorf("%s/%s: no floor %q", w.name, p.name, metric)
			}
		}
	}
	for _, name := range []string{"", "-parallel"} {
		if out.Metrics["large-new"+name] > out.Metrics["new"+name] {
			t.Errorf("the floor of any heap is above that of a small one: %v", out.Metrics)
		}
	}
}

func TestWriteAndRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	r := example()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	back, err := readResult(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r, back) {
		t.Errorf("read %+v, wrote %+v", back, r)
	}
	tables, err := os.ReadFile(filepath.Join(dir, "tables.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| hashedwheel | 100 ms | 125 (100 to 150) | 3.12 (2.50 to 3.75) |",
		"lost 1 <of> 2 (in 1 of 2 runs)", "crashed: exit status 1", r.Go, r.Commit, r.Date,
	} {
		if !strings.Contains(string(tables), want) {
			t.Errorf("no %q in\n%s", want, tables)
		}
	}
	charts, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil || len(charts) != 1 {
		t.Errorf("charts %v, error %v; want the one of schedule", charts, err)
	}
}

// The chart of the main README has three peers, and says what its bars and lines are.
func TestShortChart(t *testing.T) {
	r := newResult(false, 2)
	for i, peer := range []string{"hashedwheel", "hashedwheel, 3 levels", "time", "go-zero", "heap design"} {
		wall := float64(100 * (i + 1))
		r.Cells = append(r.Cells, &cell{Workload: "rpc", Peer: peer, Runs: []outcome{
			{Metrics: map[string]float64{"wall": wall}}, {Metrics: map[string]float64{"wall": wall + 20}},
		}})
	}
	r.summarize()
	files := map[string][]byte{}
	r.drawShort(files)
	var texts []string
	for _, e := range elements(t, files["readme.svg"]) {
		if e.name == "text" {
			texts = append(texts, e.text)
		}
	}
	want := []string{
		"A timeout for each request, 99 % of them canceled",
		"wall time, ns/op, less is better; median of 2 runs, line from the least to the greatest; " + r.Date,
		"hashedwheel", "110 ns/op", "package time", "310 ns/op", "go-zero", "410 ns/op",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

// The table of a storm has the lateness of each peer. A figure that is missing is left blank, and one that no peer
// has is left out, because older results lack some.
func TestTableOfStorm(t *testing.T) {
	r := newResult(false, 1)
	for _, peer := range []string{"hashedwheel", "time"} {
		r.Cells = append(r.Cells, &cell{Workload: "storm-at-once", Peer: peer, TickMS: 100, Runs: []outcome{
			{Metrics: map[string]float64{"rate": 5, "p50": 1, "p90": 2, "p99": 3, "max": 4}},
		}})
	}
	for _, want := range []string{
		"| | tick | M ops/s | p50, ms | p90, ms | max, ms | |\n| --- | --- | --- | --- | --- | --- | --- |\n" +
			"| hashedwheel | 100 ms | 5.00 | 1.00 | 2.00 | 4.00 |  |\n| time |  | 5.00 | 1.00 | 2.00 | 4.00 |  |\n",
		"| hashedwheel | 100 ms | 5.00 | 1.00 |  | 4.00 |  |\n| time |  | 5.00 | 1.00 | 2.00 | 4.00 |  |\n",
		"| | tick | M ops/s | p50, ms | max, ms | |\n| --- | --- | --- | --- | --- | --- |\n" +
			"| hashedwheel | 100 ms | 5.00 | 1.00 | 4.00 |  |\n| time |  | 5.00 | 1.00 | 4.00 |  |\n",
	} {
		r.summarize()
		var tables strings.Builder
		r.writeTables(&tables)
		if !strings.Contains(tables.String(), want) {
			t.Errorf("no\n%s in\n%s", want, tables.String())
		}
		for _, c := range r.Cells { // the next result has one p90 less
			if _, ok := c.Runs[0].Metrics["p90"]; ok {
				delete(c.Runs[0].Metrics, "p90")
				break
			}
		}
	}
}

func TestFormat(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.01234: "0.012", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234567: "1234567", -12.34: "-12.3",
	} {
		if got := format(v); got != want {
			t.Errorf("format(%v) = %q, want %q", v, got, want)
		}
	}
}
