package work

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// floorPeer has no timeouts. No timeout can be cheaper than its cell, which has a floor for each kind of workload: see
// Workload.FloorMetric. A floor is the least of several measurements, in several ways where there is more than one.
var floorPeer = peers.Peer{
	Name: "floor", NoTick: true, Make: func(time.Duration) peers.Timer { return peers.Time{} },
}

// A floorTimeout is about as large as a hashedwheel.Timeout, and has pointers too.
type floorTimeout struct {
	_    [4]*int
	word atomic.Uint64
	_    uint64
}

// A floorShare is the memory of one goroutine. No cache line is shared with another goroutine.
type floorShare struct {
	_     [64]byte
	last  *hashedwheel.Timeout
	now   time.Duration
	state atomic.Uint64
	cold  []*floorTimeout
	next  int
	_     [64]byte
}

func (s *floorShare) allocate() { s.last = new(hashedwheel.Timeout) }

func (s *floorShare) clock() { s.now = time.Since(epoch) }

func (s *floorShare) atomics() {
	s.state.CompareAndSwap(s.state.Load(), 1)
	s.state.Add(1)
}

// swap writes to another one of many timeouts, in the order of runReset.
func (s *floorShare) swap() {
	s.next = (s.next + 7919) % len(s.cold)
	word := &s.cold[s.next].word
	word.CompareAndSwap(word.Load(), 1)
}

// A floorKind is what each operation of a workload has to do. Kinds of one name are ways to do the same.
type floorKind struct {
	name string
	f    func(*floorShare)
}

func runFloor(b *bench) {
	arm := func(s *floorShare) { s.allocate(); s.clock(); s.atomics() }
	least := b.floors([]floorKind{
		{"new", arm},
		{"kept", func(s *floorShare) { s.clock(); s.atomics() }},
		{"kept-deadline", (*floorShare).atomics},
		{"reset", func(s *floorShare) { s.clock(); s.swap() }},
		{"reset", func(s *floorShare) { s.swap(); s.clock() }},
		{"reset-deadline", (*floorShare).swap},
	})
	// Garbage is collected less often in a larger heap. So this floor holds for heaps of any size.
	memory := beside(otherHeap)
	for name, floor := range b.floors([]floorKind{{"new", arm}}) {
		least["large-"+name] = min(floor, least[name])
	}
	runtime.KeepAlive(memory)
	for name, floor := range least {
		b.set(name, floor)
	}
	b.set("fire", floorOfFire(runtime.GOMAXPROCS(0), pick(b, 1_000_000, 100_000), pick(b, 5, 3)))
}

// floors measures each kind several times, on one goroutine and on one for each processor, and returns the least times
// of an operation. The kinds take turns, so that a slow moment of the machine does not decide.
func (b *bench) floors(kinds []floorKind) map[string]float64 {
	least := map[string]float64{}
	for range pick(b, 6, 3) {
		all := make([]*floorTimeout, pick(b, 100_000, 10_000)) // elsewhere in memory each time
		for i := range all {
			all[i] = new(floorTimeout)
		}
		for _, k := range kinds {
			for suffix, goroutines := range map[string]int{"": 1, "-parallel": runtime.GOMAXPROCS(0)} {
				shares := make([]floorShare, goroutines)
				for g := range shares {
					n := len(all) / goroutines
					shares[g].cold = all[g*n : (g+1)*n]
				}
				n, took := loop(goroutines, pick(b, 50*ms, 5*ms), func(g int) func() {
					s := &shares[g]
					return func() { k.f(s) }
				})
				floor := float64(took) / float64(n)
				if old, ok := least[k.name+suffix]; !ok || floor < old {
					least[k.name+suffix] = floor
				}
			}
		}
	}
	return least
}

// floorOfFire returns the least nanoseconds for each of n timeouts: a compare-and-swap and the call of its function. It
// goes through them in the order in which they were made, on one goroutine and on one for each processor. With more
// than one, it tries long and short shares. It also tries to read some timeouts ahead, which then come from memory at
// the same time.
func floorOfFire(processors, n, tries int) float64 {
	timeouts, tasks := make([]*floorTimeout, n), make([]func(), n)
	f := &flags{ran: make([]atomic.Uint64, n)}
	for i := range timeouts {
		timeouts[i], tasks[i] = new(floorTimeout), f.task(i)
	}
	runtime.GC()
	least, round := math.Inf(1), uint64(0)
	for range tries {
		for _, way := range []struct{ goroutines, shares, ahead int }{
			{1, 1, 1}, {1, 1, 64},
			{processors, processors, 1}, {processors, processors, 64},
			{processors, n / 1000, 1}, {processors, n / 1000, 64},
		} {
			start := time.Now()
			var workers sync.WaitGroup
			for g := range way.goroutines {
				workers.Go(func() {
					for share := g; share < way.shares; share += way.goroutines {
						from, to := share*n/way.shares, (share+1)*n/way.shares
						fireAll(timeouts[from:to], tasks[from:to], round, way.ahead)
					}
				})
			}
			workers.Wait()
			least = min(least, float64(time.Since(start))/float64(n))
			round++
		}
	}
	return least
}

// fireAll fires timeouts for the time after round. It reads so many of them ahead.
func fireAll(timeouts []*floorTimeout, tasks []func(), round uint64, ahead int) {
	for len(timeouts) > 0 {
		n := min(ahead, len(timeouts))
		for _, to := range timeouts[:n] {
			if to.word.Load() != round {
				panic("the floor has fired a timeout twice")
			}
		}
		for i, to := range timeouts[:n] {
			if to.word.CompareAndSwap(round, round+1) {
				tasks[i]()
			}
		}
		timeouts, tasks = timeouts[n:], tasks[n:]
	}
}
