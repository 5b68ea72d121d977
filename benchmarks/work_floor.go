package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// floorPeer has no timeouts. No timeout can be much cheaper than its cell, which has a floor for each kind of
// workload: see workload.floorMetric.
var floorPeer = peer{name: "floor", about: "no timeout at all", make: newTime}

// A floorTimeout is as large as a hashedwheel.Timeout, and has pointers too.
type floorTimeout struct {
	_    [4]*int
	word atomic.Uint64
	_    uint64
}

// A floorShare is the memory of one goroutine. No cache line is shared with another goroutine.
type floorShare struct {
	_     [64]byte
	last  *floorTimeout
	now   time.Duration
	state atomic.Uint64
	cold  []*floorTimeout
	next  int
	_     [64]byte
}

func runFloor(b *bench) {
	allocate := func(s *floorShare) { s.last = new(floorTimeout) }
	clock := func(s *floorShare) { s.now = time.Since(epoch) }
	atomics := func(s *floorShare) {
		s.state.CompareAndSwap(s.state.Load(), 1)
		s.state.Add(1)
	}
	cold := func(s *floorShare) { // the word of another one of many timeouts, in the order of runReset
		s.next = (s.next + 7919) % len(s.cold)
		word := &s.cold[s.next].word
		word.CompareAndSwap(word.Load(), 1)
	}
	all := make([]*floorTimeout, pick(b, 100_000, 10_000))
	for i := range all {
		all[i] = new(floorTimeout)
	}
	d := pick(b, 300*ms, 30*ms)
	for _, m := range []struct {
		name       string
		goroutines int
		f          func(*floorShare)
	}{
		{"allocation", 1, allocate},
		{"clock", 1, clock},
		{"atomics", 1, atomics},
		{"serial", 1, func(s *floorShare) { allocate(s); clock(s); atomics(s) }},
		{"parallel", b.processors(), func(s *floorShare) { allocate(s); clock(s); atomics(s) }},
		{"kept", 1, func(s *floorShare) { clock(s); atomics(s) }},
		{"kept-parallel", b.processors(), func(s *floorShare) { clock(s); atomics(s) }},
		{"reset", 1, func(s *floorShare) { clock(s); cold(s) }},
		{"reset-parallel", b.processors(), func(s *floorShare) { clock(s); cold(s) }},
	} {
		shares := make([]floorShare, m.goroutines)
		for g := range shares {
			n := len(all) / len(shares)
			shares[g].cold = all[g*n : (g+1)*n]
		}
		n, took := loop(m.goroutines, d, func(g int) func() {
			s := &shares[g]
			return func() { m.f(s) }
		})
		b.set(m.name, float64(took)/float64(n))
	}
	b.set("fire", floorOfFire(b.processors(), pick(b, 1_000_000, 100_000)))
}

// floorOfFire returns the nanoseconds for each of n timeouts. Each processor takes its share of them, and calls the
// function of each after a compare-and-swap.
func floorOfFire(processors, n int) float64 {
	timeouts := make([]*floorTimeout, n)
	tasks := make([]func(), n)
	f := &flags{ran: make([]atomic.Uint64, n)}
	for i := range timeouts {
		timeouts[i], tasks[i] = new(floorTimeout), f.task(i)
	}
	runtime.GC()
	start := time.Now()
	var workers sync.WaitGroup
	for g := range processors {
		workers.Go(func() {
			for i := g * n / processors; i < (g+1)*n/processors; i++ {
				if timeouts[i].word.CompareAndSwap(0, 1) {
					tasks[i]()
				}
			}
		})
	}
	workers.Wait()
	return float64(time.Since(start)) / float64(n)
}
