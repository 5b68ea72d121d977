package crossing

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// The tests in this file run on real time, because they test races: in a bubble, time stands still while goroutines
// compute. They sleep for random times, so that what races meets at different moments, and assert no time. HASHEDWHEEL_STRESS
// sets how long they run. They check sums at the end. TestCrossing has the races of all features.

// Under load no run is earlier than the deadline of the last Reset.
func TestNeverEarlyUnderResets(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithTick(300*time.Microsecond), hashedwheel.WithWheelSize(4))
	base := time.Now()
	var wg sync.WaitGroup
	var runs atomic.Int64
	seeds := testkit.Rand(t)
	for range 4 {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		wg.Go(func() {
			// Only this goroutine resets these timeouts, and only when no run is due or in progress.
			// So each run belongs to the deadline in notUntil.
			type one struct {
				to         *hashedwheel.Timeout
				notUntil   atomic.Int64 // the earliest time of the next run, since base
				ran, armed atomic.Int64
			}
			all := make([]*one, 50)
			for i := range all {
				l := new(one)
				l.armed.Add(1)
				to, err := timer.NewTimeout(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
					notUntil := l.notUntil.Load()
					if now := time.Since(base); int64(now) < notUntil {
						t.Errorf("ran at %v, not due until %v", now, time.Duration(notUntil))
					}
					l.ran.Add(1)
					runs.Add(1)
				}), time.Hour)
				assert.NoError(t, err)
				l.to = to
				all[i] = l
			}
			for end := time.Now().Add(testkit.StressTime(t)); testkit.GoesOn(end, runs.Load() > 0); {
				l := all[r.IntN(len(all))]
				to := l.to
				delay := time.Duration(r.IntN(2000)) * time.Microsecond
				if !to.Cancel() {
					if !to.IsExpired() {
						continue
					}
					// The task is about to run, for the previous deadline.
					for l.ran.Load() < l.armed.Load() {
						runtime.Gosched()
					}
				} else {
					l.armed.Add(-1)
				}
				l.armed.Add(1)
				l.notUntil.Store(int64(time.Since(base) + delay))
				_, err := to.Reset(delay)
				assert.NoError(t, err)
			}
			for _, l := range all {
				l.to.Cancel()
			}
		})
	}
	wg.Wait()
	require.NotZero(t, runs.Load())
}

// No timeout expires after Stop has returned. The tasks of those that expired just before may be at their first
// instruction: at most one for each runner. Stop is called while many timeouts are due, and other goroutines keep all
// processors busy.
func TestNothingStartsAfterStop(t *testing.T) {
	r := testkit.Rand(t)
	var over atomic.Bool
	var hogs sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		hogs.Go(func() { testkit.Hog(&over) })
	}
	midst := 0
	for end := time.Now().Add(2 * testkit.StressTime(t)); testkit.GoesOn(end, midst > 0); {
		timer := newTimer(t, hashedwheel.WithTick(time.Millisecond))
		var stopped atomic.Bool
		var late, ran atomic.Int64
		const n = 20_000
		for range n {
			_, err := timer.AfterFunc(0, func() {
				if stopped.Load() {
					late.Add(1)
				}
				if ran.Add(1)%1000 == 0 {
					runtime.Gosched() // so that Stop may come in between on one processor too
				}
			})
			require.NoError(t, err)
		}
		for d, start := time.Duration(r.IntN(1000))*time.Microsecond, time.Now(); time.Since(start) < d; {
			runtime.Gosched()
		}
		left := timer.Stop()
		st := timer.Stats()
		stopped.Store(true)
		if len(left) > 0 && len(left) < n {
			midst++
		}
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, timer.Stats().Expired, ran.Load())
		require.LessOrEqual(t, st.Expired-uint64(ran.Load()), uint64(st.Running))
		require.LessOrEqual(t, late.Load(), int64(st.Running))
		require.EqualValues(t, n, int(ran.Load())+len(left))
	}
	over.Store(true)
	hogs.Wait()
	t.Logf("%d stopped in the middle", midst)
	require.Positive(t, midst)
}

