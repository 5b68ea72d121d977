package crossing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/light"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Tests under load, on real time. In TestFlood and TestSoak a watchdog runs beside the load, and the counts are
// compared at the end.

// A watchdog arms one timeout after another, and waits for each to fire. If one does not fire for so long
// that only a lost wake-up or a deadlock can be the reason, it crashes the program.
type watchdog struct {
	worst      time.Duration // the largest lateness, to be read after stop
	over, done chan struct{}
}

func watch(timer *hashedwheel.Timer) *watchdog {
	w := &watchdog{over: make(chan struct{}), done: make(chan struct{})}
	go w.run(timer)
	return w
}

func (w *watchdog) run(timer *hashedwheel.Timer) {
	const delay = 20 * time.Millisecond
	defer close(w.done)
	for {
		select {
		case <-w.over:
			return
		default:
		}
		start := time.Now()
		fired := make(chan time.Time, 1)
		if _, err := timer.AfterFunc(delay, func() { fired <- time.Now() }); err != nil {
			time.Sleep(time.Millisecond) // too many are pending
			continue
		}
		select {
		case <-w.over: // the timer may have been stopped
			return
		case at := <-fired:
			w.worst = max(w.worst, at.Sub(start)-delay)
		case <-time.After(testkit.Patience):
			panic(fmt.Sprintf("no progress for %v: %+v", testkit.Patience, timer.Stats()))
		}
	}
}

func (w *watchdog) stop() {
	close(w.over)
	<-w.done
}

// Eight goroutines arm and cancel as fast as they can, without a limit, and with a limit that is just large
// enough for them and the watchdog. No timeout of theirs is refused, none is lost, and the watchdog's timeouts
// fire meanwhile.
func TestFlood(t *testing.T) {
	longest := testkit.Sized(50, 400, 400) // delay, in milliseconds
	for _, limit := range []int{0, 8_001} {
		timer := newTimer(t, hashedwheel.WithTick(10*time.Millisecond), hashedwheel.WithMaxPending(limit))
		w := watch(timer)
		var users sync.WaitGroup
		var armed, canceled, ran atomic.Int64
		for range 8 {
			users.Go(func() {
				ring := make([]*hashedwheel.Timeout, 1000)
				n, c := 0, 0
				for end := time.Now().Add(testkit.Sized[time.Duration](1, 2, 3) * testkit.StressTime(t)); n%100 != 0 || time.Now().Before(end); n++ {
					old := &ring[n%len(ring)]
					if *old != nil && (*old).Cancel() {
						c++
					}
					var err error
					*old, err = timer.AfterFunc(time.Duration(n%longest)*time.Millisecond, func() { ran.Add(1) })
					if err != nil {
						t.Error(err)
						return
					}
					testkit.Spin()
				}
				armed.Add(int64(n))
				canceled.Add(int64(c))
			})
		}
		users.Wait()
		w.stop()
		require.Eventually(t, func() bool { return timer.Pending() == 0 }, testkit.Patience, time.Millisecond)
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, armed.Load(), canceled.Load()+ran.Load())
		t.Logf("limit %d: %d armed, %d canceled, %d expired; the watchdog's timeouts were late by up to %v",
			limit, armed.Load(), canceled.Load(), ran.Load(), w.worst)
	}
}

