package hashedwheel

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// A task starts exactly at the first boundary at or after the deadline, for each tick, wheel size, moment of
// arming within the tick, and delay.
func TestExpiresAtTheFirstBoundary(t *testing.T) {
	for _, tick := range []time.Duration{1, 7, 999, time.Microsecond, 333 * time.Microsecond, time.Millisecond, 7 * time.Millisecond, 100 * time.Millisecond, time.Hour + 1} {
		for _, size := range []int{1, 2, 3, 8, 60, 64, 512} {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithWheelSize(size))
				start := time.Now()
				turn := tick * time.Duration(timer.worker.wheelSize)
				for _, phase := range []time.Duration{0, 1, tick / 2, tick - 1, tick, turn - 1, 3*turn + tick/3} {
					pass(max(0, phase-time.Since(start)))
					for _, delay := range []time.Duration{
						math.MinInt64, -tick, -1, 0, 1,
						tick - 1, tick, tick + 1, 2*tick - 1, 2 * tick,
						turn - tick, turn - 1, turn, turn + 1, turn + tick,
						2*turn - 1, 5 * turn, 5*turn + 1, 7*turn + tick/2,
					} {
						armed := time.Now()
						// The expected boundary, computed in another way than the library does it.
						want := start
						for n := (max(delay, 0) + armed.Sub(start)) / tick; !want.After(armed) || want.Before(armed.Add(delay)); n++ {
							want = start.Add(n * tick)
						}
						to, err := timer.AfterFunc(delay, func() {
							elapsed := time.Since(armed)
							if delay > elapsed || elapsed > max(delay, 0)+tick || !time.Now().Equal(want) {
								t.Errorf("tick %v, size %d, armed at %v: delay %v, elapsed %v, want %v", tick, size, armed.Sub(start), delay, elapsed, want.Sub(armed))
							}
						})
						require.NoError(t, err)
						require.Equal(t, want.Sub(start), to.Deadline().Sub(start))
					}
				}
				pass(8*turn + 2*tick)
				require.Zero(t, timer.Pending())
				require.EqualValues(t, 7*19, timer.Stats().Expired)
			})
		}
	}
}

// A timeout with a delay near the largest Duration never expires, and its tick does not overflow. It can be
// canceled, reset and handed back like any other.
func TestHugeDelayNeverExpires(t *testing.T) {
	for _, tick := range []time.Duration{1, 10 * time.Millisecond, math.MaxInt64} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick), WithWheelSize(8))
			pass(1)
			var all []*Timeout
			var fired atomic.Int64
			for _, delay := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - tick + 1, math.MaxInt64} {
				to, err := timer.AfterFunc(delay, func() { fired.Add(1) })
				require.NoError(t, err)
				require.Greater(t, time.Until(to.Deadline()), 200*365*24*time.Hour)
				all = append(all, to)
			}
			if tick > 1 {
				pass(4 * 365 * 24 * time.Hour)
			} else { // in many steps: no entry lies more than two seconds ahead
				pass(sized[time.Duration](8, 72, 2400) * time.Hour)
			}
			require.Zero(t, fired.Load())
			require.Equal(t, len(all), timer.Pending())

			require.True(t, all[0].Cancel())
			if tick < time.Hour {
				active, err := all[1].Reset(tick)
				require.True(t, active)
				require.NoError(t, err)
				pass(2 * tick)
				require.EqualValues(t, 1, fired.Load())
				require.Len(t, timer.Stop(), 2)
			} else {
				require.Len(t, timer.Stop(), 3)
			}
		})
	}
}

// A worker that could not run for long fires everything overdue at once, and is on time again afterwards. Here
// time passes before the worker starts, as if the machine had been suspended.
func TestStallFiresWhatIsOverdueAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithWheelSize(64))
		start := time.Now()
		var fired moments
		arm := func(delay time.Duration) {
			_, err := timer.AfterFunc(delay, fired.Note)
			require.NoError(t, err)
		}
		giveBack := hold(t, timer)
		for _, d := range []time.Duration{1, time.Second, time.Minute, 59 * time.Minute, 2 * time.Hour} {
			arm(d)
		}
		timer.worker.round()
		arm(time.Hour) // still on the queue
		pass(time.Hour + time.Microsecond)
		require.Empty(t, fired.All())

		giveBack()
		arm(time.Millisecond)
		synctest.Wait()
		now := start.Add(time.Hour + time.Microsecond)
		require.Equal(t, []time.Time{now, now, now, now, now}, fired.All())
		pass(2 * time.Hour)
		require.Equal(t, []time.Time{start.Add(time.Hour + 2*time.Millisecond), start.Add(2 * time.Hour)}, fired.All()[5:])
	})
}

