package work

import (
	"bytes"
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

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// fakes are peers with one fault each.
var fakes = []peers.Peer{
	{Name: "fake that panics", Make: func(time.Duration) peers.Timer { return panicking{} }},
	{Name: "fake that hangs", Make: func(time.Duration) peers.Timer { return hanging{} }},
	{Name: "fake that grows", Make: func(time.Duration) peers.Timer { return growing{} }},
	{Name: "fake that is early", Make: func(time.Duration) peers.Timer { return early{} }},
	{Name: "fake that loses", Rearms: true, Make: func(time.Duration) peers.Timer { return losing{armed: new(atomic.Int64)} }},
	{Name: "fake that repeats", Make: func(time.Duration) peers.Timer { return repeating{} }},
	{Name: "fake that forgets to cancel", Rearms: true, Make: func(time.Duration) peers.Timer { return forgetting{} }},
	{Name: "fake that forgets to reset", Make: func(time.Duration) peers.Timer { return unmoved{} }},
	{Name: "fake that stalls", Make: func(time.Duration) peers.Timer { return &stalling{} }},
	{Name: "fake that arms once", Rearms: true, Kept: true, Make: func(time.Duration) peers.Timer { return once{} }},
	{Name: "fake that does not stop", Stops: true, Make: func(time.Duration) peers.Timer { return peers.Time{} }},
	{Name: "fake that counts processors", Make: func(time.Duration) peers.Timer {
		panic(fmt.Sprintf("%d processors", runtime.GOMAXPROCS(0)))
	}},
	{Name: "fake that is interrupted", Make: func(tick time.Duration) peers.Timer {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Signal(os.Interrupt)
		}
		if err != nil {
			panic(err)
		}
		time.Sleep(10 * time.Millisecond)
		return peers.Time{}
	}},
	{Name: "fake that exits", Make: func(time.Duration) peers.Timer { os.Exit(3); return nil }},
}

type panicking struct{ peers.Time }

func (panicking) After(time.Duration, func()) peers.Handle { panic("out of order") }

type hanging struct{ peers.Time }

func (hanging) After(time.Duration, func()) peers.Handle { select {} }

// growing only takes address space, because it does not write to the memory.
type growing struct{ peers.Time }

func (growing) After(time.Duration, func()) peers.Handle {
	size := uint64(memoryLimit + 1<<20) // as a constant it would not compile for 32 bits
	hold := make([]byte, size)
	time.Sleep(time.Hour)
	return &hold[0]
}

type early struct{ peers.Time }

// After makes the timeout so short that it is early even if the goroutines of a storm delay it.
func (early) After(d time.Duration, f func()) peers.Handle { return time.AfterFunc(d/100, f) }

type losing struct {
	peers.Time
	armed *atomic.Int64
}

// After loses one of five. Which of the five changes after each hundred, because in the RPC mix of one goroutine
// only every hundredth request is left to fire.
func (t losing) After(d time.Duration, f func()) peers.Handle {
	if n := t.armed.Add(1) - 1; n%5 == n/100%5 {
		f = nop
	}
	return t.Time.After(d, f)
}

type repeating struct{ peers.Time }

func (t repeating) After(d time.Duration, f func()) peers.Handle {
	return t.Time.After(d, func() { f(); f() })
}

type forgetting struct{ peers.Time }

func (forgetting) Cancel(peers.Handle) bool { return true }

type unmoved struct{ peers.Time }

func (unmoved) Reset(h peers.Handle, _ time.Duration, _ func()) peers.Handle { return h }

// In stalling one call takes half a second.
type stalling struct {
	peers.Time
	armed int
}

func (t *stalling) After(d time.Duration, f func()) peers.Handle {
	if t.armed++; t.armed == 5000 {
		time.Sleep(500 * ms)
	}
	return t.Time.After(d, f)
}

// once keeps timeouts, but does not arm a timeout again after it has ended.
type once struct{ peers.TimeReused }

func (once) Reset(h peers.Handle, d time.Duration, _ func()) peers.Handle {
	if t := h.(*time.Timer); !t.Reset(d) {
		t.Stop()
	}
	return h
}

// TestMain makes this binary run a cell if it is asked to, as the program does. It gives a cell more time, because
// tests run on busy machines.
func TestMain(m *testing.M) {
	peers.All = append(peers.All, fakes...)
	limits[1] = 10 * time.Second
	RunCell()
	os.Exit(m.Run())
}

