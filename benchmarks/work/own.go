package work

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
	"github.com/hashedwheel/hashedwheel/clock"
)

// own has workloads of this library only. They run where its commits are compared. So they call only methods that all
// commits of best-commits.txt have.
var own = []*Workload{
	{Name: "own-later", Title: "Schedule, and cancel {n} operations later", n: [2]int{4096, 64}, parallel: true, run: runLater},
	{Name: "own-much-later", Title: "Schedule, and cancel {n} operations later", n: [2]int{1e5, 1000}, parallel: true, run: runLater},
	{Name: "own-limit", Title: "Schedule and cancel with a limit of pending timeouts", run: func(b *bench) {
		b.timer = peers.NewWheel(b.work.tick, hashedwheel.WithMaxPending(1e6))
		runScheduleCancel(b)
	}},
	{Name: "own-group", Title: "Schedule and cancel in a Group", run: each(func(t *hashedwheel.Timer) func() {
		g := hashedwheel.NewGroup(t)
		return func() {
			to, _ := g.AfterFunc(10*time.Second, nop)
			to.Cancel()
		}
	})},
	{Name: "own-placed", Title: "Cancel one of {n} in their buckets, and schedule another", n: [2]int{1e5, 1000}, tick: 10 * ms,
		run: turn(func(t peers.Timer, h peers.Handle, _ time.Duration) peers.Handle {
			t.Cancel(h)
			return t.After(10*time.Minute, nop)
		})},
	{Name: "own-anywhere", Title: "Reset one of {n} to any deadline in 1 to 9 minutes", n: [2]int{1e5, 1000},
		run: turn(func(t peers.Timer, h peers.Handle, d time.Duration) peers.Handle { return t.Reset(h, d, nop) })},
	{Name: "own-clock-stop", Title: "NewTimer and Stop of package clock", parallel: true, run: each(func(t *hashedwheel.Timer) func() {
		c := clock.New(t)
		return func() { c.NewTimer(10 * time.Second).Stop() }
	})},
	{Name: "own-clock-reset", Title: "Reset of a timer of package clock", run: each(func(t *hashedwheel.Timer) func() {
		timer := clock.New(t).NewTimer(10 * time.Second)
		return func() { timer.Reset(10 * time.Second) }
	})},
	{Name: "own-stats", Title: "Stats", run: each(func(t *hashedwheel.Timer) func() { return func() { t.Stats() } })},
	{Name: "own-count", Title: "Pending", run: each(func(t *hashedwheel.Timer) func() { return func() { t.Pending() } })},
	{Name: "own-repeat", Title: "{n} tasks at a fixed rate of 1 ms", n: [2]int{1000, 50}, tick: ms, run: runRepeat, Metrics: cpuMetrics},
	{Name: "own-alone", Title: "A task without a delay, alone, at a tick of 1 ms", tick: ms, run: each(func(t *hashedwheel.Timer) func() {
		done := make(chan bool)
		return func() {
			t.AfterFunc(0, func() { done <- true })
			<-done
		}
	})},
	{Name: "own-stop", Title: "Stop with {n} pending", n: [2]int{1e6, 1e4}, run: runStop, Metrics: cpuMetrics},
	{Name: "own-storm", Title: "Lateness while 32 goroutines cancel {n} operations later, at a tick of 10 ms", About: stormAbout,
		n: [2]int{256, 16}, tick: 10 * ms, run: runStormLater, Metrics: stormMetrics},
	{Name: "own-storm-1ms", Title: "Lateness while 32 goroutines cancel {n} operations later, at a tick of 1 ms", About: stormAbout,
		n: [2]int{4096, 16}, tick: ms, run: runStormLater, Metrics: stormMetrics},
	{Name: "own-waits", Title: "Lateness while {n} calls of WaitRunning return", About: "one each 0.1 ms; " + probeAbout,
		n: [2]int{1e4, 100}, tick: 10 * ms, run: runWaits, Metrics: lateMetrics[3:]},
}

// library returns the timer that a workload of own measures.
func (b *bench) library() *hashedwheel.Timer { return b.timer.(peers.Wheel).Timer }

// each returns a workload that measures an operation. All its goroutines call the same one.
func each(op func(*hashedwheel.Timer) func()) func(*bench) {
	return func(b *bench) {
		f := op(b.library())
		b.ops(func(int) func() { return f })
	}
}

// turn returns a workload that calls op with one pending timeout after another, in an order that is not that of memory. op
// gets a delay too, and returns the timeout to use from then on.
func turn(op func(t peers.Timer, h peers.Handle, d time.Duration) peers.Handle) func(*bench) {
	return func(b *bench) {
		handles, i := b.pending(b.size()), 0
		b.ops(func(int) func() {
			return func() {
				i++
				h := &handles[i*7919%len(handles)]
				spread := uint64(i) * 2654435761 % 1e9 // a random number would cost more
				*h = op(b.timer, *h, time.Minute+500*time.Duration(spread))
			}
		})
	}
}

func runLater(b *bench) { b.ops(b.cancelLater(b.goroutines())) }

func runRepeat(b *bench) {
	var ran atomic.Int64
	for range b.size() {
		b.library().ScheduleAtFixedRate(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { ran.Add(1) }), 0, ms)
	}
	time.Sleep(pick(b, 200*ms, 20*ms))
	before, m := ran.Load(), b.meter()
	time.Sleep(pick(b, time.Second, 50*ms))
	m.stop(int(ran.Load() - before))
}

func runStop(b *bench) {
	b.pending(b.size())
	m := b.meter()
	if n := len(b.library().Stop()); n != b.size() {
		b.failf("Stop returned %d of %d", n, b.size())
	}
	m.stop(b.size())
}

// runWaits ends one task after another. For each of them, a goroutine waits.
func runWaits(b *bench) {
	b.doing("start the tasks")
	handles, ends := make([]peers.Handle, b.size()), make([]chan bool, b.size())
	var begun sync.WaitGroup
	begun.Add(b.size())
	for i := range ends {
		ends[i] = make(chan bool)
		handles[i] = b.timer.After(0, func() { begun.Done(); <-ends[i] })
	}
	begun.Wait()
	for _, h := range handles {
		go peers.WaitRunning(context.Background(), h)
	}
	time.Sleep(100 * ms)
	b.storm(func(time.Duration) (int, time.Duration) {
		start := time.Now()
		for _, end := range ends {
			close(end)
			time.Sleep(100 * time.Microsecond)
		}
		return len(ends), time.Since(start)
	})
}
