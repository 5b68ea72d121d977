package hashedwheel

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A hundred timeouts are due together. The first task to run resets one of the others, and cancels the
// rest.
func TestCancelAndResetOfDueOnes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1))
		start := time.Now()
		var all []*Timeout
		armed := make(chan struct{})
		var at []time.Duration
		for range 100 {
			to, err := timer.NewTimeout(TaskFunc(func(self *Timeout) {
				<-armed
				at = append(at, time.Since(start))
				if len(at) > 1 {
					return
				}
				reset := false
				for _, to := range all {
					if to == self {
						continue
					}
					if !reset {
						active, err := to.Reset(5 * time.Millisecond)
						reset = active && err == nil
						assert.True(t, reset)
						continue
					}
					assert.True(t, to.Cancel())
				}
			}), time.Millisecond)
			require.NoError(t, err)
			all = append(all, to)
		}
		close(armed)
		pass(time.Second)
		require.Equal(t, []time.Duration{time.Millisecond, 6 * time.Millisecond}, at)
		require.Equal(t, Stats{Accepted: 100, Expired: 2, Canceled: 98}, outcomes(timer))
	})
}

// A timeout is reset in each state, to later and to earlier, before and after the worker has taken it off the
// queue. It fires only at its last deadline.
func TestReset(t *testing.T) {
	const tick = 10 * time.Millisecond
	for _, wait := range []time.Duration{0, 15 * time.Millisecond} {
		for _, delays := range [][]time.Duration{
			{30 * tick, 50 * tick},
			{50 * tick, 30 * tick},
			{30 * tick, 30 * tick},
			{50 * tick, 30 * tick, 40 * tick},
			{50 * tick, 30 * tick, 60 * tick},
			{30 * tick, 50 * tick, 10 * tick},
			{50 * tick, 0},
			{math.MaxInt64, 3 * tick},
			{3 * tick, math.MaxInt64, 5 * tick},
		} {
			for _, state := range []string{"pending", "canceled", "expired"} {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, WithTick(tick), WithWheelSize(16))
					var at []time.Time
					to, err := timer.NewTimeout(TaskFunc(func(*Timeout) { at = append(at, time.Now()) }), delays[0])
					require.NoError(t, err)
					var want []time.Time
					for i, d := range delays[1:] {
						pass(wait)
						if i == 0 && state == "canceled" {
							require.True(t, to.Cancel())
						}
						if i == 0 && state == "expired" {
							_, err := to.Reset(0)
							require.NoError(t, err)
							pass(tick)
							want = append([]time.Time{}, at...)
							require.Len(t, want, 1)
						}
						active, err := to.Reset(d)
						require.NoError(t, err)
						require.Equal(t, i > 0 || state == "pending", active)
						require.False(t, to.IsCanceled())
						require.False(t, to.IsExpired())
						require.Equal(t, 1, timer.Pending())
					}
					want = append(want, to.Deadline())
					pass(time.Hour)
					require.Equal(t, len(want), len(at), "%v", delays)
					for i := range want {
						require.True(t, want[i].Equal(at[i]), "%v: at %v, want %v", delays, at[i], want[i])
					}
				})
			}
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
		to.word.Store(pendingAt(to.word.Load(), timer.clock.Now()+5)) // as that Reset does
		require.True(t, other.Cancel())
		pass(3 * tick)
		require.Equal(t, 1, timer.Pending())
		close(release)
		pass(time.Second)
		require.True(t, to.IsExpired())
	})
}

// A timeout has come due, and no runner has time for it. It is reset to a later tick. At that tick it waits for
// its turn again, and it runs as soon as a runner is free, because the worker has been notified.
func TestPutOffWhileItWaits(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		for _, at := range []bool{false, true} {
			timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
			start := time.Now()
			_, err := timer.AfterFunc(tick, func() { time.Sleep(10*tick + tick/2) })
			require.NoError(t, err)
			c := new(request)
			timer.Bind(&c.timeout, c)
			_, err = c.timeout.Reset(2 * tick)
			require.NoError(t, err)
			pass(3 * tick)
			if at {
				_, err = c.timeout.ResetAt(start.Add(6 * tick))
			} else {
				_, err = c.timeout.Reset(3 * tick)
			}
			require.NoError(t, err)
			for range 20 {
				_, err = timer.AfterFunc(time.Hour, nop) // so that the worker is awake, and works only at boundaries
				require.NoError(t, err)
				pass(tick)
			}
			require.Equal(t, []time.Duration{11*tick + tick/2}, c.ran.Since(start))
			timer.Stop()
		}
	})
}

