package hashedwheel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The earlier deadline counts, the parent's or the context's own, and the parent's is not
// given to the timer again.
func TestContextAndDeadlineOfParent(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for name, outer := range map[string]maker{"context": stdMaker(), "same": m} {
			for _, wrap := range []func(context.Context) context.Context{
				func(ctx context.Context) context.Context { return ctx },
				func(ctx context.Context) context.Context { return context.WithValue(ctx, key("k"), "v") },
				func(ctx context.Context) context.Context { return wrapped{ctx} },
			} {
				for _, order := range []int{-1, 0, 1} {
					start := time.Now()
					parent, cancelParent := outer.timeoutCause(context.Background(), 5*ctxTick, errParent)
					own := 5*ctxTick + time.Duration(order)*2*ctxTick
					before := 0
					if m.timer != nil {
						before = m.timer.Pending()
					}
					ctx, cancel := m.timeoutCause(wrap(parent), own, errLate)
					d, ok := ctx.Deadline()
					require.True(t, ok)
					require.Equal(t, start.Add(min(own, 5*ctxTick)), d)
					if m.timer != nil && order > 0 {
						require.Equal(t, before, m.timer.Pending())
					}
					<-ctx.Done()
					require.Equal(t, min(own, 5*ctxTick), time.Since(start), name)
					require.Equal(t, context.DeadlineExceeded, ctx.Err())
					switch {
					case order < 0:
						require.Equal(t, errLate, context.Cause(ctx))
						requireAlive(t, parent)
					case order > 0:
						require.Equal(t, errParent, context.Cause(ctx))
					}
					cancel()
					cancelParent()
				}
			}
		}
	})
}

// What is derived from a context ends with it, and before it without it.
func TestContextChildren(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for _, end := range []string{"cancel", "deadline", "canceled before", "expired before"} {
			after := 5 * ctxTick
			if end == "expired before" {
				after = 0
			}
			ctx, cancel := m.timeoutCause(context.Background(), after, errLate)
			err, cause := context.DeadlineExceeded, errLate
			if strings.HasPrefix(end, "cancel") {
				err, cause = context.Canceled, context.Canceled
			}
			if end == "canceled before" {
				cancel()
			}
			var children []context.Context
			var cancels []context.CancelFunc
			add := func(child context.Context, cancel context.CancelFunc) {
				children, cancels = append(children, child), append(cancels, cancel)
			}
			for _, parent := range []context.Context{
				ctx, context.WithValue(ctx, key("k"), "v"), wrapped{ctx}, wrapped{context.WithValue(wrapped{ctx}, key("k"), "v")},
			} {
				add(context.WithCancel(parent))
				add(context.WithTimeout(parent, 6*ctxTick))
				add(context.WithTimeout(parent, 4*ctxTick+1))
				add(m.timeout(parent, 6*ctxTick))
				add(m.timeout(parent, 4*ctxTick+1))
				add(context.WithCancel(children[len(children)-1]))
				child, cancelChild := context.WithCancelCause(parent)
				add(child, func() { cancelChild(nil) })
			}
			first, cancelFirst := context.WithCancelCause(ctx)
			cancelFirst(errChild)
			if end == "cancel" || end == "deadline" {
				requireEnded(t, first, context.Canceled, errChild)
				requireAlive(t, ctx)
				for _, child := range children {
					requireAlive(t, child)
				}
				cancels[0]()
				requireEnded(t, children[0], context.Canceled, context.Canceled)
				requireAlive(t, ctx)
				children = children[1:]
			}
			if end == "cancel" {
				cancel() // all are done when this returns
				for _, child := range children {
					requireEnded(t, child, err, cause)
				}
			}
			if end == "deadline" {
				pass(4*ctxTick + 1) // some before the parent
				requireAlive(t, ctx)
				pass(ctxTick)
				for _, child := range children {
					require.True(t, isDone(child))
					require.Equal(t, err, child.Err())
				}
			} else {
				for _, child := range children {
					requireEnded(t, child, err, cause)
				}
			}
			requireEnded(t, ctx, err, cause)
			for _, cancel := range cancels {
				cancel()
			}
			cancel()
		}
	})
}

