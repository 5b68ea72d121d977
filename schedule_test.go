package hashedwheel

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// scheduleFunc turns a function into a Schedule.
type scheduleFunc func(prev time.Time) time.Time

func (f scheduleFunc) Next(prev time.Time) time.Time { return f(prev) }

// runsOf arms a task with a schedule, lets d pass, and returns the times of the runs, counted from the call.
func runsOf(t *testing.T, timer *Timer, s Schedule, d time.Duration) (to *Timeout, ran []time.Duration) {
	t.Helper()
	var m moments
	start := time.Now()
	to, err := timer.Schedule(TaskFunc(func(*Timeout) { m.Note() }), s)
	require.NoError(t, err)
	pass(d)
	return to, m.Since(start)
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
					if prevs.Add(prev) >= 5 {
						return time.Time{}
					}
					return prev.Add(25 * ms)
				}), time.Second)
				require.Equal(t, []time.Duration{0, 25 * ms, 50 * ms, 75 * ms, 100 * ms}, prevs.Since(start))
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
				require.Equal(t, 1010*ms, prevs.Since(start)[5], "the boundary that Reset moved it to")
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
			to, err := timer.Schedule(TaskFunc(func(*Timeout) {}), s)
			require.NoError(t, err)
			require.Equal(t, time.Now().Add(tick), to.Deadline(), "the first run lies ahead")
			require.True(t, to.Cancel())
			to, ran := runsOf(t, timer, s, 20*tick)
			require.Len(t, ran, 20)
			for i, at := range ran {
				require.Equal(t, time.Duration(i+1)*tick, at)
			}
			require.True(t, to.Cancel())
		}
	})
}

// At most one run of Every starts in each tick, although the jitter may put two runs into the same tick.
func TestOneRunOfEveryInATick(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		_, ran := runsOf(t, timer, Jitter(Jitter(Every(tick), 1), 1), 1000*tick)
		require.Greater(t, len(ran), 300)
		for i, at := range ran[1:] {
			require.Greater(t, at, ran[i])
		}
	})
}

// Runs of Every are due at multiples of the interval. If some are missed, one run makes up for them at once, and later ones are
// due at multiples again. The run that makes up for them is due at the boundary that has passed last.
func TestEveryKeepsItsPhase(t *testing.T) {
	const tick = 10 * time.Millisecond
	part := func(ticks float64) time.Duration { return time.Duration(math.Round(ticks * float64(tick))) }
	for name, c := range map[string]struct { // times are in ticks, counted from New
		start, interval float64   // Schedule is called at start
		busy, until     float64   // another task has the only slot for that time
		slow            []float64 // how long the first runs take
		want            []float64
	}{
		"on time":        {interval: 10, want: []float64{10, 20, 30, 40}},
		"not at a tick":  {start: 3.5, interval: 10, want: []float64{14, 24, 34}},
		"no whole ticks": {start: 30, interval: 2.5, want: []float64{33, 35, 38, 40}},

		"the task is slow":             {interval: 10, slow: []float64{15}, want: []float64{10, 25, 30, 40}},
		"it is slow by many intervals": {interval: 5, slow: []float64{0, 23}, want: []float64{5, 10, 33, 35, 40}},
		"it takes a whole interval":    {interval: 10, slow: []float64{10}, want: []float64{10, 20, 30, 40}},
		"it is just in time":           {interval: 10, slow: []float64{9.9}, want: []float64{10, 20, 30, 40}},
		"it is slow, not at a tick":    {start: 3.5, interval: 10, slow: []float64{11}, want: []float64{14, 25, 34}},
		"it ends between ticks":        {interval: 10, slow: []float64{10.5}, want: []float64{10, 20.5, 30, 40}},
		"it ends just before":          {start: 3.5, interval: 10, slow: []float64{9.7}, want: []float64{14, 24, 34}},
		"it is slow again and again":   {interval: 10, slow: []float64{12, 12}, want: []float64{10, 22, 34, 40}},

		"it starts late":             {interval: 10, busy: 5, until: 17, want: []float64{17, 20, 30, 40}},
		"late by some intervals":     {interval: 10, busy: 5, until: 33, want: []float64{33, 40}},
		"late until the next run":    {interval: 10, busy: 5, until: 30, want: []float64{30, 40}},
		"late by less than a tick":   {start: 35.5, interval: 1, busy: 36, until: 37.6, want: []float64{37.6, 38, 39, 40}},
		"late, and the task is slow": {interval: 10, busy: 5, until: 23, slow: []float64{8}, want: []float64{23, 31, 40}},
		"late, and no whole ticks":   {start: 0.5, interval: 1.25, busy: 1, until: 35.1, want: []float64{35.1, 36, 37, 38, 40}},
		"a part of a tick":           {start: 6.5, interval: 0.3, busy: 6, until: 36.5, want: []float64{36.5, 37, 38, 39, 40}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
				start := time.Now()
				_, err := timer.AfterFunc(part(c.busy), func() { time.Sleep(part(c.until) - time.Since(start)) })
				require.NoError(t, err)
				time.Sleep(part(c.start))
				var ran []float64
				_, err = timer.Schedule(TaskFunc(func(to *Timeout) {
					ran = append(ran, float64(time.Since(start))/float64(tick))
					if c.busy == 0 {
						assert.Equal(t, timer.clock.TimeOf(timer.clock.Now()), to.Deadline())
					}
					if n := len(ran); n <= len(c.slow) {
						time.Sleep(part(c.slow[n-1]))
					}
				}), Every(part(c.interval)))
				require.NoError(t, err)
				pass(part(40.9) - time.Since(start))
				require.Equal(t, c.want, ran)
			})
		})
	}
}

