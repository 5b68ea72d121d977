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

	"github.com/hashedwheel/hashedwheel/internal/due"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Cancel returns true once, and then the task never starts. The test also checks what the handles report.
func TestCancel(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		var fired atomic.Int64
		task := TaskFunc(func(to *Timeout) {
			fired.Add(1)
			assert.True(t, to.IsExpired())
			assert.False(t, to.Cancel())
		})
		arm := func() *Timeout {
			to, err := timer.NewTimeout(task, 25*time.Millisecond)
			require.NoError(t, err)
			require.False(t, to.IsExpired())
			require.False(t, to.IsCanceled())
			require.Same(t, timer, to.Timer())
			return to
		}
		check := func(to *Timeout, expired, canceled bool) {
			t.Helper()
			require.Equal(t, expired, to.IsExpired())
			require.Equal(t, canceled, to.IsCanceled())
			require.False(t, to.Cancel())
			require.NotNil(t, to.Task())
		}
		queued, placed, kept := arm(), arm(), arm()
		require.True(t, queued.Cancel())
		check(queued, false, true)
		pass(15 * time.Millisecond)
		require.True(t, placed.Cancel())
		check(placed, false, true)
		require.Equal(t, 1, timer.Pending())
		pass(time.Second)
		require.EqualValues(t, 1, fired.Load())
		check(queued, false, true)
		check(placed, false, true)
		check(kept, true, false)
		require.Equal(t, Stats{Accepted: 3, Expired: 1, Canceled: 2}, outcomes(timer))
	})
}

// A deadline that is told has a monotonic reading, which is exactly the boundary. It is right by the present wall clock, although
// that was set since New.
func TestDeadlineThatIsTold(t *testing.T) {
	for _, set := range []time.Duration{-8 * time.Hour, 0, 8 * time.Hour} {
		timer := newTimer(t, WithTick(time.Hour))
		testkit.SetWall(&timer.clock.Start, -set)
		to, err := timer.AfterFunc(90*time.Minute, nop)
		require.NoError(t, err)
		_, err = timer.Schedule(TaskFunc(func(*Timeout) {}), Every(90*time.Minute))
		require.NoError(t, err)
		require.Contains(t, timer.clock.Start.String(), " m=+")
		told := []time.Time{to.Deadline()}
		for _, at := range timer.Tasks() {
			told = append(told, at)
		}
		due.Root.Each(timer, func(_ any, at time.Time, _ bool) bool { // for the page
			told = append(told, at)
			return true
		})
		require.Len(t, told, 5)
		for _, at := range told {
			require.Contains(t, at.String(), " m=+")
			require.Equal(t, 2*time.Hour, at.Sub(timer.clock.Start))
			require.WithinDuration(t, time.Now().Round(0).Add(time.Until(at)), at.Round(0), time.Minute)
		}
	}
}

// WaitRunning returns when the task ends, whichever way it ends, and at once if it is not running.
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
					require.NoError(t, to.WaitRunning(done), "pending")

					time.Sleep(2 * tick)
					require.ErrorIs(t, to.WaitRunning(done), context.Canceled, "running")
					var wg sync.WaitGroup
					for range 3 {
						wg.Go(func() {
							assert.NoError(t, to.WaitRunning(t.Context()))
							assert.Equal(t, 6*tick, time.Since(start))
						})
					}
					wg.Wait()
					require.NoError(t, to.WaitRunning(done), "run")
				})
			})
		}
	}
}

// executors returns the options for each way in which tasks run.
func executors() map[string][]Option {
	return map[string][]Option{
		"runners":  nil,
		"one":      {WithMaxConcurrency(1)},
		"executor": {WithExecutor(func(run func()) error { go run(); return nil })},
	}
}

// If two runs overlap, WaitRunning waits for both. It does not return when another task ends.
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
		require.NoError(t, to.WaitRunning(t.Context()))
		require.Equal(t, 10*tick, time.Since(start))
	})
}

