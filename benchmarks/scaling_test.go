package main

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestDoublings(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 3: {1, 2, 3}, 6: {1, 2, 4, 6}, 8: {1, 2, 4, 8}, 9: {1, 2, 4, 8, 9}} {
		if got := doublings(n); !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

// Each chart has a line of this library, one of package time and one of the floor.
func TestScalingCells(t *testing.T) {
	r := newResult(true, 1)
	if err := r.plan(scalingCells, []int{1}); err != nil {
		t.Fatal(err)
	}
	charts := 0
	for _, w := range workloads {
		var classes []string
		for _, l := range r.lines(w) {
			classes = append(classes, l.class)
		}
		if classes == nil {
			continue
		}
		charts++
		if got := strings.Join(classes, " "); got != "ours time floor" {
			t.Errorf("%s: %s", w.name, got)
		}
	}
	if charts != 10 || len(r.Cells) != 1+2*charts {
		t.Errorf("%d charts, %d cells; want 10 and 21", charts, len(r.Cells))
	}
}

// scalingExample returns a result for 1, 2 and 4 processors, which was not measured in this order.
func scalingExample() *result {
	r := newResult(false, 1)
	r.CPU = "<b> & co"
	add := func(work, peer string, procs int, metrics map[string]float64, fault string) {
		c := &cell{Workload: work, Peer: peer, Procs: procs, Runs: []outcome{{Metrics: metrics, Fault: fault}}}
		r.Cells = append(r.Cells, c)
	}
	add("floor", "floor", 4, map[string]float64{"large-new-parallel": 10, "new-parallel": 10}, "")
	add("schedule-cancel-parallel", "hashedwheel", 4, map[string]float64{"wall": 50, "cpu": 200}, "")
	add("schedule-cancel-parallel", "hashedwheel", 1, map[string]float64{"wall": 100}, "")
	add("schedule-cancel-parallel", "time", 1, map[string]float64{"wall": 1000}, "")
	add("schedule-cancel-parallel", "time", 2, map[string]float64{"wall": 1e6}, "lost 1 <of> 2")
	add("schedule-cancel-parallel", "gost", 1, map[string]float64{"wall": 1e6}, "")
	add("fire", "hashedwheel", 2, map[string]float64{"rate": 20}, "")
	r.summarize()
	return r
}

// The scale of the first chart is 1 to 1000 ns, 80 pixels a decade, upward from 300. Each doubling is 320 pixels. The
// scale of the second chart is 10 to 100 ns, because the rate means 50 ns.
func TestScalingPage(t *testing.T) {
	page, err := scalingExample().scalingPage()
	if err != nil {
		t.Fatal(err)
	}
	var shapes, texts []string
	for _, e := range elements(t, page) {
		switch e.name {
		case "polyline":
			shapes = append(shapes, e.at["class"]+": "+e.at["points"])
		case "circle":
			shapes = append(shapes, e.at["class"]+" "+e.at["cx"]+","+e.at["cy"])
		case "th", "td":
			texts = append(texts, e.text)
		case "script", "link", "img":
			t.Errorf("%v, but the page has to stand alone", e)
		}
	}
	want := []string{
		"ours 80.0,140.0", "ours 720.0,164.1", "line ours: 80.0,140.0 720.0,164.1",
		"time 80.0,60.0", "line time: 80.0,60.0",
		"floor 720.0,220.0", "line floor: 720.0,220.0",
		"ours 400.0,132.2", "line ours: 400.0,132.2", "line floor: ",
	}
	if !reflect.DeepEqual(shapes, want) {
		t.Errorf("%q, want %q", shapes, want)
	}
	want = []string{
		"processors", "hashedwheel, ns/op", "package time, ns/op", "floor, ns/op",
		"1", "100", "1000", "", "2", "", "lost 1 <of> 2", "", "4", "50.0, CPU 200", "", "10.0",
		"processors", "hashedwheel, ns/op", "floor, ns/op", "1", "", "", "2", "50.0", "", "4", "", "",
	}
	if !reflect.DeepEqual(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
	if !strings.Contains(string(page), "processors of &lt;b&gt; &amp; co.") {
		t.Error("the name of the processor is missing, or not escaped")
	}
	if _, err := example().scalingPage(); err == nil || !strings.Contains(err.Error(), "no cell of these workloads") {
		t.Errorf("without numbers of processors: error %v", err)
	}
}

// The command measures with each number of processors, and draws the same page again from the result. The processes
// that measure take real time.
func TestScaling(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	dir, again := filepath.Join(t.TempDir(), "new"), t.TempDir()
	if err := program([]string{"-scaling", dir, "-short", "-only", "^cancel-by-other/(hashedwheel|time)$"}); err != nil {
		t.Fatal(err)
	}
	r, err := readResult(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	w, _ := findWorkload("cancel-by-other")
	for _, l := range r.lines(w) {
		if l.points[1] <= 0 || l.points[2] <= 0 {
			t.Errorf("%s: %v, want a point for 1 and one for 2 processors", l.name, l.points)
		}
	}
	if err := program([]string{"-draw", filepath.Join(dir, "result.json"), "-scaling", again}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"result.json", "scaling.html"} {
		first, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if second, err := os.ReadFile(filepath.Join(again, file)); err != nil || string(first) != string(second) {
			t.Errorf("%s: error %v, or it is not the same again", file, err)
		}
	}
}