// The test does most of what can be done with a timer, at random, in goroutines and inside tasks. Some tasks
// panic, call runtime.Goexit or block, and other goroutines keep the processors busy. The test runs for as long as
// HASHEDWHEEL_SOAK says, by default for a second. Each arming ends exactly once, each timer can be shut down,
// and nothing is left of it.
func TestSoak(t *testing.T) {
	length := testkit.LengthOf(t, "HASHEDWHEEL_SOAK", testkit.Sized(200*time.Millisecond, time.Second, time.Minute))
	r := testkit.Rand(t)
	var total hashedwheel.Stats
	var worst time.Duration
	var heap []uint64
	rounds := 0
	seen := func() bool { // all outcomes that the test wants to see
		return total.Expired > 0 && total.Canceled > 0 && total.Returned > 0 && total.RejectedFull > 0 && total.Panics > 0
	}
	for end := time.Now().Add(length); rounds < 4 || testkit.GoesOn(end, seen()); rounds++ {
		s := newSoak(t, r, rounds)
		st, late := s.run(r, min(length/4, 5*time.Second))
		total.Expired += st.Expired
		total.Canceled += st.Canceled
		total.Returned += st.Returned
		total.RejectedFull += st.RejectedFull
		total.Panics += st.Panics
		worst = max(worst, late)
		heap = append(heap, testkit.HeapInUse())
	}
	t.Logf("%d timers; %d expired, %d canceled, %d returned, %d refused, %d panics; the watchdog's timeouts were late by up to %v; heap after each: %d",
		rounds, total.Expired, total.Canceled, total.Returned, total.RejectedFull, total.Panics, worst, heap)
	require.True(t, seen(), "one of the outcomes did not occur")
	// The first round is left out: it also allocates what package time, the maps of testing and the like keep.
	require.Less(t, heap[len(heap)-1], heap[1]+1<<20, "memory grows: %d", heap)
}

// A soak is one timer and all that is done to it.
type soak struct {
	t     *testing.T
	timer *hashedwheel.Timer
	over  atomic.Bool                   // Shutdown has returned
	quit  atomic.Bool                   // the goroutines are to end
	tasks [100]atomic.Pointer[soakTask] // the handles that all goroutines share

	mu    sync.Mutex
	all   []*soakTask // each one ever made, to be counted in the end
	group *hashedwheel.Group
}

// A soakTask is a ledger of how its timeout ends. When it runs, it may also use the timer.
type soakTask struct {
	ledger
	s    *soak
	kind int
}

func newSoak(t *testing.T, r *rand.Rand, round int) *soak {
	s := &soak{t: t}
	var executor func(func()) error
	switch r.IntN(4) {
	case 0:
		executor = func(run func()) error { go run(); return nil }
	case 1:
		executor = func(run func()) error { return context.Canceled }
	}
	var err error
	s.timer, err = hashedwheel.New(
		hashedwheel.WithTick(time.Duration(20+r.IntN(3000))*time.Microsecond),
		hashedwheel.WithWheelSize(1+r.IntN(64)), hashedwheel.WithLevels(1+r.IntN(4)),
		hashedwheel.WithMaxPending([]int{0, 100}[round%2]), hashedwheel.WithMaxConcurrency([]int{0, 0, 1, 7}[r.IntN(4)]),
		hashedwheel.WithExecutor(executor), hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) {}))
	require.NoError(t, err)
	s.group = hashedwheel.NewGroup(s.timer)
	return s
}

// run lets goroutines act for the given time, and then stops the timer and shuts it down.
func (s *soak) run(r *rand.Rand, length time.Duration) (st hashedwheel.Stats, late time.Duration) {
	before := runtime.NumGoroutine()
	w := watch(s.timer)
	var hogs, users sync.WaitGroup
	for range r.IntN(2 * runtime.GOMAXPROCS(0)) {
		hogs.Go(func() { testkit.Hog(&s.quit) })
	}
	for range 6 {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		users.Go(func() {
			for !s.quit.Load() {
				for range 50 {
					s.act(r.IntN)
				}
				time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
			}
		})
	}
	time.Sleep(length)
	left := s.timer.Stop()
	for _, to := range left { // while the goroutines act
		if task, ok := to.Task().(*soakTask); ok {
			task.returned.Add(1)
		}
	}
	w.stop()
	ctx, cancel := context.WithTimeout(s.t.Context(), testkit.Patience)
	defer cancel()
	_, err := s.timer.Shutdown(ctx)
	require.NoError(s.t, err)
	s.over.Store(true)
	s.quit.Store(true)
	users.Wait()
	hogs.Wait()
	for _, to := range left {
		if task, ok := to.Task().(*soakTask); ok && !to.Cancel() {
			task.canceled.Add(-1) // one of its Cancels was for what Stop had returned
		}
	}
	for _, task := range s.all {
		require.Equal(s.t, task.armed.Load(), task.ran.Load()+task.told.Load())
		require.LessOrEqual(s.t, task.canceled.Load()+task.returned.Load(), task.told.Load(), "the groups have canceled the rest")
	}
	st = s.timer.Stats()
	testkit.CheckCounts(s.t, st)
	require.Zero(s.t, st.Pending)
	require.Zero(s.t, st.Queued)
	awaitGoroutines(s.t, before)
	return st, w.worst
}

