package hashedwheel

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/octave"
)

// Each task is in the histogram once, whether it comes due alone or with others.
func TestLatenessIsMeasured(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1))
		for n := range 10 {
			_, err := timer.AfterFunc(time.Millisecond, nop)
			require.NoError(t, err)
			pass(5 * time.Millisecond)
			require.EqualValues(t, n+1, timer.Stats().Lateness.Count())
		}
		for _, n := range []int{2, chunkLen - 1, chunkLen, chunkLen + 1, 4 * chunkLen, 8*chunkLen + 5} {
			release := blockOne(t, timer) // so that all wait before the first runs
			pass(time.Millisecond)
			before := timer.Stats().Lateness
			for range n {
				_, err := timer.AfterFunc(time.Millisecond, nop)
				require.NoError(t, err)
			}
			pass(2 * time.Millisecond)
			require.Equal(t, n, timer.tasks.Waiting())
			close(release)
			pass(3 * time.Millisecond)
			lateness := timer.Stats().Lateness
			require.EqualValues(t, n, lateness.Sub(before).Count())
			require.Equal(t, octave.UpperBound(octave.Class(time.Millisecond)), lateness.Quantile(1), "they had to wait for a tick")
		}
	})
}

// Tasks that wait for their turn run late, each by the length of one task more than the task before it.
func TestLatenessOfWaiting(t *testing.T) {
	for _, executor := range []func(func()) error{nil, func(run func()) error { go run(); return nil }} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1), WithExecutor(executor))
			giveBack := hold(t, timer)
			const n, long = 65, time.Second
			for range n {
				_, err := timer.AfterFunc(time.Millisecond, func() { time.Sleep(long) })
				require.NoError(t, err)
			}
			timer.worker.round() // so that they come due together
			giveBack()
			pass((n + 1) * long)
			lateness := timer.Stats().Lateness
			require.Equal(t, octave.UpperBound(octave.Class((n-1)*long)), lateness.Quantile(1))
			// Where each is later than the one before, each is measured.
			require.EqualValues(t, n, lateness.Count())
			require.Equal(t, n*(n-1)/2*long, lateness.Sum())
			require.Equal(t, octave.UpperBound(octave.Class((n-1)/2*long)), lateness.Quantile(0.5))
		})
	}
}

// Twenty tasks that are late by twenty years are late by 400 years together, which is more than a Duration. The sum stays at the
// longest Duration, and its seconds go on.
func TestSumOfLatenessDoesNotWrap(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Second))
		const n, late = 20, 20 * 365 * 24 * time.Hour
		for i := range 2 {
			for range n {
				_, err := timer.AfterFunc(time.Second, nop)
				require.NoError(t, err)
			}
			pass(0) // until the worker is idle
			giveBack := hold(t, timer)
			pass(time.Second + late)
			giveBack()
			pass(time.Second)
			lateness := timer.Stats().Lateness
			require.EqualValues(t, (i+1)*n, lateness.Count())
			require.Equal(t, time.Duration(math.MaxInt64), lateness.Sum())
			require.Equal(t, float64((i+1)*n)*late.Seconds(), lateness.SumSeconds())
			require.Zero(t, lateness.Sub(lateness).Sum())
		}
	})
}

// Stats reports how many timeouts and buckets in use each level has, while the wheel turns.
func TestStatsOfLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithWheelSize(8), WithLevels(2))
		require.Nil(t, timer.Stats().Levels)
		for _, ticks := range []int{3, 3, 4, 8, 20, 21} {
			_, err := timer.AfterFunc(time.Duration(ticks)*tick, nop)
			require.NoError(t, err)
		}
		canceled, err := timer.AfterFunc(4*tick, nop)
		require.NoError(t, err)
		pass(tick + tick/2)
		// Placed at tick 0 or 1. On level 1 a bucket is for 4 ticks.
		require.Equal(t, []LevelStats{{Occupied: 3, Timeouts: 5}, {Occupied: 1, Timeouts: 2}}, timer.Stats().Levels)

		require.True(t, canceled.Cancel())
		pass(tick)
		pass(4 * tick)
		levels := timer.Stats().Levels
		require.Equal(t, []LevelStats{{Occupied: 1, Timeouts: 1}, {Occupied: 1, Timeouts: 2}}, levels)

		pass(time.Second)
		require.Nil(t, timer.Stats().Levels, "nothing is pending")
		_, err = timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		pass(settled)
		require.Equal(t, 1, timer.Stats().Levels[1].Timeouts)
		timer.Stop()
		require.Nil(t, timer.Stats().Levels)
	})
}