// The limit of pending timeouts holds exactly. A slot is free again as soon as its timeout has ended, in
// whichever way.
func TestMaxPending(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxPending(3))
		var all []*Timeout
		fill := func() {
			t.Helper()
			for timer.Pending() < 3 {
				to, err := timer.AfterFunc(time.Second, nop)
				require.NoError(t, err)
				all = append(all, to)
			}
			to, err := timer.AfterFunc(time.Second, nop)
			require.ErrorIs(t, err, ErrTooManyPending)
			require.Nil(t, to)
			require.Equal(t, 3, timer.Pending())
		}
		fill()
		require.True(t, all[0].Cancel())
		fill()

		// A Reset of a pending timeout needs no further slot. A Reset of one that has ended
		// needs a slot; without one it is refused, and changes nothing.
		active, err := all[1].Reset(2 * time.Second)
		require.True(t, active)
		require.NoError(t, err)
		deadline := all[0].Deadline()
		pass(time.Microsecond)
		active, err = all[0].Reset(time.Millisecond)
		require.False(t, active)
		require.ErrorIs(t, err, ErrTooManyPending)
		require.True(t, all[0].IsCanceled())
		require.Equal(t, deadline, all[0].Deadline())

		// Expiry frees the slot before the task runs.
		inside := false
		require.True(t, all[1].Cancel())
		_, err = timer.NewTimeout(TaskFunc(func(to *Timeout) {
			active, err := to.Reset(time.Hour)
			inside = !active && err == nil
		}), time.Millisecond)
		require.NoError(t, err)
		fill()
		pass(2 * time.Millisecond)
		require.True(t, inside)
		fill()

		require.EqualValues(t, 5, timer.Stats().RejectedFull)
		require.Zero(t, timer.Stats().RejectedStopped)
		require.Len(t, timer.Stop(), 3)
		require.Zero(t, timer.slotsInUse())
		_, err = timer.AfterFunc(time.Second, nop)
		require.ErrorIs(t, err, ErrStopped)
		require.EqualValues(t, 5, timer.Stats().RejectedFull)
		require.EqualValues(t, 1, timer.Stats().RejectedStopped)
		require.Zero(t, timer.slotsInUse())
	})
}

// A nil task gives an error at once, not a panic later.
func TestNilTask(t *testing.T) {
	timer := newTimer(t)
	for _, task := range []Task{nil, TaskFunc(nil)} {
		to, err := timer.NewTimeout(task, 0)
		require.ErrorIs(t, err, ErrNilTask)
		require.Nil(t, to)
	}
	to, err := timer.AfterFunc(0, nil)
	require.ErrorIs(t, err, ErrNilTask)
	require.Nil(t, to)
	require.Zero(t, timer.Stats())
}

const (
	usedInside  = "hashedwheel: a Timer made outside of a testing/synctest bubble is used inside one: make it inside the bubble"
	usedOutside = "hashedwheel: a Timer made in a testing/synctest bubble is used outside of it"
)

// A deadline from outside needs no clock while the worker is awake. If the worker has come to rest, arming it in a bubble
// would start the worker there.
func TestDeadlineFromOutsideABubble(t *testing.T) {
	timer := newTimer(t)
	w := &timer.worker
	require.True(t, w.requestRound())
	w.round()
	w.expireDue()
	w.progress.set(w.wheel.now, false) // as planNext does
	require.True(t, w.goIdle(time.Hour, ticks.Never))
	deadline := time.Now().Add(time.Hour)
	synctest.Test(t, func(t *testing.T) {
		require.PanicsWithValue(t, usedInside, func() { timer.NewTimeoutAt(TaskFunc(func(*Timeout) {}), deadline) })
	})
	require.EqualValues(t, resting, w.state.Load())
}

// In a bubble, a deadline is compared with the clock of the bubble, even if the worker is awake.
func TestDeadlineFromABubble(t *testing.T) {
	var timer *Timer
	var deadline time.Time
	synctest.Test(t, func(t *testing.T) {
		timer = newTimer(t)
		deadline = time.Now().Add(time.Hour)
	})
	require.PanicsWithValue(t, usedOutside, func() { timer.clock.DueAt(deadline) })
}

