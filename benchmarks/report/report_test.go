package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel/benchmarks/work"
	"golang.org/x/perf/benchfmt"
)

// example returns a result with a floor, a peer with a figure, and one that lost timeouts in one of two runs.
func example() *Result {
	r := New(true)
	r.Cells = []*work.Cell{
		{Workload: "floor", Peer: "floor", Runs: []work.Outcome{
			{Metrics: map[string]float64{"large-new": 40}}, {Metrics: map[string]float64{"large-new": 60}},
		}},
		{Workload: "schedule", Peer: "hashedwheel", TickMS: 100, Runs: []work.Outcome{
			{Metrics: map[string]float64{"wall": 100}}, {Metrics: map[string]float64{"wall": 150}},
		}},
		{Workload: "schedule", Peer: "gost", TickMS: 10, Runs: []work.Outcome{
			{Metrics: map[string]float64{"wall": 200}}, {Fault: "lost 1 <of> 2"},
		}},
		{Workload: "schedule", Peer: "time", Runs: []work.Outcome{{Fault: "crashed: exit status 1", Final: true}}},
	}
	return r
}

func find(r *Result, name, peer string) *work.Cell {
	i := slices.IndexFunc(r.Cells, func(c *work.Cell) bool { return c.Workload == name && c.Peer == peer })
	return r.Cells[i]
}

func TestStat(t *testing.T) {
	r := example()
	c := find(r, "schedule", "hashedwheel")
	if got, want := r.text(c, "wall"), "125 (100 to 150)"; got != want {
		t.Errorf("wall %v, want %v", got, want)
	}
	if got, want := r.text(c, "floors"), "3.12 (2.50 to 3.75)"; got != want {
		t.Errorf("multiple of the least floor %v, want %v", got, want)
	}
	if got := r.text(c, "cpu"); got != "" {
		t.Errorf("a metric that was not measured: %v", got)
	}
	if got, want := r.verdict(find(r, "schedule", "gost")), "lost 1 <of> 2 (in 1 of 2 runs)"; got != want {
		t.Errorf("verdict %q, want %q", got, want)
	}
	c = &work.Cell{}
	for _, tt := range []struct { // runs of 0, 1, 2, ...
		runs   int
		lo, hi float64
	}{{1, 0, 0}, {3, 0, 2}, {5, 0, 4}, {6, 0, 5}, {20, 5, 14}} {
		c.Runs = nil
		for i := range tt.runs {
			c.Runs = append(c.Runs, work.Outcome{Metrics: map[string]float64{"wall": float64(i)}})
		}
		if s, ok := r.stat(c, "wall"); !ok || s.Lo != tt.lo || s.Hi != tt.hi || s.Center != float64(tt.runs-1)/2 {
			t.Errorf("%d runs: %+v, want %v to %v", tt.runs, s, tt.lo, tt.hi)
		}
	}
}

// A fault of a peer is a result. A fault of this library is an error.
func TestOwnFaults(t *testing.T) {
	r := example()
	if err := r.Faults(); err != nil {
		t.Errorf("error %v for the faults of peers", err)
	}
	find(r, "schedule", "hashedwheel").Runs[1].Fault = "lost 1 of 2"
	if err := r.Faults(); err == nil || !strings.Contains(err.Error(), "lost 1 of 2") {
		t.Errorf("error %v", err)
	}
}

