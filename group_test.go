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
)

// checkGroup checks that the list of a group has that many pending members, and that its links agree.
func checkGroup(t *testing.T, g *Group, want int) {
	t.Helper()
	require.Equal(t, want, g.Len())
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	var prev *member
	for m := g.first; m != nil; prev, m = m, m.next {
		require.Same(t, g, m.group)
		require.Equal(t, 1, m.armed)
		require.Equal(t, prev, m.prev)
		require.Equal(t, uint64(pending), status(m.timeout.word.Load()))
		n++
	}
	require.Equal(t, want, n)
}

// Members of all kinds leave the group when they end, and join it again when they are reset. Other timeouts of the
// timer are not affected.
func TestGroup(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				const tick = time.Millisecond
				timer := newTimer(t, append(opts, WithTick(tick))...)
				other, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				g := NewGroup(timer)
				checkGroup(t, g, 0)
				var runs atomic.Int32
				count := TaskFunc(func(*Timeout) { runs.Add(1) })
				arm := map[string]func() (*Timeout, error){
					"timeout": func() (*Timeout, error) { return g.NewTimeout(count, 5*tick) },
					"func":    func() (*Timeout, error) { return g.AfterFunc(5*tick, func() { runs.Add(1) }) },
					"every":   func() (*Timeout, error) { return g.Schedule(count, Every(5*tick)) },
					"schedule": func() (*Timeout, error) {
						left := 2
						return g.Schedule(count, scheduleFunc(func(prev time.Time) time.Time {
							if left--; left < 0 {
								return time.Time{}
							}
							return prev.Add(5 * tick)
						}))
					},
				}
				all := map[string]*Timeout{}
				for name, arm := range arm {
					all[name], err = arm()
					require.NoError(t, err)
					require.Same(t, timer, all[name].Timer())
				}
				require.IsType(t, TaskFunc(nil), all["every"].Task())
				checkGroup(t, g, 4)
				pass(5 * tick)
				require.EqualValues(t, 4, runs.Load())
				checkGroup(t, g, 2) // the repeating ones
				require.True(t, all["func"].IsExpired())
				pass(5 * tick)
				checkGroup(t, g, 1) // the schedule has ended
				require.True(t, all["schedule"].IsExpired())
				require.EqualValues(t, 6, runs.Load())

				require.True(t, all["every"].Cancel())
				checkGroup(t, g, 0)
				_, err = all["every"].Reset(time.Hour)
				require.NoError(t, err)
				_, err = all["func"].Reset(time.Hour)
				require.NoError(t, err)
				_, err = all["func"].Reset(2 * time.Hour)
				require.NoError(t, err)
				checkGroup(t, g, 2)

				require.Equal(t, 2, g.Cancel())
				require.Zero(t, g.Cancel())
				checkGroup(t, g, 0)
				for _, name := range []string{"every", "func"} {
					require.True(t, all[name].IsCanceled())
				}
				_, err = g.AfterFunc(time.Hour, nop)
				require.NoError(t, err, "the group can be used after Cancel")
				checkGroup(t, g, 1)

				require.Equal(t, 1, g.Close())
				require.Zero(t, g.Close())
				for _, arm := range arm {
					_, err := arm()
					require.ErrorIs(t, err, ErrGroupClosed)
				}
				before := outcomes(timer)
				active, err := all["func"].Reset(tick)
				require.False(t, active)
				require.ErrorIs(t, err, ErrGroupClosed)
				require.Equal(t, before, outcomes(timer))
				checkGroup(t, g, 0)
				ran := runs.Load()
				pass(time.Minute)
				require.Equal(t, ran, runs.Load())
				require.False(t, other.IsCanceled())
				require.Equal(t, 1, timer.Pending())
				checkStats(t, timer)
			})
		})
	}
}

