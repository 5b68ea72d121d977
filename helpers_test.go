package hashedwheel

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("runtime.handleEvent")) // a goroutine of the runtime, on js
}

// oneThread is true if all goroutines share one thread and none is preempted: each runs until it blocks or
// yields. Such a platform cannot start other processes.
const oneThread = runtime.GOARCH == "wasm"

// needsThreads skips a test that needs goroutines that run at the same time.
func needsThreads(t testing.TB) {
	t.Helper()
	if oneThread {
		t.Skip("needs threads: here goroutines never run at the same time")
	}
}

// needsProcesses skips a test that starts other programs.
func needsProcesses(t testing.TB) {
	t.Helper()
	if oneThread {
		t.Skip("needs processes: here no program can be started")
	}
}

// spin is called in each turn of a loop that neither blocks nor yields. If all goroutines share one thread, it
// yields, so that others can run. Otherwise it does nothing, so that the loop keeps a processor busy.
func spin() {
	if oneThread {
		runtime.Gosched()
	}
}

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
		require.Zero(t, st.Queued)
		require.Nil(t, st.Levels)
		if st.Running == 0 && st.Runners == 0 {
			require.LessOrEqual(t, st.Lateness.Count(), st.Expired)
			require.GreaterOrEqual(t, st.Lateness.Count()*measureEvery, st.Expired)
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

// newRand returns a generator. Its seed is in the log of the test. HASHEDWHEEL_SEED sets the seed.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("HASHEDWHEEL_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("HASHEDWHEEL_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// full reports whether HASHEDWHEEL_FULL is set. Then tests that are short by default run at full size, which
// takes some minutes.
func full() bool { return os.Getenv("HASHEDWHEEL_FULL") != "" }

// sized returns the size of a test: with -short, by default, or at full size.
func sized[T any](short, daily, all T) T {
	switch {
	case full():
		return all
	case testing.Short():
		return short
	}
	return daily
}

// stressTime returns how long a test on real time runs: HASHEDWHEEL_STRESS, or a default.
func stressTime(t testing.TB) time.Duration {
	t.Helper()
	return lengthOf(t, "HASHEDWHEEL_STRESS", sized(50*time.Millisecond, 200*time.Millisecond, 5*time.Second))
}

// hog keeps a processor busy until it is told to quit. It calls a function, because a loop without a call is
// not always preempted under an emulator.
func hog(quit *atomic.Bool) {
	for !quit.Load() {
		_ = time.Now()
		spin()
	}
}

// patience is how long a test waits for something that must happen. On a busy machine that may take long, but
// only a defect makes it take longer than this.
const patience = time.Minute

// goesOn reports whether a race test continues. It continues until end, and then until it has seen every
// outcome, which may take long on a busy machine, but not for longer than patience. If all goroutines
// share one thread, it lets others run.
func goesOn(end time.Time, seen bool) bool {
	spin()
	now := time.Now()
	return now.Before(end) || !seen && now.Before(end.Add(patience))
}

// lengthOf returns the duration in an environment variable, or otherwise if the variable is not set.
func lengthOf(t testing.TB, variable string, otherwise time.Duration) time.Duration {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	d, err := time.ParseDuration(s)
	require.NoError(t, err, variable)
	return d
}

// pass lets virtual time pass, and returns when all due work has been done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
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

// heapInUse returns the bytes of the heap that are reachable. It collects garbage twice, because what lies in a
// sync.Pool survives the first time.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func nop() {}
