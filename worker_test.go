package hashedwheel

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// A worker that finds itself late by more than a second logs by how much, and once when it is on time again. It logs
// nothing for a second or less.
func TestLateWorkerWarns(t *testing.T) {
	for _, c := range []struct {
		stall        time.Duration
		queue        bool // the timeout is still on the queue when it comes due, not in a bucket
		want, lasted string
	}{
		{time.Second, false, "", ""},
		{time.Second, true, "", ""},
		{2 * time.Second, false, `late=2s`, "lasted=2s"},
		{2 * time.Second, true, `late=2s`, "lasted=2s"},
		{time.Hour, false, `late=1h0m0s`, "lasted=1h0m0s"},
		{5_738 * time.Millisecond, true, `late=5.74s`, "lasted=5.74s"},
	} {
		virtual(t, func(t *testing.T) {
			option, log := logged()
			const tick = time.Millisecond
			timer := newTimer(t, WithTick(tick), option)
			giveBack := hold(t, timer)
			ran := 0
			arm := func(delay time.Duration) {
				_, err := timer.AfterFunc(delay, func() { ran++ })
				require.NoError(t, err)
			}
			arm(tick)
			if !c.queue {
				timer.worker.round()
			}
			pass(tick + c.stall)
			giveBack()
			synctest.Wait()
			require.Equal(t, 1, ran)
			if c.want == "" {
				require.Empty(t, log.String())
				return
			}
			require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
			require.Contains(t, log.String(), c.want+"\n")

			arm(tick)
			pass(10 * time.Second)
			require.Equal(t, 2, ran)
			arm(tick)
			pass(10 * time.Second)
			require.Equal(t, 3, ran)
			require.Equal(t, 2, strings.Count(log.String(), "\n"), "the second time the worker is on time")
			require.Contains(t, log.String(), `level=INFO msg="hashedwheel: timeouts fire on time again" `+c.lasted+"\n")
		})
	}
}

// Tasks that take long, and tasks that wait for these, are late by seconds. That is not the machine's fault, so the worker,
// which is on time, logs nothing.
func TestSlowTasksAreNotTheMachine(t *testing.T) {
	const period = 100 * time.Millisecond
	for name, opts := range map[string][]Option{
		"own runners":     nil,
		"one at a time":   {WithMaxConcurrency(1)},
		"executor":        {WithExecutor(func(run func()) error { go run(); return nil })},
		"busy executor":   {WithExecutor(func(run func()) error { time.Sleep(2 * time.Second); go run(); return nil })},
		"failed executor": {WithExecutor(func(func()) error { return ErrStopped })},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				option, log := logged()
				timer := newTimer(t, append(opts, option)...)
				var runs atomic.Int64
				sleep := func(d time.Duration) Task {
					return TaskFunc(func(*Timeout) { runs.Add(1); time.Sleep(d) })
				}
				_, err := timer.ScheduleAtFixedRate(sleep(2*period), 0, period)
				require.NoError(t, err)
				for range 5 {
					_, err := timer.Schedule(sleep(period/2), Every(period))
					require.NoError(t, err)
				}
				to, err := timer.NewTimeout(sleep(0), 10*time.Second)
				require.NoError(t, err)
				for range 60 {
					pass(period / 2)
					to.Reset(0)
				}
				_, err = timer.Shutdown(t.Context())
				require.NoError(t, err)
				pass(2 * time.Second) // until submit has returned
				require.Greater(t, runs.Load(), int64(5))
				require.NotContains(t, log.String(), "fire")
			})
		})
	}
}

// A timer with nothing pending has no alarm and no wheel within a second. The next timeout makes them again. Soon after
// the last use they are still there.
func TestWorkerGivesBackItsMemory(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		w := &timer.worker
		require.True(t, w.released())
		for range 3 {
			fired := false
			_, err := timer.AfterFunc(time.Minute, func() { fired = true })
			require.NoError(t, err)
			to, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			pass(settled)
			require.EqualValues(t, resting, w.state.Load())
			pass(time.Minute)
			require.True(t, fired)
			require.EqualValues(t, resting, w.state.Load())
			require.True(t, to.Cancel())
			pass(250 * time.Millisecond)
			require.EqualValues(t, resting, w.state.Load())
			require.NotNil(t, timer.Stats().Levels, "the wheel is still there")
			pass(750 * time.Millisecond)
			require.True(t, w.released())
			require.Zero(t, timer.Pending())
		}
	})
}

