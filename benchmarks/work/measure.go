package work

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

// A meter measures what operations cost, from the call of meter to that of stop.
type meter struct {
	b         *bench
	allocated uint64
	cpu       time.Duration
	profile   bytes.Buffer // of the processor; empty for other peers than this library
}

func (b *bench) meter() *meter {
	m := &meter{b: b}
	if b.peer.Ours {
		// The rate of StartCPUProfile is too low for short runs. It prints a warning that the rate is set already.
		runtime.SetCPUProfileRate(500)
		if err := pprof.StartCPUProfile(&m.profile); err != nil {
			panic(err)
		}
	}
	m.allocated, m.cpu = allocated(), used().cpu
	return m
}

// stop sets the CPU time and the allocated bytes of each of n operations.
func (m *meter) stop(n int) {
	cpu := float64(used().cpu-m.cpu) / float64(n)
	m.b.set("cpu", cpu)
	m.b.set("allocated", float64(allocated()-m.allocated)/float64(n))
	if m.b.peer.Ours {
		pprof.StopCPUProfile()
		worker := cpu * m.workersShare()
		m.b.set("worker", worker)
		m.b.set("full", 1e3/worker) // in millions a second; not set if no sample was in the worker
	}
}

// workersShare returns the share of the worker in the samples of the profile. The library labels its goroutines.
func (m *meter) workersShare() float64 {
	p, err := profile.Parse(&m.profile)
	if err != nil {
		panic(err)
	}
	worker, all := int64(0), int64(0)
	for _, sample := range p.Sample {
		all += sample.Value[0]
		if slices.Contains(sample.Label["hashedwheel.role"], "worker") {
			worker += sample.Value[0]
		}
	}
	return float64(worker) / float64(all)
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// heapBytes returns the live bytes, including goroutine stacks.
func heapBytes() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// loop starts goroutines, calls op with the number of each goroutine, and calls the function that op returns again and
// again for the time d. It returns how many of these calls there were, and how long they took. It reads the clock about
// every 100 microseconds.
func loop(goroutines int, d time.Duration, op func(g int) func()) (n int, took time.Duration) {
	var wg sync.WaitGroup
	counts := make([]int, goroutines)
	start := time.Now()
	for g := range goroutines {
		wg.Go(func() {
			f := op(g) // allocated here, so that two goroutines do not write to one cache line
			count, last := 0, time.Duration(0)
			for batch := 1; last < d; {
				for range batch {
					f()
				}
				count += batch
				now := time.Since(start)
				if now-last < 50*time.Microsecond {
					batch *= 2
				} else if now-last > 200*time.Microsecond {
					batch = max(1, batch/2)
				}
				last = now
			}
			counts[g] = count
		})
	}
	wg.Wait()
	took = time.Since(start)
	for _, c := range counts {
		n += c
	}
	return n, took
}

// beside returns live memory for a process to have beside the timeouts. It writes to each page. The more memory is
// live, the more is allocated from one garbage collection to the next.
func beside(size int) []byte {
	memory := make([]byte, size)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	if len(memory) > 0 {
		runtime.GC()
	}
	return memory
}
