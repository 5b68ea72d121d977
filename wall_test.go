package hashedwheel

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // so that the locations are there on every machine

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A setClock is a wall clock that a test sets. When the machine sleeps, monotonic time stands still, so the wall clock is
// ahead by as much after that.
type setClock struct{ by atomic.Int64 }

func (c *setClock) set(d time.Duration) { c.by.Add(int64(d)) }
func (c *setClock) now() time.Time      { return time.Now().Round(0).Add(time.Duration(c.by.Load())) }

// onSetClock makes a timer, which arms nothing yet, use a clock that the test sets, with steps.
func onSetClock(timer *Timer) *setClock {
	c := new(setClock)
	timer.wall.MakeSteps()
	timer.wall.Ahead = func() time.Duration { return time.Duration(c.by.Load()) }
	return c
}

// until lets time pass until the wall clock shows a time.
func (c *setClock) until(at time.Time) { pass(at.Sub(c.now())) }

// dailyAt is a schedule with a run at the same time of each day, in UTC or a location.
func dailyAt(d time.Duration, loc *time.Location) Schedule {
	return scheduleFunc(func(prev time.Time) time.Time {
		year, month, day := prev.In(loc).Date()
		for {
			if at := time.Date(year, month, day, 0, 0, int(d/time.Second), 0, loc); at.After(prev) {
				return at
			}
			day++
		}
	})
}