// The worker ends within a second, also with a tick that is longer than a second.
func TestWorkerEndsSoonWithALongTick(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		for _, wait := range []time.Duration{0, time.Minute} {
			var all []*Timeout
			for _, delay := range []time.Duration{time.Minute, 100 * time.Hour} {
				to, err := timer.AfterFunc(delay, nop)
				require.NoError(t, err)
				all = append(all, to)
			}
			pass(wait)
			for _, to := range all {
				require.True(t, to.Cancel())
			}
			pass(time.Second)
			require.True(t, timer.worker.released(), "canceled after %v", wait)
		}

		// It sleeps while something is pending.
		_, err := timer.AfterFunc(30*time.Minute, nop)
		require.NoError(t, err)
		pass(time.Minute)
		require.EqualValues(t, resting, timer.worker.state.Load())
		pass(2 * time.Hour)
		require.Zero(t, timer.Pending())
	})
}

// While nothing is due the worker does no round.
func TestWorkerSleepsThroughEmptyTicks(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithWheelSize(8))
		fired := 0
		_, err := timer.AfterFunc(time.Hour, func() { fired++ })
		require.NoError(t, err)
		wakeups := func() uint64 { return timer.Stats().Wakeups }
		pass(settled)
		require.EqualValues(t, resting, timer.worker.state.Load())
		before := wakeups()
		pass(59 * time.Minute)
		require.Equal(t, before, wakeups())
		pass(time.Minute)
		require.Equal(t, 1, fired)
		require.Greater(t, wakeups(), before)
	})
}

// The worker takes a near timeout also in the first tick. Otherwise it would wake up again and again until the first boundary.
func TestSleepsInTheFirstTick(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		pass(30 * time.Minute)
		require.LessOrEqual(t, timer.Stats().Wakeups, uint64(2))
		require.Zero(t, timer.Stats().Queued)
	})
}

// While nothing is due the worker does nothing, however much is pending. It does not wake up for canceled
// timeouts.
func TestIdleCostsNothing(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		wakeups := func(d time.Duration) int {
			before := timer.Stats().Wakeups
			pass(d)
			return int(timer.Stats().Wakeups - before)
		}
		var near []*Timeout
		for i := range 1000 {
			_, err := timer.AfterFunc(time.Hour+time.Duration(i)*time.Second, nop)
			require.NoError(t, err)
			to, err := timer.AfterFunc(2*time.Minute+time.Duration(i)*time.Second, nop)
			require.NoError(t, err)
			near = append(near, to)
		}
		require.LessOrEqual(t, wakeups(settled), 6) // to place them
		require.Zero(t, wakeups(58*time.Second))
		for _, to := range near {
			require.True(t, to.Cancel())
		}
		require.LessOrEqual(t, wakeups(time.Second), 3)
		require.Zero(t, wakeups(58*time.Minute))

		require.Len(t, timer.Stop(), 1000)
	})
}

// Each round has a new goroutine. In most rounds of a burst its stack does not grow, which takes 2 to 9 microseconds, because
// the runtime has to find and move all frames. Only the allocator may need more.
func TestRoundsFitAFreshStack(t *testing.T) {
	if raceDetector || runtime.GOARCH != "amd64" {
		t.Skip("frames are larger with the race detector, and have other sizes on other processors")
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // in a collection each allocation may need more
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		hold(t, timer)
		const rounds, burst = 100, 300 // more than a chunk of a pool
		grown := 0
		for range rounds {
			for range burst {
				_, err := timer.AfterFunc(20*time.Millisecond, nop)
				require.NoError(t, err)
			}
			pass(10 * time.Millisecond)
			go func() {
				var here [64]byte // a frame not smaller than those of onAlarm and run
				before := address(&here)
				timer.worker.round()
				if address(&here) != before {
					grown++
				}
			}()
			pass(0)
		}
		require.LessOrEqual(t, grown, rounds/2)
	})
}

//go:noinline
func address(x *[64]byte) uintptr { return uintptr(unsafe.Pointer(x)) }

