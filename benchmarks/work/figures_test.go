package work

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// Each workload gives all the figures of its table, for this library and package time. Its process has the other memory
// that it says. Kept timeouts are not allocated again, except in the RPC mix, because a garbage collection empties the
// pool. The cells use all processors, so they run one after another. Otherwise the time limit could end them.
func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute; it runs without -short, and benchmarks -short runs each workload too")
	}
	for _, w := range List {
		for _, p := range w.Peers() {
			if !p.Ours && !strings.HasPrefix(p.Name, "time") {
				continue
			}
			t.Run(w.Name+"/"+p.Name, func(t *testing.T) {
				out := testFigures(t, w, p)
				if peak, ok := out.Metrics["peak"]; ok && w.heap > 0 && peak < 256 {
					t.Errorf("a peak of %.0f MB with 256 MB of other memory", peak)
				}
				if b := out.Metrics["allocated"]; strings.HasPrefix(w.Name, "reuse-") && p.Kept && b > 24 {
					t.Errorf("%v B/op: a new one each time", b)
				}
			})
		}
	}
}

// testFigures runs a cell. It must have no fault, and must give all the figures of its table.
func testFigures(t *testing.T, w *Workload, p peers.Peer) Outcome {
	out := run(t, w.Name, p.Name)
	if out.Fault != "" {
		t.Fatalf("fault %q", out.Fault)
	}
	for _, m := range w.Metrics {
		v, ok := out.Metrics[m.Name]
		if m.Name == "floors" || m.Name == "full" || m.Name == "worker" {
			continue // computed later; only for this library, and if there are samples
		}
		if zero := slices.Contains([]string{"slow"}, m.Name); !ok || v < 0 || v == 0 && !zero {
			t.Errorf("%s: %v, %v", m.Name, v, ok)
		}
	}
	return out
}

// Each cell that has a floor finds it among the figures of the floor.
func TestFloorsAreMeasured(t *testing.T) {
	out := testFigures(t, List[0], floorPeer)
	for _, w := range List {
		for _, p := range w.Peers() {
			if metric := w.FloorMetric(p); !w.Floor && !w.own() && !w.caches && !(out.Metrics[metric] > 0) {
				t.Errorf("%s/%s: no floor %q", w.Name, p.Name, metric)
			}
		}
	}
	for _, name := range []string{"", "-parallel"} {
		if out.Metrics["large-new"+name] > out.Metrics["new"+name] {
			t.Errorf("the floor of any heap is above that of a small one: %v", out.Metrics)
		}
	}
}

// Where timeouts are kept, package time has a row for timers that are reused, unless its timers are reset anyway. A
// workload with other memory has this library and package time. The workloads of own have this library, and those of caches
// have caches.
func TestPeers(t *testing.T) {
	for _, w := range List {
		var names []string
		for _, p := range w.Peers() {
			if strings.HasPrefix(p.Name, "fake") {
				continue
			}
			names = append(names, p.Name)
			if w.caches {
				continue
			}
			if _, ok := p.Make(ms).(peers.Keeper); ok != p.Kept {
				t.Errorf("%s: kept %v, a keeper %v", p.Name, p.Kept, ok)
			}
			if _, ok := p.Make(ms).(peers.Deadliner); ok != p.Deadlines {
				t.Errorf("%s: deadlines %v, a deadliner %v", p.Name, p.Deadlines, ok)
			}
		}
		want := slices.Contains(names, "hashedwheel, embedded") && w.except == ""
		if got := slices.Contains(names, "time, reused"); got != want {
			t.Errorf("%s: %v", w.Name, names)
		}
		if w.own() && !slices.Equal(names, []string{"hashedwheel"}) {
			t.Errorf("%s: %v", w.Name, names)
		}
		if !w.Floor && !w.own() && !w.caches && !slices.Contains(names, "time") {
			t.Errorf("%s: no row for package time", w.Name)
		}
		if w.caches && !slices.Equal(names, []string{"hashedwheel, keyed", "ttlcache", "otter", "go-cache"}) {
			t.Errorf("%s: %v", w.Name, names)
		}
		if w.heap > 0 && !slices.Equal(names, []string{"hashedwheel", "time"}) {
			t.Errorf("%s: %v", w.Name, names)
		}
	}
}

// The profile tells the worker's part of the CPU time. Timeouts that nobody cancels all go through the worker.
func TestWorkersPart(t *testing.T) {
	p, _ := FindPeer("hashedwheel")
	b := &bench{peer: p, work: &Workload{tick: 10 * ms}, short: true, timer: p.Make(10 * ms)}
	b.out.Metrics = map[string]float64{}
	m := b.meter()
	n, _ := loop(1, 500*ms, func(int) func() { return func() { b.timer.After(300*ms, nop) } })
	b.settle()
	m.stop(n)
	cpu, worker, full := b.out.Metrics["cpu"], b.out.Metrics["worker"], b.out.Metrics["full"]
	if !(worker > cpu/50) || worker > cpu*0.9 || math.Abs(worker*full-1000) > 1 {
		t.Errorf("%v ns of %v ns, full at %v M/s", worker, cpu, full)
	}
}

// The workloads of own run only where commits are compared. They have no floor and no chart.
func TestOwn(t *testing.T) {
	all := regexp.MustCompile("")
	count := func(commits bool) (n int) {
		for _, c := range Plan(all, nil, commits) {
			if w, ok := Find(c.Workload); ok && w.own() {
				n++
				if w.Chart || w.FloorMetric(peers.All[0]) != "" {
					t.Errorf("%s has a chart or a floor", w.Name)
				}
			}
		}
		return n
	}
	if ordinary, compared := count(false), count(true); ordinary != 0 || compared != len(own) {
		t.Errorf("%d in a run of all peers, %d where commits are compared, want 0 and %d", ordinary, compared, len(own))
	}
}
