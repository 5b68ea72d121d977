package hashedwheel

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pool keeps the functions that are submitted until runAll runs them.
type pool struct {
	mu   sync.Mutex
	held []func()
}

func (p *pool) submit(run func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, run)
	return nil
}

// take removes the functions from the pool and returns them.
func (p *pool) take() []func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held
	p.held = nil
	return held
}

func (p *pool) runAll() (n int) {
	for _, run := range p.take() {
		run()
		n++
	}
	return n
}

// While the executor holds a task, the timeout is pending. It can be canceled, reset and returned by Stop.
func TestExecutorHoldsTasks(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		var p pool
		timer := newTimer(t, WithTick(tick), WithExecutor(p.submit))
		var fired moments
		var all []*Timeout
		for range 6 {
			to, err := timer.AfterFunc(0, fired.note)
			require.NoError(t, err)
			all = append(all, to)
		}
		runs, canceled, moved, again, runsToo, runsAlso := all[0], all[1], all[2], all[3], all[4], all[5]
		pass(10 * tick)
		held := p.take()
		require.Len(t, held, 6)
		require.Empty(t, fired.all())
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
			before := len(fired.all())
			run()
			run() // a second call has no effect
			require.LessOrEqual(t, len(fired.all()), before+1, "job %d", i)
		}
		require.Len(t, fired.all(), 3)
		require.True(t, runs.IsExpired() && runsToo.IsExpired() && runsAlso.IsExpired())

		pass(5 * tick)
		require.Equal(t, 1, p.runAll())
		require.Len(t, fired.all(), 4)
		require.True(t, moved.IsExpired())
		pass(15 * tick)
		held = p.take()
		require.Len(t, held, 1)
		require.Equal(t, []*Timeout{again}, timer.Stop())
		held[0]()
		require.Len(t, fired.all(), 4)
		require.Equal(t, Stats{Accepted: 7, Expired: 4, Canceled: 2, Returned: 1}, outcomes(timer))
	})
}

// Nothing keeps a canceled timeout alive. The function that was submitted for it runs the next due task instead.
func TestExecutorForgetsCanceled(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var p pool
		timer := newTimer(t, WithTick(time.Millisecond), WithExecutor(p.submit), WithMaxConcurrency(1))
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		_, err = timer.AfterFunc(2*time.Millisecond, nop) // a tick later, because timeouts of one tick have no order
		require.NoError(t, err)
		pass(5 * time.Millisecond)
		held := p.take()
		require.Len(t, held, 1, "one at a time")
		gone := weak.Make(to)
		require.True(t, to.Cancel())
		pass(2 * time.Millisecond)
		runtime.GC()
		require.Nil(t, gone.Value())
		held[0]()
		require.Zero(t, timer.Pending())
		pass(time.Millisecond)
		require.Zero(t, p.runAll(), "nothing is left")
		require.Zero(t, jobsOf(timer))
	})
}

// jobsOf returns how many jobs the executor has.
func jobsOf(timer *Timer) int {
	c := &timer.tasks
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hands
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
					_, err := timer.AfterFunc(0, fired.note)
					require.NoError(t, err)
				}
				pass(time.Second)
				for _, at := range fired.all() {
					require.Equal(t, time.Millisecond, at.Sub(start))
				}
				st := timer.Stats()
				require.EqualValues(t, 10, st.Expired)
				require.Zero(t, st.Running)
				require.Len(t, fired.all(), 10)
				if name == "error, but ran" {
					require.Zero(t, st.Unsubmitted, "the executor has run them")
				} else {
					require.EqualValues(t, 10, st.Unsubmitted)
				}
				require.Zero(t, reported.Load(), "no task has panicked")
				if name == "panic" {
					require.EqualValues(t, 10, st.Panics)
				}
				require.Zero(t, timer.tasks.liveRunners())
			})
		})
	}
}

// If an executor blocks for one task, it does not delay other tasks.
func TestExecutorThatBlocks(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		var submitted atomic.Int64
		timer := newTimer(t, WithTick(tick), WithExecutor(func(run func()) error {
			if submitted.Add(1)%2 == 1 {
				time.Sleep(time.Second)
			}
			go run()
			return nil
		}))
		start := time.Now()
		var fired moments
		for range 100 {
			_, err := timer.AfterFunc(0, fired.note)
			require.NoError(t, err)
		}
		pass(2 * time.Second)
		all := fired.all()
		require.Len(t, all, 100)
		require.LessOrEqual(t, all[49].Sub(start), 3*tick)
		require.LessOrEqual(t, all[99].Sub(start), time.Second+3*tick)
	})
}

