package main

import (
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// usage is what the process has used since its start.
type usage struct {
	cpu     time.Duration // user and system
	wakeups int64         // times that a thread slept and was woken up
	peak    float64       // bytes, the most that was resident
}

// heapBytes returns the live bytes, including goroutine stacks.
func heapBytes() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// liveHeap returns the bytes that the last garbage collection found live.
func liveHeap() float64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

// loop starts goroutines, calls op with the number of each goroutine, and calls the function that op returns
// again and again for the time d. It returns how many of these calls there were, and how long they took. It
// reads the clock about every 100 microseconds.
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

// median returns the middle value, or the mean of the two values in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Clone(values)
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// quantile returns the q-quantile of sorted durations in milliseconds: 0 is the least and 1 the greatest.
func quantile(sorted []time.Duration, q float64) float64 {
	return float64(sorted[int(q*float64(len(sorted)-1))]) / 1e6
}

func sorted(d []time.Duration) []time.Duration {
	slices.Sort(d)
	return d
}