// A daily job runs at the right time of the wall clock, whatever happens to that clock: late by at most a minute, never
// early, and once a day. After the clock was set back by more than a minute, it shows the same day again.
func TestScheduleFollowsTheWallClock(t *testing.T) {
	const (
		h    = time.Hour
		m    = time.Minute
		s    = time.Second
		ms   = time.Millisecond
		day  = 24 * h
		tick = 100 * ms
	)
	type change struct{ after, by time.Duration } // counted from the change before
	type run struct{ earliest, late time.Duration }
	for name, c := range map[string]struct {
		changes []change
		want    []run // by the wall clock, counted from the first midnight; all until the last of them
	}{
		"nothing":                    {nil, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"slept through it":           {[]change{{1 * h, 8 * h}}, []run{{9 * h, m}, {day + 3*h, 0}}},
		"slept through three":        {[]change{{1 * h, 3 * day}}, []run{{3*day + h, m}, {3*day + 3*h, 0}}},
		"slept until just before":    {[]change{{1 * h, 2*h - 10*s}}, []run{{3 * h, m}, {day + 3*h, 0}}},
		"slept, and a while to go":   {[]change{{1 * h, 1 * h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"slept, and slept":           {[]change{{1 * h, 1 * h}, {30 * m, 2 * h}}, []run{{4*h + 30*m, m}, {day + 3*h, 0}}},
		"set forward over the run":   {[]change{{2*h + 59*m, 5 * m}}, []run{{3*h + 4*m, m}, {day + 3*h, 0}}},
		"set forward at the end":     {[]change{{3*h - s, 30 * s}}, []run{{3*h + 29*s, m}, {day + 3*h, 0}}},
		"set back":                   {[]change{{2 * h, -h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back at the end":        {[]change{{3*h - s, -h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back a bit at the end":  {[]change{{3*h - s, -150 * ms}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back by less":           {[]change{{h, -50 * ms}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back after the run":     {[]change{{3*h + s, -h}}, []run{{3 * h, 0}, {3 * h, 0}, {day + 3*h, 0}}},
		"a bit back after the run":   {[]change{{3*h + s, -30 * s}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back by days":           {[]change{{h, -3 * day}}, []run{{3*h - 3*day, 0}, {3*h - 2*day, 0}, {3*h - day, 0}, {3 * h, 0}}},
		"set back by four years":     {[]change{{h, -1461 * day}}, []run{{3*h - 1461*day, 0}, {3*h - 1460*day, 0}}},
		"set back until just before": {[]change{{h, -22*h - 10*s}}, []run{{3*h - day, m}, {3 * h, 0}}},
		"set back, and forward":      {[]change{{h, -h}, {30 * m, h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set forward, and back":      {[]change{{h, h}, {30 * m, -h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set for a moment":           {[]change{{h + 30*s, 3 * h}, {s, -3 * h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"slews forward":              {slices.Repeat([]change{{m, 30 * ms}}, 200), []run{{3 * h, tick}, {day + 3*h, 0}}},
		"slews back":                 {slices.Repeat([]change{{m, -30 * ms}}, 200), []run{{3 * h, tick}, {day + 3*h, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithMaxPending(1))
				clock := onSetClock(timer)
				start := clock.now()
				var runs moments
				to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(clock.now()) }), dailyAt(3*h, time.UTC))
				require.NoError(t, err)
				for _, c := range c.changes {
					pass(c.after)
					clock.set(c.by)
				}
				last := start.Add(c.want[len(c.want)-1].earliest)
				pass(last.Sub(clock.now()) + 2*m)
				got := runs.Since(start)
				require.Len(t, got, len(c.want), "%v", got)
				for i, want := range c.want {
					require.GreaterOrEqual(t, got[i], want.earliest, "run %d", i)
					require.LessOrEqual(t, got[i], want.earliest+want.late+tick, "run %d", i)
				}
				require.Equal(t, 1, timer.Pending())
				require.EqualValues(t, len(c.want)+1, timer.Stats().Accepted, "a step counts nowhere")
				require.True(t, to.Cancel())
				checkStats(t, timer)
			})
		})
	}
}

// hourly has a run at each full hour of UTC.
func hourly(prev time.Time) time.Time { return prev.Truncate(time.Hour).Add(time.Hour) }

// The argument of Next is in time.Local in the first call, and then in the location that Next has chosen, whatever happens.
func TestLocationOfPrev(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		clock := onSetClock(timer)
		zone := time.FixedZone("east", 3*3600)
		var asked moments
		to, err := timer.Schedule(TaskFunc(func(to *Timeout) {}), scheduleFunc(func(prev time.Time) time.Time {
			if asked.Add(prev) == 2 {
				return prev.In(zone).Add(-time.Hour) // has passed
			}
			return hourly(prev.Round(0)).In(zone)
		}))
		require.NoError(t, err)
		for _, change := range []func(){
			func() {},
			func() { clock.set(3*time.Hour + 30*time.Minute) }, // the machine sleeps
			func() { clock.set(-5 * time.Hour) },
			func() { to.Reset(time.Second) },
		} {
			pass(90 * time.Minute)
			change()
		}
		pass(2 * time.Hour)
		all := asked.All()
		require.Greater(t, len(all), 8)
		require.Equal(t, time.Local, all[0].Location())
		for i, prev := range all[1:] {
			require.Equal(t, zone, prev.Location(), "call %d: %v", i+2, all)
		}
	})
}

// A job that the machine slept through runs once, not once for each time that has passed, and not again before the next
// one. The machine goes to sleep some time before the run, which may be due at its tick or at a step.
func TestSleptThroughRunsOnce(t *testing.T) {
	for _, before := range []time.Duration{1, time.Second, 20 * time.Second, 40 * time.Second, time.Minute, 3 * time.Minute} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t)
			clock := onSetClock(timer)
			start := clock.now()
			var runs moments
			to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(clock.now()) }), scheduleFunc(hourly))
			require.NoError(t, err)
			pass(time.Hour - before)
			clock.set(9*time.Hour + 30*time.Minute)
			clock.until(start.Add(12*time.Hour + time.Minute))
			got := runs.Since(start)
			require.Len(t, got, 3, "%v", got)
			require.Less(t, got[0], 10*time.Hour+30*time.Minute-before+time.Minute)
			require.Equal(t, []time.Duration{11 * time.Hour, 12 * time.Hour}, got[1:])
			require.True(t, to.Cancel())
		})
	}
}

// The monotonic clock goes on, but nothing runs: the process was stopped, or the task waits for another one. The job runs
// once for all times that have passed before it starts, and once for those that pass while it runs.
func TestMissedRunsAreOne(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithMaxConcurrency(1))
		clock := onSetClock(timer)
		start := clock.now()
		var runs moments
		var length atomic.Int64
		_, err := timer.Schedule(TaskFunc(func(*Timeout) {
			runs.Add(clock.now())
			time.Sleep(time.Duration(length.Swap(0)))
		}), scheduleFunc(hourly))
		require.NoError(t, err)
		_, err = timer.AfterFunc(59*time.Minute, func() { time.Sleep(150 * time.Minute) }) // until 3:29
		require.NoError(t, err)
		pass(4*time.Hour + 30*time.Minute)
		require.Equal(t, []time.Duration{209 * time.Minute, 4 * time.Hour}, runs.Since(start))
		length.Store(int64(130 * time.Minute)) // from 5:00 until 7:10
		pass(4 * time.Hour)
		require.Equal(t, []time.Duration{5 * time.Hour, 430 * time.Minute, 8 * time.Hour}, runs.Since(start)[2:])
	})
}