// Inside the task of the timeout, and inside its Schedule.Next, WaitRunning does not return before its context is done.
func TestWaitInsideRun(t *testing.T) {
	for executor, opts := range executors() {
		t.Run(executor, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				const tick = time.Millisecond
				timer := newTimer(t, append(opts, WithTick(tick))...)
				wait := func(to *Timeout) {
					start := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					assert.ErrorIs(t, to.WaitRunning(ctx), context.DeadlineExceeded)
					assert.Equal(t, time.Second, time.Since(start))
				}
				var own *Timeout
				asked := 0
				s := scheduleFunc(func(prev time.Time) time.Time {
					if asked++; asked == 1 {
						return prev.Add(tick)
					}
					wait(own)
					return time.Time{}
				})
				_, err := timer.Schedule(TaskFunc(func(to *Timeout) { own = to; wait(to) }), s)
				require.NoError(t, err)
				pass(time.Minute)
				require.Equal(t, 2, asked)
			})
		})
	}
}

// WaitRunning waits until Canceled has returned, whatever has ended the timeout, and however Canceled ends. It also waits for
// a call that has not begun.
func TestWaitWaitsForCanceled(t *testing.T) {
	const tick = time.Millisecond
	ends := map[string]func(){"return": nop, "panic": func() { panic("on purpose") }, "goexit": runtime.Goexit}
	for how, end := range ends {
		for name, cancel := range map[string]func(t *testing.T, timer *Timer, to *Timeout){
			"Cancel": func(t *testing.T, _ *Timer, to *Timeout) { require.True(t, to.Cancel()) },
			"Stop":   func(t *testing.T, timer *Timer, to *Timeout) { require.Equal(t, []*Timeout{to}, timer.Stop()) },
			"Cancel twice": func(t *testing.T, _ *Timer, to *Timeout) {
				require.True(t, to.Cancel())
				_, err := to.Reset(time.Hour)
				require.NoError(t, err)
				require.True(t, to.Cancel())
			},
			"Cancel, Stop": func(t *testing.T, timer *Timer, to *Timeout) {
				require.True(t, to.Cancel())
				require.Empty(t, timer.Stop())
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, WithTick(tick), WithPanicHandler(func(*Timeout, any, []byte) {}))
					var ended moments
					c := &CancelCounter{Block: func() { time.Sleep(5 * tick); ended.Note(); end() }}
					var to Timeout
					timer.Bind(&to, c)
					require.NoError(t, to.WaitRunning(t.Context()), "never armed")
					_, err := to.Reset(time.Hour)
					require.NoError(t, err)
					done, stop := context.WithCancel(t.Context())
					stop()
					require.NoError(t, to.WaitRunning(done), "pending")

					cancel(t, timer, &to)
					require.ErrorIs(t, to.WaitRunning(done), context.Canceled, "called, or about to be")
					var wg sync.WaitGroup
					for range 3 {
						wg.Go(func() {
							assert.NoError(t, to.WaitRunning(t.Context()))
							assert.Len(t, ended.All(), int(timer.Stats().Canceled+timer.Stats().Returned))
							assert.Equal(t, ended.All()[len(ended.All())-1], time.Now())
						})
					}
					wg.Wait()
					require.NoError(t, to.WaitRunning(done), "over")
				})
			})
		}
	}
}

// A run of a repeating timeout cancels it. WaitRunning waits for the run, and then for Canceled. Inside Canceled it waits for
// the context.
func TestWaitForCanceledByTheRun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		c := &selfCanceler{t: t, tick: tick}
		to, err := timer.ScheduleAtFixedRate(c, 0, time.Hour)
		require.NoError(t, err)
		pass(tick)
		start := time.Now()
		require.NoError(t, to.WaitRunning(t.Context()))
		require.Equal(t, 5*tick+time.Second, time.Since(start))
	})
}

// A selfCanceler is a task that cancels its timeout.
type selfCanceler struct {
	t    *testing.T
	tick time.Duration
}

func (c *selfCanceler) Run(to *Timeout) {
	time.Sleep(5 * c.tick)
	assert.True(c.t, to.Cancel())
}

func (c *selfCanceler) Canceled(to *Timeout) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	assert.ErrorIs(c.t, to.WaitRunning(ctx), context.DeadlineExceeded)
}