// Stop also returns the timeouts of a group. Timeouts that the timer refuses are not in the group.
func TestGroupOfRefusedAndReturned(t *testing.T) {
	timer := newTimer(t, WithMaxPending(2))
	g := NewGroup(timer)
	_, err := g.NewTimeout(nil, 0)
	require.ErrorIs(t, err, ErrNilTask)
	_, err = g.AfterFunc(0, nil)
	require.ErrorIs(t, err, ErrNilTask)
	_, err = g.Schedule(TaskFunc(func(*Timeout) {}), Every(0))
	require.ErrorContains(t, err, "0s")
	a, err := g.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.True(t, a.Cancel())
	b, err := g.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	_, err = timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	_, err = g.AfterFunc(time.Hour, nop)
	require.ErrorIs(t, err, ErrTooManyPending)
	_, err = a.Reset(time.Hour)
	require.ErrorIs(t, err, ErrTooManyPending)
	checkGroup(t, g, 1)
	require.Contains(t, timer.Stop(), b)
	checkGroup(t, g, 0)
	_, err = g.AfterFunc(time.Hour, nop)
	require.ErrorIs(t, err, ErrStopped)
	_, err = a.Reset(time.Hour)
	require.ErrorIs(t, err, ErrStopped)
	checkGroup(t, g, 0)
}

// A task may close its own group. Close does not wait for that task.
func TestGroupClosedFromInside(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		g := NewGroup(timer)
		var runs atomic.Int32
		for range 10 {
			_, err := g.Schedule(TaskFunc(func(*Timeout) {
				if runs.Add(1) == 5 {
					assert.Equal(t, 10, g.Close())
				}
			}), Every(tick))
			require.NoError(t, err)
		}
		pass(10 * tick)
		require.EqualValues(t, 5, runs.Load())
		checkGroup(t, g, 0)
	})
}

// The cost of canceling a group depends on its size only, not on the number of other timeouts. On any machine it is
// less than a tenth of the cost of reading each of the others once.
func TestGroupCostsItsSize(t *testing.T) {
	timer := newTimer(t)
	others := make([]*Timeout, 200_000)
	for i := range others {
		var err error
		others[i], err = timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
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
	g := NewGroup(timer)
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
	t.Logf("10 of 200,010 canceled in %v, the other 200,000 read in %v", least, look)
	require.Less(t, least, look/10)
}

// A Reset that a closed group refuses takes no slot, not even for a moment. So no other call is refused because of
// it. Its error is ErrGroupClosed, even if the timer is full.
func TestClosedGroupTakesNoSlot(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond), WithMaxPending(1))
	g := NewGroup(timer)
	member, err := g.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.Equal(t, 1, g.Close())
	var over atomic.Bool
	var users sync.WaitGroup
	users.Go(func() {
		for ; !over.Load(); spin() {
			_, err := member.Reset(time.Hour)
			assert.ErrorIs(t, err, ErrGroupClosed)
		}
	})
	for end := time.Now().Add(stressTime(t) / 4); time.Now().Before(end); spin() {
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
	require.ErrorIs(t, err, ErrGroupClosed)
	checkGroup(t, g, 0)
}

// If the timer refuses the Reset of a member, the member does not join the group again.
func TestRefusedMemberIsNotInTheGroup(t *testing.T) {
	timer := newTimer(t, WithMaxPending(1))
	g := NewGroup(timer)
	member, err := g.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.True(t, member.Cancel())
	_, err = timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	_, err = member.Reset(time.Hour)
	require.ErrorIs(t, err, ErrTooManyPending)
	checkGroup(t, g, 0)
}

