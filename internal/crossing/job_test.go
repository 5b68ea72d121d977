package crossing

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
)

// Six tasks, as many as may run at once, each wait for a timeout of their own. With package clock on the same timer, or
// with another timer, all six time out. With a task of the same timer none does, because no runner is left: the
// documentation of WithMaxConcurrency and WithExecutor says so.
func TestTaskWaitsForATimeout(t *testing.T) {
	const jobs, limit = 6, 10 * bubbleTick
	options := map[string]func() hashedwheel.Option{
		"limit": func() hashedwheel.Option { return hashedwheel.WithMaxConcurrency(jobs) },
		"executor": func() hashedwheel.Option { // of six goroutines, with a queue
			free := make(chan struct{}, jobs)
			return hashedwheel.WithExecutor(func(run func()) error {
				go func() { free <- struct{}{}; run(); <-free }()
				return nil
			})
		},
	}
	ways := map[string]struct {
		want      int32
		afterFunc func(t *testing.T, timer *hashedwheel.Timer) func(f func())
	}{
		"clock": {jobs, func(t *testing.T, timer *hashedwheel.Timer) func(f func()) {
			onTimer := clock.New(timer)
			return func(f func()) { onTimer.AfterFunc(limit, f) }
		}},
		"second timer": {jobs, func(t *testing.T, _ *hashedwheel.Timer) func(f func()) {
			second, err := hashedwheel.New(hashedwheel.WithTick(bubbleTick))
			require.NoError(t, err)
			return func(f func()) { armed(t)(second.AfterFunc(limit, f)) }
		}},
		"same timer": {0, func(t *testing.T, timer *hashedwheel.Timer) func(f func()) {
			return func(f func()) { armed(t)(timer.AfterFunc(limit, f)) }
		}},
	}
	for option, newOption := range options {
		for name, way := range ways {
			t.Run(option+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					timer, err := hashedwheel.New(hashedwheel.WithTick(bubbleTick), newOption())
					require.NoError(t, err)
					afterFunc := way.afterFunc(t, timer)
					giveUp, cancelAll := context.WithTimeout(t.Context(), time.Hour)
					defer cancelAll()
					var timedOut atomic.Int32
					for range jobs {
						armed(t)(timer.AfterFunc(0, func() {
							ctx, cancel := context.WithCancel(giveUp)
							defer cancel()
							afterFunc(cancel)
							<-ctx.Done() // the work
							if giveUp.Err() == nil {
								timedOut.Add(1)
							}
						}))
					}
					time.Sleep(2 * time.Hour)
					synctest.Wait()
					require.Equal(t, way.want, timedOut.Load(), "of %d", jobs)
				})
			})
		}
	}
}
