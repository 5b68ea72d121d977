package hashedwheel

import (
	"context"
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

// blockOne arms a task for the next tick that blocks until the channel is closed.
func blockOne(t *testing.T, timer *Timer) (release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	_, err := timer.AfterFunc(0, func() { <-release })
	require.NoError(t, err)
	return release
}

// All tasks that are due with a thousand tasks that block, or after them, start within two ticks. Runners that
// are not in a task end.
func TestBlockedTasksDelayNoOther(t *testing.T) {
	for _, tick := range []time.Duration{16, time.Millisecond, 10 * time.Millisecond, time.Second} {
		for _, blocked := range []int{1, 50, 1000} {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithWheelSize(8))
				r := newRand(t)
				release := make(chan struct{})
				var ran, late atomic.Int64
				others := 0
				arm := func(delay time.Duration) {
					others++
					due := time.Now().Add(max(delay, tick))
					_, err := timer.AfterFunc(delay, func() {
						ran.Add(1)
						if time.Since(due) > 2*tick {
							late.Add(1)
						}
					})
					require.NoError(t, err)
				}
				for i := range blocked + 300 {
					if i%(blocked+300) < blocked {
						_, err := timer.AfterFunc(tick, func() { <-release })
						require.NoError(t, err)
					}
					if r.IntN(2) == 0 {
						arm(tick)
					}
				}
				for n := range 20 {
					arm(time.Duration(n) * tick)
				}
				pass(30 * tick)
				require.EqualValues(t, others, ran.Load())
				require.Zero(t, late.Load())
				live := timer.tasks.liveRunners()
				require.Equal(t, blocked, live)

				// Later tasks do not wait at all, because all live runners are in tasks, and so one more starts.
				start := time.Now()
				var fired moments
				_, err := timer.AfterFunc(5*tick, fired.note)
				require.NoError(t, err)
				pass(5 * tick)
				require.Equal(t, []time.Time{start.Add(5 * tick)}, fired.all())

				close(release)
				synctest.Wait()
				live = timer.tasks.liveRunners()
				require.Zero(t, live)
				require.Zero(t, timer.Stats().Running)
				pass(2 * tick)
				require.EqualValues(t, absent, timer.worker.presence.Load())
			})
		}
	}
}

// Tasks that block for a short time each do not delay others. One after another on one runner, their times would
// add up.
func TestManyShortBlocksDoNotAddUp(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		var begun moments
		for range 2000 {
			_, err := timer.AfterFunc(0, func() {
				begun.note()
				time.Sleep(tick / 10)
			})
			require.NoError(t, err)
		}
		pass(time.Second)
		all := begun.all()
		require.Len(t, all, 2000)
		require.LessOrEqual(t, all[1999].Sub(start), 3*tick)
	})
}

// On real time, very many tasks that do not block run on few runners. If the machine takes the processors away
// for longer than a tick, runners that wait for a processor look stuck, and a growing number is added. So the
// number of runners is small only compared with the number of tasks. A limit that is never reached changes nothing: once
// it meant a goroutine for each task.
func TestTrivialTasksNeedFewRunners(t *testing.T) {
	for _, limit := range []int{0, 1_000_000} {
		timer := newTimer(t, WithTick(50*time.Millisecond), WithMaxConcurrency(limit))
		n := int64(sized(100_000, 300_000, 1_000_000))
		var ran, most atomic.Int64
		done := make(chan struct{})
		task := func() {
			if i := ran.Add(1); i == n {
				close(done)
			} else if i%10_000 == 0 {
				live := timer.tasks.liveRunners()
				if int64(live) > most.Load() {
					most.Store(int64(live))
				}
			}
		}
		for range n {
			_, err := timer.AfterFunc(sized(200*time.Millisecond, 400*time.Millisecond, time.Second), task)
			require.NoError(t, err)
		}
		<-done
		require.NotZero(t, most.Load())
		require.LessOrEqual(t, most.Load(), max(n/100, 2000)) // 2000 is more than the first five additions
	}
}

