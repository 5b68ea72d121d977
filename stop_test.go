package hashedwheel

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Stop hands back the pending timeouts, wherever they are. After Stop every arming is refused.
func TestStop(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond), WithWheelSize(4))
		var fired atomic.Int64
		arm := func(delay time.Duration) *Timeout {
			to, err := timer.AfterFunc(delay, func() { fired.Add(1) })
			require.NoError(t, err)
			return to
		}
		gone := arm(time.Millisecond)
		near, far, never := arm(20*time.Millisecond), arm(time.Hour), arm(math.MaxInt64)
		late := arm(time.Hour)
		time.Sleep(10 * time.Millisecond) // now these are in buckets
		synctest.Wait()
		fresh := arm(0) // this and the next are on the queue
		moved := arm(time.Hour)
		_, err := late.Reset(2 * time.Hour) // the worker does not know of this
		require.NoError(t, err)
		_, err = far.Reset(15 * time.Millisecond) // nor of this, for which far is on the queue
		require.NoError(t, err)
		canceled := arm(time.Hour)
		require.True(t, canceled.Cancel())

		left := timer.Stop()
		require.ElementsMatch(t, []*Timeout{near, far, never, late, fresh, moved}, left)
		require.True(t, timer.IsStopped())
		require.Zero(t, timer.Pending())
		for _, to := range left {
			assert.False(t, to.IsCanceled())
			assert.False(t, to.IsExpired())
		}
		require.Nil(t, timer.Stop())

		for _, to := range append(left, gone, canceled) {
			before := to.String()
			active, err := to.Reset(0)
			require.False(t, active)
			require.ErrorIs(t, err, ErrStopped)
			require.Equal(t, before, to.String())
		}
		to, err := timer.AfterFunc(0, nop)
		require.ErrorIs(t, err, ErrStopped)
		require.Nil(t, to)

		pass(3 * time.Hour)
		require.EqualValues(t, 1, fired.Load())
		require.Equal(t, Stats{Accepted: 8, Expired: 1, Canceled: 1, Returned: 6, RejectedStopped: 9}, outcomes(timer))
	})
}

// What Stop returns is allocated once. A slice that grows would be copied, and each copy brings a collection nearer.
func TestStopAllocatesOnce(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	const n = 10_000
	for i := range n {
		_, err := timer.AfterFunc(time.Duration(i)*time.Hour, nop)
		require.NoError(t, err)
	}
	left := timer.Stop()
	require.Len(t, left, n)
	require.Equal(t, n, cap(left))
}

// Stop does not wait for a task that takes long. On virtual time Stop takes no time, on real time not much.
func TestStopDoesNotWaitForLongTasks(t *testing.T) {
	stop := func(t *testing.T, started chan bool) {
		timer := newTimer(t, WithTick(time.Millisecond))
		release := make(chan bool)
		defer close(release)
		_, err := timer.AfterFunc(0, func() { started <- true; <-release })
		require.NoError(t, err)
		<-started
		before := time.Now()
		timer.Stop()
		require.Less(t, time.Since(before), patience)
		if before.Year() == 2000 { // in a bubble, which starts in 2000
			require.Zero(t, time.Since(before))
		}
	}
	virtual(t, func(t *testing.T) { stop(t, make(chan bool)) })
	stop(t, make(chan bool))
}

// Stop inside a task also returns the timeouts that come after this task at the same tick.
func TestStopFromInsideATask(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1))
		ran, left := 0, 0
		for range 10 {
			_, err := timer.AfterFunc(time.Millisecond, func() {
				ran++
				left += len(timer.Stop())
			})
			require.NoError(t, err)
		}
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, 1, ran)
		require.Equal(t, 10, left)
	})
}

// Stop hands back timeouts that wait for their turn.
func TestStopReturnsWhatWaitsForATurn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(2))
		release := make(chan struct{})
		for range 3000 {
			_, err := timer.AfterFunc(0, func() { <-release })
			require.NoError(t, err)
		}
		pass(10 * time.Millisecond)
		require.Len(t, timer.Stop(), 2998)
		close(release)
		synctest.Wait()
		require.Equal(t, Stats{Accepted: 3000, Expired: 2, Returned: 2998}, outcomes(timer))
	})
}

