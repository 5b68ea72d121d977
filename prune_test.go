package hashedwheel

import (
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
	"github.com/stretchr/testify/require"
)

// setStripes gives the queue of a timer n stripes.
func setStripes(timer *Timer, n int) {
	timer.queue = queue{}
	timer.queue.init(timer.clock.Tick, n)
}

// oneStripe gives the queue of a timer one stripe, which all goroutines use.
func oneStripe(timer *Timer) *stripe {
	setStripes(timer, 1)
	timer.queue.seats = nil
	return &timer.queue.stripes[0]
}

// Goroutines that arm timeouts drop canceled ones and keep pending ones. Timeouts are canceled at once or much
// later, with resets in between. The worker, whose tick is an hour, does nothing.
func TestProducersPrune(t *testing.T) {
	for name, lag := range map[string]int{"at once": 0, "later": 256, "much later": 4096} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(time.Hour))
				oneStripe(timer)
				r := newRand(t)
				arm := func() *Timeout {
					to, err := timer.AfterFunc(10*time.Hour, nop)
					require.NoError(t, err)
					return to
				}
				pending := []*Timeout{arm()}
				synctest.Wait() // from here the worker waits for the next boundary
				var ring []*Timeout
				first := weak.Make(arm())
				first.Value().Cancel()
				most := 0
				for i := range 40_000 {
					ring = append(ring, arm())
					if i%1000 == 0 {
						pending = append(pending, arm())
					}
					victim := ring[r.IntN(len(ring))]
					if i%3 == 0 {
						_, err := victim.Reset(time.Duration(1+r.IntN(20)) * time.Hour)
						require.NoError(t, err)
					}
					if len(ring) > lag {
						require.True(t, ring[0].Cancel())
						ring[0] = nil
						ring = ring[1:]
					}
					most = max(most, timer.queue.length(&timer.worker))
				}
				require.LessOrEqual(t, most, max(2*(lag+len(pending)), minKept)+minKept+2*pruneEvery)
				require.Equal(t, timer.queue.queueLen(), timer.Stats().Queued)
				require.Equal(t, len(ring)+len(pending), timer.Pending())
				runtime.GC()
				require.Nil(t, first.Value(), "it was canceled long ago")
				left := make(map[*Timeout]bool)
				for _, to := range timer.Stop() {
					left[to] = true
				}
				require.Len(t, left, len(ring)+len(pending))
				for _, to := range append(pending, ring...) {
					if !left[to] {
						t.Fatal("pending, but not returned by Stop")
					}
				}
			})
		})
	}
}

// Producers also drop a timeout that was pruned, then armed again by Reset, and canceled again.
func TestPrunedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		oneStripe(timer)
		_, err := timer.AfterFunc(10*time.Hour, nop)
		require.NoError(t, err)
		synctest.Wait() // from here the worker waits for the next boundary
		var ring []*Timeout
		most, pruned := 0, 0
		for range 20_000 {
			to, err := timer.AfterFunc(10*time.Hour, nop)
			require.NoError(t, err)
			require.True(t, to.Cancel())
			if ring = append(ring, to); len(ring) == 1000 {
				old := ring[0]
				if !onQueue(old.word.Load()) {
					pruned++
				}
				active, err := old.Reset(5 * time.Hour)
				require.NoError(t, err)
				require.False(t, active)
				require.True(t, old.Cancel())
				ring = ring[1:]
			}
			most = max(most, timer.queue.length(&timer.worker))
		}
		require.Greater(t, pruned, 18_000)
		require.LessOrEqual(t, most, 2*pruneEvery)
		require.Equal(t, 1, timer.Pending())
	})
}

// Producers do not drop a canceled timeout that the worker has had, because it may lie in a bucket.
func TestPlacedIsNotPruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Hour
		timer := newTimer(t, WithTick(tick))
		s := oneStripe(timer)
		to, err := timer.AfterFunc(10*tick, nop)
		require.NoError(t, err)
		pass(tick)
		require.Zero(t, to.word.Load()&fresh)
		_, err = timer.AfterFunc(10*tick, nop)
		require.NoError(t, err)
		synctest.Wait() // from here the worker waits for the next boundary
		require.True(t, to.Cancel())
		timer.worker.prune(s)
		require.NotZero(t, to.word.Load()&queued)
		require.Equal(t, 1, timer.Stats().Queued)
		active, err := to.Reset(2 * tick)
		require.NoError(t, err)
		require.False(t, active)
		require.True(t, to.Cancel())
		require.Equal(t, 1, timer.Stats().Queued, "still once")
		pass(tick)
		require.Zero(t, timer.Stats().Queued)
		require.Equal(t, 1, timer.Pending())
	})
}