// ResetAt also moves a timeout to an earlier deadline.
func TestResetAtEarlier(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		c := new(request)
		timer.Bind(&c.timeout, c)
		for i, d := range []time.Duration{time.Hour, 50 * tick, 70 * tick, 60 * tick} {
			active, err := c.timeout.ResetAt(start.Add(d))
			require.NoError(t, err)
			require.Equal(t, i > 0, active)
			pass(2 * tick)
		}
		pass(time.Hour)
		require.Equal(t, []time.Duration{60 * tick}, c.ran.Since(start))
	})
}

// A repeating timeout of a group runs at the same times as one without a group. It counts from the exact first
// time, not from a boundary, because its first arming is not a Reset.
func TestScheduleInAGroupIsExact(t *testing.T) {
	const tick, delay, period = 10 * time.Millisecond, 13 * time.Millisecond, 25 * time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		var ran moments
		_, err := NewGroup(timer).Schedule(TaskFunc(func(*Timeout) { ran.Note() }), scheduleFunc(func(prev time.Time) time.Time {
			if prev.Equal(start) {
				return prev.Add(delay)
			}
			return prev.Add(period)
		}))
		require.NoError(t, err)
		pass(time.Second)
		var want []time.Duration
		for due := delay; due <= time.Second; due += period {
			if at := testkit.Boundary(due, tick); at <= time.Second {
				want = append(want, at)
			}
		}
		require.Equal(t, want, ran.Since(start))
	})
}

// If a member of a group is armed again while it is still on the queue, it joins the group's list again.
func TestMemberIsArmedOnTheQueue(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	hold(t, timer) // so that no worker takes the timeout off the queue
	g := NewGroup(timer)
	to, err := g.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	for range 3 {
		require.True(t, to.Cancel())
		require.True(t, onQueue(to.word.Load()))
		_, err := to.Reset(time.Hour)
		require.NoError(t, err)
		checkGroup(t, g, 1)
	}
	require.Equal(t, 1, g.Close())
	_, err = to.Reset(time.Hour)
	require.ErrorIs(t, err, ErrGroupClosed)
}

// A timeout of a deadline that never comes is dropped after its end like any other, although the worker rested when it was armed.
func TestOneThatNeverExpiresIsReleased(t *testing.T) {
	for _, placed := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t)
			if placed { // so that the alarm is set
				_, err := timer.AfterFunc(1000*time.Hour, nop)
				require.NoError(t, err)
			}
			pass(5 * time.Second)
			c := new(request)
			timer.Bind(&c.timeout, c)
			_, err := c.timeout.Reset(math.MaxInt64)
			require.NoError(t, err)
			require.True(t, c.timeout.Cancel())
			dropped := weak.Make(c)
			c = nil
			pass(2 * time.Second)
			runtime.GC()
			require.Nil(t, dropped.Value())
		})
	}
}

// A timeout is armed again by its own task, and its runs overlap.
func TestEmbeddedFromInside(t *testing.T) {
	const tick = time.Millisecond
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		var ran moments
		var to Timeout
		timer.Bind(&to, TaskFunc(func(self *Timeout) {
			ran.Note()
			if len(ran.All()) < 5 {
				active, err := self.Reset(2 * tick)
				require.False(t, active)
				require.NoError(t, err)
			}
			time.Sleep(3 * tick)
		}))
		_, err := to.Reset(tick)
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, []time.Duration{tick, 3 * tick, 5 * tick, 7 * tick, 9 * tick}, ran.Since(start))
		require.Zero(t, timer.Stats().Running)
	})
}

// A request has a field of type Timeout.
type request struct {
	timeout Timeout
	ran     moments
}

func (c *request) Run(*Timeout) { c.ran.Note() }

// newRequest returns a request whose timeout is idle.
func newRequest(timer *Timer) *request {
	c := new(request)
	timer.Bind(&c.timeout, c)
	return c
}

// Before a timeout is armed for the first time, it is not pending, expired or canceled, and Cancel, Move and WaitRunning
// do nothing. This holds before and after Bind.
func TestIdleTimeout(t *testing.T) {
	timer := newTimer(t)
	zero, bound := new(Timeout), newRequest(timer)
	for _, to := range []*Timeout{zero, &bound.timeout} {
		require.False(t, to.Cancel())
		require.False(t, to.Move(time.Second))
		require.False(t, to.IsExpired())
		require.False(t, to.IsCanceled())
		require.True(t, to.Deadline().IsZero())
		require.NoError(t, to.WaitRunning(t.Context()))
	}
	require.Nil(t, zero.Task())
	require.Nil(t, zero.Timer())
	require.Equal(t, "hashedwheel.Timeout(idle, task <nil>)", zero.String())
	require.Same(t, bound, bound.timeout.Task())
	require.Same(t, timer, bound.timeout.Timer())
	require.Equal(t, "hashedwheel.Timeout(idle, task *hashedwheel.request)", bound.timeout.String())
	require.Equal(t, Stats{}, outcomes(timer))
}

