package pool

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// executor has submit run the tasks of the pool. The panics of submit go to h.panicked too, and are counted.
func (h *fake) executor(submit func(run func()) error) *Executor[*task] {
	tick := h.pool.interval * checksPerTick
	calls := new(Calls)
	calls.Init(tick)
	return NewExecutor(&h.pool, calls, tick, submit, func() {}, func(value any, stack []byte) {
		h.checkLocks()
		h.panics.Add(1)
		if h.panicked != nil {
			h.panicked(value, stack)
		}
	})
}

// Rows of the table in executor.go: when a job has ended, in any way, there is room for one more job, and not for two. A
// call after the first has no effect, and nor has a call when no item waits.
func TestExecutorCountsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e testkit.Executor
		h := newFake(t, time.Millisecond)
		h.pool.Limit, h.fed = 1, true
		h.executor(e.Submit)
		h.addFunc(1, nil)
		synctest.Wait()
		require.Equal(t, 1, h.runners())
		job := e.Take()[0]
		job()
		job()
		require.Zero(t, h.runners())

		w := h.addFunc(1, nil)[0]
		synctest.Wait()
		job = e.Take()[0]
		require.True(t, h.remove(w))
		synctest.Wait()
		require.Equal(t, 1, h.runners(), "the executor still has the job")
		job()
		require.Zero(t, h.runners())

		for _, end := range []func(){func() { panic("task") }, runtime.Goexit} {
			h.addFunc(2, end)
			for range 2 {
				synctest.Wait()
				held := e.Take()
				require.Len(t, held, 1)
				go held[0]()
			}
			synctest.Wait()
			require.Empty(t, e.Take())
			require.Zero(t, h.runners())
		}
	})
}

// Rows of the table in executor.go: submit calls the function, sooner or later. Each task runs once, and in time if submit
// is.
func TestSubmitCalls(t *testing.T) {
	for name, c := range map[string]struct {
		submit func(run func()) error
		last   time.Duration // when the last task starts
	}{
		"on another goroutine": {func(run func()) error { go run(); return nil }, 0},
		"inline":               {func(run func()) error { run(); return nil }, 2 * time.Millisecond},
		"late":                 {func(run func()) error { time.AfterFunc(time.Minute, run); return nil }, time.Minute},
		"blocks, and late": {func(run func()) error { time.Sleep(time.Minute); go run(); return nil },
			time.Minute + 2*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFake(t, time.Millisecond)
				x := h.executor(c.submit)
				start := time.Now()
				var begun moments
				h.addFunc(maxSubmits, func() {
					begun.note()
					time.Sleep(time.Second)
				})
				pass(time.Hour)
				all := begun.since(start)
				require.Len(t, all, maxSubmits)
				require.LessOrEqual(t, all[maxSubmits-1], c.last)
				require.Zero(t, h.runners())
				require.Zero(t, x.Goroutines())
				require.Zero(t, x.Unsubmitted())
			})
		})
	}
}

// Rows of the table in executor.go: if submit refuses, panics or ends its goroutine, each task runs once, on a goroutine
// of calls if submit has not run it. With a limit, none of this takes the room of a task for ever. The same holds if submit
// fails after it has started the function on another goroutine, or calls it twice.
func TestSubmitFails(t *testing.T) {
	for name, c := range map[string]struct {
		submit func(run func()) error
		taken  bool // submit has run the function
		panics int
	}{
		"error":             {func(func()) error { return errors.New("full") }, false, 0},
		"error, but ran":    {func(run func()) error { run(); return errors.New("full") }, true, 0},
		"error, and later":  {func(run func()) error { time.AfterFunc(time.Second, run); return errors.New("full") }, false, 0},
		"panic":             {func(func()) error { panic("closed") }, false, 1},
		"panic after start": {func(run func()) error { go run(); time.Sleep(time.Millisecond); panic("closed") }, true, 1},
		"Goexit":            {func(func()) error { runtime.Goexit(); return nil }, false, 0},
		"twice":             {func(run func()) error { run(); go run(); run(); return nil }, true, 0},
	} {
		for _, limit := range []int{0, 1, 3} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newFake(t, time.Millisecond)
					h.pool.Limit = limit
					x := h.executor(c.submit)
					h.panicked = func(value any, _ []byte) {
						assert.Equal(t, "closed", value)
						runtime.Goexit() // as a logger may do that calls t.FailNow
					}
					h.addFunc(20, func() { time.Sleep(10 * time.Millisecond) })
					pass(time.Minute)
					require.Len(t, h.order(), 20)
					require.EqualValues(t, 20*c.panics, h.panics.Load())
					require.Zero(t, h.runners())
					require.Zero(t, x.Goroutines())
					if c.taken {
						require.Zero(t, x.Unsubmitted())
					} else {
						require.EqualValues(t, 20, x.Unsubmitted())
					}
				})
			})
		}
	}
}

