package hashedwheel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/internal/wall"
)

// A setClock is a wall clock that a test sets. When the machine sleeps, monotonic time stands still, so the wall clock is
// ahead by as much after that.
type setClock struct {
	by    atomic.Int64
	reads atomic.Int64
}

func (c *setClock) set(d time.Duration) { c.by.Add(int64(d)) }
func (c *setClock) now() time.Time      { return time.Now().Round(0).Add(time.Duration(c.by.Load())) }

// onSetClock makes a timer, which arms nothing yet, use a clock that the test sets.
func onSetClock(timer *Timer) *setClock {
	c := new(setClock)
	timer.wallClock().Ahead = func() time.Duration {
		c.reads.Add(1)
		return time.Duration(c.by.Load())
	}
	return c
}

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
// early, and once a day.
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
		"nothing":                   {nil, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"slept through it":          {[]change{{1 * h, 8 * h}}, []run{{9 * h, m}, {day + 3*h, 0}}},
		"slept through three":       {[]change{{1 * h, 3 * day}}, []run{{3*day + h, m}, {3*day + 3*h, 0}}},
		"slept until just before":   {[]change{{1 * h, 2*h - 10*s}}, []run{{3 * h, m}, {day + 3*h, 0}}},
		"slept, and a while to go":  {[]change{{1 * h, 1 * h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"slept, and slept":          {[]change{{1 * h, 1 * h}, {30 * m, 2 * h}}, []run{{4*h + 30*m, m}, {day + 3*h, 0}}},
		"set forward over the run":  {[]change{{2*h + 59*m, 5 * m}}, []run{{3*h + 4*m, m}, {day + 3*h, 0}}},
		"set forward at the end":    {[]change{{3*h - s, 30 * s}}, []run{{3*h + 29*s, m}, {day + 3*h, 0}}},
		"set back":                  {[]change{{2 * h, -h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back at the end":       {[]change{{3*h - s, -h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back a bit at the end": {[]change{{3*h - s, -150 * ms}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back by less":          {[]change{{h, -50 * ms}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back after the run":    {[]change{{3*h + s, -h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set back by days":          {[]change{{h, -3 * day}}, []run{{3 * h, 0}}},
		"set back, and forward":     {[]change{{h, -h}, {30 * m, h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set forward, and back":     {[]change{{h, h}, {30 * m, -h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"set for a moment":          {[]change{{h + 30*s, 3 * h}, {s, -3 * h}}, []run{{3 * h, 0}, {day + 3*h, 0}}},
		"slews forward":             {slices.Repeat([]change{{m, 30 * ms}}, 200), []run{{3 * h, tick}, {day + 3*h, 0}}},
		"slews back":                {slices.Repeat([]change{{m, -30 * ms}}, 200), []run{{3 * h, tick}, {day + 3*h, 0}}},
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
				require.EqualValues(t, len(c.want)+1, timer.Stats().Accepted, "a look counts nowhere")
				require.True(t, to.Cancel())
				checkStats(t, timer)
			})
		})
	}
}

// A run that the machine slept through takes place once, not once for each time that has passed.
func TestManyRunsSleptThrough(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		clock := onSetClock(timer)
		start := clock.now()
		var runs moments
		hourly := scheduleFunc(func(prev time.Time) time.Time { return prev.Truncate(time.Hour).Add(time.Hour) })
		to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(clock.now()) }), hourly)
		require.NoError(t, err)
		pass(30 * time.Minute)
		clock.set(9 * time.Hour)
		pass(35 * time.Minute)
		got := runs.Since(start)
		require.Len(t, got, 2)
		require.Less(t, got[0], 9*time.Hour+31*time.Minute)
		require.Equal(t, 10*time.Hour, got[1])
		require.True(t, to.Cancel())
	})
}

// A schedule with a location follows the time there when the clocks change. The days have 23 and 25 hours.
func TestScheduleAndDaylightSaving(t *testing.T) {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Skip(err)
	}
	for _, first := range []time.Time{
		time.Date(2000, time.April, 1, 0, 0, 0, 0, loc), time.Date(2000, time.October, 28, 0, 0, 0, 0, loc),
	} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t)
			clock := onSetClock(timer)
			clock.set(first.Sub(clock.now()))
			var runs moments
			to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(clock.now()) }), dailyAt(12*time.Hour, loc))
			require.NoError(t, err)
			pass(3*24*time.Hour - 7*time.Hour)
			clock.set(5 * time.Hour)
			pass(time.Hour + time.Minute) // beyond the third day
			for i, at := range runs.All() {
				at = at.In(loc)
				late := at.Sub(time.Date(at.Year(), at.Month(), at.Day(), 12, 0, 0, 0, loc))
				require.True(t, late >= 0 && late < defaultTick, "run %d is late by %v", i, late)
			}
			require.Len(t, runs.All(), 3)
			require.True(t, to.Cancel())
		})
	}
}

