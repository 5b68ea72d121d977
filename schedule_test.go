package hashedwheel

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scheduleFunc turns a function into a Schedule.
type scheduleFunc func(prev time.Time) time.Time

func (f scheduleFunc) Next(prev time.Time) time.Time { return f(prev) }

// runsOf arms a task with a schedule, lets d pass, and returns the times of the runs, counted from the call.
func runsOf(t *testing.T, timer *Timer, s Schedule, d time.Duration) (to *Timeout, ran []time.Duration) {
	t.Helper()
	var m moments
	start := time.Now()
	to, err := timer.Schedule(TaskFunc(func(*Timeout) { m.note() }), s)
	require.NoError(t, err)
	pass(d)
	return to, m.since(start)
}

// Each call of Next gets exactly the time that the call before returned. A zero time ends the timeout.
func TestScheduleGoesOnFromItsOwnTimes(t *testing.T) {
	const ms = time.Millisecond
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(10*ms), WithMaxPending(1))...)
				start := time.Now()
				var prevs moments
				to, ran := runsOf(t, timer, scheduleFunc(func(prev time.Time) time.Time {
					if prevs.add(prev) >= 5 {
						return time.Time{}
					}
					return prev.Add(25 * ms)
				}), time.Second)
				require.Equal(t, []time.Duration{0, 25 * ms, 50 * ms, 75 * ms, 100 * ms}, prevs.since(start))
				require.Equal(t, []time.Duration{30 * ms, 50 * ms, 80 * ms, 100 * ms}, ran)
				require.True(t, to.IsExpired())
				require.False(t, to.Cancel())
				require.Zero(t, timer.Pending())
				require.EqualValues(t, 4, timer.Stats().Accepted)
				checkStats(t, timer)

				// It can be reset like any other expired timeout. This gives one more run, and one
				// more call of Next.
				active, err := to.Reset(5 * ms)
				require.False(t, active)
				require.NoError(t, err)
				require.Equal(t, 1, timer.Pending())
				pass(time.Second)
				require.Equal(t, 1010*ms, prevs.since(start)[5], "the boundary that Reset moved it to")
				require.True(t, to.IsExpired())
				require.Zero(t, timer.Pending())
				checkStats(t, timer)
			})
		})
	}
}

// A task whose schedule returns times in the past runs once at each boundary, not more often.
func TestScheduleOfThePastCannotSpin(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		for _, s := range []Schedule{
			scheduleFunc(func(prev time.Time) time.Time { return prev }),
			scheduleFunc(func(time.Time) time.Time { return time.Unix(1, 0) }),
			scheduleFunc(func(prev time.Time) time.Time { return prev.Add(-time.Hour) }),
			scheduleFunc(func(time.Time) time.Time { return time.Now() }),
			Every(1),
			Jitter(Every(1), 1),
		} {
			to, ran := runsOf(t, timer, s, 20*tick)
			require.Len(t, ran, 20)
			for i, at := range ran {
				require.Equal(t, time.Duration(i+1)*tick, at)
			}
			require.True(t, to.Cancel())
		}
	})
}

// If several runs are missed, one takes place and the others are dropped.
func TestScheduleDropsMissedRuns(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var m moments
		start := time.Now()
		_, err := timer.Schedule(TaskFunc(func(*Timeout) {
			m.note()
			if len(m.all()) == 2 {
				time.Sleep(55 * tick) // from tick 20 to 75
			}
		}), Every(10*tick))
		require.NoError(t, err)
		pass(100 * tick)
		require.Equal(t, []time.Duration{10 * tick, 20 * tick, 76 * tick, 86 * tick, 96 * tick}, m.since(start))
	})
}

