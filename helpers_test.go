package hashedwheel

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/octave"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The helpers that the packages share have short names here.
var (
	needsThreads   = testkit.NeedsThreads
	needsProcesses = testkit.NeedsProcesses
	newRand        = testkit.Rand
	newShare       = testkit.NewShare
	full           = testkit.Full
	stressTime     = testkit.StressTime
	goesOn         = testkit.GoesOn
	pass           = testkit.Pass
	heapInUse      = testkit.HeapInUse
	raceDetector   = testkit.RaceDetector()
)

const (
	oneThread = testkit.OneThread
	patience  = testkit.Patience
)

// settled is how long the worker takes, with a short tick, to put all pending timeouts into the wheel, and to drop all others.
const settled = 2 * time.Second

type moments = testkit.Moments

func sized[T any](short, daily, full T) T { return testkit.Sized(short, daily, full) }

// onLevels are the options of newTimer that virtual sets.
var onLevels []Option

// virtual runs a test on virtual time, in a bubble of its own for each number of levels: 1 to 4, or
// only 1 or 3 with -short. With several levels the wheel is small, so that all levels get timeouts.
func virtual(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func() { onLevels = nil }()
	testkit.Virtual(t, func(t *testing.T, levels int) {
		onLevels = nil
		if levels > 1 {
			onLevels = []Option{WithLevels(levels), WithWheelSize(4)}
		}
		f(t)
	})
}

// newTimer returns a timer that is stopped when the test ends. Then its invariants hold, before and after Stop, and its
// counts agree.
func newTimer(t testing.TB, opts ...Option) *Timer {
	t.Helper()
	timer := newFakedTimer(t, opts...)
	t.Cleanup(func() {
		verify(t, timer)
		timer.Stop()
		verify(t, timer)
		st := timer.Stats()
		for tries := 0; st.Pending > 0 && tries < 1000; tries++ {
			time.Sleep(time.Millisecond) // real time outside of a bubble: a runner has claimed a timeout, and is about to count it
			st = timer.Stats()
		}
		testkit.CheckCounts(t, st)
		require.Zero(t, st.Pending)
		require.Zero(t, st.Queued)
		require.Nil(t, st.Levels)
		if st.Running == 0 && st.Runners == 0 {
			require.LessOrEqual(t, st.Lateness.Count(), st.Expired)
			// A schedule that gives no next time counts as expired, and starts no task.
			require.GreaterOrEqual(t, st.Lateness.Count()*8, st.Expired)
		}
	})
	return timer
}