// The worker does not wake up for a timeout an hour ahead until it is due. When nothing is pending it never
// wakes up.
func TestOneFarTimeoutCostsNothing(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		to, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		pass(time.Second)
		before := timer.Stats().Wakeups
		pass(time.Hour - time.Second - 1)
		require.Equal(t, before, timer.Stats().Wakeups)
		require.False(t, to.IsExpired())
		pass(1)
		require.True(t, to.IsExpired())
		require.Equal(t, before+1, timer.Stats().Wakeups)
		pass(time.Second)
		require.True(t, timer.worker.released())
		before = timer.Stats().Wakeups
		pass(time.Hour)
		require.Equal(t, before, timer.Stats().Wakeups)
	})
}

// A timeout fires on time even if the worker sleeps until a later one.
func TestEarlierTimeoutWakesTheWorker(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		for range 10 {
			pass(time.Second + 300*time.Microsecond)
			start, elapsed := time.Now(), time.Duration(0)
			want := timer.clock.Boundary(timer.clock.Due(timer.clock.Elapsed(), 5*time.Millisecond)) - timer.clock.Elapsed()
			_, err := timer.AfterFunc(5*time.Millisecond, func() { elapsed = time.Since(start) })
			require.NoError(t, err)
			pass(10 * time.Millisecond)
			require.Equal(t, want, elapsed)
		}
	})
}

// NewTimeoutAt and ResetAt need no clock. But if they find that the worker must be woken, they panic in a bubble that the timer
// was not made in. The worker does not change, so that it is woken where it belongs.
func TestNoRoundOnTheOtherSideOfABubble(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	w := &timer.worker
	const idle = uint64(1e9) // the tick for which the worker watches: there is a timeout that becomes near before that
	w.state.Store(idle << idleShift)
	deadline := timer.clock.Start.Add(timer.clock.Boundary(idle + 1))
	var embedded Timeout
	timer.Bind(&embedded, TaskFunc(func(*Timeout) {}))
	synctest.Test(t, func(t *testing.T) {
		const wrongSide = "hashedwheel: a Timer made outside of a testing/synctest bubble is used inside one: make it inside the bubble"
		require.PanicsWithValue(t, wrongSide, func() { timer.NewTimeoutAt(embedded.Task(), deadline) })
		require.PanicsWithValue(t, wrongSide, func() { embedded.ResetAt(deadline) })
	})
	require.Equal(t, idle<<idleShift, w.state.Load())
	fired := make(chan struct{})
	_, err := timer.AfterFunc(0, func() { close(fired) })
	require.NoError(t, err)
	<-fired
	require.Len(t, timer.Stop(), 2, "armed before the panics")
}

// On real time, a worker that is delayed for hundreds of ticks loses no timeout, and none is early afterwards.
// TestWheelCatchesUpAtOnce tests the cost of catching up.
func TestHeldUpWorkerCatchesUp(t *testing.T) {
	t.Parallel()
	for levels := 1; levels <= sized(1, 2, 4); levels++ {
		const tick, n = 500 * time.Microsecond, 1000
		timer := newTimer(t, WithTick(tick), WithLevels(levels), WithWheelSize(8))
		var ran, early atomic.Int64
		for i := range n {
			delay := time.Duration(i) * tick / 2
			start := time.Now()
			_, err := timer.AfterFunc(delay, func() {
				if time.Since(start) < delay {
					early.Add(1)
				}
				ran.Add(1)
			})
			require.NoError(t, err)
		}
		timer.worker.mu.Lock() // the worker needs it to go on
		for until := timer.clock.Now() + 300; timer.clock.Now() < until; {
			time.Sleep(tick)
		}
		timer.worker.mu.Unlock()
		require.Eventually(t, func() bool { return ran.Load() == n }, patience, time.Millisecond)
		require.Zero(t, early.Load())
	}
}

// If the tick is shorter than a round of the worker, the worker is always behind. Tasks run nevertheless, even if there
// is only one processor, and on js/wasm, where the worker is never preempted.
func TestTickShorterThanARound(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	timer := newTimer(t, WithTick(1))
	fired := make(chan struct{})
	for range 1000 {
		_, err := timer.AfterFunc(0, func() { fired <- struct{}{} })
		require.NoError(t, err)
		select {
		case <-fired:
		case <-time.After(patience):
			t.Fatal("not fired")
		}
	}
}

