package hashedwheel

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A signal is a Light task that sends the time, and counts calls of Stopped.
type signal struct {
	Light
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
	// By now nothing can be armed any more. Another call of Stop waits until the first one has taken all
	// timeouts. It would hang if the first one called Stopped before that.
	if _, err := to.Reset(0); to.IsCanceled() && err == ErrStopped && to.Timer().Stop() == nil {
		s.stopped.Add(1)
	}
}

// Stop does not return the timeouts of Light tasks, however they were armed. It notifies each of these tasks once,
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
		_, err = group.ScheduleWithFixedDelay(all[2], time.Hour, time.Hour)
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

// A Light task may be a Canceler. Canceled is then called for each end by Cancel and by Stop, and the task stays Light.
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

// If a call of Stopped panics, Stop still notifies the other tasks and returns the timeouts of users. The panic is
// reported like the panic of a task.
func TestStoppedPanics(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var reported []*Timeout
		timer := newTimer(t, WithPanicHandler(func(to *Timeout, value any, stack []byte) {
			require.Equal(t, "stopped", value)
			require.Contains(t, string(stack), "(*badSignal).Stopped")
			reported = append(reported, to)
		}))
		all := []*Timeout{nil, nil, nil}
		for i := range all {
			var err error
			all[i], err = timer.NewTimeout(&badSignal{}, time.Hour)
			require.NoError(t, err)
		}
		users, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)

		require.Equal(t, []*Timeout{users}, timer.Stop())
		require.ElementsMatch(t, all, reported)
		require.EqualValues(t, 3, timer.Stats().Panics)
		checkStats(t, timer)
	})
}

// A badSignal panics in Stopped.
type badSignal struct{ Light }

func (*badSignal) Run(*Timeout)     {}
func (*badSignal) Stopped(*Timeout) { panic("stopped") }

// If a call of Stopped ends the goroutine by runtime.Goexit, or makes the panic handler panic, the other tasks are still
// notified, and Shutdown does not wait for ever. Once they never learned of the end.
func TestStoppedThatDoesNotReturn(t *testing.T) {
	for name, stopped := range map[string]func(){
		"Goexit":         runtime.Goexit,
		"handler panics": func() { panic("stopped") },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithPanicHandler(func(_ *Timeout, value any, _ []byte) { panic(value) }))
				var all []*signal
				for range 5 {
					all = append(all, newSignal())
					_, err := timer.NewTimeout(all[len(all)-1], time.Hour)
					require.NoError(t, err)
					_, err = timer.NewTimeout(&stoppedFunc{f: stopped}, time.Hour)
					require.NoError(t, err)
				}
				ended := make(chan any)
				go func() {
					defer func() { ended <- recover() }()
					timer.Stop()
				}()
				if value := <-ended; name != "Goexit" {
					require.Equal(t, "stopped", value)
				}
				for _, s := range all {
					require.EqualValues(t, 1, s.stopped.Load())
				}
				_, err := timer.Shutdown(t.Context())
				require.NoError(t, err)
			})
		})
	}
}

// A stoppedFunc calls a function when it is notified of Stop.
type stoppedFunc struct {
	Light
	f func()
}

func (*stoppedFunc) Run(*Timeout)       {}
func (s *stoppedFunc) Stopped(*Timeout) { s.f() }

// A second Shutdown waits until the first one has notified all Light tasks.
func TestShutdownWaitsForStopped(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		_, err := timer.NewTimeout(&stoppedFunc{f: func() { time.Sleep(time.Minute) }}, time.Hour)
		require.NoError(t, err)
		start := time.Now()
		go timer.Stop()
		pass(time.Second)
		_, err = timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start))
	})
}
