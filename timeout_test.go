package hashedwheel

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTimeoutSize(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.EqualValues(t, 48, unsafe.Sizeof(Timeout{}))
	} else {
		require.EqualValues(t, 40, unsafe.Sizeof(Timeout{}))
	}
	require.EqualValues(t, 128, unsafe.Sizeof(stripe{}))
}

func TestAllocations(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour)) // the worker does nothing while the test measures
	task := TaskFunc(func(*Timeout) {})
	to, err := timer.NewTimeout(task, time.Hour)
	require.NoError(t, err)

	allocs := func(f func()) float64 { return testing.AllocsPerRun(1000, f) }
	assert.EqualValues(t, 1, allocs(func() { timer.NewTimeout(task, time.Hour) }), "NewTimeout")
	assert.EqualValues(t, 1, allocs(func() { timer.AfterFunc(time.Hour, nop) }), "AfterFunc")
	assert.EqualValues(t, 0, allocs(func() { to.Cancel(); to.Reset(time.Hour) }), "Cancel, Reset of a canceled one")
	d := time.Hour
	assert.EqualValues(t, 0, allocs(func() { d += time.Hour; to.Reset(d) }), "Reset to later")
	assert.EqualValues(t, 0, allocs(func() { d -= time.Hour; to.Reset(d) }), "Reset to earlier")
}

// Cancel returns true once, and then the task never starts. The test also checks what the handles report.
func TestCancel(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		var fired atomic.Int64
		task := TaskFunc(func(to *Timeout) {
			fired.Add(1)
			assert.True(t, to.IsExpired())
			assert.False(t, to.Cancel())
		})
		arm := func() *Timeout {
			to, err := timer.NewTimeout(task, 25*time.Millisecond)
			require.NoError(t, err)
			require.False(t, to.IsExpired())
			require.False(t, to.IsCanceled())
			require.Same(t, timer, to.Timer())
			return to
		}
		check := func(to *Timeout, expired, canceled bool) {
			t.Helper()
			require.Equal(t, expired, to.IsExpired())
			require.Equal(t, canceled, to.IsCanceled())
			require.False(t, to.Cancel())
			require.NotNil(t, to.Task())
		}
		queued, placed, kept := arm(), arm(), arm()
		require.True(t, queued.Cancel())
		check(queued, false, true)
		pass(15 * time.Millisecond)
		require.True(t, placed.Cancel())
		check(placed, false, true)
		require.Equal(t, 1, timer.Pending())
		pass(time.Second)
		require.EqualValues(t, 1, fired.Load())
		check(queued, false, true)
		check(placed, false, true)
		check(kept, true, false)
		require.Equal(t, Stats{Accepted: 3, Expired: 1, Canceled: 2}, outcomes(timer))
	})
}

// A hundred timeouts are due together. The first task to run resets one of the others, and cancels the
// rest.
func TestCancelAndResetOfDueOnes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1))
		start := time.Now()
		var all []*Timeout
		armed := make(chan struct{})
		var at []time.Duration
		for range 100 {
			to, err := timer.NewTimeout(TaskFunc(func(self *Timeout) {
				<-armed
				at = append(at, time.Since(start))
				if len(at) > 1 {
					return
				}
				reset := false
				for _, to := range all {
					if to == self {
						continue
					}
					if !reset {
						active, err := to.Reset(5 * time.Millisecond)
						reset = active && err == nil
						assert.True(t, reset)
						continue
					}
					assert.True(t, to.Cancel())
				}
			}), time.Millisecond)
			require.NoError(t, err)
			all = append(all, to)
		}
		close(armed)
		pass(time.Second)
		require.Equal(t, []time.Duration{time.Millisecond, 6 * time.Millisecond}, at)
		require.Equal(t, Stats{Accepted: 100, Expired: 2, Canceled: 98}, outcomes(timer))
	})
}

// A timeout is reset in each state, to later and to earlier, before and after the worker has taken it off the
// queue. It fires only at its last deadline.
func TestReset(t *testing.T) {
	const tick = 10 * time.Millisecond
	for _, wait := range []time.Duration{0, 15 * time.Millisecond} {
		for _, delays := range [][]time.Duration{
			{30 * tick, 50 * tick},
			{50 * tick, 30 * tick},
			{30 * tick, 30 * tick},
			{50 * tick, 30 * tick, 40 * tick},
			{50 * tick, 30 * tick, 60 * tick},
			{30 * tick, 50 * tick, 10 * tick},
			{50 * tick, 0},
			{math.MaxInt64, 3 * tick},
			{3 * tick, math.MaxInt64, 5 * tick},
		} {
			for _, state := range []string{"pending", "canceled", "expired"} {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, WithTick(tick), WithWheelSize(16))
					var at []time.Time
					to, err := timer.NewTimeout(TaskFunc(func(*Timeout) { at = append(at, time.Now()) }), delays[0])
					require.NoError(t, err)
					var want []time.Time
					for i, d := range delays[1:] {
						pass(wait)
						if i == 0 && state == "canceled" {
							require.True(t, to.Cancel())
						}
						if i == 0 && state == "expired" {
							_, err := to.Reset(0)
							require.NoError(t, err)
							pass(tick)
							want = append([]time.Time{}, at...)
							require.Len(t, want, 1)
						}
						active, err := to.Reset(d)
						require.NoError(t, err)
						require.Equal(t, i > 0 || state == "pending", active)
						require.False(t, to.IsCanceled())
						require.False(t, to.IsExpired())
						require.Equal(t, 1, timer.Pending())
					}
					want = append(want, to.Deadline())
					pass(time.Hour)
					require.Equal(t, len(want), len(at), "%v", delays)
					for i := range want {
						require.True(t, want[i].Equal(at[i]), "%v: at %v, want %v", delays, at[i], want[i])
					}
				})
			}
		}
	}
}

