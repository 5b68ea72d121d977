package hashedwheel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Wait returns when the task ends, whichever way it ends, and at once if it is not running.
func TestWait(t *testing.T) {
	ends := map[string]func(){
		"return": func() {},
		"panic":  func() { panic("on purpose") },
		"goexit": runtime.Goexit,
	}
	for name, end := range ends {
		for executor, opts := range executors() {
			t.Run(name+"/"+executor, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					const tick = time.Millisecond
					quiet := WithPanicHandler(func(*Timeout, any, []byte) {})
					timer := newTimer(t, append(opts, WithTick(tick), quiet)...)
					to, err := timer.AfterFunc(tick, func() {
						time.Sleep(5 * tick)
						end()
					})
					require.NoError(t, err)
					start := time.Now()
					done, cancel := context.WithCancel(t.Context())
					cancel()
					require.NoError(t, to.Wait(done), "pending")

					time.Sleep(2 * tick)
					require.ErrorIs(t, to.Wait(done), context.Canceled, "running")
					var wg sync.WaitGroup
					for range 3 {
						wg.Go(func() {
							assert.NoError(t, to.Wait(t.Context()))
							assert.Equal(t, 6*tick, time.Since(start))
						})
					}
					wg.Wait()
					require.NoError(t, to.Wait(done), "run")
				})
			})
		}
	}
}

// executors returns the options for each way in which tasks run.
func executors() map[string][]Option {
	return map[string][]Option{
		"runners": nil,
		"one":     {WithMaxConcurrency(1)},
		"pool":    {WithExecutor(func(run func()) error { go run(); return nil })},
	}
}

// If two runs overlap, Wait waits for both. It does not return when another task ends.
func TestWaitForOverlappingRuns(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		var runs atomic.Int32
		to, err := timer.AfterFunc(tick, func() {
			if runs.Add(1) == 1 {
				time.Sleep(9 * tick) // until tick 10
			} else {
				time.Sleep(3 * tick) // until tick 8
			}
		})
		require.NoError(t, err)
		// This one is due a tick later. Within a tick there is no order, so a runner that took both might run it first.
		_, err = timer.AfterFunc(2*tick, func() { time.Sleep(tick) })
		require.NoError(t, err)
		pass(2 * tick)
		_, err = to.Reset(3 * tick)
		require.NoError(t, err)
		require.NoError(t, to.Wait(t.Context()))
		require.Equal(t, 10*tick, time.Since(start))
	})
}

// Inside the task of the timeout, Wait does not return before its context is done.
func TestWaitInsideTask(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		got := make(chan error, 1)
		_, err := timer.NewTimeout(TaskFunc(func(to *Timeout) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			got <- to.Wait(ctx)
		}), 0)
		require.NoError(t, err)
		require.ErrorIs(t, <-got, context.DeadlineExceeded)
	})
}

// After Cancel and Wait the task is not running and will not run, whichever wins: Cancel or
// the expiry. The test runs on real time.
func TestCancelThenWaitRace(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			timer := newTimer(t, append(opts, WithTick(50*time.Microsecond))...)
			rnd := newRand(t)
			ran := 0
			for deadline := time.Now().Add(stressTime(t) / 3); goesOn(deadline, ran > 0); {
				shared := 0 // the race detector checks that the task no longer uses it after Wait
				to, err := timer.AfterFunc(time.Duration(rnd.IntN(150))*time.Microsecond, func() { shared++ })
				require.NoError(t, err)
				for wait := rnd.IntN(200); wait > 0; wait-- {
					runtime.Gosched()
				}
				canceled := to.Cancel()
				require.NoError(t, to.Wait(t.Context()))
				shared++
				if !canceled {
					ran++
					require.Equal(t, 2, shared)
				}
			}
			t.Logf("%d ran", ran)
			require.NotZero(t, ran)
		})
	}
}

// Inside Schedule.Next the run is over, so Wait returns at once. Once it waited for its context.
func TestWaitInsideNext(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var to *Timeout
		asked := 0
		s := scheduleFunc(func(prev time.Time) time.Time {
			if asked++; asked == 1 {
				return prev.Add(tick)
			}
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			assert.NoError(t, to.Wait(ctx))
			assert.Zero(t, time.Since(start))
			return time.Time{}
		})
		_, err := timer.Schedule(TaskFunc(func(own *Timeout) { to = own }), s)
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, 2, asked)
	})
}

// A Wait for a run in progress returns when the task has, even if the schedule takes long.
func TestWaitDoesNotWaitForNext(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		asked := 0
		to, err := timer.Schedule(TaskFunc(func(*Timeout) { time.Sleep(5 * tick) }), scheduleFunc(func(prev time.Time) time.Time {
			if asked++; asked == 1 {
				return prev.Add(tick)
			}
			time.Sleep(time.Second)
			return time.Time{}
		}))
		require.NoError(t, err)
		pass(2 * tick)
		require.NoError(t, to.Wait(t.Context()))
		require.Equal(t, 6*tick, time.Since(start))
		require.NoError(t, to.Wait(t.Context()))
		require.Equal(t, 6*tick, time.Since(start))
		pass(2 * time.Second)
		require.True(t, to.IsExpired())
	})
}

// Wait looks at a part of the runners at a time. It finds the run even if its runner changes its place meanwhile,
// because another one has ended. The test runs on real time, because it tests a race.
func TestWaitMissesNoRun(t *testing.T) {
	needsThreads(t)
	r := newRand(t)
	const item = 100
	for range 5000 {
		var c crew[int]
		c.init(numbers{positions{}}, time.Second)
		for i := range item {
			c.live = append(c.live, &runner[int]{crew: &c, place: i, item: i + 1})
		}
		c.hands = item
		var begun atomic.Bool
		var other sync.WaitGroup
		other.Go(func() {
			for !begun.Load() {
			}
			for n := r.IntN(2000); n > 0; n-- {
				begun.Load()
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.dismiss(c.live[0])
		})
		begun.Store(true)
		require.NotEmpty(t, c.runsOf(item))
		other.Wait()
	}
}
