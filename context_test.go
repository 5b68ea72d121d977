package hashedwheel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const ctxTick = 10 * time.Millisecond

var (
	errLate   = errors.New("late")
	errParent = errors.New("parent")
	errChild  = errors.New("child")
)

// A maker makes contexts with a deadline. What it is asked for is the same for this library and
// for the context package, which tells whether a test asks for more than is promised.
type maker struct {
	timer         *Timer // nil for the context package
	timeout       func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	timeoutCause  func(context.Context, time.Duration, error) (context.Context, context.CancelFunc)
	deadline      func(context.Context, time.Time) (context.Context, context.CancelFunc)
	deadlineCause func(context.Context, time.Time, error) (context.Context, context.CancelFunc)
}

func makerOf(timer *Timer) maker {
	return maker{timer, timer.WithTimeout, timer.WithTimeoutCause, timer.WithDeadline, timer.WithDeadlineCause}
}

func stdMaker() maker {
	return maker{nil, context.WithTimeout, context.WithTimeoutCause, context.WithDeadline, context.WithDeadlineCause}
}

// withMakers runs a test in a bubble for each kind of maker. It is to leave nothing pending.
func withMakers(t *testing.T, test func(t *testing.T, m maker)) {
	t.Helper()
	run := func(name string, newMaker func(t *testing.T) maker) {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				m := newMaker(t)
				test(t, m)
				if m.timer != nil {
					synctest.Wait()
					require.Zero(t, m.timer.Pending())
					checkStats(t, m.timer)
				}
			})
		})
	}
	run("context", func(*testing.T) maker { return stdMaker() })
	for name, opts := range executors() {
		run(name, func(t *testing.T) maker { return makerOf(newTimer(t, append(opts, WithTick(ctxTick))...)) })
	}
	run("stopped", func(t *testing.T) maker {
		timer := newTimer(t, WithTick(ctxTick))
		timer.Stop()
		return makerOf(timer)
	})
	run("full", func(t *testing.T) maker {
		timer := newTimer(t, WithTick(ctxTick), WithMaxPending(1))
		_, cancel := timer.WithTimeout(context.Background(), time.Hour)
		m := makerOf(timer)
		m.timer = nil // it has one pending
		t.Cleanup(cancel)
		return m
	})
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func requireAlive(t testing.TB, ctx context.Context) {
	t.Helper()
	require.False(t, isDone(ctx))
	require.NoError(t, ctx.Err())
	require.NoError(t, context.Cause(ctx))
}

func requireEnded(t testing.TB, ctx context.Context, err, cause error) {
	t.Helper()
	require.True(t, isDone(ctx))
	require.Equal(t, err, ctx.Err())
	require.Equal(t, cause, context.Cause(ctx))
}

// requireGoroutines asserts that there are no more than n, not counting those that are at their
// very end, which others cannot wait for.
func requireGoroutines(t testing.TB, n int) {
	t.Helper()
	for i := 0; runtime.NumGoroutine() > n; i++ {
		require.Less(t, i, 10_000, "%d goroutines", runtime.NumGoroutine())
		runtime.Gosched()
	}
}

type (
	key   string
	depth int
)

type wrapped struct{ context.Context }

// A custom context has a channel and an error of its own.
type custom struct {
	context.Context
	mu    sync.Mutex
	done  chan struct{}
	err   error
	funcs map[*int]func() // see customAfterFunc
}

func newCustom(parent context.Context) *custom {
	return &custom{Context: parent, done: make(chan struct{}), funcs: map[*int]func(){}}
}

func (c *custom) Done() <-chan struct{} { return c.done }

func (c *custom) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *custom) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	for _, f := range c.funcs {
		go f()
	}
	clear(c.funcs)
}

func (c *custom) registered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.funcs)
}

// A customAfterFunc has the method that spares those derived from it a goroutine.
type customAfterFunc struct{ *custom }