// Several goroutines reset one ended timeout at the same time, and there is one slot. None is refused: the first one
// takes the slot, and for the others the timeout is pending.
func TestMaxPendingRaceOfResets(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithTick(time.Millisecond), hashedwheel.WithMaxPending(1))
	to, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	for end := time.Now().Add(testkit.StressTime(t)); time.Now().Before(end); {
		require.True(t, to.Cancel())
		var armed atomic.Int64
		var users sync.WaitGroup
		for range 3 {
			users.Go(func() {
				active, err := to.Reset(time.Hour)
				assert.NoError(t, err)
				if !active {
					armed.Add(1)
				}
			})
		}
		users.Wait()
		require.EqualValues(t, 1, armed.Load())
		require.Equal(t, 1, timer.Pending())
	}
}

// Each timeout is canceled once, before Stop or after Stop has returned it. What Stop has returned counts as returned.
func TestStopAgainstCancel(t *testing.T) {
	for end := time.Now().Add(testkit.StressTime(t)); time.Now().Before(end); {
		timer := newTimer(t, hashedwheel.WithTick(time.Millisecond))
		all := make([]*hashedwheel.Timeout, 5000)
		for i := range all {
			var err error
			all[i], err = timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
		}
		var users sync.WaitGroup
		canceled := 0
		users.Go(func() {
			for _, to := range all {
				if to.Cancel() {
					canceled++
				}
			}
		})
		left := timer.Stop()
		users.Wait()
		// The goroutine has canceled all. Some of them it has canceled after Stop had returned them.
		require.Equal(t, len(all), canceled)
		require.EqualValues(t, canceled-len(left), timer.Stats().Canceled)
		for _, to := range left {
			require.True(t, to.IsCanceled())
		}
	}
}

// A slot is free once the task has been started, and once Cancel has returned true.
func TestSlotIsFreeOnceEnded(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithTick(20*time.Microsecond), hashedwheel.WithMaxPending(1))
	started := make(chan bool)
	to, err := timer.AfterFunc(0, func() { started <- true })
	require.NoError(t, err)
	for deadline := time.Now().Add(testkit.StressTime(t) / 2); time.Now().Before(deadline); {
		<-started
		_, err = to.Reset(time.Hour)
		require.NoError(t, err)
		require.True(t, to.Cancel())
		to, err = timer.AfterFunc(0, func() { started <- true })
		require.NoError(t, err)
	}
	<-started
}

// Cancel, Reset and Stop race with the end of a schedule, on real time.
func TestScheduleEndRace(t *testing.T) {
	for name, opts := range waysToRun() {
		t.Run(name, func(t *testing.T) {
			rnd := testkit.Rand(t)
			var expired, ran int
			for end := time.Now().Add(testkit.StressTime(t) / 3); testkit.GoesOn(end, ran > 0 && expired > 0); {
				timer := newTimer(t, append(opts, hashedwheel.WithTick(20*time.Microsecond), hashedwheel.WithMaxPending(1))...)
				var asked, runs atomic.Int32
				s := scheduleFunc(func(prev time.Time) time.Time {
					if asked.Add(1) > 3 {
						return time.Time{}
					}
					return time.Now()
				})
				to, err := timer.Schedule(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { runs.Add(1) }), s)
				require.NoError(t, err)
				var wg sync.WaitGroup
				for _, f := range []func(){
					func() { to.Cancel() },
					func() { to.Reset(0) },
					func() { timer.Stop() },
				} {
					for wait := rnd.IntN(100); wait > 0; wait-- {
						runtime.Gosched()
					}
					wg.Go(f)
				}
				wg.Wait()
				_, err = timer.Shutdown(t.Context())
				require.NoError(t, err)
				assert.True(t, to.IsExpired() || to.IsCanceled() || to.Cancel(), "%v", to)
				require.Zero(t, timer.Pending())
				checkStats(t, timer)
				ran += int(runs.Load())
				if to.IsExpired() {
					expired++
				}
			}
			t.Logf("%d runs, %d schedules ended by themselves", ran, expired)
			require.Positive(t, ran)
			require.Positive(t, expired)
		})
	}
}

