package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fakes are peers with one fault each.
var fakes = []peer{
	{name: "fake that panics", cancels: true, make: func(options) timer { return panicking{} }},
	{name: "fake that hangs", cancels: true, make: func(options) timer { return hanging{} }},
	{name: "fake that grows", cancels: true, make: func(options) timer { return growing{} }},
	{name: "fake that is early", cancels: true, make: func(options) timer { return early{} }},
	{name: "fake that loses", cancels: true, rearms: true, make: func(options) timer { return losing{armed: new(atomic.Int64)} }},
	{name: "fake that repeats", cancels: true, make: func(options) timer { return repeating{} }},
	{name: "fake that forgets to cancel", cancels: true, rearms: true, make: func(options) timer { return forgetting{} }},
	{name: "fake that forgets to reset", cancels: true, make: func(options) timer { return unmoved{} }},
	{name: "fake that stalls", cancels: true, make: func(options) timer { return &stalling{} }},
	{name: "fake that arms once", cancels: true, rearms: true, kept: true, make: func(options) timer { return once{} }},
	{name: "fake that does not stop", cancels: true, stops: true, make: newTime},
	{name: "fake that counts processors", cancels: true, make: func(options) timer {
		panic(fmt.Sprintf("%d processors", runtime.GOMAXPROCS(0)))
	}},
	{name: "fake that is interrupted", cancels: true, make: func(o options) timer {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Signal(os.Interrupt)
		}
		if err != nil {
			panic(err)
		}
		time.Sleep(10 * time.Millisecond)
		return newTime(o)
	}},
	{name: "fake that exits", cancels: true, make: func(options) timer { os.Exit(3); return nil }},
}

type panicking struct{ timeTimer }

func (panicking) After(time.Duration, func()) handle { panic("out of order") }

type hanging struct{ timeTimer }

func (hanging) After(time.Duration, func()) handle { select {} }

// growing only takes address space, because it does not write to the memory.
type growing struct{ timeTimer }

func (growing) After(time.Duration, func()) handle {
	size := uint64(memoryLimit + 1<<20) // as a constant it would not compile for 32 bits
	hold := make([]byte, size)
	time.Sleep(time.Hour)
	return &hold[0]
}

type early struct{ timeTimer }

// After makes the timeout so short that it is early even if the goroutines of a storm delay it.
func (early) After(d time.Duration, f func()) handle { return time.AfterFunc(d/100, f) }

type losing struct {
	timeTimer
	armed *atomic.Int64
}

// After loses one of five. Which of the five changes after each hundred, because in the RPC mix of one goroutine
// only every hundredth request is left to fire.
func (t losing) After(d time.Duration, f func()) handle {
	if n := t.armed.Add(1) - 1; n%5 == n/100%5 {
		f = nop
	}
	return t.timeTimer.After(d, f)
}

type repeating struct{ timeTimer }

func (t repeating) After(d time.Duration, f func()) handle {
	return t.timeTimer.After(d, func() { f(); f() })
}

type forgetting struct{ timeTimer }

func (forgetting) Cancel(handle) bool { return true }

type unmoved struct{ timeTimer }

func (unmoved) Reset(h handle, _ time.Duration, _ func()) handle { return h }

// In stalling one call takes half a second.
type stalling struct {
	timeTimer
	armed int
}

func (t *stalling) After(d time.Duration, f func()) handle {
	if t.armed++; t.armed == 5000 {
		time.Sleep(500 * ms)
	}
	return t.timeTimer.After(d, f)
}

// once keeps timeouts, but does not arm a timeout again after it has ended.
type once struct{ timeReused }

func (once) Reset(h handle, d time.Duration, _ func()) handle {
	if t := h.(*time.Timer); !t.Reset(d) {
		t.Stop()
	}
	return h
}

// TestMain makes this binary run a cell if it is asked to, as the program does. It gives a cell more time, because
// tests run on busy machines.
func TestMain(m *testing.M) {
	peers = append(peers, fakes...)
	shortLimit = 10 * time.Second
	if spec := os.Getenv(cellEnv); spec != "" {
		runCell(spec)
		return
	}
	os.Exit(m.Run())
}

// The designs are correct, so that their figures are those of correct timers.
func TestCheck(t *testing.T) {
	for _, p := range peers {
		if !strings.HasSuffix(p.name, " design") && !strings.HasPrefix(p.name, "hashedwheel") && !strings.HasPrefix(p.name, "time") {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			out, err := runProcess(t.Context(), "", "check", p.name, 0, true)
			if err != nil || out.Fault != "" {
				t.Errorf("fault %q, error %v", out.Fault, err)
			}
			if len(out.Metrics) == 0 {
				t.Error("no figures")
			}
		})
	}
}

func TestFaultsAreShown(t *testing.T) {
	for peer, want := range map[string]string{
		"fake that panics":            "crashed: panic: out of order",
		"fake that hangs":             "deadlock: idle after 10s",
		"fake that grows":             "more than 6 GiB of memory",
		"fake that is early":          "early by up to ",
		"fake that loses":             "lost ",
		"fake that repeats":           "twice",
		"fake that forgets to cancel": "100 of 100 fired though canceled",
		"fake that does not stop":     "100 of 100 fired after Stop",
		"fake that exits":             "crashed: exit status 3",
	} {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			testFault(t, "check", peer, want)
		})
	}
}

