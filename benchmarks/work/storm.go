package work

import (
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// stormGoroutines is more than most machines have processors, as in a server.
const stormGoroutines = 32

// storm runs a producer for 2 s. Beside it, one timeout of 100 ms is armed after another.
func (b *bench) storm(work producer) {
	d := pick(b, 2*time.Second, 500*ms)
	b.doing("start the storm")
	m := b.meter()
	n, took := 0, time.Duration(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, took = work(d)
	}()
	b.probe(d, func() {
		b.doing("wait for the end of the storm")
		<-done
		b.set("wall", float64(took)/float64(n))
		b.set("rate", float64(n)/float64(took)*1e3)
	})
	b.settle()
	m.stop(n)
	b.set("peak", used().peak/1e6)
}

func runStormAtOnce(b *bench) {
	b.storm(func(d time.Duration) (int, time.Duration) {
		return loop(stormGoroutines, d, func(int) func() {
			return func() { b.timer.Cancel(b.timer.After(10*time.Second, nop)) }
		})
	})
}

// runStormLater keeps a window of timeouts for each goroutine, and cancels each timeout when it leaves the window.
func runStormLater(b *bench) {
	const window = 4096
	rings := make([][]peers.Handle, stormGoroutines) // made before the memory is sampled
	for g := range rings {
		rings[g] = make([]peers.Handle, window)
	}
	b.storm(func(d time.Duration) (int, time.Duration) {
		start := time.Now()
		n, _ := loop(stormGoroutines, d, func(g int) func() {
			ring, i := rings[g], 0
			return func() {
				if ring[i] != nil {
					b.timer.Cancel(ring[i])
				}
				ring[i] = b.timer.After(10*time.Second, nop)
				i = (i + 1) % window
			}
		})
		for _, ring := range rings {
			for _, h := range ring {
				if h != nil {
					b.timer.Cancel(h)
				}
			}
			clear(ring)
		}
		return n, time.Since(start)
	})
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
	// In nanoseconds, up to a minute, with two digits.
	newCalls := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, 6e10, 2) }
	calls := make([]*hdrhistogram.Histogram, stormGoroutines)
	slow := make([]int, stormGoroutines)
	for g := range calls {
		calls[g] = newCalls()
	}
	b.storm(func(d time.Duration) (int, time.Duration) {
		return loop(stormGoroutines, d, func(g int) func() {
			record := func(took time.Duration) {
				if took > ms {
					slow[g]++
				}
				if err := calls[g].RecordValue(int64(took)); err != nil {
					panic(err)
				}
			}
			return func() {
				start := time.Since(epoch)
				h := b.timer.After(10*time.Second, nop)
				record(time.Since(epoch) - start)
				start = time.Since(epoch)
				b.timer.Cancel(h)
				record(time.Since(epoch) - start)
			}
		})
	})
	all, slows := newCalls(), 0
	for g := range calls {
		all.Merge(calls[g])
		slows += slow[g]
	}
	b.set("call-p99.9999", float64(all.ValueAtQuantile(99.9999))/1e3)
	b.set("call-max", float64(all.Max())/1e3)
	b.set("slow", float64(slows))
}