// A canceled parent is seen by the first who asks, without a goroutine having had its turn, and
// by those who asked before soon after.
func TestContextOfCanceledParent(t *testing.T) {
	for _, asked := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("asked=%v/before=%v", asked, before), func(t *testing.T) {
				withMakers(t, func(t *testing.T, m maker) {
					for i := range 4 {
						parent, cancelParent := context.WithCancelCause(context.Background())
						if before {
							cancelParent(errParent)
						}
						defer cancelParent(nil)
						from := parent
						if i&1 != 0 {
							from = context.WithValue(wrapped{from}, key("k"), "v")
						}
						if i&2 != 0 {
							outer, cancel := m.timeout(from, 30*ctxTick)
							defer cancel()
							from = outer
						}
						ctx, cancel := m.timeout(from, 20*ctxTick)
						defer cancel()
						var done <-chan struct{}
						var child context.Context
						if asked {
							done = ctx.Done()
							var cancel context.CancelFunc
							child, cancel = context.WithTimeout(ctx, 10*ctxTick)
							defer cancel()
						}
						if !before {
							cancelParent(errParent)
						}
						requireEnded(t, ctx, context.Canceled, errParent)
						if asked {
							<-done
							<-child.Done()
							requireEnded(t, child, context.Canceled, errParent)
						}
						synctest.Wait()
						if m.timer != nil && i&2 == 0 {
							require.Zero(t, m.timer.Pending())
						}
						cancel()
						requireEnded(t, ctx, context.Canceled, errParent)
					}
				})
			})
		}
	}
}

// The timeout of a context that nobody has asked for anything outlives a canceled parent until
// somebody does. One that was asked for Done is freed without.
func TestContextThatNobodyAsks(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(ctxTick))
		for name, ask := range map[string]func(ctx context.Context, cancel context.CancelFunc){
			"Err":      func(ctx context.Context, _ context.CancelFunc) { _ = ctx.Err() },
			"Done":     func(ctx context.Context, _ context.CancelFunc) { <-ctx.Done() },
			"Cause":    func(ctx context.Context, _ context.CancelFunc) { _ = context.Cause(ctx) },
			"cancel":   func(_ context.Context, cancel context.CancelFunc) { cancel() },
			"deadline": func(context.Context, context.CancelFunc) { pass(10 * ctxTick) },
			"before":   nil,
		} {
			parent, cancelParent := context.WithCancelCause(context.Background())
			ctx, cancel := timer.WithTimeout(parent, 10*ctxTick)
			require.Equal(t, 1, timer.Pending(), name)
			if ask == nil {
				ctx.Done()
			}
			cancelParent(errParent)
			synctest.Wait()
			if ask != nil {
				ask(ctx, cancel)
			}
			require.Zero(t, timer.Pending(), name)
			requireEnded(t, ctx, context.Canceled, errParent)
			cancel()
		}
		parent, cancelParent := context.WithCancelCause(context.Background())
		cancelParent(errParent)
		for _, after := range []time.Duration{10 * ctxTick, 0, -1} { // the parent was first
			ctx, cancel := timer.WithTimeoutCause(parent, after, errLate)
			require.Zero(t, timer.Pending())
			requireEnded(t, ctx, context.Canceled, errParent)
			cancel()
		}
		checkStats(t, timer)
	})
}

// A hooked context calls a function when it is next asked for Done.
type hooked struct {
	context.Context
	hook *atomic.Pointer[func()]
}

func (h hooked) Done() <-chan struct{} {
	if f := h.hook.Swap(nil); f != nil {
		(*f)()
	}
	return h.Context.Done()
}

// Of two ends, one of which comes while the parent is asked on behalf of the other, the first
// counts, for the context as for what is derived from it.
func TestContextEndsOnce(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for _, end := range []string{"cancel", "deadline", "Err", "Done", "Cause"} {
			var hook atomic.Pointer[func()]
			parent := newCustom(context.Background())
			ctx, cancel := m.timeoutCause(hooked{parent, &hook}, 10*ctxTick, errLate)
			child, cancelChild := context.WithCancel(ctx)
			again := func() {
				if end == "cancel" {
					time.Sleep(20 * ctxTick)
				} else {
					cancel()
				}
				parent.end(errParent)
			}
			hook.Store(&again)
			switch end {
			case "cancel":
				cancel()
			case "deadline":
				time.Sleep(20 * ctxTick)
			case "Err":
				_ = ctx.Err()
			case "Done":
				ctx.Done()
			case "Cause":
				_ = context.Cause(ctx)
			}
			hook.Store(nil)
			cancel()
			synctest.Wait()
			require.Error(t, ctx.Err())
			requireEnded(t, child, ctx.Err(), context.Cause(ctx))
			cancelChild()
		}
	})
}