// Wrong uses of Bind and Reset panic with a message that names the mistake.
func TestInitMisuse(t *testing.T) {
	const unbound = "Timer.Bind has not been called, or the Timeout was overwritten"
	timer := newTimer(t)
	armed := newRequest(timer)
	_, err := armed.timeout.Reset(time.Hour)
	require.NoError(t, err)
	ended := newRequest(timer)
	_, err = ended.timeout.Reset(time.Hour)
	require.NoError(t, err)
	ended.timeout.Cancel()
	made, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	cleared := newRequest(timer)
	*cleared = request{} //hashedwheelvet:ignore the test is about this

	for _, c := range []struct {
		text string
		f    func()
	}{
		{"Timer.Bind: nil Timeout", func() { timer.Bind(nil, armed) }},
		{"Timer.Bind: nil task", func() { timer.Bind(new(Timeout), nil) }},
		{"Timer.Bind: nil task", func() { timer.Bind(new(Timeout), TaskFunc(nil)) }},
		{"Timer.Bind: the Timeout is in use", func() { timer.Bind(&armed.timeout, armed) }},
		{"Timer.Bind: the Timeout is in use", func() { timer.Bind(made, armed) }},
		{"Timer.Bind: called twice for a Timeout", func() { timer.Bind(&newRequest(timer).timeout, armed) }},
		{"Timer.Bind: called twice for a Timeout", func() { timer.Bind(&ended.timeout, ended) }},
		{"Timeout.Reset: " + unbound, func() { new(Timeout).Reset(time.Second) }},
		{"Timeout.Reset: " + unbound, func() { cleared.timeout.Reset(time.Second) }},
		{"Timeout.ResetAt: " + unbound, func() { new(Timeout).ResetAt(time.Now()) }},
	} {
		require.PanicsWithValue(t, "hashedwheel: "+c.text, c.f)
	}
	require.Equal(t, Stats{Pending: 2, Accepted: 3, Canceled: 1}, outcomes(timer))
}

// Each method of a nil Timeout, which a call returns with an error, panics with a message that says so.
func TestNilTimeout(t *testing.T) {
	arguments := map[string][]any{
		"Move": {time.Hour}, "Reset": {time.Hour}, "ResetAt": {time.Now()}, "WaitRunning": {context.Background()},
	}
	methods := reflect.TypeFor[*Timeout]()
	for i := range methods.NumMethod() {
		method := methods.Method(i)
		in := []reflect.Value{reflect.ValueOf((*Timeout)(nil))}
		for _, arg := range arguments[method.Name] {
			in = append(in, reflect.ValueOf(arg))
		}
		const message = "hashedwheel: nil Timeout: the call that should have armed it has returned an error"
		require.PanicsWithValue(t, message, func() { method.Func.Call(in) }, method.Name)
	}
}

// When a slice of structs grows, their timeouts are copied. A use of such a copy panics. By chance one copy in 7
// goes unnoticed, so the test uses many of them.
func TestCopiesPanic(t *testing.T) {
	timer := newFakedTimer(t) // the counts include the copies that go unnoticed
	hold(t, timer)
	const n = 100
	for name, use := range map[string]func(to *Timeout){
		"Cancel":  func(to *Timeout) { to.Cancel() },
		"Reset":   func(to *Timeout) { to.Reset(time.Hour) },
		"ResetAt": func(to *Timeout) { to.ResetAt(time.Now().Add(2 * time.Hour)) },
		"Move":    func(to *Timeout) { to.Move(time.Hour) },
	} {
		requests := make([]Timeout, n)
		for i := range requests {
			timer.Bind(&requests[i], TaskFunc(func(*Timeout) {}))
			_, err := requests[i].Reset(time.Hour)
			require.NoError(t, err)
		}
		grown := append(requests, Timeout{}) //hashedwheelvet:ignore the test is about this
		caught := 0
		for i := range requests {
			func() {
				defer func() {
					if value := recover(); value != nil {
						require.Contains(t, value, "copied")
						caught++
					}
				}()
				use(&grown[i])
			}()
			require.True(t, requests[i].Cancel())
		}
		require.Greater(t, caught, n*2/3, name)
	}
}