// Fixed intervals count in monotonic time.
func TestFixedIntervalsDoNotFollowTheWallClock(t *testing.T) {
	task := TaskFunc(func(*Timeout) {})
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
				_, err := timer.Schedule(task, dailyAt(0, time.UTC)) // so that the timer looks
				require.NoError(t, err)
				start := time.Now()
				var runs moments
				_, err = arm(timer, TaskFunc(func(*Timeout) { runs.Note() }))
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
	runs := make(chan struct{}, 10)
	to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs <- struct{}{} }), scheduleFunc(func(prev time.Time) time.Time {
		assert.False(t, hasMonotonic(prev))
		return time.Now().Add(20 * time.Millisecond)
	}))
	require.NoError(t, err)
	for range 3 {
		clock.set(-time.Hour)
		timer.look()
		<-runs
	}
	require.True(t, to.Cancel())
	require.NoError(t, to.Wait(t.Context()))

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
	timer.look()
	<-runs
	require.NoError(t, to.Wait(t.Context()))
}

// A Reset asks for a delay. So the run after it does not follow the wall clock, and those after that do again. This is
// so also if the Reset is to the tick for which a look has just planned the run.
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
				delay = time.Until(to.Deadline())
			}
			active, err := to.Reset(delay)
			require.True(t, active)
			require.NoError(t, err)
			at := time.Now().Add(delay)
			clock.set(2 * time.Hour)
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

// A run that has come due waits for its turn, and meanwhile the clock is set back. It does not run before its time.
func TestClockIsSetBackWhileARunWaits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithMaxConcurrency(1))
		clock := onSetClock(timer)
		midnight := clock.now()
		var runs moments
		_, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Add(clock.now()) }), dailyAt(time.Hour, time.UTC))
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
		reads := clock.reads.Load()
		pass(time.Hour)
		require.Equal(t, reads, clock.reads.Load(), "the look ends with the last schedule")
	})
}

// A timer looks at the wall clock while it has a schedule that follows it, once a minute, and at no other time.
func TestLookEndsWithTheLastSchedule(t *testing.T) {
	ends := map[string]func(t *testing.T, timer *Timer, to *Timeout){
		"Cancel":   func(t *testing.T, _ *Timer, to *Timeout) { require.True(t, to.Cancel()) },
		"Stop":     func(t *testing.T, timer *Timer, _ *Timeout) { require.Len(t, timer.Stop(), 2) },
		"Shutdown": func(t *testing.T, timer *Timer, _ *Timeout) { timer.Shutdown(context.Background()) },
		"its end":  func(*testing.T, *Timer, *Timeout) { pass(24 * time.Hour) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t)
				clock := onSetClock(timer)
				looks := func(d time.Duration) int64 {
					before := clock.reads.Load()
					pass(d)
					return clock.reads.Load() - before
				}
				_, err := timer.Schedule(TaskFunc(func(*Timeout) {}), Every(100*24*time.Hour))
				require.NoError(t, err)
				require.Zero(t, looks(time.Hour), "a fixed interval needs no look")
				n := 0
				to, err := timer.Schedule(TaskFunc(func(*Timeout) {}), scheduleFunc(func(prev time.Time) time.Time {
					if n++; n == 1 {
						return prev.Add(12 * time.Hour)
					}
					return time.Time{}
				}))
				require.NoError(t, err)
				wakeups := timer.Stats().Wakeups
				require.EqualValues(t, time.Hour/wall.LookEvery, looks(time.Hour))
				require.LessOrEqual(t, timer.Stats().Wakeups-wakeups, uint64(5), "a look wakes no worker")
				end(t, timer, to)
				require.Zero(t, looks(time.Hour))
				require.False(t, timer.wallClock().Looks())
			})
		})
	}
}