// With a limit of n, never more than n tasks run at the same time, and n do while enough are due.
func TestMaxConcurrency(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 100} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(limit))
			start := time.Now()
			var running, most atomic.Int64
			const tasks = 250
			for range tasks {
				_, err := timer.AfterFunc(0, func() {
					n := running.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(time.Second)
					running.Add(-1)
				})
				require.NoError(t, err)
			}
			pass(500 * time.Millisecond)
			require.EqualValues(t, limit, running.Load())
			require.Equal(t, tasks-limit, timer.Pending())
			require.Equal(t, limit, timer.Stats().Running)

			rounds := time.Duration((tasks + limit - 1) / limit)
			pass(time.Until(start.Add(rounds*time.Second + 2*time.Millisecond))) // the runners start within a tick
			require.Zero(t, timer.Pending())
			require.Zero(t, running.Load())
			require.EqualValues(t, limit, most.Load())
			live := timer.tasks.liveRunners()
			require.Zero(t, live)
		})
	}
}

// With a limit of one, tasks may share memory without a lock. The race detector checks this.
func TestMaxConcurrencyOfOneOrdersMemory(t *testing.T) {
	timer := newTimer(t, WithTick(100*time.Microsecond), WithMaxConcurrency(1))
	n := 0
	var users sync.WaitGroup
	for range 3 {
		users.Go(func() {
			for range 3000 {
				_, err := timer.AfterFunc(0, func() { n++ })
				assert.NoError(t, err)
			}
		})
	}
	users.Wait()
	for timer.Pending() > 0 {
		runtime.Gosched()
	}
	_, err := timer.Shutdown(context.Background())
	require.NoError(t, err)
	require.Equal(t, 9000, n)
}

// A timeout that waits for its turn is pending. After it is canceled or reset, nothing keeps it.
func TestWaitingForATurn(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		release := blockOne(t, timer)
		pass(tick)

		var fired moments
		var canceled []weak.Pointer[Timeout]
		for range 100 {
			to, err := timer.AfterFunc(0, fired.note)
			require.NoError(t, err)
			canceled = append(canceled, weak.Make(to))
		}
		moved, err := timer.AfterFunc(0, fired.note)
		require.NoError(t, err)
		waiting, err := timer.AfterFunc(0, fired.note)
		require.NoError(t, err)
		pass(3 * tick)
		require.Equal(t, 102, timer.Pending())

		for _, p := range canceled {
			require.True(t, p.Value().Cancel())
		}
		active, err := moved.Reset(10 * tick)
		require.NoError(t, err)
		require.True(t, active)
		pass(2 * tick)
		runtime.GC()
		for _, p := range canceled {
			require.Nil(t, p.Value())
		}
		require.Equal(t, 2, timer.Pending())
		require.False(t, waiting.IsExpired())

		released := time.Now()
		close(release)
		pass(time.Second)
		require.Equal(t, []time.Time{released, moved.Deadline()}, fired.all())
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

// Calls of Canceled are also made after Stop, for timeouts canceled just before it and for timeouts that
// Stop returns. This holds even if all runners are in tasks that block, and if calls of Canceled block.
func TestBlockedNoticesAfterStop(t *testing.T) {
	for _, procs := range []int{1, 2} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(time.Millisecond))
			release := make(chan struct{})
			var notices []*canceler
			var all []*Timeout
			for i := range 40 {
				c := new(canceler)
				if i%2 == 0 {
					c.block = func() { <-release }
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
			pass(3 * time.Millisecond)
			require.True(t, all[0].Cancel())
			require.Len(t, timer.Stop(), 39)
			pass(10 * time.Millisecond)
			require.Equal(t, 40, toldOf(notices))
			close(release)
			_, err := timer.Shutdown(context.Background())
			require.NoError(t, err)
		})
	}
}

