package hashedwheel_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Members of all kinds leave the group when they end, and join it again when they are reset. Other timeouts of the
// timer are not affected.
func TestGroup(t *testing.T) {
	for name, opts := range hashedwheel.Executors() {
		t.Run(name, func(t *testing.T) {
			hashedwheel.Virtual(t, func(t *testing.T) {
				const tick = time.Millisecond
				timer := hashedwheel.NewTestTimer(t, append(opts, hashedwheel.WithTick(tick))...)
				other, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				g := hashedwheel.NewGroup(timer)
				hashedwheel.CheckGroup(t, g, 0)
				var runs atomic.Int32
				count := hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { runs.Add(1) })
				arm := map[string]func() (*hashedwheel.Timeout, error){
					"timeout": func() (*hashedwheel.Timeout, error) { return g.NewTimeout(count, 5*tick) },
					"func":    func() (*hashedwheel.Timeout, error) { return g.AfterFunc(5*tick, func() { runs.Add(1) }) },
					"every":   func() (*hashedwheel.Timeout, error) { return g.Schedule(count, hashedwheel.Every(5*tick)) },
					"schedule": func() (*hashedwheel.Timeout, error) {
						left := 2
						return g.Schedule(count, hashedwheel.ScheduleFunc(func(prev time.Time) time.Time {
							if left--; left < 0 {
								return time.Time{}
							}
							return prev.Add(5 * tick)
						}))
					},
				}
				all := map[string]*hashedwheel.Timeout{}
				for name, arm := range arm {
					all[name], err = arm()
					require.NoError(t, err)
					require.Same(t, timer, all[name].Timer())
				}
				require.IsType(t, hashedwheel.TaskFunc(nil), all["every"].Task())
				hashedwheel.CheckGroup(t, g, 4)
				testkit.Pass(5 * tick)
				require.EqualValues(t, 4, runs.Load())
				hashedwheel.CheckGroup(t, g, 2) // the repeating ones
				require.True(t, all["func"].IsExpired())
				testkit.Pass(5 * tick)
				hashedwheel.CheckGroup(t, g, 1) // the schedule has ended
				require.True(t, all["schedule"].IsExpired())
				require.EqualValues(t, 6, runs.Load())

				require.True(t, all["every"].Cancel())
				hashedwheel.CheckGroup(t, g, 0)
				_, err = all["every"].Reset(time.Hour)
				require.NoError(t, err)
				_, err = all["func"].Reset(time.Hour)
				require.NoError(t, err)
				_, err = all["func"].Reset(2 * time.Hour)
				require.NoError(t, err)
				hashedwheel.CheckGroup(t, g, 2)

				require.Equal(t, 2, g.Cancel())
				require.Zero(t, g.Cancel())
				hashedwheel.CheckGroup(t, g, 0)
				for _, name := range []string{"every", "func"} {
					require.True(t, all[name].IsCanceled())
				}
				_, err = g.AfterFunc(time.Hour, nop)
				require.NoError(t, err, "the group can be used after Cancel")
				hashedwheel.CheckGroup(t, g, 1)

				require.Equal(t, 1, g.Close())
				require.Zero(t, g.Close())
				for _, arm := range arm {
					_, err := arm()
					require.ErrorIs(t, err, hashedwheel.ErrGroupClosed)
				}
				before := hashedwheel.Outcomes(timer)
				active, err := all["func"].Reset(tick)
				require.False(t, active)
				require.ErrorIs(t, err, hashedwheel.ErrGroupClosed)
				require.Equal(t, before, hashedwheel.Outcomes(timer))
				hashedwheel.CheckGroup(t, g, 0)
				ran := runs.Load()
				testkit.Pass(time.Minute)
				require.Equal(t, ran, runs.Load())
				require.False(t, other.IsCanceled())
				require.Equal(t, 1, timer.Pending())
				hashedwheel.CheckStats(t, timer)
			})
		})
	}
}