// A pooled is a struct whose timeout is used again and again. It counts the armings of the timeout, and how they
// ended.
type pooled struct {
	timeout  hashedwheel.Timeout
	armed    atomic.Int64 // raised before an arming
	ended    atomic.Int64 // the sum of the next three
	ran      atomic.Int64
	canceled atomic.Int64
	returned atomic.Int64

	notUntil atomic.Int64 // no run is due before this time, counted from base
	round    *pooledRound
}

// A pooledRound is one timer with its users.
type pooledRound struct {
	t     *testing.T
	timer *hashedwheel.Timer
	base  time.Time
	over  atomic.Bool // Shutdown has returned
	pool  sync.Pool

	mu  sync.Mutex
	all []*pooled // includes structs that the pool has dropped
}

func (p *pooled) end(how *atomic.Int64) {
	how.Add(1)
	armed := p.armed.Load()
	if ended := p.ended.Add(1); ended > p.armed.Load() {
		p.round.t.Errorf("ended %d times, armed %d to %d times: %v", ended, armed, p.armed.Load(), &p.timeout)
	}
}

// Run sometimes arms the timeout again. After the end is counted, others may arm it, and Run sometimes continues
// for a while.
func (p *pooled) Run(to *hashedwheel.Timeout) {
	r := p.round
	if r.over.Load() {
		r.t.Errorf("task started after Shutdown had returned: %v", to)
	}
	if now := time.Since(r.base); int64(now) < p.notUntil.Load() {
		r.t.Errorf("ran at %v, not due until %v", now, time.Duration(p.notUntil.Load()))
	}
	how := rand.IntN(8)
	if how == 0 {
		p.arm(time.Duration(rand.IntN(200)) * time.Microsecond)
	}
	p.end(&p.ran)
	if how < 3 {
		time.Sleep(50 * time.Microsecond)
	}
}

// arm arms the timeout, which has ended or is about to end. It reports whether the timer has accepted it.
func (p *pooled) arm(delay time.Duration) bool {
	r := p.round
	p.armed.Add(1)
	deadline := time.Now().Add(delay)
	p.notUntil.Store(int64(deadline.Sub(r.base)))
	var active bool
	var err error
	if rand.IntN(2) == 0 {
		active, err = p.timeout.Reset(delay)
	} else {
		active, err = p.timeout.ResetAt(deadline)
	}
	if err != nil {
		assert.ErrorIs(r.t, err, hashedwheel.ErrStopped)
		p.armed.Add(-1)
	} else {
		assert.False(r.t, active)
	}
	return err == nil
}

// use takes a struct from the pool, and arms and ends its timeout several times. Then it puts the struct back.
func (r *pooledRound) use(rnd *rand.Rand) {
	p, _ := r.pool.Get().(*pooled)
	if p == nil {
		p = &pooled{round: r}
		r.timer.Bind(&p.timeout, p)
		r.mu.Lock()
		r.all = append(r.all, p)
		r.mu.Unlock()
	}
	for range 1 + rnd.IntN(4) { // at once, while the queue, a bucket or a runner still has the timeout from the arming before
		if !p.arm(time.Duration(rnd.IntN(1500)*rnd.IntN(2)) * time.Microsecond) {
			return
		}
		for range rnd.IntN(3) * rnd.IntN(40) {
			runtime.Gosched()
		}
		if rnd.IntN(4) == 0 {
			p.notUntil.Store(0) // the task may set it again meanwhile, but to no later time than this Move
			p.timeout.Move(time.Duration(200+rnd.IntN(500)) * time.Microsecond)
		}
		for p.ended.Load() != p.armed.Load() {
			if rnd.IntN(8) > 0 && p.timeout.Cancel() {
				p.end(&p.canceled)
			} else if runtime.Gosched(); r.timer.IsStopped() {
				return // Stop returns the timeout, or its task is about to run
			}
		}
	}
	r.pool.Put(p)
}