// Next gets exactly the time that the schedule itself returned, and not the present time. So no run happens twice if
// the wall clock is set back.
func TestScheduleByTheWallClock(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		zone := time.FixedZone("east", 3*3600)
		var asked moments
		minute := scheduleFunc(func(prev time.Time) time.Time {
			asked.add(prev)
			return prev.Round(0).In(zone).Truncate(time.Minute).Add(time.Minute)
		})
		time.Sleep(30 * time.Second)
		to, ran := runsOf(t, timer, minute, 150*time.Second)
		require.Equal(t, []time.Duration{30 * time.Second, 90 * time.Second, 150 * time.Second}, ran)
		prevs := asked.all()
		require.Len(t, prevs, 4)
		for _, prev := range prevs[1:] {
			require.Equal(t, zone, prev.Location())
			require.Zero(t, prev.Second())
		}
		_, err := to.Reset(10 * time.Second)
		require.NoError(t, err)
		pass(10 * time.Second)
		last := asked.all()[4]
		require.Equal(t, zone, last.Location())
		require.Equal(t, 10, last.Second(), "Reset has moved the time, which keeps the zone of the schedule")
	})
}

// A schedule that panics, or calls runtime.Goexit, ends the timeout. Timer.Schedule itself calls Next for the first
// run, so a panic there goes to its caller.
func TestScheduleThatPanics(t *testing.T) {
	for name, opts := range executors() {
		for _, exits := range []bool{false, true} {
			t.Run(fmt.Sprint(name, exits), func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					const tick = time.Millisecond
					reported := make(chan any, 10)
					timer := newTimer(t, append(opts, WithTick(tick), WithPanicHandler(func(_ *Timeout, value any, _ []byte) {
						reported <- value
						runtime.Goexit() // must have no effect
					}))...)
					var n atomic.Int32
					to, ran := runsOf(t, timer, scheduleFunc(func(prev time.Time) time.Time {
						if n.Add(1) == 3 {
							if exits {
								runtime.Goexit()
							}
							panic("no more")
						}
						return prev.Add(tick)
					}), 10*tick)
					require.Equal(t, []time.Duration{tick, 2 * tick}, ran)
					require.True(t, to.IsExpired())
					if !exits {
						require.Equal(t, "no more", <-reported)
					}
					require.Empty(t, reported)
					require.NoError(t, to.Wait(t.Context()))
					checkStats(t, timer)

					bad := scheduleFunc(func(time.Time) time.Time { panic("at once") })
					require.PanicsWithValue(t, "at once", func() { timer.Schedule(TaskFunc(func(*Timeout) {}), bad) })
					require.Zero(t, timer.Pending())
				})
			})
		}
	}
}

// While a slow Next runs, the timeout can be canceled and reset, as while its task runs.
func TestScheduleThatTakesLong(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		slow := scheduleFunc(func(prev time.Time) time.Time {
			time.Sleep(10 * tick)
			if time.Since(timer.clock.start) > 30*tick {
				return time.Time{}
			}
			return time.Now().Add(5 * tick)
		})
		var m moments
		start := time.Now()
		arm := func() *Timeout {
			to, err := timer.Schedule(TaskFunc(func(*Timeout) { m.note() }), slow) // first run at tick 15
			require.NoError(t, err)
			return to
		}
		to := arm() // Next until tick 10, run at 15, Next until 25, run at 30, Next until 40: no more
		require.Equal(t, 10*tick, time.Since(start))
		pass(22 * tick) // tick 32
		active, err := to.Reset(3 * tick)
		require.True(t, active)
		require.NoError(t, err)
		pass(9 * tick) // tick 41: without the Reset the timeout would have ended at 40
		require.False(t, to.IsExpired())
		require.Len(t, m.all(), 3)
		require.Equal(t, 40*tick, m.all()[2].Sub(start))
		require.True(t, to.Cancel())
		pass(20 * tick)
		require.True(t, to.IsCanceled())
		require.Len(t, m.all(), 3)
		checkStats(t, timer)
	})
}

