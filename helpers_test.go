package hashedwheel

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("runtime.handleEvent")) // a goroutine of the runtime, on js
}

// The helpers that the packages share have short names here.
var (
	needsThreads   = testkit.NeedsThreads
	needsProcesses = testkit.NeedsProcesses
	spin           = testkit.Spin
	newRand        = testkit.Rand
	newShare       = testkit.NewShare
	full           = testkit.Full
	lengthOf       = testkit.LengthOf
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

func sized[T any](short, daily, full T) T { return testkit.Sized(short, daily, full) }

// onLevels are the options of newTimer that virtual sets.
var onLevels []Option

// virtual runs a test on virtual time, in a bubble of its own for each number of levels: 1 to 4, or 1
// and 3 with -short. With several levels the wheel is small, so that all levels get timeouts.
func virtual(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func() { onLevels = nil }()
	for levels := 1; levels <= 4; levels += sized(2, 1, 1) {
		onLevels = nil
		if levels > 1 {
			onLevels = []Option{WithLevels(levels), WithWheelSize(4)}
		}
		t.Run(fmt.Sprint("levels=", levels), func(t *testing.T) { synctest.Test(t, f) })
	}
}

// newTimer returns a timer that is stopped when the test ends. Then its counts must agree.
func newTimer(t testing.TB, opts ...Option) *Timer {
	t.Helper()
	timer := newFakedTimer(t, opts...)
	t.Cleanup(func() {
		timer.Stop()
		st := timer.Stats()
		require.Equal(t, st.Accepted, st.Expired+st.Canceled+st.Returned, "%+v", outcomes(timer))
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
		RejectedFull: st.RejectedFull, RejectedStopped: st.RejectedStopped, Panics: st.Panics, Unsubmitted: st.Unsubmitted,
	}
}

// hog keeps a processor busy until it is told to quit. It calls a function, because a loop without a call is
// not always preempted under an emulator.
func hog(quit *atomic.Bool) {
	for !quit.Load() {
		_ = time.Now()
		spin()
	}
}

// moments records when something happened. It has a lock because the passing of virtual time does not order
// memory, as a message on a channel does.
type moments struct {
	mu sync.Mutex
	at []time.Time
}

func (m *moments) note() { m.add(time.Now()) }

// add records a time, and returns how many there are now.
func (m *moments) add(at time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = append(m.at, at)
	return len(m.at)
}

func (m *moments) all() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.at)
}

// since returns the moments, counted from start.
func (m *moments) since(start time.Time) []time.Duration {
	var all []time.Duration
	for _, at := range m.all() {
		all = append(all, at.Sub(start))
	}
	return all
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
		n += q.stripes[i].armed.Load()
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