// If tasks wait for their turn or for an executor, the timer does not keep a canceled timeout alive. This holds
// if it was handed over in the same tick, if it was reset to a far deadline before, and while a job is being
// submitted.
func TestWaitingOnesAreReleased(t *testing.T) {
	const tick = time.Millisecond
	arm := func(t *testing.T, timer *Timer) (*Timeout, weak.Pointer[Timeout]) {
		to, err := timer.AfterFunc(tick, nop)
		require.NoError(t, err)
		return to, weak.Make(to)
	}
	released := func(t *testing.T, p weak.Pointer[Timeout]) {
		t.Helper()
		pass(2 * tick)
		runtime.GC()
		require.Nil(t, p.Value())
	}
	block := func(release chan struct{}) func(func()) error {
		return func(func()) error { <-release; return nil }
	}
	for _, opts := range []func(chan struct{}) []Option{
		func(chan struct{}) []Option { return []Option{WithMaxConcurrency(1)} },
		func(chan struct{}) []Option { return []Option{WithExecutor(new(pool).submit)} },
		func(release chan struct{}) []Option { return []Option{WithExecutor(block(release))} },
	} {
		for _, reset := range []bool{false, true} {
			virtual(t, func(t *testing.T) {
				release := make(chan struct{})
				timer := newTimer(t, append(opts(release), WithTick(tick))...)
				_, err := timer.AfterFunc(0, func() { <-release })
				require.NoError(t, err)
				pass(tick)
				func() {
					to, p := arm(t, timer)
					pass(tick) // the worker hands it over
					if reset {
						pass(5 * tick)
						_, err := to.Reset(time.Hour)
						require.NoError(t, err)
						pass(5 * tick)
					}
					require.True(t, to.Cancel())
					to = nil
					released(t, p)
				}()
				close(release)
				timer.Stop()
				synctest.Wait()
			})
		}
	}
}

// A Reset that has read the worker's position before the boundary at which the timeout came due does not push it for
// the worker. The runner that takes it off the list pushes it.
func TestResetUnseenByTheWorker(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		release := blockOne(t, timer)
		pass(tick)
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		other, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		pass(3 * tick)
		to.word.Store(pendingAt(to.word.Load(), timer.clock.now()+5)) // as that Reset does
		require.True(t, other.Cancel())
		pass(3 * tick)
		require.Equal(t, 1, timer.Pending())
		close(release)
		pass(time.Second)
		require.True(t, to.IsExpired())
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
		require.EqualValues(t, absent, timer.worker.presence.Load())
	})
}

// A runner that has taken a group may be stuck in one of its tasks. It does not delay the other timeouts of the group,
// and does not keep them alive.
func TestStuckRunnerKeepsNothing(t *testing.T) {
	const n = 1024
	const last = n - chunkLen + 1 // the first task of the last group
	for _, blocked := range []int64{1, 8, 500, last, n} {
		virtual(t, func(t *testing.T) {
			const tick = time.Millisecond
			timer := newTimer(t, WithTick(tick))
			timer.tasks.eager, timer.tasks.share = 1, 1 // one runner, whose last group is as large as the first
			release := make(chan struct{})
			var begun, ended atomic.Int64
			var held []weak.Pointer[Timeout]
			for range n {
				to, err := timer.AfterFunc(5*tick, func() { // when nothing else is due
					if begun.Add(1) == blocked {
						<-release
					}
					ended.Add(1)
				})
				require.NoError(t, err)
				held = append(held, weak.Make(to))
			}
			pass(7 * tick)
			require.EqualValues(t, n-1, ended.Load())
			require.Zero(t, timer.Pending())
			runtime.GC()
			kept := 0
			for _, p := range held {
				if p.Value() != nil {
					kept++
				}
			}
			require.Equal(t, 1, kept)
			require.Equal(t, 1, timer.tasks.liveRunners())
			close(release)
			synctest.Wait()
		})
	}
}

// Stop returns the timeouts that a stuck runner has taken and that have not been given back yet. After that the runner
// does not keep them alive.
func TestStopFindsGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Second), WithMaxConcurrency(1))
		timer.tasks.share = 1 // the runner takes a whole chunk
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
		require.Len(t, timer.tasks.listed(), n-chunkLen)
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