// A random tower of all kinds of layers, some of which are canceled, and perhaps a Stop: each
// ends exactly when, and as, the first of those that it stands on.
func TestContextLayers(t *testing.T) {
	type layer struct {
		kind string
		ctx  context.Context
		ends time.Duration // from the start, and never if it does not
		err  error
		at   chan time.Duration // nil if nobody waits for Done
	}
	const never = time.Duration(math.MaxInt64)
	rnd := newRand(t)
	even := func(n int) time.Duration { return time.Duration(2 * (1 + rnd.IntN(n/2))) }
	for range 150 {
		opts := executors()[[]string{"runners", "one", "pool"}[rnd.IntN(3)]]
		tick := even(10_000)
		phase := even(10_000)
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, append(opts, WithTick(tick))...)
			start := time.Now()
			time.Sleep(phase)
			// Deadlines are even, and what else happens is odd: so one of them is first.
			stopAt := never
			if rnd.IntN(3) == 0 {
				stopAt = phase + even(100_000) + 1
			}
			root, cancel := context.WithCancel(context.Background())
			cancels := []context.CancelFunc{cancel}
			below := &layer{ctx: root, ends: never}
			var layers []*layer
			for i := range 1 + rnd.IntN(25) {
				l := &layer{ends: below.ends, err: below.err}
				after, own := even(100_000), never
				earlier, ok := below.ctx.Deadline()
				limited := ok && earlier.Before(time.Now().Add(after))
				var cancel context.CancelFunc
				switch l.kind = []string{"value", "wrapped", "cancel", "std", "wheel", "wheel", "wheel"}[rnd.IntN(7)]; l.kind {
				case "value":
					l.ctx = context.WithValue(below.ctx, depth(i), i)
				case "wrapped":
					l.ctx = wrapped{below.ctx}
				case "cancel":
					l.ctx, cancel = context.WithCancel(below.ctx)
				case "std":
					l.ctx, cancel = context.WithTimeout(below.ctx, after)
					if !limited {
						own = phase + after
					}
				case "wheel":
					l.ctx, cancel = timer.WithTimeout(below.ctx, after)
					if !limited {
						own = min(boundaryAt(phase+after, tick), max(phase+after, stopAt))
					}
				}
				if own < l.ends {
					l.ends, l.err = own, context.DeadlineExceeded
				}
				if cancel != nil {
					cancels = append(cancels, cancel)
					if at := phase + even(200_000) + 1; at != stopAt && rnd.IntN(10) == 0 {
						time.AfterFunc(at-phase, cancel)
						if at < l.ends {
							l.ends, l.err = at, context.Canceled
						}
					}
				}
				if rnd.IntN(2) == 0 {
					l.at = make(chan time.Duration, 1)
					go func() {
						<-l.ctx.Done()
						l.at <- time.Since(start)
					}()
				}
				layers = append(layers, l)
				below = l
			}
			checkValues := func() {
				t.Helper()
				for i, l := range layers {
					if l.kind == "value" {
						require.Equal(t, i, below.ctx.Value(depth(i)))
					}
				}
			}
			checkValues()
			if stopAt != never {
				pass(stopAt - phase)
				require.Empty(t, timer.Stop())
			}
			pass(time.Millisecond)
			checkValues()
			for i, l := range layers {
				if l.ends == never {
					requireAlive(t, l.ctx)
					continue
				}
				require.Equal(t, l.err, l.ctx.Err(), "layer %d, %s", i, l.kind)
				require.True(t, isDone(l.ctx))
				if l.at != nil {
					require.Equal(t, l.ends, <-l.at, "layer %d, %s", i, l.kind)
				}
			}
			for _, cancel := range cancels {
				cancel()
			}
			synctest.Wait()
			checkValues()
			require.Zero(t, timer.Pending())
			checkStats(t, timer)
		})
	}
}