// With both options, the executor has no more tasks at a time than may run.
func TestExecutorWithMaxConcurrency(t *testing.T) {
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
					ended.note()
				})
				require.NoError(t, err)
			}
			pass(time.Minute)
			all := ended.all()
			require.Len(t, all, 30)
			require.Equal(t, time.Duration(30/limit)*time.Second+time.Millisecond, all[29].Sub(start))
			require.Zero(t, jobsOf(timer))
		})
	}
}

// The test combines limits, executors of all kinds, tasks that block, panic and exit, cancels, resets, and a Shutdown
// at a random moment. Each timeout ends once, Canceled is called once for each cancellation, no limit is exceeded, and
// Shutdown returns when all tasks have ended. The test runs on real time, because it tests races.
func TestRunnersRace(t *testing.T) {
	seeds := newRand(t)
	var total Stats
	seen := func() bool { return total.Expired > 0 && total.Canceled > 0 && total.Returned > 0 }
	for end := time.Now().Add(2 * stressTime(t)); goesOn(end, seen()); {
		limit := []int{0, 1, 2, 5}[seeds.IntN(4)]
		kind := seeds.IntN(4)
		work := make(chan func(), 8)
		var workers sync.WaitGroup
		for range 2 {
			workers.Go(func() {
				for run := range work {
					run()
				}
			})
		}
		executor := []func(func()) error{
			nil,
			func(run func()) error { go run(); return nil },
			func(run func()) error {
				select {
				case work <- run:
					return nil
				default:
					return errors.New("full")
				}
			},
			func(run func()) error {
				switch rand.IntN(4) {
				case 0:
					panic("closed")
				case 1:
					run()
				case 2:
					run()
					return errors.New("too late")
				default:
					go run()
				}
				return nil
			},
		}[kind]
		timer := newTimer(t, WithTick(50*time.Microsecond), WithWheelSize(4), WithMaxConcurrency(limit),
			WithExecutor(executor), WithPanicHandler(func(*Timeout, any, []byte) {}), WithLogger(slog.New(slog.DiscardHandler)))

		var over atomic.Bool
		var running, most, armed, canceled atomic.Int64
		var all [3][400]wildTask
		var users sync.WaitGroup
		for u := range all {
			r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
			users.Go(func() {
				var handles []*Timeout
				for i := range all[u] {
					how := r.IntN(40)
					all[u][i].run = func() {
						assert.False(t, over.Load(), "a task was started after Shutdown")
						n := running.Add(1)
						defer running.Add(-1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						switch how {
						case 0:
							time.Sleep(100 * time.Microsecond)
						case 1:
							panic("task")
						case 2:
							if kind != 2 { // because Goexit would end the workers of that executor
								runtime.Goexit()
							}
						}
					}
					to, err := timer.NewTimeout(&all[u][i], time.Duration(r.IntN(300))*time.Microsecond)
					if err != nil {
						assert.ErrorIs(t, err, ErrStopped)
						return
					}
					armed.Add(1)
					handles = append(handles, to)
					if j := r.IntN(len(handles)); r.IntN(3) == 0 && handles[j].Cancel() {
						canceled.Add(1)
					}
					if r.IntN(3) == 0 {
						active, err := handles[r.IntN(len(handles))].Reset(time.Duration(r.IntN(300)) * time.Microsecond)
						if err == nil && !active {
							armed.Add(1)
						}
					}
					if r.IntN(50) == 0 {
						runtime.Gosched()
					}
				}
			})
		}
		time.Sleep(time.Duration(seeds.IntN(1500)) * time.Microsecond)
		if seeds.IntN(2) == 0 {
			users.Wait()
			for timer.Pending() > 0 { // if this never ends, the test times out
				time.Sleep(50 * time.Microsecond)
			}
		}
		left, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		users.Wait()
		_, err = timer.Shutdown(t.Context()) // waits for calls of Canceled that began meanwhile
		require.NoError(t, err)
		over.Store(true)
		close(work)
		workers.Wait()

		var ran, told int64
		for u := range all {
			for i := range all[u] {
				ran += all[u][i].ran.Load()
				told += all[u][i].told.Load()
			}
		}
		st := timer.Stats()
		require.EqualValues(t, armed.Load(), st.Accepted)
		require.EqualValues(t, ran, st.Expired)
		require.EqualValues(t, canceled.Load(), st.Canceled)
		require.EqualValues(t, len(left), st.Returned)
		require.EqualValues(t, canceled.Load()+int64(len(left)), told, "limit %d, executor %d", limit, kind)
		require.Zero(t, st.Pending)
		require.Zero(t, st.Running)
		if limit > 0 {
			require.LessOrEqual(t, most.Load(), int64(limit), "executor %d", kind)
		}
		total.Expired += st.Expired
		total.Canceled += st.Canceled
		total.Returned += st.Returned
	}
	t.Logf("%d expired, %d canceled, %d returned", total.Expired, total.Canceled, total.Returned)
	require.True(t, seen())
}

// A wildTask calls its function run.
type wildTask struct {
	run       func()
	ran, told atomic.Int64
}

func (w *wildTask) Run(*Timeout)      { w.ran.Add(1); w.run() }
func (w *wildTask) Canceled(*Timeout) { w.told.Add(1) }

// When a job has ended, in any way, there is room for one more job, and not for two.
func TestExecutorCountsJobs(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		var p pool
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), WithExecutor(p.submit))
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		pass(3 * tick)
		require.Equal(t, 1, jobsOf(timer))
		job := p.take()[0]
		job()
		job()
		synctest.Wait()
		require.Zero(t, jobsOf(timer))

		_, err = to.Reset(0)
		require.NoError(t, err)
		pass(3 * tick)
		job = p.take()[0]
		require.True(t, to.Cancel())
		pass(3 * tick)
		require.Equal(t, 1, jobsOf(timer), "the pool still has the job")
		job()
		synctest.Wait()
		require.Zero(t, jobsOf(timer))
		require.EqualValues(t, 1, timer.Stats().Expired)
	})
}