// Timeouts of structs from a pool are armed again as soon as they have ended: while they are still on the queue, in
// a bucket, on the list of those due, or with a runner, and while the task runs. At a random moment the timer is stopped. Each
// arming ends exactly once, and none is early. The test runs on real time, because it tests races.
func TestPooledEndOnce(t *testing.T) {
	seeds := testkit.Rand(t)
	var total hashedwheel.Stats
	seen := func() bool { return total.Expired > 0 && total.Canceled > 0 && total.Returned > 0 }
	for end := time.Now().Add(2 * testkit.StressTime(t)); testkit.GoesOn(end, seen()); {
		opts := []hashedwheel.Option{hashedwheel.WithTick(time.Duration(20+seeds.IntN(300)) * time.Microsecond), hashedwheel.WithWheelSize(1 + seeds.IntN(16))}
		switch seeds.IntN(4) {
		case 0:
			opts = append(opts, hashedwheel.WithMaxConcurrency(1+seeds.IntN(3)))
		case 1:
			opts = append(opts, hashedwheel.WithExecutor(func(run func()) error { go run(); return nil }))
		case 2:
			opts = append(opts, hashedwheel.WithMaxPending(1000))
		}
		r := &pooledRound{t: t, timer: newTimer(t, opts...), base: time.Now()}
		var users sync.WaitGroup
		for range 5 {
			rnd := rand.New(rand.NewPCG(seeds.Uint64(), 0))
			users.Go(func() {
				for !r.timer.IsStopped() {
					r.use(rnd)
				}
			})
		}
		time.Sleep(time.Duration(seeds.IntN(15_000)) * time.Microsecond)
		left := r.timer.Stop()
		for _, to := range left {
			if p := to.Task().(*pooled); to.Cancel() { // otherwise it counts as canceled, and has ended
				p.end(&p.returned)
			}
		}
		users.Wait()
		_, err := r.timer.Shutdown(t.Context())
		require.NoError(t, err)
		r.over.Store(true)

		var sum hashedwheel.Stats
		for _, p := range r.all {
			require.Equal(t, p.armed.Load(), p.ended.Load(), "ran %d, canceled %d, returned %d: %v",
				p.ran.Load(), p.canceled.Load(), p.returned.Load(), &p.timeout)
			sum.Accepted += uint64(p.armed.Load())
			sum.Expired += uint64(p.ran.Load())
			sum.Canceled += uint64(p.canceled.Load())
			sum.Returned += uint64(p.returned.Load())
		}
		sum.Canceled -= uint64(len(left)) - sum.Returned
		sum.Returned = uint64(len(left))
		st := outcomes(r.timer)
		st.RejectedStopped = 0
		require.Equal(t, sum, st)
		total.Accepted += sum.Accepted
		total.Expired += sum.Expired
		total.Canceled += sum.Canceled
		total.Returned += sum.Returned
	}
	t.Logf("%d armed, %d expired, %d canceled, %d returned", total.Accepted, total.Expired, total.Canceled, total.Returned)
	require.True(t, seen(), "the test did not see every outcome")
}

// Two or three operations on a timeout happen at the same time, in every combination, on real time and in many
// rounds. The outcome must be one that some order of the operations, one after another, would give. So each arming
// has at most one end. One of the operations, push, arms another timeout. TestExplore searches the orders of their
// steps.
func TestOutcomes(t *testing.T) {
	kinds := []string{"cancel", "reset", "expiry", "stop", "push"}
	for i, a := range kinds {
		for j, b := range kinds[:i] {
			t.Run(a+"+"+b, func(t *testing.T) { testOutcomes(t, a, b) })
			for _, c := range kinds[:j] {
				t.Run(a+"+"+b+"+"+c, func(t *testing.T) { testOutcomes(t, a, b, c) })
			}
		}
	}
}

// claimed returns how many of the timeouts that Stop has returned were canceled since, and cancels the others. Cancel was true
// for each of them.
func claimed(t *testing.T, left ...*hashedwheel.Timeout) (n int64) {
	for _, to := range left {
		if !to.Cancel() {
			n++
		}
		require.False(t, to.Cancel())
		require.True(t, to.IsCanceled())
	}
	return n
}

// A status is what a timeout that has been armed is.
type status string

