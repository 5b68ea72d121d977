package clock_test

import (
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
)

// Each benchmark runs on a Clock (impl=clock) and on package time (impl=time), with no other timers pending
// and with 100,000.
func benchmark(b *testing.B, bench func(b *testing.B, im impl)) {
	for _, pending := range []string{"0", "100000"} {
		for _, name := range []string{"clock", "time"} {
			b.Run("pending="+pending+"/impl="+name, func(b *testing.B) {
				im := timeImpl
				if name == "clock" {
					wheel, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
					if err != nil {
						b.Fatal(err)
					}
					defer wheel.Stop()
					im = clockImpl(clock.New(wheel))
				}
				if pending != "0" {
					for range 100_000 {
						stop := im.afterFunc(time.Hour, nop).Stop
						defer stop()
					}
				}
				b.ReportAllocs()
				bench(b, im)
			})
		}
	}
}

type timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

type impl struct {
	newTimer  func(d time.Duration) (timer, <-chan time.Time)
	afterFunc func(d time.Duration, f func()) timer
	after     func(d time.Duration) <-chan time.Time
}

var timeImpl = impl{
	newTimer: func(d time.Duration) (timer, <-chan time.Time) {
		t := time.NewTimer(d)
		return t, t.C
	},
	afterFunc: func(d time.Duration, f func()) timer { return time.AfterFunc(d, f) },
	after:     time.After,
}

func clockImpl(on *clock.Clock) impl {
	return impl{
		newTimer: func(d time.Duration) (timer, <-chan time.Time) {
			t := on.NewTimer(d)
			return t, t.C
		},
		afterFunc: func(d time.Duration, f func()) timer { return on.AfterFunc(d, f) },
		after:     on.After,
	}
}

func BenchmarkNewTimerStop(b *testing.B) {
	benchmark(b, func(b *testing.B, im impl) {
		for b.Loop() {
			t, _ := im.newTimer(10 * time.Second)
			t.Stop()
		}
	})
}

func BenchmarkAfterFuncStop(b *testing.B) {
	benchmark(b, func(b *testing.B, im impl) {
		for b.Loop() {
			im.afterFunc(10*time.Second, nop).Stop()
		}
	})
}

func BenchmarkReset(b *testing.B) {
	benchmark(b, func(b *testing.B, im impl) {
		t, _ := im.newTimer(10 * time.Second)
		defer t.Stop()
		for b.Loop() {
			t.Reset(10 * time.Second)
		}
	})
}

func BenchmarkResetFunc(b *testing.B) {
	benchmark(b, func(b *testing.B, im impl) {
		t := im.afterFunc(10*time.Second, nop)
		defer t.Stop()
		for b.Loop() {
			t.Reset(10 * time.Second)
		}
	})
}

// A goroutine waits for messages with an idle limit. The receiver blocks in the select. There, a channel timer of
// package time must be inserted into the runtime's heap.
func BenchmarkResetInSelect(b *testing.B) {
	benchmark(b, func(b *testing.B, im impl) {
		messages, answers := make(chan int), make(chan int)
		go func() {
			limit, expired := im.newTimer(10 * time.Second)
			defer limit.Stop()
			for {
				select {
				case n, ok := <-messages:
					if !ok {
						return
					}
					limit.Reset(10 * time.Second)
					answers <- n
				case <-expired:
					return
				}
			}
		}()
		for b.Loop() {
			messages <- 1
			<-answers
		}
		close(messages)
	})
}

// A request has After as its timeout, and its answer comes after the select has begun to wait. In both
// implementations the answer costs two switches of goroutines.
func BenchmarkAfterInSelect(b *testing.B) {
	benchmark(b, func(b *testing.B, im impl) {
		requests, answers := make(chan int), make(chan int)
		go func() {
			for n := range requests {
				answers <- n
			}
		}()
		for b.Loop() {
			requests <- 1
			select {
			case <-answers:
			case <-im.after(time.Second):
			}
		}
		close(requests)
	})
}