// A row of the table in executor.go: submit calls the function inline, and the task ends the goroutine. Each task runs
// once, at once, and with a limit there is room for the next. No function counts as refused.
func TestTaskEndsSubmit(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("task") }, "Goexit": runtime.Goexit} {
		for _, limit := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newFake(t, time.Millisecond)
					h.pool.Limit = limit
					x := h.executor(func(run func()) error { run(); return nil })
					all := h.addFunc(20, end)
					told := &task{f: end, next: func() bool { return false }}
					h.add(told)
					synctest.Wait()
					require.ElementsMatch(t, append(all, told), h.order())
					require.Equal(t, over, told.is())
					require.Zero(t, h.runners())
					require.Zero(t, x.Goroutines())
					require.Zero(t, x.Unsubmitted())
				})
			})
		}
	}
}

// A row of the table in executor.go: if a panic handler panics in a job that runs inside submit, the panic passes through.
// If the executor recovers it, the next tasks run.
func TestHandlerPanicsInSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		h.pool.Limit = 1
		h.panicked = func(any, []byte) { panic("handler") }
		h.executor(func(run func()) error {
			assert.PanicsWithValue(t, "handler", run)
			return nil
		})
		told := 0
		h.add(&task{f: func() { panic("task") }, next: func() bool { told++; return told < 3 }})
		synctest.Wait()
		require.Equal(t, 3, told)
		require.Zero(t, h.runners())
	})
	x := &Executor[*task]{calls: new(Calls), submit: func(func()) error { panic("handler") }}
	x.calls.Init(time.Millisecond)
	j := &job[*task]{executor: x}
	j.state.Store(crashed)
	require.PanicsWithValue(t, "handler", j.give, "submit passes the panic of its job on")
	<-x.calls.UntilIdle()
}

// A row of the table in executor.go: if submit blocks for one task, it does not delay other tasks.
func TestExecutorThatBlocks(t *testing.T) {
	const tick = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, tick)
		var submitted atomic.Int64
		h.executor(func(run func()) error {
			if submitted.Add(1)%2 == 1 {
				time.Sleep(time.Second)
			}
			go run()
			return nil
		})
		start := time.Now()
		var begun moments
		h.addFunc(100, begun.note)
		pass(2 * time.Second)
		all := begun.since(start)
		require.Len(t, all, 100)
		require.LessOrEqual(t, all[49], 2*tick)
		require.LessOrEqual(t, all[99], time.Second+2*tick)
	})
}

// With a limit, the executor has no more functions at a time than may run.
func TestExecutorWithMaxConcurrency(t *testing.T) {
	for _, limit := range []int{-1, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			h := newFake(t, time.Millisecond)
			h.pool.Limit = limit
			h.executor(func(run func()) error {
				assert.LessOrEqual(t, h.runners(), limit)
				go run()
				return nil
			})
			start := time.Now()
			var begun moments
			h.addFunc(30, func() {
				begun.note()
				time.Sleep(time.Second)
			})
			pass(time.Minute)
			var want []time.Duration
			for second := time.Duration(0); limit > 0 && len(want) < 30; second++ {
				want = append(want, times(limit, second*time.Second)...)
			}
			require.Equal(t, want, begun.since(start))
		})
	}
}

// A function that submit has refused counts once toward the limit, not twice.
func TestRefusedCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		h.pool.Limit = 2
		h.executor(func(func()) error { return errors.New("no") })
		release := make(chan struct{})
		defer close(release)
		h.addFunc(1, func() { <-release })
		synctest.Wait()
		h.addFunc(1, nil)
		pass(2 * time.Millisecond) // the goroutine of calls is in the first task
		require.EqualValues(t, 2, h.claims.Load())
		require.EqualValues(t, 1, h.active.Load())
	})
}

