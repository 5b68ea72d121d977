package hashedwheel_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/light"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

func TestCanceler(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(time.Millisecond))
		arm := func(delay time.Duration) (*hashedwheel.Timeout, *hashedwheel.CancelCounter) {
			c := new(hashedwheel.CancelCounter)
			to, err := timer.NewTimeout(c, delay)
			require.NoError(t, err)
			return to, c
		}
		check := func(c *hashedwheel.CancelCounter, ran, told int) {
			t.Helper()
			synctest.Wait()
			require.EqualValues(t, ran, c.Ran.Load())
			require.EqualValues(t, told, c.Told.Load())
		}
		to, c := arm(time.Second)
		require.True(t, to.Cancel())
		require.False(t, to.Cancel())
		check(c, 0, 1)

		_, err := to.Reset(time.Second) // arms it again
		require.NoError(t, err)
		testkit.Pass(time.Millisecond)
		require.True(t, to.Cancel())
		check(c, 0, 2)

		to, c = arm(0)
		testkit.Pass(time.Millisecond)
		require.False(t, to.Cancel())
		check(c, 1, 0)

		_, c = arm(time.Hour)
		require.Len(t, timer.Stop(), 1)
		check(c, 0, 1)
	})
}

// A call of Canceled that blocks, panics or calls runtime.Goexit delays no other, and a blocked task delays none of
// them. Shutdown waits for them.
func TestCanceledThatDoesNotReturn(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		var reported atomic.Int64
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(time.Millisecond), hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) { reported.Add(1) }))
		task, release := make(chan struct{}), make(chan struct{})
		blocks := func() { <-release }
		_, err := timer.AfterFunc(0, func() { <-task })
		require.NoError(t, err)
		testkit.Pass(time.Millisecond)

		var all []*hashedwheel.CancelCounter
		var left int
		for i := range 500 {
			c := new(hashedwheel.CancelCounter)
			switch i % 50 {
			case 0:
				c.Block = blocks
			case 1:
				c.Block = runtime.Goexit
			case 2:
				c.Block = func() { panic("told") }
			}
			to, err := timer.NewTimeout(c, time.Hour)
			require.NoError(t, err)
			all = append(all, c)
			if i < 250 {
				require.True(t, to.Cancel())
			} else {
				left++
			}
		}
		testkit.Pass(3 * time.Millisecond)
		require.Equal(t, 250, toldOf(all))
		require.Len(t, timer.Stop(), left)

		var done testkit.Moments
		go func() {
			timer.Shutdown(context.Background())
			done.Note()
		}()
		testkit.Pass(time.Second)
		require.Empty(t, done.All())
		close(task)
		testkit.Pass(time.Second)
		require.Empty(t, done.All())
		close(release)
		synctest.Wait()
		require.Len(t, done.All(), 1)
		require.Equal(t, 500, toldOf(all))
		require.EqualValues(t, 10, reported.Load())
		require.EqualValues(t, 10, timer.Stats().Panics)
	})
}

// A call of Canceled may come between two ticks and block. It does not delay other calls, or tasks that come due
// behind it. On one processor there is only one runner at first.
func TestBlockedNoticesDelayNoOther(t *testing.T) {
	for _, procs := range []int{1, 2} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		hashedwheel.Virtual(t, func(t *testing.T) {
			timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(time.Millisecond))
			release := make(chan struct{})
			var notices []*hashedwheel.CancelCounter
			var all []*hashedwheel.Timeout
			for range 10 {
				c := &hashedwheel.CancelCounter{Block: func() { <-release }}
				to, err := timer.NewTimeout(c, time.Hour)
				require.NoError(t, err)
				notices = append(notices, c)
				all = append(all, to)
			}
			testkit.Pass(500 * time.Microsecond)
			for _, to := range all {
				require.True(t, to.Cancel())
			}
			testkit.Pass(3 * time.Millisecond)
			require.Equal(t, 10, toldOf(notices))

			var begun atomic.Int64
			for range 10 {
				_, err := timer.AfterFunc(0, func() { begun.Add(1); <-release })
				require.NoError(t, err)
			}
			testkit.Pass(3 * time.Millisecond)
			require.EqualValues(t, 10, begun.Load())
			close(release)
			synctest.Wait()
		})
	}
}

