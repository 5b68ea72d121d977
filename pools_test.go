package hashedwheel

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// blockOne arms a task for the next tick that blocks until the channel is closed.
func blockOne(t *testing.T, timer *Timer) (release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	_, err := timer.AfterFunc(0, func() { <-release })
	require.NoError(t, err)
	return release
}

// All tasks that are due with a thousand tasks that block, or after them, start within two ticks. Runners that
// are not in a task end.
func TestBlockedTasksDelayNoOther(t *testing.T) {
	for _, tick := range []time.Duration{16, time.Millisecond, 10 * time.Millisecond, time.Second} {
		for _, blocked := range []int{1, 50, 1000} {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithWheelSize(8))
				r := newRand(t)
				release := make(chan struct{})
				var ran, late atomic.Int64
				others := 0
				arm := func(delay time.Duration) {
					others++
					due := time.Now().Add(max(delay, tick))
					_, err := timer.AfterFunc(delay, func() {
						ran.Add(1)
						if time.Since(due) > 2*tick {
							late.Add(1)
						}
					})
					require.NoError(t, err)
				}
				for i := range blocked + 300 {
					if i%(blocked+300) < blocked {
						_, err := timer.AfterFunc(tick, func() { <-release })
						require.NoError(t, err)
					}
					if r.IntN(2) == 0 {
						arm(tick)
					}
				}
				for n := range 20 {
					arm(time.Duration(n) * tick)
				}
				pass(30 * tick)
				require.EqualValues(t, others, ran.Load())
				require.Zero(t, late.Load())
				live := runnersOf(timer)
				require.Equal(t, blocked, live)

				// Later tasks do not wait at all, because all live runners are in tasks, and so one more starts.
				start := time.Now()
				var fired moments
				_, err := timer.AfterFunc(5*tick, fired.Note)
				require.NoError(t, err)
				pass(5 * tick)
				require.Equal(t, []time.Time{start.Add(5 * tick)}, fired.All())

				close(release)
				synctest.Wait()
				live = runnersOf(timer)
				require.Zero(t, live)
				require.Zero(t, timer.Stats().Running)
				pass(max(2*tick, settled)) // for the nurseries too
				require.EqualValues(t, resting, timer.worker.state.Load())
			})
		}
	}
}

// With a limit of n, never more than n tasks run at the same time, and n do while enough are due.
func TestMaxConcurrency(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 100} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(limit))
			start := time.Now()
			var running, most atomic.Int64
			const tasks = 250
			for range tasks {
				_, err := timer.AfterFunc(0, func() {
					n := running.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(time.Second)
					running.Add(-1)
				})
				require.NoError(t, err)
			}
			pass(500 * time.Millisecond)
			require.EqualValues(t, limit, running.Load())
			require.Equal(t, tasks-limit, timer.Pending())
			require.Equal(t, limit, timer.Stats().Running)

			rounds := time.Duration((tasks + limit - 1) / limit)
			pass(time.Until(start.Add(rounds*time.Second + 2*time.Millisecond))) // the runners start within a tick
			require.Zero(t, timer.Pending())
			require.Zero(t, running.Load())
			require.EqualValues(t, limit, most.Load())
			live := runnersOf(timer)
			require.Zero(t, live)
		})
	}
}

// A timeout that waits for its turn is pending. After it is canceled or reset, nothing keeps it.
func TestWaitingForATurn(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		release := blockOne(t, timer)
		pass(tick)

		var fired moments
		var canceled []weak.Pointer[Timeout]
		for range 100 {
			to, err := timer.AfterFunc(0, fired.Note)
			require.NoError(t, err)
			canceled = append(canceled, weak.Make(to))
		}
		moved, err := timer.AfterFunc(0, fired.Note)
		require.NoError(t, err)
		waiting, err := timer.AfterFunc(0, fired.Note)
		require.NoError(t, err)
		pass(3 * tick)
		require.Equal(t, 102, timer.Pending())

		for _, p := range canceled {
			require.True(t, p.Value().Cancel())
		}
		active, err := moved.Reset(10 * tick)
		require.NoError(t, err)
		require.True(t, active)
		pass(2 * tick)
		runtime.GC()
		for _, p := range canceled {
			require.Nil(t, p.Value())
		}
		require.Equal(t, 2, timer.Pending())
		require.False(t, waiting.IsExpired())

		released := time.Now()
		close(release)
		pass(time.Second)
		require.Equal(t, []time.Time{released, moved.Deadline()}, fired.All())
	})
}

