package clock_test

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

const tick = 10 * time.Millisecond

func TestMain(m *testing.M) { testkit.Main(m) }

// newWheel returns a wheel. When the test ends, it stops the wheel and checks that its counts agree.
func newWheel(t testing.TB, opts ...hashedwheel.Option) *hashedwheel.Timer {
	t.Helper()
	wheel, err := hashedwheel.New(append([]hashedwheel.Option{hashedwheel.WithTick(tick)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Empty(t, wheel.Stop(), "Stop does not return the timeouts of a Clock")
		testkit.CheckCounts(t, wheel.Stats())
		require.Zero(t, wheel.Pending())
	})
	return wheel
}

var pass = testkit.Pass

func boundary(d time.Duration) time.Duration { return testkit.Boundary(d, tick) }

func nop() {}

// A duration of a tick or more ends on the wheel, at the first boundary at or after it. A shorter one ends on
// package time, exactly.
func TestWhenTimersFire(t *testing.T) {
	for _, d := range []time.Duration{
		math.MinInt64, -1, 0, 1, time.Microsecond, tick - 1, tick, tick + 1, 25 * time.Millisecond, time.Hour,
	} {
		t.Run(d.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wheel := newWheel(t)
				on := clock.New(wheel)
				const offset = 3 * time.Millisecond
				time.Sleep(offset)
				start := time.Now()
				want := max(d, 0)
				if d >= tick {
					want = boundary(offset+d) - offset
				}

				timer, after := on.NewTimer(d), on.After(d)
				var ran time.Time
				f := on.AfterFunc(d, func() { ran = time.Now() })
				require.Nil(t, f.C)
				if d >= tick {
					require.Equal(t, 3, wheel.Pending())
				} else {
					require.Zero(t, wheel.Stats().Accepted)
				}
				if d <= 0 {
					require.NotEmpty(t, timer.C, "the value is there at once, as with package time")
				}
				require.Equal(t, want, (<-timer.C).Sub(start))
				require.Equal(t, want, (<-after).Sub(start))
				synctest.Wait()
				require.Equal(t, want, ran.Sub(start))
				require.Equal(t, want, time.Since(start))
				require.Zero(t, wheel.Pending())

				start = time.Now() // a boundary, if d ended on the wheel
				want = max(d, 0)
				if d >= tick {
					want = boundary(d)
				}
				on.Sleep(d)
				require.Equal(t, want, time.Since(start))
			})
		})
	}
}

// A Reset moves a timer from the wheel to package time and back. Then the timer is pending only where the Reset
// has put it.
func TestResetAcrossATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wheel := newWheel(t)
		on := clock.New(wheel)
		start := time.Now()
		var ran atomic.Int32
		timer, f := on.NewTimer(tick), on.AfterFunc(tick, func() { ran.Add(1) })
		require.Equal(t, 2, wheel.Pending())

		require.True(t, timer.Reset(tick-1))
		require.True(t, f.Reset(tick-1))
		require.Zero(t, wheel.Pending())
		pass(tick - 2)
		require.Empty(t, timer.C)
		require.Zero(t, ran.Load())
		require.True(t, timer.Reset(tick)) // due at 2 ticks - 2 ns, so it fires at the second boundary
		require.True(t, f.Reset(tick))
		require.Equal(t, 2, wheel.Pending())
		pass(tick + 1)
		require.Empty(t, timer.C)
		require.Zero(t, ran.Load())
		pass(1)
		require.Equal(t, 2*tick, (<-timer.C).Sub(start))
		require.EqualValues(t, 1, ran.Load())

		// To an earlier boundary, to a later one, and to now.
		require.False(t, timer.Reset(time.Hour))
		require.True(t, timer.Reset(5*tick))
		require.True(t, timer.Reset(2*tick))
		require.True(t, timer.Reset(3*tick))
		pass(3*tick - 1)
		require.Empty(t, timer.C)
		require.True(t, timer.Reset(0))
		require.Len(t, timer.C, 1)
		require.Zero(t, wheel.Pending())
		require.True(t, timer.Stop(), "the value has not been received")
		require.Empty(t, timer.C)
		require.False(t, timer.Stop())
		require.False(t, timer.Reset(tick))
		require.True(t, timer.Stop())
		pass(time.Hour)
		require.Empty(t, timer.C)
		require.EqualValues(t, 1, ran.Load())
	})
}