// If the time of a run passes during the run before, it follows at once, but not before its tick boundary. Next then gets the
// boundary that has passed last. So no time has two runs, and no boundary.
func TestLateRunsOfAScheduleFollowAtOnce(t *testing.T) {
	const tick = defaultTick
	part := func(ticks float64) time.Duration { return time.Duration(math.Round(ticks * float64(tick))) }
	for name, c := range map[string]struct { // times are in ticks
		phase float64   // the schedule has a time at each multiple of ten, and this
		slow  []float64 // how long the first runs take
		want  []float64
		prevs []float64 // what Next gets after each run
	}{
		"at a boundary":                {0, []float64{15}, []float64{10, 25, 30, 40}, []float64{10, 25, 30, 40}},
		"as long as the interval":      {0, []float64{10, 10}, []float64{10, 20, 30, 40}, []float64{10, 20, 30, 40}},
		"between ticks":                {0, []float64{12.5}, []float64{10, 22.5, 30, 40}, []float64{10, 22, 30, 40}},
		"by many intervals":            {0, []float64{25}, []float64{10, 35, 40}, []float64{10, 35, 40}},
		"times between ticks":          {4.3, []float64{15}, []float64{5, 20, 25, 35}, []float64{4.3, 20, 24.3, 34.3}},
		"the boundary has yet to come": {4.3, []float64{9.5}, []float64{5, 15, 25, 35}, []float64{4.3, 15, 24.3, 34.3}},
		"the boundary has just passed": {4.3, []float64{10}, []float64{5, 15, 25, 35}, []float64{4.3, 15, 24.3, 34.3}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t)
				clock := onSetClock(timer)
				start := clock.now()
				since := func(at time.Time) float64 { return float64(at.Sub(start)) / float64(tick) }
				var ran, prevs []float64
				to, err := timer.Schedule(TaskFunc(func(*Timeout) {
					ran = append(ran, since(clock.now()))
					if n := len(ran); n <= len(c.slow) {
						time.Sleep(part(c.slow[n-1]))
					}
				}), scheduleFunc(func(prev time.Time) time.Time {
					if len(ran) > 0 {
						prevs = append(prevs, since(prev))
					}
					at := start.Add(part(c.phase))
					for !at.After(prev) {
						at = at.Add(10 * tick)
					}
					return at
				}))
				require.NoError(t, err)
				pass(40*tick + tick/2)
				require.Equal(t, c.want, ran)
				require.Equal(t, c.prevs, prevs)
				require.True(t, to.Cancel())
			})
		})
	}
}

// A correction sets the clock back by a second, just after a run. The run is not repeated, although a step comes before the
// clock shows its time again.
func TestCorrectionRepeatsNoRun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		clock := onSetClock(timer)
		step := timer.clock.Boundary(60*timer.wall.Step) - defaultTick // a tick before a step
		runs := 0
		_, err := timer.Schedule(TaskFunc(func(*Timeout) { runs++ }), dailyAt(step.Truncate(time.Second), time.UTC))
		require.NoError(t, err)
		clock.set(step.Truncate(time.Second) - step)
		pass(step)
		require.Equal(t, 1, runs)
		clock.set(-tolerance)
		pass(time.Hour)
		require.Equal(t, 1, runs)
	})
}

// A step leaves a timeout alone that has been canceled meanwhile.
func TestStepAfterCancel(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		onSetClock(timer)
		to, err := timer.Schedule(TaskFunc(func(*Timeout) {}), dailyAt(12*time.Hour, time.UTC))
		require.NoError(t, err)
		pass(time.Hour)
		word := to.word.Load()
		require.True(t, to.Cancel())
		synctest.Wait() // until the worker has removed it, which changes the word
		canceled := to.word.Load()
		require.True(t, to.putOff(word))
		require.Equal(t, canceled, to.word.Load())
	})
}

// A single time of the wall clock is a schedule with one time.
func TestSingleTime(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		clock := onSetClock(timer)
		var runs moments
		at := clock.now().Add(time.Hour)
		to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(clock.now()) }), scheduleFunc(func(prev time.Time) time.Time {
			if prev.Before(at) {
				return at
			}
			return time.Time{}
		}))
		require.NoError(t, err)
		clock.set(-24 * time.Hour)
		pass(24 * time.Hour)
		clock.set(9 * time.Hour)
		pass(time.Minute)
		require.Len(t, runs.All(), 1)
		require.True(t, to.IsExpired())
	})
}

// A schedule with more than one time in a tick is asked once for each run, if the runs are on time.
func TestDenseTimes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		onSetClock(timer)
		asked := 0
		to, ran := runsOf(t, timer, scheduleFunc(func(prev time.Time) time.Time {
			if asked++; asked > 10 {
				return time.Time{}
			}
			return prev.Add(defaultTick / 4)
		}), 10*defaultTick)
		require.Len(t, ran, 10)
		require.True(t, to.IsExpired())
	})
}