// Cancel or Stop has ended a timeout, and not called Canceled yet. WaitRunning waits for that. The test runs on real time,
// because a goroutine that waits for a lock holds up the time of a bubble.
func TestWaitOverlapsWithCancel(t *testing.T) {
	for name, end := range map[string]func(timer *Timer, to *Timeout){
		"Cancel": func(_ *Timer, to *Timeout) { to.Cancel() },
		"Stop":   func(timer *Timer, _ *Timeout) { timer.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			timer := newTimer(t)
			g := NewGroup(timer)
			c := new(CancelCounter)
			to, err := g.NewTimeout(c, time.Hour)
			require.NoError(t, err)
			g.mu.Lock() // so that end waits before it calls Canceled
			go end(timer, to)
			for status(to.word.Load()) == pending {
				runtime.Gosched()
			}
			short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			err = to.WaitRunning(short)
			told := c.Told.Load()
			g.mu.Unlock()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Zero(t, told)
			require.NoError(t, to.WaitRunning(t.Context()))
			require.EqualValues(t, 1, c.Told.Load())
		})
	}
}

// WaitRunning also waits for the Schedule.Next of a run in progress, whether it begins in the task or in Next. So does Group.WaitRunning.
// Both say when the run is over, not when the next one is.
func TestWaitWaitsForNext(t *testing.T) {
	for executor, opts := range executors() {
		t.Run(executor, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				const tick = time.Millisecond
				timer := newTimer(t, append(opts, WithTick(tick))...)
				g := NewGroup(timer)
				asked := 0
				start := time.Now()
				// Each run takes five ticks, and Next another five. The next run follows at once.
				to, err := g.Schedule(TaskFunc(func(*Timeout) { time.Sleep(5 * tick) }), scheduleFunc(func(time.Time) time.Time {
					if asked++; asked > 1 {
						time.Sleep(5 * tick)
					}
					return time.Now().Add(-time.Second)
				}))
				require.NoError(t, err)
				var waits sync.WaitGroup
				for n := range time.Duration(4) { // runs
					begin := start.Add(tick + n*10*tick)
					for _, in := range []time.Duration{2 * tick, 7 * tick} {
						for _, wait := range []func(context.Context) error{to.WaitRunning, g.WaitRunning} {
							waits.Go(func() {
								time.Sleep(time.Until(begin.Add(in)))
								assert.NoError(t, wait(t.Context()))
								assert.Equal(t, 10*tick, time.Since(begin), "run %d, from %v on", n, in)
							})
						}
					}
				}
				waits.Wait()
				require.True(t, to.Cancel())
				require.NoError(t, to.WaitRunning(t.Context()))
			})
		})
	}
}

// IsPending is true from arming until just before the task runs, and for a repeating timeout until its schedule has ended.
func TestIsPending(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var to Timeout
		require.False(t, to.IsPending(), "idle")
		inTask := make(chan bool, 1)
		timer.Bind(&to, TaskFunc(func(to *Timeout) { inTask <- to.IsPending() }))
		require.False(t, to.IsPending(), "bound")
		arm := func() {
			_, err := to.Reset(tick)
			require.NoError(t, err)
			require.True(t, to.IsPending())
		}
		arm()
		pass(2 * tick)
		require.False(t, <-inTask)
		require.False(t, to.IsPending(), "expired")
		arm()
		require.True(t, to.Cancel())
		require.False(t, to.IsPending(), "canceled")

		repeating, err := timer.Schedule(TaskFunc(func(to *Timeout) { inTask <- to.IsPending() }), &backoff{})
		require.NoError(t, err)
		for n := range 3 {
			pass(time.Second)
			require.True(t, <-inTask, "the run of a repeating timeout is in progress")
			require.Equal(t, n < 2, repeating.IsPending())
		}

		arm()
		require.Equal(t, []*Timeout{&to}, timer.Stop())
		require.False(t, to.IsPending(), "returned by Stop")
	})
}

// A backoff is a Schedule of three runs, a second apart.
type backoff struct{ runs int }

func (b *backoff) Next(prev time.Time) time.Time {
	if b.runs++; b.runs > 3 {
		return time.Time{}
	}
	return prev.Add(time.Second)
}
