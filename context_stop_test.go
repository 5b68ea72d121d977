package hashedwheel

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

// Neither what is derived from the context costs a goroutine, nor that it follows a parent of
// the context package.
func TestContextStartsNoGoroutine(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		root, cancelRoot := context.WithCancel(context.Background())
		defer cancelRoot()
		first, cancelFirst := m.timeout(root, time.Hour) // the worker is there from now on
		defer cancelFirst()
		first.Done()
		synctest.Wait()
		before := runtime.NumGoroutine()
		var cancels []func()
		for range 100 {
			ctx, cancel := m.timeout(context.WithValue(root, key("k"), "v"), time.Hour)
			cancels = append(cancels, cancel)
			for _, from := range []context.Context{ctx, wrapped{ctx}, context.WithValue(wrapped{ctx}, key("k"), "v")} {
				_, a := context.WithCancel(from)
				_, b := context.WithTimeout(from, time.Minute)
				child, c := m.timeout(from, time.Minute)
				_, d := context.WithCancel(child)
				e := context.AfterFunc(from, nop)
				cancels = append(cancels, a, b, c, d, func() { e() })
			}
		}
		synctest.Wait()
		requireGoroutines(t, before+20)
		for _, cancel := range cancels {
			cancel()
		}
		synctest.Wait()
		requireGoroutines(t, before+20)
	})
}

func TestContextAllocations(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour)) // the worker sleeps
	cancelable, cancel := context.WithCancel(context.Background())
	defer cancel()
	allocs := func(m maker, parent context.Context) float64 {
		return testing.AllocsPerRun(1000, func() {
			_, cancel := m.timeout(parent, time.Hour)
			cancel()
		})
	}
	wheel, std := makerOf(timer), stdMaker()
	require.LessOrEqual(t, allocs(wheel, context.Background()), 2.0)
	require.Less(t, allocs(wheel, context.Background()), allocs(std, context.Background()))
	require.Less(t, allocs(wheel, cancelable), allocs(std, cancelable))
}

// Stop leaves the contexts to the runtime. They end when they should, exactly, and it does not
// return them.
func TestContextsOutliveStop(t *testing.T) {
	for name, opts := range executors() {
		for _, asked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/asked=%v", name, asked), func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, append(opts, WithTick(ctxTick))...)
					parent, cancelParent := context.WithCancelCause(context.Background())
					start := time.Now()
					type one struct {
						context.Context
						cancel context.CancelFunc
					}
					arm := func(parent context.Context, after time.Duration) (o one) {
						o.Context, o.cancel = timer.WithTimeoutCause(parent, after, errLate)
						if asked {
							o.Done()
						}
						return o
					}
					long := arm(context.Background(), 500*ctxTick)
					time.Sleep(3*ctxTick + ctxTick/2)
					bg := context.Background()
					expired := arm(bg, ctxTick) // before Stop
					over := arm(bg, 2*ctxTick-ctxTick/10)
					soon := arm(bg, 5*ctxTick+1)
					canceled := arm(bg, 6*ctxTick)
					orphan := arm(parent, 7*ctxTick)
					before := arm(bg, 8*ctxTick)
					before.cancel()
					to, err := timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
					pass(2*ctxTick - ctxTick/20) // past the deadline of over, but not at its boundary
					requireEnded(t, expired, context.DeadlineExceeded, errLate)
					if asked {
						requireAlive(t, over)
					}

					require.Equal(t, []*Timeout{to}, timer.Stop())
					require.Nil(t, timer.Stop())
					require.Zero(t, timer.Pending())
					st := timer.Stats()
					require.EqualValues(t, 1, st.Returned)
					require.EqualValues(t, 6, st.Canceled)
					require.EqualValues(t, 1, st.Expired)
					checkStats(t, timer)
					synctest.Wait()
					requireEnded(t, over, context.DeadlineExceeded, errLate)

					canceled.cancel()
					requireEnded(t, canceled, context.Canceled, context.Canceled)
					cancelParent(errParent)
					requireEnded(t, orphan, context.Canceled, errParent)
					requireAlive(t, soon)
					<-soon.Done()
					require.Equal(t, 8*ctxTick+ctxTick/2+1, time.Since(start), "not at a boundary")
					requireEnded(t, soon, context.DeadlineExceeded, errLate)
					requireAlive(t, long)

					late, cancel := timer.WithTimeout(bg, 3)
					defer cancel()
					requireAlive(t, late)
					at := time.Now()
					<-late.Done()
					require.EqualValues(t, 3, time.Since(at))
					<-long.Done()
					require.Equal(t, 500*ctxTick, time.Since(start))
					requireEnded(t, long, context.DeadlineExceeded, errLate)
					require.Equal(t, st.Canceled, timer.Stats().Canceled)
					checkStats(t, timer)
				})
			})
		}
	}
}