// causeTrace does the events of an order, and returns what the contexts said after each, or
// only after the last. The parent is one of several kinds, and so is what is derived.
func causeTrace(m maker, parentKind string, cause error, order []string, asked bool) (trace []string) {
	var parent context.Context
	var cancelParent func()
	switch parentKind {
	case "background":
		parent, cancelParent = context.Background(), nop
	case "cancel":
		parent, cancelParent = context.WithCancel(context.Background())
	case "cause", "value", "wrapped", "without":
		ctx, cancel := context.WithCancelCause(context.Background())
		parent, cancelParent = ctx, func() { cancel(errParent) }
		switch parentKind {
		case "value":
			parent = context.WithValue(ctx, key("k"), "v")
		case "wrapped":
			parent = wrapped{ctx}
		case "without":
			parent = context.WithoutCancel(ctx)
		}
	case "std later":
		parent, cancelParent = context.WithTimeoutCause(context.Background(), 40*ctxTick, errParent)
	case "std earlier":
		parent, cancelParent = context.WithTimeoutCause(context.Background(), 10*ctxTick, errParent)
	case "same later":
		parent, cancelParent = m.timeoutCause(context.Background(), 40*ctxTick, errParent)
	case "same earlier":
		parent, cancelParent = m.timeoutCause(context.Background(), 10*ctxTick, errParent)
	case "same expired":
		parent, cancelParent = m.timeoutCause(context.Background(), 0, errParent)
	case "custom":
		ctx := newCustom(context.Background())
		parent, cancelParent = ctx, func() { ctx.end(errParent) }
	case "custom with AfterFunc":
		ctx := customAfterFunc{newCustom(context.Background())}
		parent, cancelParent = ctx, func() { ctx.end(context.DeadlineExceeded) }
	case "custom of cause":
		outer, cancel := context.WithCancelCause(context.Background())
		ctx := newCustom(outer)
		parent, cancelParent = ctx, func() {
			cancel(errParent)
			ctx.end(context.Canceled)
		}
	}
	ctx, cancel := m.timeoutCause(parent, 20*ctxTick, cause)
	all := []context.Context{parent, ctx, context.WithoutCancel(ctx), context.WithValue(ctx, key("k"), "v")}
	cancels := []func(){cancelParent, cancel}
	cancelChild := nop
	if asked {
		child, cancelCause := context.WithCancelCause(ctx)
		cancelChild = func() { cancelCause(errChild) }
		own, cancelOwn := m.timeoutCause(child, 15*ctxTick, errors.New("own"))
		std, cancelStd := context.WithTimeoutCause(wrapped{ctx}, 15*ctxTick, errors.New("std"))
		all = append(all, child, own, std)
		cancels = append(cancels, cancelChild, cancelOwn, cancelStd)
	}
	say := func(event string) {
		synctest.Wait()
		line := event + ":"
		for _, c := range all {
			line += fmt.Sprintf(" %v/%v", c.Err(), context.Cause(c))
		}
		trace = append(trace, line)
	}
	if asked {
		say("made")
	}
	for _, event := range order {
		map[string]func(){
			"parent": cancelParent, "cancel": cancel, "child": cancelChild,
			"time": func() { time.Sleep(50 * ctxTick) },
		}[event]()
		synctest.Wait()
		if asked {
			say(event)
		}
	}
	if !asked {
		say("all")
	}
	for _, cancel := range cancels {
		cancel()
		synctest.Wait()
	}
	say("end")
	return trace
}

