package hashedwheel

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Tasks that use up the limit or the executor may wait for the timer's own tasks, such as Sleep and Light tasks,
// because those need neither.
func TestOwnTasksDoNotWait(t *testing.T) {
	const tick = time.Millisecond
	waits := map[string]func(timer *Timer) error{
		"Sleep": func(timer *Timer) error { return timer.Sleep(context.Background(), 5*tick) },
		"Light": func(timer *Timer) error {
			s := newSignal()
			_, err := timer.NewTimeout(s, 5*tick)
			<-s.c
			return err
		},
		"Light, repeating": func(timer *Timer) error {
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

// Stop ends a Sleep inside the only task that may run. It does not return the timeouts of the timer's own tasks.
func TestStopAndOwnTasks(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		slept := make(chan error, 1)
		_, err := timer.AfterFunc(0, func() { slept <- timer.Sleep(context.Background(), time.Hour) })
		require.NoError(t, err)
		_, err = timer.NewTimeout(newSignal(), time.Hour)
		require.NoError(t, err)
		_, err = timer.ScheduleAtFixedRate(newSignal(), time.Hour, time.Hour)
		require.NoError(t, err)
		pass(10 * tick)
		require.Equal(t, 3, timer.Pending())
		require.Empty(t, timer.Stop())
		require.ErrorIs(t, <-slept, ErrStopped)
		require.EqualValues(t, 3, timer.Stats().Canceled)
		synctest.Wait()
		checkStats(t, timer)
	})
}