// No wake-up is lost: a timeout fires at whatever moment it is armed while the worker goes idle, ends or
// starts. After a lost wake-up it would never fire.
func TestNoLostWakeUp(t *testing.T) {
	timer := newTimer(t, WithTick(time.Microsecond))
	fired := make(chan struct{}, 1)
	far, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	r := newRand(t)
	for end := time.Now().Add(stressTime(t)); time.Now().Before(end); {
		for range 100 {
			_, err := timer.AfterFunc(0, func() { fired <- struct{}{} })
			require.NoError(t, err)
			select {
			case <-fired:
			case <-time.After(patience):
				t.Fatalf("not fired: state %d, %d on the queue", timer.worker.state.Load(), timer.queued())
			}
			if r.IntN(2) == 0 { // decides whether the worker sleeps or ends
				far.Cancel()
			} else {
				_, err := far.Reset(time.Hour)
				require.NoError(t, err)
			}
			// About as long as the worker takes to check once more and go idle.
			for spin, start := time.Duration(r.IntN(100_000)), time.Now(); time.Since(start) < spin; {
				if r.IntN(8) == 0 {
					runtime.Gosched()
				}
			}
		}
	}
}

// A push starts a round only if the next one comes too late for it.
func TestComesTooLate(t *testing.T) {
	synctest.Test(t, testComesTooLate)
}

func testComesTooLate(t *testing.T) {
	const tick, position = time.Millisecond, 1000
	timer := newTimer(t, WithTick(tick))
	hold(t, timer)
	w := &timer.worker
	w.round() // makes the wheel
	time.Sleep(position * tick)
	w.expireDue()
	const near = position + 250 // ticks: see nearTime
	for _, c := range []struct {
		idle, due uint64
		late      bool
	}{
		{position + 1, 0, false}, {position + 1, near, false}, {position + 1, near + 100, false},
		{position + 2, 0, true}, {position + 2, near + 1, true}, {position + 2, near + 2, false},
		{position + 9, near + 8, true}, {position + 9, near + 9, false},
		{ticks.Never, near + 100, true}, {ticks.Never, ticks.Never, true},
	} {
		require.Equal(t, c.late, w.comesTooLate(c.idle<<idleShift, c.due), "%+v", c)
	}
	for _, state := range []uint64{working, workingAgain, halted} {
		require.False(t, w.comesTooLate(state, 0))
	}
}

// A wakeNow, or an alarm, during a round makes another round follow.
func TestWakeNowDuringARound(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	w := &timer.worker
	for _, call := range []func(){w.wakeNow, w.onAlarm} {
		for range 3 {
			require.True(t, w.requestRound())
			call()
			call()
			require.EqualValues(t, workingAgain, w.state.Load())
			require.False(t, w.goIdle(math.MaxInt64, 1))
			require.False(t, w.goIdle(math.MaxInt64, ticks.Never))
			w.run()
			require.EqualValues(t, resting, w.state.Load())
		}
	}
}

// A timeout that was reset to a tick that has passed when the worker takes it off the queue leaves its bucket,
// and is due.
func TestReconcileOverdue(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		giveBack := hold(t, timer)
		w := &timer.worker
		start := time.Now()
		var fired moments
		to, err := timer.AfterFunc(50*tick, fired.Note)
		require.NoError(t, err)
		w.round()
		require.Equal(t, 1, w.wheel.count)
		_, err = to.Reset(3 * tick)
		require.NoError(t, err)
		time.Sleep(5 * tick)
		giveBack()
		synctest.Wait()
		require.Zero(t, w.wheel.count)
		require.Equal(t, []time.Duration{5 * tick}, fired.Since(start))
	})
}

