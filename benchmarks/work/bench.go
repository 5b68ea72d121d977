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
	timer peers.Timer

	resting atomic.Bool // watch wakes up less often

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

// watch ends the process at the limits of time and memory. It reports a deadlock if the process no longer uses a
// processor, and slow work otherwise.
func (b *bench) watch() {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	limit := limit(b.short)
	for start := time.Now(); time.Since(start) < limit; {
		metrics.Read(sample)
		if held := sample[0].Value.Uint64() - sample[1].Value.Uint64(); held > memoryLimit {
			b.failf("more than %d GiB of memory after %.1f s: %s", memoryLimit>>30, time.Since(start).Seconds(), b.where())
			b.end(true)
		}
		if b.resting.Load() {
			time.Sleep(time.Second)
		} else {
			time.Sleep(50 * time.Millisecond)
		}
	}
	before := used().cpu
	time.Sleep(500 * time.Millisecond)
	what := "not done"
	if used().cpu-before < 10*time.Millisecond {
		what = "deadlock: idle"
	}
	b.failf("%s after %v: %s", what, limit, b.where())
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

// raise sets the metric if the value is greater.
func (b *bench) raise(metric string, value float64) {
	b.mu.Lock()
	old, ok := b.out.Metrics[metric]
	b.mu.Unlock()
	if !ok || value > old {
		b.set(metric, value)
	}
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

func (b *bench) tick() time.Duration { return b.peer.Tick(b.work.tick) }

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
	done := make(chan struct{}, 1)
	for waiting := true; waiting; {
		b.timer.After(b.tick(), func() {
			select {
			case done <- struct{}{}:
			default:
			}
		})
		select {
		case <-done:
			waiting = false
		case <-time.After(time.Second):
		}
	}
	time.Sleep(2*b.tick() + 20*time.Millisecond)
}
