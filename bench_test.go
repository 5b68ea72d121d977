package hashedwheel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// In one run, each benchmark does the same work on this library (impl=wheel, with default options unless it
// says otherwise) and on package time (impl=time). The sleeps let the worker take timeouts that were armed or
// canceled. They do not count as time of the benchmark. They are real, because testing/synctest would stop the clock that
// is measured.

// An impl is a way to make timers. H is the type of a handle.
type impl[H any] struct {
	name   string
	after  func(d time.Duration, f func()) H
	cancel func(H)
	reset  func(H, time.Duration)
	stop   func()
}

func wheelImpl(b *testing.B, opts ...Option) impl[*Timeout] {
	timer, err := New(opts...)
	if err != nil {
		b.Fatal(err)
	}
	return impl[*Timeout]{
		name: "wheel",
		after: func(d time.Duration, f func()) *Timeout {
			to, err := timer.AfterFunc(d, f)
			if err != nil {
				panic(err)
			}
			return to
		},
		cancel: func(to *Timeout) { to.Cancel() },
		reset:  func(to *Timeout, d time.Duration) { to.Reset(d) },
		stop:   func() { timer.Stop() },
	}
}

func timeImpl() impl[*time.Timer] {
	return impl[*time.Timer]{
		name:   "time",
		after:  time.AfterFunc,
		cancel: func(t *time.Timer) { t.Stop() },
		reset:  func(t *time.Timer, d time.Duration) { t.Reset(d) },
		stop:   func() {},
	}
}

// prefill arms n timers from 10 minutes to an hour ahead. It returns them, and a function that cancels them.
func (im impl[H]) prefill(n int) (handles []H, clear func()) {
	for range n {
		handles = append(handles, im.after(10*time.Minute+rand.N(50*time.Minute), nop))
	}
	time.Sleep(250 * time.Millisecond) // until the worker has put them into buckets
	runtime.GC()
	return handles, func() {
		for _, h := range handles {
			im.cancel(h)
		}
	}
}

// The memory of a pending timeout, and the time of a garbage collection with a million of them. This is the first
// benchmark, because later ones would find memory that is left over from others.
func BenchmarkPending(b *testing.B) {
	b.Run("n=1000000/impl=wheel", func(b *testing.B) { benchPending(b, wheelImpl(b)) })
	b.Run("n=1000000/levels=3/impl=wheel", func(b *testing.B) { benchPending(b, wheelImpl(b, WithLevels(3))) })
	b.Run("n=1000000/impl=time", func(b *testing.B) { benchPending(b, timeImpl()) })
}

func benchPending[H any](b *testing.B, im impl[H]) {
	const n = 1_000_000
	defer im.stop()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	handles := make([]H, n)
	before := heap()
	for i := range handles {
		handles[i] = im.after(10*time.Minute+rand.N(50*time.Minute), nop)
	}
	time.Sleep(500 * time.Millisecond)
	bytes := float64(heap()-before) / n
	for b.Loop() {
		runtime.GC()
	}
	b.ReportMetric(bytes, "B/timeout")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/1e6, "ms/GC")
	b.ReportMetric(0, "ns/op")
	for _, h := range handles {
		im.cancel(h)
	}
}

// Arming alone. The timeouts are canceled now and then, and that time does not count.
func BenchmarkSchedule(b *testing.B) {
	b.Run("impl=wheel", func(b *testing.B) { benchSchedule(b, wheelImpl(b)) })
	b.Run("impl=time", func(b *testing.B) { benchSchedule(b, timeImpl()) })
}

func benchSchedule[H any](b *testing.B, im impl[H]) {
	defer im.stop()
	handles := make([]H, 0, 1<<19)
	flush := func() {
		for _, h := range handles {
			im.cancel(h)
		}
		clear(handles)
		handles = handles[:0]
		time.Sleep(200 * time.Millisecond)
		runtime.GC()
	}
	b.ReportAllocs()
	for b.Loop() {
		handles = append(handles, im.after(10*time.Second+time.Duration(len(handles)&1023)*time.Millisecond, nop))
		if len(handles) == cap(handles) {
			b.StopTimer()
			flush()
			b.StartTimer()
		}
	}
	flush()
}

// A timeout is armed and canceled soon after, as most timeouts are.
func BenchmarkScheduleCancel(b *testing.B) {
	for _, pending := range []int{0, 1e6} {
		for _, mode := range []string{"serial", "parallel"} {
			name := fmt.Sprintf("mode=%s/pending=%d/impl=", mode, pending)
			b.Run(name+"wheel", func(b *testing.B) { benchScheduleCancel(b, wheelImpl(b), mode, pending) })
			b.Run(name+"time", func(b *testing.B) { benchScheduleCancel(b, timeImpl(), mode, pending) })
		}
	}
}