// If tasks wait for their turn or for an executor, the timer does not keep a canceled timeout alive. This holds
// if it was handed over in the same tick, if it was reset to a far deadline before, and while a job is being
// submitted.
func TestWaitingOnesAreReleased(t *testing.T) {
	const tick = time.Millisecond
	arm := func(t *testing.T, timer *Timer) (*Timeout, weak.Pointer[Timeout]) {
		to, err := timer.AfterFunc(tick, nop)
		require.NoError(t, err)
		return to, weak.Make(to)
	}
	released := func(t *testing.T, p weak.Pointer[Timeout]) {
		t.Helper()
		pass(2 * tick)
		runtime.GC()
		require.Nil(t, p.Value())
	}
	block := func(release chan struct{}) func(func()) error {
		return func(func()) error { <-release; return nil }
	}
	for _, opts := range []func(chan struct{}) []Option{
		func(chan struct{}) []Option { return []Option{WithMaxConcurrency(1)} },
		func(chan struct{}) []Option { return []Option{WithExecutor(new(testkit.Executor).Submit)} },
		func(release chan struct{}) []Option { return []Option{WithExecutor(block(release))} },
	} {
		for _, reset := range []bool{false, true} {
			virtual(t, func(t *testing.T) {
				release := make(chan struct{})
				timer := newTimer(t, append(opts(release), WithTick(tick))...)
				_, err := timer.AfterFunc(0, func() { <-release })
				require.NoError(t, err)
				pass(tick)
				func() {
					to, p := arm(t, timer)
					pass(tick) // the worker hands it over
					if reset {
						pass(5 * tick)
						_, err := to.Reset(time.Hour)
						require.NoError(t, err)
						pass(5 * tick)
					}
					require.True(t, to.Cancel())
					to = nil
					released(t, p)
				}()
				close(release)
				timer.Stop()
				synctest.Wait()
			})
		}
	}
}

// A runner that has run many tasks may be stuck in one of them. It does not delay the other timeouts, and keeps none of them
// alive.
func TestStuckRunnerKeepsNothing(t *testing.T) {
	const n = 1024
	for _, blocked := range []int64{1, 8, 500, n} {
		virtual(t, func(t *testing.T) {
			const tick = time.Millisecond
			timer := newTimer(t, WithTick(tick))
			timer.tasks.Procs = 1 // one runner
			release := make(chan struct{})
			var begun, ended atomic.Int64
			var held []weak.Pointer[Timeout]
			for range n {
				to, err := timer.AfterFunc(5*tick, func() { // when nothing else is due
					if begun.Add(1) == blocked {
						<-release
					}
					ended.Add(1)
				})
				require.NoError(t, err)
				held = append(held, weak.Make(to))
			}
			pass(7 * tick)
			require.EqualValues(t, n-1, ended.Load())
			require.Zero(t, timer.Pending())
			runtime.GC()
			kept := 0
			for _, p := range held {
				if p.Value() != nil {
					kept++
				}
			}
			require.Equal(t, 1, kept)
			require.Equal(t, 1, runnersOf(timer))
			close(release)
			synctest.Wait()
		})
	}
}

// When tasks wait for their turn, the oldest come first, whatever comes due later. In one case the limit is two,
// and a blocked task takes one of the turns. In the other case the executor has one goroutine.
func TestOldestComeFirst(t *testing.T) {
	const tick = time.Millisecond
	for name, opts := range map[string]func(work chan func()) []Option{
		"limit": func(chan func()) []Option { return []Option{WithMaxConcurrency(2)} },
		"executor": func(work chan func()) []Option {
			return []Option{WithExecutor(func(run func()) error { work <- run; return nil })}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				work := make(chan func(), 10_000)
				go func() {
					for run := range work {
						run()
					}
				}()
				defer close(work)
				timer := newTimer(t, append(opts(work), WithTick(tick))...)
				release := make(chan struct{})
				if name == "limit" {
					_, err := timer.AfterFunc(0, func() { <-release })
					require.NoError(t, err)
					pass(2 * tick)
				}
				const old = 50
				var ran []int
				for i := range 20 * old { // fifty at the first tick, then one at each tick
					_, err := timer.AfterFunc(max(0, time.Duration(i-old+2)*tick), func() {
						ran = append(ran, i)
						time.Sleep(tick)
					})
					require.NoError(t, err)
				}
				pass(30 * old * tick)
				require.Len(t, ran, 20*old)
				for n, i := range ran {
					require.Equal(t, n < old, i < old, "task %d was the %dth to run", i, n)
				}
				close(release)
				_, err := timer.Shutdown(t.Context())
				require.NoError(t, err)
			})
		})
	}
}