// The workloads notice the same faults as the check.
func TestWorkloadsNoticeFaults(t *testing.T) {
	for cell, want := range map[string]string{
		"rpc/fake that forgets to cancel":        "fired though canceled",
		"rpc/fake that loses":                    "lost ",
		"rpc-pooled/fake that forgets to cancel": "fired though canceled",
		"rpc-pooled/fake that loses":             "lost ",
		"rpc-pooled/fake that arms once":         "neither canceled nor fired",
		"fire/fake that is early":                "early by up to ",
		"fire/fake that loses":                   "lost 20000 of 100000",
		"fire/fake that repeats":                 "of 100000 twice",
		"heartbeat/fake that loses":              "lost ",
		"heartbeat/fake that forgets to reset":   "10000 of 10000 fired though they were reset in time",
		"heartbeat/fake that stalls":             "s behind",
		"burst/fake that is early":               "early by up to ",
		"burst/fake that loses":                  "lost ",
		"burst/fake that repeats":                "of 30000 twice",
		"burst/fake that stalls":                 "s behind",
		"late-10ms/fake that loses":              "lost ",
		"blocked/fake that is early":             "early by up to ",
		"flood-10ms/fake that is early":          "early by up to ",
		"storm-at-once/fake that is early":       "early by up to ",
		"reset-serial/fake that loses":           "did not fire",
	} {
		t.Run(cell, func(t *testing.T) {
			t.Parallel()
			work, peer, _ := strings.Cut(cell, "/")
			testFault(t, work, peer, want)
		})
	}
}

// testFault runs a cell, whose fault must be noticed. If another fault is noticed, it tries again, because on a busy
// machine a cell may fall behind.
func testFault(t *testing.T, work, peer, want string) {
	t.Helper()
	for range 5 {
		out, err := runProcess(t.Context(), "", work, peer, 0, true)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.Fault, want) {
			return
		}
		t.Logf("fault %q, want %q", out.Fault, want)
		if out.Fault == "" {
			break
		}
	}
	t.Error("not noticed")
}

// A cell that crashed or hung is not run again. A cell that a peer cannot run is not run at all.
func TestRounds(t *testing.T) {
	r := newResult(true, 2)
	if err := r.measure(context.Background(), regexp.MustCompile(`^check/(time|fake that panics)$|^rpc/siddontang$|^reuse-serial/netty design$`), nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		work, peer, verdict string
		runs                int
	}{
		{"floor", "floor", "", 2},
		{"check", "time", "", 2},
		{"check", "fake that panics", "crashed: panic: out of order", 1},
		{"rpc", "siddontang", "cannot: no cancel", 0},
		{"reuse-serial", "netty design", "cannot: a timeout is armed only once", 0},
	} {
		c := r.find(tt.work, tt.peer, 0)
		if c == nil {
			t.Errorf("%s/%s is missing", tt.work, tt.peer)
			continue
		}
		if len(c.Runs) != tt.runs || c.verdict() != tt.verdict {
			t.Errorf("%s/%s: %d runs, %q; want %d, %q", tt.work, tt.peer, len(c.Runs), c.verdict(), tt.runs, tt.verdict)
		}
	}
	if len(r.Cells) != 5 {
		t.Errorf("%d cells, want 5", len(r.Cells))
	}
}

// A terminal sends an interrupt to the process of the cell too. This process ignores it, because the program ends the
// process.
func TestCellIgnoresInterrupt(t *testing.T) {
	t.Parallel()
	out, err := runProcess(t.Context(), "", "check", "fake that is interrupted", 0, true)
	if err != nil || out.Fault != "" {
		t.Errorf("fault %q, error %v", out.Fault, err)
	}
}

// interrupter ends a run some time after the progress of a cell begins.
type interrupter struct {
	cell   string
	after  time.Duration
	cancel context.CancelFunc
}

func (w *interrupter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.cell) {
		time.AfterFunc(w.after, w.cancel)
	}
	return len(p), nil
}

// An interrupt ends the cell in progress, and that is not a fault of the cell. Only cells with results are shown.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	const hang, panics = "^check/(time|fake that hangs|fake that exits)$", "^check/(time|fake that panics)$|^rpc/siddontang$"
	for _, tt := range []struct {
		match, cell   string
		after         time.Duration
		cells, rounds int
		floor, time   int // their runs
	}{
		{hang, "round 1 of 2, 1 of 4: floor", 0, 0, 0, 0, 0},
		{hang, "round 1 of 2, 3 of 4: check, fake that hangs", time.Second, 2, 1, 1, 1},
		{panics, "round 2 of 2, 1 of 4: floor", 0, 4, 1, 1, 1},
		{panics, "round 2 of 2, 2 of 4: check, time", 0, 4, 2, 2, 1},
	} {
		t.Run(tt.cell, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var interrupted time.Time
			stop := func() { interrupted = time.Now(); cancel() }
			r := newResult(true, 2)
			err := r.measure(ctx, regexp.MustCompile(tt.match), nil, &interrupter{tt.cell, tt.after, stop})
			if took := time.Since(interrupted); took > shortLimit/2 {
				t.Errorf("the cell in progress ended %v after the interrupt", took)
			}
			if tt.rounds == 0 {
				if err == nil {
					t.Error("no error, although there is no result")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Cells) != tt.cells || r.Rounds != tt.rounds {
				t.Errorf("%d cells in %d rounds, want %d in %d", len(r.Cells), r.Rounds, tt.cells, tt.rounds)
			}
			if c := r.find("floor", "floor", 0); c == nil || len(c.Runs) != tt.floor {
				t.Errorf("floor: %+v", c)
			}
			if c := r.find("check", "time", 0); c == nil || len(c.Runs) != tt.time || c.Fault != "" {
				t.Errorf("time: %+v", c)
			}
		})
	}
}
