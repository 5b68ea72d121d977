package hashedwheel

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A wrong option is an error that names it, its value and what is allowed.
func TestWrongOptions(t *testing.T) {
	for _, c := range []struct {
		opt  Option
		want string
	}{
		{WithTick(0), "hashedwheel: WithTick(0s): the tick must be positive"},
		{WithTick(-time.Second), "hashedwheel: WithTick(-1s): the tick must be positive"},
		{WithWheelSize(0), "hashedwheel: WithWheelSize(0): the size must be 1 to 1048576"},
		{WithWheelSize(1<<20 + 1), "hashedwheel: WithWheelSize(1048577): the size must be 1 to 1048576"},
		{WithLevels(0), "hashedwheel: WithLevels(0): the number must be 1 to 8"},
		{WithLevels(9), "hashedwheel: WithLevels(9): the number must be 1 to 8"},
		{WithMaxConcurrency(-1), "hashedwheel: WithMaxConcurrency(-1): the limit must be positive, or 0 for none"},
		{WithMaxPending(-1), "hashedwheel: WithMaxPending(-1): the limit must be positive, or 0 for none"},
	} {
		timer, err := New(c.opt)
		require.EqualError(t, err, c.want)
		require.Nil(t, timer)
	}
}

// A tick that lacks its unit is logged, with what was probably meant.
func TestTickWithoutAUnit(t *testing.T) {
	for tick, want := range map[time.Duration]string{
		10: "hashedwheel: WithTick(10ns): no machine keeps so short a tick; for 10 milliseconds write 10*time.Millisecond",
		shortestTick - 1: "hashedwheel: WithTick(9.999µs): no machine keeps so short a tick; for 9999 milliseconds write " +
			"9999*time.Millisecond",
		shortestTick: "",
	} {
		option, log := logged()
		newTimer(t, WithTick(tick), option)
		if want == "" {
			require.Empty(t, log.String())
		} else {
			require.Contains(t, log.String(), `level=WARN msg="`+want+`"`)
		}
	}
}

// TestDefaults checks what New does without options, and that the wheel size is rounded up.
func TestDefaults(t *testing.T) {
	c, err := newConfig(nil)
	require.NoError(t, err)
	require.Equal(t, config{tick: 100 * time.Millisecond, wheelSize: 512, levels: 1}, c)

	for n, want := range map[int]int{1: 1, 2: 2, 3: 4, 511: 512, 512: 512, 513: 1024, 1 << 20: 1 << 20} {
		c, err := newConfig([]Option{WithWheelSize(n), nil})
		require.NoError(t, err)
		require.Equal(t, want, c.wheelSize)
	}
}

// Each option for a number or a name arrives at the part that it configures.
func TestOptionsAreApplied(t *testing.T) {
	timer := newTimer(t, WithTick(3*time.Second), WithWheelSize(100), WithLevels(3), WithMaxPending(9), WithMaxConcurrency(8),
		WithName("some"))
	require.Equal(t, 3*time.Second, timer.clock.Tick)
	require.Equal(t, 128, timer.worker.wheelSize)
	require.Equal(t, 3, timer.worker.levels)
	require.EqualValues(t, 9, timer.limit.max)
	require.Equal(t, 8, timer.tasks.Limit)
	require.Equal(t, "some", timer.Name())
}

// A new timer takes at most 1 KiB more memory than the guide says, on machines with few processors
// and with many. A timer that has been used, and has nothing pending, takes at most 1 KB more.
func TestEmptyTimerIsSmall(t *testing.T) {
	for procs, most := range map[int]int{1: 6 << 10, 2: 6 << 10, 8: 9 << 10, 256: 70 << 10} {
		if testing.Short() && procs != 2 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			const n = 200
			timers := make([]*Timer, n)
			before := heapInUse()
			for i := range timers {
				timers[i] = newTimer(t)
			}
			size := int(heapInUse()-before) / n
			t.Logf("%d processors: %d bytes", procs, size)
			require.LessOrEqual(t, size, most)
			for _, timer := range timers {
				to, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				require.True(t, to.Cancel())
			}
			pass(2 * time.Second)
			for _, timer := range timers {
				require.True(t, timer.worker.released())
			}
			require.LessOrEqual(t, int(heapInUse()-before)/n, most+1<<10)
			runtime.KeepAlive(timers)
		})
	}
}