// slotsInUse returns how many slots of the limit are in use.
func (t *Timer) slotsInUse() int { return int(t.limit.inUse.Load()) }

// After Stop the error is ErrStopped, also while other calls, which will be refused too, have all slots.
func TestLimitAfterStop(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour), WithMaxPending(2))
	to, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.Len(t, timer.Stop(), 1)
	timer.limit.inUse.Store(2)
	defer timer.limit.inUse.Store(0)
	_, err = timer.AfterFunc(time.Hour, nop)
	require.ErrorIs(t, err, ErrStopped)
	_, err = timer.NewTimeoutAt(plainFunc(nop), time.Now().Add(time.Hour))
	require.ErrorIs(t, err, ErrStopped)
	_, err = to.Reset(time.Hour)
	require.ErrorIs(t, err, ErrStopped)
	st := timer.Stats()
	require.EqualValues(t, 3, st.RejectedStopped)
	require.Zero(t, st.RejectedFull)
}

// Goroutines arm and cancel timeouts. Where the limit is as high as the most that they hold, none is refused. Where it
// is lower, some are, and the limit is never exceeded.
func TestLimitRace(t *testing.T) {
	const users = 8
	for _, most := range []int{1, 3, 1250} { // that one goroutine holds
		t.Run("enough", func(t *testing.T) { require.Zero(t, raceForSlots(t, users, most, users*most)) })
		t.Run("too few", func(t *testing.T) { require.NotZero(t, raceForSlots(t, users, most, (users*most+1)/2)) })
	}
}

// raceForSlots has users arm up to most timeouts each, and returns how many were refused.
func raceForSlots(t *testing.T, users, most, limit int) int64 {
	timer := newTimer(t, WithTick(time.Hour), WithMaxPending(limit))
	var held, refused atomic.Int64
	var wg sync.WaitGroup
	seeds := newRand(t)
	for range users {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		wg.Go(func() {
			for end := time.Now().Add(stressTime(t) / 4); goesOn(end, limit == users*most || refused.Load() > 0); {
				var mine []*Timeout
				for range 1 + r.IntN(most) {
					to, err := timer.AfterFunc(time.Hour, nop)
					if err != nil {
						assert.ErrorIs(t, err, ErrTooManyPending)
						refused.Add(1)
						break
					}
					mine = append(mine, to)
					assert.LessOrEqual(t, held.Add(1), int64(limit))
				}
				runtime.Gosched()
				for _, to := range mine {
					held.Add(-1)
					assert.True(t, to.Cancel())
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, timer.slotsInUse())
	return refused.Load()
}

// The test runs up to the last tick of a clock. Timeouts that are due before the end expire in time. Timeouts that
// are due after it never expire, and Stop returns them. With a tick below a microsecond the bits of the word end
// first, after 104 days for a nanosecond. With longer ticks the range of a Duration ends first, after 292 years.
func TestLastTick(t *testing.T) {
	for _, tick := range []time.Duration{1, 7, time.Millisecond, time.Hour} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick))
			c := &timer.clock
			const left = 1000 // ticks
			last := min(uint64(math.MaxInt64/tick), ticks.Never-1)
			old := c.Boundary(last) - left*tick
			c.Start = time.Now().Add(-old)
			require.Equal(t, last-left, c.Now())
			start := time.Now()
			var fired moments
			arm := func(delay time.Duration) *Timeout {
				to, err := timer.AfterFunc(delay, fired.Note)
				require.NoError(t, err)
				return to
			}
			never := []*Timeout{arm(left*tick + 1), arm(math.MaxInt64), arm(2 * left * tick)}
			for _, n := range []time.Duration{0, 1, 2, 500, 999, 1000} {
				arm(n * tick)
			}
			moved := arm(left*tick + 1)
			_, err := moved.Reset(3 * tick)
			require.NoError(t, err)
			never = append(never, arm(5*tick))
			_, err = never[3].Reset(left*tick + 1)
			require.NoError(t, err)

			pass(left * tick)
			require.Equal(t, []time.Duration{tick, tick, 2 * tick, 3 * tick, 500 * tick, 999 * tick, 1000 * tick}, fired.Since(start))
			never = append(never, arm(0), arm(tick)) // there are no more boundaries
			pass(min(10*left*tick, time.Hour))
			require.Len(t, fired.All(), 7)
			require.ElementsMatch(t, never, timer.Stop())
		})
	}
}