// A timer that is dropped without Stop is garbage collected after its last timeout has ended.
func TestDroppedTimerIsCollected(t *testing.T) {
	all := map[string]chan struct{}{} // closed when the timer is gone; all are made first, because each takes a while
	for name, use := range map[string]func(t *testing.T, timer *Timer){
		"unused": func(*testing.T, *Timer) {},
		"canceled": func(t *testing.T, timer *Timer) {
			to, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			require.True(t, to.Cancel())
		},
		"pending": func(t *testing.T, timer *Timer) {
			_, err := timer.AfterFunc(30*time.Millisecond, nop)
			require.NoError(t, err)
		},
		"repeating": func(t *testing.T, timer *Timer) {
			runs := 0
			_, err := timer.ScheduleWithFixedDelay(TaskFunc(func(to *Timeout) {
				if runs++; runs == 5 {
					to.Cancel()
				}
			}), 0, time.Millisecond)
			require.NoError(t, err)
		},
	} {
		for levels := 1; levels <= sized(1, 3, 3); levels += 2 {
			timer, err := New(WithTick(time.Millisecond), WithLevels(levels))
			require.NoError(t, err)
			gone := make(chan struct{})
			runtime.AddCleanup(timer, func(gone chan struct{}) { close(gone) }, gone)
			use(t, timer)
			all[fmt.Sprintf("%s/levels=%d", name, levels)] = gone
		}
	}
	for name, gone := range all {
		t.Run(name, func(t *testing.T) {
			for deadline := time.Now().Add(patience); ; {
				runtime.GC()
				select {
				case <-gone:
					return
				case <-time.After(5 * time.Millisecond):
					require.True(t, time.Now().Before(deadline), "still there")
				}
			}
		})
	}
}

// What has come due while the worker gives back its memory is handed over in the same round. Otherwise a walk could miss it.
func TestReleaseHandsOver(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		timer.tasks.Limit = -1 // so that no runner starts
		hold(t, timer)
		w := &timer.worker
		w.round() // makes the wheel
		_, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		time.Sleep(3 * time.Millisecond)
		w.expireDue()
		require.False(t, w.releaseMemory())
		require.Equal(t, 1, timer.tasks.Waiting())
		for range timer.Tasks() {
			return
		}
		t.Fatal("missed")
	})
}

// A worker that may not add more runners goes idle, even if timeouts wait for their turn.
func TestWorkerGoesIdleAtTheLimit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1))
		release := make(chan struct{})
		defer close(release)
		for range 5 {
			_, err := timer.AfterFunc(0, func() { <-release })
			require.NoError(t, err)
		}
		pass(10 * time.Millisecond)
		require.EqualValues(t, resting, timer.worker.state.Load())
	})
}

// A leak checker sees nothing of a timer with a pending timeout, soon after it was armed. It still finds a task that
// hangs. The test sleeps on real time, because goleak does.
func TestLeakCheckersSeeNoWaitingTimer(t *testing.T) {
	if testing.Short() && !full() {
		t.Skip("goleak waits half a second before it reports a goroutine: runs without -short")
	}
	others := goleak.IgnoreCurrent()
	timer := newTimer(t)
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.NoError(t, goleak.Find(others)) // tries again for half a second
	stacks := make([]byte, 1<<20)
	require.NotContains(t, string(stacks[:runtime.Stack(stacks, true)]), "hashedwheel.(*worker)")

	hangs, started := make(chan struct{}), make(chan struct{})
	_, err = timer.AfterFunc(0, func() { close(started); <-hangs })
	require.NoError(t, err)
	<-started
	require.ErrorContains(t, goleak.Find(others), "TestLeakCheckersSeeNoWaitingTimer.func")
	close(hangs)
	require.NoError(t, goleak.Find(others))
}

// Stop disarms the alarm, whether the worker rests or waits for the next boundary.
func TestStoppedTimerHasNoAlarm(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimer(t)
			_, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			pass(wait)
			require.Len(t, timer.Stop(), 1)
			require.False(t, timer.worker.alarm.Stop(), "it was armed")
		})
	}
}

// A bubble may end with a timer in it that waits, was stopped, or has nothing to do any more. In package time it may too.
func TestBubbleEndsWithATimer(t *testing.T) {
	for name, use := range map[string]func(timer *Timer){
		"pending":  func(*Timer) {},
		"waiting":  func(*Timer) { pass(time.Minute) },
		"fired":    func(*Timer) { pass(2 * time.Hour) },
		"stopped":  func(timer *Timer) { timer.Stop() },
		"shutdown": func(timer *Timer) { timer.Shutdown(context.Background()) },
		"just fired": func(timer *Timer) {
			time.Sleep(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer, err := New()
				require.NoError(t, err)
				_, err = timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				use(timer)
			})
		})
	}
}

// A round is overdue if it has not looked at the clock for long, or if its alarm has not gone off.
func TestOverdue(t *testing.T) { synctest.Test(t, testOverdue) }

