package work

import (
	"runtime"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// stormGoroutines is more than most machines have processors, as in a server.
const stormGoroutines = 32

// storm runs a producer for 2 s, and returns how many operations there were. Beside it, one timeout of 100 ms is armed after another.
func (b *bench) storm(work producer) (operations int) {
	d := pick(b, 2*time.Second, 500*ms)
	b.doing("storm")
	m := b.meter()
	probes := make(chan []*shot, 1)
	go func() { probes <- b.probe(d) }()
	n, took := work(d)
	b.set("wall", float64(took)/float64(n))
	b.set("rate", float64(n)/float64(took)*1e3)
	b.doing("wait for the last timeout of 100 ms")
	b.setLateness(b.judge(<-probes))
	b.settle()
	m.stop(n)
	b.set("peak", used().peak/1e6)
	return n
}

func runStormAtOnce(b *bench) {
	b.storm(func(d time.Duration) (int, time.Duration) { return loop(stormGoroutines, d, b.cancelAtOnce) })
}

// runStormLater keeps a window of timeouts for each goroutine, and cancels each timeout when it leaves the window.
func runStormLater(b *bench) {
	later := b.cancelLater(stormGoroutines)
	b.storm(func(d time.Duration) (int, time.Duration) { return loop(stormGoroutines, d, later) })
}

// cancelLater returns an operation that arms a timeout and cancels the one that left the window.
func (b *bench) cancelLater(goroutines int) (op func(g int) func()) {
	windows := make([][]peers.Handle, goroutines) // made before the memory is sampled
	for g := range windows {
		windows[g] = make([]peers.Handle, b.size())
	}
	return func(g int) func() {
		window, i := windows[g], 0
		return func() {
			if window[i] != nil {
				b.timer.Cancel(window[i])
			}
			window[i] = b.timer.After(10*time.Second, nop)
			i = (i + 1) % len(window)
		}
	}
}

func runStormByOther(b *bench) {
	b.storm(func(d time.Duration) (int, time.Duration) { return b.handOver(stormGoroutines/2, d) })
}

func runCancelByOther(b *bench) {
	b.measure(func(d time.Duration) (int, time.Duration) { return b.handOver(max(1, runtime.GOMAXPROCS(0)/2), d) })
}

// handOver makes goroutines arm timeouts, and as many others cancel them. It hands the timeouts over in
// slices of 256. There are 4 slices for each goroutine that arms. handOver returns how many timeouts there
// were, and how long it took until all were canceled.
func (b *bench) handOver(goroutines int, d time.Duration) (n int, took time.Duration) {
	const size, ahead = 256, 4
	empty, full := make(chan []peers.Handle, ahead*goroutines), make(chan []peers.Handle, ahead*goroutines)
	for range ahead * goroutines {
		empty <- make([]peers.Handle, size)
	}
	var cancelers sync.WaitGroup
	for range goroutines {
		cancelers.Go(func() {
			for handles := range full {
				for _, h := range handles {
					b.timer.Cancel(h)
				}
				clear(handles)
				empty <- handles
			}
		})
	}
	start := time.Now()
	slices, _ := loop(goroutines, d, func(int) func() {
		return func() {
			handles := <-empty
			for i := range handles {
				handles[i] = b.timer.After(10*time.Second, nop)
			}
			full <- handles
		}
	})
	close(full)
	cancelers.Wait()
	return slices * size, time.Since(start)
}

// runStormLatency is runStormAtOnce, except that it reads the clock before and after each call. If a goroutine has
// to wait for a processor during a call, that counts.
func runStormLatency(b *bench) {
	type calls struct {
		slow    int
		longest time.Duration
		_       [64]byte
	}
	all := make([]calls, stormGoroutines)
	n := b.storm(func(d time.Duration) (int, time.Duration) {
		return loop(stormGoroutines, d, func(g int) func() {
			mine := &all[g]
			record := func(start time.Duration) {
				took := time.Since(epoch) - start
				mine.longest = max(mine.longest, took)
				if took > ms {
					mine.slow++
				}
			}
			return func() {
				start := time.Since(epoch)
				h := b.timer.After(10*time.Second, nop)
				record(start)
				start = time.Since(epoch)
				b.timer.Cancel(h)
				record(start)
			}
		})
	})
	slow, longest := 0, time.Duration(0)
	for i := range all {
		slow, longest = slow+all[i].slow, max(longest, all[i].longest)
	}
	b.set("slow", float64(slow)/float64(2*n)*1e6)
	b.set("longest", float64(longest)/1e3)
}