// Stop also returns the timeouts of a group. Timeouts that the timer refuses are not in the group.
func TestGroupOfRefusedAndReturned(t *testing.T) {
	timer := hashedwheel.NewTestTimer(t, hashedwheel.WithMaxPending(2))
	g := hashedwheel.NewGroup(timer)
	_, err := g.NewTimeout(nil, 0)
	require.ErrorIs(t, err, hashedwheel.ErrNilTask)
	_, err = g.AfterFunc(0, nil)
	require.ErrorIs(t, err, hashedwheel.ErrNilTask)
	_, err = g.Schedule(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}), hashedwheel.Every(0))
	require.ErrorContains(t, err, "0s")
	a, err := g.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.True(t, a.Cancel())
	b, err := g.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	_, err = timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	_, err = g.AfterFunc(time.Hour, nop)
	require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
	_, err = a.Reset(time.Hour)
	require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
	hashedwheel.CheckGroup(t, g, 1)
	require.Contains(t, timer.Stop(), b)
	hashedwheel.CheckGroup(t, g, 0)
	_, err = g.AfterFunc(time.Hour, nop)
	require.ErrorIs(t, err, hashedwheel.ErrStopped)
	_, err = a.Reset(time.Hour)
	require.ErrorIs(t, err, hashedwheel.ErrStopped)
	hashedwheel.CheckGroup(t, g, 0)
}

// A task may close its own group. Close does not wait for that task.
func TestGroupClosedFromInside(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithMaxConcurrency(1))
		g := hashedwheel.NewGroup(timer)
		var runs atomic.Int32
		for range 10 {
			_, err := g.Schedule(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
				if runs.Add(1) == 5 {
					assert.Equal(t, 10, g.Close())
				}
			}), hashedwheel.Every(tick))
			require.NoError(t, err)
		}
		testkit.Pass(10 * tick)
		require.EqualValues(t, 5, runs.Load())
		hashedwheel.CheckGroup(t, g, 0)
	})
}

// The cost of canceling a group depends on its size only, not on the number of other timeouts. On any machine it is
// less than a tenth of the cost of reading each of the others once.
func TestGroupCostsItsSize(t *testing.T) {
	timer := hashedwheel.NewTestTimer(t)
	others := make([]*hashedwheel.Timeout, testkit.Sized(60_000, 200_000, 200_000))
	for i := range others {
		var err error
		if others[i], err = timer.AfterFunc(time.Hour, nop); err != nil {
			t.Fatal(err)
		}
	}
	look := time.Hour // the least time to read each of them once
	for range 10 {
		start := time.Now()
		n := 0
		for _, to := range others {
			if !to.IsExpired() {
				n++
			}
		}
		look = min(look, time.Since(start))
		require.Len(t, others, n)
	}
	g := hashedwheel.NewGroup(timer)
	least := time.Hour
	for range 100 {
		for range 10 {
			_, err := g.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
		}
		start := time.Now()
		require.Equal(t, 10, g.Cancel())
		least = min(least, time.Since(start))
	}
	t.Logf("10 canceled in %v, the other %d read in %v", least, len(others), look)
	require.Less(t, least, look/10)
}

// A Reset that a closed group refuses takes no slot, not even for a moment. So no other call is refused because of
// it. Its error is ErrGroupClosed, even if the timer is full.
func TestClosedGroupTakesNoSlot(t *testing.T) {
	timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(time.Millisecond), hashedwheel.WithMaxPending(1))
	g := hashedwheel.NewGroup(timer)
	member, err := g.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.Equal(t, 1, g.Close())
	var over atomic.Bool
	var users sync.WaitGroup
	users.Go(func() {
		for ; !over.Load(); testkit.Spin() {
			_, err := member.Reset(time.Hour)
			assert.ErrorIs(t, err, hashedwheel.ErrGroupClosed)
		}
	})
	for end := time.Now().Add(testkit.StressTime(t) / 4); time.Now().Before(end); testkit.Spin() {
		to, err := timer.AfterFunc(time.Hour, nop)
		if !assert.NoError(t, err) {
			break
		}
		to.Cancel()
	}
	over.Store(true)
	users.Wait()
	_, err = timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	_, err = member.Reset(time.Hour)
	require.ErrorIs(t, err, hashedwheel.ErrGroupClosed)
	hashedwheel.CheckGroup(t, g, 0)
}