// While a producer prunes, its timeouts are not on the queue. Meanwhile the worker finds the queue empty and
// goes idle, or a boundary goes by at which a timeout is due or to which it is reset. Such timeouts fire as
// soon as they have been put back, or when they are due, if that is later.
func TestPruningCallsTheWorker(t *testing.T) {
	const tick = time.Millisecond
	for name, delay := range map[string]time.Duration{
		"due": tick, "reset": time.Hour, "near, reset": nearTime / 2, "later": 4 * tick, "later, missed": 4 * tick,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick))
				s := oneStripe(timer)
				start, fired := time.Now(), time.Duration(0)
				timer.worker.state.Store(working) // so that no worker starts, which might take the timeout first
				to, err := timer.AfterFunc(delay, func() { fired = time.Since(start) })
				require.NoError(t, err)
				p := pruning{worker: &timer.worker, stripe: s, earliest: ticks.Never, soonest: ticks.Never}
				p.sift(s.near.pushed.take(), 0)
				p.sift(s.takePushed(), 0)
				timer.worker.in.pace.Fast = time.Hour // so that the worker takes only what is near
				timer.worker.state.Store(resting)
				timer.worker.summon(0)
				if strings.HasSuffix(name, "reset") {
					_, err := to.Reset(tick)
					require.NoError(t, err)
				}
				pass(5 * tick / 2)
				require.EqualValues(t, resting, timer.worker.state.Load())
				if strings.HasSuffix(name, "reset") {
					require.Equal(t, tick, fired, "the worker need not wait for the producer")
					return
				}
				require.Zero(t, fired)
				p.keep()
				if name != "later" {
					timer.worker.state.Store(1 << idleShift) // so that it does not come because of the summon
				}
				p.callWorker()
				pass(10 * tick)
				want := 5 * tick / 2
				if strings.HasPrefix(name, "later") {
					want = delay
				}
				require.Equal(t, want, fired)
			})
		})
	}
}

// Goroutines arm and cancel one after another, each on its own stripe. The later ones drop canceled timeouts that the
// earlier ones have left on theirs.
func TestIdleStripesArePruned(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	setStripes(timer, 64)
	withoutWorker(t, timer)
	const each, users = 20_000, 40
	most := 0
	for i := range users {
		s := &timer.queue.stripes[i]
		var all []*Timeout
		for range each {
			to := &Timeout{timer: timer, task: plainFunc(nop)}
			to.word.Store(pendingAt(laned|fresh, 10))
			s.far.pushed.push(to)
			if s.armed.Add(1)%pruneEvery == 0 {
				timer.worker.prune(s)
			}
			all = append(all, to)
		}
		for _, to := range all {
			to.Cancel()
		}
		most = max(most, timer.Stats().Queued)
	}
	t.Logf("%d of %d were on the queue", most, users*each)
	require.Less(t, most, users*each/3)
}

// On a stripe with many long-lived timeouts, those that are armed and canceled beside them do not pile up. There are
// never much more than twice as many timeouts on the queue as are pending.
func TestChurnBesideLongLived(t *testing.T) {
	timer := newTimer(t, WithTick(100*time.Hour))
	oneStripe(timer)
	withoutWorker(t, timer)
	const live, window = 100_000, 1000
	arm := func() *Timeout {
		to, err := timer.AfterFunc(1000*time.Hour, nop)
		if err != nil {
			panic(err)
		}
		return to
	}
	for range live {
		arm()
	}
	var ring [window]*Timeout
	most := 0
	for i := range sized(600_000, 3_000_000, 3_000_000) {
		if old := ring[i%window]; old != nil {
			old.Cancel()
		}
		ring[i%window] = arm()
		most = max(most, timer.queue.length(&timer.worker))
	}
	t.Logf("at most %d on the queue", most)
	require.LessOrEqual(t, most, (live+window)*22/10)
	for seg := timer.queue.stripes[0].far.kept.first; seg != nil; seg = seg.next {
		require.LessOrEqual(t, seg.n, pruneEvery, "a pruning checks whole segments")
	}
}

// Segments are popped in the order in which they were pushed. An empty list refers to none.
func TestSegments(t *testing.T) {
	var l segments
	pushed, popped := 0, 0
	push := func() {
		pushed++
		l.push(&segment{n: pushed})
	}
	next := func(seg *segment) {
		popped++
		require.Equal(t, popped, seg.n)
	}
	for range 3 {
		for range 5 {
			push()
			push()
			next(l.pop())
		}
		require.EqualValues(t, pushed*(pushed+1)/2-popped*(popped+1)/2, l.n.Load())
		for seg := l.pop(); seg != nil; seg = l.pop() {
			require.Nil(t, seg.next, "it would keep timeouts alive")
			next(seg)
		}
		require.Equal(t, pushed, popped)
		push()
		next(l.pop())
		require.Nil(t, l.pop())
		require.Zero(t, l.n.Load())
		require.Nil(t, l.first)
		require.Nil(t, l.last, "it would keep timeouts alive")
	}
}