// Each run is late by at most the given part of the interval, and never early. The jitter counts from
// the times of the inner schedule. A thousand timeouts that share one schedule do not run together.
func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Millisecond
		const interval = 1000 * tick
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		s := Jitter(Every(interval), 0.25)
		const timeouts, runs = 1000, 50
		var all [timeouts]moments
		for i := range all {
			_, err := timer.Schedule(TaskFunc(func(*Timeout) { all[i].note() }), s)
			require.NoError(t, err)
		}
		pass(runs*interval + interval/4 + tick)
		together := map[time.Duration]int{}
		var sum time.Duration
		for i := range all {
			at := all[i].all()
			require.Len(t, at, runs)
			for n, at := range at {
				late := at.Sub(start) - time.Duration(n+1)*interval
				require.GreaterOrEqual(t, late, time.Duration(0))
				require.LessOrEqual(t, late, interval/4+tick)
				sum += late
				together[at.Sub(start)]++
			}
		}
		// Evenly distributed over 250 ticks, the jitter is 125 ticks on average, and 4 timeouts run at each tick.
		require.InDelta(t, 125, sum/tick/(timeouts*runs), 3)
		for at, n := range together {
			require.Less(t, n, 40, "at %v", at)
		}
	})
}

// Jitter is a Schedule that also works without a Timer.
func TestJitterNext(t *testing.T) {
	start := time.Now()
	s := Jitter(Every(time.Second), 1)
	least, most := time.Hour, time.Duration(0)
	for range 10_000 {
		d := s.Next(start).Sub(start)
		least, most = min(least, d), max(most, d)
	}
	require.GreaterOrEqual(t, least, time.Second)
	require.Less(t, least, 1010*time.Millisecond)
	require.LessOrEqual(t, most, 2*time.Second)
	require.Greater(t, most, 1990*time.Millisecond)
	require.Equal(t, start.Add(time.Second), Jitter(Every(time.Second), 0).Next(start))

	end := scheduleFunc(func(time.Time) time.Time { return time.Time{} })
	require.True(t, Jitter(end, 1).Next(start).IsZero())
	back := scheduleFunc(func(prev time.Time) time.Time { return prev.Add(-time.Hour) })
	require.Equal(t, start.Add(-time.Hour), Jitter(back, 1).Next(start))
}

// An error names the wrong argument, its value and what is allowed. Nothing is armed.
func TestWrongRepeating(t *testing.T) {
	timer := newTimer(t)
	task := TaskFunc(func(*Timeout) { t.Error("run") })
	end := scheduleFunc(func(time.Time) time.Time { return time.Time{} })
	for want, arm := range map[string]func() (*Timeout, error){
		"ScheduleAtFixedRate: period 0s must be positive":         func() (*Timeout, error) { return timer.ScheduleAtFixedRate(task, 0, 0) },
		"ScheduleAtFixedRate: period -1ns must be positive":       func() (*Timeout, error) { return timer.ScheduleAtFixedRate(task, 0, -1) },
		"ScheduleWithFixedDelay: delay 0s must be positive":       func() (*Timeout, error) { return timer.ScheduleWithFixedDelay(task, 0, 0) },
		"Schedule: nil schedule":                                  func() (*Timeout, error) { return timer.Schedule(task, nil) },
		"interval -1s of Every must be positive":                  func() (*Timeout, error) { return timer.Schedule(task, Every(-time.Second)) },
		"Jitter with fraction 1.5: it must be 0 to 1":             func() (*Timeout, error) { return timer.Schedule(task, Jitter(end, 1.5)) },
		"Jitter with fraction -0.5: it must be 0 to 1":            func() (*Timeout, error) { return timer.Schedule(task, Jitter(end, -0.5)) },
		"Jitter with fraction NaN: it must be 0 to 1":             func() (*Timeout, error) { return timer.Schedule(task, Jitter(end, math.NaN())) },
		"Jitter with fraction 2: it must be 0 to 1":               func() (*Timeout, error) { return timer.Schedule(task, Jitter(Jitter(end, 2), 1)) },
		"interval 0s of Every must be positive":                   func() (*Timeout, error) { return timer.Schedule(task, Jitter(Every(0), 1)) },
		"hashedwheel.scheduleFunc returned a zero first time, so": func() (*Timeout, error) { return timer.Schedule(task, end) },
	} {
		to, err := arm()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "hashedwheel: Schedule")
		require.Nil(t, to)
	}
	for _, nilTask := range []Task{nil, TaskFunc(nil)} {
		for _, arm := range []func() (*Timeout, error){
			func() (*Timeout, error) { return timer.ScheduleAtFixedRate(nilTask, 0, 1) },
			func() (*Timeout, error) { return timer.ScheduleWithFixedDelay(nilTask, 0, 1) },
			func() (*Timeout, error) { return timer.Schedule(nilTask, Every(1)) },
		} {
			_, err := arm()
			require.ErrorIs(t, err, ErrNilTask)
		}
	}
	require.Zero(t, timer.Stats())
	timer.Stop()
	_, err := timer.ScheduleAtFixedRate(task, 0, 1)
	require.ErrorIs(t, err, ErrStopped)
}