func (c customAfterFunc) AfterFunc(f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := new(int)
	c.funcs[key] = f
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := c.funcs[key]
		delete(c.funcs, key)
		return ok
	}
}

// Deadlines of all kinds, by each of the functions: what the context says before and after.
func TestContextEndsAtDeadline(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		time.Sleep(ctxTick / 3)
		for _, delay := range []time.Duration{
			1, ctxTick / 2, ctxTick, 10*ctxTick + 1, time.Hour, 0, -1, -time.Hour, math.MinInt64,
		} {
			now := time.Now()
			d := now.Add(delay)
			for name, newContext := range map[string]func() (context.Context, context.CancelFunc){
				"WithTimeout": func() (context.Context, context.CancelFunc) {
					return m.timeout(context.Background(), delay)
				},
				"WithDeadline": func() (context.Context, context.CancelFunc) {
					return m.deadline(context.Background(), d)
				},
				"WithDeadline by the wall clock": func() (context.Context, context.CancelFunc) {
					return m.deadline(context.Background(), d.Round(0).In(time.FixedZone("east", 3600)))
				},
				"WithTimeoutCause": func() (context.Context, context.CancelFunc) {
					return m.timeoutCause(context.Background(), delay, errLate)
				},
				"WithDeadlineCause": func() (context.Context, context.CancelFunc) {
					return m.deadlineCause(context.Background(), d, errLate)
				},
			} {
				cause := context.DeadlineExceeded
				if strings.HasSuffix(name, "Cause") {
					cause = errLate
				}
				now = time.Now()
				d = now.Add(delay)
				ctx, cancel := newContext()
				got, ok := ctx.Deadline()
				require.True(t, ok)
				require.True(t, got.Equal(d), "%s %v: %v, not %v", name, delay, got, d)
				if !strings.Contains(name, "wall") {
					require.Equal(t, d, got)
				}
				if delay > 0 {
					requireAlive(t, ctx)
					<-ctx.Done()
					require.GreaterOrEqual(t, time.Since(now), delay)
					require.Less(t, time.Since(now), delay+ctxTick)
				}
				requireEnded(t, ctx, context.DeadlineExceeded, cause)
				if m.timer != nil {
					synctest.Wait()
					require.Zero(t, m.timer.Pending())
				}
				cancel()
				requireEnded(t, ctx, context.DeadlineExceeded, cause)
			}
		}
		ctx, cancel := m.deadline(context.Background(), time.Time{})
		defer cancel()
		requireEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)
	})
}

// One that cannot be represented does not wrap, and can be canceled.
func TestContextOfHugeTimeout(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for _, newContext := range []func() (context.Context, context.CancelFunc){
			func() (context.Context, context.CancelFunc) {
				return m.timeout(context.Background(), math.MaxInt64)
			},
			func() (context.Context, context.CancelFunc) {
				return m.deadline(context.Background(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
			},
		} {
			ctx, cancel := newContext()
			want := time.Now().Add(math.MaxInt64)
			got, _ := ctx.Deadline()
			require.False(t, got.Before(want))
			pass(100 * 365 * 24 * time.Hour)
			requireAlive(t, ctx)
			cancel()
			requireEnded(t, ctx, context.Canceled, context.Canceled)
		}
	})
}

// The first boundary at or after the deadline, and not a nanosecond before, whether or not
// anybody has asked before that.
func TestContextEndsAtBoundary(t *testing.T) {
	rnd := newRand(t)
	for range 100 {
		tick := time.Duration(1 + rnd.IntN(5_000_000))
		phase := time.Duration(rnd.IntN(20_000_000))
		delay := time.Duration(1 + rnd.IntN(50_000_000))
		if rnd.IntN(4) == 0 {
			delay = boundaryAt(phase+delay, tick) - phase // exactly at one
		}
		asked := rnd.IntN(2) == 0
		for name, opts := range executors() {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(tick))...)
				time.Sleep(phase)
				ctx, cancel := timer.WithTimeout(context.Background(), delay)
				defer cancel()
				if asked {
					requireAlive(t, ctx)
				}
				until := boundaryAt(phase+delay, tick) - phase
				if until > 1 {
					pass(until - 1)
					require.Equal(t, 1, timer.Pending())
					if asked {
						requireAlive(t, ctx)
					}
					pass(1)
				} else {
					pass(until)
				}
				require.Zero(t, timer.Pending())
				requireEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)
				require.EqualValues(t, 1, timer.Stats().Expired, name)
			})
		}
	}
}