// Go vet finds a copy that is visible in the source code.
func TestVetFindsCopies(t *testing.T) {
	needsProcesses(t)
	if testing.Short() {
		t.Skip("runs go vet: runs without -short")
	}
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "vet", "./testdata/copied").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "return copies lock value: github.com/hashedwheel/hashedwheel/testdata/copied.call contains github.com/hashedwheel/hashedwheel.Timeout")
}

// An embedded timeout goes through all of its states. It ends once for each time that it is armed.
func TestEmbedded(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		c := newRequest(timer)
		armed := 0
		arm := func(delay time.Duration, wasPending bool) {
			active, err := c.timeout.Reset(delay)
			require.NoError(t, err)
			require.Equal(t, wasPending, active)
			require.False(t, c.timeout.IsExpired())
			require.False(t, c.timeout.IsCanceled())
			if !active {
				armed++
			}
		}
		arm(tick, false)
		pass(tick)
		require.True(t, c.timeout.IsExpired())
		require.False(t, c.timeout.Cancel())
		arm(3*tick, false) // expired
		arm(2*tick, true)  // to earlier
		arm(5*tick, true)  // to later
		require.True(t, c.timeout.Cancel())
		require.False(t, c.timeout.Cancel())
		require.True(t, c.timeout.IsCanceled())
		arm(tick, false) // canceled, and still on the queue
		require.True(t, c.timeout.Cancel())
		pass(3 * tick)
		arm(2*tick, false) // canceled, and known to the timer no longer
		pass(tick)
		require.True(t, c.timeout.Cancel()) // in its bucket
		arm(4*tick, false)
		pass(10 * tick)
		require.Equal(t, []time.Duration{tick, 9 * tick}, c.ran.Since(start))
		require.Equal(t, Stats{Accepted: uint64(armed), Expired: 2, Canceled: 3}, outcomes(timer))

		arm(time.Hour, false)
		require.Equal(t, []*Timeout{&c.timeout}, timer.Stop())
		for _, to := range []*Timeout{&c.timeout, &newRequest(timer).timeout} {
			_, err := to.Reset(0)
			require.ErrorIs(t, err, ErrStopped)
			_, err = to.ResetAt(time.Now())
			require.ErrorIs(t, err, ErrStopped)
			require.False(t, to.Move(0))
		}
		checkReturned(t, &c.timeout)
		require.False(t, newRequest(timer).timeout.Cancel(), "it was never armed")
	})
}

// Move moves a pending timeout, and does not change any other.
func TestMove(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		start := time.Now()
		c := newRequest(timer)
		_, err := c.timeout.Reset(5 * tick)
		require.NoError(t, err)
		pass(tick)
		require.True(t, c.timeout.Move(9*tick)) // until 10
		pass(5 * tick)
		require.True(t, c.timeout.Move(tick)) // until 7
		pass(5 * tick)
		require.Equal(t, []time.Duration{7 * tick}, c.ran.Since(start))
		require.False(t, c.timeout.Move(tick), "the timeout has expired")
		pass(5 * tick)
		require.True(t, c.timeout.IsExpired())

		_, err = c.timeout.Reset(tick)
		require.NoError(t, err)
		require.True(t, c.timeout.Cancel())
		require.False(t, c.timeout.Move(tick), "the timeout has been canceled")
		pass(5 * tick)
		require.True(t, c.timeout.IsCanceled())
		require.Len(t, c.ran.All(), 1)
	})
}

// Move fails once the boundary has passed, even if the worker is late or the task waits for a runner. Nothing has changed then.
func TestMoveIsNotLate(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithMaxConcurrency(1))
		clock := onSetClock(timer)
		var runs moments
		arm := func() *Timeout {
			to, err := timer.AfterFunc(2*time.Second, runs.Note)
			require.NoError(t, err)
			return to
		}
		to := arm()
		release := blockOne(t, timer)
		pass(2*time.Second - 1)
		require.True(t, to.Move(2*time.Second))
		pass(2*time.Second + 1)
		require.False(t, to.Move(time.Hour), "it waits for a runner")
		require.True(t, to.IsPending())
		close(release)
		synctest.Wait()
		require.Len(t, runs.All(), 1)

		late := arm()
		run, err := timer.Schedule(TaskFunc(func(*Timeout) { runs.Note() }), dailyAt(12*time.Hour, time.UTC))
		require.NoError(t, err)
		pass(time.Second)
		giveBack := hold(t, timer)
		pass(time.Minute)
		require.False(t, late.Move(time.Hour), "the worker is late")
		require.True(t, run.Move(time.Hour), "only a step of the wall clock has passed")
		giveBack()
		synctest.Wait()
		require.Len(t, runs.All(), 2)
		pass(time.Hour)
		require.Len(t, runs.All(), 3)
		require.True(t, run.Cancel())
		clock.set(0)

		release = make(chan struct{})
		again, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { <-release }), 0, time.Second)
		require.NoError(t, err)
		pass(time.Second / 2)
		require.False(t, again.Move(time.Hour), "it runs")
		_, err = again.Reset(time.Minute)
		require.NoError(t, err)
		require.True(t, again.Move(time.Hour), "a Reset has moved the next run")
		close(release)
		pass(time.Minute)
		require.True(t, again.IsPending())
	})
}