// A run follows the time of its location, however odd that is, also where the clocks there change. Each run is at exactly the
// time of the schedule. One of them is slept through, and runs once.
func TestScheduleAndDaylightSaving(t *testing.T) {
	left := sized(1, 8, 100)                      // zones, chosen by the order of a map
	for name, dates := range map[string][]string{ // two days before the clocks change
		"America/New_York":    {"2007-03-09", "2007-11-02"},
		"America/Havana":      {"2018-03-09", "2018-11-02"}, // at midnight
		"America/Sao_Paulo":   {"2018-11-02", "2018-02-15"}, // at midnight
		"America/St_Johns":    {"2010-03-12", "2010-11-05"}, // at a minute past midnight, and half an hour off
		"Europe/Dublin":       {"2020-03-27", "2020-10-23"}, // summer is the standard time
		"Africa/Casablanca":   {"2019-05-03", "2019-06-07"}, // for a month only
		"Asia/Kathmandu":      {"2020-01-01", "1985-12-30"}, // a quarter of an hour off
		"Asia/Pyongyang":      {"2015-08-13", "2018-05-03"}, // changed by half an hour
		"Australia/Lord_Howe": {"2008-04-04", "2008-10-03"}, // changes by half an hour
		"Pacific/Chatham":     {"2020-04-03", "2020-09-25"}, // three quarters of an hour off, at 3:45
		"Pacific/Apia":        {"2011-12-28", "2012-03-30"}, // without the 30th of December
		"Antarctica/Troll":    {"2020-03-27", "2020-10-23"}, // by two hours
	} {
		if left--; left < 0 {
			break
		}
		t.Log(name)
		loc, err := time.LoadLocation(name)
		require.NoError(t, err)
		for _, date := range dates {
			first, err := time.ParseInLocation(time.DateOnly, date, loc)
			require.NoError(t, err)
			for _, at := range []time.Duration{0, 150 * time.Minute, 12 * time.Hour} {
				synctest.Test(t, func(t *testing.T) {
					timer := newTimer(t)
					clock := onSetClock(timer)
					clock.set(first.Sub(clock.now()))
					var runs moments
					schedule := dailyAt(at, loc)
					_, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(clock.now()) }), schedule)
					require.NoError(t, err)
					pass(3 * 24 * time.Hour)
					asleep := clock.now()
					clock.set(25 * time.Hour)
					awake := clock.now()
					pass(48 * time.Hour)
					want := schedule.Next(first)
					for _, at := range runs.All() {
						late := at.Sub(want)
						if want.After(asleep) && want.Before(awake) {
							require.Less(t, at.Sub(awake), time.Minute, "%s: %v", name, want)
							want, asleep = at, awake
						} else {
							require.True(t, 0 <= late && late < defaultTick, "%s: %v is late by %v", name, want, late)
						}
						want = schedule.Next(want)
					}
					require.True(t, want.After(clock.now()), "%s: %v", name, want)
					require.Equal(t, asleep, awake, "%s: no run was slept through", name)
				})
			}
		}
	}
}

// Fixed intervals count in monotonic time.
func TestFixedIntervalsDoNotFollowTheWallClock(t *testing.T) {
	for name, arm := range map[string]func(timer *Timer, task Task) (*Timeout, error){
		"rate": func(timer *Timer, task Task) (*Timeout, error) {
			return timer.ScheduleAtFixedRate(task, time.Hour, time.Hour)
		},
		"delay": func(timer *Timer, task Task) (*Timeout, error) {
			return timer.ScheduleWithFixedDelay(task, time.Hour, time.Hour)
		},
		"every": func(timer *Timer, task Task) (*Timeout, error) { return timer.Schedule(task, Every(time.Hour)) },
		"jitter": func(timer *Timer, task Task) (*Timeout, error) {
			return timer.Schedule(task, Jitter(Every(time.Hour), 0))
		},
		"group": func(timer *Timer, task Task) (*Timeout, error) {
			return NewGroup(timer).Schedule(task, Every(time.Hour))
		},
		"once": func(timer *Timer, task Task) (*Timeout, error) { return timer.NewTimeout(task, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t)
				clock := onSetClock(timer)
				start := time.Now()
				var runs moments
				_, err := arm(timer, TaskFunc(func(*Timeout) { runs.Note() }))
				require.NoError(t, err)
				for range 100 {
					clock.set(time.Duration(rand.Int64N(int64(4*time.Hour))) - 2*time.Hour)
					pass(time.Minute)
				}
				require.Equal(t, time.Hour, runs.Since(start)[0])
				require.Len(t, runs.All(), 1)
			})
		})
	}
}

// A pause counts in monotonic time, although the clock is set. A time that a schedule counts from prev does not: prev has
// no monotonic reading, not even in the first call.
func TestPauseDoesNotFollowTheWallClock(t *testing.T) { // on real time: in a bubble no time has a monotonic reading
	timer := newTimer(t, WithTick(time.Millisecond))
	clock := onSetClock(timer)
	timer.wall.Step = 1 // so that a run follows the clock at once
	runs := make(chan struct{}, 10)
	to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs <- struct{}{} }), scheduleFunc(func(prev time.Time) time.Time {
		assert.False(t, hasMonotonic(prev))
		return time.Now().Add(20 * time.Millisecond)
	}))
	require.NoError(t, err)
	for range 3 {
		clock.set(-time.Hour)
		<-runs
	}
	require.True(t, to.Cancel())
	require.NoError(t, to.WaitRunning(t.Context()))

	n := 0
	to, err = timer.Schedule(TaskFunc(func(*Timeout) { runs <- struct{}{} }), scheduleFunc(func(prev time.Time) time.Time {
		assert.False(t, hasMonotonic(prev))
		if n++; n > 1 {
			return time.Time{}
		}
		return prev.Add(time.Hour)
	}))
	require.NoError(t, err)
	for len(runs) > 0 {
		<-runs
	}
	clock.set(time.Hour)
	<-runs
	require.NoError(t, to.WaitRunning(t.Context()))
}

// Jitter of a pause is a part of the pause, although the wall clock was set since the last run was due.
func TestJitterOfAPause(t *testing.T) { // on real time: in a bubble no time has a monotonic reading
	const pause = 50 * time.Millisecond
	s := Jitter(Jitter(scheduleFunc(func(time.Time) time.Time { return time.Now().Add(pause) }), 1), 1)
	for _, set := range []time.Duration{-8 * time.Hour, 0, 8 * time.Hour} {
		most := time.Duration(0)
		for range 1000 {
			before := time.Now()
			next := s.Next(before.Round(0).Add(-set))
			require.True(t, hasMonotonic(next))
			took := time.Since(before)
			require.GreaterOrEqual(t, next.Sub(before), pause)
			require.LessOrEqual(t, next.Sub(before), 4*pause+3*took)
			most = max(most, next.Sub(before))
		}
		require.Greater(t, most, 2*pause)
	}
}

