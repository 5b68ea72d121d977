package crossing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newTimer returns a timer that is stopped when the test ends. Then its counts must agree.
func newTimer(t testing.TB, opts ...hashedwheel.Option) *hashedwheel.Timer {
	t.Helper()
	timer, err := hashedwheel.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		timer.Stop()
		st := timer.Stats()
		testkit.CheckCounts(t, st)
		require.Zero(t, st.Pending)
		require.Zero(t, st.Queued)
		require.Nil(t, st.Levels)
	})
	return timer
}

// waysToRun returns the options for each way in which tasks run.
func waysToRun() map[string][]hashedwheel.Option {
	return map[string][]hashedwheel.Option{
		"runners": nil,
		"one":     {hashedwheel.WithMaxConcurrency(1)},
		"pool":    {hashedwheel.WithExecutor(func(run func()) error { go run(); return nil })},
	}
}

// outcomes returns Stats with only the counts of timeouts and of their tasks.
func outcomes(timer *hashedwheel.Timer) hashedwheel.Stats {
	st := timer.Stats()
	return hashedwheel.Stats{
		Pending: st.Pending, Running: st.Running,
		Accepted: st.Accepted, Expired: st.Expired, Canceled: st.Canceled, Returned: st.Returned,
		RejectedFull: st.RejectedFull, RejectedStopped: st.RejectedStopped, Panics: st.Panics, Unsubmitted: st.Unsubmitted,
	}
}

// checkStats checks that the counts of a timer at rest agree.
func checkStats(t testing.TB, timer *hashedwheel.Timer) {
	t.Helper()
	st := timer.Stats()
	testkit.CheckCounts(t, st)
	require.Zero(t, st.Running)
}

// scheduleFunc turns a function into a Schedule.
type scheduleFunc func(prev time.Time) time.Time

func (f scheduleFunc) Next(prev time.Time) time.Time { return f(prev) }

func nop() {}