// Run notes the run in the ledger. The kinds 0 to 5, a tenth of the tasks, also panic, exit, sleep or act.
func (task *soakTask) Run(to *hashedwheel.Timeout) {
	task.ledger.Run(to)
	switch task.kind {
	case 0:
		panic("on purpose")
	case 1:
		runtime.Goexit()
	case 2:
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
	case 3, 4, 5:
		task.s.act(rand.IntN)
	}
}

// act does one thing, chosen at random.
func (s *soak) act(random func(n int) int) {
	timer := s.timer
	delay := time.Duration(random(20_000)-1000) * time.Microsecond
	if random(20) == 0 {
		delay = time.Hour
	}
	slot := &s.tasks[random(len(s.tasks))]
	known := slot.Load()
	switch op := random(23); {
	case op < 6 || known == nil:
		task := &soakTask{s: s, kind: random(60), ledger: ledger{t: s.t, over: &s.over}}
		s.mu.Lock()
		group := s.group
		s.mu.Unlock()
		arm := timer.NewTimeout
		if random(3) == 0 {
			arm = group.NewTimeout
		}
		to, err := arm(task, delay)
		if err != nil {
			return
		}
		task.armed.Add(1)
		task.to.Store(to)
		s.mu.Lock()
		s.all = append(s.all, task)
		s.mu.Unlock()
		slot.Store(task)
	case op < 10:
		if known.to.Load().Cancel() {
			known.canceled.Add(1)
		}
	case op < 15:
		if active, err := known.to.Load().Reset(delay); !active && err == nil {
			known.armed.Add(1)
		}
	case op == 15:
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_ = known.to.Load().WaitRunning(ctx)
		cancel()
	case op == 16:
		to, err := timer.ScheduleAtFixedRate(hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) {
			if rand.IntN(5) == 0 {
				to.Cancel()
			}
		}), delay, time.Millisecond)
		if err == nil && random(2) == 0 {
			to.Cancel()
		}
	case op == 17:
		_, _ = timer.NewTimeout(lightTask{}, delay)
	case op == 18:
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_ = timer.Sleep(ctx, delay/20)
		cancel()
	case op == 19:
		if to, err := timer.ScheduleAtFixedRate(lightTask{}, 0, time.Millisecond); err == nil {
			_, _ = to.Reset(2 * time.Millisecond)
			to.Cancel()
		}
	case op == 20 && random(50) == 0:
		s.mu.Lock()
		group := s.group
		s.group = hashedwheel.NewGroup(timer)
		s.mu.Unlock()
		group.Close()
	default:
		st := timer.Stats()
		if st.Pending < 0 || st.Running < 0 {
			s.t.Errorf("%+v", st)
		}
		to := known.to.Load()
		_, _, _, _ = to.String(), to.Deadline(), to.IsExpired(), to.IsCanceled()
		for range timer.Tasks() {
			if random(100) == 0 {
				break
			}
		}
	}
}

// A lightTask uses neither the limit nor the executor.
type lightTask struct{ light.Task }

func (lightTask) Run(*hashedwheel.Timeout) {}

func (lightTask) Stopped(to *hashedwheel.Timeout) { _, _ = to.Reset(0) }