// A Reset asks for a delay. So the run after it does not follow the wall clock, and those after that do again. This is
// so also if the Reset is to the tick of a step.
func TestResetDoesNotFollowTheWallClock(t *testing.T) {
	for _, sameTick := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t)
			clock := onSetClock(timer)
			midnight := clock.now()
			var runs moments
			to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(clock.now()) }), dailyAt(12*time.Hour, time.UTC))
			require.NoError(t, err)
			delay := 30 * time.Minute
			if sameTick {
				clock.set(time.Hour)
				pass(2 * time.Minute)
				require.Equal(t, midnight.Add(11*time.Hour), to.Deadline())
				delay = timer.clock.Boundary(tickOf(to.word.Load())) - timer.clock.Elapsed()
				require.Less(t, delay, time.Minute)
			}
			active, err := to.Reset(delay)
			require.True(t, active)
			require.NoError(t, err)
			at := time.Now().Add(delay)
			clock.set(2 * time.Hour)
			require.Equal(t, at, to.Deadline())
			pass(delay - time.Millisecond)
			require.Empty(t, runs.All())
			require.Equal(t, at, to.Deadline())
			pass(time.Millisecond)
			require.Len(t, runs.All(), 1)
			clock.set(-time.Hour)
			pass(40 * time.Hour)
			next := runs.Since(midnight)[1] % (24 * time.Hour)
			require.Equal(t, 12*time.Hour, next)
			require.True(t, to.Cancel())
			_, err = to.Reset(time.Hour)
			require.NoError(t, err)
			n := len(runs.All())
			clock.set(-10 * time.Hour)
			pass(time.Hour)
			require.Len(t, runs.All(), n+1)
			require.True(t, to.Cancel())
		})
	}
}

// A run that has come due waits for its turn, and meanwhile the clock is set back, but not to before the last run. It does not
// run before its time, and Next is not asked again.
func TestClockIsSetBackWhileARunWaits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithMaxConcurrency(1))
		clock := onSetClock(timer)
		midnight := clock.now()
		var runs moments
		inAnHour := scheduleFunc(func(prev time.Time) time.Time { return prev.Add(time.Hour) })
		_, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(clock.now()) }), inAnHour)
		require.NoError(t, err)
		_, err = timer.AfterFunc(time.Hour-time.Second, func() { time.Sleep(10 * time.Minute) })
		require.NoError(t, err)
		pass(time.Hour + 5*time.Minute)
		clock.set(-30 * time.Minute)
		pass(30*time.Minute - 5*time.Minute - 1)
		require.Empty(t, runs.All())
		pass(defaultTick + 1)
		require.Equal(t, []time.Duration{time.Hour}, runs.Since(midnight))
	})
}

// Timeouts of a group, with jitter and of a Canceler follow the wall clock too.
func TestAllSchedulesFollowTheWallClock(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		clock := onSetClock(timer)
		midnight := clock.now()
		g := NewGroup(timer)
		var plain, jittered moments
		_, err := g.Schedule(TaskFunc(func(*Timeout) { plain.Add(clock.now()) }), dailyAt(10*time.Hour, time.UTC))
		require.NoError(t, err)
		_, err = g.Schedule(TaskFunc(func(*Timeout) { jittered.Add(clock.now()) }), Jitter(dailyAt(10*time.Hour, time.UTC), 0.5))
		require.NoError(t, err)
		c := new(CancelCounter)
		_, err = g.Schedule(c, dailyAt(10*time.Hour, time.UTC))
		require.NoError(t, err)
		clock.set(9 * time.Hour)
		pass(2 * time.Hour)
		require.Equal(t, 10*time.Hour, plain.Since(midnight)[0])
		clock.set(5 * time.Hour)
		pass(2 * time.Minute)
		require.GreaterOrEqual(t, jittered.Since(midnight)[0], 10*time.Hour)
		require.Len(t, jittered.All(), 1)
		require.Len(t, plain.All(), 1)
		require.Equal(t, 3, g.Close())
		pass(time.Minute)
		require.EqualValues(t, 1, c.Told.Load())
	})
}