// A row of the table in executor.go: submit never calls a function. Then a task waits until another one is added, although
// the task that the function was meant for is removed. With a limit, it waits until Close returns it.
func TestSubmitNeverCalls(t *testing.T) {
	for _, limit := range []int{0, 1} {
		for _, removed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var e testkit.Executor
				h := newFake(t, time.Millisecond)
				h.pool.Limit, h.fed = limit, true
				h.executor(e.Submit)
				first := h.addFunc(1, nil)[0]
				synctest.Wait()
				require.Len(t, e.Take(), 1, "and forgets it")
				want := []*task{first}
				if removed {
					require.True(t, h.remove(first))
					want = h.addFunc(1, nil)
				}
				pass(time.Hour)
				require.Empty(t, e.Take())
				want = append(want, h.addFunc(1, nil)...)
				synctest.Wait()
				if limit == 1 {
					require.Zero(t, e.RunAll())
				} else {
					require.Equal(t, 1, e.RunAll())
					require.Equal(t, want[:1], h.order(), "the one that has waited longest")
					want = want[1:]
				}
				pass(time.Hour)
				require.Zero(t, e.RunAll())
				require.Equal(t, want, h.close())
			})
		}
	}
}

// Rows of the table in executor.go. An executor that takes everything is given a function for each task at once, although at
// most maxSubmits calls of submit are in progress at a time. If submit is stuck, all other tasks wait on the list, and
// Close returns them. Close does not wait for submit, and nor does UntilIdle. A function that is called after Close does
// nothing.
func TestExecutorIsGivenAll(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const n = 10 * maxSubmits
			var e testkit.Executor
			release := make(chan struct{})
			h := newFake(t, time.Millisecond)
			x := h.executor(func(run func()) error {
				if stuck {
					<-release
				}
				return e.Submit(run)
			})
			h.addFunc(n, nil)
			pass(time.Second)
			if stuck {
				require.Equal(t, maxSubmits, x.Goroutines())
				require.Equal(t, maxSubmits, h.runners())
				_, goroutines := h.pool.Running()
				require.Zero(t, goroutines)
				require.Len(t, h.close(), n)
				<-h.pool.UntilIdle()
				close(release)
				synctest.Wait()
				require.Equal(t, maxSubmits, e.RunAll(), "no more are submitted after Close")
				require.Zero(t, h.claims.Load())
				return
			}
			require.Equal(t, n, h.pool.Waiting())
			held := e.Take()
			require.Len(t, held, n)
			for i, run := range held {
				run()
				require.EqualValues(t, i+1, h.claims.Load())
			}
			synctest.Wait()
			require.Zero(t, e.RunAll())
			require.EqualValues(t, n, h.claims.Load())
			close(release)
		})
	}
}

// Very many tasks that do little need few goroutines beside those of the executor, which is given one function for
// each task. Once there was a goroutine for each of them, and the time grew with the square of their number. The test
// runs on real time.
func TestExecutorOfManyTasks(t *testing.T) {
	for name, room := range map[string]int{"never blocks": 1 << 20, "blocks": 1024} {
		t.Run(name, func(t *testing.T) {
			n := int64(sized(20_000, 100_000, 1_000_000))
			work := make(chan func(), room)
			for range 2 {
				go func() {
					for run := range work {
						run()
					}
				}()
			}
			defer close(work)
			h := newFake(t, 50*time.Millisecond)
			h.blind, h.fed = true, true
			before := runtime.NumGoroutine()
			var submits, ran, most atomic.Int64
			h.executor(func(run func()) error {
				submits.Add(1)
				work <- run
				return nil
			})
			done := make(chan struct{})
			h.addFunc(int(n), func() {
				switch i := ran.Add(1); {
				case i == n:
					close(done)
				case i%1000 == 0:
					most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
				}
			})
			<-done
			require.LessOrEqual(t, most.Load(), int64(before+maxSubmits+10))
			require.Equal(t, n, submits.Load())
		})
	}
}
