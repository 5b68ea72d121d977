package work

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// Each step comes at its time. After a step that takes too long, paced catches up and returns the delay.
func TestPaced(t *testing.T) {
	for _, tt := range []struct {
		slow   int // the step that takes 35 ms
		at     []time.Duration
		behind time.Duration
	}{
		{-1, []time.Duration{0, 10 * ms, 20 * ms, 30 * ms, 40 * ms}, 0},
		{1, []time.Duration{0, 10 * ms, 45 * ms, 45 * ms, 45 * ms}, 25 * ms},
		{4, []time.Duration{0, 10 * ms, 20 * ms, 30 * ms, 40 * ms}, 25 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var at []time.Duration
			behind := paced(5, 10*ms, func(i int) {
				if i != len(at) {
					t.Errorf("step %d after %d", i, len(at))
				}
				at = append(at, time.Since(start))
				if i == tt.slow {
					time.Sleep(35 * ms)
				}
			})
			if !slices.Equal(at, tt.at) || behind != tt.behind {
				t.Errorf("slow at %d: %v, %v behind; want %v, %v", tt.slow, at, behind, tt.at, tt.behind)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		f := &flags{ran: make([]atomic.Uint64, n)}
		for i := range n { // the last flag is set first
			time.AfterFunc(time.Duration(n-i)*10*ms+50*time.Microsecond, f.task(i))
		}
		start := time.Now()
		progress := -1
		if !f.await(2*time.Second, func(set int) { progress = set }) {
			t.Error("not all")
		}
		if took := time.Since(start); took != n*10*ms+200*time.Microsecond || progress != 0 {
			t.Errorf("took %v, the last was seen missing at %d", took, progress)
		}
		if first := time.Duration(f.first.Load()); first != start.Sub(epoch)+10*ms+50*time.Microsecond {
			t.Errorf("first after %v", first-start.Sub(epoch))
		}
		f.task(7)()
		if f.count(1) != n || f.count(2) != 1 {
			t.Errorf("%d ran, %d of them twice", f.count(1), f.count(2))
		}
	})
}

// A task counts as lost if it does not run in time.
func TestFlagsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flags{ran: make([]atomic.Uint64, 100)}
		for i := 1; i < 100; i++ {
			time.AfterFunc(time.Duration(i)*10*ms, f.task(i))
		}
		start := time.Now()
		if f.await(2*time.Second, func(int) {}) {
			t.Error("all")
		}
		if took := time.Since(start); took != 2*time.Second+200*time.Microsecond {
			t.Errorf("took %v", took)
		}
		if n := f.count(1); n != 99 {
			t.Errorf("%d ran", n)
		}
	})
}

// recording has no timeouts. It records which handles were made and canceled. One goroutine may arm and another
// cancel.
type recording struct {
	peers.Time
	made, canceled []peers.Handle
}

func (r *recording) After(time.Duration, func()) peers.Handle {
	h := peers.Handle(len(r.made))
	r.made = append(r.made, h)
	return h
}

func (r *recording) Cancel(h peers.Handle) bool {
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
