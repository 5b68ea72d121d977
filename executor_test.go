package hashedwheel

import (
	"errors"
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
	synctest.Test(t, func(t *testing.T) {
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
		require.Equal(t, Stats{Accepted: 7, Expired: 4, Canceled: 2, Returned: 1}, timer.Stats())
	})
}

// Promise 9: of a canceled timeout nothing is kept but the pool's function.
func TestExecutorForgetsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pool
		timer := newTimer(t, WithTick(time.Millisecond), WithExecutor(p.submit), WithMaxConcurrency(1))
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		_, err = timer.AfterFunc(time.Millisecond, nop)
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
			synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
		synctest.Test(t, func(t *testing.T) {
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

// Stop while an executor runs tasks on many goroutines: each timeout ends once, and Shutdown
// waits for those that had begun.
func TestExecutorRace(t *testing.T) {
	seeds := newRand(t)
	expired, returned := uint64(0), uint64(0)
	for end := time.Now().Add(stressTime(t)); time.Now().Before(end); {
		work := make(chan func(), 8)
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				for run := range work {
					run()
				}
			})
		}
		refuse := seeds.IntN(2) == 0
		timer := newTimer(t, WithTick(100*time.Microsecond), WithMaxConcurrency(seeds.IntN(3)*4), WithExecutor(func(run func()) error {
			if !refuse {
				work <- run
				return nil
			}
			select {
			case work <- run:
				return nil
			default:
				return errors.New("full")
			}
		}))
		var over atomic.Bool
		var ran atomic.Int64
		canceled := 0
		for i := range 500 {
			to, err := timer.AfterFunc(time.Duration(i)*time.Microsecond, func() {
				assert.False(t, over.Load(), "started after Shutdown")
				ran.Add(1)
			})
			require.NoError(t, err)
			if i%7 == 0 && to.Cancel() {
				canceled++
			}
		}
		time.Sleep(time.Duration(seeds.IntN(1500)) * time.Microsecond)
		left, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		over.Store(true)
		close(work)
		workers.Wait()
		st := timer.Stats()
		require.EqualValues(t, st.Expired, ran.Load())
		require.EqualValues(t, 500, ran.Load()+int64(len(left))+int64(canceled))
		require.Zero(t, st.Pending)
		require.Zero(t, st.Running)
		expired += st.Expired
		returned += st.Returned
	}
	require.NotZero(t, expired)
	require.NotZero(t, returned)
}