// A run that takes as long as the interval is followed at once by the next one, and no run is lost, also if the tick is as long
// as the interval. This holds for fixed intervals and for schedules of the wall clock.
func TestRunsAsLongAsTheInterval(t *testing.T) {
	for name, opts := range executors() {
		for what, s := range map[string]Schedule{
			"Every":          Every(time.Second),
			"Jitter":         Jitter(Every(time.Second), 0),
			"the wall clock": scheduleFunc(func(prev time.Time) time.Time { return prev.Truncate(time.Second).Add(time.Second) }),
			"its own times":  scheduleFunc(func(prev time.Time) time.Time { return prev.Add(time.Second) }),
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					for _, tick := range []time.Duration{100 * time.Millisecond, time.Second} {
						timer := newTimer(t, append(opts, WithTick(tick))...)
						var m moments
						start := time.Now()
						to, err := timer.Schedule(TaskFunc(func(*Timeout) { m.Note(); time.Sleep(time.Second) }), s)
						require.NoError(t, err)
						pass(100*time.Second + tick/2)
						ran := m.Since(start)
						require.Len(t, ran, 100)
						for i, at := range ran {
							require.Equal(t, time.Duration(i+1)*time.Second, at)
						}
						require.True(t, to.Cancel())
						require.NoError(t, to.WaitRunning(t.Context()))
					}
				})
			})
		}
	}
}

// A logged schedule wraps another, as a program may do to log each time or to end after some.
type loggedSchedule struct{ Schedule }

func (s loggedSchedule) Next(prev time.Time) time.Time { return s.Schedule.Next(prev) }

// A schedule that wraps Every or Jitter has no fixed interval: a missed run moves all later ones, it follows the wall clock, and
// the delays of a Jitter add up. Those of a Jitter around it do not. Every itself keeps its phase if the task ends it.
func TestScheduleThatWrapsEvery(t *testing.T) {
	const tick = time.Millisecond
	interval := Every(100 * tick)
	for name, c := range map[string]struct {
		s     Schedule
		exact bool
	}{
		"Every":              {interval, true},
		"Jitter":             {Jitter(interval, 0), true},
		"wrapped":            {loggedSchedule{interval}, false},
		"embedded":           {struct{ Schedule }{interval}, false},
		"a Jitter, wrapped":  {loggedSchedule{Jitter(interval, 0)}, false},
		"wrapped, in Jitter": {Jitter(loggedSchedule{interval}, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick))
				clock := onSetClock(timer)
				start := time.Now()
				var m moments
				left := 4
				to, err := timer.Schedule(TaskFunc(func(to *Timeout) {
					m.Note()
					switch left--; left {
					case 3:
						time.Sleep(150 * tick) // until 250
					case 1:
						clock.set(-10 * time.Millisecond)
					case 0:
						to.Cancel()
					}
				}), c.s)
				require.NoError(t, err)
				pass(10 * time.Second)
				if c.exact {
					require.Equal(t, []time.Duration{100 * tick, 250 * tick, 300 * tick, 400 * tick}, m.Since(start))
				} else {
					require.Equal(t, []time.Duration{100 * tick, 250 * tick, 350 * tick, 460 * tick}, m.Since(start))
				}
				require.True(t, to.IsCanceled())
			})
		})
	}
	virtual(t, func(t *testing.T) {
		const runs = 100
		timer := newTimer(t, WithTick(tick))
		drift := func(s Schedule) (most time.Duration) {
			to, ran := runsOf(t, timer, s, 2*runs*100*tick)
			require.Greater(t, len(ran), runs)
			require.True(t, to.Cancel())
			for i, at := range ran[:runs] {
				most = max(most, at-time.Duration(i+1)*100*tick)
			}
			return most
		}
		require.Greater(t, drift(loggedSchedule{Jitter(interval, 0.5)}), 1000*tick)
		require.LessOrEqual(t, drift(Jitter(loggedSchedule{interval}, 0.5)), 51*tick)
	})
}

// With jitter, each run is late by at most the jitter, also after missed runs.
func TestJitterOfEveryKeepsItsPhase(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		const interval = 100 * tick
		for range 20 {
			timer := newTimer(t, WithTick(tick))
			var m moments
			start := time.Now()
			_, err := timer.Schedule(TaskFunc(func(*Timeout) {
				m.Note()
				if len(m.All()) == 2 {
					time.Sleep(755*tick - time.Since(start))
				}
			}), Jitter(Every(interval), 0.5))
			require.NoError(t, err)
			pass(1060 * tick)
			ran := m.Since(start)
			require.Len(t, ran, 6)
			require.Equal(t, 755*tick, ran[2])
			for i, n := range []time.Duration{1, 2, 0, 8, 9, 10} {
				late := ran[i] - n*interval
				require.True(t, n == 0 || late >= 0 && late <= interval/2+tick, "run %d is late by %v", i, late)
			}
		}
	})
}

