package hashedwheel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// The module benchmarks compares most operations with package time. These are the figures that it cannot take, and the one that
// compares commits. They are of real time, because testing/synctest would stop the clock that is measured.

// An impl is a way to make timers.
type impl struct {
	name  string
	after func(d time.Duration, f func())
	stop  func()
}

func wheelImpl(b *testing.B) impl {
	timer, err := New()
	if err != nil {
		b.Fatal(err)
	}
	return impl{"wheel", func(d time.Duration, f func()) {
		if _, err := timer.AfterFunc(d, f); err != nil {
			panic(err)
		}
	}, func() { timer.Stop() }}
}

// A million tasks are due at the same moment. The benchmark measures how long after that moment the last of them
// has run.
func BenchmarkFire(b *testing.B) {
	b.Run("n=1000000/impl=wheel", func(b *testing.B) { benchFire(b, func() impl { return wheelImpl(b) }) })
	b.Run("n=1000000/impl=time", func(b *testing.B) {
		benchFire(b, func() impl { return impl{"time", func(d time.Duration, f func()) { time.AfterFunc(d, f) }, func() {}} })
	})
}

func benchFire(b *testing.B, newImpl func() impl) {
	const n = 1_000_000
	var spent []time.Duration
	for b.Loop() {
		runtime.GC()
		im := newImpl()
		// A tick boundary of the wheel. A timeout armed for half a tick before the boundary is due at it.
		due := time.Now().Add(10 * defaultTick)
		armFor := due
		if im.name == "wheel" {
			armFor = due.Add(-defaultTick / 2)
		}
		var fired atomic.Int64
		done := make(chan time.Duration)
		for range n {
			im.after(time.Until(armFor), func() {
				if fired.Add(1) == n {
					done <- time.Since(due)
				}
			})
		}
		spent = append(spent, <-done)
		im.stop()
	}
	slices.Sort(spent)
	b.ReportMetric(float64(spent[len(spent)/2])/1e6, "ms/1M")
	b.ReportMetric(0, "ns/op") // ns/op would include the arming and the wait for the deadline
}

// The benchmark measures the cost of the wheel alone for one timeout, from the moment when it is placed until it is
// due, with a million pending. benchmarks/README.md has the results, in the table about levels. All timeouts have
// the same delay, in ticks, and each is placed again when it is due.
func BenchmarkWheel(b *testing.B) {
	const pending = 1_000_000
	for _, delay := range []uint64{250, 2_500, 25_000, 250_000} {
		for _, levels := range []int{1, 2, 3} {
			b.Run(fmt.Sprintf("size=512/delay=%d/levels=%d", delay, levels), func(b *testing.B) {
				w := newWheel(512, levels, 0)
				for i := range uint64(pending) {
					tick := 1 + i*delay/pending
					w.place(testTimeout(tick), tick)
				}
				fired := 0
				w.emit = func(to *Timeout) {
					fired++
					tick := w.now + delay
					to.word.Store(pendingAt(0, tick))
					w.place(to, tick)
				}
				turn := func() {
					w.advance(w.now + 1)
					for w.cascade() {
					}
				}
				for range delay { // until the levels have reached a steady state
					turn()
				}
				fired = 0
				for b.Loop() {
					turn()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(fired), "ns/timeout")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

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
	before, was := wakeups(), testkit.CPUTime(b)
	for b.Loop() {
		time.Sleep(time.Second)
	}
	spent := testkit.CPUTime(b) - was
	b.ReportMetric(100*spent.Seconds()/b.Elapsed().Seconds(), "%core")
	b.ReportMetric(float64(wakeups()-before)/b.Elapsed().Seconds(), "wakeups/s")
	b.ReportMetric(0, "ns/op")
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

// A call computes for some 4 µs, and has a timeout of a second that it cancels at its end. The benchmark shows how much of such
// a call each kind of timeout takes.
func BenchmarkCall(b *testing.B) {
	timer, err := New()
	if err != nil {
		b.Fatal(err)
	}
	defer timer.Stop()
	var expired atomic.Int64 // none
	expire := func() { expired.Add(1) }
	compute := func() { // reads no memory that another goroutine writes
		x := uint64(1)
		for range 3000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
		if x == 0 {
			expire()
		}
	}
	for _, kind := range []struct {
		name string
		call func() func()
	}{
		{"none", func() func() { return compute }},
		{"kept", func() func() {
			var timeout Timeout
			timer.Bind(&timeout, TaskFunc(func(*Timeout) { expire() }))
			return func() {
				if _, err := timeout.Reset(time.Second); err != nil {
					panic(err)
				}
				compute()
				timeout.Cancel()
			}
		}},
		{"AfterFunc", func() func() {
			return func() {
				timeout, err := timer.AfterFunc(time.Second, expire)
				if err != nil {
					panic(err)
				}
				compute()
				timeout.Cancel()
			}
		}},
		{"time.AfterFunc", func() func() {
			return func() {
				timeout := time.AfterFunc(time.Second, expire)
				compute()
				timeout.Stop()
			}
		}},
		{"context.WithTimeout", func() func() {
			return func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				_ = ctx.Done() // makes the channel, as each wait for an answer does
				compute()
				cancel()
			}
		}},
	} {
		b.Run("timeout="+kind.name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				call := kind.call()
				for pb.Next() {
					call()
				}
			})
		})
	}
	if n := expired.Load(); n != 0 {
		b.Errorf("%d calls expired", n)
	}
}
