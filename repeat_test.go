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

// boundaryAt returns the first multiple of tick at or after d.
func boundaryAt(d, tick time.Duration) time.Duration { return (d + tick - 1) / tick * tick }

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
				to, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { m.note() }), c.initial, c.period)
				require.NoError(t, err)
				pass(c.initial + runs*c.period)
				require.True(t, to.Cancel())
				at := m.all()
				require.InDelta(t, int(runs), len(at), 1+float64(c.tick/c.period))
				for n, got := range at {
					want := boundaryAt(offset+c.initial+time.Duration(n)*c.period, c.tick)
					require.Equal(t, want, got.Sub(start), "run %d", n)
				}
			})
		})
	}
}

// Tasks of random length run at a fixed rate or with a fixed delay, on all kinds of runners. A run starts when it is
// due or when the previous run has ended, whichever is later.
func TestRepeatingModel(t *testing.T) {
	rnd := newRand(t)
	for range sized(4, 12, 40) {
		const us = time.Microsecond
		tick := time.Duration(1+rnd.IntN(1000)) * us
		initial := time.Duration(rnd.IntN(3000)-200) * us
		period := time.Duration(1+rnd.IntN(3000)) * us
		phase := time.Duration(rnd.IntN(2000)) * us
		takes := make([]time.Duration, 100)
		for i := range takes {
			if rnd.IntN(3) == 0 {
				takes[i] = time.Duration(rnd.IntN(5000)) * us
			}
		}
		for name, opts := range executors() {
			for _, fixedRate := range []bool{true, false} {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, append(opts, WithTick(tick))...)
					start := time.Now()
					time.Sleep(phase)
					schedule := timer.ScheduleWithFixedDelay
					if fixedRate {
						schedule = timer.ScheduleAtFixedRate
					}
					done := make(chan struct{})
					n := 0 // the runs of one timeout never overlap
					due := phase + max(initial, 0)
					earliest := boundaryAt(due, tick)
					if initial <= 0 {
						earliest = boundaryAt(phase+1, tick)
					}
					_, err := schedule(TaskFunc(func(to *Timeout) {
						now := time.Since(start)
						assert.Equal(t, earliest, now, "%v: run %d", name, n)
						assert.False(t, to.IsExpired())
						assert.False(t, to.IsCanceled())
						if n == len(takes) {
							assert.True(t, to.Cancel())
							close(done)
							return
						}
						time.Sleep(takes[n])
						n++
						due += period
						if end := time.Since(start); fixedRate {
							earliest = max(end, boundaryAt(due, tick))
						} else {
							earliest = boundaryAt(end+period, tick)
						}
					}), initial, period)
					require.NoError(t, err)
					<-done
					synctest.Wait()
					checkStats(t, timer)
				})
			}
		}
	}
}

// checkStats checks that the counts of a timer at rest agree.
func checkStats(t testing.TB, timer *Timer) {
	t.Helper()
	st := timer.Stats()
	require.Equal(t, st.Accepted, st.Expired+st.Canceled+st.Returned+uint64(st.Pending), "%+v", st)
	require.Zero(t, st.Running)
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
					m.note()
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
					require.Equal(t, want, m.since(start))
				}
				state := func(pending int, canceled bool) {
					t.Helper()
					require.Equal(t, pending, timer.Pending())
					require.Equal(t, canceled, to.IsCanceled())
					require.False(t, to.IsExpired())
					st := timer.Stats()
					require.Equal(t, st.Accepted, st.Expired+st.Canceled+uint64(st.Pending), "%+v", st)
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
				before := len(m.all())
				inside <- func(to *Timeout) { time.Sleep(5 * tick) }
				pass(10 * tick)
				require.Greater(t, len(m.all()), before)
				require.True(t, to.Cancel())
				state(0, true)
				before = len(m.all())
				pass(30 * tick)
				require.Len(t, m.all(), before)
				state(0, true)

				active, err = to.Reset(tick)
				require.False(t, active)
				require.NoError(t, err)
				pass(11 * tick)
				require.Len(t, m.all(), before+2)
				inside <- func(to *Timeout) { time.Sleep(5 * tick) }
				pass(12 * tick)
				require.True(t, to.Cancel(), "during a run")
				state(0, true)
				pass(30 * tick)
				require.Len(t, m.all(), before+3)
				state(0, true)
			})
		})
	}
}