// An embedded timeout takes a slot of the limit each time that it is armed.
func TestEmbeddedTakesASlot(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithMaxPending(1))
		a, b := newRequest(timer), newRequest(timer)
		for range 3 {
			_, err := a.timeout.Reset(time.Hour)
			require.NoError(t, err)
			_, err = b.timeout.Reset(time.Hour)
			require.ErrorIs(t, err, ErrTooManyPending)
			require.False(t, b.timeout.IsCanceled(), "the timeout is still idle")
			require.True(t, a.timeout.Cancel())
		}
		require.Equal(t, Stats{Accepted: 3, Canceled: 3, RejectedFull: 3}, outcomes(timer))
	})
}

// A timeout with a deadline expires at the first tick boundary at or after the deadline. This holds if the timer is
// empty, if its worker sleeps, and if its worker works at each tick.
func TestDeadlines(t *testing.T) {
	const tick = 10 * time.Millisecond
	states := map[string]func(timer *Timer) error{
		"absent": func(*Timer) error { return nil },
		"asleep": func(timer *Timer) error {
			_, err := timer.AfterFunc(time.Hour, nop)
			return err
		},
		"awake": func(timer *Timer) error {
			_, err := timer.ScheduleAtFixedRate(plainFunc(nop), 0, tick)
			return err
		},
	}
	for state, prepare := range states {
		for _, wall := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wall=%v", state, wall), func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, WithTick(tick))
					// If true, deadlines of this bubble lack the monotonic reading that Start seems to have.
					timer.clock.Monotonic = wall
					start := time.Now()
					require.NoError(t, prepare(timer))
					for _, offset := range []time.Duration{
						-time.Hour, -tick, -1, 0, 1, tick / 2, tick - 1, tick, tick + 1, 7 * tick, 100 * tick,
					} {
						pass(tick + 3*time.Millisecond)
						now := time.Now()
						late := func(c *request) {
							require.Len(t, c.ran.All(), 1)
							at, earliest := c.ran.All()[0], now.Add(max(offset, 1))
							require.Zero(t, at.Sub(start)%tick, "expired between two boundaries")
							require.GreaterOrEqual(t, at.Sub(earliest), time.Duration(0), "early, by offset %v", offset)
							require.Less(t, at.Sub(earliest), tick, "late, by offset %v", offset)
						}
						deadline := now.Add(offset)
						made, idle, ended, sooner, later := newRequest(timer), newRequest(timer), newRequest(timer), newRequest(timer), newRequest(timer)
						_, err := timer.NewTimeoutAt(made, deadline)
						require.NoError(t, err)
						reset := func(c *request, wasPending bool) {
							active, err := c.timeout.ResetAt(deadline)
							require.NoError(t, err)
							require.Equal(t, wasPending, active)
						}
						reset(idle, false)
						ended.timeout.Reset(time.Hour)
						ended.timeout.Cancel()
						reset(ended, false)
						sooner.timeout.Reset(time.Hour)
						reset(sooner, true)
						later.timeout.Reset(0)
						reset(later, true)
						all := []*request{made, idle, ended, sooner, later}
						for _, c := range all {
							require.Empty(t, c.ran.All(), "expired inside the call")
						}
						pass(max(offset, 0) + tick)
						for _, c := range all {
							late(c)
						}
					}
				})
			})
		}
	}
}

