package hashedwheel

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/hashedwheel/hashedwheel/internal/light"
	"github.com/stretchr/testify/require"
)

// A canceler counts how often it has run and how often it was notified.
type canceler struct {
	ran, told atomic.Int64
	block     func()
}

func (c *canceler) Run(*Timeout) { c.ran.Add(1) }

func (c *canceler) Canceled(to *Timeout) {
	if to.Task() != Task(c) {
		panic("Canceled got the timeout of another task")
	}
	c.told.Add(1)
	if c.block != nil {
		c.block()
	}
}

func TestCanceler(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		arm := func(delay time.Duration) (*Timeout, *canceler) {
			c := new(canceler)
			to, err := timer.NewTimeout(c, delay)
			require.NoError(t, err)
			return to, c
		}
		check := func(c *canceler, ran, told int) {
			t.Helper()
			synctest.Wait()
			require.EqualValues(t, ran, c.ran.Load())
			require.EqualValues(t, told, c.told.Load())
		}
		to, c := arm(time.Second)
		require.True(t, to.Cancel())
		require.False(t, to.Cancel())
		check(c, 0, 1)

		_, err := to.Reset(time.Second) // arms it again
		require.NoError(t, err)
		pass(time.Millisecond)
		require.True(t, to.Cancel())
		check(c, 0, 2)

		to, c = arm(0)
		pass(time.Millisecond)
		require.False(t, to.Cancel())
		check(c, 1, 0)

		_, c = arm(time.Hour)
		require.Len(t, timer.Stop(), 1)
		check(c, 0, 1)
	})
}

// Once Canceled has returned, nothing keeps the timeout alive.
func TestCancelerIsReleased(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		to, err := timer.NewTimeout(new(canceler), time.Hour)
		require.NoError(t, err)
		p := weak.Make(to)
		require.True(t, to.Cancel())
		to = nil
		pass(2 * time.Millisecond)
		runtime.GC()
		require.Nil(t, p.Value())
	})
}

// A call of Canceled that blocks, panics or calls runtime.Goexit delays no other, and a blocked task delays none of
// them. Shutdown waits for them.
func TestCanceledThatDoesNotReturn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var reported atomic.Int64
		timer := newTimer(t, WithTick(time.Millisecond), WithPanicHandler(func(*Timeout, any, []byte) { reported.Add(1) }))
		task, release := make(chan struct{}), make(chan struct{})
		blocks := func() { <-release }
		_, err := timer.AfterFunc(0, func() { <-task })
		require.NoError(t, err)
		pass(time.Millisecond)

		var all []*canceler
		var left int
		for i := range 500 {
			c := new(canceler)
			switch i % 50 {
			case 0:
				c.block = blocks
			case 1:
				c.block = runtime.Goexit
			case 2:
				c.block = func() { panic("told") }
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
		pass(3 * time.Millisecond)
		require.Equal(t, 250, toldOf(all))
		require.Len(t, timer.Stop(), left)

		var done moments
		go func() {
			timer.Shutdown(context.Background())
			done.note()
		}()
		pass(time.Second)
		require.Empty(t, done.all())
		close(task)
		pass(time.Second)
		require.Empty(t, done.all())
		close(release)
		synctest.Wait()
		require.Len(t, done.all(), 1)
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
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(time.Millisecond))
			release := make(chan struct{})
			var notices []*canceler
			var all []*Timeout
			for range 10 {
				c := &canceler{block: func() { <-release }}
				to, err := timer.NewTimeout(c, time.Hour)
				require.NoError(t, err)
				notices = append(notices, c)
				all = append(all, to)
			}
			pass(500 * time.Microsecond)
			for _, to := range all {
				require.True(t, to.Cancel())
			}
			pass(3 * time.Millisecond)
			require.Equal(t, 10, toldOf(notices))

			var begun atomic.Int64
			for range 10 {
				_, err := timer.AfterFunc(0, func() { begun.Add(1); <-release })
				require.NoError(t, err)
			}
			pass(3 * time.Millisecond)
			require.EqualValues(t, 10, begun.Load())
			close(release)
			synctest.Wait()
		})
	}
}

