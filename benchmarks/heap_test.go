package main

import (
	"slices"
	"strings"
	"testing"
)

// The workloads with 256 MB of other memory have that memory. They give all the figures of their tables, for this
// library and package time.
func TestBesideHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute; it runs without -short, and benchmarks -short runs each workload too")
	}
	var names []string
	for _, w := range workloads {
		if w.heap == 0 {
			continue
		}
		names = append(names, w.name)
		for _, name := range []string{"hashedwheel", "time"} {
			p, _ := findPeer(name)
			if w.cannot(p) != "" {
				continue
			}
			t.Run(w.name+"/"+name, func(t *testing.T) {
				out := testFigures(t, w, name)
				if peak, ok := out.Metrics["peak"]; ok && peak < 256 {
					t.Errorf("a peak of %.0f MB with 256 MB of other memory", peak)
				}
			})
		}
	}
	want := []string{
		"schedule-cancel-serial-heap", "schedule-cancel-parallel-heap", "schedule-cancel-parallel-limit-heap",
		"cancel-by-other-heap", "reuse-serial-heap", "reuse-parallel-heap", "rpc-heap", "rpc-pooled-heap",
		"storm-at-once-heap", "storm-later-heap", "storm-by-other-heap",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the workloads with other memory are %q, want %q", names, want)
	}
}

// A workload with 256 MB of other memory has the same peers as the one without. The storms have fewer, because
// they take long.
func TestPeersBesideHeap(t *testing.T) {
	for _, w := range workloads {
		if w.heap == 0 {
			continue
		}
		without, ok := findWorkload(strings.TrimSuffix(w.name, "-heap"))
		if !ok {
			t.Fatalf("%s: no workload without the other memory", w.name)
		}
		want := peerNames(without)
		if strings.HasPrefix(w.name, "storm-") {
			want = []string{"hashedwheel", "time"}
		}
		if got := peerNames(w); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", w.name, got, want)
		}
	}
}

func peerNames(w *workload) (names []string) {
	for _, p := range w.peers() {
		names = append(names, p.name)
	}
	return names
}

// Package time has a row for reused timers where others have one for kept timeouts, except in reset-*, where its
// timers are reset anyway.
func TestTimeReused(t *testing.T) {
	for _, w := range workloads {
		names := peerNames(w)
		want := slices.Contains(names, "hashedwheel, embedded") && !strings.HasPrefix(w.name, "reset-")
		if got := slices.Contains(names, "time, reused"); got != want {
			t.Errorf("%s: %v", w.name, got)
		}
		if !w.floor && !slices.Contains(names, "time") {
			t.Errorf("%s: no row for package time", w.name)
		}
	}
}