// Canceled is called even while the executor has as many tasks as the limit allows.
func TestExecutorFullNotifiesCancelers(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var p pool
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(5), WithExecutor(p.submit))
		release := make(chan struct{})
		for range 6 {
			_, err := timer.AfterFunc(0, nop)
			require.NoError(t, err)
		}
		pass(2 * time.Millisecond)
		var notices []*canceler
		for range 3 {
			c := &canceler{block: func() { <-release }}
			to, err := timer.NewTimeout(c, time.Hour)
			require.NoError(t, err)
			require.True(t, to.Cancel())
			notices = append(notices, c)
		}
		pass(3 * time.Millisecond)
		require.Equal(t, 3, toldOf(notices))
		close(release)
		timer.Stop()
		p.runAll()
	})
}

// At the limit, Canceled is called for timeouts that Stop returned, even while a task runs. When Shutdown has
// returned, all these calls have been made.
func TestExecutorAtTheLimitNotifiesCancelers(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1),
			WithExecutor(func(run func()) error { go run(); return nil }))
		release := make(chan struct{})
		_, err := timer.AfterFunc(0, func() { <-release })
		require.NoError(t, err)
		pass(time.Millisecond)
		c := new(canceler)
		_, err = timer.NewTimeout(c, time.Hour)
		require.NoError(t, err)
		require.Len(t, timer.Stop(), 1)
		close(release)
		_, err = timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, c.told.Load())
	})
}

// A timeout that is canceled while it waits to be submitted is not submitted. A timeout that is reset while the
// executor holds it, and then canceled, can be garbage collected, even if the executor keeps all functions.
func TestExecutorIsGivenNoCanceled(t *testing.T) {
	for _, reset := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			const tick, n, limit = time.Millisecond, 100, 5
			var p pool
			opts := []Option{WithTick(tick), WithExecutor(p.submit)}
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
			given := p.take()
			if reset {
				require.Len(t, given, 2*n)
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
			require.Zero(t, p.runAll())
			require.Zero(t, jobsOf(timer))
		})
	}
}

// A task that the executor has refused counts once toward the limit, not twice.
func TestRefusedCountsOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		refuse := WithExecutor(func(func()) error { return errors.New("no") })
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(2), refuse)
		release := make(chan bool)
		_, err := timer.AfterFunc(tick, func() { <-release })
		require.NoError(t, err)
		pass(5 * tick)
		ran := make(chan bool, 1)
		_, err = timer.AfterFunc(tick, func() { ran <- true })
		require.NoError(t, err)
		pass(2 * tick)
		require.Len(t, ran, 1)
		close(release)
	})
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
		require.Zero(t, jobsOf(timer))
	})
}

// The executor drops functions, and their timeouts are canceled. Each timeout that comes due later gets a function.
func TestDroppedFunctionsOfCanceledOnes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		var p pool
		timer := newTimer(t, WithTick(tick), WithExecutor(p.submit))
		var all []*Timeout
		for range 100 {
			to, err := timer.AfterFunc(0, nop)
			require.NoError(t, err)
			all = append(all, to)
		}
		pass(5 * tick)
		require.Len(t, p.take(), 100)
		for _, to := range all {
			require.True(t, to.Cancel())
		}
		pass(5 * tick)
		for range 5 {
			_, err := timer.AfterFunc(0, nop)
			require.NoError(t, err)
			pass(5 * tick)
			require.Equal(t, 1, p.runAll())
		}
		require.EqualValues(t, 5, timer.Stats().Expired)
	})
}