// Whatever happens in whatever order, Err and Cause are those of the context package.
func TestContextCauseIsThatOfContextPackage(t *testing.T) {
	var orders [][]string
	var permute func(done, left []string)
	permute = func(done, left []string) {
		orders = append(orders, slices.Clone(done))
		for i := range left {
			permute(append(done, left[i]), slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	permute(nil, []string{"parent", "cancel", "child", "time"})
	for _, parent := range []string{
		"background", "cancel", "cause", "value", "wrapped", "without", "std later", "std earlier", "same later",
		"same earlier", "same expired", "custom", "custom with AfterFunc", "custom of cause",
	} {
		t.Run(parent, func(t *testing.T) {
			for _, cause := range []error{nil, errLate} {
				for _, order := range orders {
					for _, asked := range []bool{true, false} {
						var want []string
						virtual(t, func(*testing.T) { want = causeTrace(stdMaker(), parent, cause, order, asked) })
						virtual(t, func(t *testing.T) {
							timer := newTimer(t, WithTick(ctxTick))
							require.Equal(t, want, causeTrace(makerOf(timer), parent, cause, order, asked))
							require.Zero(t, timer.Pending())
							checkStats(t, timer)
						})
					}
				}
			}
		})
	}
}

// The same for a few, spelled out.
func TestContextCause(t *testing.T) {
	const canceled, exceeded = "context canceled", "context deadline exceeded"
	for _, c := range []struct {
		parent string
		cause  error
		order  string
		want   string // of the context, at the end
	}{
		{"background", nil, "", "<nil>/<nil>"},
		{"background", errLate, "cancel", canceled + "/" + canceled},
		{"background", nil, "time cancel", exceeded + "/" + exceeded},
		{"background", errLate, "time cancel", exceeded + "/late"},
		{"background", errLate, "child time", exceeded + "/late"},
		{"cause", errLate, "parent cancel time", canceled + "/parent"},
		{"cause", errLate, "cancel parent time", canceled + "/" + canceled},
		{"cause", errLate, "time parent", exceeded + "/late"},
		{"cause", nil, "time parent", exceeded + "/" + exceeded},
		{"without", errLate, "parent", "<nil>/<nil>"},
		{"same earlier", errLate, "time", exceeded + "/parent"},
		{"same later", errLate, "time", exceeded + "/late"},
		{"same later", errLate, "parent time", canceled + "/" + canceled},
		{"std earlier", errLate, "time cancel parent", exceeded + "/parent"},
		{"custom", errLate, "parent time", "parent/parent"},
	} {
		withMakers(t, func(t *testing.T, m maker) {
			for _, asked := range []bool{true, false} {
				trace := causeTrace(m, c.parent, c.cause, strings.Fields(c.order), asked)
				last := trace[len(trace)-2]
				_, said, _ := strings.Cut(last, ": ")
				said = strings.ReplaceAll(strings.ReplaceAll(said, canceled, "canceled"), exceeded, "exceeded")
				want := strings.ReplaceAll(strings.ReplaceAll(c.want, canceled, "canceled"), exceeded, "exceeded")
				require.Equal(t, want, strings.Fields(said)[1], "%s, %s", c.parent, c.order)
			}
		})
	}
}

// Parents that are none of the context package's. What was registered with them, or waits for
// them, goes when the context ends.
func TestContextOfCustomParent(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for _, afterFunc := range []bool{false, true} {
			for _, end := range []string{"parent", "cancel", "deadline"} {
				for _, asked := range []bool{false, true} {
					parent := newCustom(context.WithValue(context.Background(), key("k"), "v"))
					var from context.Context = parent
					if afterFunc {
						from = customAfterFunc{parent}
					}
					before := runtime.NumGoroutine()
					ctx, cancel := m.timeout(from, 10*ctxTick)
					require.Equal(t, "v", ctx.Value(key("k")))
					var child context.Context
					if asked {
						requireAlive(t, ctx)
						var cancelChild context.CancelFunc
						child, cancelChild = context.WithCancel(ctx)
						defer cancelChild()
						synctest.Wait()
						if afterFunc {
							require.Equal(t, 1, parent.registered())
						}
					}
					err, cause := context.Canceled, context.Canceled
					switch end {
					case "parent":
						parent.end(errParent)
						err, cause = errParent, errParent
						synctest.Wait()
					case "cancel":
						cancel()
					case "deadline":
						pass(10 * ctxTick)
						err, cause = context.DeadlineExceeded, context.DeadlineExceeded
					}
					requireEnded(t, ctx, err, cause)
					if asked {
						requireEnded(t, child, err, cause)
					}
					synctest.Wait()
					require.Zero(t, parent.registered())
					if end != "deadline" { // which may leave a runner
						requireGoroutines(t, before+1) // the worker
					}
					if end != "parent" {
						require.NoError(t, parent.Err())
						parent.end(errParent)
						synctest.Wait()
					}
					cancel()
					requireEnded(t, ctx, err, cause)
				}
			}
		}
	})
}

// A custom context on top of one of ours has its own channel: those derived from it end with it,
// not with ours.
func TestContextBelowCustomChild(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		ctx, cancel := m.timeout(context.Background(), 10*ctxTick)
		outer := newCustom(ctx)
		std, cancelStd := context.WithCancel(outer)
		defer cancelStd()
		own, cancelOwn := m.timeout(outer, 5*ctxTick)
		defer cancelOwn()
		cancel()
		synctest.Wait()
		requireAlive(t, std)
		requireAlive(t, own)
		outer.end(context.Canceled)
		<-std.Done()
		<-own.Done()
		require.Equal(t, context.Canceled, std.Err())
		require.Equal(t, context.Canceled, own.Err())
	})
}

// A parent of ours tells its children of ours at once, and these theirs.
func TestContextOfOurs(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for _, wrap := range []func(context.Context) context.Context{
			func(ctx context.Context) context.Context { return ctx },
			func(ctx context.Context) context.Context { return context.WithValue(wrapped{ctx}, key("k"), "v") },
		} {
			root, cancelRoot := m.timeout(context.Background(), time.Hour)
			ctx := root
			var all []context.Context
			var channels []<-chan struct{}
			for n := range 10 {
				next, cancel := m.timeout(wrap(ctx), time.Hour-time.Duration(n+1)*time.Second)
				defer cancel()
				child, cancelChild := context.WithCancel(wrap(next))
				defer cancelChild()
				all = append(all, next, child)
				channels = append(channels, next.Done(), child.Done())
				ctx = next
			}
			cancelRoot()
			for i, ctx := range all {
				select {
				case <-channels[i]:
				default:
					t.Error("not done at once")
				}
				requireEnded(t, ctx, context.Canceled, context.Canceled)
			}
		}
	})
}