const (
	pending  status = "pending"
	canceled status = "canceled"
	expired  status = "expired"
	returned status = "returned"
)

func statusOf(to *hashedwheel.Timeout) status {
	switch {
	case to.IsCanceled():
		return canceled
	case to.IsExpired():
		return expired
	}
	return pending
}

// An outcome is what is known after a round.
type outcome struct {
	canceled bool   // Cancel returned true
	reset    string // what Reset returned
	pushed   string // what NewTimeout returned for another timeout
	ran      int
	returned bool // Stop returned it
	status   status
	others   int // how many other timeouts are pending or returned
}

// then returns the outcome after one more operation.
func (o outcome) then(kind string, stopped bool) outcome {
	switch waits := o.status == pending; {
	case kind == "cancel" && (waits || o.status == returned):
		o.canceled, o.status = true, canceled
	case kind == "reset" && stopped:
		o.reset = hashedwheel.ErrStopped.Error()
	case kind == "reset":
		o.reset = fmt.Sprint(waits)
		o.status = pending
	case kind == "expiry" && waits && o.reset == "": // unless a Reset has moved the deadline
		o.ran++
		o.status = expired
	case kind == "stop" && waits:
		o.returned, o.status = true, returned
	case kind == "push" && stopped:
		o.pushed = hashedwheel.ErrStopped.Error()
	case kind == "push":
		o.pushed = "ok"
		o.others++
	}
	return o
}

// orders adds the outcomes of all orders of the kinds, starting from an outcome.
func orders(all map[outcome]int, o outcome, kinds []string, stopped bool) {
	if len(kinds) == 0 {
		all[o] = 0
	}
	for i, kind := range kinds {
		next := o
		if kind != "expiry" || !stopped { // after Stop nothing expires
			next = o.then(kind, stopped)
		}
		orders(all, next, slices.Delete(slices.Clone(kinds), i, i+1), stopped || kind == "stop")
	}
}

func testOutcomes(t *testing.T, kinds ...string) {
	seen := make(map[outcome]int) // how often each outcome was seen; the keys are the allowed outcomes
	orders(seen, outcome{status: pending}, kinds, false)
	r := testkit.Rand(t)
	rounds := 0
	for end := time.Now().Add(testkit.StressTime(t) / 10); time.Now().Before(end) || rounds < 20; rounds++ {
		o := runOutcome(t, kinds, r.IntN(100))
		_, allowed := seen[o]
		require.True(t, allowed, "%+v; allowed are %+v", o, seen)
		seen[o]++
	}
	var lines []string
	for o, n := range seen {
		lines = append(lines, fmt.Sprintf("%6d %+v", n, o))
	}
	slices.Sort(lines)
	t.Logf("%d rounds\n%s", rounds, strings.Join(lines, "\n"))
}

// runOutcome runs one round. If expiry is among the kinds, the timeout is due during the other operations.
func runOutcome(t *testing.T, kinds []string, spin int) (o outcome) {
	const tick = 20 * time.Microsecond
	timer := newTimer(t, hashedwheel.WithTick(tick))
	delay := time.Hour
	if slices.Contains(kinds, "expiry") {
		delay = time.Duration(spin) * time.Microsecond / 2
	}
	var ran, pushedRan int
	var mu sync.Mutex // guards ran and pushedRan
	to, err := timer.AfterFunc(delay, func() {
		mu.Lock()
		defer mu.Unlock()
		ran++
	})
	require.NoError(t, err)
	var other *hashedwheel.Timeout
	var left []*hashedwheel.Timeout
	start := make(chan struct{})
	var users sync.WaitGroup
	for i, kind := range kinds {
		users.Go(func() {
			<-start
			for range spin * i {
				runtime.Gosched()
			}
			switch kind {
			case "cancel":
				o.canceled = to.Cancel()
			case "reset":
				active, err := to.Reset(time.Hour)
				if o.reset = fmt.Sprint(active); err != nil {
					o.reset = err.Error()
				}
			case "stop":
				left = timer.Stop()
			case "push":
				var err error
				other, err = timer.AfterFunc(time.Hour, func() {
					mu.Lock()
					defer mu.Unlock()
					pushedRan++
				})
				if o.pushed = "ok"; err != nil {
					o.pushed = err.Error()
				}
			}
		})
	}
	close(start)
	users.Wait()
	// If the timeout has yet to expire, it does so soon.
	for statusOf(to) == pending && time.Until(to.Deadline()) < time.Minute && !timer.IsStopped() {
		runtime.Gosched()
	}
	for timer.Stats().Runners > 0 { // one that has yet to be refused counts as a task started
		runtime.Gosched()
	}
	mu.Lock()
	defer mu.Unlock()
	o.ran = ran
	o.status = statusOf(to)
	require.Zero(t, pushedRan)
	if o.returned = slices.Contains(left, to); o.returned && o.status == pending {
		o.status = returned
	}
	if other != nil && (slices.Contains(left, other) || statusOf(other) == pending) {
		o.others++
	}
	st := timer.Stats()
	testkit.CheckCounts(t, st)
	require.EqualValues(t, ran, st.Expired)
	to.Cancel()
	if other != nil {
		other.Cancel()
	}
	require.Zero(t, timer.Pending())
	return o
}