func TestShutdown(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		start := time.Now()
		ended := 0
		_, err := timer.AfterFunc(0, func() { time.Sleep(time.Minute); ended++ })
		require.NoError(t, err)
		far, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		pass(time.Millisecond)

		// The first Shutdown gets the timeouts, and its context ends too early. The next ones wait long enough.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		left, err := timer.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []*Timeout{far}, left)
		require.Equal(t, time.Second+time.Millisecond, time.Since(start))

		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				left, err := timer.Shutdown(context.Background())
				assert.NoError(t, err)
				assert.Nil(t, left)
				assert.Equal(t, time.Minute+time.Millisecond, time.Since(start))
			})
		}
		wg.Wait()
		require.Equal(t, 1, ended)

		// Now there is nothing to wait for, so a context that is done makes no difference.
		_, err = timer.Shutdown(ctx)
		require.NoError(t, err)
		require.Nil(t, timer.Stop())
	})
}

func TestShutdownFromInsideATask(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		var shutdownErr error
		_, err := timer.AfterFunc(0, func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, shutdownErr = timer.Shutdown(ctx)
		})
		require.NoError(t, err)
		pass(time.Minute)
		require.ErrorIs(t, shutdownErr, context.DeadlineExceeded)
		require.Zero(t, timer.Stats().Running)
	})
}

// When a Shutdown has waited for a minute, the log says what for, once. Here 1,200 tasks wait for themselves.
func TestShutdownSaysWhatItWaitsFor(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option)
		start := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 1200 {
			_, err := timer.AfterFunc(0, func() { time.Sleep(time.Second); timer.Shutdown(ctx) })
			require.NoError(t, err)
		}
		pass(time.Hour)
		all := messages(log, start)
		require.Len(t, all, 1)
		require.Regexp(t, `^1m2.1s WARN Shutdown waits for calls that do not return; `+
			`most are hashedwheel.TestShutdownSaysWhatItWaitsFor.func1.1 calls=1200 most=1200 longest=1m[01](.\d)?s running=1200$`, all[0])
	})
}

// The warning does not count calls of submit, for which Shutdown does not wait.
func TestShutdownSaysNothingOfSubmit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		release := make(chan struct{})
		defer close(release)
		first := true
		timer := newTimer(t, option, WithExecutor(func(run func()) error {
			if first {
				first = false
				go run()
				return nil
			}
			<-release
			return nil
		}))
		for range 40 {
			_, err := timer.AfterFunc(0, func() { hangs(release) })
			require.NoError(t, err)
			pass(time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := timer.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Regexp(t, `Shutdown waits for calls that do not return; most are hashedwheel.TestShutdownSaysNothingOfSubmit\S+ calls=1 most=1 longest=\S+ running=1\n`, log.String())
	})
}

// panicsWhenCanceled is a Canceler that panics, after Stop has returned. Stop logs the panics before that in a line of their own.
type panicsWhenCanceled struct{}

func (panicsWhenCanceled) Run(*Timeout)      {}
func (panicsWhenCanceled) Canceled(*Timeout) { time.Sleep(time.Millisecond); panic("on purpose") }

// When Shutdown returns nil, what has panicked meanwhile is in the log.
func TestShutdownLogsPanicsOfCanceled(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option)
		for range 10 {
			_, err := timer.NewTimeout(panicsWhenCanceled{}, time.Hour)
			require.NoError(t, err)
		}
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(log.String(), "Canceled panicked"))
		require.Contains(t, log.String(), "times=9")
	})
}

// When Shutdown returns, its last line is written, however slow the logger is. If the context is done before, Shutdown
// does not wait for it.
func TestShutdownWaitsForItsLastLine(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, limit := range []time.Duration{time.Hour, 500 * time.Millisecond} {
			var log logBuffer
			timer := newTimer(t, WithLogger(slog.New(slowHandler{slog.NewTextHandler(&log, nil)})))
			for range 10 {
				_, err := timer.NewTimeout(panicsWhenCanceled{}, time.Hour)
				require.NoError(t, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			start := time.Now()
			_, err := timer.Shutdown(ctx)
			require.ErrorIs(t, err, ctx.Err())
			require.Equal(t, min(601*time.Millisecond, limit), time.Since(start), "one line for the first panic, and one for the others")
			cancel()
			pass(time.Minute)
			require.Equal(t, 2, strings.Count(log.String(), "Canceled panicked"))
		}
	})
}

// A slowHandler is the handler of a logger that takes 300ms for each line.
type slowHandler struct{ slog.Handler }

func (h slowHandler) Handle(ctx context.Context, r slog.Record) error {
	time.Sleep(300 * time.Millisecond)
	return h.Handler.Handle(ctx, r)
}