// While the executor holds a task, the timeout is pending. It can be canceled, reset and returned by Stop.
func TestExecutorHoldsTasks(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		var e testkit.Executor
		timer := newTimer(t, WithTick(tick), WithExecutor(e.Submit))
		var fired moments
		var all []*Timeout
		for range 6 {
			to, err := timer.AfterFunc(0, fired.Note)
			require.NoError(t, err)
			all = append(all, to)
		}
		runs, canceled, moved, again, runsToo, runsAlso := all[0], all[1], all[2], all[3], all[4], all[5]
		pass(10 * tick)
		held := e.Take()
		require.Len(t, held, 6)
		require.Empty(t, fired.All())
		require.Equal(t, 6, timer.Pending())
		require.False(t, runs.IsExpired())

		require.True(t, canceled.Cancel())
		active, err := moved.Reset(5 * tick)
		require.NoError(t, err)
		require.True(t, active)
		require.True(t, again.Cancel())
		_, err = again.Reset(20 * tick)
		require.NoError(t, err)
		require.Equal(t, 5, timer.Pending())

		for i, run := range held {
			before := len(fired.All())
			run()
			run() // a second call has no effect
			require.LessOrEqual(t, len(fired.All()), before+1, "job %d", i)
		}
		require.Len(t, fired.All(), 3)
		require.True(t, runs.IsExpired() && runsToo.IsExpired() && runsAlso.IsExpired())

		pass(5 * tick)
		require.Equal(t, 1, e.RunAll())
		require.Len(t, fired.All(), 4)
		require.True(t, moved.IsExpired())
		pass(15 * tick)
		held = e.Take()
		require.Len(t, held, 1)
		require.Equal(t, []*Timeout{again}, timer.Stop())
		held[0]()
		require.Len(t, fired.All(), 4)
		require.Equal(t, Stats{Accepted: 7, Expired: 4, Canceled: 2, Returned: 1}, outcomes(timer))
	})
}

// Nothing keeps a canceled timeout alive. The function that was submitted for it runs the next due task instead.
func TestExecutorForgetsCanceled(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var e testkit.Executor
		timer := newTimer(t, WithTick(time.Millisecond), WithExecutor(e.Submit), WithMaxConcurrency(1))
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		_, err = timer.AfterFunc(2*time.Millisecond, nop) // a tick later, because timeouts of one tick have no order
		require.NoError(t, err)
		pass(5 * time.Millisecond)
		held := e.Take()
		require.Len(t, held, 1, "one at a time")
		gone := weak.Make(to)
		require.True(t, to.Cancel())
		pass(2 * time.Millisecond)
		runtime.GC()
		require.Nil(t, gone.Value())
		held[0]()
		require.Zero(t, timer.Pending())
		pass(time.Millisecond)
		require.Zero(t, e.RunAll(), "nothing is left")
	})
}