func testOverdue(t *testing.T) {
	const tick = 10 * time.Millisecond
	timer := newTimer(t, WithTick(tick))
	hold(t, timer)
	w := &timer.worker
	w.round() // makes the wheel
	time.Sleep(2 * tick)
	w.expireDue()
	for _, c := range []struct {
		name  string
		state uint64
		from  time.Duration // it is overdue from this time on
	}{
		{"preempted", working, 3*tick + overdue},
		{"preempted, and woken again", workingAgain, 3*tick + overdue},
		{"no alarm", 4 << idleShift, 4*tick + overdue},
		{"resting", resting, math.MaxInt64},
	} {
		require.False(t, w.isOverdue(c.from-1, c.state), c.name)
		require.True(t, w.isOverdue(c.from, c.state), c.name)
	}
}

// A producer that finds a round overdue starts it if the alarm has not gone off, and yields to it.
func TestArmingYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		w := &timer.worker
		require.True(t, w.requestRound()) // the test is the worker
		time.Sleep(tick + overdue)
		arm := func() {
			for range 1000 { // some of them see whether to yield
				if _, err := timer.AfterFunc(time.Hour, nop); err != nil {
					t.Fatal(err)
				}
			}
		}
		arm()
		require.EqualValues(t, working, w.state.Load())
		require.True(t, w.goIdle(time.Hour, 1)) // the alarm does not go off
		for range 100 {                         // the scheduler may choose the producer again
			arm()
		}
		require.Equal(t, timer.clock.Now(), w.progress.tick())
	})
}

// A producer that finds a runner overdue yields to it. The time counts from the first hand-over, also if more was handed over
// since.
func TestArmingYieldsToARunner(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	// If the goroutine is preempted meanwhile, the runner comes anyway: then the test tries again.
	const slice = 10 * time.Millisecond
	for tries := 0; ; tries++ {
		require.Less(t, tries, 1000)
		timer := newFakedTimer(t, WithTick(time.Hour))
		w := &timer.worker
		hold(t, timer) // the test is the worker
		w.round()      // makes the wheel
		var ran atomic.Bool
		handOver := func() {
			to := &Timeout{timer: timer, task: plainFunc(func() { ran.Store(true) })}
			to.word.Store(pendingAt(0, 0))
			w.expireDue()
			w.emit(to)
			w.handOver()
		}
		runtime.Gosched() // a new time slice
		from := w.clock.Elapsed()
		handOver()
		at := w.handedAt.Load()
		for int64(w.clock.Elapsed()) == at {
		}
		handOver()
		same := w.handedAt.Load() == at
		early := w.runnerIsOverdue(time.Duration(at) + overdue - 1)
		w.handedAt.Add(-int64(overdue))
		before := ran.Load()
		for range 100 { // the scheduler may choose the producer again
			for range 1000 { // some of them see whether to yield
				if _, err := timer.AfterFunc(1000*time.Hour, nop); err != nil {
					t.Fatal(err)
				}
			}
			if ran.Load() {
				break
			}
		}
		after := ran.Load()
		if before || w.clock.Elapsed()-from > slice/2 {
			continue
		}
		require.True(t, same)
		require.False(t, early)
		require.True(t, after)
		require.False(t, w.runnerIsOverdue(math.MaxInt64))
		return
	}
}

// A runner that was started for the first of many timeouts, before the rest was handed over, is not overdue at once.
func TestRunnerIsNotOverdueAtOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, n := range []int{1, 1000} {
		timer := newFakedTimer(t, WithTick(time.Hour))
		w := &timer.worker
		hold(t, timer)
		w.round()
		w.handedAt.Store(-int64(time.Hour))
		w.expireDue()
		for range n {
			to := &Timeout{timer: timer, task: plainFunc(nop)}
			to.word.Store(pendingAt(0, 0))
			w.emit(to)
		}
		w.handOver()
		require.Less(t, -time.Second, time.Duration(w.handedAt.Load()), "%d timeouts", n)
	}
}

