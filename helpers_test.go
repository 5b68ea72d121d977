package hashedwheel

import (
	"slices"
	"sync/atomic"
	"testing"
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
	spin           = testkit.Spin
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

type moments = testkit.Moments

func sized[T any](short, daily, full T) T { return testkit.Sized(short, daily, full) }

// onLevels are the options of newTimer that virtual sets.
var onLevels []Option

// virtual runs a test on virtual time, in a bubble of its own for each number of levels: 1 to 4, or 1
// and 3 with -short. With several levels the wheel is small, so that all levels get timeouts.
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

// newTimer returns a timer that is stopped when the test ends. Then its counts must agree.
func newTimer(t testing.TB, opts ...Option) *Timer {
	t.Helper()
	timer := newFakedTimer(t, opts...)
	t.Cleanup(func() {
		timer.Stop()
		st := timer.Stats()
		testkit.CheckCounts(t, st)
		require.Zero(t, st.Pending)
		if st.Running == 0 {
			require.Equal(t, st.Accepted, timer.queue.accepted())
		}
		require.Zero(t, st.Queued)
		require.Nil(t, st.Levels)
		if st.Running == 0 && st.Runners == 0 {
			require.LessOrEqual(t, st.Lateness.Count(), st.Expired)
			// Of eight tasks that start before canceled ones, perhaps only the first is measured.
			require.GreaterOrEqual(t, st.Lateness.Count()*8, st.Expired)
		}
	})
	return timer
}

// newFakedTimer is newTimer without the check of the counts, for a test that changes internal state.
func newFakedTimer(t testing.TB, opts ...Option) *Timer {
	t.Helper()
	timer, err := New(append(slices.Clone(onLevels), opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

// outcomes returns Stats with only the counts of timeouts and of their tasks.
func outcomes(timer *Timer) Stats {
	st := timer.Stats()
	return Stats{
		Pending: st.Pending, Running: st.Running,
		Accepted: st.Accepted, Expired: st.Expired, Canceled: st.Canceled, Returned: st.Returned,
		Rejected: st.Rejected, Panics: st.Panics, Unsubmitted: st.Unsubmitted,
	}
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

// Constants of internal/crew.
const (
	chunkLen   = 256 // the most timeouts that a runner takes at a time
	maxInRow   = 4   // how often a task that is due again runs before others that wait
	maxSubmits = 64  // calls of submit in progress
)

// setStripes gives the queue of a timer n stripes.
func setStripes(timer *Timer, n int) {
	timer.queue = queue{}
	timer.queue.init(timer.clock.Tick, n)
	timer.worker.in.visits = nil
}

// oneStripe gives the queue of a timer one stripe, which all goroutines use.
func oneStripe(timer *Timer) *stripe {
	setStripes(timer, 1)
	timer.queue.seats = nil
	return &timer.queue.stripes[0]
}

// accepted returns how many timeouts were armed, as the stripes count them. It is exact when no call is in progress.
func (q *queue) accepted() (n uint64) {
	for i := range q.stripes {
		s := &q.stripes[i]
		n += s.armed.Load() + s.nursery.hand.Load() - s.nursery.passed.Load()
	}
	return n
}

// slots returns how many slots a ring has.
func (r *ring) slots() int {
	t := r.table.Load()
	if t == nil {
		return 0
	}
	return len(t.blocks) * blockSize
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
		h.sum += d
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