// WaitRunning waits for the runs in progress at the call, of ended and of repeating members, and for
// no others. That holds for any number of callers.
func TestGroupWait(t *testing.T) {
	for name, opts := range hashedwheel.Executors() {
		t.Run(name, func(t *testing.T) {
			hashedwheel.Virtual(t, func(t *testing.T) {
				const tick = time.Millisecond
				timer := hashedwheel.NewTestTimer(t, append(opts, hashedwheel.WithTick(tick))...)
				g, other := hashedwheel.NewGroup(timer), hashedwheel.NewGroup(timer)
				done, cancel := context.WithCancel(t.Context())
				cancel()
				require.NoError(t, g.WaitRunning(done), "nothing runs")
				all := map[string]func(d time.Duration) (*hashedwheel.Timeout, error){
					"once": func(d time.Duration) (*hashedwheel.Timeout, error) {
						return g.AfterFunc(0, func() { time.Sleep(d) })
					},
					"repeating": func(d time.Duration) (*hashedwheel.Timeout, error) {
						return g.Schedule(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { time.Sleep(d) }), hashedwheel.Every(2*tick))
					},
					"panicking": func(d time.Duration) (*hashedwheel.Timeout, error) {
						return g.AfterFunc(0, func() { time.Sleep(d); panic("on purpose") })
					},
					"reset": func(d time.Duration) (*hashedwheel.Timeout, error) {
						return g.NewTimeout(hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) {
							_, err := to.Reset(time.Hour)
							assert.NoError(t, err)
							time.Sleep(d)
						}), 0)
					},
					"ended": func(d time.Duration) (*hashedwheel.Timeout, error) {
						return g.AfterFunc(0, func() { time.Sleep(d); runtime.Goexit() })
					},
				}
				if name == "executor" {
					delete(all, "ended") // it ends the goroutine of the executor
				}
				for kind, arm := range all {
					to, err := arm(10 * tick)
					require.NoError(t, err)
					require.NoError(t, g.WaitRunning(done), "%s is pending", kind)
					testkit.Pass(3 * tick)
					require.ErrorIs(t, g.WaitRunning(done), context.Canceled, kind)
					require.NoError(t, other.WaitRunning(done), kind)
					start := time.Now()
					var waiters sync.WaitGroup
					for range 3 {
						waiters.Go(func() { assert.NoError(t, g.WaitRunning(t.Context()), kind) })
					}
					waiters.Wait()
					require.Positive(t, time.Since(start), kind)
					require.LessOrEqual(t, time.Since(start), 10*tick, kind)
					if kind == "repeating" {
						testkit.Pass(time.Second)
						to.Cancel()
						require.NoError(t, g.WaitRunning(t.Context()))
					}
					g.Cancel()
					require.NoError(t, g.WaitRunning(done), kind)
				}
				hashedwheel.CheckGroup(t, g, 0)
			})
		})
	}
}

// WaitRunning waits for the longest of several runs, whichever began first.
func TestGroupWaitIsForAll(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		g := hashedwheel.NewGroup(hashedwheel.NewTestTimer(t, hashedwheel.WithTick(tick)))
		for _, lengths := range [][]time.Duration{{5, 20, 10}, {20, 10, 5}, {5, 10, 20}} {
			start := time.Now()
			for i, n := range lengths {
				_, err := g.AfterFunc(time.Duration(i)*tick, func() { time.Sleep(n * tick) })
				require.NoError(t, err)
			}
			testkit.Pass(4 * tick)
			require.NoError(t, g.WaitRunning(t.Context()))
			require.Greater(t, time.Since(start), 20*tick)
		}
	})
}

// After Close and WaitRunning no task of the group runs. Inside a task, WaitRunning waits for the context. With a limit, it does not
// wait for tasks of others, nor for members that wait for a runner.
func TestGroupCloseAndWait(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithMaxConcurrency(2))
		g := hashedwheel.NewGroup(timer)
		_, err := timer.AfterFunc(0, func() { time.Sleep(time.Hour) }) // takes one of the two
		require.NoError(t, err)
		testkit.Pass(tick)
		var running atomic.Int32
		for range 5 {
			_, err := g.Schedule(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
				running.Add(1)
				defer running.Add(-1)
				time.Sleep(5 * tick)
			}), hashedwheel.Every(tick))
			require.NoError(t, err)
		}
		testkit.Pass(2 * tick)
		require.EqualValues(t, 1, running.Load())
		require.Equal(t, 5, g.Close())
		require.NoError(t, g.WaitRunning(t.Context()))
		for range 10 {
			require.Zero(t, running.Load())
			testkit.Pass(tick)
		}

		inside := hashedwheel.NewGroup(timer)
		ended := make(chan error, 1)
		_, err = inside.AfterFunc(0, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 7*tick)
			defer cancel()
			inside.Close()
			ended <- inside.WaitRunning(ctx)
		})
		require.NoError(t, err)
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		testkit.Pass(time.Hour)
	})
}

