package main

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
)

func nop() {}

// pending arms n timeouts from 10 minutes to an hour ahead, and lets them get to their places.
func (b *bench) pending(n int) []handle {
	handles := make([]handle, n)
	for i := range handles {
		if i%1000 == 0 {
			b.doing("%d of %d armed", i, n)
		}
		handles[i] = b.timer.After(10*time.Minute+rand.N(50*time.Minute), nop)
	}
	if n > 0 {
		b.settle()
		runtime.GC()
	}
	return handles
}

// ops measures an operation, with the worker's part of it counted in the CPU time.
func (b *bench) ops(op func(g int) func()) {
	b.measure(func(d time.Duration) (int, time.Duration) { return loop(b.goroutines(), d, op) })
}

// A producer works for the time d, and returns how many operations there were and how long they took.
type producer func(d time.Duration) (n int, took time.Duration)

func (b *bench) measure(work producer) {
	var before, after runtime.MemStats
	b.doing("measure")
	runtime.ReadMemStats(&before)
	cpu := used().cpu
	n, took := work(pick(b, time.Second, 50*time.Millisecond))
	b.set("wall", float64(took)/float64(n))
	b.settle()
	b.set("cpu", float64(used().cpu-cpu)/float64(n))
	runtime.ReadMemStats(&after)
	b.set("allocated", float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
}

// beside returns the memory that the workload has beside the timeouts, all of it touched. The more is
// live, the more is allocated from one garbage collection to the next.
func (b *bench) beside() []byte {
	memory := make([]byte, b.work.heap)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	if len(memory) > 0 {
		runtime.GC()
	}
	return memory
}

func runScheduleCancel(b *bench) {
	memory := b.beside()
	handles := b.pending(b.work.size(b.short))
	b.ops(func(int) func() {
		return func() { b.timer.Cancel(b.timer.After(10*time.Second, nop)) }
	})
	runtime.KeepAlive(handles)
	runtime.KeepAlive(memory)
}

func runSchedule(b *bench) {
	n := b.work.size(b.short)
	handles := make([]handle, n)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := used().cpu
	began := time.Now()
	for i := range handles {
		if i%1000 == 0 {
			b.doing("%d of %d armed", i, n)
		}
		handles[i] = b.timer.After(10*time.Second+time.Duration(i&1023)*ms, nop)
	}
	b.set("wall", float64(time.Since(began))/float64(n))
	b.settle()
	b.set("cpu", float64(used().cpu-start)/float64(n))
	runtime.ReadMemStats(&after)
	b.set("allocated", float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
	runtime.KeepAlive(handles)
}

// runReset moves timeouts of 30 s. At the end it moves all to 200 ms and waits for them, so that a
// reset that did not happen shows.
func runReset(b *bench) {
	n := b.work.size(b.short)
	handles := make([]handle, n)
	var fired atomic.Int64
	f := func() { fired.Add(1) }
	for i := range handles {
		if i%1000 == 0 {
			b.doing("%d of %d armed", i, n)
		}
		handles[i] = b.timer.After(30*time.Second, f)
	}
	b.settle()
	share := n / b.goroutines()
	b.ops(func(g int) func() {
		mine := handles[g*share : (g+1)*share]
		i := 0
		return func() {
			i = (i + 7919) % len(mine)
			mine[i] = b.timer.Reset(mine[i], 30*time.Second, f)
		}
	})
	b.doing("wait for what was reset")
	for i, h := range handles {
		handles[i] = b.timer.Reset(h, 200*ms, f)
	}
	for end := time.Now().Add(pick(b, 3*time.Second, 800*ms)); fired.Load() < int64(n) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if left := int64(n) - fired.Load(); left > 0 {
		b.failf("%d of %d did not fire after a reset to 200 ms", left, n)
	} else if left < 0 {
		b.failf("fired %d of %d", fired.Load(), n)
	}
}

// runRPC has a window of 256 requests for each goroutine. The oldest is canceled when it leaves the
// window, but for one in a hundred, which is left to fire.
func runRPC(b *bench) {
	const window = 256
	var kept, left atomic.Int64   // to fire: ever, and still
	var late, spared atomic.Int64 // canceled, and fired all the same; Cancel said so
	leave := func() { left.Add(-1) }
	cancel := func() { late.Add(1) }
	type slot struct {
		h    handle
		keep bool
	}
	rings := make([][]slot, b.goroutines())
	b.doing("measure")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := used().cpu
	drop := func(s slot) {
		if s.h != nil && !s.keep && !b.timer.Cancel(s.h) {
			spared.Add(1)
		}
	}
	n, took := loop(b.goroutines(), pick(b, time.Second, 100*ms), func(g int) func() {
		ring := make([]slot, window)
		rings[g] = ring
		i := 0
		rng := rand.New(rand.NewPCG(uint64(g), 1))
		return func() {
			s := &ring[i%window]
			drop(*s)
			s.keep = i%100 == 0
			f := cancel
			if s.keep {
				f = leave
				left.Add(1)
				kept.Add(1)
			}
			s.h = b.timer.After(100*ms+time.Duration(rng.Int64N(int64(400*ms))), f)
			i++
		}
	})
	b.set("wall", float64(took)/float64(n))
	for _, ring := range rings {
		for _, s := range ring {
			drop(s)
		}
	}
	b.doing("wait for what was left")
	for end := time.Now().Add(pick(b, 5*time.Second, time.Second)); left.Load() > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	b.settle()
	b.set("cpu", float64(used().cpu-start)/float64(n))
	runtime.ReadMemStats(&after)
	b.set("allocated", float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
	b.set("left", float64(kept.Load()))
	if l := left.Load(); l > 0 {
		b.failf("lost %d of %d left", l, kept.Load())
	}
	if l := late.Load(); l > spared.Load() {
		b.failf("%d fired though canceled", l-spared.Load())
	} else if l < spared.Load() {
		b.failf("%d neither canceled nor fired", spared.Load()-l)
	}
}