// newFakedTimer is newTimer without the checks, for a test that changes internal state.
func newFakedTimer(t testing.TB, opts ...Option) *Timer {
	t.Helper()
	timer, err := New(append(slices.Clone(onLevels), opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

// verify checks all invariants of a timer at rest. No goroutine may be in a call. A round may be about to come, because verify
// holds the lock of rounds. While a runner or an executor has tasks, which may call the timer, it checks only the wheel. Known
// are timeouts that may be on the queue.
func verify(t testing.TB, timer *Timer, known ...*Timeout) {
	t.Helper()
	w := &timer.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	tasks, goroutines := timer.running()
	pend := make(map[*Timeout]bool) // the pending timeouts that were found
	var leave []*Timeout
	if w.wheel != nil {
		w.wheel.check(t)
		leave = verifyBuckets(t, w.wheel, pend)
	}
	if tasks+goroutines > 0 {
		return
	}
	verifyQueue(t, timer, pend, leave, known)
	if timer.limit.max > 0 {
		require.EqualValues(t, timer.Pending(), timer.limit.inUse.Load(), "slots of the limit")
	}
	switch state := w.state.Load(); {
	case timer.IsStopped():
		require.EqualValues(t, halted, state)
		require.Nil(t, w.wheel)
	case state > halted && (state < resting || w.wheel != nil):
		require.NotNil(t, w.alarm, "the worker does not come again")
	}
}

// verifyQueue is the part of verify that knows how the queue works: mpsc_test.go sets it. Pend has the pending timeouts that need
// not leave their bucket, leave the others in buckets, and known more that may be on the queue.
var verifyQueue = func(t testing.TB, timer *Timer, pend map[*Timeout]bool, leave, known []*Timeout) {}

// verifyBuckets checks the timeouts in the buckets of a wheel. It adds the pending ones that need not leave their bucket, and
// returns the others, which are on the queue. Like verifyQueue, it does without require in its loops, because each call of it
// looks at the stack.
func verifyBuckets(t testing.TB, w *wheel, pend map[*Timeout]bool) (leave []*Timeout) {
	t.Helper()
	for i := range w.levels {
		for slot := range w.levels[i].buckets {
			for _, e := range w.levels[i].buckets[slot].all() {
				word := e.to.word.Load()
				if onQueue(word) {
					leave = append(leave, e.to)
					continue
				}
				if !waits(word) || e.tick > tickOf(word) {
					t.Fatalf("in a bucket of tick %d: %v", e.tick, e.to)
				}
				pend[e.to] = true
			}
		}
	}
	return leave
}

// hold makes the test the worker of a timer that is idle, so that no round comes. It returns a function that gives the
// worker back, which starts a round. The end of the test does so at the latest.
func hold(t testing.TB, timer *Timer) (giveBack func()) {
	t.Helper()
	require.True(t, timer.worker.requestRound(), "a round is in progress")
	giveBack = sync.OnceFunc(func() { go timer.worker.run() })
	t.Cleanup(giveBack)
	return giveBack
}

// stopHeld stops a timer whose worker the test holds. No round comes in between.
func stopHeld(timer *Timer, giveBack func()) []*Timeout {
	go func() {
		for timer.worker.state.Load() != halted {
			runtime.Gosched()
		}
		giveBack()
	}()
	return timer.Stop()
}

// outcomes returns Stats with only the counts of timeouts and of their tasks.
func outcomes(timer *Timer) Stats {
	st := timer.Stats()
	return Stats{
		Pending: st.Pending, Running: st.Running,
		Accepted: st.Accepted, Expired: st.Expired, Canceled: st.Canceled, Returned: st.Returned,
		RejectedFull: st.RejectedFull, RejectedStopped: st.RejectedStopped, Panics: st.Panics, Unsubmitted: st.Unsubmitted,
	}
}

// checkReturned checks that Stop has returned a timeout that nobody has canceled yet, and cancels it.
func checkReturned(t testing.TB, to *Timeout) {
	t.Helper()
	require.False(t, to.IsExpired())
	require.False(t, to.IsCanceled())
	require.Contains(t, to.String(), "returned by Stop")
	require.False(t, to.Deadline().IsZero())
	require.True(t, to.Cancel())
	require.False(t, to.Cancel())
	require.True(t, to.IsCanceled())
}

// checkStats checks that the counts of a timer at rest agree.
func checkStats(t testing.TB, timer *Timer) {
	t.Helper()
	st := timer.Stats()
	testkit.CheckCounts(t, st)
	require.Zero(t, st.Running)
}

func nop() {}

// released reports whether the worker rests and keeps no memory and no alarm.
func (w *worker) released() bool {
	if w.state.Load() != resting {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wheel == nil && w.alarm == nil
}

// runnersOf returns how many goroutines run users' tasks, or are on their way to their first one.
func runnersOf(timer *Timer) int {
	_, goroutines := timer.tasks.Running()
	return goroutines
}

// Constants of internal/pool.
const (
	chunkLen   = 256 // the most timeouts that a feeder hands over at a time
	maxSubmits = 64  // calls of submit in progress
)

// churn arms and cancels timeouts of an hour without pause for d, of virtual time: very many in the middle of each tick.
// The last live ones are pending. After each burst it calls each.
func churn(t *testing.T, timer *Timer, live int, d time.Duration, each func(elapsed time.Duration)) {
	ring := make([]*Timeout, live)
	tick := timer.Tick()
	perTick := int(tick / (2 * time.Microsecond))
	time.Sleep(tick / 2)
	start := time.Now()
	for elapsed := time.Duration(0); elapsed < d; elapsed = time.Since(start) {
		for i := range perTick {
			to, err := timer.AfterFunc(time.Hour, nop)
			if old := ring[i%len(ring)]; err != nil || old != nil && !old.Cancel() {
				t.Fatal(err) // not by package require, which takes longer than the two calls
			}
			ring[i%len(ring)] = to
		}
		synctest.Wait()
		each(elapsed)
		time.Sleep(tick)
	}
	for _, to := range ring {
		if to != nil {
			require.True(t, to.Cancel())
		}
	}
}

// A CancelCounter counts how often it has run and how often it was notified.
type CancelCounter struct {
	Ran, Told atomic.Int64
	Block     func() // Canceled calls it
}

func (c *CancelCounter) Run(*Timeout) { c.Ran.Add(1) }

func (c *CancelCounter) Canceled(to *Timeout) {
	if to.Task() != Task(c) {
		panic("Canceled got the timeout of another task")
	}
	c.Told.Add(1)
	if c.Block != nil {
		c.Block()
	}
}

// checkGroup checks that the list of a group has that many pending members, and that its links agree.
func checkGroup(t *testing.T, g *Group, want int) {
	t.Helper()
	require.Equal(t, want, g.Len())
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	var prev *member
	for m := g.first; m != nil; prev, m = m, m.next {
		require.Same(t, g, m.group)
		require.Equal(t, 1, m.armed)
		require.Equal(t, prev, m.prev)
		require.Equal(t, uint64(pending), status(m.timeout.word.Load()))
		n++
	}
	require.Equal(t, want, n)
}

// HistogramOf returns the histogram of the durations.
func HistogramOf(all ...time.Duration) (h Histogram) {
	for _, d := range all {
		h.counts[octave.Class(d)]++
		h.sum = h.sum.Add(d, 1)
	}
	return h
}

// These are for the tests of package hashedwheel_test.
var (
	NewTestTimer = newTimer
	Virtual      = virtual
	Executors    = executors
	Outcomes     = outcomes
	CheckStats   = checkStats
	CheckGroup   = checkGroup
	Logged       = logged
)

// ScheduleFunc is for the tests of package hashedwheel_test.
type ScheduleFunc = scheduleFunc
