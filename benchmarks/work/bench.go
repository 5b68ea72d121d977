// Package work has the workloads, and runs each of them with each peer in a process of its own.
package work

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// An Outcome is the result of one run of a cell, which is a workload with a peer. If it has both figures and a fault,
// the fault may have influenced the figures.
type Outcome struct {
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Fault   string             `json:"fault,omitempty"`

	// Final means that a limit or a crash ended the run. It is not repeated, because the result would be the same.
	Final bool `json:"final,omitempty"`
}

// A bench is the run of a cell, as the workload sees it.
type bench struct {
	peer  peers.Peer
	work  *Workload
	short bool
	timer peers.Timer // or
	cache peers.Cache

	mu    sync.Mutex
	out   Outcome
	phase string
}

// memoryLimit bounds the memory of a cell. It ends a cell whose backlog grows without bound.
const memoryLimit = 6 << 30

// resultMark distinguishes the outcome from the output of a peer.
const resultMark = "outcome: "

// end prints the outcome and ends the process. Only the first call does so.
func (b *bench) end(final bool) {
	b.mu.Lock() // never unlocked, so that nothing changes any more
	b.out.Final = final
	line, err := json.Marshal(b.out)
	if err != nil {
		panic(err)
	}
	fmt.Println(resultMark + string(line))
	os.Exit(0)
}

// watch ends the process at the limits of time and memory.
func (b *bench) watch() {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	limit := limit(b.short)
	for start := time.Now(); time.Since(start) < limit; {
		metrics.Read(sample)
		if held := sample[0].Value.Uint64() - sample[1].Value.Uint64(); held > memoryLimit {
			b.failf("more than %d GiB of memory after %.1f s: %s", memoryLimit>>30, time.Since(start).Seconds(), b.where())
			b.end(true)
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.failf("not done after %v: %s", limit, b.where())
	b.end(true)
}

// doing names the next phase, for the message if that phase does not end.
func (b *bench) doing(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase = fmt.Sprintf(format, args...)
}

func (b *bench) where() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phase
}

func (b *bench) set(metric string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return // JSON has no such numbers
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out.Metrics[metric] = value
}

// failf records a fault of the peer.
func (b *bench) failf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out.Fault != "" {
		b.out.Fault += "; "
	}
	b.out.Fault += fmt.Sprintf(format, args...)
}

// pick returns full in a complete run and short in a short one.
func pick[T any](b *bench, full, short T) T {
	if b.short {
		return short
	}
	return full
}

func (b *bench) size() int { return b.work.size(b.short) }

func (b *bench) goroutines() int {
	if b.work.parallel {
		return runtime.GOMAXPROCS(0)
	}
	return 1
}

// settle waits until the peer has done all of its work so far. A timeout that is armed now fires after the earlier work
// if the peer has a queue. Two more ticks give the peer time to drop canceled timeouts. settle arms another timeout each
// second, because a peer may lose one.
func (b *bench) settle() {
	b.doing("wait for the worker")
	for done := new(atomic.Bool); !done.Load(); {
		b.timer.After(b.work.tick, func() { done.Store(true) })
		waitFor(time.Second, done.Load)
	}
	time.Sleep(2*b.work.tick + 20*time.Millisecond)
}

// waitFor waits until it is done, but not for longer than patience.
func waitFor(patience time.Duration, done func() bool) {
	for end := time.Now().Add(patience); !done() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}