// The handle returns the user's task, also if that task is a Canceler.
func TestRepeatingTask(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		c := new(canceler)
		to, err := timer.ScheduleAtFixedRate(c, 0, time.Millisecond)
		require.NoError(t, err)
		require.Same(t, c, to.Task())
		require.Contains(t, to.String(), "*hashedwheel.canceler")
		pass(3 * time.Millisecond)
		require.True(t, to.Cancel())
		pass(time.Millisecond)
		require.EqualValues(t, 1, c.told.Load())
		require.Same(t, c, to.Task())
	})
}

// Cancel, Reset and Stop race with the end of a schedule, on real time.
func TestScheduleEndRace(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			rnd := newRand(t)
			var expired, ran int
			for end := time.Now().Add(stressTime(t) / 3); goesOn(end, ran > 0 && expired > 0); {
				timer := newTimer(t, append(opts, WithTick(20*time.Microsecond), WithMaxPending(1))...)
				var asked, runs atomic.Int32
				s := scheduleFunc(func(prev time.Time) time.Time {
					if asked.Add(1) > 3 {
						return time.Time{}
					}
					return time.Now()
				})
				to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(1) }), s)
				require.NoError(t, err)
				var wg sync.WaitGroup
				for _, f := range []func(){
					func() { to.Cancel() },
					func() { to.Reset(0) },
					func() { timer.Stop() },
				} {
					for wait := rnd.IntN(100); wait > 0; wait-- {
						runtime.Gosched()
					}
					wg.Go(f)
				}
				wg.Wait()
				_, err = timer.Shutdown(t.Context())
				require.NoError(t, err)
				assert.True(t, to.IsExpired() || to.IsCanceled(), "%v", to)
				require.Zero(t, timer.Pending())
				checkStats(t, timer)
				ran += int(runs.Load())
				if to.IsExpired() {
					expired++
				}
			}
			t.Logf("%d runs, %d schedules ended by themselves", ran, expired)
			require.Positive(t, ran)
			require.Positive(t, expired)
		})
	}
}

// With one Jitter inside another, the delays do not add up from run to run. Each run is late by at most both
// parts together.
func TestJitterOfJitterDoesNotDrift(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const ms = time.Millisecond
		timer := newTimer(t, WithTick(ms))
		start := time.Now()
		var m moments
		_, err := timer.Schedule(TaskFunc(func(*Timeout) { m.note() }), Jitter(Jitter(Every(100*ms), 0.2), 0.3))
		require.NoError(t, err)
		pass(100 * 100 * ms)
		most := time.Duration(0)
		for i, at := range m.since(start) {
			due := time.Duration(i+1) * 100 * ms
			require.GreaterOrEqual(t, at, due)
			require.Less(t, at, due+57*ms) // 20% of 100 ms, 30% of at most 120 ms, and one tick
			most = max(most, at-due)
		}
		require.Greater(t, most, 30*ms, "the largest of a hundred delays is more than either jitter alone can give")
		require.GreaterOrEqual(t, len(m.all()), 99)
	})
}