// Jitter of up to a whole interval drops no run.
func TestLongJitterDropsNoRun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		_, ran := runsOf(t, timer, Jitter(Every(2*tick), 1), 102*tick)
		require.Len(t, ran, 50)
		for i, at := range ran {
			n := time.Duration(i+1) * 2 * tick
			require.True(t, at > n && at <= n+2*tick, "run %d at %v", i, at)
		}
	})
}

// Reset moves the phase.
func TestResetMovesThePhase(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var m moments
		start := time.Now()
		to, err := timer.Schedule(TaskFunc(func(*Timeout) { m.Note() }), Every(100*tick))
		require.NoError(t, err)
		pass(150 * tick)
		active, err := to.Reset(20 * tick)
		require.NoError(t, err)
		require.True(t, active)
		pass(220 * tick)
		require.Equal(t, []time.Duration{100 * tick, 170 * tick, 270 * tick, 370 * tick}, m.Since(start))
	})
}

// A Reset takes the jitter away from the run that it moves. So this run, which is late, makes up for all that were missed.
func TestResetEndsTheJitter(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		for range 20 {
			timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
			var m moments
			start := time.Now()
			_, err := timer.AfterFunc(10*tick, func() { time.Sleep(150 * tick) })
			require.NoError(t, err)
			to, err := timer.Schedule(TaskFunc(func(*Timeout) { m.Note() }), Jitter(Every(100*tick), 1))
			require.NoError(t, err)
			_, err = to.Reset(50 * tick)
			require.NoError(t, err)
			pass(400 * tick)
			ran := m.Since(start)
			require.Equal(t, 160*tick, ran[0])
			require.GreaterOrEqual(t, ran[1], 250*tick)
		}
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
			asked.Add(prev)
			return prev.Round(0).In(zone).Truncate(time.Minute).Add(time.Minute)
		})
		time.Sleep(30 * time.Second)
		to, ran := runsOf(t, timer, minute, 150*time.Second)
		require.Equal(t, []time.Duration{30 * time.Second, 90 * time.Second, 150 * time.Second}, ran)
		prevs := asked.All()
		require.Len(t, prevs, 4)
		require.Equal(t, time.Local, prevs[0].Location())
		for _, prev := range prevs[1:] {
			require.Equal(t, zone, prev.Location())
			require.Zero(t, prev.Second())
		}
		_, err := to.Reset(10 * time.Second)
		require.NoError(t, err)
		pass(10 * time.Second)
		last := asked.All()[4]
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
					require.NoError(t, to.WaitRunning(t.Context()))
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
			if time.Since(timer.clock.Start) > 30*tick {
				return time.Time{}
			}
			return time.Now().Add(5 * tick)
		})
		var m moments
		start := time.Now()
		arm := func() *Timeout {
			to, err := timer.Schedule(TaskFunc(func(*Timeout) { m.Note() }), slow) // first run at tick 15
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
		require.Len(t, m.All(), 3)
		require.Equal(t, 40*tick, m.All()[2].Sub(start))
		require.True(t, to.Cancel())
		pass(20 * tick)
		require.True(t, to.IsCanceled())
		require.Len(t, m.All(), 3)
		checkStats(t, timer)
	})
}

// Each run is late by at most the given part of the interval, and never early. The jitter counts from
// the times of the inner schedule. A thousand timeouts that share one schedule do not run together.
func TestJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Millisecond
		const interval = 1000 * tick
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		s := Jitter(Every(interval), 0.25)
		const timeouts = 1000
		runs := sized(20, 50, 50)
		var all [timeouts]moments
		for i := range all {
			_, err := timer.Schedule(TaskFunc(func(*Timeout) { all[i].Note() }), s)
			require.NoError(t, err)
		}
		pass(time.Duration(runs)*interval + interval/4 + tick)
		together := map[time.Duration]int{}
		var sum time.Duration
		for i := range all {
			at := all[i].All()
			require.Len(t, at, runs)
			for n, at := range at {
				late := at.Sub(start) - time.Duration(n+1)*interval
				if late < 0 || late > interval/4+tick {
					t.Fatalf("late by %v", late)
				}
				sum += late
				together[at.Sub(start)]++
			}
		}
		// Evenly distributed over 250 ticks, the jitter is 125 ticks on average, and 4 timeouts run at each tick.
		require.InDelta(t, 125, sum/tick/time.Duration(timeouts*runs), 3)
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