// Stop returns a repeating timeout once, whatever its state, and no run follows.
func TestRepeatingStop(t *testing.T) {
	const tick = time.Millisecond
	for name, opts := range executors() {
		for _, at := range []time.Duration{0, 5 * tick, 6 * tick} {
			for _, slow := range []bool{false, true} {
				t.Run(fmt.Sprint(name, at, slow), func(t *testing.T) {
					virtual(t, func(t *testing.T) {
						timer := newTimer(t, append(opts, WithTick(tick))...)
						var runs atomic.Int32
						to, err := timer.ScheduleAtFixedRate(TaskFunc(func(to *Timeout) {
							runs.Add(1)
							if slow {
								time.Sleep(20 * tick)
							}
						}), 5*tick, 10*tick)
						require.NoError(t, err)
						pass(at)
						before := runs.Load()
						require.Equal(t, []*Timeout{to}, timer.Stop())
						require.True(t, to.IsCanceled())
						require.False(t, to.Cancel())
						_, err = to.Reset(tick)
						require.ErrorIs(t, err, ErrStopped)
						pass(time.Hour)
						require.Equal(t, before, runs.Load())
						require.True(t, to.IsCanceled())
						require.Empty(t, timer.tasks.listed())
						checkStats(t, timer)
						_, err = to.Reset(tick)
						require.ErrorIs(t, err, ErrStopped)
					})
				})
			}
		}
		t.Run(name+"/inside", func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(tick))...)
				got := make(chan []*Timeout, 10)
				to, err := timer.ScheduleAtFixedRate(TaskFunc(func(to *Timeout) { got <- timer.Stop() }), tick, tick)
				require.NoError(t, err)
				require.Equal(t, []*Timeout{to}, <-got)
				pass(time.Hour)
				require.Empty(t, got)
				require.True(t, to.IsCanceled())
				checkStats(t, timer)
			})
		})
	}
}

// While a timeout is at work, the worker does not put it into a bucket or on a list. It removes the timeout from a
// bucket that it was in before a Reset, and from the list.
func TestWorkerAndTimeoutAtWork(t *testing.T) {
	timer := newTimer(t)
	w := &timer.worker
	w.wheel = newWheel(16, 1, 0)
	to := &Timeout{timer: timer}
	word := func(tick uint64, bits uint64) { to.word.Store(tick<<tickShift | bits) }
	for _, tick := range []uint64{0, 5, 30} { // due, in another bucket, and in the same bucket
		word(14, pending)
		w.wheel.place(to, 14)
		word(tick, pending|atWork|queued)
		w.settle(to)
		require.Equal(t, tick<<tickShift|pending|atWork, to.word.Load())
		require.Zero(t, to.bucket)
		require.Zero(t, w.wheel.count)

		word(tick, pending|atWork|queued)
		w.settle(to) // the timeout is in no bucket
		require.Zero(t, to.bucket)
		require.Nil(t, w.due.chunk)

		w.wheel = newWheel(16, 1, 0)
		w.wheel.place(to, 14)
		w.wheel.advance(14, w.emit)
		require.Zero(t, w.wheel.count)
		require.Nil(t, w.due.chunk)
		w.wheel = newWheel(16, 1, 0)
	}
	timer.tasks.limit, timer.tasks.hands = 1, 1 // so that no runner comes
	w.emit(to)
	w.handOver()
	require.Len(t, timer.tasks.listed(), 1)
	word(5, pending|atWork|queued)
	w.settle(to)
	require.Empty(t, timer.tasks.listed())
	timer.tasks.limit, timer.tasks.hands = 0, 0
	w.wheel = nil
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

// If runs take longer than the period, and only one task may run at a time, other tasks still get their turn.
func TestMissedRunsDoNotStarveOthers(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				const tick = time.Millisecond
				timer := newTimer(t, append(opts, WithTick(tick), WithMaxConcurrency(1))...)
				_, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { time.Sleep(3 * tick) }), 0, tick)
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

// A run of a repeating timeout allocates nothing, and neither does the timer at each tick.
func TestRunAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector sync.Pool forgets at random")
	}
	const tick, ticks = time.Millisecond, 400
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
				allocs := testing.AllocsPerRun(1, func() { time.Sleep(ticks * tick) })
				ran := runs.Load() - before
				t.Logf("%.0f allocations in %d runs", allocs, ran/2)
				require.GreaterOrEqual(t, ran, int64(2*ticks/4))
				require.Less(t, allocs, ticks/8.0) // less than one for each run of any schedule
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
			require.EqualValues(t, absent, timer.worker.presence.Load())
			require.Equal(t, 1, timer.Pending())
			ended := time.Now()
			release <- true
			require.Equal(t, tick, (<-begun).Sub(ended))
		}
		require.True(t, to.Cancel())
		release <- true
		pass(5 * time.Second)
		require.EqualValues(t, absent, timer.worker.presence.Load())
	})
}

// A Reset to the same tick for which the timeout was armed still counts as a Reset: later runs count from it.
func TestResetOfFixedRateToTheSameTick(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const ms = time.Millisecond
		timer := newTimer(t, WithTick(10*ms))
		start := time.Now()
		var m moments
		to, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { m.note() }), ms, 9*ms)
		require.NoError(t, err)
		_, err = to.Reset(10 * ms)
		require.NoError(t, err)
		pass(30 * ms)
		require.Equal(t, []time.Duration{10 * ms, 20 * ms, 30 * ms}, m.since(start))
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
			require.True(t, to.IsCanceled(), "round %d: %v", rounds, to)
			require.Contains(t, left, to)
		}
	}
}