// If an executor refuses, panics or exits, no task is lost.
func TestExecutorThatFails(t *testing.T) {
	for name, submit := range map[string]func(func()) error{
		"error":          func(func()) error { return errors.New("full") },
		"error, but ran": func(run func()) error { run(); return errors.New("full") },
		"panic":          func(func()) error { panic("closed") },
		"Goexit":         func(func()) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				var reported atomic.Int64
				timer := newTimer(t, WithTick(time.Millisecond), WithExecutor(submit), WithMaxConcurrency(1),
					WithPanicHandler(func(*Timeout, any, []byte) { reported.Add(1) }),
					WithLogger(slog.New(slog.DiscardHandler)))
				start := time.Now()
				var fired moments
				for range 10 {
					_, err := timer.AfterFunc(0, fired.Note)
					require.NoError(t, err)
				}
				pass(time.Second)
				for _, at := range fired.All() {
					require.Equal(t, time.Millisecond, at.Sub(start))
				}
				st := timer.Stats()
				require.EqualValues(t, 10, st.Expired)
				require.Zero(t, st.Running)
				require.Len(t, fired.All(), 10)
				if name == "error, but ran" {
					require.Zero(t, st.Unsubmitted, "the executor has run them")
				} else {
					require.EqualValues(t, 10, st.Unsubmitted)
				}
				require.Zero(t, reported.Load(), "no task has panicked")
				if name == "panic" {
					require.EqualValues(t, 10, st.Panics)
				}
			})
		})
	}
}

// With both options, the executor has no more tasks at a time than may run.
func TestExecutorAndMaxConcurrency(t *testing.T) {
	for _, limit := range []int{1, 3} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(limit),
				WithExecutor(func(run func()) error { go run(); return nil }))
			start := time.Now()
			var running atomic.Int64
			var ended moments
			for range 30 {
				_, err := timer.AfterFunc(0, func() {
					assert.LessOrEqual(t, running.Add(1), int64(limit))
					time.Sleep(time.Second)
					running.Add(-1)
					ended.Note()
				})
				require.NoError(t, err)
			}
			pass(time.Minute)
			all := ended.All()
			require.Len(t, all, 30)
			require.Equal(t, time.Duration(30/limit)*time.Second+time.Millisecond, all[29].Sub(start))
		})
	}
}

// A timeout that is canceled while it waits to be submitted is not submitted. A timeout that is reset while the executor
// holds a function for it needs no other. It can be garbage collected once it is canceled, even if the executor keeps all
// functions.
func TestExecutorIsGivenNoCanceled(t *testing.T) {
	for _, reset := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			const tick, n, limit = time.Millisecond, 100, 5
			var e testkit.Executor
			opts := []Option{WithTick(tick), WithExecutor(e.Submit)}
			if !reset {
				opts = append(opts, WithMaxConcurrency(limit)) // so that the others wait to be submitted
			}
			timer := newTimer(t, opts...)
			var all []*Timeout
			var held []weak.Pointer[Timeout]
			for range n {
				to, err := timer.AfterFunc(tick, nop)
				require.NoError(t, err)
				all = append(all, to)
				held = append(held, weak.Make(to))
			}
			pass(20 * tick)
			if reset {
				for _, to := range all {
					_, err := to.Reset(2 * tick)
					require.NoError(t, err)
				}
				pass(20 * tick)
			}
			for _, to := range all {
				require.True(t, to.Cancel())
			}
			clear(all)
			pass(20 * tick)
			given := e.Take()
			if reset {
				require.Len(t, given, n)
			} else {
				require.Len(t, given, limit)
			}
			runtime.GC()
			for _, p := range held {
				require.Nil(t, p.Value())
			}
			for _, run := range given {
				run()
			}
			synctest.Wait()
			require.Zero(t, e.RunAll())
		})
	}
}

