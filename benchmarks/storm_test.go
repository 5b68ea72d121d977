package main

import (
	"slices"
	"testing"
	"time"
)

// The workloads about cancellation give all the figures of their tables, for this library and package time. They
// use all processors, so they run one after another. Otherwise the time limit could end them.
func TestCancellation(t *testing.T) {
	for _, w := range []string{
		"schedule-cancel-parallel-limit", "cancel-by-other", "storm-at-once", "storm-later", "storm-by-other", "storm-latency",
	} {
		work, ok := findWorkload(w)
		if !ok {
			t.Fatalf("no workload %q", w)
		}
		for _, name := range []string{"hashedwheel", "time"} {
			p, _ := findPeer(name)
			if work.cannot(p) != "" {
				continue
			}
			t.Run(w+"/"+name, func(t *testing.T) { testFigures(t, work, name) })
		}
	}
}

// testFigures runs a cell. It must have no fault, and must give all the figures of its table.
func testFigures(t *testing.T, w *workload, peer string) outcome {
	out, err := runProcess(t.Context(), "", w.name, peer, 0, true)
	if err != nil || out.Fault != "" {
		t.Fatalf("fault %q, error %v", out.Fault, err)
	}
	for _, m := range w.metrics {
		v, ok := out.Metrics[m.name]
		if m.name == "floors" {
			continue // computed later, not by the cell
		}
		if zero := m.name == "live" || m.name == "slow"; !ok || v < 0 || v == 0 && !zero {
			t.Errorf("%s: %v, %v", m.name, v, ok)
		}
	}
	return out
}

// A peer without a limit cannot take part. A peer with one gets the limit of the workload.
func TestLimitIsForPeersThatHaveOne(t *testing.T) {
	w, _ := findWorkload("schedule-cancel-parallel-limit")
	for _, p := range peers {
		if can := w.cannot(p) == ""; can != p.limits {
			t.Errorf("%s: %q", p.name, w.cannot(p))
		}
	}
	timer := newHashedwheel(options{tick: wheelsTick, maxPending: 1}).(hashedwheelTimer)
	defer timer.Stop()
	timer.After(time.Hour, nop)
	if _, err := timer.AfterFunc(time.Hour, nop); err == nil {
		t.Error("no limit")
	}
}

// recording has no timeouts. It records which handles were made and canceled. One goroutine may arm and another
// cancel.
type recording struct {
	timeTimer
	made, canceled []handle
}

func (r *recording) After(time.Duration, func()) handle {
	h := handle(len(r.made))
	r.made = append(r.made, h)
	return h
}

func (r *recording) Cancel(h handle) bool {
	r.canceled = append(r.canceled, h)
	return true
}

// Each handle is canceled once, in the order in which it was made, and counted.
func TestHandOver(t *testing.T) {
	r := new(recording)
	n, took := (&bench{timer: r}).handOver(1, 10*ms)
	if n == 0 || n != len(r.made) || !slices.Equal(r.made, r.canceled) {
		t.Errorf("%d, %d made, %d canceled, or in another order", n, len(r.made), len(r.canceled))
	}
	if took < 10*ms {
		t.Errorf("took %v", took)
	}
}

func TestDurations(t *testing.T) {
	var a, b, all durations
	if d := all.exceededBy(0); d != 0 {
		t.Errorf("nothing: %v", d)
	}
	for range 98 {
		a.add(50)
	}
	a.add(250 * time.Microsecond)
	b.add(ms)
	b.add(2*ms + 1)
	b.add(durationEnd - 1)
	b.add(durationEnd)
	b.add(time.Second)
	all.merge(&a)
	all.merge(&b)
	if all.count != 104 || all.slow != 4 || all.over != 2 || all.greatest != time.Second {
		t.Errorf("%d calls, %d slow, %d over, greatest %v", all.count, all.slow, all.over, all.greatest)
	}
	for n, want := range map[int]time.Duration{
		0:   durationEnd,
		1:   durationEnd,
		2:   durationEnd,
		3:   2*ms + durationStep,
		4:   ms + durationStep,
		5:   250*time.Microsecond + durationStep,
		6:   durationStep,
		103: durationStep,
		104: 0,
	} {
		if d := all.exceededBy(n); d != want {
			t.Errorf("exceeded by %d: %v, want %v", n, d, want)
		}
	}
}