// The test combines all operations on repeating timeouts, on real time. Runs never overlap, each timeout ends once, and
// the counts add up.
func TestRepeatingRace(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			rnd := newRand(t)
			seeds := [4]int64{rnd.Int64(), rnd.Int64(), rnd.Int64(), rnd.Int64()}
			var total uint64
			for deadline := time.Now().Add(stressTime(t) / 2); goesOn(deadline, total > 0); {
				timer := newTimer(t, append(opts, WithTick(20*time.Microsecond))...)
				type one struct {
					to   *Timeout
					busy atomic.Bool
				}
				all := make([]one, 20)
				for i := range all {
					task := TaskFunc(func(to *Timeout) {
						if !all[i].busy.CompareAndSwap(false, true) {
							t.Error("two runs overlap")
						}
						switch i % 5 {
						case 0:
							runtime.Gosched()
						case 1:
							to.Cancel()
						case 2:
							to.Reset(10 * time.Microsecond)
						case 3:
							to.Cancel()
							to.Reset(0)
						}
						all[i].busy.Store(false)
					})
					var err error
					if i%2 == 0 {
						all[i].to, err = timer.ScheduleAtFixedRate(task, 0, time.Duration(5+i*3)*time.Microsecond)
					} else {
						all[i].to, err = timer.ScheduleWithFixedDelay(task, 0, time.Duration(1+i)*time.Microsecond)
					}
					require.NoError(t, err)
				}
				var wg sync.WaitGroup
				var cancels atomic.Int64
				for _, seed := range seeds {
					wg.Go(func() {
						for n := range int64(200) {
							one := &all[(seed+n*7)&0xffff%int64(len(all))]
							if n%3 == 0 {
								if one.to.Cancel() {
									cancels.Add(1)
								}
							} else if _, err := one.to.Reset(time.Duration(n%50) * time.Microsecond); err != nil {
								return
							}
							runtime.Gosched()
						}
					})
				}
				if seeds[0]%2 == 0 {
					wg.Wait()
				}
				seeds[0]++
				left, err := timer.Shutdown(t.Context())
				require.NoError(t, err)
				wg.Wait()
				seen := map[*Timeout]bool{}
				for _, to := range left {
					require.False(t, seen[to], "returned twice")
					seen[to] = true
					require.True(t, to.IsCanceled())
				}
				for i := range all {
					require.False(t, all[i].busy.Load())
					require.True(t, all[i].to.IsCanceled(), "%v", all[i].to)
				}
				st := timer.Stats()
				require.Zero(t, st.Pending)
				require.EqualValues(t, len(left), st.Returned)
				require.GreaterOrEqual(t, st.Canceled, uint64(cancels.Load()))
				checkStats(t, timer)
				total += st.Expired
			}
			t.Logf("%d runs", total)
			require.NotZero(t, total)
		})
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
		to, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.note() }), scheduleFunc(func(prev time.Time) time.Time {
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
		require.Equal(t, []time.Duration{10 * tick, 15 * tick, 30 * tick}, runs.since(start)[:3])
		to.Cancel()
	})
}

// A repeating timeout that is overdue runs a few times in a row, then after the others of its group, and then its
// missed runs follow at once.
func TestMissedRunsGoBehindTheGroup(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick, size = time.Millisecond, 16
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		timer.tasks.share = 1 // the runner takes all of them
		w := &timer.worker
		w.presence.Store(awake) // so that no worker starts
		var runs atomic.Int64
		for i := range size {
			if i == size/2 {
				_, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { runs.Add(1) }), tick, tick)
				require.NoError(t, err)
				continue
			}
			_, err := timer.AfterFunc(tick, func() { assert.LessOrEqual(t, runs.Load(), int64(1+maxInRow)) })
			require.NoError(t, err)
		}
		pass(10*tick + tick/2)
		require.Zero(t, runs.Load())
		go w.run()
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
		require.True(t, timer.worker.presence.CompareAndSwap(absent, awake)) // so that no worker starts
		close(release)
		synctest.Wait()
		timer.worker.presence.Store(absent)
		timer.worker.summon()
		require.EqualValues(t, 10, runs.Load())
	})
}

// A repeating timeout may be due again just as Stop begins. Its runner keeps it until Stop has taken it.
func TestRequeueAfterStop(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newFakedTimer(t) // nothing is pending
		timer.stopped.Store(true)
		var done moments
		go func() {
			(*timeoutHost)(timer).requeue(&Timeout{timer: timer})
			done.note()
		}()
		synctest.Wait()
		require.Empty(t, done.all())
		close(timer.allTaken)
		synctest.Wait()
		require.Len(t, done.all(), 1)
	})
}