// If the timer is stopped or full, or the group is closed, Schedule does not call Next before it returns the error, which is that
// of the other methods, and counts once.
func TestRefusedScheduleDoesNotCallNext(t *testing.T) {
	for name, c := range map[string]struct {
		full, closed, stopped bool
		want                  error
		stats                 Stats
	}{
		"full":                     {full: true, want: ErrTooManyPending, stats: Stats{RejectedFull: 1}},
		"stopped":                  {stopped: true, want: ErrStopped, stats: Stats{RejectedStopped: 1}},
		"full and stopped":         {full: true, stopped: true, want: ErrStopped, stats: Stats{RejectedStopped: 1}},
		"closed":                   {closed: true, want: ErrGroupClosed},
		"closed and full":          {closed: true, full: true, want: ErrGroupClosed},
		"closed and stopped":       {closed: true, stopped: true, want: ErrStopped, stats: Stats{RejectedStopped: 1}},
		"closed, full and stopped": {closed: true, full: true, stopped: true, want: ErrStopped, stats: Stats{RejectedStopped: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			task := TaskFunc(func(*Timeout) { t.Error("run") })
			s := scheduleFunc(func(prev time.Time) time.Time {
				t.Error("Next is called")
				return prev.Add(time.Hour)
			})
			arm := func() (*Timer, *Group) {
				timer := newTimer(t, WithMaxPending(1))
				g := NewGroup(timer)
				if c.full {
					_, err := timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
				}
				if c.closed {
					g.Close()
				}
				if c.stopped {
					timer.Stop()
				}
				return timer, g
			}
			check := func(timer *Timer, to *Timeout, err error) {
				t.Helper()
				require.Nil(t, to)
				require.ErrorIs(t, err, c.want)
				st := timer.Stats()
				require.Equal(t, c.stats, Stats{RejectedFull: st.RejectedFull, RejectedStopped: st.RejectedStopped})
			}
			timer, g := arm()
			to, err := g.Schedule(task, s)
			check(timer, to, err)
			if !c.closed {
				timer, _ = arm()
				to, err = timer.Schedule(task, s)
				check(timer, to, err)
			}
		})
	}
}

// The handle returns the user's task, also if that task is a Canceler.
func TestRepeatingTask(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		c := new(CancelCounter)
		to, err := timer.ScheduleAtFixedRate(c, 0, time.Millisecond)
		require.NoError(t, err)
		require.Same(t, c, to.Task())
		require.Contains(t, to.String(), "*hashedwheel.CancelCounter")
		pass(3 * time.Millisecond)
		require.True(t, to.Cancel())
		pass(time.Millisecond)
		require.EqualValues(t, 1, c.Told.Load())
		require.Same(t, c, to.Task())
	})
}

// With one Jitter inside another, the delays do not add up from run to run. Each run is late by at most both
// parts together.
func TestJitterOfJitterDoesNotDrift(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const ms = time.Millisecond
		timer := newTimer(t, WithTick(ms))
		start := time.Now()
		var m moments
		_, err := timer.Schedule(TaskFunc(func(*Timeout) { m.Note() }), Jitter(Jitter(Every(100*ms), 0.2), 0.3))
		require.NoError(t, err)
		pass(100 * 100 * ms)
		most := time.Duration(0)
		for i, at := range m.Since(start) {
			due := time.Duration(i+1) * 100 * ms
			require.GreaterOrEqual(t, at, due)
			require.Less(t, at, due+57*ms) // 20% of 100 ms, 30% of at most 120 ms, and one tick
			most = max(most, at-due)
		}
		require.Greater(t, most, 30*ms, "the largest of a hundred delays is more than either jitter alone can give")
		require.GreaterOrEqual(t, len(m.All()), 99)
	})
}

// Run n starts at the first boundary at or after initialDelay + n*period, for up to 10,000 runs without drift. The
// period is a multiple of the tick, is not a multiple of it, or is shorter than the tick.
func TestFixedRateDoesNotDrift(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct{ tick, initial, period time.Duration }{
		{1000 * us, 1000 * us, 1000 * us},
		{1000 * us, 2500 * us, 7300 * us},
		{1000 * us, 1, 999 * us},
		{1000 * us, 300 * us, 70 * us},
		{1000 * us, 0, 333 * us},
		{7 * us, time.Hour, 1013 * us},
		{100_000 * us, 5 * us, 33_333 * us},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				runs := sized[time.Duration](500, 2000, 10_000)
				timer := newTimer(t, WithTick(c.tick))
				start := time.Now()
				time.Sleep(c.tick / 3)
				offset := c.tick / 3
				var m moments
				to, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { m.Note() }), c.initial, c.period)
				require.NoError(t, err)
				pass(c.initial + runs*c.period)
				require.True(t, to.Cancel())
				at := m.All()
				require.InDelta(t, int(runs), len(at), 1+float64(c.tick/c.period))
				for n, got := range at {
					want := testkit.Boundary(offset+c.initial+time.Duration(n)*c.period, c.tick)
					require.Equal(t, want, got.Sub(start), "run %d", n)
				}
			})
		})
	}
}

// A repeating timeout continues after a run that panics or exits its goroutine, and after a panic handler that exits
// the goroutine.
func TestRepeatingSurvives(t *testing.T) {
	for name, opts := range executors() {
		for _, kind := range []string{"panic", "exit", "handler exits"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					const tick = time.Millisecond
					handler := WithPanicHandler(func(*Timeout, any, []byte) {
						if kind == "handler exits" {
							runtime.Goexit()
						}
					})
					timer := newTimer(t, append(opts, WithTick(tick), handler)...)
					var runs atomic.Int32
					_, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) {
						runs.Add(1)
						if kind == "exit" {
							runtime.Goexit()
						}
						panic("on purpose")
					}), tick, tick)
					require.NoError(t, err)
					pass(20 * tick)
					require.EqualValues(t, 20, runs.Load())
					if kind != "exit" {
						require.EqualValues(t, 20, timer.Stats().Panics)
					}
					checkStats(t, timer)
				})
			})
		}
	}
}