// Producers yield to a round that is late, for yieldFor. If it has not gone on by then, they back off, each time for twice
// as long as before. Once it has gone on, they yield to the next one at once.
func TestYields(t *testing.T) {
	var y yielding
	check := func(want, late bool, times ...time.Duration) {
		t.Helper()
		for _, now := range times {
			require.Equal(t, want, y.yields(now, late), now)
		}
	}
	check(false, false, 0, time.Second-1)
	from, backoff := time.Second, minBackoff
	for range 10 {
		check(true, true, from, from+yieldFor-1)
		check(false, true, from+yieldFor, from+backoff-1)
		from, backoff = from+backoff, min(2*backoff, maxBackoff)
	}
	require.Equal(t, maxBackoff, backoff)
	check(true, true, from)
	check(false, false, from+1) // it has gone on
	from += 2 * yieldFor
	check(true, true, from, from+yieldFor-1)
	check(false, true, from+yieldFor, from+minBackoff-1)
	check(true, true, from+minBackoff)
}

// Timeouts that are armed and canceled one after another do not start a round each, but one in each tick.
func TestCanceledStartNoRoundEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, inATick, n = 100 * time.Millisecond, 10, 20
		timer := newTimer(t, WithTick(tick))
		for range n * inATick {
			to, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			require.True(t, to.Cancel())
			pass(tick / inATick)
		}
		require.LessOrEqual(t, timer.Stats().Wakeups, uint64(n+1))
	})
}

// Beside producers that do not pause, timeouts are on time wherever they lie: near or far, reset to a later tick or to an
// earlier one.
func TestOnTimeBesideProducers(t *testing.T) {
	t.Parallel()
	for _, tick := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick))
			r := newRand(t)
			var mu sync.Mutex // because the passing of virtual time does not order memory
			fired := 0
			arm := func(n int, reset bool) {
				for range n {
					delay := time.Duration(r.Int64N(int64(2 * time.Second)))
					first := delay
					if reset {
						first = time.Duration(r.Int64N(int64(3 * time.Second)))
					}
					due := time.Now()
					to, err := timer.AfterFunc(first, func() {
						mu.Lock()
						defer mu.Unlock()
						fired++
						if late := time.Since(due); late < 0 || late >= tick {
							t.Errorf("late by %v", late)
						}
					})
					require.NoError(t, err)
					mu.Lock()
					due = due.Add(first)
					mu.Unlock()
					if reset {
						time.AfterFunc(min(first, 500*time.Millisecond)/2, func() {
							mu.Lock()
							defer mu.Unlock()
							due = time.Now().Add(delay)
							to.Reset(delay)
						})
					}
				}
			}
			armed := 0
			churn(t, timer, 3000, sized(time.Second/2, time.Second, time.Second), func(elapsed time.Duration) {
				if elapsed < 3*tick {
					return
				}
				arm(2, false)
				arm(2, true)
				armed += 4
			})
			pass(10 * time.Second)
			require.Equal(t, armed, fired)
			require.Zero(t, timer.Pending())
		})
	}
}

