package work

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/aclements/go-moremath/stats"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// A shot is one timeout. It records when the timeout was due, how late it fired, and how often.
type shot struct {
	due   atomic.Int64 // nanoseconds since epoch
	late  atomic.Int64
	fired atomic.Int32
}

var epoch = time.Now()

func (s *shot) fire() {
	s.late.Store(int64(time.Since(epoch)) - s.due.Load())
	s.fired.Add(1)
}

// arm reads the clock before the call, so the duration of the call counts as lateness.
func (s *shot) arm(t peers.Timer, d time.Duration) {
	s.due.Store(int64(time.Since(epoch) + d))
	t.After(d, s.fire)
}

// newShots returns shots, and their methods fire.
func newShots(n int) (shots []*shot, tasks []func()) {
	for range n {
		s := new(shot)
		shots, tasks = append(shots, s), append(tasks, s.fire)
	}
	return shots, tasks
}

// finish waits for all shots and judges them.
func (b *bench) finish(shots []*shot, patience time.Duration) {
	b.doing("wait")
	await(shots, patience)
	b.setLateness(b.judge(shots))
}

// await waits until all shots have fired, but not for longer than patience after the last deadline.
func await(shots []*shot, patience time.Duration) {
	end := time.Since(epoch)
	for _, s := range shots {
		end = max(end, time.Duration(s.due.Load()))
	}
	end += patience
	for _, s := range shots {
		for s.fired.Load() == 0 && time.Since(epoch) < end {
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// judge records a fault if shots fired early, twice or not at all. It returns the sorted lateness of the shots
// that fired.
func (b *bench) judge(shots []*shot) []time.Duration {
	late := make([]time.Duration, 0, len(shots))
	early, lost, twice := 0, 0, 0
	for _, s := range shots {
		switch n := s.fired.Load(); {
		case n == 0:
			lost++
			continue
		case n > 1:
			twice++
		}
		l := time.Duration(s.late.Load())
		if l < 0 {
			early++
		}
		late = append(late, l)
	}
	slices.Sort(late)
	if lost > 0 {
		b.failf("lost %d of %d", lost, len(shots))
	}
	if twice > 0 {
		b.failf("fired %d of %d twice", twice, len(shots))
	}
	if early > 0 {
		b.failf("early by up to %.2g ms, %d of %d", -float64(late[0])/1e6, early, len(shots))
	}
	return late
}

// setLateness records the lateness figures of a workload.
func (b *bench) setLateness(late []time.Duration) {
	if len(late) == 0 {
		return
	}
	var s stats.Sample
	for _, l := range late {
		s.Xs = append(s.Xs, float64(l)/1e6)
	}
	s.Sort()
	for name, q := range map[string]float64{"min": 0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1} {
		b.set(name, s.Quantile(q))
	}
}