// Each method of a Timer that New has not made panics with a clear message.
func TestZeroTimer(t *testing.T) {
	ctx, task := context.Background(), Task(TaskFunc(nopTask))
	arguments := map[string][]any{
		"AfterFunc":              {time.Hour, nop},
		"AfterFuncAt":            {time.Now().Add(time.Hour), nop},
		"Bind":                   {new(Timeout), task},
		"IsStopped":              {},
		"Name":                   {},
		"NewTimeout":             {task, time.Hour},
		"NewTimeoutAt":           {task, time.Now().Add(time.Hour)},
		"Pending":                {},
		"Schedule":               {task, Every(time.Hour)},
		"ScheduleAtFixedRate":    {task, time.Hour, time.Hour},
		"ScheduleWithFixedDelay": {task, time.Hour, time.Hour},
		"Shutdown":               {ctx},
		"Sleep":                  {ctx, time.Hour},
		"Stats":                  {},
		"Stop":                   {},
		"Tasks":                  {},
		"String":                 {},
		"Tick":                   {},
	}
	requireNotMade[Timer](t, ticks.NotMade, arguments)
	var zero Timer
	for _, f := range []func(){
		func() { zero.Stop() },
		func() { zero.Stop() }, // a second call does not block
		func() { zero.NewTimeoutAt(task, time.Now().Add(-time.Hour)) },
		func() { zero.AfterFunc(-1, nop) },
	} {
		require.PanicsWithValue(t, ticks.NotMade, f)
	}
}

// So does each method of a Group that NewGroup has not made.
func TestZeroGroup(t *testing.T) {
	task := Task(TaskFunc(nopTask))
	requireNotMade[Group](t, "hashedwheel: the Group was not made by NewGroup", map[string][]any{
		"AfterFunc":              {time.Hour, nop},
		"AfterFuncAt":            {time.Now().Add(time.Hour), nop},
		"Cancel":                 {},
		"Close":                  {},
		"Len":                    {},
		"NewTimeout":             {task, time.Hour},
		"Schedule":               {task, Every(time.Hour)},
		"ScheduleAtFixedRate":    {task, time.Hour, time.Hour},
		"ScheduleWithFixedDelay": {task, time.Hour, time.Hour},
		"WaitRunning":            {t.Context()},
	})
}

// requireNotMade calls each method of a zero T, and fails unless it panics with the message. Arguments holds the
// arguments of each method.
func requireNotMade[T any](t *testing.T, message string, arguments map[string][]any) {
	t.Helper()
	methods := reflect.TypeFor[*T]()
	for i := range methods.NumMethod() {
		method := methods.Method(i)
		args, ok := arguments[method.Name]
		require.True(t, ok, "arguments for %s", method.Name)
		zero := new(T)
		for range 2 { // the first panic leaves no lock held
			in := []reflect.Value{reflect.ValueOf(zero)}
			for _, arg := range args {
				in = append(in, reflect.ValueOf(arg))
			}
			require.PanicsWithValue(t, message, func() { method.Func.Call(in) }, method.Name)
		}
	}
}

const foreignTimer = "hashedwheel: a Timer made outside of a testing/synctest bubble is used inside one: make it inside the bubble"

// A canceledTask must not be canceled.
type canceledTask struct{ t *testing.T }

func (canceledTask) Run(*Timeout)        {}
func (c canceledTask) Canceled(*Timeout) { c.t.Error("canceled") }

// AfterFuncAt runs the function at the first boundary at or after the deadline, and has the errors of NewTimeoutAt.
func TestAfterFuncAt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var fired moments
		start := time.Now()
		for _, after := range []time.Duration{-time.Hour, tick, 3*tick + 1} {
			_, err := timer.AfterFuncAt(start.Add(after), fired.Note)
			require.NoError(t, err)
		}
		pass(time.Second)
		require.Equal(t, []time.Duration{tick, tick, 4 * tick}, fired.Since(start))
		_, err := timer.AfterFuncAt(start.Add(time.Hour), nil)
		require.ErrorIs(t, err, ErrNilTask)
		_, err = timer.AfterFuncAt(time.Time{}, nop)
		require.Equal(t, errZeroDeadline, err)
		timer.Stop()
		_, err = timer.AfterFuncAt(start.Add(time.Hour), nop)
		require.ErrorIs(t, err, ErrStopped)
	})
}