// Cancel ends a repeating timeout between two runs, during a run, and from inside a run. A Reset starts it again, but
// not before the run in progress has ended.
func TestRepeatingCancelAndReset(t *testing.T) {
	const tick = time.Millisecond
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(tick), WithMaxPending(1))...)
				start := time.Now()
				var m moments
				inside := make(chan func(*Timeout), 1)
				to, err := timer.ScheduleAtFixedRate(TaskFunc(func(to *Timeout) {
					m.Note()
					select {
					case f := <-inside:
						f(to)
					default:
					}
				}), tick, 10*tick)
				require.NoError(t, err)
				ran := func(at ...int) {
					t.Helper()
					var want []time.Duration
					for _, n := range at {
						want = append(want, time.Duration(n)*tick)
					}
					require.Equal(t, want, m.Since(start))
				}
				state := func(pending int, canceled bool) {
					t.Helper()
					require.Equal(t, pending, timer.Pending())
					require.Equal(t, canceled, to.IsCanceled())
					require.False(t, to.IsExpired())
					st := timer.Stats()
					require.Zero(t, st.Returned)
					testkit.CheckCounts(t, st)
				}

				pass(5 * tick) // 5
				ran(1)
				active, err := to.Reset(3 * tick)
				require.True(t, active)
				require.NoError(t, err)
				pass(15 * tick) // 20; later runs count from the Reset
				ran(1, 8, 18)
				state(1, false)

				inside <- func(to *Timeout) {
					time.Sleep(4 * tick) // until 32
					active, err := to.Reset(3 * tick)
					assert.True(t, active)
					assert.NoError(t, err)
					time.Sleep(tick)
				}
				pass(10 * tick) // 30
				require.Contains(t, to.String(), "pending, running")
				state(1, false)
				_, err = timer.AfterFunc(0, nop)
				require.ErrorIs(t, err, ErrTooManyPending, "the timeout keeps its slot during a run")
				pass(10 * tick) // 40
				ran(1, 8, 18, 28, 35)

				inside <- func(to *Timeout) {
					_, err := to.Reset(2 * tick)
					assert.NoError(t, err)
					time.Sleep(5 * tick) // until 50, beyond the new deadline
				}
				pass(11 * tick) // 51
				ran(1, 8, 18, 28, 35, 45, 50)

				inside <- func(to *Timeout) {
					assert.True(t, to.Cancel())
					assert.False(t, to.Cancel())
					assert.True(t, to.IsCanceled())
					active, err := to.Reset(tick)
					assert.False(t, active)
					assert.NoError(t, err)
					time.Sleep(3 * tick)
				}
				pass(19 * tick) // 70
				before := len(m.All())
				inside <- func(to *Timeout) { time.Sleep(5 * tick) }
				pass(10 * tick)
				require.Greater(t, len(m.All()), before)
				require.True(t, to.Cancel())
				state(0, true)
				before = len(m.All())
				pass(30 * tick)
				require.Len(t, m.All(), before)
				state(0, true)

				active, err = to.Reset(tick)
				require.False(t, active)
				require.NoError(t, err)
				pass(11 * tick)
				require.Len(t, m.All(), before+2)
				inside <- func(to *Timeout) { time.Sleep(5 * tick) }
				pass(12 * tick)
				require.True(t, to.Cancel(), "during a run")
				state(0, true)
				pass(30 * tick)
				require.Len(t, m.All(), before+3)
				state(0, true)
			})
		})
	}
}

// While a timeout is at work, the worker does not put it into a bucket or on a list. It removes the timeout from a
// bucket that it was in before a Reset, and from the list.
func TestWorkerAndTimeoutAtWork(t *testing.T) {
	for _, tick := range []uint64{0, 5, 30} { // due, in another bucket, and in the same bucket
		timer := newTimer(t, WithTick(time.Hour), WithWheelSize(16))
		hold(t, timer)
		w := &timer.worker
		w.round() // makes the wheel
		to := &Timeout{timer: timer}
		word := func(tick uint64, bits uint64) { to.word.Store(tick<<tickShift | bits) }
		word(14, pending)
		w.wheel.place(to, 14)
		take := func(tick uint64) { // as the worker does when it takes the timeout off the queue
			word(tick, pending|atWork)
			w.reconcile(to, to.word.Load()|queued)
		}
		take(tick)
		require.Equal(t, tick<<tickShift|pending|atWork, to.word.Load())
		require.Zero(t, to.bucket)
		require.Zero(t, w.wheel.count)

		take(tick) // the timeout is in no bucket
		require.Zero(t, to.bucket)
		require.Zero(t, w.due.Position())

		w.wheel.place(to, 14)
		w.wheel.advance(14)
		require.Zero(t, w.wheel.count)
		require.Zero(t, w.due.Position())

		timer.tasks.Limit = -1 // so that no runner comes
		w.emit(to)
		w.handOver()
		require.Equal(t, 1, timer.tasks.Waiting())
		take(5)
		require.Zero(t, timer.tasks.Waiting())
		require.Zero(t, to.bucket)
	}
}

