package hashedwheel

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pool holds what is submitted until it is told to run it.
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

// take returns what it holds, and holds it no more.
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

// While the executor holds a task its timeout is pending, with all that this means.
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
			run() // once too often
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

// Promise 9: of a canceled timeout nothing is kept but the pool's function.
func TestExecutorForgetsCanceled(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var p pool
		timer := newTimer(t, WithTick(time.Millisecond), WithExecutor(p.submit), WithMaxConcurrency(1))
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		_, err = timer.AfterFunc(2*time.Millisecond, nop) // a tick later, for of one tick there is no order
		require.NoError(t, err)
		pass(5 * time.Millisecond)
		require.Len(t, p.take(), 1, "one at a time")
		gone := weak.Make(to)
		require.True(t, to.Cancel())
		pass(2 * time.Millisecond)
		runtime.GC()
		require.Nil(t, gone.Value())
		require.Equal(t, 1, p.runAll(), "the next one's turn")
		require.Zero(t, timer.Pending())
	})
}

// Promise 15: an executor that refuses, panics or exits loses nothing.
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
					WithPanicHandler(func(*Timeout, any, []byte) { reported.Add(1) }))
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
				if name == "Goexit" {
					require.Zero(t, st.Unsubmitted)
				} else {
					require.EqualValues(t, 10, st.Unsubmitted)
				}
				if name == "panic" {
					require.EqualValues(t, 10, reported.Load())
				}
				live, _ := timer.runners.liveRunners()
				require.Zero(t, live)
			})
		})
	}
}

// An executor that blocks for one holds up no other.
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

// Both options together: the executor is given no more at a time than may run.
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
			require.Zero(t, timer.runners.busy)
		})
	}
}

// Everything at once: limits, executors of all kinds, tasks that block, panic and exit, cancels,
// resets, and the end at a random moment. Each timeout ends once, its canceler is told as often
// as it was canceled, no limit is exceeded, and Shutdown returns when all is over. On real time, for
// the races.
func TestRunnersRace(t *testing.T) {
	seeds := newRand(t)
	var total Stats
	for end := time.Now().Add(2 * stressTime(t)); time.Now().Before(end); {
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
			WithExecutor(executor), WithPanicHandler(func(*Timeout, any, []byte) {}))

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
						assert.False(t, over.Load(), "started after Shutdown")
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
							if kind != 2 { // whose workers would be gone
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
			for timer.Pending() > 0 { // or the test runs into its timeout
				time.Sleep(50 * time.Microsecond)
			}
		}
		left, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		users.Wait()
		_, err = timer.Shutdown(t.Context()) // for what a Cancel has had told meanwhile
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
	require.True(t, total.Expired > 0 && total.Canceled > 0 && total.Returned > 0)
}

// A wildTask does what its run says.
type wildTask struct {
	run       func()
	ran, told atomic.Int64
}

func (w *wildTask) Run(*Timeout)      { w.ran.Add(1); w.run() }
func (w *wildTask) Canceled(*Timeout) { w.told.Add(1) }

// A job that has ended, in whichever way, makes room for the next, and once only.
func TestExecutorCountsJobs(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		var p pool
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), WithExecutor(p.submit))
		busy := func() int {
			timer.runners.mu.Lock()
			defer timer.runners.mu.Unlock()
			return timer.runners.busy
		}
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		pass(3 * tick)
		require.Equal(t, 1, busy())
		job := p.take()[0]
		job()
		job()
		require.Zero(t, busy())

		_, err = to.Reset(0)
		require.NoError(t, err)
		pass(3 * tick)
		job = p.take()[0]
		require.True(t, to.Cancel())
		pass(3 * tick)
		require.Zero(t, busy())
		job()
		require.Zero(t, busy())
	})
}

// A notice is told although the executor has all it may have.
func TestExecutorFullTellsNotices(t *testing.T) {
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

// With a limit, those handed back are told when the task at work has ended, and Shutdown waits.
func TestExecutorAtTheLimitTellsNotices(t *testing.T) {
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

// What is canceled while it waits to be submitted is not, and what is canceled after a Reset in
// the executor's hands is let go, though the executor keeps all that it was given.
func TestExecutorIsGivenNoCanceled(t *testing.T) {
	for _, reset := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			const tick = time.Millisecond
			var mu sync.Mutex
			var given []func()
			timer := newTimer(t, WithTick(tick), WithExecutor(func(run func()) error {
				time.Sleep(tick / 10)
				mu.Lock()
				defer mu.Unlock()
				given = append(given, run)
				return nil
			}))
			var all []*Timeout
			var held []weak.Pointer[Timeout]
			for range 100 {
				to, err := timer.AfterFunc(tick, nop)
				require.NoError(t, err)
				all = append(all, to)
				held = append(held, weak.Make(to))
			}
			time.Sleep(tick + tick/2)
			if reset {
				pass(20 * tick)
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
			mu.Lock()
			n := len(given)
			mu.Unlock()
			if reset {
				require.Equal(t, 200, n)
			} else {
				require.Less(t, n, 50)
			}
			runtime.GC()
			for _, p := range held {
				require.Nil(t, p.Value())
			}
			runtime.KeepAlive(given)
			require.Zero(t, timer.runners.busy)
		})
	}
}

// A task that the executor has refused takes one turn, not two.
func TestRefusedTakesOneTurn(t *testing.T) {
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

// An executor that panics when it has started the task elsewhere is reported, whether that task is
// still running, is over, or was canceled meanwhile; and a job that has ended is kept by nobody.
func TestExecutorPanicsAfterStart(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 0} {
		virtual(t, func(t *testing.T) {
			const tick = time.Millisecond
			reported := make(chan *Timeout, 1)
			handler := WithPanicHandler(func(to *Timeout, _ any, _ []byte) { reported <- to })
			var kept func()
			timer := newTimer(t, WithTick(tick), handler, WithExecutor(func(run func()) error {
				kept = run
				go run()
				time.Sleep(5 * tick)
				panic("the executor's")
			}))
			to, err := timer.AfterFunc(0, func() { time.Sleep(takes) })
			require.NoError(t, err)
			require.Same(t, to, <-reported)
			pass(time.Second)
			require.EqualValues(t, 1, timer.Stats().Expired)
			require.EqualValues(t, 1, timer.Stats().Panics)
			p := weak.Make(to)
			to = nil
			runtime.GC()
			require.Nil(t, p.Value())
			runtime.KeepAlive(kept)
		})
	}
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		handler := WithPanicHandler(func(to *Timeout, _ any, _ []byte) { t.Errorf("told of %v", to) })
		timer := newTimer(t, WithTick(tick), handler, WithLogger(slog.New(slog.DiscardHandler)), WithExecutor(func(run func()) error {
			time.Sleep(5 * tick)
			panic("the executor's")
		}))
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		pass(2 * tick)
		require.True(t, to.Cancel())
		pass(10 * tick)
		require.EqualValues(t, 1, timer.Stats().Panics)
		require.Zero(t, timer.Stats().Expired)
	})
}
