package hashedwheel

import (
	"testing"
	"time"
)

// Each goroutine arms and cancels 1,024 timeouts that it keeps, in turn. For comparison, it does the same with
// timers of package time that it keeps, and with timeouts that are new each time.
func BenchmarkReuse(b *testing.B) {
	timer, err := New()
	if err != nil {
		b.Fatal(err)
	}
	defer timer.Stop()
	embedded := func() []Timeout {
		ring := make([]Timeout, reused)
		for i := range ring {
			timer.Init(&ring[i], plainFunc(nop))
		}
		return ring
	}
	benchReuse(b, "impl=wheel", func() func(i int) {
		ring := embedded()
		return func(i int) {
			ring[i].Reset(10 * time.Second)
			ring[i].Cancel()
		}
	})
	benchReuse(b, "impl=wheel/deadline", func() func(i int) {
		ring := embedded()
		var deadline time.Time
		return func(i int) {
			if i == 0 { // as often as a server may read the clock for other reasons
				deadline = time.Now().Add(10 * time.Second)
			}
			ring[i].ResetAt(deadline)
			ring[i].Cancel()
		}
	})
	benchReuse(b, "impl=wheel/new", func() func(i int) {
		return func(int) {
			to, _ := timer.AfterFunc(10*time.Second, nop)
			to.Cancel()
		}
	})
	benchReuse(b, "impl=time", func() func(i int) {
		ring := make([]*time.Timer, reused)
		for i := range ring {
			ring[i] = time.AfterFunc(time.Hour, nop)
			ring[i].Stop()
		}
		return func(i int) {
			ring[i].Reset(10 * time.Second)
			ring[i].Stop()
		}
	})
}

const reused = 1024 // a power of two

// benchReuse measures the function that start returns, on one goroutine and on one for each processor.
func benchReuse(b *testing.B, name string, start func() (use func(i int))) {
	b.Run(name+"/serial", func(b *testing.B) {
		b.ReportAllocs()
		use, i := start(), 0
		for b.Loop() {
			use(i)
			i = (i + 1) % reused
		}
	})
	b.Run(name+"/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			use, i := start(), 0
			for pb.Next() {
				use(i)
				i = (i + 1) % reused
			}
		})
	})
}

// 100,000 pending timeouts are moved to later, as heartbeats do.
func BenchmarkResetLive(b *testing.B) {
	const n = 100_000
	timer, err := New()
	if err != nil {
		b.Fatal(err)
	}
	defer timer.Stop()
	live := make([]Timeout, n)
	for i := range live {
		timer.Init(&live[i], plainFunc(nop))
		live[i].Reset(time.Minute)
	}
	b.Run("impl=wheel", func(b *testing.B) {
		i := 0
		for b.Loop() {
			live[i].Reset(time.Minute)
			i = (i + 1) % n
		}
	})
	b.Run("impl=wheel/deadline", func(b *testing.B) {
		i := 0
		var deadline time.Time
		for b.Loop() {
			if i%reused == 0 {
				deadline = time.Now().Add(time.Minute)
			}
			live[i].ResetAt(deadline)
			i = (i + 1) % n
		}
	})
	b.Run("impl=time", func(b *testing.B) {
		live := make([]*time.Timer, n)
		for i := range live {
			live[i] = time.AfterFunc(time.Minute, nop)
		}
		i := 0
		for b.Loop() {
			live[i].Reset(time.Minute)
			i = (i + 1) % n
		}
		for _, t := range live {
			t.Stop()
		}
	})
}