// The longest period does not overflow.
func TestFixedRateOfHugePeriod(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		for _, initial := range []time.Duration{1, math.MaxInt64} {
			for _, schedule := range []func(Task, time.Duration, time.Duration) (*Timeout, error){
				timer.ScheduleAtFixedRate, timer.ScheduleWithFixedDelay,
			} {
				_, err := schedule(TaskFunc(func(*Timeout) {}), initial, math.MaxInt64)
				require.NoError(t, err)
			}
		}
		pass(10 * 365 * 24 * time.Hour)
		require.EqualValues(t, 2, timer.Stats().Expired)
		require.Equal(t, 4, timer.Pending())
	})
}

// No interval with a jitter overflows, however old the timer is. Such a run would come at once.
func TestJitterOfHugeInterval(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		task := TaskFunc(func(*Timeout) { t.Error("run") })
		pass(100 * 365 * 24 * time.Hour)
		for _, interval := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - 50*365*24*time.Hour} {
			for _, s := range []Schedule{
				Every(interval),
				Jitter(Every(interval), 1),
				Jitter(Jitter(Jitter(Every(interval), 1), 1), 1),
			} {
				for range 50 {
					_, err := timer.Schedule(task, s)
					require.NoError(t, err)
				}
			}
		}
		pass(100 * 365 * 24 * time.Hour)
		require.Equal(t, 450, timer.Pending())
	})
}

// The jitter is neither negative nor so long that the sum with the interval overflows.
func TestJitterSaturates(t *testing.T) {
	for _, gap := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, math.MaxInt64 / 3, 1, 0, -1, math.MinInt64} {
		for n := range 5 {
			j := slices.Repeat(jitter{1}, n)
			for range 1000 {
				if delay := j.of(gap); delay < 0 || delay > 0 && (gap <= 0 || delay > math.MaxInt64-gap) {
					t.Fatalf("%v of %v", delay, gap)
				}
			}
		}
	}
}

// If runs take longer than the period, and only one task may run at a time, other tasks still get their turn.
func TestMissedRunsDoNotStarveOthers(t *testing.T) {
	const tick = time.Millisecond
	for name, opts := range executors() {
		for what, arm := range map[string]func(timer *Timer, task Task) (*Timeout, error){
			"rate":  func(timer *Timer, task Task) (*Timeout, error) { return timer.ScheduleAtFixedRate(task, 0, tick) },
			"every": func(timer *Timer, task Task) (*Timeout, error) { return timer.Schedule(task, Every(tick)) },
			"wall": func(timer *Timer, task Task) (*Timeout, error) {
				return timer.Schedule(task, scheduleFunc(func(prev time.Time) time.Time { return prev.Add(tick) }))
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, append(opts, WithTick(tick), WithMaxConcurrency(1))...)
					_, err := arm(timer, TaskFunc(func(*Timeout) { time.Sleep(3 * tick) }))
					require.NoError(t, err)
					pass(50 * tick)
					done := make(chan struct{})
					start := time.Now()
					_, err = timer.AfterFunc(0, func() { close(done) })
					require.NoError(t, err)
					<-done
					require.LessOrEqual(t, time.Since(start), 7*tick)
					_, err = timer.Shutdown(t.Context())
					require.NoError(t, err)
				})
			})
		}
	}
}

// A run of a repeating timeout allocates nothing, and neither does the timer at each tick.
func TestRunAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector sync.Pool forgets at random")
	}
	const tick = time.Millisecond
	ticks := sized(100, 400, 400)
	for name, schedule := range map[string]func(timer *Timer, task Task) (*Timeout, error){
		"each tick":  func(timer *Timer, task Task) (*Timeout, error) { return timer.ScheduleAtFixedRate(task, tick, tick) },
		"ten a tick": func(timer *Timer, task Task) (*Timeout, error) { return timer.ScheduleAtFixedRate(task, tick, tick/10) },
		"2,000 a tick": func(timer *Timer, task Task) (*Timeout, error) {
			return timer.ScheduleAtFixedRate(task, tick, tick/2000)
		},
		"fixed delay": func(timer *Timer, task Task) (*Timeout, error) {
			return timer.ScheduleWithFixedDelay(task, tick, 3*tick)
		},
		"with a jitter": func(timer *Timer, task Task) (*Timeout, error) {
			return timer.Schedule(task, Jitter(Every(2*tick), 0.5))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithWheelSize(64))
				var runs atomic.Int64
				_, err := schedule(timer, TaskFunc(func(*Timeout) { runs.Add(1) }))
				require.NoError(t, err)
				time.Sleep(100 * tick) // until buckets and lists have grown to their sizes
				before := runs.Load()
				allocs := testing.AllocsPerRun(1, func() { time.Sleep(time.Duration(ticks) * tick) })
				ran := runs.Load() - before
				t.Logf("%.0f allocations in %d runs", allocs, ran/2)
				require.GreaterOrEqual(t, ran, int64(2*ticks/4))
				require.Less(t, allocs, float64(ticks)/8) // less than one for each run of any schedule
			})
		})
	}
}