// A deadline may have passed very long ago. A deadline too far ahead is never due.
func TestDeadlineOutOfRange(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		old, far := newRequest(timer), newRequest(timer)
		_, err := old.timeout.ResetAt(time.Unix(-1<<40, 0))
		require.NoError(t, err)
		_, err = far.timeout.ResetAt(time.Now().Add(math.MaxInt64))
		require.NoError(t, err)
		farther, err := timer.NewTimeoutAt(far, time.Unix(1<<40, 0))
		require.NoError(t, err)
		_, err = timer.NewTimeoutAt(nil, time.Now())
		require.ErrorIs(t, err, ErrNilTask)
		pass(10 * 365 * 24 * time.Hour)
		require.Len(t, old.ran.All(), 1)
		require.Empty(t, far.ran.All())
		require.ElementsMatch(t, []*Timeout{&far.timeout, farther}, timer.Stop())
	})
}

// The zero Time is no deadline, in whatever location. It is an error, and nothing changes.
func TestZeroDeadline(t *testing.T) {
	for _, wall := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithMaxPending(3))
			timer.clock.Monotonic = wall // as in TestDeadlines
			idle, pending, canceled, expired := newRequest(timer), newRequest(timer), newRequest(timer), newRequest(timer)
			_, err := expired.timeout.Reset(0)
			require.NoError(t, err)
			pass(time.Second)
			_, err = pending.timeout.Reset(time.Hour)
			require.NoError(t, err)
			_, err = canceled.timeout.Reset(time.Hour)
			require.NoError(t, err)
			require.True(t, canceled.timeout.Cancel())
			pass(time.Second) // the worker rests, so it changes no word
			before := outcomes(timer)
			for _, deadline := range []time.Time{{}, time.Time{}.Local(), time.Unix(-62135596800, 0)} {
				to, err := timer.NewTimeoutAt(idle, deadline)
				require.EqualError(t, err, "hashedwheel: the deadline is the zero Time, which elsewhere means no deadline")
				require.Nil(t, to)
				for _, r := range []*request{idle, pending, canceled, expired} {
					word := r.timeout.word.Load()
					active, err := r.timeout.ResetAt(deadline)
					require.Equal(t, errZeroDeadline, err)
					require.False(t, active)
					require.Equal(t, word, r.timeout.word.Load())
				}
			}
			require.Equal(t, before, outcomes(timer))
			require.EqualValues(t, 1, timer.slotsInUse())
		})
	}
}

// Only the monotonic reading of a deadline counts, if the deadline has one. Two of these deadlines look as if the
// wall clock had been set back or forward by an hour after New. A comparison of wall clocks would make them an hour
// early or late.
func TestDeadlineAfterTheClockWasSet(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	start := timer.clock.Start
	require.True(t, timer.clock.Monotonic)
	for _, set := range []time.Duration{-time.Hour, 0, time.Hour} {
		deadline := start.Add(5 * time.Hour)
		testkit.SetWall(&deadline, set)
		require.Equal(t, set, deadline.Round(0).Sub(start.Round(0).Add(5*time.Hour)))
		to, err := timer.NewTimeoutAt(plainFunc(nop), deadline)
		require.NoError(t, err)
		require.Equal(t, 5*time.Hour, to.Deadline().Sub(start))
	}
}

// A deadline is not compared with the present time: neither to arm a new timeout or one that has ended, nor to move
// a pending one. Here the timer's position is at a tick that passed long ago, and the deadlines have passed. So a
// comparison with the present time would change the result.
func TestDeadlineReadsNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		hold(t, timer)
		start := time.Now()
		timer.worker.round() // makes the wheel
		time.Sleep(10 * tick)
		timer.worker.expireDue()
		ended, pending := newRequest(timer), newRequest(timer)
		ended.timeout.Reset(time.Hour)
		ended.timeout.Cancel()
		pending.timeout.Reset(100 * tick)
		time.Sleep(time.Second)
		made, err := timer.NewTimeoutAt(plainFunc(nop), start.Add(500*tick))
		require.NoError(t, err)
		require.EqualValues(t, 500, tickOf(made.word.Load()))
		for _, c := range []*request{ended, pending} {
			_, err := c.timeout.ResetAt(start.Add(600 * tick))
			require.NoError(t, err)
			require.EqualValues(t, 600, tickOf(c.timeout.word.Load()))
		}
		_, err = pending.timeout.Reset(tick)
		require.NoError(t, err)
		require.EqualValues(t, 1011, tickOf(pending.timeout.word.Load()), "a delay needs the clock")
	})
}

// abandoned returns a timer whose worker is the test. It is never stopped, because that would find what the test has broken.
func abandoned(t *testing.T, tick time.Duration) (*Timer, *worker) {
	timer, err := New(WithTick(tick))
	require.NoError(t, err)
	require.True(t, timer.worker.requestRound())
	return timer, &timer.worker
}