// Those that wait for their turn behind a task that blocks are left to the runtime as well.
func TestContextsThatWaitAtStop(t *testing.T) {
	for name, opts := range map[string][]Option{
		"one":  {WithMaxConcurrency(1)},
		"pool": {WithMaxConcurrency(1), WithExecutor(func(run func()) error { go run(); return nil })},
		"idle": {WithExecutor(func(run func()) error { return nil })},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(ctxTick))...)
				_, err := timer.AfterFunc(ctxTick, func() { time.Sleep(time.Hour) })
				require.NoError(t, err)
				pass(2 * ctxTick)
				ctx, cancel := timer.WithTimeoutCause(context.Background(), ctxTick, errLate)
				defer cancel()
				pass(10 * ctxTick)
				for _, to := range timer.Stop() {
					require.NotContains(t, to.String(), "deadlineCtx")
				}
				synctest.Wait()
				requireEnded(t, ctx, context.DeadlineExceeded, errLate)
				require.Zero(t, timer.Pending())
				pass(2 * time.Hour)
				checkStats(t, timer)
			})
		})
	}
}

// Stop from inside a context's own end.
func TestContextStopsItsTimer(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(ctxTick))...)
				ctx, cancel := timer.WithTimeout(context.Background(), ctxTick)
				defer cancel()
				other, cancelOther := timer.WithTimeout(context.Background(), 5*ctxTick)
				defer cancelOther()
				left := make(chan []*Timeout, 1)
				context.AfterFunc(ctx, func() { left <- timer.Stop() })
				require.Empty(t, <-left)
				requireAlive(t, other)
				<-other.Done()
				require.Equal(t, context.DeadlineExceeded, other.Err())
				checkStats(t, timer)
			})
		})
	}
}

// What the timer has no room for has one of the runtime's timers, and takes no place.
func TestContextsBeyondMaxPending(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(ctxTick), WithMaxPending(2))...)
				start := time.Now()
				var all []context.Context
				var cancels []context.CancelFunc
				for range 5 {
					ctx, cancel := timer.WithTimeoutCause(context.Background(), ctxTick+1, errLate)
					all, cancels = append(all, ctx), append(cancels, cancel)
				}
				require.Equal(t, 2, timer.Pending())
				require.EqualValues(t, 3, timer.Stats().Rejected)
				cancels[0]()
				require.Equal(t, 1, timer.Pending())
				cancels[4]()
				require.Equal(t, 1, timer.Pending())
				replaced, cancel := timer.WithTimeout(context.Background(), ctxTick+1)
				defer cancel()
				require.Equal(t, 2, timer.Pending())
				<-all[2].Done()
				require.Equal(t, ctxTick+1, time.Since(start), "the runtime's")
				<-all[1].Done()
				require.Equal(t, 2*ctxTick, time.Since(start))
				<-replaced.Done()
				synctest.Wait()
				require.Zero(t, timer.Pending())
				for i, ctx := range all {
					if i == 0 || i == 4 {
						requireEnded(t, ctx, context.Canceled, context.Canceled)
					} else {
						requireEnded(t, ctx, context.DeadlineExceeded, errLate)
					}
				}
				checkStats(t, timer)
			})
		})
	}
}

// An ended context is let go of by the timer and by parents that live on, and so is what was
// derived from one that lives on.
func TestContextIsCollected(t *testing.T) {
	type payload [64]byte
	for _, of := range []string{"background", "std", "wheel", "custom", "custom with AfterFunc"} {
		for _, end := range []string{"cancel", "deadline", "child", "stop"} {
			t.Run(of+"/"+end, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, WithTick(ctxTick))
					parent, release := context.Background(), nop
					switch of {
					case "std":
						parent, release = context.WithCancel(parent)
					case "wheel":
						parent, release = timer.WithTimeout(parent, time.Hour)
					case "custom":
						c := newCustom(parent)
						parent, release = c, func() { c.end(errParent) }
					case "custom with AfterFunc":
						c := customAfterFunc{newCustom(parent)}
						parent, release = c, func() { c.end(errParent) }
					}
					var gone []weak.Pointer[payload]
					arm := func(asked bool) {
						p := new(payload)
						gone = append(gone, weak.Make(p))
						from, m := parent, makerOf(timer)
						if end == "child" { // of one that lives on
							from, _ = timer.WithTimeout(parent, time.Hour)
							m = stdMaker()
						}
						ctx, cancel := m.timeout(context.WithValue(from, key("k"), p), 10*ctxTick)
						if asked {
							requireAlive(t, ctx)
							_, cancelChild := context.WithCancel(ctx)
							defer cancelChild()
							context.AfterFunc(ctx, nop)
						}
						switch end {
						case "cancel", "child":
							cancel()
						case "deadline":
							<-ctx.Done()
						case "stop":
							timer.Stop()
							cancel()
						}
					}
					arm(false)
					arm(true)
					pass(2 * ctxTick)
					runtime.GC()
					runtime.GC()
					for _, p := range gone {
						require.True(t, p.Value() == nil)
					}
					release()
					runtime.KeepAlive(parent)
					timer.Stop()
				})
			})
		}
	}
}
