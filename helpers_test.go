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
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("runtime.handleEvent")) // one of the runtime's own, on js
}

// oneThread is set where all goroutines share one thread and none is preempted: each runs until it blocks or
// yields. No other process can be started there.
const oneThread = runtime.GOARCH == "wasm"

// needsThreads skips a test of what happens only between goroutines that run at the same time.
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

// spin is called in each turn of a loop that neither blocks nor yields. It yields where no other goroutine
// could run otherwise, and does nothing elsewhere, so that the loop takes a processor.
func spin() {
	if oneThread {
		runtime.Gosched()
	}
}

// onLevels are the options of newTimer that virtual sets.
var onLevels []Option

// virtual runs a test on virtual time, in a bubble of its own for each number of levels: 1 to 4, or 1
// and 3 with -short. With several levels the wheel is small, so that timeouts get onto all of them.
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

// newFakedTimer is newTimer for a test that gives the timer what it has not accepted.
func newFakedTimer(t testing.TB, opts ...Option) *Timer {
	t.Helper()
	timer, err := New(append(slices.Clone(onLevels), opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

// outcomes returns the counts of what has become of a timer's timeouts.
func outcomes(timer *Timer) Stats {
	st := timer.Stats()
	return Stats{
		Pending: st.Pending, Running: st.Running,
		Accepted: st.Accepted, Expired: st.Expired, Canceled: st.Canceled, Returned: st.Returned,
		Rejected: st.Rejected, Panics: st.Panics, Unsubmitted: st.Unsubmitted,
	}
}

// newRand returns a generator whose seed is in the test's log, and can be given again in
// HASHEDWHEEL_SEED.
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

// full reports whether HASHEDWHEEL_FULL is set: then tests that have been made short for everyday
// use do all that they can in some minutes.
func full() bool { return os.Getenv("HASHEDWHEEL_FULL") != "" }

// sized returns how much of something a test does: with -short, by default, or at full size.
func sized[T any](short, daily, all T) T {
	switch {
	case full():
		return all
	case testing.Short():
		return short
	}
	return daily
}

// stressTime is how long a test on real time goes on: HASHEDWHEEL_STRESS, or a fraction of a second.
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

// patience is how long a test waits for what must happen: on a starved machine that may take long, and only a
// defect takes longer.
const patience = time.Minute

// goesOn reports whether a test of a race goes on: until end, and then until it has seen what it is
// for, which may take long on a starved machine, but not for longer than patience. Others run meanwhile.
func goesOn(end time.Time, seen bool) bool {
	spin()
	now := time.Now()
	return now.Before(end) || !seen && now.Before(end.Add(patience))
}

// lengthOf returns the duration that a variable says, or the one given if it is not set.
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

// pass lets virtual time pass, and returns when all that was due has been done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// moments notes when something happened. It has a lock because virtual time, when it passes,
// does not order memory as the passing of a message does.
type moments struct {
	mu sync.Mutex
	at []time.Time
}

func (m *moments) note() { m.add(time.Now()) }

// add notes a time, and returns how many there are now.
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