// The log says how many calls a Shutdown waits for. It counts each Canceled that hangs, even if it was called late.
func TestShutdownFindsCallsThatBeginLater(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option)
		release := make(chan struct{})
		for range 100 { // the pool adds runners for most of them later
			_, err := timer.NewTimeout(canceledBy(func() { <-release }), time.Hour)
			require.NoError(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := timer.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(release)
		synctest.Wait()
		require.Contains(t, log.String(), "Shutdown waits for calls that do not return")
		require.Contains(t, log.String(), "calls=100")
	})
}

// A canceledBy is a Canceler whose Canceled is the function.
type canceledBy func()

func (canceledBy) Run(*Timeout)        {}
func (f canceledBy) Canceled(*Timeout) { f() }

// Right after Shutdown the timer has no goroutine, whatever state it was in. If it had one, the bubble would not
// end, or would end in a panic.
func TestShutdownLeavesNoGoroutine(t *testing.T) {
	for _, wait := range []time.Duration{0, 500 * time.Microsecond, time.Millisecond, time.Minute} {
		virtual(t, func(t *testing.T) {
			timer, err := New(WithTick(time.Millisecond))
			require.NoError(t, err)
			for _, d := range []time.Duration{0, time.Millisecond, time.Hour} {
				_, err := timer.AfterFunc(d, func() { time.Sleep(time.Millisecond) })
				require.NoError(t, err)
			}
			time.Sleep(wait)
			_, err = timer.Shutdown(context.Background())
			require.NoError(t, err)
		})
	}
}

// Stop returns the timeouts that wait behind a stuck runner. After that nothing keeps them alive.
func TestStopFindsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Second), WithMaxConcurrency(1))
		release := make(chan struct{})
		const n = 1024
		var held []weak.Pointer[Timeout]
		for range n {
			to, err := timer.AfterFunc(2*time.Second, func() { <-release }) // all are in a bucket by then
			require.NoError(t, err)
			held = append(held, weak.Make(to))
		}
		pass(2 * time.Second)
		require.Equal(t, n-1, timer.Pending())
		require.Equal(t, n-1, timer.tasks.Waiting())
		require.Len(t, timer.Stop(), n-1)
		runtime.GC()
		kept := 0
		for _, p := range held {
			if p.Value() != nil {
				kept++
			}
		}
		require.Equal(t, 1, kept)
		close(release)
	})
}

// After Stop no timeout can be armed, even if it was on the queue during Stop, pending or canceled.
func TestStopLeavesNoneOnTheQueue(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	giveBack := hold(t, timer) // so that no worker takes the timeouts off the queue
	calls := make([]request, 4)
	for i := range calls {
		timer.Bind(&calls[i].timeout, &calls[i])
		_, err := calls[i].timeout.Reset(time.Hour)
		require.NoError(t, err)
		if i%2 == 0 {
			require.True(t, calls[i].timeout.Cancel())
		}
	}
	require.Len(t, stopHeld(timer, giveBack), 2)
	for i := range calls {
		to := &calls[i].timeout
		for _, reset := range []func() (bool, error){
			func() (bool, error) { return to.Reset(time.Hour) },
			func() (bool, error) { return to.ResetAt(time.Now().Add(time.Hour)) },
		} {
			active, err := reset()
			require.ErrorIs(t, err, ErrStopped)
			require.False(t, active)
		}
		require.False(t, to.Move(time.Hour))
		to.Cancel()
		require.True(t, to.IsCanceled())
	}
	require.Zero(t, timer.Pending())
}

// A round that Stop finds at work leaves to Stop what it has not placed yet. Once it placed all of a long queue, for Stop
// to take it out of the buckets again.
func TestStopWhileTheWorkerDrains(t *testing.T) {
	const n = 3500
	timer := newTimer(t, WithTick(time.Hour))
	w := &timer.worker
	require.True(t, w.requestRound()) // the test is the worker
	for range n {
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
	}
	w.round()
	require.Equal(t, n, w.wheel.count)
	placed := 0
	for range n {
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
	}
	go func() { // halts the worker while it is at work
		for w.state.Load() != halted {
			runtime.Gosched()
		}
		w.round()
		placed = w.wheel.count
		close(w.done)
	}()
	require.Len(t, timer.Stop(), 2*n)
	require.Equal(t, n, placed)
}

// Stop waits for the round in progress, also if another one is to follow.
func TestStopWaitsForTheRound(t *testing.T) {
	for _, woken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimer(t)
			giveBack := hold(t, timer)
			_, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			if woken {
				timer.worker.wakeNow()
				require.EqualValues(t, workingAgain, timer.worker.state.Load())
			}
			left := make(chan []*Timeout, 1)
			go func() { left <- timer.Stop() }()
			synctest.Wait()
			require.Empty(t, left, "the round is not over")
			giveBack()
			require.Len(t, <-left, 1)
		})
	}
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