// If an executor panics after it has started the task on another goroutine, the panic is reported. This holds if
// the task is running, has returned or has called runtime.Goexit. It also holds if the timeout was canceled. The
// submitted function does not keep a timeout alive that has ended.
func TestExecutorPanicsAfterStart(t *testing.T) {
	for name, task := range map[string]func(){
		"running":  func() { time.Sleep(time.Second) },
		"over":     nop,
		"exited":   runtime.Goexit,
		"canceled": nil,
	} {
		virtual(t, func(t *testing.T) {
			const tick = time.Millisecond
			option, log := logged()
			handler := WithPanicHandler(func(to *Timeout, _ any, _ []byte) { t.Errorf("the handler was called for %v", to) })
			var kept func()
			timer := newTimer(t, WithTick(tick), handler, option, WithExecutor(func(run func()) error {
				kept = run
				if name != "canceled" {
					go run()
				}
				time.Sleep(5 * tick)
				panic("the executor's")
			}))
			f := task
			if f == nil {
				f = nop
			}
			to, err := timer.AfterFunc(0, f)
			require.NoError(t, err)
			pass(2 * tick)
			require.Equal(t, name == "canceled", to.Cancel())
			pass(time.Minute)
			require.Contains(t, log.String(), "executor panicked")
			require.EqualValues(t, 1, timer.Stats().Panics)
			require.Equal(t, name == "canceled", timer.Stats().Expired == 0)
			p := weak.Make(to)
			to = nil
			runtime.GC()
			require.Nil(t, p.Value())
			runtime.KeepAlive(kept)
		})
	}
}

// If the goroutines of the executor recover from a panic of the panic handler, a repeating timeout continues.
func TestHandlerPanicsInAPoolThatRecovers(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		recovers := func(run func()) error {
			go func() {
				defer func() { assert.Equal(t, "handler", recover()) }()
				run()
			}()
			return nil
		}
		timer := newTimer(t, WithTick(tick), WithExecutor(recovers), WithMaxConcurrency(1), WithMaxPending(1),
			WithPanicHandler(func(*Timeout, any, []byte) { panic("handler") }))
		var runs atomic.Int64
		to, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { runs.Add(1); panic("task") }), tick, tick)
		require.NoError(t, err)
		pass(5 * tick)
		require.EqualValues(t, 5, runs.Load())
		require.Equal(t, 1, timer.Pending())
		require.Equal(t, []*Timeout{to}, timer.Stop())
		checkStats(t, timer)
	})
}

// A timer from a synctest bubble has an executor outside of it. That panics where it happens, and does not hang: the timer
// can be stopped, and returns the timeouts. Once the second one started a goroutine of the timer outside.
func TestExecutorOutsideTheBubble(t *testing.T) {
	jobs, panics := make(chan func()), make(chan any, 1)
	go func() {
		for run := range jobs {
			func() {
				defer func() { panics <- recover() }()
				run()
			}()
		}
	}()
	defer close(jobs)
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1),
			WithExecutor(func(run func()) error { jobs <- run; return nil }))
		for range 2 {
			_, err := timer.AfterFunc(0, nop)
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, usedOutside, <-panics)
		require.Len(t, timer.Stop(), 2)
	})
}

// An executor is stuck, and very many tasks wait for it. At most maxSubmits calls of submit block, the worker goes idle, and
// the timer's own tasks are on time. Once the worker looked through all that waited at each tick.
func TestExecutorThatIsStuck(t *testing.T) {
	const n, tick = 100_000, time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var submits, ran atomic.Int64
		timer := newTimer(t, WithTick(tick), WithExecutor(func(run func()) error {
			submits.Add(1)
			<-release
			run()
			return nil
		}))
		for range n {
			if _, err := timer.AfterFunc(0, func() { ran.Add(1) }); err != nil {
				t.Fatal(err)
			}
		}
		pass(10 * tick)
		require.EqualValues(t, maxSubmits, submits.Load())
		require.Equal(t, maxSubmits, timer.executor.Goroutines())
		require.Equal(t, maxSubmits, timer.Stats().Runners)
		require.Equal(t, n, timer.Pending())
		pass(settled) // for the nurseries that have grown
		require.EqualValues(t, resting, timer.worker.state.Load())
		start := time.Now()
		require.NoError(t, timer.Sleep(t.Context(), 5*tick))
		require.Equal(t, 5*tick, time.Since(start))
		close(release)
		pass(tick)
		require.EqualValues(t, n, ran.Load())
		require.EqualValues(t, n, submits.Load())
	})
}

// An exitingHandler is the handler of a logger. It ends the goroutine, as one does that calls t.FailNow.
type exitingHandler struct{ slog.Handler }