// A worker with nothing else to do ends during a long run. The timeout is still armed again after the run.
func TestWorkerLeavesDuringARun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		begun, release := make(chan time.Time), make(chan bool)
		to, err := timer.ScheduleWithFixedDelay(TaskFunc(func(*Timeout) {
			begun <- time.Now()
			<-release
		}), tick, tick)
		require.NoError(t, err)
		<-begun
		for range 10 {
			pass(5 * time.Second)
			require.True(t, timer.worker.released())
			require.Equal(t, 1, timer.Pending())
			ended := time.Now()
			release <- true
			require.Equal(t, tick, (<-begun).Sub(ended))
		}
		require.True(t, to.Cancel())
		release <- true
		pass(5 * time.Second)
		require.True(t, timer.worker.released())
	})
}

// A Reset to the same tick for which the timeout was armed still counts as a Reset: later runs count from it.
func TestResetOfFixedRateToTheSameTick(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const ms = time.Millisecond
		timer := newTimer(t, WithTick(10*ms))
		start := time.Now()
		var m moments
		to, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { m.Note() }), ms, 9*ms)
		require.NoError(t, err)
		_, err = to.Reset(10 * ms)
		require.NoError(t, err)
		pass(30 * ms)
		require.Equal(t, []time.Duration{10 * ms, 20 * ms, 30 * ms}, m.Since(start))
		require.True(t, to.Cancel())
	})
}

// The schedule is not called after a run in which the task called Cancel or Reset.
func TestScheduleIsCalledOnlyIfNeeded(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var asked, runs atomic.Int32
		s := scheduleFunc(func(prev time.Time) time.Time {
			asked.Add(1)
			return prev.Add(tick)
		})
		_, err := timer.Schedule(TaskFunc(func(to *Timeout) {
			if runs.Add(1) <= 3 {
				_, err := to.Reset(5 * tick)
				assert.NoError(t, err)
				return
			}
			assert.True(t, to.Cancel())
		}), s)
		require.NoError(t, err)
		pass(30 * tick)
		require.EqualValues(t, 4, runs.Load())
		require.EqualValues(t, 1, asked.Load())
	})
}

// Stop finds timeouts whose run ends during Stop, even if the worker takes others off the list at the same time, as it
// does after each Cancel.
func TestStopWhileRunsEnd(t *testing.T) {
	rounds := 0
	for end := time.Now().Add(stressTime(t) / 2); time.Now().Before(end); rounds++ {
		timer := newTimer(t, WithTick(20*time.Microsecond))
		all := make([]*Timeout, 50)
		for i := range all {
			var err error
			yield := TaskFunc(func(*Timeout) { runtime.Gosched() })
			all[i], err = timer.ScheduleAtFixedRate(yield, 0, 5*time.Microsecond)
			require.NoError(t, err)
		}
		var users sync.WaitGroup
		for range 2 {
			users.Go(func() {
				for i := range 300 {
					to, err := timer.AfterFunc(0, nop)
					if err != nil {
						return
					}
					if i%10 == 0 {
						time.Sleep(20 * time.Microsecond)
					}
					to.Cancel()
				}
			})
		}
		time.Sleep(time.Duration(rounds%50) * 20 * time.Microsecond)
		left, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		users.Wait()
		for _, to := range all {
			require.Contains(t, left, to, "round %d", rounds)
			checkReturned(t, to)
		}
	}
}

// A repeating timeout is reset while its schedule is asked for the next time, and is due when the schedule ends its
// goroutine. It runs again nevertheless.
func TestGoexitInNextAfterReset(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var handle atomic.Pointer[Timeout]
		asked := 0
		runs := new(moments)
		start := time.Now()
		to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Note() }), scheduleFunc(func(prev time.Time) time.Time {
			if asked++; asked == 2 {
				_, err := handle.Load().Reset(0)
				assert.NoError(t, err)
				time.Sleep(5 * tick)
				runtime.Goexit()
			}
			return start.Add(time.Duration(asked) * 10 * tick)
		}))
		require.NoError(t, err)
		handle.Store(to)
		pass(time.Second)
		require.Equal(t, []time.Duration{10 * tick, 15 * tick, 30 * tick}, runs.Since(start)[:3])
		to.Cancel()
	})
}

// A repeating timeout that is overdue runs once, then after the others that wait, and then its missed runs follow at once.
func TestMissedRunsGoBehindOthers(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick, size = time.Millisecond, 16
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		giveBack := hold(t, timer)
		var runs atomic.Int64
		for i := range size {
			if i == size/2 {
				_, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { runs.Add(1) }), tick, tick)
				require.NoError(t, err)
				continue
			}
			_, err := timer.AfterFunc(tick, func() { assert.LessOrEqual(t, runs.Load(), int64(1)) })
			require.NoError(t, err)
		}
		pass(10*tick + tick/2)
		require.Zero(t, runs.Load())
		giveBack()
		synctest.Wait()
		require.EqualValues(t, 10, runs.Load())
		require.EqualValues(t, 10+size-1, timer.Stats().Expired)
	})
}

// Missed runs follow at once even if the worker is late: the runner reads the clock.
func TestMissedRunsNeedNoWorker(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		release := make(chan struct{})
		var runs atomic.Int64
		_, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { runs.Add(1); <-release }), tick, tick)
		require.NoError(t, err)
		pass(10 * tick)
		require.EqualValues(t, resting, timer.worker.state.Load())
		giveBack := hold(t, timer)
		close(release)
		synctest.Wait()
		giveBack()
		require.EqualValues(t, 10, runs.Load())
	})
}