// Goroutines arm, cancel, reset and close at the same time, on real time, also beyond the limit and while the timer
// is stopped. After Close no timeout of the group is pending, no task of it is started, and the counts add up.
func TestGroupRace(t *testing.T) {
	for name, opts := range hashedwheel.Executors() {
		t.Run(name, func(t *testing.T) {
			rnd := testkit.Rand(t)
			var total, ran uint64
			for end := time.Now().Add(testkit.StressTime(t) / 2); testkit.GoesOn(end, ran > 0); {
				limit := rnd.IntN(2) * 5
				timer := hashedwheel.NewTestTimer(t, append(opts, hashedwheel.WithTick(20*time.Microsecond), hashedwheel.WithMaxPending(limit))...)
				g := hashedwheel.NewGroup(timer)
				var canceled atomic.Int64
				var shared atomic.Pointer[hashedwheel.Timeout]
				var closed atomic.Bool
				var late atomic.Int64
				task := hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) {
					if closed.Load() {
						late.Add(1)
					}
				})
				var wg sync.WaitGroup
				var left []*hashedwheel.Timeout
				if rnd.IntN(3) == 0 {
					wg.Go(func() {
						time.Sleep(30 * time.Microsecond) // real time, as above
						left = timer.Stop()
					})
				}
				for p := range 3 {
					mine := rnd.Uint64()
					wg.Go(func() {
						var last *hashedwheel.Timeout
						for n := range uint64(200) {
							delay := time.Duration((mine>>(n%50))%64) * time.Microsecond
							var to *hashedwheel.Timeout
							var err error
							if p == 0 && n%8 == 0 {
								to, err = g.Schedule(task, hashedwheel.Every(30*time.Microsecond))
							} else {
								to, err = g.NewTimeout(task, delay)
							}
							switch {
							case errors.Is(err, hashedwheel.ErrTooManyPending):
								assert.NotZero(t, limit)
								canceled.Add(int64(g.Cancel()))
								continue
							case errors.Is(err, hashedwheel.ErrStopped), errors.Is(err, hashedwheel.ErrGroupClosed):
								return
							}
							assert.NoError(t, err)
							if last != nil && n%3 == 0 && last.Cancel() {
								canceled.Add(1)
							}
							if last != nil && n%2 == 0 {
								last.Reset(delay)
							}
							shared.CompareAndSwap(nil, to)
							for range 3 {
								shared.Load().Reset(delay) // by several goroutines at the same time
								if shared.Load().Cancel() {
									canceled.Add(1)
								}
							}
							last = to
							if n%64 == 0 {
								canceled.Add(int64(g.Cancel()))
							}
						}
					})
				}
				for wait := rnd.IntN(300); wait > 0; wait-- {
					runtime.Gosched()
				}
				canceled.Add(int64(g.Close()))
				starting := timer.Stats().Running // some tasks have expired, and may start after Close
				closed.Store(true)
				hashedwheel.CheckGroup(t, g, 0)
				wg.Wait()
				for _, to := range left {
					if !to.Cancel() {
						canceled.Add(-1) // a Timeout.Cancel was for what Stop had returned; the methods of a Group leave it alone
					}
				}
				require.EqualValues(t, timer.Stats().Canceled, canceled.Load())
				_, err := timer.Shutdown(t.Context())
				require.NoError(t, err)
				// Not before Shutdown: the timer counts a timeout as expired just after it has left the group.
				require.Zero(t, timer.Pending())
				require.LessOrEqual(t, late.Load(), int64(starting))
				hashedwheel.CheckGroup(t, g, 0)
				hashedwheel.CheckStats(t, timer)
				total += timer.Stats().Accepted
				ran += timer.Stats().Expired
			}
			t.Logf("%d armed, %d run", total, ran)
			require.Positive(t, ran)
		})
	}
}