func benchScheduleCancel[H any](b *testing.B, im impl[H], mode string, pending int) {
	defer im.stop()
	_, clear := im.prefill(pending)
	defer clear()
	b.ReportAllocs()
	run(b, mode, func(int) func() {
		return func() { im.cancel(im.after(10*time.Second, nop)) }
	})
}

// run calls op for each goroutine and runs the function that op returns, on one goroutine or on GOMAXPROCS.
func run(b *testing.B, mode string, op func(goroutine int) func()) {
	if mode == "serial" {
		f := op(0)
		for b.Loop() {
			f()
		}
		return
	}
	var n atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		f := op(int(n.Add(1) - 1))
		for pb.Next() {
			f()
		}
	})
	b.StopTimer()
}

// Each of 100,000 connections has an idle limit, which each packet moves.
func BenchmarkReset(b *testing.B) {
	for _, mode := range []string{"serial", "parallel"} {
		name := fmt.Sprintf("live=100000/mode=%s/impl=", mode)
		b.Run(name+"wheel", func(b *testing.B) { benchReset(b, wheelImpl(b), mode) })
		b.Run(name+"time", func(b *testing.B) { benchReset(b, timeImpl(), mode) })
	}
}

func benchReset[H any](b *testing.B, im impl[H], mode string) {
	defer im.stop()
	handles, clear := im.prefill(100_000)
	defer clear()
	for _, h := range handles {
		im.reset(h, 30*time.Second)
	}
	b.ReportAllocs()
	run(b, mode, func(g int) func() {
		i := g * len(handles) / 2
		return func() {
			i = (i + 7919) % len(handles)
			im.reset(handles[i], 30*time.Second)
		}
	})
}

// BenchmarkLateness measures how late timeouts fire, 20,000 of them spread over a second. A value below zero
// would be early. This library is late by up to a tick, in addition to the lateness that the machine causes for
// both.
func BenchmarkLateness(b *testing.B) {
	for _, tick := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
		b.Run(fmt.Sprintf("tick=%v/impl=wheel", tick), func(b *testing.B) { benchLateness(b, wheelImpl(b, WithTick(tick))) })
	}
	b.Run("impl=time", func(b *testing.B) { benchLateness(b, timeImpl()) })
}

func benchLateness[H any](b *testing.B, im impl[H]) {
	defer im.stop()
	var mu sync.Mutex
	var late []time.Duration
	for b.Loop() {
		const n = 20_000
		var wg sync.WaitGroup
		wg.Add(n)
		for range n {
			d := rand.N(time.Second)
			due := time.Now().Add(d)
			im.after(d, func() {
				l := time.Since(due)
				mu.Lock()
				late = append(late, l)
				mu.Unlock()
				wg.Done()
			})
		}
		wg.Wait()
	}
	slices.Sort(late)
	for _, q := range []struct {
		name string
		at   float64
	}{{"min-ms", 0}, {"p50-ms", 0.5}, {"p99-ms", 0.99}, {"max-ms", 1}} {
		b.ReportMetric(float64(late[int(q.at*float64(len(late)-1))])/1e6, q.name)
	}
	b.ReportMetric(0, "ns/op")
}

// A million tasks are due at the same moment. The benchmark measures how long after that moment the last of them
// has run. It is the last benchmark of this file, because package time starts a goroutine for each task, and each
// later garbage collection has to visit what is left of these goroutines.
func BenchmarkFire(b *testing.B) {
	b.Run("n=1000000/impl=wheel", func(b *testing.B) {
		benchFire(b, func() impl[*Timeout] { return wheelImpl(b) })
	})
	b.Run("n=1000000/impl=time", func(b *testing.B) { benchFire(b, timeImpl) })
}

func benchFire[H any](b *testing.B, newImpl func() impl[H]) {
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
			timer.Bind(&ring[i], plainFunc(nop))
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
		timer.Bind(&live[i], plainFunc(nop))
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

// A loop over a million pending timeouts. Late is how late a neighbor was at worst, which is due at each tick of 1 ms.
func BenchmarkTasks(b *testing.B) {
	timer, err := New(WithTick(time.Millisecond), WithLevels(3))
	if err != nil {
		b.Fatal(err)
	}
	defer timer.Stop()
	const n = 1_000_000
	for range n {
		timer.AfterFunc(10*time.Minute+rand.N(50*time.Minute), nop)
	}
	time.Sleep(time.Second)
	neighbor, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) {}), 0, time.Millisecond)
	if err != nil {
		b.Fatal(err)
	}
	before := timer.Stats().Lateness
	for b.Loop() {
		found := 0
		for range timer.Tasks() {
			found++
		}
		if found < n {
			b.Fatal(found)
		}
	}
	neighbor.Cancel()
	late := timer.Stats().Lateness.Sub(before)
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/1e6, "ms/1M")
	b.ReportMetric(float64(late.Quantile(0.999))/1e6, "p99.9-late-ms")
	b.ReportMetric(0, "ns/op")
}