// A timeout is canceled when its schedule is about to return the next time. That run is planned, and then dropped.
func TestLookEndsIfCanceledInNext(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		onSetClock(timer)
		var handle atomic.Pointer[Timeout]
		to, err := timer.Schedule(TaskFunc(func(*Timeout) {}), scheduleFunc(func(prev time.Time) time.Time {
			if to := handle.Load(); to != nil {
				assert.True(t, to.Cancel())
			}
			return prev.Add(time.Hour)
		}))
		require.NoError(t, err)
		handle.Store(to)
		pass(time.Hour)
		require.True(t, to.IsCanceled())
		require.False(t, timer.wallClock().Looks())
	})
}

// A look takes a timeout out of its bucket, or leaves it alone where it is due.
func TestTakeOut(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	hold(t, timer)
	w := &timer.worker
	w.round() // makes the wheel
	to := &Timeout{timer: timer}
	word := pendingAt(0, 14)
	to.word.Store(word)
	w.wheel.place(to, 14)
	require.False(t, to.takeOut(pendingAt(0, 13), pendingAt(queued, 5)), "its word has changed")
	require.Equal(t, 1, w.wheel.count)
	require.True(t, to.takeOut(word, pendingAt(queued, 5)))
	require.Zero(t, w.wheel.count)
	require.Zero(t, to.bucket)
	require.Equal(t, pendingAt(queued, 5), to.word.Load())

	to.word.Store(word)
	for _, to.bucket = range []uint32{0, listed} {
		require.False(t, to.takeOut(word, pendingAt(queued, 5)), "it is due, or with its runner")
		require.Equal(t, word, to.word.Load())
	}
	to.bucket = 0
	word = pendingAt(young, 14)
	to.word.Store(word)
	require.True(t, to.takeOut(word, pendingAt(queued, 5)), "it is in a nursery")
}

// In a bubble nothing sets the clock, so a timer does not look. Otherwise a test that waits for years would take long.
func TestNoLookInABubble(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		start := time.Now()
		yearly := scheduleFunc(func(prev time.Time) time.Time { return prev.AddDate(1, 0, 0) })
		_, ran := runsOf(t, timer, yearly, 100*366*24*time.Hour)
		require.Len(t, ran, 100)
		require.Equal(t, start.AddDate(100, 0, 0).Sub(start), ran[99])
		require.Nil(t, timer.wall.Load())
	})
}

// Schedules with random times, on a clock that is set at random: no run is early, and none is late by more than a minute
// and a tick.
func TestWallClockModel(t *testing.T) {
	r := newRand(t)
	for range newShare(t).Rounds(5, 100) {
		seed := r.Uint64()
		levels := 1 + int(seed%3)
		synctest.Test(t, func(t *testing.T) { wallModel(t, rand.New(rand.NewPCG(seed, 0)), levels) })
	}
}