func (exitingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (exitingHandler) Handle(context.Context, slog.Record) error { runtime.Goexit(); return nil }

// The executor panics, and the logger that reports this ends the goroutine by runtime.Goexit. The task still runs, and
// its turn is free again. Once both were lost.
func TestLoggerExitsInSubmit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		submits := 0
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), WithLogger(slog.New(exitingHandler{slog.DiscardHandler})),
			WithExecutor(func(run func()) error {
				if submits++; submits == 1 {
					panic("once")
				}
				go run()
				return nil
			}))
		start := time.Now()
		var fired moments
		for range 3 {
			_, err := timer.AfterFunc(0, fired.Note)
			require.NoError(t, err)
		}
		pass(tick)
		require.Equal(t, []time.Duration{tick, tick, tick}, fired.Since(start))
		require.EqualValues(t, 1, timer.Stats().Unsubmitted)
	})
}

// byLabels returns the stacks of all goroutines by their labels, in the format of the profile. The empty string stands
// for goroutines without labels.
func byLabels(t *testing.T) map[string][]string {
	t.Helper()
	var profile bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	all := make(map[string][]string)
	for group := range strings.SplitSeq(profile.String(), "\n\n") {
		labels := ""
		for line := range strings.Lines(group) {
			if after, ok := strings.CutPrefix(line, "# labels: "); ok {
				labels = strings.TrimSpace(after)
			}
		}
		all[labels] = append(all[labels], group)
	}
	return all
}

// requireLabels fails unless there are goroutines with the function on their stacks, and all of them have these
// labels.
func requireLabels(t *testing.T, function, want string) {
	t.Helper()
	found := 0
	for labels, stacks := range byLabels(t) {
		if slices.ContainsFunc(stacks, func(stack string) bool { return strings.Contains(stack, function) }) {
			require.Equal(t, want, labels, "of %s", function)
			found++
		}
	}
	require.Equal(t, 1, found, function)
}

func labelsOf(name, role string) string {
	return `{"hashedwheel":"` + name + `", "hashedwheel.role":"` + role + `"}`
}

// blocked is a task that waits until it is closed.
type blocked chan struct{}

func (b blocked) Run(*Timeout) { <-b }

// The worker, runners, and goroutines that notify a Canceler or submit to an executor have labels of their own, not
// those of the goroutine that started them.
func TestGoroutinesHaveTheirOwnLabels(t *testing.T) {
	for name, opts := range map[string][]Option{
		"timer":    nil,
		"executor": {WithExecutor(func(func()) error { return errors.New("full") }), WithName("executor")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(time.Millisecond))...)
				release := make(blocked)
				pprof.Do(t.Context(), pprof.Labels("user", "somebody"), func(context.Context) {
					_, err := timer.NewTimeout(release, 0)
					require.NoError(t, err)
					_, err = timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
					to, err := timer.NewTimeout(&CancelCounter{Block: func() { <-release }}, time.Hour)
					require.NoError(t, err)
					require.True(t, to.Cancel())
				})
				pass(10 * time.Millisecond)
				timer.worker.mu.Lock() // so that a round cannot end
				pprof.Do(t.Context(), pprof.Labels("user", "somebody"), func(context.Context) { timer.worker.wakeNow() })
				for len(byLabels(t)[labelsOf(name, "worker")]) == 0 {
					runtime.Gosched()
				}
				requireLabels(t, "(*worker).run", labelsOf(name, "worker"))
				timer.worker.mu.Unlock()
				requireLabels(t, "blocked.Run", labelsOf(name, "runner"))
				requireLabels(t, "(*CancelCounter).Canceled", labelsOf(name, "runner"))
				for labels := range byLabels(t) {
					require.NotContains(t, labels, "somebody")
				}
				close(release)
			})
		})
	}
}