// Wait waits for the runs in progress at the call, of ended and of repeating members, and for
// no others. That holds for any number of callers.
func TestGroupWait(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				const tick = time.Millisecond
				timer := newTimer(t, append(opts, WithTick(tick))...)
				g, other := NewGroup(timer), NewGroup(timer)
				done, cancel := context.WithCancel(t.Context())
				cancel()
				require.NoError(t, g.Wait(done), "nothing runs")
				all := map[string]func(d time.Duration) (*Timeout, error){
					"once": func(d time.Duration) (*Timeout, error) {
						return g.AfterFunc(0, func() { time.Sleep(d) })
					},
					"repeating": func(d time.Duration) (*Timeout, error) {
						return g.Schedule(TaskFunc(func(*Timeout) { time.Sleep(d) }), Every(2*tick))
					},
					"panicking": func(d time.Duration) (*Timeout, error) {
						return g.AfterFunc(0, func() { time.Sleep(d); panic("on purpose") })
					},
					"reset": func(d time.Duration) (*Timeout, error) {
						return g.NewTimeout(TaskFunc(func(to *Timeout) {
							_, err := to.Reset(time.Hour)
							assert.NoError(t, err)
							time.Sleep(d)
						}), 0)
					},
					"ended": func(d time.Duration) (*Timeout, error) {
						return g.AfterFunc(0, func() { time.Sleep(d); runtime.Goexit() })
					},
				}
				if name == "pool" {
					delete(all, "ended") // it ends the goroutine of the executor
				}
				for kind, arm := range all {
					to, err := arm(10 * tick)
					require.NoError(t, err)
					require.NoError(t, g.Wait(done), "%s is pending", kind)
					pass(3 * tick)
					require.ErrorIs(t, g.Wait(done), context.Canceled, kind)
					require.NoError(t, other.Wait(done), kind)
					start := time.Now()
					var waiters sync.WaitGroup
					for range 3 {
						waiters.Go(func() { assert.NoError(t, g.Wait(t.Context()), kind) })
					}
					waiters.Wait()
					require.Positive(t, time.Since(start), kind)
					require.LessOrEqual(t, time.Since(start), 10*tick, kind)
					if kind == "repeating" {
						pass(time.Second)
						to.Cancel()
						require.NoError(t, g.Wait(t.Context()))
					}
					g.Cancel()
					require.NoError(t, g.Wait(done), kind)
				}
				checkGroup(t, g, 0)
			})
		})
	}
}

// After Close and Wait no task of the group runs. Inside a task, Wait waits for the context. With a limit, it does not
// wait for tasks of others, nor for members that wait for a runner.
func TestGroupCloseAndWait(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(2))
		g := NewGroup(timer)
		_, err := timer.AfterFunc(0, func() { time.Sleep(time.Hour) }) // takes one of the two
		require.NoError(t, err)
		pass(tick)
		var running atomic.Int32
		for range 5 {
			_, err := g.Schedule(TaskFunc(func(*Timeout) {
				running.Add(1)
				defer running.Add(-1)
				time.Sleep(5 * tick)
			}), Every(tick))
			require.NoError(t, err)
		}
		pass(2 * tick)
		require.EqualValues(t, 1, running.Load())
		require.Equal(t, 5, g.Close())
		require.NoError(t, g.Wait(t.Context()))
		for range 10 {
			require.Zero(t, running.Load())
			pass(tick)
		}

		inside := NewGroup(timer)
		ended := make(chan error, 1)
		_, err = inside.AfterFunc(0, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 7*tick)
			defer cancel()
			inside.Close()
			ended <- inside.Wait(ctx)
		})
		require.NoError(t, err)
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		pass(time.Hour)
	})
}

// Goroutines arm members, which fire at once, while the group is closed. After Close and Wait no task runs.
func TestGroupCloseAndWaitRace(t *testing.T) {
	rnd := newRand(t)
	timer := newTimer(t, WithTick(20*time.Microsecond))
	met := 0
	for end := time.Now().Add(stressTime(t) / 4); goesOn(end, met > 0); {
		g := NewGroup(timer)
		var over atomic.Bool
		var ran atomic.Int32
		var users sync.WaitGroup
		for range 2 {
			users.Go(func() {
				for {
					spin()
					_, err := g.AfterFunc(0, func() {
						ran.Add(1)
						time.Sleep(10 * time.Microsecond)
						assert.False(t, over.Load(), "Wait has returned")
					})
					if err != nil {
						assert.ErrorIs(t, err, ErrGroupClosed)
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
		g.Close()
		if !assert.NoError(t, g.Wait(t.Context())) {
			break
		}
		over.Store(true)
		users.Wait()
		met += int(ran.Load())
	}
	t.Logf("%d tasks ran", met)
}