// Only Done of a parent counts, whatever its Err says.
func TestContextOfDetachedParent(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for _, done := range []chan struct{}{nil, make(chan struct{})} {
			root, cancelRoot := context.WithCancel(context.Background())
			parent := &custom{Context: root, done: done}
			parent.err = errParent
			ctx, cancel := m.timeout(parent, time.Hour)
			defer cancel()
			requireAlive(t, ctx)
			cancelRoot()
			requireAlive(t, ctx)
			ctx, cancel = m.timeout(parent, time.Hour)
			defer cancel()
			requireAlive(t, ctx)
		}
	})
}

// A parent may ask its child under a lock that its Err takes too.
func TestContextAskedUnderLockOfParent(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		parent := newCustom(context.Background())
		ctx, cancel := m.timeout(parent, time.Hour)
		parent.mu.Lock()
		ctx.Done()
		_ = ctx.Err()
		_ = context.Cause(ctx)
		cancel()
		parent.mu.Unlock()
		requireEnded(t, ctx, context.Canceled, context.Canceled)
	})
}

// A look for a value asks nobody whether he is done, at no level of a tower of contexts.
func TestContextValueAsksOnce(t *testing.T) {
	var hook atomic.Pointer[func()]
	asked := 0
	count := func() { asked++ }
	timer := newTimer(t)
	var ctx context.Context = hooked{context.WithValue(t.Context(), key("k"), "v"), &hook}
	for n := range 100 {
		var cancel context.CancelFunc
		ctx, cancel = timer.WithTimeout(ctx, time.Hour-time.Duration(n)*time.Second)
		defer cancel()
	}
	hook.Store(&count)
	require.Equal(t, "v", ctx.Value(key("k")))
	require.Zero(t, asked)
}

// A valueHook calls a function when it is next asked for a value.
type valueHook struct {
	context.Context
	hook *atomic.Pointer[func()]
}

func (h valueHook) Value(key any) any {
	if f := h.hook.Swap(nil); f != nil {
		(*f)()
	}
	return h.Context.Value(key)
}

// A child that is being made while its parent is canceled is canceled.
func TestContextChildMadeWhileCanceled(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for _, asked := range []bool{false, true} {
			ctx, cancel := m.timeout(context.Background(), time.Hour)
			if asked {
				ctx.Done()
			}
			var hook atomic.Pointer[func()]
			f := func() { cancel() }
			hook.Store(&f)
			before := runtime.NumGoroutine()
			child, cancelChild := context.WithCancel(valueHook{ctx, &hook})
			require.Nil(t, hook.Load())
			requireEnded(t, child, context.Canceled, context.Canceled)
			requireGoroutines(t, before)
			cancelChild()
		}
	})
}

// With a Done channel of its own making, a parent may do what it likes when it is asked: the
// context package serves it, which asks less. One without is not asked for what is not its
// business.
func TestContextOfStrangeParent(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(ctxTick))
		parent := newCustom(context.Background())
		ctx, cancel := timer.WithTimeout(context.WithValue(wrapped{parent}, key("k"), "v"), ctxTick/2)
		defer cancel()
		require.Zero(t, timer.Pending())
		start := time.Now()
		<-ctx.Done()
		require.Equal(t, ctxTick/2, time.Since(start))
		requireEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)

		picky := pickyCtx{context.Background()}
		ctx, cancel = timer.WithTimeout(picky, 2*ctxTick)
		defer cancel()
		require.Equal(t, 1, timer.Pending())
		child, cancelChild := context.WithCancel(ctx)
		defer cancelChild()
		requireAlive(t, child)
		require.Equal(t, "v", child.Value("k"))
		<-child.Done()
		requireEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)
		requireEnded(t, child, context.DeadlineExceeded, context.DeadlineExceeded)
	})
}

// A pickyCtx knows values by strings, and no other keys.
type pickyCtx struct{ context.Context }

func (pickyCtx) Value(key any) any { return map[string]any{"k": "v"}[key.(string)] }
