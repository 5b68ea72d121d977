//go:build unix

package hashedwheel

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// BenchmarkIdle measures what a million timeouts cost each second while none is due: the share of a core, and
// the wake-ups. The polling wheel is for comparison. The benchmark runs on real time, because the operating
// system measures the CPU time.
func BenchmarkIdle(b *testing.B) {
	const n = 1_000_000
	for _, levels := range []struct {
		name string
		opts []Option
	}{
		{"levels=1", []Option{WithTick(10 * time.Millisecond)}},
		{"levels=3", []Option{WithTick(10 * time.Millisecond), WithLevels(3)}},
	} {
		b.Run("tick=10ms/"+levels.name+"/impl=wheel", func(b *testing.B) {
			timer := newTimer(b, levels.opts...)
			for range n {
				if _, err := timer.AfterFunc(10*time.Minute+rand.N(50*time.Minute), nop); err != nil {
					b.Fatal(err)
				}
			}
			benchIdle(b, func() uint64 { return timer.Stats().Wakeups })
		})
	}
	b.Run("tick=10ms/impl=polling", func(b *testing.B) {
		w := newPollingWheel(512)
		for range n {
			w.place(10*60*100 + rand.Uint64N(50*60*100))
		}
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			ticker := time.NewTicker(10 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
					w.turn()
				case <-done:
					return
				}
			}
		}()
		benchIdle(b, func() uint64 { return w.turns.Load() })
		close(done)
		<-ended
	})
	b.Run("impl=time", func(b *testing.B) {
		var all []*time.Timer
		for range n {
			all = append(all, time.AfterFunc(10*time.Minute+rand.N(50*time.Minute), nop))
		}
		benchIdle(b, func() uint64 { return 0 })
		for _, t := range all {
			t.Stop()
		}
	})
}

// benchIdle sleeps for a second at a time, so that it hardly wakes up the process itself.
func benchIdle(b *testing.B, wakeups func() uint64) {
	time.Sleep(time.Second) // until the worker has placed all timeouts, and the garbage collector is idle
	before, was := wakeups(), cpuTime(b)
	for b.Loop() {
		time.Sleep(time.Second)
	}
	spent := cpuTime(b) - was
	b.ReportMetric(100*spent.Seconds()/b.Elapsed().Seconds(), "%core")
	b.ReportMetric(float64(wakeups()-before)/b.Elapsed().Seconds(), "wakeups/s")
	b.ReportMetric(0, "ns/op")
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A pollingWheel treats timeouts that are not due as the wheels of Netty and Dubbo do. At each tick it goes
// through the list of a bucket, and decrements the remaining rounds.
type pollingWheel struct {
	buckets []*pollingTimeout
	turns   atomic.Uint64
}

type pollingTimeout struct {
	rounds uint64
	next   *pollingTimeout
	_      [48 - 16]byte // as large as a Timeout
}

func newPollingWheel(size int) *pollingWheel {
	return &pollingWheel{buckets: make([]*pollingTimeout, size)}
}

func (w *pollingWheel) place(tick uint64) {
	size := uint64(len(w.buckets))
	b := &w.buckets[tick%size]
	*b = &pollingTimeout{rounds: tick / size, next: *b}
}

func (w *pollingWheel) turn() {
	for to := w.buckets[w.turns.Load()%uint64(len(w.buckets))]; to != nil; to = to.next {
		if to.rounds == 0 {
			panic("due")
		}
		to.rounds--
	}
	w.turns.Add(1)
}