// The queue holds a timeout that was armed, that is to be removed, or that is to be moved to an earlier tick. A
// Reset to a later tick adds nothing to the queue, nor does a Reset of a timeout that is already on it.
func TestStatsOfQueue(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Second
		timer := newTimer(t, WithTick(tick))
		timer.queue.init(tick, 8) // with 64 processors there are so many stripes that Stats reads a part of each nursery
		giveBack := hold(t, timer)
		queued := func(want int) {
			t.Helper()
			require.Equal(t, want, timer.Stats().Queued)
		}
		take := func() {
			t.Helper()
			giveBack()
			pass(settled)
			queued(0)
			giveBack = hold(t, timer)
		}
		var all []*Timeout
		for range 10 {
			to, err := timer.AfterFunc(100*tick, nop)
			require.NoError(t, err)
			all = append(all, to)
		}
		queued(10)
		_, err := all[0].Reset(200 * tick)
		require.NoError(t, err)
		all[0].Cancel()
		_, err = all[1].Reset(10 * tick)
		require.NoError(t, err)
		queued(10) // one is canceled, and one has two slots
		all[9].Cancel()
		queued(9)
		take()
		all[2].Cancel()
		queued(1)
		_, err = all[3].Reset(50 * tick)
		require.NoError(t, err)
		queued(2)
		_, err = all[4].Reset(200 * tick)
		require.NoError(t, err)
		queued(2)
		_, err = all[2].Reset(tick)
		require.NoError(t, err)
		queued(2)
		_, err = all[0].Reset(tick)
		require.NoError(t, err)
		queued(3)
		take()
		all[5].Cancel()
		stopHeld(timer, giveBack)
		queued(0)
	})
}

func TestStatsOfRunners(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		for range 3 {
			_, err := timer.AfterFunc(0, func() { time.Sleep(time.Second) })
			require.NoError(t, err)
		}
		pass(100 * time.Millisecond)
		require.Equal(t, 3, timer.Stats().Runners)
		require.Equal(t, 3, timer.Stats().Running)
		pass(time.Second)
		require.Zero(t, timer.Stats().Runners)
		require.Zero(t, timer.Stats().Running)
	})
}

// logged returns an option that sets a logger, and the buffer that this logger writes to.
func logged() (Option, *logBuffer) {
	var log logBuffer
	return WithLogger(slog.New(slog.NewTextHandler(&log, nil))), &log
}

// A logBuffer is a bytes.Buffer that a test may read while the timer logs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// A timeout is reset while it waits for its turn, and its new tick has passed when its turn comes. Then it
// goes through the queue again. The worker did not cause this lateness, and so logs nothing.
func TestWaitingForATurnIsNotALateWorker(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), option)
		arm := func(delay, length time.Duration) *Timeout {
			to, err := timer.AfterFunc(delay, func() { time.Sleep(length) })
			require.NoError(t, err)
			return to
		}
		arm(tick, 5*time.Second)
		pass(2 * tick)
		arm(tick, 10*tick)
		x := arm(tick, 0)
		pass(50 * tick)
		arm(90*tick, 10*tick)
		_, err := x.Reset(100 * tick)
		require.NoError(t, err)
		pass(6 * time.Second)
		require.NotContains(t, log.String(), "fire")
		require.Zero(t, timer.Pending())
	})
}

// Stats, Pending and String do not take the lock of the worker, which it may hold for long.
func TestStatsDoesNotWaitForTheWorker(t *testing.T) {
	timer := newTimer(t)
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	timer.worker.mu.Lock()
	defer timer.worker.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = timer.Stats(), timer.Pending(), timer.String()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("Stats waits")
	}
}

// counters returns all counters of Stats by name.
func counters(st Stats) map[string]uint64 {
	all := map[string]uint64{"Lateness.Count": st.Lateness.Count()}
	for v, i := reflect.ValueOf(st), 0; i < v.NumField(); i++ {
		if v.Field(i).Kind() == reflect.Uint64 {
			all[v.Type().Field(i).Name] = v.Field(i).Uint()
		}
	}
	return all
}