// If a struct is overwritten while its timeout lies in a bucket, the visit of the bucket crashes the program, also if it is armed
// again: otherwise the first arming would count as pending for ever. If it is bound again, the message names its task, except a
// task that is wrapped in a hook.
func TestOverwrittenIsNoticed(t *testing.T) {
	for _, again := range []struct {
		bind    func(timer *Timer, c *request)
		message string
	}{
		{func(*Timer, *request) {}, overwritten},
		{func(timer *Timer, c *request) { timer.Bind(&c.timeout, c) }, overwritten + ": its task is now a *hashedwheel.request"},
		{func(timer *Timer, c *request) { timer.Bind(&c.timeout, &cancelCounter{new(atomic.Int64)}) }, overwritten},
		{func(timer *Timer, c *request) {
			timer.Bind(&c.timeout, c)
			_, err := c.timeout.Reset(2 * time.Hour)
			require.NoError(t, err)
		}, overwritten + ": its task is now a *hashedwheel.request"},
	} {
		timer, w := abandoned(t, time.Hour)
		c := newRequest(timer)
		_, err := c.timeout.Reset(time.Hour)
		require.NoError(t, err)
		w.round()
		require.Equal(t, 1, w.wheel.count)
		*c = request{} //hashedwheelvet:ignore the test is about this
		again.bind(timer, c)
		require.PanicsWithValue(t, again.message, func() { w.wheel.advance(2) })
	}
}

// A due timeout waits for its turn behind a task that blocks. If it is reset again and again, or canceled and armed
// again, it is on the list only once.
func TestRearmedDoNotPileUp(t *testing.T) {
	for name, again := range map[string]func(to *Timeout){
		"Reset":          func(to *Timeout) { to.Reset(0) },
		"Cancel, Reset":  func(to *Timeout) { to.Cancel(); to.Reset(0) },
		"Reset to later": func(to *Timeout) { to.Reset(3 * time.Millisecond) },
		"Reset, awake": func(to *Timeout) { // the worker takes it off the queue when it is due
			near, _ := to.timer.AfterFunc(0, nop)
			synctest.Wait()
			near.Cancel()
			to.Reset(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const tick = time.Millisecond
				timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
				release := make(chan struct{})
				_, err := timer.AfterFunc(0, func() { <-release })
				require.NoError(t, err)
				pass(tick)
				c := newRequest(timer)
				most := 0
				for range 100 {
					again(&c.timeout)
					pass(4 * tick) // until the timeout is due
					most = max(most, timer.tasks.Waiting())
				}
				require.LessOrEqual(t, most, 1)
				close(release)
				pass(10 * tick)
				require.Len(t, c.ran.All(), 1)
			})
		})
	}
}

// Arming a timeout again allocates nothing, whatever its state.
func TestEmbeddedAllocatesNothing(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	const n = 100
	requests := make([]*request, n)
	for i := range requests {
		requests[i] = newRequest(timer)
	}
	ran := make(chan struct{})
	_, err := timer.AfterFunc(0, func() { close(ran) })
	require.NoError(t, err)
	<-ran // the worker has made the wheel
	deadline := time.Now().Add(time.Hour)
	for name, f := range map[string]func(to *Timeout){
		"Reset":   func(to *Timeout) { to.Reset(time.Hour) },
		"ResetAt": func(to *Timeout) { to.ResetAt(deadline) },
		"Move":    func(to *Timeout) { to.Move(2 * time.Hour) },
		"all":     func(to *Timeout) { to.ResetAt(deadline); to.Move(time.Minute); to.Cancel() },
	} {
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			for _, c := range requests {
				f(&c.timeout)
			}
		}), name)
	}
	require.EqualValues(t, 1, testing.AllocsPerRun(1000, func() { timer.NewTimeoutAt(requests[0], deadline) }))
}