// If a Cancel races with Shutdown, the call of Canceled may come after Shutdown has returned. Nothing breaks.
func TestCanceledAfterShutdown(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		_, err := timer.AfterFunc(0, func() { time.Sleep(time.Second) })
		require.NoError(t, err)
		pass(time.Millisecond)
		c := new(canceler)
		to, err := timer.NewTimeout(c, time.Hour)
		require.NoError(t, err)
		_, err = timer.Shutdown(context.Background())
		require.NoError(t, err)
		to.hook().disarmed(to, true)
		synctest.Wait()
		require.EqualValues(t, 2, c.told.Load())
	})
}

// Tasks that use the processor for long but do not block get no goroutine each. The test runs on real time, because
// virtual time stands still while a task computes.
func TestBusyTasksNeedFewRunners(t *testing.T) {
	timer := newTimer(t, WithTick(10*time.Millisecond))
	const n = 20_000
	var ran, most atomic.Int64
	done := make(chan struct{})
	for range n {
		_, err := timer.AfterFunc(sized(100*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond), func() {
			for start := time.Now(); time.Since(start) < 10*time.Microsecond; {
			}
			i := ran.Add(1)
			if i%100 == 0 { // not every task, because they would block each other
				live := timer.tasks.liveRunners()
				most.Store(max(most.Load(), int64(live)))
			}
			if i == n {
				close(done)
			}
		})
		require.NoError(t, err)
	}
	<-done
	t.Logf("most runners at a time: %d", most.Load())
	require.Less(t, most.Load(), int64(n/10))
}

// When tasks wait for their turn, the oldest come first, whatever comes due later. In one case the limit is two,
// and a blocked task takes one of the turns. In the other case the executor has one goroutine.
func TestOldestComeFirst(t *testing.T) {
	const tick = time.Millisecond
	for name, opts := range map[string]func(work chan func()) []Option{
		"limit": func(chan func()) []Option { return []Option{WithMaxConcurrency(2)} },
		"executor": func(work chan func()) []Option {
			return []Option{WithExecutor(func(run func()) error { work <- run; return nil })}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				work := make(chan func(), 10_000)
				go func() {
					for run := range work {
						run()
					}
				}()
				defer close(work)
				timer := newTimer(t, append(opts(work), WithTick(tick))...)
				release := make(chan struct{})
				if name == "limit" {
					_, err := timer.AfterFunc(0, func() { <-release })
					require.NoError(t, err)
					pass(2 * tick)
				}
				const old = 50
				var ran []int
				for i := range 20 * old { // fifty at the first tick, then one at each tick
					_, err := timer.AfterFunc(max(0, time.Duration(i-old+2)*tick), func() {
						ran = append(ran, i)
						time.Sleep(tick)
					})
					require.NoError(t, err)
				}
				pass(30 * old * tick)
				require.Len(t, ran, 20*old)
				for n, i := range ran {
					require.Equal(t, n < old, i < old, "task %d was the %dth to run", i, n)
				}
				close(release)
				_, err := timer.Shutdown(t.Context())
				require.NoError(t, err)
			})
		})
	}
}

// Where very many timeouts wait for their turn, one that is canceled is not on the list any more at the next boundary,
// and is collected. Once the worker had to look through all of them for that, which took longer the more there were.
func TestCanceledBehindManyIsReleased(t *testing.T) {
	const n, tick = 100_000, time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		release := blockOne(t, timer)
		pass(tick)
		all := make([]*Timeout, n)
		for i := range all {
			var err error
			all[i], err = timer.AfterFunc(0, nop)
			require.NoError(t, err)
		}
		pass(3 * tick)
		require.Len(t, timer.tasks.listed(), n)
		for i := 0; i < n; i += n / 10 {
			p := weak.Make(all[i])
			all[i] = nil
			require.True(t, p.Value().Cancel())
			pass(2 * tick)
			runtime.GC()
			require.Nil(t, p.Value())
		}
		require.Len(t, timer.tasks.listed(), n-10)
		close(release)
		synctest.Wait()
		require.EqualValues(t, n-10+1, timer.Stats().Expired)
	})
}