func toldOf(all []*hashedwheel.CancelCounter) (n int) {
	for _, c := range all {
		n += int(c.Told.Load())
	}
	return n
}

// A signal is a light task that sends the time, and counts calls of Stopped.
type signal struct {
	light.Task
	c       chan time.Time
	stopped atomic.Int32
}

func newSignal() *signal { return &signal{c: make(chan time.Time, 1)} }

func (s *signal) Run(*hashedwheel.Timeout) {
	select {
	case s.c <- time.Now():
	default:
	}
}

func (s *signal) Stopped(to *hashedwheel.Timeout) {
	if _, err := to.Reset(0); to.IsCanceled() && err == hashedwheel.ErrStopped { // nothing can be armed any more
		s.stopped.Add(1)
	}
}

// Stop does not return the timeouts of light tasks, however they were armed. It notifies each of these tasks once,
// also if the timeout is on the queue, in a bucket or repeating. It does not notify tasks of canceled timeouts.
func TestLightTasksAreNotifiedOfStop(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithMaxConcurrency(1))
		group := hashedwheel.NewGroup(timer)
		var embedded hashedwheel.Timeout
		all := make([]*signal, 6)
		for i := range all {
			all[i] = newSignal()
		}
		timer.Bind(&embedded, all[0])
		_, err := embedded.Reset(time.Hour)
		require.NoError(t, err)
		_, err = timer.ScheduleAtFixedRate(all[1], 0, tick)
		require.NoError(t, err)
		_, err = group.Schedule(all[2], hashedwheel.Every(time.Hour))
		require.NoError(t, err)
		canceled, err := timer.NewTimeout(all[3], time.Hour)
		require.NoError(t, err)
		_, err = timer.NewTimeout(all[4], 3*tick)
		require.NoError(t, err)
		users, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		testkit.Pass(5 * tick)
		require.True(t, canceled.Cancel())
		_, err = timer.NewTimeout(all[5], 0)
		require.NoError(t, err)

		require.Equal(t, []*hashedwheel.Timeout{users}, timer.Stop())
		for i, want := range []int32{1, 1, 1, 0, 0, 1} {
			require.Equal(t, want, all[i].stopped.Load(), i)
		}
		require.Len(t, all[1].c, 1)
		require.Len(t, all[4].c, 1)
		require.EqualValues(t, 5, timer.Stats().Canceled)
		require.Zero(t, group.Len())
		require.Equal(t, tick, timer.Tick())
		hashedwheel.CheckStats(t, timer)
	})
}

// A light task may be a Canceler. Canceled is then called for each end by Cancel and by Stop, and the task stays light.
func TestLightCanceler(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithMaxConcurrency(1))
		block := make(chan struct{})
		_, err := timer.AfterFunc(0, func() { <-block })
		require.NoError(t, err)
		var embedded hashedwheel.Timeout
		group := hashedwheel.NewGroup(timer)
		all := make([]*notifiedSignal, 4)
		for i := range all {
			all[i] = &notifiedSignal{signal: signal{c: make(chan time.Time, 1)}}
		}
		timer.Bind(&embedded, all[0])
		_, err = embedded.Reset(time.Hour)
		require.NoError(t, err)
		require.Same(t, all[0], embedded.Task())
		canceled, err := group.NewTimeout(all[1], time.Hour)
		require.NoError(t, err)
		_, err = timer.NewTimeout(all[2], 0)
		require.NoError(t, err)
		_, err = timer.ScheduleAtFixedRate(all[3], 0, time.Minute)
		require.NoError(t, err)
		testkit.Pass(time.Second)
		require.True(t, canceled.Cancel())
		testkit.Pass(0)
		require.EqualValues(t, 1, all[1].canceled.Load())
		require.Len(t, all[2].c, 1) // it ran although the limit was reached
		require.Len(t, all[3].c, 1)

		require.Empty(t, timer.Stop())
		testkit.Pass(0)
		for i, want := range []struct{ canceled, stopped int32 }{{1, 1}, {1, 0}, {0, 0}, {1, 1}} {
			require.Equal(t, want.canceled, all[i].canceled.Load(), i)
			require.Equal(t, want.stopped, all[i].stopped.Load(), i)
		}
		close(block)
		testkit.Pass(0)
		hashedwheel.CheckStats(t, timer)
	})
}