// A cell below its floor shows that the floor is none, and that is an error of the program. The least run of the floor
// counts. A cell with a fault may have done less.
func TestBelowFloor(t *testing.T) {
	r := example()
	r.Short = false
	for i := range find(r, "schedule", "hashedwheel").Runs {
		find(r, "schedule", "hashedwheel").Runs[i].Metrics["wall"] = 39
	}
	find(r, "schedule", "gost").Runs[0].Metrics["wall"] = 10
	want := "schedule, hashedwheel: below its floor, so the floor is none"
	if err := r.Faults(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	var tables strings.Builder
	r.WriteTables(&tables)
	if want := "| 0.975 (0.975 to 0.975) | below its floor, so the floor is none |"; !strings.Contains(tables.String(), want) {
		t.Errorf("no %s in\n%s", want, &tables)
	}
	for i := range find(r, "schedule", "hashedwheel").Runs {
		find(r, "schedule", "hashedwheel").Runs[i].Metrics["wall"] = 41
	}
	if err := r.Faults(); err != nil {
		t.Errorf("error %v above the floor", err)
	}
	r.Short = true
	find(r, "schedule", "hashedwheel").Runs[0].Metrics["wall"] = 1
	if err := r.Faults(); err != nil {
		t.Errorf("error %v of a short run", err)
	}
}

func TestWriteAndRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	r := example()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	back, err := Read(filepath.Join(dir, "result.json"))
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

// A row of a README gets the medians or ranges that its comment asks for. It stays as it is if the result lacks one.
func TestFill(t *testing.T) {
	r := example()
	for i, run := range find(r, "schedule", "hashedwheel").Runs {
		run.Metrics["worker"] = float64(3 * i)
	}
	const rows = `| worker <!-- schedule: hashedwheel=worker ns --> | 0 ns |
| schedule <!-- schedule: hashedwheel=wall ns; gost=wall ns; ratio --> | 1 ns | 2 ns | 2 |
| both <!-- schedule: hashedwheel=wall+floors ms; hashedwheel=floors; time=wall ns --> | |
| another <!-- schedule: hashedwheel=cpu ns --> | 7 ns |
| none <!-- schedule: netty design=wall ns --> | 8 ns |
| without | 9 ns |
`
	const want = `| worker <!-- schedule: hashedwheel=worker ns --> | up to 3.0 ns |
| schedule <!-- schedule: hashedwheel=wall ns; gost=wall ns; ratio --> | 100 to 150 ns | 200 ns | 2.0 |
| both <!-- schedule: hashedwheel=wall+floors ms; hashedwheel=floors; time=wall ns --> | 125 / 3.12 ms | 2.5 to 3.8 | crashed: exit status 1 |
| another <!-- schedule: hashedwheel=cpu ns --> | 7 ns |
| none <!-- schedule: netty design=wall ns --> | 8 ns |
| without | 9 ns |
`
	file := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(file, []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := r.Fill(file); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("error %v,\n%swant\n%s", err, got, want)
	}
}

// The tables of both READMEs have the figures of the result.
func TestReadmesHaveTheResult(t *testing.T) {
	r, err := Read(filepath.Join("..", "results", "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../README.md", "../../README.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows := filled.FindAllString(string(text), -1)
		for _, row := range rows {
			if want := r.row(row); row != want {
				t.Errorf("%s has\n%s\nwant\n%s", file, row, want)
			}
		}
		if len(rows) == 0 {
			t.Errorf("%s has no rows with figures", file)
		}
	}
}

// Parts of one run are joined: further rounds of a cell, and other cells. Results of two runs are not.
func TestJoin(t *testing.T) {
	r, part := example(), example()
	part.Cells[1].Peer = "netty design"
	if err := r.join(part); err != nil {
		t.Fatal(err)
	}
	var runs []int
	for _, c := range r.Cells {
		runs = append(runs, len(c.Runs))
	}
	if want := []int{4, 2, 4, 2, 2}; !slices.Equal(runs, want) {
		t.Errorf("%v runs, want %v", runs, want)
	}
	part.Commit = "another"
	if err := r.join(part); err == nil {
		t.Error("two commits were joined")
	}
}

// The table of a storm has the lateness of each peer. A figure that is missing is left blank, and one that no peer
// has is left out, because older results lack some.
func TestTableOfStorm(t *testing.T) {
	r := New(false)
	for _, peer := range []string{"hashedwheel", "time"} {
		r.Cells = append(r.Cells, &work.Cell{Workload: "storm-at-once", Peer: peer, TickMS: 100, Runs: []work.Outcome{
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
		var tables strings.Builder
		r.WriteTables(&tables)
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

// The figures of a file have six digits, and counts have all.
func TestRound(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 51.91991764072218: 51.9199, 0.01234567: 0.0123457, -1234.567: -1234.57, 1234567.8: 1234568} {
		if got := round(v); got != want {
			t.Errorf("round(%v) = %v, want %v", v, got, want)
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

// The lines for benchstat have no run with a fault. Their names have no spaces, and the number of processors at the end.
func TestBenchmarkFormat(t *testing.T) {
	r := example()
	r.Processors = 2
	r.Cells[1].Peer = "hashedwheel, embedded"
	r.Cells[2].Procs = 4
	var buf bytes.Buffer
	if err := r.writeBenchmarks(&buf); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for reader := benchfmt.NewReader(&buf, "result.txt"); reader.Scan(); {
		switch record := reader.Result().(type) {
		case *benchfmt.Result:
			for _, v := range record.Values {
				lines = append(lines, fmt.Sprintf("%s %v %s", record.Name, v.OrigValue, v.OrigUnit))
			}
		default:
			t.Errorf("%v", record)
		}
	}
	want := []string{
		"Floor/peer=floor-2 40 large-new-ns", "Floor/peer=floor-2 60 large-new-ns",
		"Schedule/peer=hashedwheel,_embedded-2 100 ns/op", "Schedule/peer=hashedwheel,_embedded-2 150 ns/op",
		"Schedule/peer=gost-4 200 ns/op",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// Each number of processors has its own floor, and its own rows in the table and the chart.
func TestProcsAreLabeled(t *testing.T) {
	r := New(true)
	for _, procs := range []int{1, 4} {
		for _, peer := range []string{"floor", "hashedwheel"} {
			name := map[string]string{"floor": "floor", "hashedwheel": "schedule"}[peer]
			r.Cells = append(r.Cells, &work.Cell{Workload: name, Peer: peer, Procs: procs, Runs: []work.Outcome{
				{Metrics: map[string]float64{"wall": float64(20 * procs), "large-new": 10}},
			}})
		}
	}
	find(r, "floor", "floor").Runs[0].Metrics["large-new"] = 5
	var tables strings.Builder
	r.WriteTables(&tables)
	for _, want := range []string{
		"| | GOMAXPROCS | tick |", "| --- | --- | --- | --- |",
		"| hashedwheel | 1 | 0 ms | 20.0 | 4.00 |", "| hashedwheel | 4 | 0 ms | 80.0 | 8.00 |",
	} {
		if !strings.Contains(tables.String(), want) {
			t.Errorf("no %q in\n%s", want, &tables)
		}
	}
	for _, want := range []string{">hashedwheel, 1<", ">20.0 ns/op<", ">hashedwheel, 4<", ">80.0 ns/op<"} {
		if chart := r.charts()["schedule.svg"]; !bytes.Contains(chart, []byte(want)) {
			t.Errorf("no %q in\n%s", want, chart)
		}
	}
}

// A result without -scaling shows no number of processors. The charts in results are those of result.json.
func TestResultsAreDrawnAgain(t *testing.T) {
	r, err := Read(filepath.Join("..", "results", "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tables bytes.Buffer
	r.WriteTables(&tables)
	if bytes.Contains(tables.Bytes(), []byte("GOMAXPROCS")) {
		t.Error("the tables have a number of processors")
	}
	var drawn, there []string
	for name := range r.charts() {
		drawn = append(drawn, filepath.Join("..", "results", name))
	}
	if there, err = filepath.Glob(filepath.Join("..", "results", "*.svg")); err != nil {
		t.Fatal(err)
	}
	slices.Sort(drawn)
	if !slices.Equal(drawn, there) {
		t.Errorf("results has the charts\n%v\nwant\n%v", there, drawn)
	}
}

// An opponent that cannot run is a fault of its cell, and not of this library.
func TestComparison(t *testing.T) {
	r := New(false)
	r.Commit, r.Against = "new", "old"
	runs := func(walls ...float64) (runs []work.Outcome) {
		for _, wall := range walls {
			runs = append(runs, work.Outcome{Metrics: map[string]float64{"wall": wall}})
		}
		return runs
	}
	bench := func(names ...string) []work.Outcome {
		o := work.Outcome{Metrics: map[string]float64{}}
		for _, name := range names {
			o.Metrics[name] = 30
		}
		return []work.Outcome{o}
	}
	r.Cells = []*work.Cell{
		{Workload: "schedule", Peer: "hashedwheel", Runs: runs(110, 111, 109, 110)},
		{Workload: "schedule", Peer: "hashedwheel", Commit: "old", Runs: runs(100, 101, 99, 100)},
		{Workload: "schedule", Peer: "time", Runs: runs(300, 300, 300, 300)},
		{Workload: "BenchmarkFire", Peer: "hashedwheel", Runs: bench("Fire, ms/1M", "Fire/new, ns/op")},
		{Workload: "BenchmarkFire", Peer: "hashedwheel", Commit: "old", Runs: bench("Fire, ms/1M")},
		{Workload: "fire", Peer: "hashedwheel", Runs: runs(1)},
		{Workload: "fire", Peer: "hashedwheel", Commit: "old", Runs: []work.Outcome{{Fault: "crashed: exit status 2", Final: true}}},
	}
	var table strings.Builder
	r.writeComparison(&table)
	_, rows, _ := strings.Cut(table.String(), "| --- | --- | --- | --- | --- | --- |\n")
	want := "| schedule, hashedwheel | wall time, ns/op | 100 (99.0 to 101) | 110 (109 to 111) | +10.0 % | p=0.029 n=4 |\n" +
		"| BenchmarkFire, hashedwheel | Fire, ms/1M | 30.0 | 30.0 | +0.0 % | p=1.000 n=1 |\n" +
		"| BenchmarkFire, hashedwheel | Fire/new, ns/op | not measured | 30.0 | | |\n"
	if rows != want {
		t.Errorf("rows\n%swant\n%s", rows, want)
	}
	if err := r.Faults(); err != nil {
		t.Errorf("a fault of the opponent is an error: %v", err)
	}
}

// A row of several commits has the best run of each. The multiple is that of the best commit, and a row that is worse by
// more than 10 % is marked, also where more is better. A commit with a fault is never the best.
func TestRanking(t *testing.T) {
	r := New(false)
	r.Commit, r.Against = "new", "old,older"
	cell := func(workload, commit string, metric string, values ...float64) *work.Cell {
		c := &work.Cell{Workload: workload, Peer: "hashedwheel", Commit: commit}
		for _, v := range values {
			c.Runs = append(c.Runs, work.Outcome{Metrics: map[string]float64{metric: v}})
		}
		return c
	}
	faulty := cell("rpc", "older", "wall", 1)
	faulty.Runs[0].Fault = "lost 1 | 2"
	ours := cell("own-stop", "", "cpu", 10)
	ours.Runs[0].Fault = "lost 3"
	r.Cells = []*work.Cell{
		cell("schedule", "", "wall", 300, 112, 200), cell("schedule", "old", "wall", 100, 500), cell("schedule", "older", "wall", 101),
		cell("schedule", "time", "wall", 1),
		cell("fire", "", "rate", 8.9, 1), cell("fire", "old", "rate", 5, 9), cell("fire", "older", "rate", 2, 10),
		cell("burst", "", "cpu", 109), cell("burst", "old", "cpu", 100), cell("burst", "older", "cpu", 120),
		cell("storm-later", "", "rate", 9.1), cell("storm-later", "old", "rate", 10), cell("storm-later", "older", "rate", 9),
		cell("pending", "", "gc", 50), cell("pending", "old", "gc", 60), cell("pending", "older", "gc", 70),
		cell("rpc", "", "wall", 20), cell("rpc", "old", "wall", 20), faulty,
		ours, cell("own-stop", "old", "cpu", 5), cell("own-stop", "older", "cpu", 5),
		cell("own-stats", "", "wall", 20), cell("own-stats", "old", "wall", 20), // interrupted
	}
	r.Cells[3].Peer, r.Cells[3].Commit = "time", ""
	var table strings.Builder
	marked := r.writeRanking(&table)
	const none = "not measured | not measured | not measured | | | |\n"
	for _, want := range []string{
		"| | | old | older | new | best | x best | |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
		"| schedule, hashedwheel | wall time, ns/op | 100 | 101 | 112 | old | 1.12 | worse |\n",
		"| schedule, hashedwheel | ns CPU/op | " + none,
		"| fire, hashedwheel | M tasks/s | 9.00 | 10.0 | 8.90 | older | 0.890 | worse |\n",
		"| burst, hashedwheel | ns CPU/op | 100 | 120 | 109 | old | 1.09 |  |\n",
		"| storm-later, hashedwheel | M ops/s | 10.0 | 9.00 | 9.10 | old | 0.910 |  |\n",
		"| pending, hashedwheel | B/timeout | " + none,
		"| pending, hashedwheel | ms/GC | 60.0 | 70.0 | 50.0 | new | 1.00 |  |\n",
		"| rpc, hashedwheel | wall time, ns/op | 20.0 | lost 1 / 2 | 20.0 | new | 1.00 |  |\n",
		"| own-stop, hashedwheel | ns CPU/op | 5.00 | 5.00 | lost 3 | | | |\n",
		"| own-stats, hashedwheel | wall time, ns/op | 20.0 | 20.0 | new | 1.00 |  |\n",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no\n%s in\n%s", want, &table)
		}
	}
	if strings.Contains(table.String(), "time |") || marked != 2 {
		t.Errorf("%d rows are marked, want 2, or another peer is compared, in\n%s", marked, &table)
	}
	if err := r.Worse(); err == nil || err.Error() != "2 rows are worse than the best commit by more than 10 %" {
		t.Errorf("error %v", err)
	}
	r.Short = true // is too short to tell
	if err := r.Worse(); err != nil {
		t.Errorf("error %v of a short run", err)
	}
	r.Short, r.Against = false, "old"
	if err := r.Worse(); err != nil {
		t.Errorf("error %v of one commit", err)
	}
}

// A range has two digits at each end, and one number if these are the same.
func TestSpan(t *testing.T) {
	for want, values := range map[string][]float64{
		"":             nil,
		"1.9":          {1.91, 1.88, 1.94},
		"28 to 41":     {40.7, 27.71, 41.2},
		"1000 to 1500": {1493, 1000},
		"0.12 to 10":   {9.96, 0.123},
		"9.9 to 100":   {9.94, 99.6},
	} {
		if got := span(values); got != want {
			t.Errorf("%v: %q, want %q", values, got, want)
		}
	}
}