// Canceled, it is done when the CancelFunc returns, its timeout is freed, and nothing changes
// it any more.
func TestContextCancel(t *testing.T) {
	for _, cancelable := range []bool{false, true} {
		for _, asked := range []bool{false, true} {
			t.Run(fmt.Sprintf("cancelable=%v/asked=%v", cancelable, asked), func(t *testing.T) {
				withMakers(t, func(t *testing.T, m maker) {
					parent := context.Background()
					if cancelable {
						var cancelParent context.CancelFunc
						parent, cancelParent = context.WithCancel(parent)
						defer cancelParent()
					}
					for _, at := range []time.Duration{0, ctxTick / 2, 5 * ctxTick, 10*ctxTick - 1} {
						ctx, cancel := m.timeoutCause(parent, 10*ctxTick, errLate)
						if asked {
							requireAlive(t, ctx)
						}
						time.Sleep(at)
						if m.timer != nil && !m.timer.IsStopped() {
							require.Equal(t, 1, m.timer.Pending())
						}
						cancel()
						if m.timer != nil {
							require.Zero(t, m.timer.Pending())
						}
						done := ctx.Done()
						requireEnded(t, ctx, context.Canceled, context.Canceled)
						cancel()
						pass(20 * ctxTick)
						requireEnded(t, ctx, context.Canceled, context.Canceled)
						require.Equal(t, done, ctx.Done())
					}
				})
			})
		}
	}
}

func TestContextDoneIsOneChannel(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for _, end := range []string{"cancel", "deadline", "parent"} {
			parent, cancelParent := context.WithCancel(context.Background())
			defer cancelParent()
			ctx, cancel := m.timeout(parent, ctxTick)
			channels := make(chan (<-chan struct{}), 10)
			for range cap(channels) {
				go func() { channels <- ctx.Done() }()
			}
			done := ctx.Done()
			for range cap(channels) {
				require.Equal(t, done, <-channels)
			}
			switch end {
			case "cancel":
				cancel()
			case "parent":
				cancelParent()
			}
			<-done
			require.Error(t, ctx.Err())
			require.Equal(t, done, ctx.Done())
			cancel()
			require.Equal(t, done, ctx.Done())
		}
	})
}

func TestContextValue(t *testing.T) {
	type key string
	type other string
	withMakers(t, func(t *testing.T, m maker) {
		root := context.WithValue(context.WithValue(context.Background(), key("a"), 1), key("b"), 2)
		parent, cancelParent := context.WithCancel(root)
		a, cancelA := m.timeoutCause(parent, 20*ctxTick, errLate)
		b := context.WithValue(a, key("b"), 3)
		c, cancelC := m.timeout(wrapped{b}, 10*ctxTick)
		d := context.WithValue(c, key("a"), nil)
		check := func() {
			t.Helper()
			for _, v := range []struct {
				ctx       context.Context
				key, want any
			}{
				{a, key("a"), 1}, {a, key("b"), 2}, {a, key("c"), nil}, {a, other("a"), nil}, {a, nil, nil},
				{b, key("a"), 1}, {b, key("b"), 3},
				{c, key("a"), 1}, {c, key("b"), 3}, {c, key("c"), nil}, {c, other("b"), nil},
				{d, key("a"), nil}, {d, key("b"), 3},
				{context.WithoutCancel(c), key("b"), 3},
			} {
				require.Equal(t, v.want, v.ctx.Value(v.key))
			}
		}
		check()
		c.Done()
		check()
		pass(10 * ctxTick)
		require.Error(t, c.Err())
		check()
		cancelC()
		cancelParent()
		check()
		cancelA()
		check()
	})
}