// A round that hands over what is due allocates nothing, not even right after two garbage collections, which empty every
// sync.Pool. The test runs on real time, because it counts what the whole process allocates.
func TestRoundsAllocateNothing(t *testing.T) {
	if oneThread {
		t.Skip("on js/wasm, timers of the runtime allocate")
	}
	timer := newTimer(t, WithTick(time.Millisecond))
	fired := make(chan struct{}, 1)
	var to Timeout
	timer.Bind(&to, plainFunc(func() { fired <- struct{}{} }))
	clean := 0
	rounds := sized(10, 40, 60)
	for range rounds {
		for timer.worker.state.Load() != resting { // so that the Reset starts a round
			time.Sleep(timer.Tick())
		}
		runtime.GC()
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := to.Reset(3 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		<-fired
		runtime.ReadMemStats(&after)
		if after.Mallocs == before.Mallocs {
			clean++
		}
	}
	t.Logf("%d of %d rounds allocated nothing", clean, rounds)
	require.Greater(t, clean, rounds/10) // the others met allocations of the runtime's own, which are many on a busy machine
}

// endOfRound brings the worker of a timer to the end of a round after which it would watch: it comes for the next sweep. A far
// timeout is on the queue. It returns the timeout, and a function that does the rest.
func endOfRound(t *testing.T, timer *Timer, task func()) (far *Timeout, leave func()) {
	w := &timer.worker
	require.True(t, w.requestRound()) // the test is the worker
	w.round()
	time.Sleep(timer.Tick())
	far, err := timer.AfterFunc(time.Hour, task)
	require.NoError(t, err)
	until, next := w.round()
	require.Less(t, timer.clock.Now()+1, next)
	require.Less(t, next, uint64(ticks.Never))
	return far, func() {
		if !w.goIdle(until, next) {
			go w.run()
		}
		synctest.Wait()
	}
}

// A timeout becomes near while a round that does not take it is about to end, or while the worker watches. It is on
// time. So is one that a producer takes for a far one, because the position has not moved for long.
func TestNearWhileWatching(t *testing.T) {
	const tick = time.Millisecond
	for name, use := range map[string]func(t *testing.T, timer *Timer, fired func(), far *Timeout){
		"reset": func(t *testing.T, timer *Timer, fired func(), far *Timeout) {
			_, err := far.Reset(2 * tick)
			require.NoError(t, err)
		},
		"canceled and reset": func(t *testing.T, timer *Timer, fired func(), far *Timeout) {
			require.True(t, far.Cancel())
			_, err := far.Reset(2 * tick)
			require.NoError(t, err)
		},
		"armed": func(t *testing.T, timer *Timer, fired func(), far *Timeout) {
			_, err := timer.AfterFunc(2*tick, fired)
			require.NoError(t, err)
		},
		"old position": func(t *testing.T, timer *Timer, fired func(), far *Timeout) {
			time.Sleep(500 * tick)
			_, err := timer.AfterFunc(2*tick, fired)
			require.NoError(t, err)
		},
	} {
		for _, before := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick))
				var fired moments
				far, leave := endOfRound(t, timer, fired.Note)
				if !before {
					leave()
				}
				if name == "old position" && !before {
					return // the worker would not watch for so long
				}
				use(t, timer, fired.Note, far)
				armed := time.Now()
				if before {
					leave()
				}
				pass(10 * tick)
				require.Equal(t, []time.Duration{2 * tick}, fired.Since(armed), "%s, before the end of the round: %v", name, before)
			})
		}
	}
}

// While the worker watches, a deadline that has passed counts as a delay of zero.
func TestPastDeadlineWhileWatching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		_, leave := endOfRound(t, timer, nop)
		leave()
		time.Sleep(5*time.Millisecond + time.Microsecond)
		require.Less(t, timer.clock.Now()<<idleShift, timer.worker.state.Load())
		require.Less(t, timer.worker.state.Load(), resting)
		to, err := timer.NewTimeoutAt(plainFunc(nop), time.Now().Add(-2*time.Millisecond))
		require.NoError(t, err)
		require.Equal(t, 999*time.Microsecond, time.Until(to.Deadline()))
	})
}

// placed returns how many timeouts are in the wheel.
func placed(timer *Timer) (n int) {
	for _, level := range timer.Stats().Levels {
		n += level.Timeouts
	}
	return n
}

// The worker takes at once what is near, and leaves what is far on the queue. It drops what is canceled within two seconds.
func TestFarStaysWithProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, live = 10 * time.Millisecond, 64 // so few that no nursery grows, however often the goroutine moves
		timer := newTimer(t, WithTick(tick))
		churn(t, timer, live, 800*time.Millisecond, func(elapsed time.Duration) {
			if elapsed <= 600*time.Millisecond || elapsed > 720*time.Millisecond {
				require.Zero(t, placed(timer), elapsed)
			} else if elapsed < 700*time.Millisecond {
				require.Equal(t, 1, placed(timer), elapsed)
			}
			require.InDelta(t, live, timer.Stats().Queued, live/4, elapsed)
			if elapsed == 600*time.Millisecond {
				_, err := timer.AfterFunc(100*time.Millisecond, nop)
				require.NoError(t, err)
			}
		})
		pass(settled)
		require.Zero(t, timer.Stats().Queued)
	})
}

// Timeouts that live long go to the wheel although producers do not pause.
func TestLongLivedGoToTheWheel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		const n, from = 32, 600 * time.Millisecond
		churn(t, timer, n, from+1100*time.Millisecond, func(elapsed time.Duration) {
			switch {
			case elapsed == from:
				for range n {
					_, err := timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
				}
			case elapsed > from && elapsed < from+100*time.Millisecond:
				require.Zero(t, placed(timer))
			}
		})
		require.Equal(t, n, placed(timer))
		require.Equal(t, n, timer.Pending())
	})
}