// No counter goes back while goroutines use a timer in all ways, and while it is stopped. At the end the counters are exact.
// The test runs on real time, because it tests races.
func TestCountersNeverGoBack(t *testing.T) {
	seeds := newRand(t)
	var total Stats
	seen := func() bool {
		return total.Expired > 0 && total.Canceled > 0 && total.Returned > 0 && total.RejectedFull > 0
	}
	for end := time.Now().Add(stressTime(t)); goesOn(end, seen()); {
		limit := seeds.IntN(2) * 8
		timer := newTimer(t, WithTick(time.Duration(20+seeds.IntN(200))*time.Microsecond), WithMaxPending(limit))
		shared := make([]Timeout, 4)
		var expired, canceled, full, stopped atomic.Uint64
		count := func(_ bool, err error) {
			switch {
			case errors.Is(err, ErrTooManyPending):
				full.Add(1)
			case errors.Is(err, ErrStopped):
				stopped.Add(1)
			default:
				assert.NoError(t, err)
			}
		}
		task := func() { expired.Add(1) }
		for i := range shared {
			timer.Bind(&shared[i], plainFunc(task))
		}
		var users, readers sync.WaitGroup
		for range 4 {
			rnd := rand.New(rand.NewPCG(seeds.Uint64(), 0))
			users.Go(func() {
				for afterStop := 0; afterStop < 500; {
					if timer.IsStopped() {
						afterStop++
					}
					if rnd.IntN(16) == 0 {
						runtime.Gosched() // on js/wasm nothing preempts this loop
					}
					delay := time.Duration(rnd.IntN(2)*rnd.IntN(300)) * time.Microsecond
					to := &shared[rnd.IntN(len(shared))]
					switch rnd.IntN(6) {
					case 0:
						count(to.Reset(delay))
					case 1:
						count(to.ResetAt(time.Now().Add(delay)))
					case 2:
						runs := 0
						_, err := timer.Schedule(plainFunc(task), scheduleFunc(func(prev time.Time) time.Time {
							if runs++; runs > 2 {
								return time.Time{}
							}
							return prev.Add(delay)
						}))
						count(false, err)
					case 3:
						if to.Cancel() {
							canceled.Add(1)
						}
					default:
						if rnd.IntN(2) == 0 {
							delay = time.Hour
						}
						other, err := timer.AfterFunc(delay, task)
						count(false, err)
						if err == nil && rnd.IntN(8) > 0 && other.Cancel() {
							canceled.Add(1)
						}
					}
				}
			})
		}
		var over atomic.Bool
		for range 2 {
			readers.Go(func() {
				last := counters(timer.Stats())
				for ; !over.Load(); runtime.Gosched() {
					st := timer.Stats()
					assert.LessOrEqual(t, st.Due, st.Pending)
					now := counters(st)
					for name, n := range now {
						assert.GreaterOrEqual(t, n, last[name], name)
					}
					last = now
				}
			})
		}
		time.Sleep(time.Duration(seeds.IntN(5_000)) * time.Microsecond)
		left := timer.Stop()
		users.Wait()
		for _, to := range left {
			if to.Cancel() {
				canceled.Add(1)
			}
		}
		canceled.Add(-uint64(len(left))) // somebody has canceled each of them, which does not count
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		over.Store(true)
		readers.Wait()
		sum := Stats{
			Expired: expired.Load(), Canceled: canceled.Load(), Returned: uint64(len(left)),
			RejectedFull: full.Load(), RejectedStopped: stopped.Load(),
		}
		sum.Accepted = sum.Expired + sum.Canceled + sum.Returned // what was armed and ended, as the test has seen it
		require.Equal(t, sum, outcomes(timer))
		total.Expired += sum.Expired
		total.Canceled += sum.Canceled
		total.Returned += sum.Returned
		total.RejectedFull += sum.RejectedFull
	}
	require.True(t, seen(), "the test did not see every outcome")
}

// A timeout that is canceled while a runner is about to claim it, and a run that turns out to be the last of its schedule,
// take nothing back from what has been counted.
func TestCountersAreNotAhead(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		var st Stats
		to, err := timer.NewTimeout(claimed(func(to *Timeout) {
			st = outcomes(timer)
			require.True(t, to.Cancel())
		}), 0)
		require.NoError(t, err)
		pass(5 * time.Millisecond)
		require.True(t, to.IsCanceled())
		require.Equal(t, Stats{Accepted: 1, Pending: 1, Running: 1}, st)
		require.Equal(t, Stats{Accepted: 1, Canceled: 1}, outcomes(timer))

		calls := 0
		_, err = timer.Schedule(plainFunc(nop), scheduleFunc(func(prev time.Time) time.Time {
			if calls++; calls > 1 {
				st = outcomes(timer)
				return time.Time{}
			}
			return prev.Add(time.Millisecond)
		}))
		require.NoError(t, err)
		pass(5 * time.Millisecond)
		require.Equal(t, Stats{Accepted: 2, Canceled: 1, Pending: 1, Running: 1}, st)
		require.Equal(t, Stats{Accepted: 2, Canceled: 1, Expired: 1}, outcomes(timer))
	})
}