func toldOf(all []*canceler) (n int) {
	for _, c := range all {
		n += int(c.told.Load())
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

func (s *signal) Run(*Timeout) {
	select {
	case s.c <- time.Now():
	default:
	}
}

func (s *signal) Stopped(to *Timeout) {
	if _, err := to.Reset(0); to.IsCanceled() && err == ErrStopped { // nothing can be armed any more
		s.stopped.Add(1)
	}
}

// Stop does not return the timeouts of light tasks, however they were armed. It notifies each of these tasks once,
// also if the timeout is on the queue, in a bucket or repeating. It does not notify tasks of canceled timeouts.
func TestLightTasksAreNotifiedOfStop(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		group := NewGroup(timer)
		var embedded Timeout
		all := make([]*signal, 6)
		for i := range all {
			all[i] = newSignal()
		}
		timer.Init(&embedded, all[0])
		_, err := embedded.Reset(time.Hour)
		require.NoError(t, err)
		_, err = timer.ScheduleAtFixedRate(all[1], 0, tick)
		require.NoError(t, err)
		_, err = group.Schedule(all[2], Every(time.Hour))
		require.NoError(t, err)
		canceled, err := timer.NewTimeout(all[3], time.Hour)
		require.NoError(t, err)
		_, err = timer.NewTimeout(all[4], 3*tick)
		require.NoError(t, err)
		users, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		pass(5 * tick)
		require.True(t, canceled.Cancel())
		_, err = timer.NewTimeout(all[5], 0)
		require.NoError(t, err)

		require.Equal(t, []*Timeout{users}, timer.Stop())
		for i, want := range []int32{1, 1, 1, 0, 0, 1} {
			require.Equal(t, want, all[i].stopped.Load(), i)
		}
		require.Len(t, all[1].c, 1)
		require.Len(t, all[4].c, 1)
		require.EqualValues(t, 5, timer.Stats().Canceled)
		require.Zero(t, group.Len())
		require.Equal(t, tick, timer.Tick())
		checkStats(t, timer)
	})
}

// A light task may be a Canceler. Canceled is then called for each end by Cancel and by Stop, and the task stays light.
func TestLightCanceler(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithMaxConcurrency(1))
		block := make(chan struct{})
		_, err := timer.AfterFunc(0, func() { <-block })
		require.NoError(t, err)
		var embedded Timeout
		group := NewGroup(timer)
		all := make([]*notifiedSignal, 4)
		for i := range all {
			all[i] = &notifiedSignal{signal: signal{c: make(chan time.Time, 1)}}
		}
		timer.Init(&embedded, all[0])
		_, err = embedded.Reset(time.Hour)
		require.NoError(t, err)
		require.Same(t, all[0], embedded.Task())
		canceled, err := group.NewTimeout(all[1], time.Hour)
		require.NoError(t, err)
		_, err = timer.NewTimeout(all[2], 0)
		require.NoError(t, err)
		_, err = timer.ScheduleAtFixedRate(all[3], 0, time.Minute)
		require.NoError(t, err)
		pass(time.Second)
		require.True(t, canceled.Cancel())
		pass(0)
		require.EqualValues(t, 1, all[1].canceled.Load())
		require.Len(t, all[2].c, 1) // it ran although the limit was reached
		require.Len(t, all[3].c, 1)

		require.Empty(t, timer.Stop())
		pass(0)
		for i, want := range []struct{ canceled, stopped int32 }{{1, 1}, {1, 0}, {0, 0}, {1, 1}} {
			require.Equal(t, want.canceled, all[i].canceled.Load(), i)
			require.Equal(t, want.stopped, all[i].stopped.Load(), i)
		}
		close(block)
		pass(0)
		checkStats(t, timer)
	})
}

// A notifiedSignal is a signal that counts the calls of Canceled.
type notifiedSignal struct {
	signal
	canceled atomic.Int32
}

func (s *notifiedSignal) Canceled(*Timeout) { s.canceled.Add(1) }

// A stoppedFunc calls a function when it is notified of Stop.
type stoppedFunc struct {
	light.Task
	f func()
}

func (*stoppedFunc) Run(*Timeout) {}

func (s *stoppedFunc) Stopped(*Timeout) { s.f() }

// Tasks that use up the limit or the executor may wait for the timer's own tasks, such as Sleep and light tasks,
// because those need neither.
func TestOwnTasksDoNotWait(t *testing.T) {
	const tick = time.Millisecond
	waits := map[string]func(timer *Timer) error{
		"Sleep": func(timer *Timer) error { return timer.Sleep(context.Background(), 5*tick) },
		"light": func(timer *Timer) error {
			s := newSignal()
			_, err := timer.NewTimeout(s, 5*tick)
			<-s.c
			return err
		},
		"light, repeating": func(timer *Timer) error {
			s := newSignal()
			to, err := timer.ScheduleAtFixedRate(s, 5*tick, 5*tick)
			for range 3 {
				<-s.c
			}
			to.Cancel()
			return err
		},
	}
	pool := make(chan func(), 100)
	for name, opts := range map[string][]Option{
		"runners":    nil,
		"one":        {WithMaxConcurrency(1)},
		"two":        {WithMaxConcurrency(2)},
		"pool":       {WithExecutor(func(run func()) error { pool <- run; return nil })},
		"pool, full": {WithExecutor(func(run func()) error { pool <- run; return nil }), WithMaxConcurrency(1)},
	} {
		for wait, f := range waits {
			t.Run(name+"/"+wait, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					pool = make(chan func(), 100)
					go func() { // a pool of one worker
						for run := range pool {
							run()
						}
					}()
					defer func() { close(pool) }()
					timer := newTimer(t, append(opts, WithTick(tick))...)
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
					checkStats(t, timer)
				})
			})
		}
	}
}

// The timer's own tasks do not let more tasks of users run than the limit allows.
func TestOwnTasksLeaveTheLimitAlone(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(2))
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
		pass(2 * tick)
		checkStats(t, timer)
		require.Zero(t, timer.Pending())
	})
}