// Whatever a task does to its goroutine, the others that are due with it run at the same tick, and tasks of later
// ticks run on time.
func TestTaskThatDoesNotReturn(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		task   func()
		panics uint64
		value  func(v any) bool
	}{
		{"panic", func() { panic(boom) }, 1, func(v any) bool { return v == any(boom) }},
		{"panic(nil)", func() { panic(nil) }, 1, func(v any) bool { _, ok := v.(*runtime.PanicNilError); return ok }},
		{"runtime error", func() { var none []int; none[len(os.Args)]++ }, 1, func(v any) bool { _, ok := v.(runtime.Error); return ok }},
		{"Goexit", runtime.Goexit, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				var bad *Timeout
				var reported atomic.Int64
				timer := newTimer(t, WithTick(time.Millisecond), WithPanicHandler(func(to *Timeout, value any, stack []byte) {
					reported.Add(1)
					assert.Same(t, bad, to)
					assert.True(t, c.value(value), "%#v", value)
					assert.Contains(t, string(stack), "TestTaskThatDoesNotReturn")
				}))
				start := time.Now()
				var fired moments
				arm := func(delay time.Duration, f func()) *Timeout {
					to, err := timer.AfterFunc(delay, f)
					require.NoError(t, err)
					return to
				}
				arm(time.Millisecond, fired.Note)
				bad = arm(time.Millisecond, c.task)
				arm(time.Millisecond, fired.Note)
				arm(2*time.Millisecond, fired.Note)
				pass(time.Second)
				first := start.Add(time.Millisecond)
				require.Equal(t, []time.Time{first, first, first.Add(time.Millisecond)}, fired.All())
				require.EqualValues(t, c.panics, reported.Load())
				require.True(t, bad.IsExpired())
				require.Equal(t, Stats{Accepted: 4, Expired: 4, Panics: c.panics}, outcomes(timer))
			})
		})
	}
}

// A panic handler that ends its goroutine does not delay other tasks either.
func TestPanicHandlerExits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithPanicHandler(func(*Timeout, any, []byte) { runtime.Goexit() }))
		var ran atomic.Int64
		for i := range 5 {
			_, err := timer.AfterFunc(0, func() {
				ran.Add(1)
				panic(i)
			})
			require.NoError(t, err)
		}
		pass(time.Millisecond)
		require.EqualValues(t, 5, ran.Load())
		require.Equal(t, Stats{Accepted: 5, Expired: 5, Panics: 5}, outcomes(timer))
	})
}

// A panic handler that panics crashes the program, and the output has both values.
func TestPanicHandlerPanics(t *testing.T) {
	var how = map[string][]Option{
		"runner":          nil,
		"executor":        {WithExecutor(func(run func()) error { go run(); return nil })},
		"executor inline": {WithExecutor(func(run func()) error { run(); return nil })},
		"executor fails":  {WithExecutor(func(func()) error { return os.ErrInvalid })},
	}
	if opts, ok := how[os.Getenv("HASHEDWHEEL_CRASH")]; ok {
		timer := newTimer(t, append(opts, WithTick(time.Millisecond), WithPanicHandler(func(*Timeout, any, []byte) { panic("second") }))...)
		_, err := timer.AfterFunc(0, func() { panic("first") })
		require.NoError(t, err)
		time.Sleep(time.Minute) // until the crash
		return
	}
	for name := range how {
		out := runToCrash(t, name)
		require.Contains(t, out, "panic: first [recovered]", name)
		require.Contains(t, out, "panic: second", name)
	}
}

// runToCrash runs the calling test in another process, which must crash, and returns the output of that process.
func runToCrash(t *testing.T, how string) string {
	needsProcesses(t)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "HASHEDWHEEL_CRASH="+how)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("needs to start itself: this system does not know the emulator under which it runs")
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, how)
	require.Equal(t, 2, exit.ExitCode(), how)
	return string(out)
}