// If a task exits its goroutine, the goroutine that continues for the runner has the labels too.
func TestLabelsAfterGoexit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithName("exits"), WithMaxConcurrency(1))
		for range 3 {
			_, err := timer.AfterFunc(0, func() {
				pprof.SetGoroutineLabels(context.Background())
				runtime.Goexit()
			})
			require.NoError(t, err)
		}
		pass(10 * time.Millisecond)
		release := make(blocked)
		_, err := timer.NewTimeout(release, 0)
		require.NoError(t, err)
		pass(10 * time.Millisecond)
		requireLabels(t, "blocked.Run", labelsOf("exits", "runner"))
		close(release)
	})
}

// A goroutine that an executor starts in submit may be used for other work later, so it has no labels. A task that the
// executor does not take, because of an error or a panic, runs with the labels of the timer.
func TestExecutorHasNoLabels(t *testing.T) {
	for name, c := range map[string]struct {
		submit func(func()) error
		want   string
	}{
		"starts":  {func(run func()) error { go run(); return nil }, ""},
		"refuses": {func(func()) error { return errors.New("full") }, labelsOf("x", "runner")},
		"panics":  {func(func()) error { panic("on purpose") }, labelsOf("x", "runner")},
		"exits":   {func(func()) error { runtime.Goexit(); return nil }, labelsOf("x", "runner")},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				option, _ := logged()
				timer := newTimer(t, WithTick(time.Millisecond), WithName("x"), WithExecutor(c.submit), option)
				release := make(blocked)
				defer close(release)
				_, err := timer.NewTimeout(release, 0)
				require.NoError(t, err)
				pass(10 * time.Millisecond)
				requireLabels(t, "blocked.Run", c.want)
			})
		})
	}
}

// However a task changes the labels of its goroutine, the next task on it starts with the labels of the timer.
func TestLabelsThatATaskLeaves(t *testing.T) {
	somebody := pprof.WithLabels(t.Context(), pprof.Labels("user", "somebody"))
	leave := []func(){
		func() { pprof.SetGoroutineLabels(somebody) },
		func() { pprof.Do(somebody, pprof.Labels("more", "yes"), func(context.Context) {}) },
		func() { pprof.Do(somebody, pprof.Labels("more", "yes"), func(context.Context) { panic("on purpose") }) },
		func() { pprof.SetGoroutineLabels(somebody); runtime.Goexit() },
		func() { pprof.SetGoroutineLabels(context.Background()) },
	}
	for name, opts := range map[string][]Option{
		"no limit": nil,
		"one":      {WithMaxConcurrency(1)},
		"refused":  {WithMaxConcurrency(1), WithExecutor(func(func()) error { return errors.New("full") })},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(time.Millisecond), WithName("left"),
					WithPanicHandler(func(*Timeout, any, []byte) {}))...)
				var mu sync.Mutex
				var found []string
				const rounds = 4
				for range rounds { // all tasks of a round come due together
					for _, f := range leave {
						_, err := timer.AfterFunc(0, func() {
							mu.Lock()
							found = append(found, labelsOfCaller(t))
							mu.Unlock()
							f()
						})
						require.NoError(t, err)
					}
					pass(time.Millisecond)
				}
				want := slices.Repeat([]string{labelsOf("left", "runner")}, rounds*len(leave))
				require.Equal(t, want, found)
			})
		})
	}
}

// labelsOfCaller returns the labels of the calling goroutine. No other goroutine may call it at the same time.
func labelsOfCaller(t *testing.T) (found string) {
	for labels, stacks := range byLabels(t) {
		if slices.ContainsFunc(stacks, func(stack string) bool { return strings.Contains(stack, "labelsOfCaller") }) {
			found += labels
		}
	}
	return found
}

// Must returns the timer of New, or panics with its error.
func TestMust(t *testing.T) {
	timer := Must(New(WithTick(time.Second)))
	defer timer.Stop()
	require.Equal(t, time.Second, timer.Tick())
	_, err := New(WithTick(0))
	require.PanicsWithError(t, err.Error(), func() { Must(New(WithTick(0))) })
}
