package keyed

import (
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newTimer returns a timer with a tick of a millisecond. When the test ends, the timer is stopped, and its counts
// must agree.
func newTimer(t testing.TB, opts ...hashedwheel.Option) *hashedwheel.Timer {
	t.Helper()
	timer, err := hashedwheel.New(append([]hashedwheel.Option{hashedwheel.WithTick(tick)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		timer.Stop()
		checkStats(t, timer)
		require.Zero(t, timer.Pending())
	})
	return timer
}

func checkStats(t testing.TB, timer *hashedwheel.Timer) {
	t.Helper()
	testkit.CheckCounts(t, timer.Stats())
}

// outcomes returns Stats with only the counts of timeouts.
func outcomes(timer *hashedwheel.Timer) hashedwheel.Stats {
	st := timer.Stats()
	return hashedwheel.Stats{
		Pending: st.Pending, Accepted: st.Accepted, Expired: st.Expired, Canceled: st.Canceled, Returned: st.Returned,
		RejectedFull: st.RejectedFull, RejectedStopped: st.RejectedStopped, Panics: st.Panics,
	}
}

// The helpers that the packages share have short names here.
var (
	newRand    = testkit.Rand
	newShare   = testkit.NewShare
	stressTime = testkit.StressTime
	goesOn     = testkit.GoesOn
	pass       = testkit.Pass
	heapInUse  = testkit.HeapInUse
)

const patience = testkit.Patience

func sized[T any](short, daily, full T) T { return testkit.Sized(short, daily, full) }

// yield lets other goroutines run, n times.
func yield(n int) {
	for range n {
		runtime.Gosched()
	}
}

// holdUp makes the worker of a timer late: no round starts until release is called, and an arming after that starts one.
// It does so by the state of the worker, which says that a round is in progress.
func holdUp(t *testing.T, timer *hashedwheel.Timer) (release func()) {
	synctest.Wait()
	worker := reflect.ValueOf(timer).Elem().FieldByName("worker")
	state := (*atomic.Uint64)(worker.FieldByName("state").Addr().UnsafePointer())
	const working, halted, resting = 1, 3, ticks.Never << 2
	before := state.Swap(working)
	release = sync.OnceFunc(func() { state.Store(resting) })
	t.Cleanup(release) // before newTimer stops the timer
	require.Greater(t, before, uint64(halted), "the worker was not idle")
	return release
}
