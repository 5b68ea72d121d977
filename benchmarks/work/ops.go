package work

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// arm arms a timeout for each handle.
func (b *bench) arm(handles []peers.Handle, after func(i int) (time.Duration, func())) {
	for i := range handles {
		if i%1000 == 0 {
			b.doing("%d of %d armed", i, len(handles))
		}
		handles[i] = b.timer.After(after(i))
	}
}

// pending arms n timeouts from 10 minutes to an hour ahead, and waits until they are in place.
func (b *bench) pending(n int) []peers.Handle {
	handles := make([]peers.Handle, n)
	b.arm(handles, func(int) (time.Duration, func()) { return 10*time.Minute + rand.N(50*time.Minute), nop })
	if n > 0 {
		b.settle()
		runtime.GC()
	}
	return handles
}

// ops measures an operation. The CPU time includes the worker's part of it.
func (b *bench) ops(op func(g int) func()) {
	b.measure(func(d time.Duration) (int, time.Duration) { return loop(b.goroutines(), d, op) })
}

// A producer works for the time d, and returns how many operations there were and how long they took.
type producer func(d time.Duration) (n int, took time.Duration)

func (b *bench) measure(work producer) {
	b.doing("measure")
	m := b.meter()
	n, took := work(pick(b, time.Second, 50*time.Millisecond))
	b.set("wall", float64(took)/float64(n))
	b.settle()
	m.stop(n)
}

func runScheduleCancel(b *bench) {
	handles := b.pending(b.size())
	b.ops(b.cancelAtOnce)
	runtime.KeepAlive(handles)
}

func (b *bench) cancelAtOnce(int) func() {
	return func() { b.timer.Cancel(b.timer.After(10*time.Second, nop)) }
}

func runSchedule(b *bench) {
	n := b.size()
	handles := make([]peers.Handle, n)
	runtime.GC()
	m := b.meter()
	start := time.Now()
	b.doing("arm")
	for i := range handles {
		handles[i] = b.timer.After(10*time.Second+time.Duration(i&1023)*ms, nop)
	}
	b.set("wall", float64(time.Since(start))/float64(n))
	b.settle()
	m.stop(n)
	runtime.KeepAlive(handles)
}

// runReset moves timeouts of 30 s. At the end it moves all to 200 ms and waits for them, so that it notices a
// reset that had no effect.
func runReset(b *bench) {
	n := b.size()
	handles := make([]peers.Handle, n)
	var fired atomic.Int64
	f := func() { fired.Add(1) }
	b.arm(handles, func(int) (time.Duration, func()) { return 30 * time.Second, f })
	b.settle()
	share := n / b.goroutines()
	b.ops(func(g int) func() {
		mine := handles[g*share : (g+1)*share]
		i := 0
		if at, ok := b.timer.(peers.Deadliner); ok {
			deadline := deadlines(30 * time.Second)
			return func() {
				i = (i + 7919) % len(mine)
				at.ResetAt(mine[i], deadline())
			}
		}
		return func() {
			i = (i + 7919) % len(mine)
			mine[i] = b.timer.Reset(mine[i], 30*time.Second, f)
		}
	})
	b.doing("wait for the timeouts that were reset")
	for i, h := range handles {
		handles[i] = b.timer.Reset(h, 200*ms, f)
	}
	waitFor(pick(b, 3*time.Second, 800*ms), func() bool { return fired.Load() >= int64(n) })
	if left := int64(n) - fired.Load(); left > 0 {
		b.failf("%d of %d did not fire after a reset to 200 ms", left, n)
	} else if left < 0 {
		b.failf("fired %d of %d", fired.Load(), n)
	}
}