// No goroutine changes the list of segments while another one does.
func TestSegmentsAreLocked(t *testing.T) {
	for name, change := range map[string]func(l *segments){
		"push": func(l *segments) { l.push(&segment{n: 1}) },
		"pop":  func(l *segments) { l.pop() },
	} {
		var l segments
		l.push(&segment{n: 1})
		l.mu.Lock()
		changed := make(chan bool)
		go func() {
			change(&l)
			close(changed)
		}()
		select {
		case <-changed:
			t.Errorf("%s does not wait for the lock", name)
		case <-time.After(5 * time.Millisecond):
		}
		l.mu.Unlock()
		<-changed
	}
}

// Memory stays within bounds, the counts agree, and other timeouts fire, however fast producers arm and cancel.
// This holds for any number of goroutines, and with little processor time for the worker.
func TestNothingGrows(t *testing.T) {
	if testing.Short() && !full() {
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
			const slack, bytes = 64 << 20, 100 // bytes of a timeout and of one or two entries in buckets
			require.LessOrEqual(t, grown, int64(slack+3*bytes*pending))
			require.Equal(t, armed.Load(), canceled.Load())
			require.Eventually(t, func() bool { return timer.Pending() == 0 && timer.Stats().Queued == 0 }, patience, time.Millisecond)
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
	if full() {
		for _, n := range []int{2, 8, 128} {
			for _, lag := range []int{0, 256, 4096} {
				all = append(all, flood{goroutines: n, lag: lag, resets: lag == 256})
			}
			all = append(all, flood{goroutines: n, cross: true})
		}
	}
	return sized(all[2:], all, all)
}

// run does the part of one goroutine. It returns how many timeouts were armed and how many were canceled.
func (f flood) run(t *testing.T, timer *Timer, r *rand.Rand) (armed, canceled int) {
	cancel := func(to *Timeout) {
		if to.Cancel() {
			canceled++
		}
	}
	end := time.Now().Add(2 * stressTime(t))
	arm := func() *Timeout {
		to, err := timer.AfterFunc(10*time.Minute, nop)
		if err != nil {
			panic(err)
		}
		armed++
		return to
	}
	if f.cross {
		handed := make(chan []*Timeout, 1)
		var other sync.WaitGroup
		other.Go(func() {
			for some := range handed {
				for _, to := range some {
					cancel(to)
				}
			}
		})
		for time.Now().Before(end) {
			some := make([]*Timeout, 128)
			for i := range some {
				some[i] = arm()
			}
			handed <- some
		}
		close(handed)
		other.Wait()
		return armed, canceled
	}
	ring := make([]*Timeout, f.lag+1)
	for i := 0; i%256 != 0 || time.Now().Before(end); i++ {
		if i%256 == 0 {
			spin()
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

// Timeouts in structs that are armed for the first time, or again after producers have dropped them, are
// pruned like new ones. The worker, whose tick is an hour, does nothing.
func TestEmbeddedArePruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		oneStripe(timer)
		keep, err := timer.AfterFunc(10*time.Hour, nop)
		require.NoError(t, err)
		synctest.Wait() // from here the worker waits for the next boundary
		calls := make([]request, 5000)
		for i := range calls {
			timer.Init(&calls[i].timeout, &calls[i])
		}
		most := 0
		for round := range 4 {
			for i := range calls {
				to := &calls[i].timeout
				active, err := to.Reset(10 * time.Hour)
				require.NoError(t, err)
				require.False(t, active)
				require.Equal(t, 2, timer.Pending())
				require.True(t, to.Cancel())
				most = max(most, timer.queue.length(&timer.worker))
			}
			require.LessOrEqual(t, most, 2*pruneEvery, "round %d", round)
		}
		require.True(t, keep.Cancel())
	})
}

// Producers do not drop a canceled timeout that is hurried, or that the worker has taken before its lane. They give it to
// the worker, which takes it off its lane soon.
func TestHurriedIsNotPruned(t *testing.T) {
	timer := newFakedTimer(t, WithTick(time.Millisecond))
	withoutWorker(t, timer)
	w, s := &timer.worker, oneStripe(timer)
	w.wheel = newWheel(16, 1, 0)
	for _, taken := range []bool{false, true} {
		to := hurried(t, timer)
		if taken {
			w.in.takeUrgent()
			require.Equal(t, 1, w.wheel.count)
		}
		require.True(t, to.Cancel())
		for range 2 {
			w.prune(s)
			require.NotZero(t, to.word.Load()&laned)
			require.NotZero(t, to.word.Load()&queued)
		}
		require.Equal(t, to, s.near.kept.first.first)
		if taken { // first the list, then the lane
			w.in.takeHurried(&s.hurried)
			require.Zero(t, w.wheel.count)
			p := pruning{worker: w, stripe: s, earliest: ticks.Never, soonest: ticks.Never}
			p.recheck(&s.near.kept, 1)
			require.NotZero(t, to.word.Load()&laned, "it may be dropped only by the worker, which has counted it")
		}
		w.in.takeUrgent()
		require.Zero(t, to.word.Load()&(queued|laned|fresh))
		require.Zero(t, w.wheel.count)
	}
	require.Zero(t, s.dropped.Load())
	w.wheel = nil
}

// A timeout that was hurried leaves its lane soon, although the others there stay.
func TestHurriedIsUnlinkedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		var to *Timeout
		churn(t, timer, 2*minKept, keepTime/2, func(elapsed time.Duration) {
			switch elapsed {
			case 100 * time.Millisecond:
				var err error
				to, err = timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
			case 150 * time.Millisecond:
				require.True(t, onQueue(to.word.Load()))
				_, err := to.Reset(time.Minute)
				require.NoError(t, err)
			case 180 * time.Millisecond:
				require.False(t, onQueue(to.word.Load()), "the worker has taken it")
				require.True(t, to.Cancel())
			case 220 * time.Millisecond:
				require.Zero(t, to.word.Load()&(queued|laned))
			}
		})
	})
}