// A notifiedSignal is a signal that counts the calls of Canceled.
type notifiedSignal struct {
	signal
	canceled atomic.Int32
}

func (s *notifiedSignal) Canceled(*hashedwheel.Timeout) { s.canceled.Add(1) }

// A stoppedFunc calls a function when it is notified of Stop.
type stoppedFunc struct {
	light.Task
	f func()
}

func (*stoppedFunc) Run(*hashedwheel.Timeout) {}

func (s *stoppedFunc) Stopped(*hashedwheel.Timeout) { s.f() }

// Tasks that use up the limit or the executor may wait for the timer's own tasks, such as Sleep and light tasks,
// because those need neither.
func TestOwnTasksDoNotWait(t *testing.T) {
	const tick = time.Millisecond
	waits := map[string]func(timer *hashedwheel.Timer) error{
		"Sleep": func(timer *hashedwheel.Timer) error { return timer.Sleep(context.Background(), 5*tick) },
		"light": func(timer *hashedwheel.Timer) error {
			s := newSignal()
			_, err := timer.NewTimeout(s, 5*tick)
			<-s.c
			return err
		},
		"light, repeating": func(timer *hashedwheel.Timer) error {
			s := newSignal()
			to, err := timer.ScheduleAtFixedRate(s, 5*tick, 5*tick)
			for range 3 {
				<-s.c
			}
			to.Cancel()
			return err
		},
	}
	jobs := make(chan func(), 100)
	for name, opts := range map[string][]hashedwheel.Option{
		"runners":        nil,
		"one":            {hashedwheel.WithMaxConcurrency(1)},
		"two":            {hashedwheel.WithMaxConcurrency(2)},
		"executor":       {hashedwheel.WithExecutor(func(run func()) error { jobs <- run; return nil })},
		"executor, full": {hashedwheel.WithExecutor(func(run func()) error { jobs <- run; return nil }), hashedwheel.WithMaxConcurrency(1)},
	} {
		for wait, f := range waits {
			t.Run(name+"/"+wait, func(t *testing.T) {
				hashedwheel.Virtual(t, func(t *testing.T) {
					jobs = make(chan func(), 100)
					go func() { // an executor of one goroutine
						for run := range jobs {
							run()
						}
					}()
					defer func() { close(jobs) }()
					timer := hashedwheel.NewTestTimer(t, append(opts, hashedwheel.WithTick(tick))...)
					done := make(chan time.Duration, 3)
					start := time.Now()
					for range cap(done) {
						_, err := timer.AfterFunc(0, func() {
							if f(timer) == nil {
								done <- time.Since(start)
							}
						})
						require.NoError(t, err)
					}
					first := <-done
					require.LessOrEqual(t, first, (1+15+1)*tick)
					require.GreaterOrEqual(t, first, 6*tick)
					<-done
					<-done
					_, err := timer.Shutdown(t.Context())
					require.NoError(t, err)
					hashedwheel.CheckStats(t, timer)
				})
			})
		}
	}
}

// The timer's own tasks do not let more tasks of users run than the limit allows.
func TestOwnTasksLeaveTheLimitAlone(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithMaxConcurrency(2))
		ticker := newSignal()
		beats, err := timer.ScheduleAtFixedRate(ticker, tick, tick)
		require.NoError(t, err)
		busy := make(chan struct{}, 100)
		for range 70 {
			_, err := timer.AfterFunc(0, func() {
				busy <- struct{}{}
				time.Sleep(10 * tick)
				<-busy
			})
			require.NoError(t, err)
		}
		for range 400 {
			<-ticker.c
			require.LessOrEqual(t, len(busy), 2)
			_, err := timer.NewTimeout(newSignal(), 0)
			require.NoError(t, err)
		}
		beats.Cancel()
		testkit.Pass(2 * tick)
		hashedwheel.CheckStats(t, timer)
		require.Zero(t, timer.Pending())
	})
}