func wallModel(t *testing.T, r *rand.Rand, levels int) {
	tick := []time.Duration{time.Millisecond, 70 * time.Millisecond, time.Second}[r.IntN(3)]
	timer := newTimer(t, WithTick(tick), WithLevels(levels), WithWheelSize(8))
	clock := onSetClock(timer)
	type change struct{ at, from time.Time } // by the time of the bubble, and the wall clock from then on
	var mu sync.Mutex
	changes := []change{{time.Now(), clock.now()}}
	// ready returns since when the wall clock has been at or after due.
	ready := func(due time.Time) time.Time {
		mu.Lock()
		defer mu.Unlock()
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
	runs := 0
	for range 30 {
		var due, armed time.Time
		every := time.Duration(1 + r.Int64N(int64(time.Hour)))
		_, err := timer.Schedule(TaskFunc(func(*Timeout) {
			mu.Lock()
			runs++
			mu.Unlock()
			assert.False(t, clock.now().Before(due), "early")
			since := ready(due)
			if since.Before(armed) {
				since = armed
			}
			assert.LessOrEqual(t, time.Since(since), time.Minute+tick, "late")
		}), scheduleFunc(func(prev time.Time) time.Time {
			armed, due = time.Now(), prev.Add(every)
			if now := clock.now(); due.Before(now) {
				due = now
			}
			return due
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
		clock.set(by)
		changes = append(changes, change{time.Now(), clock.now()})
		mu.Unlock()
	}
	require.Positive(t, runs)
	require.Equal(t, 30, timer.Pending())
	checkStats(t, timer)
}

// Looks race with Cancel, Reset, runs and Stop, while the clock is set. Each timeout ends once, none starts after its
// Cancel, and Stop returns all others.
func TestWallClockRace(t *testing.T) { // on real time
	for end, round := time.Now().Add(stressTime(t)), 0; time.Now().Before(end); round++ {
		timer := newTimer(t, WithTick(50*time.Microsecond), WithLevels(1+round%3), WithWheelSize(8))
		clock := onSetClock(timer)
		const n = 100
		var canceled [n]atomic.Bool
		var runs atomic.Int64
		all := make([]*Timeout, n)
		g := NewGroup(timer)
		for i := range all {
			every := time.Duration(1+i) * 100 * time.Microsecond
			s := scheduleFunc(func(prev time.Time) time.Time { return prev.Add(every) })
			arm := timer.Schedule
			if i%2 == 0 {
				arm = g.Schedule
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
				clock.set(time.Duration(rand.Int64N(int64(400*time.Millisecond))) - 200*time.Millisecond)
				timer.look()
				runtime.Gosched()
			}
		})
		ended := 0
		for i, to := range all {
			switch i % 4 {
			case 0:
				if to.Cancel() {
					require.NoError(t, to.Wait(t.Context()))
					canceled[i].Store(true)
					ended++
				}
			case 1:
				_, err := to.Reset(time.Duration(rand.Int64N(int64(time.Millisecond))))
				require.NoError(t, err)
			}
		}
		time.Sleep(time.Millisecond)
		left, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		quit.Store(true)
		users.Wait()
		require.Len(t, left, n-ended)
		st := timer.Stats()
		require.EqualValues(t, runs.Load(), st.Expired)
		testkit.CheckCounts(t, st)
		require.False(t, timer.wallClock().Looks())
	}
	goleak.VerifyNone(t, goleak.IgnoreAnyFunction("runtime.handleEvent"))
}

// Many schedules follow a clock that is set, and a look at one that is not costs the same as for one schedule.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{1, 1000, 10_000} {
		timer := newTimer(b)
		clock := onSetClock(timer)
		for i := range n {
			_, err := timer.Schedule(TaskFunc(func(*Timeout) {}), dailyAt(time.Duration(i)*time.Second, time.UTC))
			require.NoError(b, err)
		}
		b.Run(fmt.Sprintf("clock=steady/schedules=%d", n), func(b *testing.B) {
			for b.Loop() {
				timer.look()
			}
		})
		for name, by := range map[string]time.Duration{"forward": time.Second, "back": -time.Second} {
			b.Run(fmt.Sprintf("clock=%s/schedules=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					clock.set(by)
					timer.look()
				}
			})
		}
		timer.Stop()
	}
}