func TestContextAfterFunc(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for _, wrap := range []func(context.Context) context.Context{
			func(ctx context.Context) context.Context { return ctx },
			func(ctx context.Context) context.Context { return context.WithValue(wrapped{ctx}, key("k"), "v") },
		} {
			for _, end := range []string{"cancel", "deadline", "parent", "before", "expired", "stopped"} {
				parent, cancelParent := context.WithCancel(context.Background())
				after := 10 * ctxTick
				if end == "expired" {
					after = 0
				}
				ctx, cancel := m.timeout(parent, after)
				if end == "before" {
					cancel()
				}
				var calls atomic.Int32
				release := make(chan struct{})
				stop := context.AfterFunc(wrap(ctx), func() {
					calls.Add(1)
					<-release // nobody waits for it
				})
				if end != "before" && end != "expired" {
					pass(5 * ctxTick)
					require.Zero(t, calls.Load())
				}
				want := int32(1)
				switch end {
				case "cancel":
					cancel()
				case "deadline":
					pass(5 * ctxTick)
				case "parent":
					cancelParent()
				case "stopped":
					require.True(t, stop())
					cancel()
					want = 0
				}
				synctest.Wait()
				require.Equal(t, want, calls.Load())
				require.False(t, stop())
				require.True(t, isDone(ctx))
				close(release)
				cancel()
				cancelParent()
				synctest.Wait()
				require.Equal(t, want, calls.Load())
			}
		}
	})
}

func TestContextErrorIsTimeout(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		ctx, cancel := m.timeout(context.Background(), ctxTick)
		defer cancel()
		<-ctx.Done()
		var err net.Error
		require.ErrorAs(t, ctx.Err(), &err)
		require.True(t, err.Timeout())
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// In a bubble time stands still, so that even the remaining durations are the same.
func TestContextString(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(ctxTick))
		var cancels []context.CancelFunc
		keep := func(ctx context.Context, cancel context.CancelFunc) context.Context {
			cancels = append(cancels, cancel)
			return ctx
		}
		trees := func(m maker) (all []context.Context) {
			for _, root := range []context.Context{
				context.Background(), context.TODO(), context.WithValue(context.Background(), key("k"), "v"),
				wrapped{context.Background()}, newCustom(context.Background()),
			} {
				a := keep(m.timeoutCause(root, 20*ctxTick, errLate))
				b := keep(m.timeout(context.WithValue(a, key("k"), 1), 10*ctxTick))
				c := keep(context.WithCancel(b))
				d := keep(context.WithTimeout(context.WithoutCancel(c), 5*ctxTick+1))
				e := keep(m.deadline(d, time.Now().Round(0).Add(ctxTick)))
				f := keep(m.timeout(e, time.Hour))
				g := keep(m.timeout(a, 20*ctxTick)) // at the same time as its parent
				all = append(all, a, b, c, d, e, f, g)
			}
			return all
		}
		want, got := trees(stdMaker()), trees(makerOf(timer))
		for range 4 {
			for i := range want {
				require.Equal(t, fmt.Sprint(want[i]), fmt.Sprint(got[i]))
			}
			pass(7 * ctxTick)
		}
		require.Contains(t, fmt.Sprint(got[0]), "context.Background.WithDeadline(")
		require.Contains(t, fmt.Sprint(got[0]), "[-80ms]")
		for _, cancel := range cancels {
			cancel()
		}
	})
}

func TestContextWithoutParent(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		var none context.Context
		require.Panics(t, func() { m.timeout(none, ctxTick) })
		require.Panics(t, func() { m.timeoutCause(none, 0, errLate) })
		require.Panics(t, func() { m.deadline(none, time.Now()) })
		require.Panics(t, func() { m.deadlineCause(none, time.Now().Add(time.Hour), nil) })
	})
}