// After Cancel and WaitRunning the task is not running and will not run, whichever wins: Cancel or
// the expiry. The test runs on real time.
func TestCancelThenWaitRace(t *testing.T) {
	for name, opts := range waysToRun() {
		t.Run(name, func(t *testing.T) {
			timer := newTimer(t, append(opts, hashedwheel.WithTick(50*time.Microsecond))...)
			rnd := testkit.Rand(t)
			ran := 0
			for deadline := time.Now().Add(testkit.StressTime(t) / 3); testkit.GoesOn(deadline, ran > 0); {
				shared := 0 // the race detector checks that the task no longer uses it after WaitRunning
				to, err := timer.AfterFunc(time.Duration(rnd.IntN(150))*time.Microsecond, func() { shared++ })
				require.NoError(t, err)
				for wait := rnd.IntN(200); wait > 0; wait-- {
					runtime.Gosched()
				}
				canceled := to.Cancel()
				require.NoError(t, to.WaitRunning(t.Context()))
				shared++
				if !canceled {
					ran++
					require.Equal(t, 2, shared)
				}
			}
			t.Logf("%d ran", ran)
			require.NotZero(t, ran)
		})
	}
}

// A struct whose task is a Canceler is used again and again, as Bind says: when Cancel and WaitRunning have returned, neither its task
// nor its Canceled uses it, even if another goroutine has ended the timeout. On real time.
func TestCancelThenWaitRaceOfCancelers(t *testing.T) {
	for name, opts := range waysToRun() {
		t.Run(name, func(t *testing.T) {
			timer := newTimer(t, append(opts, hashedwheel.WithTick(50*time.Microsecond))...)
			rnd := testkit.Rand(t)
			c := new(reused)
			timer.Bind(&c.timeout, c)
			ran := 0
			other, canceled := make(chan bool), make(chan bool)
			defer close(other)
			go func() {
				for range other {
					canceled <- c.timeout.Cancel()
				}
			}()
			for deadline := time.Now().Add(testkit.StressTime(t) / 3); testkit.GoesOn(deadline, ran > 0); {
				_, err := c.timeout.Reset(time.Duration(rnd.IntN(150)) * time.Microsecond)
				require.NoError(t, err)
				for wait := rnd.IntN(200); wait > 0; wait-- {
					runtime.Gosched()
				}
				other <- true
				won := c.timeout.Cancel()
				require.NoError(t, c.timeout.WaitRunning(t.Context()))
				require.Equal(t, 1, c.ends)
				c.ends = 0 // the race detector checks that nothing else uses it
				if !<-canceled && !won {
					ran++
				}
			}
			t.Logf("%d ran", ran)
			require.NotZero(t, ran)
		})
	}
}

// A reused is a task that counts its ends.
type reused struct {
	timeout hashedwheel.Timeout
	ends    int
}

func (c *reused) Run(*hashedwheel.Timeout)      { c.ends++ }
func (c *reused) Canceled(*hashedwheel.Timeout) { c.ends++ }