// Thousands of timers are each used a little, and then stopped, shut down or dropped at a random moment. No
// goroutine, no timer and no memory is left of them.
func TestLifeCycles(t *testing.T) {
	least, most := testkit.Sized(100, 200, 200), testkit.Sized(100, 5000, 100_000)
	r := testkit.Rand(t)
	goroutines, heap := runtime.NumGoroutine(), testkit.HeapInUse()
	var dropped []weak.Pointer[hashedwheel.Timer]
	var ends [3]int
	for range testkit.NewShare(t).Rounds(least, most) {
		timer, err := hashedwheel.New(hashedwheel.WithTick(time.Duration(1+r.IntN(500))*time.Microsecond), hashedwheel.WithLevels(1+r.IntN(3)), hashedwheel.WithWheelSize(8))
		require.NoError(t, err)
		armed := r.IntN(5)
		for range armed {
			to, err := timer.AfterFunc(time.Duration(r.IntN(300))*time.Microsecond, nop)
			require.NoError(t, err)
			if r.IntN(2) == 0 {
				to.Cancel()
			}
		}
		for range r.IntN(100) {
			runtime.Gosched()
		}
		end := r.IntN(3)
		ends[end]++
		switch end {
		case 0:
			timer.Stop()
		case 1:
			_, err := timer.Shutdown(t.Context())
			require.NoError(t, err)
		default:
			dropped = append(dropped, weak.Make(timer))
		}
	}
	awaitGoroutines(t, goroutines)
	left := func() (n int) {
		for _, p := range dropped {
			if p.Value() != nil {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { runtime.GC(); return left() == 0 }, testkit.Patience, 10*time.Millisecond)
	clear(dropped)
	dropped = nil
	require.Less(t, testkit.HeapInUse(), heap+1<<20)
	t.Logf("%d stopped, %d shut down, %d dropped", ends[0], ends[1], ends[2])
}

// awaitGoroutines waits until the number of goroutines is no larger than before.
func awaitGoroutines(t *testing.T, before int) {
	t.Helper()
	for start := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(start), testkit.Patience, "%d goroutines are left, of %d before", runtime.NumGoroutine(), before)
	}
}

// A promised is a task of TestTenMillion. It needs no allocation of its own.
type promised struct {
	deadline time.Duration // since base
	late     time.Duration // how long after the deadline it started; 0 until then
	base     *time.Time
	ran      *atomic.Int64
}

func (p *promised) Run(*hashedwheel.Timeout) {
	if p.late != 0 {
		panic("run twice")
	}
	p.late = time.Since(*p.base) - p.deadline
	p.ran.Add(1)
}

// Ten million timeouts are pending. Half of them are canceled, and the others are due within a minute. None is lost or
// early. The test runs on real time, because it measures how late they are. It takes four minutes and 2 GB, and runs
// only if HASHEDWHEEL_LARGE is set.
func TestTenMillion(t *testing.T) {
	if os.Getenv("HASHEDWHEEL_LARGE") == "" {
		t.Skip("set HASHEDWHEEL_LARGE=1 to run it")
	}
	const (
		n      = 10_000_000
		tick   = 10 * time.Millisecond
		lead   = 20 * time.Second // time to arm and cancel them
		spread = time.Minute
	)
	for levels := 1; levels <= 3; levels++ {
		t.Run(fmt.Sprint("levels=", levels), func(t *testing.T) {
			timer := newTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithLevels(levels))
			all, handles := make([]promised, n), make([]*hashedwheel.Timeout, n)
			var ran atomic.Int64
			before := testkit.HeapInUse()
			base := time.Now()
			producers := runtime.GOMAXPROCS(0)
			var wg sync.WaitGroup
			for part := range producers {
				wg.Go(func() {
					for i := part; i < n; i += producers {
						deadline := lead + rand.N(spread)
						all[i] = promised{deadline: deadline, base: &base, ran: &ran}
						var err error
						if handles[i], err = timer.NewTimeout(&all[i], deadline-time.Since(base)); err != nil {
							panic(err)
						}
					}
				})
			}
			wg.Wait()
			armed := time.Since(base)
			time.Sleep(2 * tick)
			perTimeout := float64(testkit.HeapInUse()-before) / n
			start := time.Now()
			for part := range producers {
				wg.Go(func() {
					for i := 2 * part; i < n; i += 2 * producers {
						if !handles[i].Cancel() {
							panic("not pending any more: the machine is too slow for the lead")
						}
						handles[i] = nil
					}
				})
			}
			wg.Wait()
			canceled := time.Since(start)
			require.Less(t, time.Since(base), lead)
			require.Equal(t, n/2, timer.Pending())

			machine := lateSleeps(tick, base.Add(lead+spread+time.Second))
			require.EqualValues(t, n/2, ran.Load())
			require.Zero(t, timer.Pending())
			var late []time.Duration
			for i := range all {
				if i%2 == 0 {
					require.Zero(t, all[i].late, "a canceled timeout has run")
				} else {
					late = append(late, all[i].late)
				}
			}
			slices.Sort(late)
			q := func(of float64) time.Duration { return quantile(late, of) }
			t.Logf("armed in %v, half canceled in %v, %.0f B per timeout; late: min %v, p50 %v, p99 %v, p99.9 %v, max %v; a sleep: p99 %v",
				armed.Round(time.Millisecond), canceled.Round(time.Millisecond), perTimeout, q(0), q(0.5), q(0.99), q(0.999), q(1), quantile(machine, 0.99))
			require.Positive(t, late[0])
			require.Less(t, q(0.99), tick+5*time.Millisecond+quantile(machine, 0.99))
		})
	}
}

