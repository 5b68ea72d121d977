package main

import (
	"sync/atomic"
	"time"
)

// floorPeer has no timeouts. No timeout can be much cheaper than its cell.
var floorPeer = peer{name: "floor", about: "no timeout at all", make: newTime}

// A floorTimeout is as large as a hashedwheel.Timeout, and has pointers too.
type floorTimeout struct {
	_ [4]*int
	_ [2]uint64
}

// A floorShare is the memory of one goroutine. No cache line is shared with another goroutine.
type floorShare struct {
	_     [64]byte
	last  *floorTimeout
	now   time.Duration
	state atomic.Uint64
	_     [64]byte
}

func runFloor(b *bench) {
	allocate := func(s *floorShare) { s.last = new(floorTimeout) }
	clock := func(s *floorShare) { s.now = time.Since(epoch) }
	atomics := func(s *floorShare) {
		s.state.CompareAndSwap(s.state.Load(), 1)
		s.state.Add(1)
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
	} {
		shares := make([]floorShare, m.goroutines)
		n, took := loop(m.goroutines, d, func(g int) func() {
			s := &shares[g]
			return func() { m.f(s) }
		})
		b.set(m.name, float64(took)/float64(n))
	}
}
