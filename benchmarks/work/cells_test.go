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

// fakeCaches are caches with one fault each.
var fakeCaches = []peers.Peer{
	{Name: "fake that forgets", MakeCache: func(time.Duration) peers.Cache { return forgetful{} }},
	{Name: "fake that keeps", MakeCache: func(time.Duration) peers.Cache { return keeping{} }},
	{Name: "fake that is slow", MakeCache: func(time.Duration) peers.Cache { return slow{} }},
}

type forgetful struct{}

func (forgetful) Set(string, *peers.Value) {}

func (forgetful) Get(string) *peers.Value { return nil }

func (forgetful) Len() int { return 0 }

type keeping struct{ forgetful }

func (keeping) Get(string) *peers.Value { return new(peers.Value) }

func (keeping) Len() int { return 1 }

type slow struct{ forgetful }

func (slow) Set(key string, _ *peers.Value) {
	if strings.HasSuffix(key, "00000123") {
		time.Sleep(4 * time.Second)
	}
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
	peers.All, peers.Caches = append(peers.All, fakes...), append(peers.Caches, fakeCaches...)
	limits[1] = 10 * time.Second
	RunCell()
	os.Exit(m.Run())
}

// run runs a short cell in a process of its own.
func run(t *testing.T, work, peer string) Outcome {
	t.Helper()
	out, err := (&Cell{Workload: work, Peer: peer}).run(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// measure runs all cells that match.
func measure(ctx context.Context, match string, procs []int, rounds int, progress io.Writer) ([]*Cell, error) {
	cells := Plan(regexp.MustCompile(match), procs, false)
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
func TestDesignsAreCorrect(t *testing.T) {
	for _, work := range []string{"late-10ms", "rpc", "reset-serial", "heartbeat"} {
		for _, peer := range []string{"heap design", "netty design"} {
			t.Run(work+"/"+peer, func(t *testing.T) {
				if out := run(t, work, peer); out.Fault != "" {
					t.Errorf("fault %q", out.Fault)
				}
			})
		}
	}
}

// The workloads notice faults, and a cell that crashes or reaches a limit says so.
func TestFaultsAreNoticed(t *testing.T) {
	for cell, want := range map[string]string{
		"late-10ms/fake that panics":             "crashed: panic: out of order",
		"late-10ms/fake that hangs":              "not done after 10s: arm",
		"late-10ms/fake that grows":              "more than 6 GiB of memory",
		"late-10ms/fake that is early":           "early by up to ",
		"late-10ms/fake that loses":              "lost ",
		"late-10ms/fake that repeats":            "twice",
		"late-10ms/fake that exits":              "crashed: exit status 3",
		"rpc/fake that forgets to cancel":        "fired though canceled",
		"rpc/fake that loses":                    "lost ",
		"rpc-pooled/fake that forgets to cancel": "fired though canceled",
		"rpc-pooled/fake that loses":             "lost ",
		"rpc-pooled/fake that arms once":         "lost ",
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
		"blocked/fake that is early":             "early by up to ",
		"storm-at-once/fake that is early":       "early by up to ",
		"reset-serial/fake that loses":           "did not fire",
		"cache/fake that forgets":                "calls of Get did not find their keys",
		"cache-expiry/fake that forgets":         "early: ",
		"cache-expiry/fake that keeps":           "a tick after its deadline; 1 of 10000 keys are still in memory",
		"cache-expiry/fake that is slow":         "took too long to set the keys",
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

// A cell that crashed or hung is not run again. A peer that arms a timeout only once has no cell where it would have to
// arm it again.
func TestRounds(t *testing.T) {
	cells, err := measure(t.Context(), `^late-10ms/(time|fake that panics)$|^reuse-serial/netty design$`, nil, 2, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		work, peer, fault string
		runs              int
	}{
		{"floor", "floor", "", 2},
		{"late-10ms", "time", "", 2},
		{"late-10ms", "fake that panics", "crashed: panic: out of order", 1},
	} {
		c := find(cells, tt.work, tt.peer, 0)
		if c == nil {
			t.Errorf("%s/%s is missing", tt.work, tt.peer)
			continue
		}
		if fault, _ := c.Faults(); len(c.Runs) != tt.runs || fault != tt.fault {
			t.Errorf("%s: %d runs, %q; want %d, %q", c.Label(), len(c.Runs), fault, tt.runs, tt.fault)
		}
	}
	if len(cells) != 3 {
		t.Errorf("%d cells, want 3", len(cells))
	}
}

// A terminal sends an interrupt to the process of the cell too. This process ignores it, because the program ends the
// process.
func TestCellIgnoresInterrupt(t *testing.T) {
	t.Parallel()
	if out := run(t, "late-10ms", "fake that is interrupted"); out.Fault != "" {
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
	const hang, panics = "^late-10ms/(time|fake that hangs|fake that exits)$", "^late-10ms/(time|fake that panics)$"
	for _, tt := range []struct {
		match, cell string
		after       time.Duration
		cells       int
		floor, time int // their runs
	}{
		{hang, "round 1 of 2, 1 of 4: floor", 0, 0, 0, 0},
		{hang, "round 1 of 2, 3 of 4: late-10ms, fake that hangs", time.Second, 2, 1, 1},
		{panics, "round 2 of 2, 1 of 3: floor", 0, 3, 1, 1},
		{panics, "round 2 of 2, 2 of 3: late-10ms, time", 0, 3, 2, 1},
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
			if c := find(cells, "late-10ms", "time", 0); c == nil || len(c.Runs) != tt.time || c.Runs[0].Fault != "" {
				t.Errorf("time: %+v", c)
			}
		})
	}
}

// The process of a cell has the number of processors that its label says.
func TestProcs(t *testing.T) {
	var progress bytes.Buffer
	cells, err := measure(t.Context(), `^late-10ms/fake that counts processors$`, []int{3, 1}, 1, &progress)
	if err != nil {
		t.Fatal(err)
	}
	for procs, want := range map[int]string{1: "crashed: panic: 1 processors", 3: "crashed: panic: 3 processors"} {
		if c := find(cells, "late-10ms", "fake that counts processors", procs); c == nil || c.Runs[0].Fault != want {
			t.Errorf("%d processors: %+v, want %q", procs, c, want)
		}
		if f := find(cells, "floor", "floor", procs); f == nil || f.Runs[0].Metrics["new-parallel"] <= 0 {
			t.Errorf("%d processors: floor %+v", procs, f)
		}
	}
	for _, want := range []string{
		"1 of 4: floor, floor, GOMAXPROCS 3: ", "late-10ms, fake that counts processors, GOMAXPROCS 1: crashed",
	} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("no %q in\n%s", want, &progress)
		}
	}
}