// A timeout frees its slot when its task is started. So a Reset from inside the task needs a slot again, and is refused
// if other timeouts have taken all slots meanwhile.
func TestRetryByResetLosesItsSlot(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxPending(1))
		var other *Timeout
		runs := 0
		to, err := timer.NewTimeout(TaskFunc(func(to *Timeout) {
			if runs++; runs == 1 {
				var err error
				other, err = timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				active, err := to.Reset(tick)
				require.False(t, active)
				require.ErrorIs(t, err, ErrTooManyPending)
			}
		}), tick)
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, 1, runs)
		require.True(t, to.IsExpired())
		require.EqualValues(t, 1, timer.Stats().RejectedFull)
		require.True(t, other.Cancel())
		_, err = to.Reset(tick)
		require.NoError(t, err)
		pass(tick)
		require.Equal(t, 2, runs)
	})
}

// A retry is tried until it succeeds: at once, and then after a delay that doubles, counted from the end of the previous
// try. It is both the task and its schedule.
type retry struct {
	try   func(n int) (ok bool)
	delay time.Duration
	n     int
	done  bool
}

func (r *retry) Run(*Timeout) {
	r.n++
	r.done = r.try(r.n)
}

func (r *retry) Next(prev time.Time) time.Time {
	switch {
	case r.done:
		return time.Time{}
	case r.n == 0:
		return prev
	}
	next := time.Now().Add(r.delay)
	r.delay *= 2
	return next
}

// A repeating timeout keeps its slot from the first run to the end of the last one. No other timeout gets the slot, and
// no later run is refused. This holds if a schedule says when to try again, and if the task calls Reset.
func TestRetryKeepsItsSlot(t *testing.T) {
	const tick, length = 10 * time.Millisecond, 25 * time.Millisecond
	// Each try takes 25 ms. The first begins at the first boundary. The others begin at the first boundary that is
	// 20, 40 or 80 ms after the end of the previous try.
	want := []time.Duration{10, 60, 130, 240}
	for i := range want {
		want[i] *= time.Millisecond
	}
	for name, arm := range map[string]func(timer *Timer, try func(n int) bool) (*Timeout, error){
		"Schedule": func(timer *Timer, try func(n int) bool) (*Timeout, error) {
			r := &retry{try: try, delay: 2 * tick}
			return timer.Schedule(r, r)
		},
		"Reset": func(timer *Timer, try func(n int) bool) (*Timeout, error) {
			n, delay := 0, 2*tick
			return timer.ScheduleWithFixedDelay(TaskFunc(func(to *Timeout) {
				if n++; try(n) {
					require.True(t, to.Cancel())
					return
				}
				active, err := to.Reset(delay)
				require.True(t, active)
				require.NoError(t, err)
				delay *= 2
			}), 0, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithMaxPending(1))
				start := time.Now()
				full := func() {
					_, err := timer.AfterFunc(time.Hour, nop)
					require.ErrorIs(t, err, ErrTooManyPending)
					require.Equal(t, 1, timer.Pending())
					require.Equal(t, 1, timer.slotsInUse())
				}
				var tries moments
				to, err := arm(timer, func(n int) bool {
					tries.Note()
					full()
					time.Sleep(length)
					full()
					return n == len(want)
				})
				require.NoError(t, err)
				for !to.IsExpired() && !to.IsCanceled() {
					full()
					pass(tick / 2)
				}
				require.Equal(t, want, tries.Since(start))
				require.Zero(t, timer.Pending())
				require.Zero(t, timer.slotsInUse())
				last, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				require.True(t, last.Cancel())
			})
		})
	}
}

// Jitter of a schedule with jitter keeps the exact one apart, and does not change the schedule that it was made from.
func TestJitterOfJitter(t *testing.T) {
	one := Jitter(Every(time.Second), 0.5)
	two, three := Jitter(one, 0.25), Jitter(one, 1)
	require.Equal(t, &jittered{every(time.Second), jitter{0.5}}, one)
	require.Equal(t, &jittered{every(time.Second), jitter{0.5, 0.25}}, two)
	require.Equal(t, &jittered{every(time.Second), jitter{0.5, 1}}, three)
	require.NoError(t, checkSchedule(two))
	require.Error(t, checkSchedule(Jitter(nil, 0.5)))
	require.Error(t, checkSchedule(Jitter(Every(0), 0.5)))
	require.Error(t, checkSchedule(Jitter(one, 1.5)))
	prev := time.Unix(0, 0)
	for range 1000 {
		next := two.Next(prev).Sub(prev)
		require.True(t, next >= time.Second && next <= 1875*time.Millisecond, next)
	}
}

// Asking a schedule for the next run allocates nothing.
func TestNextAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		const runs = 1000
		var n atomic.Int64
		_, err := timer.Schedule(TaskFunc(func(*Timeout) { n.Add(1) }), scheduleFunc(func(prev time.Time) time.Time { return prev.Add(time.Millisecond) }))
		require.NoError(t, err)
		pass(time.Second)
		n.Store(0)
		allocated := testing.AllocsPerRun(1, func() { pass(runs * time.Millisecond) })
		require.GreaterOrEqual(t, n.Load(), int64(2*runs-2)) // AllocsPerRun calls it once more
		require.Less(t, allocated, float64(runs/2))
	})
}