// lateSleeps sleeps again and again until end. It returns by how much each sleep was too long, sorted. The machine adds
// as much to any timer.
func lateSleeps(length time.Duration, end time.Time) (late []time.Duration) {
	for start := time.Now(); start.Before(end); start = time.Now() {
		time.Sleep(length)
		late = append(late, time.Since(start)-length)
	}
	slices.Sort(late)
	return late
}

// quantile returns the value below which a part of the sorted values lies.
func quantile(sorted []time.Duration, part float64) time.Duration {
	return sorted[int(part*float64(len(sorted)-1))].Round(time.Microsecond)
}

// The test measures how long Stats takes while ten million timeouts are armed, are placed in buckets, cascade, and
// come due within one second. It logs quantiles and the longest call, which includes whatever else the machine did.
// It runs only if HASHEDWHEEL_LARGE is set, and takes 2 GB.
func TestStatsOfTenMillion(t *testing.T) {
	if os.Getenv("HASHEDWHEEL_LARGE") == "" {
		t.Skip("set HASHEDWHEEL_LARGE=1 to run it")
	}
	const n, lead = 10_000_000, 60 * time.Second
	for _, c := range []struct {
		name string
		opts []hashedwheel.Option
	}{
		{"levels=1", nil},
		{"levels=3", []hashedwheel.Option{hashedwheel.WithLevels(3), hashedwheel.WithWheelSize(64)}},
		{"concurrency=1", []hashedwheel.Option{hashedwheel.WithMaxConcurrency(1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			timer := newTimer(t, append(c.opts, hashedwheel.WithTick(10*time.Millisecond))...)
			base := time.Now()
			stop := make(chan struct{})
			var took [3][]time.Duration // while timeouts are armed; while all are pending; while they run
			var phase atomic.Int32
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Microsecond):
					}
					p, start := phase.Load(), time.Now()
					timer.Stats()
					took[p] = append(took[p], time.Since(start))
				}
			})
			for i := range n {
				_, err := timer.NewTimeoutAt(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}), base.Add(lead+time.Duration(i%1000)*time.Millisecond))
				require.NoError(t, err)
			}
			phase.Store(1)
			require.Less(t, time.Since(base), lead, "the machine is too slow")
			time.Sleep(time.Until(base.Add(lead)))
			phase.Store(2)
			for timer.Pending() > 0 {
				time.Sleep(10 * time.Millisecond)
			}
			close(stop)
			wg.Wait()
			for p, name := range []string{"arming", "waiting", "running"} {
				slices.Sort(took[p])
				q := func(of float64) time.Duration { return took[p][int(of*float64(len(took[p])-1))] }
				t.Logf("%s: %d calls, p50 %v, p99 %v, p99.9 %v, max %v", name, len(took[p]), q(0.5), q(0.99), q(0.999), q(1))
			}
		})
	}
}