// The steps of a minute count nowhere, and need no runner, no executor and no slot of WithMaxConcurrency: here a task hangs. A
// timer wakes up once for all of them. Deadline and Tasks tell the run, not the step.
func TestWallStepsCountNowhere(t *testing.T) {
	for name, newOptions := range map[string]func(submits *atomic.Int64) []Option{
		"runners": func(*atomic.Int64) []Option { return nil },
		"limit":   func(*atomic.Int64) []Option { return []Option{WithMaxConcurrency(1)} },
		"executor": func(submits *atomic.Int64) []Option {
			return []Option{WithExecutor(func(run func()) error { submits.Add(1); go run(); return nil }), WithMaxConcurrency(1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				var submits atomic.Int64
				option, log := logged()
				timer := newTimer(t, append(newOptions(&submits), option)...)
				clock := onSetClock(timer)
				midnight := clock.now()
				release := make(chan struct{})
				_, err := timer.AfterFunc(0, func() { <-release })
				require.NoError(t, err)
				g := NewGroup(timer)
				var runs atomic.Int64
				const n = 100
				for i := range n - 1 {
					_, err = g.Schedule(TaskFunc(func(*Timeout) { runs.Add(1) }), dailyAt(12*time.Hour, time.UTC))
					require.NoError(t, err)
					pass(time.Duration(i) * 11 * time.Millisecond)
				}
				// The last one has a step at the next boundary, where the worker takes it off the queue.
				step := timer.clock.Boundary(timer.wall.Due(timer.clock.Elapsed(), time.Hour))
				pass(step - timer.clock.Elapsed() - defaultTick/2)
				other, err := timer.AfterFunc(time.Second, nop)
				require.NoError(t, err)
				synctest.Wait()
				require.True(t, other.Cancel())
				_, err = g.Schedule(TaskFunc(func(*Timeout) { runs.Add(1) }), dailyAt(12*time.Hour, time.UTC))
				require.NoError(t, err)
				pass(time.Minute)
				before, submitted := timer.Stats(), submits.Load()
				require.LessOrEqual(t, submitted, int64(1), "the task that hangs")
				pass(time.Hour)
				after := timer.Stats()
				require.InDelta(t, time.Hour/(59*time.Second), after.Wakeups-before.Wakeups, 1, "all have the same steps")
				before.Wakeups, before.Levels = after.Wakeups, after.Levels
				require.Equal(t, before, after)
				require.Zero(t, after.Due)
				require.Equal(t, submitted, submits.Load())
				require.Empty(t, log.String())
				deadlines := 0
				for _, due := range timer.Tasks() {
					require.Equal(t, midnight.Add(12*time.Hour), due)
					deadlines++
				}
				require.Equal(t, n, deadlines)
				require.Zero(t, runs.Load())
				close(release)
				clock.until(midnight.Add(12*time.Hour + defaultTick))
				require.EqualValues(t, n, runs.Load())
				require.Equal(t, n, g.Close())
			})
		})
	}
}

// The deadline of a run by the wall clock is the boundary at which it will run, also when the clock was just set, and after a
// Cancel. While it runs, and after a Reset, it is the boundary of the word.
func TestDeadlineOfARun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		clock := onSetClock(timer)
		during := make(chan time.Time, 1)
		to, err := timer.Schedule(TaskFunc(func(to *Timeout) { during <- to.Deadline() }), dailyAt(12*time.Hour, time.UTC))
		require.NoError(t, err)
		noon := time.Now().Add(12 * time.Hour)
		told := func(want time.Time) {
			t.Helper()
			require.Equal(t, want, to.Deadline())
			for _, due := range timer.Tasks() {
				require.Equal(t, want, due)
			}
		}
		told(noon)
		pass(2 * time.Hour)
		told(noon)
		require.Contains(t, to.String(), "in 10h0m")
		clock.set(time.Hour + time.Millisecond)
		told(noon.Add(-time.Hour))
		clock.set(-time.Hour)
		told(noon)
		pass(10 * time.Hour)
		require.Equal(t, noon, <-during)
		told(noon.Add(24 * time.Hour))
		require.True(t, to.Cancel())
		require.Equal(t, noon.Add(24*time.Hour), to.Deadline())
		_, err = to.Reset(time.Hour)
		require.NoError(t, err)
		told(noon.Add(time.Hour))
		pass(time.Hour)
		require.Equal(t, noon.Add(time.Hour), <-during)
	})
}