// While nothing on a lane is canceled or hurried, producers do not check kept timeouts again, except those that they have
// kept for long.
func TestEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		withoutWorker(t, timer)
		w, s := &timer.worker, oneStripe(timer)
		var all []*Timeout
		arm := func() {
			for range 4 * minKept {
				to, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				all = append(all, to)
			}
		}
		arm()
		for range 8 * minKept / maxRechecked {
			w.prune(s)
		}
		// checks reports whether a pruning checks the first segment again.
		checks := func() bool {
			first := s.far.kept.first
			w.prune(s)
			return s.far.kept.first != first
		}
		untilClean := func() {
			t.Helper()
			for range 100 {
				if !checks() {
					return
				}
			}
			t.Fatal("producers check the same timeouts again and again")
		}
		quiet := func(quiet bool) {
			t.Helper()
			require.Equal(t, quiet, timer.queue.era.Load()%2 != 0)
		}
		quiet(true)
		untilClean()
		require.False(t, checks())
		end := map[string]func(to *Timeout){
			"cancel":  func(to *Timeout) { require.True(t, to.Cancel()) },
			"hurried": func(to *Timeout) { _, err := to.Reset(time.Minute); require.NoError(t, err) },
		}
		for name, end := range end {
			end(all[0])
			all = all[1:]
			quiet(false)
			require.True(t, checks(), name)
			for range 8 * minKept / maxRechecked { // a second time, because the first has dropped one
				checks()
			}
			quiet(true)
			untilClean()
		}

		// A pruning that drops a timeout does not begin an era.
		first := s.far.kept.first.first
		require.True(t, first.Cancel())
		quiet(false)
		require.True(t, checks())
		require.NotZero(t, s.dropped.Load())
		quiet(false)

		// What was kept before an era is checked again, even if nothing was dropped since.
		for range 8 * minKept / maxRechecked {
			checks()
		}
		quiet(true)
		untilClean()
		s.far.kept.first.era--
		require.True(t, checks())

		untilClean()
		time.Sleep(keepTime + tick)
		require.True(t, checks(), "the wheel is cheaper for those that live long")
		for _, to := range all {
			to.Cancel()
		}
	})
}

// Each pruning leaves one more of the structs that are armed and canceled in turn on the queue. In the end they all stay
// there, and arming one is only a change of its word.
func TestKeptInTurnNeedNoPush(t *testing.T) {
	const n, turns = pruneEvery + 50, 1_000_000
	timer := newTimer(t, WithTick(time.Hour))
	s := oneStripe(timer)
	withoutWorker(t, timer)
	ring := make([]Timeout, n)
	for i := range ring {
		timer.Init(&ring[i], plainFunc(nop))
	}
	before := uint64(0)
	for i := range turns {
		if i == turns*3/4 {
			before = s.armed.Load()
		}
		to := &ring[i%n]
		if _, err := to.Reset(2 * time.Hour); err != nil || !to.Cancel() {
			t.Fatal(err)
		}
	}
	t.Logf("%d pushes, then %d", before, s.armed.Load()-before)
	require.Less(t, s.armed.Load()-before, uint64(turns/4/100))
}

// A pruning drops all that was armed and canceled in turn, if each is new.
func TestNewInTurnAreDropped(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	s := oneStripe(timer)
	withoutWorker(t, timer)
	for range 10 * pruneEvery {
		to, err := timer.AfterFunc(2*time.Hour, nop)
		require.NoError(t, err)
		require.True(t, to.Cancel())
		require.Zero(t, s.far.kept.n.Load())
	}
}