// run runs a short cell in a process of its own.
func run(t *testing.T, work, peer string) Outcome {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := (&Cell{Workload: work, Peer: peer}).run(t.Context(), self, true)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// measure runs all cells that match.
func measure(ctx context.Context, match string, procs []int, rounds int, progress io.Writer) ([]*Cell, error) {
	cells, err := Plan(regexp.MustCompile(match), procs, "")
	if err != nil {
		return nil, err
	}
	return (&Rounds{Rounds: rounds, Short: true, Progress: progress}).Measure(ctx, cells)
}

func find(cells []*Cell, work, peer string, procs int) *Cell {
	for _, c := range cells {
		if c.Workload == work && c.Peer == peer && c.Procs == procs {
			return c
		}
	}
	return nil
}

// The designs are correct, so that their figures are those of correct timers.
func TestCheck(t *testing.T) {
	for _, p := range peers.All {
		if !strings.HasSuffix(p.Name, " design") && !strings.HasPrefix(p.Name, "hashedwheel") && !strings.HasPrefix(p.Name, "time") {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			out := run(t, "check", p.Name)
			if out.Fault != "" {
				t.Errorf("fault %q", out.Fault)
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
		out := run(t, work, peer)
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
	cells, err := measure(t.Context(), `^check/(time|fake that panics)$|^late-1ms/gost$|^reuse-serial/netty design$`, nil, 2, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		work, peer, fault, cannot string
		runs                      int
	}{
		{"floor", "floor", "", "", 2},
		{"check", "time", "", "", 2},
		{"check", "fake that panics", "crashed: panic: out of order", "", 1},
		{"late-1ms", "gost", "", "cannot: its tick is 10ms", 0},
		{"reuse-serial", "netty design", "", "cannot: a timeout is armed only once", 0},
	} {
		c := find(cells, tt.work, tt.peer, 0)
		if c == nil {
			t.Errorf("%s/%s is missing", tt.work, tt.peer)
			continue
		}
		if fault, _ := c.Faults(); len(c.Runs) != tt.runs || fault != tt.fault || c.Cannot != tt.cannot {
			t.Errorf("%s: %d runs, %q, %q; want %d, %q, %q", c.Label(), len(c.Runs), fault, c.Cannot, tt.runs, tt.fault, tt.cannot)
		}
	}
	if len(cells) != 5 {
		t.Errorf("%d cells, want 5", len(cells))
	}
}

// A terminal sends an interrupt to the process of the cell too. This process ignores it, because the program ends the
// process.
func TestCellIgnoresInterrupt(t *testing.T) {
	t.Parallel()
	if out := run(t, "check", "fake that is interrupted"); out.Fault != "" {
		t.Errorf("fault %q", out.Fault)
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
	const hang, panics = "^check/(time|fake that hangs|fake that exits)$", "^check/(time|fake that panics)$|^late-1ms/gost$"
	for _, tt := range []struct {
		match, cell string
		after       time.Duration
		cells       int
		floor, time int // their runs
	}{
		{hang, "round 1 of 2, 1 of 4: floor", 0, 0, 0, 0},
		{hang, "round 1 of 2, 3 of 4: check, fake that hangs", time.Second, 2, 1, 1},
		{panics, "round 2 of 2, 1 of 4: floor", 0, 4, 1, 1},
		{panics, "round 2 of 2, 2 of 4: check, time", 0, 4, 2, 1},
	} {
		t.Run(tt.cell, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var interrupted time.Time
			stop := func() { interrupted = time.Now(); cancel() }
			cells, err := measure(ctx, tt.match, nil, 2, &interrupter{tt.cell, tt.after, stop})
			if took := time.Since(interrupted); took > limits[1]/2 {
				t.Errorf("the cell in progress ended %v after the interrupt", took)
			}
			if tt.cells == 0 {
				if err == nil {
					t.Error("no error, although there is no result")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(cells) != tt.cells {
				t.Errorf("%d cells, want %d", len(cells), tt.cells)
			}
			if c := find(cells, "floor", "floor", 0); c == nil || len(c.Runs) != tt.floor {
				t.Errorf("floor: %+v", c)
			}
			if c := find(cells, "check", "time", 0); c == nil || len(c.Runs) != tt.time || c.Runs[0].Fault != "" {
				t.Errorf("time: %+v", c)
			}
		})
	}
}

// The process of a cell has the number of processors that its label says.
func TestProcs(t *testing.T) {
	var progress bytes.Buffer
	cells, err := measure(t.Context(), `^check/fake that counts processors$`, []int{3, 1}, 1, &progress)
	if err != nil {
		t.Fatal(err)
	}
	for procs, want := range map[int]string{1: "crashed: panic: 1 processors", 3: "crashed: panic: 3 processors"} {
		if c := find(cells, "check", "fake that counts processors", procs); c == nil || c.Runs[0].Fault != want {
			t.Errorf("%d processors: %+v, want %q", procs, c, want)
		}
		if f := find(cells, "floor", "floor", procs); f == nil || f.Runs[0].Metrics["new-parallel"] <= 0 {
			t.Errorf("%d processors: floor %+v", procs, f)
		}
	}
	for _, want := range []string{
		"1 of 4: floor, floor, GOMAXPROCS 3: ", "check, fake that counts processors, GOMAXPROCS 1: crashed",
	} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("no %q in\n%s", want, &progress)
		}
	}
}

func TestOnlyMatchesNothing(t *testing.T) {
	_, err := Plan(regexp.MustCompile("^no such"), nil, "")
	if err == nil || !strings.Contains(err.Error(), `-only: no cell (workload/peer) matches "^no such"`) {
		t.Errorf("error %v", err)
	}
	if cells, err := Plan(regexp.MustCompile("^floor/"), nil, ""); err != nil || len(cells) != 1 {
		t.Errorf("the floor alone: %d cells, error %v", len(cells), err)
	}
}