// The timer holds nothing of a canceled timeout from the second boundary after its Cancel on, wherever it
// was. This also holds for a timeout that has fired, and for one that was reset and canceled.
func TestEndedTimeoutsAreReleased(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick), WithWheelSize(8))
		keep, err := timer.AfterFunc(time.Hour, nop) // so that the worker does not end
		require.NoError(t, err)

		var released []weak.Pointer[[64]byte]
		arm := func(delay time.Duration) *Timeout {
			payload := new([64]byte)
			released = append(released, weak.Make(payload))
			to, err := timer.AfterFunc(delay, func() { runtime.KeepAlive(payload) })
			require.NoError(t, err)
			return to
		}
		func() {
			arm(tick)
			placed, late, early := arm(time.Hour), arm(3*time.Hour), arm(time.Hour)
			pass(2 * tick)
			late.Reset(4 * time.Hour)
			early.Reset(time.Minute)
			fresh := arm(time.Hour)
			for _, to := range []*Timeout{placed, late, early, fresh} {
				require.True(t, to.Cancel())
			}
		}()
		pass(2 * tick)
		runtime.GC()
		for i, p := range released {
			require.Nil(t, p.Value(), "timeout %d", i)
		}
		require.True(t, keep.Cancel())
	})
}

// A handle that the user keeps must not keep alive the timeouts that were next to it on the queue.
func TestHandleKeepsNoOther(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		var handles []*Timeout
		var others []weak.Pointer[Timeout]
		for range 100 {
			to, err := timer.AfterFunc(0, nop)
			require.NoError(t, err)
			if len(handles) == len(others) {
				handles = append(handles, to)
			} else {
				others = append(others, weak.Make(to))
			}
		}
		pass(2 * time.Millisecond)
		runtime.GC()
		for _, p := range others {
			require.Nil(t, p.Value())
		}
		runtime.KeepAlive(handles)
	})
}

// The wall clock has no influence. Deadlines have a monotonic reading, and so has the start of the timer, from
// which ticks are counted.
func TestDeadlineIsMonotonic(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	to, err := timer.AfterFunc(90*time.Minute, nop)
	require.NoError(t, err)
	require.Contains(t, timer.clock.start.String(), " m=+")
	require.Contains(t, to.Deadline().String(), " m=+")
	require.Equal(t, 2*time.Hour, to.Deadline().Sub(timer.clock.start))
}

// nopTask is a function with a name, for a TaskFunc.
func nopTask(*Timeout) {}

func TestTimeoutString(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Second))
		to, err := timer.NewTimeout(TaskFunc(nopTask), 1500*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, "hashedwheel.Timeout(pending, deadline in 2s, task hashedwheel.nopTask)", fmt.Sprint(to))
		pass(2500 * time.Millisecond)
		require.Equal(t, "hashedwheel.Timeout(expired, deadline 500ms ago, task hashedwheel.nopTask)", to.String())
		pass(5_263 * time.Millisecond)
		require.Equal(t, "hashedwheel.Timeout(expired, deadline 5.76s ago, task hashedwheel.nopTask)", to.String())
		_, err = to.Reset(time.Second)
		require.NoError(t, err)
		require.True(t, to.Cancel())
		require.Equal(t, "hashedwheel.Timeout(canceled, deadline in 1.24s, task hashedwheel.nopTask)", to.String())
	})
}

// String names the function that is the task, or else the type of the task, whatever is wrapped around it.
func TestTimeoutStringNamesTheTask(t *testing.T) {
	timer := newTimer(t)
	check := func(want string) func(*Timeout, error) {
		return func(to *Timeout, err error) {
			t.Helper()
			require.NoError(t, err)
			require.Contains(t, to.String(), ", task "+want+")")
			require.True(t, to.Cancel())
			require.Contains(t, to.String(), ", task "+want+")")
		}
	}
	closure := func() {}
	var method moments
	check("hashedwheel.nop")(timer.AfterFunc(time.Hour, nop))
	check("hashedwheel.TestTimeoutStringNamesTheTask.func2")(timer.AfterFunc(time.Hour, closure))
	check("hashedwheel.(*moments).note-fm")(timer.AfterFunc(time.Hour, method.note))
	check("runtime.GC")(timer.AfterFunc(time.Hour, runtime.GC))
	check("synctest.Wait")(timer.AfterFunc(time.Hour, synctest.Wait))
	check("hashedwheel.nopTask")(timer.NewTimeout(TaskFunc(nopTask), time.Hour))
	check("hashedwheel.nopTask")(timer.ScheduleAtFixedRate(TaskFunc(nopTask), time.Hour, time.Hour))
	check("hashedwheel.nop")(NewGroup(timer).AfterFunc(time.Hour, nop))
	check("*hashedwheel.request")(timer.NewTimeout(new(request), time.Hour))
}

func TestRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 5_738 * time.Millisecond: "5.74s",
		999_950 * time.Microsecond: "1s", time.Hour: "1h0m0s", math.MaxInt64: "2561111h6m40s",
	} {
		require.Equal(t, want, rounded(d).String())
	}
}