// Canceled is called even while the executor has as many tasks as the limit allows.
func TestExecutorFullNotifiesCancelers(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		var e testkit.Executor
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(time.Millisecond), hashedwheel.WithMaxConcurrency(5), hashedwheel.WithExecutor(e.Submit))
		release := make(chan struct{})
		for range 6 {
			_, err := timer.AfterFunc(0, nop)
			require.NoError(t, err)
		}
		testkit.Pass(2 * time.Millisecond)
		var notices []*hashedwheel.CancelCounter
		for range 3 {
			c := &hashedwheel.CancelCounter{Block: func() { <-release }}
			to, err := timer.NewTimeout(c, time.Hour)
			require.NoError(t, err)
			require.True(t, to.Cancel())
			notices = append(notices, c)
		}
		testkit.Pass(3 * time.Millisecond)
		require.Equal(t, 3, toldOf(notices))
		close(release)
		timer.Stop()
		e.RunAll()
	})
}

// At the limit, Canceled is called for timeouts that Stop returned, even while a task runs. When Shutdown has
// returned, all these calls have been made.
func TestExecutorAtTheLimitNotifiesCancelers(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(time.Millisecond), hashedwheel.WithMaxConcurrency(1),
			hashedwheel.WithExecutor(func(run func()) error { go run(); return nil }))
		release := make(chan struct{})
		_, err := timer.AfterFunc(0, func() { <-release })
		require.NoError(t, err)
		testkit.Pass(time.Millisecond)
		c := new(hashedwheel.CancelCounter)
		_, err = timer.NewTimeout(c, time.Hour)
		require.NoError(t, err)
		require.Len(t, timer.Stop(), 1)
		close(release)
		_, err = timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, c.Told.Load())
	})
}

// Calls of Canceled are also made after Stop, for timeouts canceled just before it and for timeouts that
// Stop returns. This holds even if all runners are in tasks that block, and if calls of Canceled block.
func TestBlockedNoticesAfterStop(t *testing.T) {
	for _, procs := range []int{1, 2} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		hashedwheel.Virtual(t, func(t *testing.T) {
			timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(time.Millisecond))
			release := make(chan struct{})
			var notices []*hashedwheel.CancelCounter
			var all []*hashedwheel.Timeout
			for i := range 40 {
				c := new(hashedwheel.CancelCounter)
				if i%2 == 0 {
					c.Block = func() { <-release }
				}
				to, err := timer.NewTimeout(c, time.Hour)
				require.NoError(t, err)
				notices = append(notices, c)
				all = append(all, to)
			}
			for range 3 {
				_, err := timer.AfterFunc(0, func() { <-release })
				require.NoError(t, err)
			}
			testkit.Pass(3 * time.Millisecond)
			require.True(t, all[0].Cancel())
			require.Len(t, timer.Stop(), 39)
			testkit.Pass(10 * time.Millisecond)
			require.Equal(t, 40, toldOf(notices))
			close(release)
			_, err := timer.Shutdown(context.Background())
			require.NoError(t, err)
		})
	}
}

// A second Shutdown waits until the first one has notified all light tasks.
func TestShutdownWaitsForStopped(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		timer := hashedwheel.NewTestTimer(t)
		_, err := timer.NewTimeout(&stoppedFunc{f: func() { time.Sleep(time.Minute) }}, time.Hour)
		require.NoError(t, err)
		start := time.Now()
		go timer.Stop()
		testkit.Pass(time.Second)
		_, err = timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// Stop ends a Sleep inside the only task that may run. It does not return the timeouts of the timer's own tasks.
func TestStopAndOwnTasks(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithMaxConcurrency(1))
		slept := make(chan error, 1)
		_, err := timer.AfterFunc(0, func() { slept <- timer.Sleep(context.Background(), time.Hour) })
		require.NoError(t, err)
		_, err = timer.NewTimeout(newSignal(), time.Hour)
		require.NoError(t, err)
		_, err = timer.ScheduleAtFixedRate(newSignal(), time.Hour, time.Hour)
		require.NoError(t, err)
		testkit.Pass(10 * tick)
		require.Equal(t, 3, timer.Pending())
		require.Empty(t, timer.Stop())
		require.ErrorIs(t, <-slept, hashedwheel.ErrStopped)
		require.EqualValues(t, 3, timer.Stats().Canceled)
		synctest.Wait()
		hashedwheel.CheckStats(t, timer)
	})
}