// When the clock was set back, Next is asked again, on a runner. It may do all that it may do after a run. No task runs.
func TestNextIsAskedAgain(t *testing.T) {
	inAnHour := func(_ *Timeout, prev time.Time) time.Time { return prev.Add(time.Hour) }
	for name, c := range map[string]struct {
		next func(to *Timeout, prev time.Time) time.Time
		want Stats // there was a run before
		runs int
		end  func(to *Timeout) bool
	}{
		"a time": {inAnHour, Stats{Accepted: 2, Expired: 1, Pending: 1}, 1, (*Timeout).Cancel},
		"no time": {func(*Timeout, time.Time) time.Time { return time.Time{} },
			Stats{Accepted: 2, Expired: 2}, 1, (*Timeout).IsExpired},
		"panic": {func(*Timeout, time.Time) time.Time { panic("no more") },
			Stats{Accepted: 2, Expired: 2, Panics: 1}, 1, (*Timeout).IsExpired},
		"exit": {func(*Timeout, time.Time) time.Time { runtime.Goexit(); return time.Time{} },
			Stats{Accepted: 2, Expired: 2}, 1, (*Timeout).IsExpired},
		"Cancel": {func(to *Timeout, prev time.Time) time.Time {
			assert.True(t, to.Cancel())
			return inAnHour(to, prev)
		}, Stats{Accepted: 2, Expired: 1, Canceled: 1}, 1, (*Timeout).IsCanceled},
		"Stop": {func(to *Timeout, prev time.Time) time.Time {
			assert.Len(t, to.Timer().Stop(), 1)
			return inAnHour(to, prev)
		}, Stats{Accepted: 2, Expired: 1, Returned: 1}, 1, (*Timeout).Cancel},
		"Reset": {func(to *Timeout, prev time.Time) time.Time {
			active, err := to.Reset(2 * time.Hour)
			assert.True(t, active)
			assert.NoError(t, err)
			return inAnHour(to, prev)
		}, Stats{Accepted: 2, Expired: 1, Pending: 1}, 1, func(to *Timeout) bool { return time.Until(to.Deadline()) > 100*time.Minute }},
		"Cancel, Reset": {func(to *Timeout, prev time.Time) time.Time {
			assert.True(t, to.Cancel())
			_, err := to.Reset(2 * time.Hour)
			assert.NoError(t, err)
			return inAnHour(to, prev)
		}, Stats{Accepted: 3, Expired: 1, Canceled: 1, Pending: 1}, 1, (*Timeout).Cancel},
		"Reset, exit": {func(to *Timeout, _ time.Time) time.Time { // it is due again when the runner ends
			_, err := to.Reset(0)
			assert.NoError(t, err)
			time.Sleep(time.Second)
			runtime.Goexit()
			return time.Time{}
		}, Stats{Accepted: 3, Expired: 2, Pending: 1}, 2, (*Timeout).Cancel},
	} {
		for kind, opts := range executors() {
			t.Run(name+"/"+kind, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, append(opts, WithPanicHandler(func(*Timeout, any, []byte) {}))...)
					clock := onSetClock(timer)
					var asked, runs moments
					var handle atomic.Pointer[Timeout]
					to, err := NewGroup(timer).Schedule(TaskFunc(func(to *Timeout) {
						handle.Store(to)
						runs.Note()
					}), scheduleFunc(func(prev time.Time) time.Time {
						if asked.Add(prev) == 3 {
							assert.WithinRange(t, prev, clock.now().Add(-time.Minute), clock.now())
							return c.next(handle.Load(), prev)
						}
						return prev.Add(time.Hour)
					}))
					require.NoError(t, err)
					pass(90 * time.Minute)
					require.Len(t, asked.All(), 2)
					clock.set(-25 * time.Hour)
					pass(time.Minute + 2*time.Second)
					require.Equal(t, c.want, outcomes(timer))
					require.Len(t, runs.All(), c.runs)
					require.True(t, c.end(to))
				})
			})
		}
	}
}

// In a bubble nothing sets the clock, so there are no steps. Otherwise a test that waits for years would take long.
func TestNoWallStepsInABubble(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		start := time.Now()
		yearly := scheduleFunc(func(prev time.Time) time.Time { return prev.AddDate(1, 0, 0) })
		_, ran := runsOf(t, timer, yearly, 100*366*24*time.Hour)
		require.Len(t, ran, 100)
		require.Equal(t, start.AddDate(100, 0, 0).Sub(start), ran[99])
		require.LessOrEqual(t, timer.Stats().Wakeups, uint64(1000))
	})
}

// Outside of bubbles there are steps, and a run is due by the present time of package time.
func TestWallStepsOutsideOfBubbles(t *testing.T) {
	timer := newTimer(t)
	to, err := timer.Schedule(TaskFunc(func(*Timeout) {}), dailyAt(0, time.UTC))
	require.NoError(t, err)
	require.LessOrEqual(t, tickOf(to.word.Load()), timer.wall.Step)
	due := to.Deadline().Round(0)
	midnight := due.UTC().Truncate(24 * time.Hour)
	require.Less(t, due.Sub(midnight), defaultTick+time.Second)
}

// Schedules with random times, on a clock that is set at random: no run is early, and none is late by more than a minute
// and a tick. None waits for a time that comes only after the next one, and none runs twice.
func TestWallClockModel(t *testing.T) {
	r := newRand(t)
	for range newShare(t).Rounds(sized(2, 5, 5), 100) {
		seed := r.Uint64()
		levels := 1 + int(seed%3)
		synctest.Test(t, func(t *testing.T) { wallModel(t, rand.New(rand.NewPCG(seed, 0)), levels) })
	}
}

// A modelRun is what wallModel knows of a schedule.
type modelRun struct {
	every   time.Duration // the schedule has a run at each multiple of it
	due     time.Time     // by the wall clock
	armed   time.Time     // when due was returned, by the time of the bubble
	started time.Time     // the last run, by the wall clock; zero after the clock was set back
}

func (m *modelRun) next(prev time.Time) time.Time { return prev.Truncate(m.every).Add(m.every) }