// Memory stays within bounds, the counts agree, and other timeouts fire, however fast producers arm and cancel.
// This holds for any number of goroutines, and with little processor time for the worker.
func TestNothingGrows(t *testing.T) {
	if testing.Short() && !testkit.Full() {
		t.Skip("takes half a second or more: runs without -short, or with HASHEDWHEEL_FULL=1")
	}
	for _, load := range floods() {
		t.Run(load.name, func(t *testing.T) {
			timer := newTimer(t)
			runtime.GC()
			before := liveHeap()
			heap := watchHeap()
			w := watch(timer)
			var users sync.WaitGroup
			var armed, canceled atomic.Int64
			for i := range load.goroutines {
				r := rand.New(rand.NewPCG(uint64(i), 0))
				users.Go(func() {
					n, c := load.run(t, timer, r)
					armed.Add(int64(n))
					canceled.Add(int64(c))
				})
			}
			users.Wait()
			w.stop()
			grown := int64(heap()) - int64(before)
			pending := load.goroutines * (load.lag + 1)
			const bytes = 100                                    // of a timeout and of one or two entries in buckets
			stripes := min(max(2*runtime.GOMAXPROCS(0), 8), 256) // about
			slack := 64<<20 + stripes*4096*bytes                 // on the inbox of each, so many may wait
			require.LessOrEqual(t, grown, int64(slack+3*bytes*pending))
			require.Equal(t, armed.Load(), canceled.Load())
			require.Eventually(t, func() bool { return timer.Pending() == 0 && timer.Stats().Queued == 0 }, testkit.Patience, time.Millisecond)
			t.Logf("%d armed, live heap grew by %d KB; the watchdog's timeouts were late by up to %v", armed.Load(), grown>>10, w.worst)
		})
	}
}

// A flood says what producers do in TestNothingGrows: each goroutine arms timeouts, and cancels each one lag
// operations later.
type flood struct {
	name       string
	goroutines int
	lag        int
	resets     bool
	cross      bool // another goroutine cancels
}

func floods() []flood {
	all := []flood{
		{name: "at once", goroutines: 32},
		{name: "much later", goroutines: 32, lag: 4096},
		{name: "resets", goroutines: 32, lag: 256, resets: true},
		{name: "by others", goroutines: 16, cross: true},
	}
	if testkit.Full() {
		for _, n := range []int{2, 8, 128} {
			for _, lag := range []int{0, 256, 4096} {
				all = append(all, flood{goroutines: n, lag: lag, resets: lag == 256})
			}
			all = append(all, flood{goroutines: n, cross: true})
		}
	}
	return testkit.Sized(all[2:], all, all)
}

// run does the part of one goroutine. It returns how many timeouts were armed and how many were canceled.
func (f flood) run(t *testing.T, timer *hashedwheel.Timer, r *rand.Rand) (armed, canceled int) {
	cancel := func(to *hashedwheel.Timeout) {
		if to.Cancel() {
			canceled++
		}
	}
	end := time.Now().Add(2 * testkit.StressTime(t))
	arm := func() *hashedwheel.Timeout {
		to, err := timer.AfterFunc(10*time.Minute, nop)
		if err != nil {
			panic(err)
		}
		armed++
		return to
	}
	if f.cross {
		handed := make(chan []*hashedwheel.Timeout, 1)
		var other sync.WaitGroup
		other.Go(func() {
			for some := range handed {
				for _, to := range some {
					cancel(to)
				}
			}
		})
		for time.Now().Before(end) {
			some := make([]*hashedwheel.Timeout, 128)
			for i := range some {
				some[i] = arm()
			}
			handed <- some
		}
		close(handed)
		other.Wait()
		return armed, canceled
	}
	ring := make([]*hashedwheel.Timeout, f.lag+1)
	for i := 0; i%256 != 0 || time.Now().Before(end); i++ {
		if i%256 == 0 {
			testkit.Spin()
		}
		old := &ring[i%len(ring)]
		if *old != nil {
			cancel(*old)
		}
		*old = arm()
		if f.resets && i%4 == 0 {
			if to := ring[r.IntN(len(ring))]; to != nil {
				_, _ = to.Reset(time.Duration(1+r.IntN(20)) * time.Minute)
			}
		}
	}
	for _, to := range ring {
		if to != nil {
			cancel(to)
		}
	}
	return armed, canceled
}

// liveHeap returns how many bytes the last garbage collection has found reachable.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// watchHeap samples liveHeap until the function that it returns is called. That returns the largest sample.
func watchHeap() (stop func() uint64) {
	runtime.GC()
	var samples []uint64
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			samples = append(samples, liveHeap())
			select {
			case <-over:
				return
			case <-time.After(17 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(over)
		<-done
		return slices.Max(samples)
	}
}