// A duration too long to be represented never ends, on the wheel or on package time.
func TestHugeDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, on := range []*clock.Clock{clock.New(newWheel(t)), new(clock.Clock)} {
			time.Sleep(time.Second)
			timer, ticker := on.NewTimer(math.MaxInt64), on.NewTicker(math.MaxInt64-1)
			pass(10 * 365 * 24 * time.Hour)
			require.Empty(t, timer.C)
			require.Empty(t, ticker.C)
			start := time.Now()
			require.True(t, timer.Reset(tick))
			ticker.Reset(tick)
			require.Equal(t, start.Add(tick), <-timer.C)
			require.Equal(t, start.Add(tick), <-ticker.C)
			ticker.Stop()
		}
	})
}

// Tasks may wait for a Clock even when they take up all turns of WithMaxConcurrency, or all goroutines of the
// executor.
func TestClocksNeedNoTurn(t *testing.T) {
	pools := map[string]hashedwheel.Option{
		"one at a time": hashedwheel.WithMaxConcurrency(1),
		"pool":          nil,
	}
	for name, opt := range pools {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if opt == nil {
					work := make(chan func(), 10)
					go func() { // a pool of one goroutine
						for run := range work {
							run()
						}
					}()
					defer close(work)
					opt = hashedwheel.WithExecutor(func(run func()) error { work <- run; return nil })
				}
				wheel := newWheel(t, opt)
				on := clock.New(wheel)
				start := time.Now()
				var took []time.Duration
				var wg sync.WaitGroup
				for range 3 {
					wg.Add(1)
					_, err := wheel.AfterFunc(0, func() {
						defer wg.Done()
						on.Sleep(tick)
						ticker := on.NewTicker(tick)
						<-ticker.C
						<-ticker.C
						ticker.Stop()
						<-on.After(tick)
						took = append(took, time.Since(start))
					})
					require.NoError(t, err)
				}
				wg.Wait()
				require.Equal(t, []time.Duration{5 * tick, 9 * tick, 13 * tick}, took)
			})
		})
	}
}

// Each function has its own goroutine. One that blocks delays no other, and Goexit ends only its own goroutine.
func TestFunctionsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := clock.New(newWheel(t, hashedwheel.WithMaxConcurrency(1)))
		release := make(chan struct{})
		var ran atomic.Int32
		for range 100 {
			on.AfterFunc(tick, func() { <-release })
			on.AfterFunc(tick, func() { ran.Add(1); runtime.Goexit() })
		}
		pass(tick)
		require.EqualValues(t, 100, ran.Load())
		close(release)
	})
}

// A zero Clock uses package time.
func TestZeroClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := new(clock.Clock)
		start := time.Now()
		on.Sleep(25*time.Millisecond + 1)
		require.Equal(t, 25*time.Millisecond+1, on.Since(start))
		require.Equal(t, start, on.Now().Add(-25*time.Millisecond-1))
		require.Equal(t, time.Hour, on.Until(on.Now().Add(time.Hour)))
	})
}

// Misuse panics with a message that says what is wrong.
func TestMisuse(t *testing.T) {
	on := clock.New(newWheel(t))
	require.PanicsWithValue(t, "clock: Stop called on uninitialized Timer", func() { new(clock.Timer).Stop() })
	require.PanicsWithValue(t, "clock: Reset called on uninitialized Timer", func() { new(clock.Timer).Reset(1) })
	require.PanicsWithValue(t, "clock: Reset called on uninitialized Ticker", func() { new(clock.Ticker).Reset(1) })
	require.PanicsWithValue(t, "clock: non-positive interval for NewTicker", func() { on.NewTicker(0) })
	require.Nil(t, on.Tick(0))
	new(clock.Ticker).Stop()

	ticker := on.NewTicker(time.Hour)
	require.PanicsWithValue(t, "clock: non-positive interval for Ticker.Reset", func() { ticker.Reset(0) })
	ticker.Stop()
}

// A nil function panics at the call, not when the time has come.
func TestAfterFuncNil(t *testing.T) {
	require.PanicsWithValue(t, "clock: AfterFunc: nil function", func() { new(clock.Clock).AfterFunc(time.Hour, nil) })
}