func wallModel(t *testing.T, r *rand.Rand, levels int) {
	tick := []time.Duration{time.Millisecond, 70 * time.Millisecond, time.Second, 5 * time.Second}[r.IntN(4)]
	timer := newTimer(t, WithTick(tick), WithLevels(levels), WithWheelSize(8))
	clock := onSetClock(timer)
	type change struct{ at, from time.Time } // by the time of the bubble, and the wall clock from then on
	var mu sync.Mutex
	changes := []change{{time.Now(), clock.now()}}
	// ready returns since when the wall clock has been at or after due.
	ready := func(due time.Time) time.Time {
		for _, c := range slices.Backward(changes) {
			switch reached := c.at.Add(due.Sub(c.from)); {
			case reached.After(c.at):
				return reached
			case c == changes[0]:
				return c.at
			}
		}
		return time.Time{}
	}
	all := make([]modelRun, 30)
	runs := 0
	for i := range all {
		m := &all[i]
		m.every = 2*tick + 2*tolerance + time.Duration(r.Int64N(int64(time.Hour))>>r.IntN(8))
		_, err := timer.Schedule(TaskFunc(func(*Timeout) {
			mu.Lock()
			defer mu.Unlock()
			runs++
			assert.False(t, clock.now().Before(m.due), "early")
			since := ready(m.due)
			if since.Before(m.armed) {
				since = m.armed
			}
			assert.LessOrEqual(t, time.Since(since), time.Minute+tick, "late")
			assert.True(t, m.due.After(m.started), "twice: it was due at %v, and the last run was at %v", m.due, m.started)
			m.started = clock.now()
		}), scheduleFunc(func(prev time.Time) time.Time {
			mu.Lock()
			defer mu.Unlock()
			m.armed, m.due = time.Now(), m.next(prev)
			return m.due
		}))
		require.NoError(t, err)
	}
	for range 50 {
		pass(time.Duration(r.Int64N(int64(10 * time.Minute))))
		by := time.Duration(r.Int64N(int64(time.Hour)) >> r.IntN(40))
		if r.IntN(2) == 0 {
			by = -by
		}
		mu.Lock()
		if since := time.Since(changes[len(changes)-1].at); since > time.Minute+tick {
			for i := range all {
				m, now := &all[i], clock.now()
				assert.False(t, m.due.After(m.next(now)), "stands still: it is %v, and the run of each %v is due at %v", now, m.every, m.due)
			}
		}
		clock.set(by)
		changes = append(changes, change{time.Now(), clock.now()})
		if by < 0 {
			for i := range all {
				all[i].started = time.Time{}
			}
		}
		mu.Unlock()
	}
	require.Positive(t, runs)
	require.Equal(t, len(all), timer.Pending())
	checkStats(t, timer)
}

// Steps race with Cancel, Reset, runs, Close and Stop, while the clock is set. Each timeout ends once, none starts after its
// Cancel, and Stop returns all others.
func TestWallClockRace(t *testing.T) { // on real time
	for end, round := time.Now().Add(stressTime(t)), 0; time.Now().Before(end); round++ {
		timer := newTimer(t, WithTick(50*time.Microsecond), WithLevels(1+round%3), WithWheelSize(8))
		clock := onSetClock(timer)
		timer.wall.Step = uint64(1 + round%4)
		const n = 100
		var canceled [n]atomic.Bool
		var runs atomic.Int64
		all := make([]*Timeout, n)
		g, closed := NewGroup(timer), NewGroup(timer)
		for i := range all {
			every := time.Duration(1+i) * 100 * time.Microsecond
			s := scheduleFunc(func(prev time.Time) time.Time { return prev.Truncate(every).Add(every) })
			arm := timer.Schedule
			switch i % 5 {
			case 0:
				arm = g.Schedule
			case 4:
				arm = closed.Schedule
			}
			var err error
			all[i], err = arm(TaskFunc(func(*Timeout) {
				runs.Add(1)
				assert.False(t, canceled[i].Load(), "runs after its Cancel")
			}), s)
			require.NoError(t, err)
		}
		var users sync.WaitGroup
		var quit atomic.Bool
		users.Go(func() {
			for !quit.Load() {
				clock.set(time.Duration(rand.Int64N(int64(4*time.Millisecond))) - 2*time.Millisecond)
				runtime.Gosched()
			}
		})
		users.Go(func() {
			for !quit.Load() {
				for range timer.Tasks() {
				}
				runtime.Gosched()
			}
		})
		ended := 0
		for i, to := range all {
			switch i % 5 {
			case 0, 1:
				if to.Cancel() {
					require.NoError(t, to.WaitRunning(t.Context()))
					canceled[i].Store(true)
					ended++
				}
			case 2:
				_, err := to.Reset(time.Duration(rand.Int64N(int64(time.Millisecond))))
				require.NoError(t, err)
			}
		}
		ended += closed.Close()
		require.NoError(t, closed.WaitRunning(t.Context()))
		for i := 4; i < n; i += 5 {
			canceled[i].Store(true)
		}
		time.Sleep(time.Millisecond)
		left, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		quit.Store(true)
		users.Wait()
		require.Equal(t, 3*n/5, ended)
		require.Len(t, left, n-ended)
		st := timer.Stats()
		require.EqualValues(t, runs.Load(), st.Expired)
		testkit.CheckCounts(t, st)
	}
	goleak.VerifyNone(t, goleak.IgnoreAnyFunction("runtime.handleEvent"))
}