// A debounce whose function is slow. By AfterFunc and Reset, the function runs several times at once. By a repeating timeout that
// cancels itself, as the guide says, it does not, and it runs again after each change.
func TestDebounceOfASlowFunction(t *testing.T) {
	const tick, quiet, slow = time.Millisecond, 10 * time.Millisecond, 35 * time.Millisecond
	for name, arm := range map[string]func(timer *Timer, f func()) (*Timeout, error){
		"AfterFunc": func(timer *Timer, f func()) (*Timeout, error) { return timer.AfterFunc(quiet, f) },
		"ScheduleWithFixedDelay": func(timer *Timer, f func()) (*Timeout, error) {
			return timer.ScheduleWithFixedDelay(TaskFunc(func(to *Timeout) { to.Cancel(); f() }), quiet, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick))
				running, most, changes, seen := 0, 0, 1, 0
				var mu sync.Mutex
				to, err := arm(timer, func() {
					mu.Lock()
					running++
					most, seen = max(most, running), changes
					mu.Unlock()
					time.Sleep(slow)
					mu.Lock()
					running--
					mu.Unlock()
				})
				require.NoError(t, err)
				for range 10 {
					pass(quiet + 2*tick)
					mu.Lock()
					changes++
					mu.Unlock()
					_, err := to.Reset(quiet)
					require.NoError(t, err)
				}
				pass(time.Second)
				mu.Lock()
				defer mu.Unlock()
				require.Equal(t, 11, seen, "the last change was seen")
				if name == "AfterFunc" {
					require.Greater(t, most, 1)
				} else {
					require.Equal(t, 1, most)
				}
			})
		})
	}
}

// A Canceler of a bound timeout is notified, as with NewTimeout.
func TestEmbeddedCanceler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		var to Timeout
		var notified atomic.Int64
		timer.Bind(&to, &cancelCounter{&notified})
		for range 3 {
			_, err := to.Reset(time.Hour)
			require.NoError(t, err)
			require.True(t, to.Cancel())
		}
		synctest.Wait()
		require.EqualValues(t, 3, notified.Load())
	})
}

type cancelCounter struct{ n *atomic.Int64 }

func (c *cancelCounter) Run(*Timeout) {}

func (c *cancelCounter) Canceled(*Timeout) { c.n.Add(1) }

// A runner finds a timeout on its list that the user has overwritten and bound to another timer. It leaves the timeout
// alone, because the other timer runs it in its own time. That can happen where the worker is late.
func TestOverwrittenAndBoundToAnother(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		a, b := newTimer(t, WithTick(tick)), newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		c := newRequest(a)
		*c = request{} //hashedwheelvet:ignore the test is about this
		release := blockOne(t, b)
		pass(tick)
		b.Bind(&c.timeout, c)
		_, err := c.timeout.Reset(0)
		require.NoError(t, err)
		pass(tick)
		a.tasks.Add(&c.timeout)
		synctest.Wait()
		require.Empty(t, c.ran.All(), "it waits for its turn on b")
		require.Zero(t, a.Stats().Expired)
		close(release)
		synctest.Wait()
		require.Len(t, c.ran.All(), 1)
		require.EqualValues(t, 2, b.Stats().Expired)
	})
}

// A timeout is on time that was brought forward before, to a later tick, with or without a Cancel between the two calls.
func TestForwardedAgain(t *testing.T) {
	const tick = time.Millisecond
	cancel := func(to *Timeout) { to.Cancel(); to.Reset(2 * tick) }
	for name, c := range map[string]struct {
		limit  int
		second func(to *Timeout)
	}{
		"Reset":               {second: func(to *Timeout) { to.Reset(2 * tick) }},
		"Move":                {second: func(to *Timeout) { to.Move(2 * tick) }},
		"Cancel":              {second: cancel},
		"Cancel with a limit": {second: cancel, limit: 1e6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithMaxPending(c.limit))
				var due, fired moments
				for i := range 100 {
					to, err := timer.AfterFunc(time.Hour, fired.Note)
					require.NoError(t, err)
					pass(5*tick + tick/4) // from here the worker does not come at each boundary, and has not placed the timeout
					to.Reset(time.Second)
					time.Sleep(tick / 4)
					c.second(to)
					due.Add(time.Now().Add(2 * tick))
					pass(time.Duration(i) * 3 * tick / 2)
				}
				pass(3 * tick)
				require.Len(t, fired.All(), len(due.All()))
				for i, at := range fired.All() {
					require.Less(t, at.Sub(due.All()[i]), tick)
				}
			})
		})
	}
}

// Kept timeouts that are armed and canceled in turn, with breaks, wait for the boundary in which the worker takes them, however often
// that is.
func TestKeptWaitForTheBoundary(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Second))
		wakeups := func() uint64 { return timer.Stats().Wakeups }
		var kept [fullInbox / 4]Timeout
		for i := range kept {
			timer.Bind(&kept[i], plainFunc(nop))
		}
		for range 10 {
			pass(time.Second)
			before := wakeups()
			for i := range kept {
				_, err := kept[i].Reset(time.Minute)
				require.NoError(t, err)
				require.True(t, kept[i].Cancel())
			}
			synctest.Wait()
			require.LessOrEqual(t, wakeups(), before+1, "besides the one that starts because the worker rests")
		}
	})
}