// A claimed is a hook that calls a function before the claim, which then fails if the function has changed the timeout.
type claimed func(to *Timeout)

func (claimed) Run(*Timeout)            {}
func (claimed) ran(*Timeout) bool       { return false }
func (claimed) arm(*Timeout) error      { return nil }
func (claimed) notices() *notices       { return nil }
func (claimed) disarmed(*Timeout, bool) {}
func (claimed) light() bool             { return false }

func (claimed) putOff(*Timeout, uint64) bool           { return false }
func (claimed) dueTick(_ *Timeout, word uint64) uint64 { return tickOf(word) }
func (f claimed) claim(to *Timeout, word uint64) (uint64, bool) {
	f(to)
	return noHook{}.claim(to, word)
}

// Due counts the timeouts that wait for a runner, the limit or the executor. It does not count the others.
func TestDue(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		opts    []Option
		running int
	}{
		"limit":    {[]Option{WithMaxConcurrency(2)}, 2},
		"executor": {[]Option{WithExecutor(func(func()) error { return nil })}, 0}, // it never calls what it takes
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				const n = 1000
				timer := newTimer(t, append(c.opts, WithTick(10*ms))...)
				release := make(chan struct{})
				end := sync.OnceFunc(func() { close(release) })
				defer end()
				hang := func() { <-release }
				var all []*Timeout
				for range n {
					to, err := timer.AfterFunc(20*ms, hang)
					require.NoError(t, err)
					all = append(all, to)
				}
				_, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				pass(15 * ms)
				require.Zero(t, timer.Stats().Due)
				pass(15 * ms)
				check := func(due int) {
					t.Helper()
					require.Equal(t, due, timer.Stats().Due)
					require.Equal(t, c.running, timer.Stats().Running)
				}
				check(n - c.running)
				runs, err := timer.ScheduleAtFixedRate(plainFunc(hang), 0, 10*ms)
				require.NoError(t, err)
				pass(50 * ms)
				check(n + 1 - c.running)
				waiting := slices.DeleteFunc(all, (*Timeout).IsExpired)
				for _, to := range waiting[:10] {
					require.True(t, to.Cancel())
				}
				active, err := waiting[10].Reset(time.Hour)
				require.NoError(t, err)
				require.True(t, active)
				require.True(t, runs.Cancel())
				pass(10 * ms)
				check(n - 11 - c.running)
				end()
				pass(50 * ms)
				if c.running > 0 {
					require.Zero(t, timer.Stats().Due)
				}
			})
		})
	}
	// Without a limit those behind a task that hangs wait for the first check.
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Second))
		release := make(chan struct{})
		defer close(release)
		for range 4 * chunkLen {
			_, err := timer.AfterFunc(0, func() { <-release })
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		st := timer.Stats()
		require.Equal(t, 4*chunkLen-st.Running, st.Due)
		require.EqualValues(t, st.Running, st.Expired)
	})
}

// A run of a repeating timeout that is over counts as expired, and the next run as armed, whether the next one lies ahead, is due
// already, was moved by a Reset, or was canceled. The last run of a schedule counts as expired alone.
func TestRunsCount(t *testing.T) {
	const tick = 10 * time.Millisecond
	for name, c := range map[string]struct {
		run  func(to *Timeout) // the first run
		runs uint64            // how many are over after three periods and a half
	}{
		"ahead":    {func(*Timeout) {}, 3},
		"due":      {func(*Timeout) { time.Sleep(2*tick + tick/4) }, 3},
		"moved":    {func(to *Timeout) { to.Reset(time.Hour) }, 1},
		"canceled": {func(to *Timeout) { to.Cancel() }, 1},
	} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick))
			first := true
			_, err := timer.ScheduleAtFixedRate(TaskFunc(func(to *Timeout) {
				require.Equal(t, first, timer.Stats().Expired == 0, name) // a run in progress does not count
				if first {
					first = false
					c.run(to)
				}
			}), tick, tick)
			require.NoError(t, err)
			pass(3*tick + tick/2)
			want := Stats{Pending: 1, Accepted: 1 + c.runs, Expired: c.runs}
			if name == "canceled" {
				want.Pending, want.Canceled = 0, 1
			}
			require.Equal(t, want, outcomes(timer), name)
		})
	}
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		_, err := timer.Schedule(plainFunc(nop), scheduleFunc(func(prev time.Time) time.Time {
			if timer.Stats().Accepted >= 3 {
				return time.Time{}
			}
			return prev.Add(tick)
		}))
		require.NoError(t, err)
		pass(time.Second)
		require.Equal(t, Stats{Accepted: 3, Expired: 3}, outcomes(timer))
	})
}