// A timer from a synctest bubble has an executor outside of it. That panics, and does not hang: the timer can be stopped.
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
		timer := newFakedTimer(t, WithTick(time.Millisecond), WithExecutor(func(run func()) error { jobs <- run; return nil }))
		_, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		time.Sleep(2 * time.Millisecond)
		require.Contains(t, <-panics, "used outside of it")
		timer.Stop()
	})
}

// Very many tasks that do little need few goroutines beside those of the pool, and the pool is given one function for
// each task. Once there was a goroutine for each of them, and the time grew with the square of their number. The test
// runs on real time.
func TestExecutorOfManyTasks(t *testing.T) {
	for name, room := range map[string]int{"never blocks": 1 << 20, "blocks": 1024} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			n := int64(sized(100_000, 200_000, 1_000_000))
			work := make(chan func(), room)
			for range 2 {
				go func() {
					for run := range work {
						run()
					}
				}()
			}
			defer close(work)
			var submits, ran, most atomic.Int64
			timer := newTimer(t, WithTick(50*time.Millisecond), WithExecutor(func(run func()) error {
				submits.Add(1)
				work <- run
				return nil
			}))
			done := make(chan struct{})
			task := func() {
				switch i := ran.Add(1); {
				case i == n:
					close(done)
				case i%1000 == 0:
					most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
				}
			}
			for range n {
				_, err := timer.AfterFunc(sized(200*time.Millisecond, 400*time.Millisecond, 2*time.Second), task)
				require.NoError(t, err)
			}
			<-done
			require.LessOrEqual(t, most.Load(), int64(before+2+maxSubmits+10))
			_, err := timer.Shutdown(t.Context())
			require.NoError(t, err)
			require.Equal(t, n, submits.Load())
		})
	}
}

// A pool that takes everything is given a function for each due timeout at once, although at most maxSubmits calls of
// submit are in progress at a time.
func TestExecutorIsGivenAll(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var p pool
		timer := newTimer(t, WithTick(time.Millisecond), WithExecutor(p.submit))
		const n = 10 * maxSubmits
		for range n {
			_, err := timer.AfterFunc(0, nop)
			require.NoError(t, err)
		}
		pass(time.Millisecond)
		require.Equal(t, n, p.runAll())
		synctest.Wait()
		require.Zero(t, p.runAll())
		require.EqualValues(t, n, timer.Stats().Expired)
	})
}

// A pool is stuck, and very many tasks wait for it. At most maxSubmits calls of submit block, the worker goes idle, and
// the timer's own tasks are on time. Once the worker looked through all that waited at each tick.
func TestExecutorThatIsStuck(t *testing.T) {
	const n, tick = 100_000, time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		release := make(chan struct{})
		var submits, ran atomic.Int64
		x := newExecutor(timer, func(run func()) error {
			submits.Add(1)
			<-release
			run()
			return nil
		})
		for range n {
			_, err := timer.AfterFunc(0, func() { ran.Add(1) })
			require.NoError(t, err)
		}
		pass(10 * tick)
		require.EqualValues(t, maxSubmits, submits.Load())
		require.Equal(t, maxSubmits, x.submitters.liveRunners())
		require.Equal(t, maxSubmits, timer.Stats().Runners)
		require.Equal(t, n, timer.Pending())
		require.EqualValues(t, absent, timer.worker.presence.Load())
		start := time.Now()
		require.NoError(t, timer.Sleep(t.Context(), 5*tick))
		require.Equal(t, 5*tick, time.Since(start))
		close(release)
		pass(tick)
		require.EqualValues(t, n, ran.Load())
		require.EqualValues(t, n, submits.Load())
	})
}

// Shutdown waits for tasks, not for a submit that blocks: it might never return.
func TestShutdownDoesNotWaitForSubmit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		timer := newTimer(t, WithTick(time.Millisecond), WithExecutor(func(func()) error { <-release; return nil }))
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		pass(3 * time.Millisecond)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		left, err := timer.Shutdown(ctx)
		require.NoError(t, err)
		require.Equal(t, []*Timeout{to}, left)
		require.Zero(t, time.Since(start))
		close(release)
	})
}

// An exitingHandler is the handler of a logger. It ends the goroutine, as one does that calls t.FailNow.
type exitingHandler struct{ slog.Handler }

func (exitingHandler) Enabled(context.Context, slog.Level) bool  { return true }
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
			_, err := timer.AfterFunc(0, fired.note)
			require.NoError(t, err)
		}
		pass(tick)
		require.Equal(t, []time.Duration{tick, tick, tick}, fired.since(start))
		require.Zero(t, jobsOf(timer))
		require.EqualValues(t, 1, timer.Stats().Unsubmitted)
	})
}