// The handler in the documentation of WithPanicHandler crashes the program as a panic in a goroutine does. The
// output has the value and the stack of the task.
func TestPanicHandlerPanicsAgain(t *testing.T) {
	if os.Getenv("HASHEDWHEEL_CRASH") == "again" {
		timer := newTimer(t, WithTick(time.Millisecond), WithPanicHandler(func(_ *Timeout, v any, _ []byte) { panic(v) }))
		_, err := timer.AfterFunc(0, watchdogBites)
		require.NoError(t, err)
		time.Sleep(time.Minute) // until the crash
		return
	}
	out := runToCrash(t, "again")
	require.Contains(t, out, "panic: it hangs")
	require.Contains(t, out, "hashedwheel.watchdogBites(")
}

func watchdogBites() { panic("it hangs") }

// Methods may be called from inside a task.
func TestMethodsInsideATask(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		runs := 0
		other, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		_, err = timer.NewTimeout(TaskFunc(func(to *Timeout) {
			runs++
			assert.True(t, to.IsExpired())
			assert.False(t, to.IsCanceled())
			assert.False(t, to.Cancel())
			assert.Equal(t, 1, timer.Stats().Running)
			assert.NotEmpty(t, to.String())
			switch runs {
			case 1, 2, 3:
				active, err := to.Reset(0)
				assert.False(t, active)
				assert.NoError(t, err)
				assert.Equal(t, 2, timer.Pending())
			case 4:
				active, err := other.Reset(time.Minute)
				assert.True(t, active)
				assert.NoError(t, err)
				assert.True(t, other.Cancel())
				_, err = timer.AfterFunc(0, func() { runs++ })
				assert.NoError(t, err)
				assert.Len(t, timer.Stop(), 1)
				assert.True(t, timer.IsStopped())
			}
		}), 0)
		require.NoError(t, err)
		pass(time.Second)
		require.Equal(t, 4, runs)
		require.Equal(t, Stats{Accepted: 6, Expired: 4, Canceled: 1, Returned: 1}, outcomes(timer))
	})
}

// While the execution trace is on, each task is a region with the name of the timer, and the trace has the name of the
// task. A panic, a Goexit and the task of a Sleep end their regions too. The test runs on real time.
func TestTrace(t *testing.T) {
	needsProcesses(t)
	if testing.Short() && !full() {
		t.Skip("go tool trace takes longer than most tests: runs without -short")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to read the trace")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "trace"))
	require.NoError(t, err)
	defer file.Close()
	option := WithPanicHandler(func(*Timeout, any, []byte) {})
	timer := newTimer(t, WithTick(time.Millisecond), WithName("rpc"), option)
	all := func() {
		var ran sync.WaitGroup
		ran.Add(3)
		for _, end := range []func(){nop, runtime.Goexit, func() { panic("on purpose") }} {
			_, err := NewGroup(timer).NewTimeout(TaskFunc(func(*Timeout) { defer ran.Done(); end() }), 0)
			require.NoError(t, err)
		}
		require.NoError(t, timer.Sleep(t.Context(), time.Millisecond))
		ran.Wait()
	}
	all()
	if err := trace.Start(file); err != nil {
		t.Skip(err) // go test -trace
	}
	all()
	_, err = timer.Shutdown(t.Context())
	trace.Stop()
	require.NoError(t, err)
	out, err := exec.Command(goCommand, "tool", "trace", "-d=parsed", file.Name()).Output()
	require.NoError(t, err)
	count := func(pattern string) int { return len(regexp.MustCompile(pattern).FindAll(out, -1)) }
	require.Equal(t, 4, count(`RegionBegin .*Type="hashedwheel: rpc"`))
	require.Equal(t, 4, count(`RegionEnd .*Type="hashedwheel: rpc"`))
	require.Equal(t, 3, count(`Log .*Category="task" Message="hashedwheel.TestTrace.func`))
	require.Equal(t, 1, count(`Log .*Category="task" Message="hashedwheel.sleeper"`))
}

// A task, or a Canceled, that calls runtime.Goexit ends its goroutine. So what it has set there does not affect the next one.
func TestGoexitLeavesNothingBehind(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1))
		var calls, set atomic.Int32
		f := func() {
			calls.Add(1)
			if debug.SetPanicOnFault(true) {
				set.Add(1)
			}
			runtime.Goexit()
		}
		for range 3 {
			_, err := timer.AfterFunc(0, f)
			require.NoError(t, err)
			to, err := timer.NewTimeout(&CancelCounter{Block: f}, time.Hour)
			require.NoError(t, err)
			require.True(t, to.Cancel())
		}
		pass(time.Second)
		require.EqualValues(t, 6, calls.Load())
		require.Zero(t, set.Load())
	})
}