// Stop finds a timeout that a runner has put off, and those that a Reset has put into a second slot, once each.
func TestStopFindsLeft(t *testing.T) {
	timer := newFakedTimer(t)
	giveBack := hold(t, timer)
	sentBack := &Timeout{timer: timer, task: plainFunc(nop)}
	sentBack.word.Store(pendingAt(0, 100))
	require.True(t, sentBack.sendBack(sentBack.word.Load()))
	all := []*Timeout{sentBack}
	for i := range 100 {
		to, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		if i%2 == 0 {
			_, err = to.Reset(time.Minute)
			require.NoError(t, err)
		}
		all = append(all, to)
	}
	require.ElementsMatch(t, all, stopHeld(timer, giveBack))
	for _, to := range all {
		require.False(t, onQueue(to.word.Load()))
	}
}

// Stop returns a repeating timeout once, whatever its state, and no run follows.
func TestRepeatingStop(t *testing.T) {
	const tick = time.Millisecond
	for name, opts := range executors() {
		for _, at := range []time.Duration{0, 5 * tick, 6 * tick} {
			for _, slow := range []bool{false, true} {
				t.Run(fmt.Sprint(name, at, slow), func(t *testing.T) {
					virtual(t, func(t *testing.T) {
						timer := newTimer(t, append(opts, WithTick(tick))...)
						var runs atomic.Int32
						to, err := timer.ScheduleAtFixedRate(TaskFunc(func(to *Timeout) {
							runs.Add(1)
							if slow {
								time.Sleep(20 * tick)
							}
						}), 5*tick, 10*tick)
						require.NoError(t, err)
						pass(at)
						before := runs.Load()
						require.Equal(t, []*Timeout{to}, timer.Stop())
						_, err = to.Reset(tick)
						require.ErrorIs(t, err, ErrStopped)
						pass(time.Hour)
						require.Equal(t, before, runs.Load())
						checkReturned(t, to)
						require.Zero(t, timer.tasks.Waiting())
						checkStats(t, timer)
						_, err = to.Reset(tick)
						require.ErrorIs(t, err, ErrStopped)
					})
				})
			}
		}
		t.Run(name+"/inside", func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(tick))...)
				got := make(chan []*Timeout, 10)
				to, err := timer.ScheduleAtFixedRate(TaskFunc(func(to *Timeout) { got <- timer.Stop() }), tick, tick)
				require.NoError(t, err)
				require.Equal(t, []*Timeout{to}, <-got)
				pass(time.Hour)
				require.Empty(t, got)
				checkReturned(t, to)
				checkStats(t, timer)
			})
		})
	}
}

// A repeating timeout may be due again just as Stop begins. Its runner keeps it until Stop has taken it.
func TestRequeueAfterStop(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newFakedTimer(t) // nothing is pending
		giveBack := hold(t, timer)
		go timer.Stop() // waits for the round
		synctest.Wait()
		require.True(t, timer.IsStopped())
		to := &Timeout{timer: timer}
		to.word.Store(pendingAt(0, 1))
		var done moments
		go func() {
			(*host)(timer).Requeue(to)
			done.Note()
		}()
		synctest.Wait()
		require.Empty(t, done.All())
		giveBack()
		synctest.Wait()
		require.Len(t, done.All(), 1)
	})
}

// A Cancel has ended a timeout, and not notified its Canceler yet. Shutdown waits for that. The test runs on real time, for
// the same reason.
func TestShutdownOverlapsWithCancel(t *testing.T) {
	timer := newTimer(t)
	g := NewGroup(timer)
	c := new(CancelCounter)
	to, err := g.NewTimeout(c, time.Hour)
	require.NoError(t, err)
	g.mu.Lock() // so that the Cancel waits before it notifies the Canceler
	won, over := make(chan bool), make(chan error)
	go func() { won <- to.Cancel() }()
	for !to.IsCanceled() {
		runtime.Gosched()
	}
	go func() {
		_, err := timer.Shutdown(t.Context())
		over <- err
	}()
	for !timer.IsStopped() {
		runtime.Gosched()
	}
	select {
	case <-over:
		t.Error("Shutdown did not wait")
		g.mu.Unlock()
	case <-time.After(10 * time.Millisecond):
		g.mu.Unlock()
		require.NoError(t, <-over)
	}
	require.EqualValues(t, 1, c.Told.Load())
	require.True(t, <-won)
}
