package hashedwheel

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever calls the CancelFunc, also while another one or the parent is ending the context,
// finds it done when it returns.
func TestContextCancelRace(t *testing.T) {
	timer := newTimer(t, WithTick(20*time.Microsecond))
	rnd := newRand(t)
	for deadline := time.Now().Add(stressTime(t) / 2); time.Now().Before(deadline); {
		parent, cancelParent := context.WithCancelCause(context.Background())
		ctx, cancel := timer.WithTimeout(parent, time.Duration(20+rnd.IntN(100))*time.Microsecond)
		done := ctx.Done()
		var wg sync.WaitGroup
		var begin atomic.Int32
		for i := range 3 {
			wg.Go(func() {
				for begin.Add(1); begin.Load() < 2; {
				}
				if i == 2 {
					cancelParent(errParent)
				}
				cancel()
				select {
				case <-done:
				default:
					t.Error("not done")
				}
			})
		}
		wg.Wait()
		cancelParent(nil)
	}
}

// A context that ends while it begins to follow its parent does not stay with that.
func TestContextFollowRace(t *testing.T) {
	timer := newTimer(t, WithTick(20*time.Microsecond))
	rnd := newRand(t)
	parent := customAfterFunc{newCustom(context.Background())}
	for deadline := time.Now().Add(stressTime(t) / 2); time.Now().Before(deadline); {
		ctx, cancel := timer.WithTimeout(parent, time.Hour)
		var wg sync.WaitGroup
		var begin atomic.Int32
		wait := rnd.IntN(1000)
		wg.Go(func() {
			for begin.Add(1); begin.Load() < 2; {
			}
			ctx.Done()
		})
		wg.Go(func() {
			for begin.Add(1); begin.Load() < 2 || wait > 0; wait-- {
			}
			cancel()
		})
		wg.Wait()
		require.Zero(t, parent.registered())
	}
}

// A tree of all kinds, and all of it canceled at the same time.
func TestContextSimultaneousCancels(t *testing.T) {
	rnd := newRand(t)
	timer := newTimer(t, WithTick(time.Millisecond))
	for range 20 {
		root, cancel := context.WithCancel(context.Background())
		all := map[context.Context]context.CancelFunc{root: cancel}
		row := []context.Context{root}
		for len(all) < 150 {
			parent := row[0]
			row = row[1:]
			for i := range 4 {
				ctx, cancel := timer.WithTimeout(parent, time.Hour)
				switch i {
				case 0:
					ctx, cancel = context.WithCancel(context.WithValue(ctx, key("k"), "v"))
				case 1:
					ctx, cancel = context.WithTimeout(ctx, time.Minute)
				}
				all[ctx] = cancel
				row = append(row, ctx)
			}
		}
		cancels := slices.Collect(maps.Values(all))
		rnd.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })
		var wg sync.WaitGroup
		for _, cancel := range cancels {
			wg.Go(cancel)
		}
		for ctx := range all {
			<-ctx.Done()
			require.Equal(t, context.Canceled, ctx.Err())
			require.Equal(t, context.Canceled, context.Cause(ctx))
		}
		wg.Wait()
	}
	require.Eventually(t, func() bool { return timer.Pending() == 0 }, 10*time.Second, time.Millisecond)
	checkStats(t, timer)
}

// Those that cancel each other as soon as one is done do not hang.
func TestContextInterlockedCancels(t *testing.T) {
	withMakers(t, func(t *testing.T, m maker) {
		for range 20 {
			for i := range 4 {
				parent, cancelParent := m.timeout(context.Background(), 10*ctxTick)
				outer := newCustom(parent)
				child, cancelChild := m.timeout(outer, 10*ctxTick)
				go func() {
					<-parent.Done()
					cancelChild()
				}()
				context.AfterFunc(child, cancelParent)
				context.AfterFunc(child, func() { outer.end(errParent) })
				context.AfterFunc(outer, cancelChild)
				switch i {
				case 0:
					cancelParent()
				case 1:
					cancelChild()
				case 2:
					outer.end(errParent)
				}
				<-parent.Done()
				<-child.Done()
				<-outer.Done()
				synctest.Wait()
			}
		}
	})
}

// Once Err says so Done is closed, and the other way round, whoever ends it; and what has been
// said is not taken back.
func TestContextErrAndDoneRace(t *testing.T) {
	timer := newTimer(t, WithTick(20*time.Microsecond))
	rnd := newRand(t)
	for deadline := time.Now().Add(stressTime(t) / 2); time.Now().Before(deadline); {
		parent, cancelParent := context.WithCancelCause(context.Background())
		ctx, cancel := timer.WithTimeoutCause(parent, time.Duration(1+rnd.IntN(100_000)), errLate)
		var early <-chan struct{}
		if rnd.IntN(2) == 0 {
			early = ctx.Done()
		}
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				for {
					var err error
					switch i {
					case 0:
						if err = ctx.Err(); err == nil {
							continue
						}
					case 1:
						if err = context.Cause(ctx); err == nil {
							continue
						}
					case 2:
						<-ctx.Done()
					}
					if early != nil {
						select {
						case <-early:
						default:
							t.Error("an error, but not done")
						}
					}
					if !isDone(ctx) {
						t.Error("an error, but not done")
					}
					if ctx.Err() == nil || context.Cause(ctx) == nil {
						t.Error("done, but no error")
					}
					if i == 0 && ctx.Err() != err || i == 1 && context.Cause(ctx) != err {
						t.Error("another error")
					}
					return
				}
			})
		}
		switch rnd.IntN(3) {
		case 0:
			wg.Go(cancel)
		case 1:
			wg.Go(func() { cancelParent(errParent) })
		}
		wg.Wait()
		cancel()
		cancelParent(nil)
	}
}

// Everything at once on the same context, and it ends in one of the ways that there are, as does
// what is derived from it.
func TestContextRace(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			rnd := newRand(t)
			ends := map[error]int{}
			for deadline := time.Now().Add(stressTime(t) / 2); time.Now().Before(deadline); {
				contextRace(t, opts, rnd, ends)
			}
			t.Log(ends)
			require.Len(t, ends, 3)
		})
	}
}

func contextRace(t *testing.T, opts []Option, rnd *rand.Rand, ends map[error]int) {
	timer := newTimer(t, append(opts, WithTick(20*time.Microsecond))...)
	root, cancelCause := context.WithCancelCause(context.Background())
	var parent context.Context = root
	cancelParent := func() { cancelCause(errParent) }
	switch rnd.IntN(5) {
	case 0:
		parent = wrapped{root}
	case 1:
		c := newCustom(context.Background())
		parent, cancelParent = c, func() { c.end(errParent) }
	case 2:
		c := customAfterFunc{newCustom(context.Background())}
		parent, cancelParent = c, func() { c.end(errParent) }
	case 3:
		outer, cancel := timer.WithTimeout(root, time.Hour)
		defer cancel()
		parent = outer
	}
	parent = context.WithValue(parent, key("k"), "v")
	ctx, cancel := timer.WithTimeoutCause(parent, time.Duration(1+rnd.IntN(60_000)), errLate)

	var mu sync.Mutex
	var children []context.Context
	var told, wantTold atomic.Int32
	begin := make(chan struct{})
	var wg sync.WaitGroup
	do := func(wait int, f func()) {
		wg.Go(func() {
			<-begin
			for range wait {
				runtime.Gosched()
			}
			f()
		})
	}
	add := func(child context.Context, cancel func()) {
		mu.Lock()
		defer mu.Unlock()
		children = append(children, child)
	}
	if rnd.IntN(2) == 0 {
		do(rnd.IntN(50), cancel)
	}
	if rnd.IntN(2) == 0 {
		do(rnd.IntN(50), cancelParent)
	}
	if rnd.IntN(2) == 0 {
		do(rnd.IntN(50), func() {
			for _, to := range timer.Stop() {
				t.Errorf("Stop returned %v", to)
			}
		})
	}
	channels := make(chan (<-chan struct{}), 4)
	for range cap(channels) {
		do(rnd.IntN(50), func() { channels <- ctx.Done() })
	}
	do(rnd.IntN(50), func() { add(context.WithCancel(ctx)) })
	do(rnd.IntN(50), func() { add(context.WithTimeout(wrapped{ctx}, time.Hour)) })
	do(rnd.IntN(50), func() { add(timer.WithTimeout(context.WithValue(ctx, key("l"), "w"), time.Hour)) })
	do(rnd.IntN(50), func() {
		child, cancel := context.WithCancel(ctx)
		cancel()
		<-child.Done()
	})
	do(rnd.IntN(50), func() {
		wantTold.Add(1)
		context.AfterFunc(ctx, func() { told.Add(1) })
	})
	do(rnd.IntN(50), func() {
		stop := context.AfterFunc(ctx, func() { told.Add(1) })
		if runtime.Gosched(); !stop() {
			wantTold.Add(1)
		}
	})
	do(rnd.IntN(50), func() {
		assert.Equal(t, "v", ctx.Value(key("k")))
		_ = ctx.(fmt.Stringer).String()
		if ctx.Err() == nil {
			runtime.Gosched()
		}
		if err, cause := ctx.Err(), context.Cause(ctx); err != nil {
			assert.True(t, isDone(ctx))
			assert.Equal(t, cause, context.Cause(ctx))
		}
	})
	close(begin)
	wg.Wait()

	done := <-channels
	for range cap(channels) - 1 {
		require.Equal(t, done, <-channels)
	}
	<-done
	err, cause := ctx.Err(), context.Cause(ctx)
	switch cause {
	case context.Canceled:
		require.Equal(t, context.Canceled, err)
	case errLate:
		require.Equal(t, context.DeadlineExceeded, err)
	case errParent:
		require.Contains(t, []error{context.Canceled, errParent}, err)
		require.Error(t, parent.Err())
	default:
		require.Fail(t, "another cause", "%v", cause)
	}
	ends[cause]++
	for _, child := range children {
		<-child.Done()
		require.Equal(t, err, child.Err())
		require.Equal(t, cause, context.Cause(child))
	}
	for told.Load() != wantTold.Load() {
		runtime.Gosched()
	}
	cancel()
	cancelParent()
	cancelCause(nil)
	require.Equal(t, err, ctx.Err())
	require.Equal(t, cause, context.Cause(ctx))
	require.Equal(t, "v", ctx.Value(key("k")))
	require.Empty(t, timer.Stop())
	_, shut := timer.Shutdown(context.Background())
	require.NoError(t, shut)
	for timer.Pending() != 0 { // a goroutine of the parent's may be at it
		runtime.Gosched()
	}
	checkStats(t, timer)
}

// When a CancelFunc has returned, all that is derived is done, also if another one, or the
// deadline, was first.
func TestContextCancelWaitsForAll(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	for name, timeout := range map[string]time.Duration{"cancel": time.Hour, "deadline": 2 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			for deadline := time.Now().Add(stressTime(t) / 4); time.Now().Before(deadline); {
				outer, cancel := timer.WithTimeout(context.Background(), timeout)
				ctx, cancelInner := timer.WithTimeout(outer, 30*time.Minute)
				defer cancelInner()
				children := make([]context.Context, 0, 400)
				for range cap(children) / 2 {
					for _, parent := range []context.Context{outer, ctx} {
						child, cancel := context.WithCancel(parent)
						defer cancel()
						children = append(children, child)
					}
				}
				if name == "deadline" {
					<-outer.Done()
				}
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() {
						cancel()
						for _, child := range children {
							if child.Err() == nil {
								t.Error("not done")
								return
							}
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

// A parent that is canceled is seen at once by whoever asks for Done then, also while the
// goroutine that it has started for those who asked before is at it.
func TestContextFreshDone(t *testing.T) {
	timer := newTimer(t)
	for i := range 10_000 {
		parent, cancelParent := context.WithCancel(context.Background())
		ctx, cancel := timer.WithTimeout(parent, time.Minute)
		ctx.Done()
		cancelParent()
		for wait := i % 100; wait > 0; wait-- {
			_ = timer.Pending()
		}
		require.True(t, isDone(ctx))
		cancel()
	}
}

// A Done that somebody else has asked for is closed at once too, when a parent of ours is
// canceled, however new it is.
func TestContextDoneOfTwo(t *testing.T) {
	timer := newTimer(t)
	for deadline := time.Now().Add(stressTime(t) / 4); time.Now().Before(deadline); {
		outer, cancelOuter := timer.WithTimeout(context.Background(), time.Hour)
		ctx, cancel := timer.WithTimeout(outer, time.Minute)
		var wg sync.WaitGroup
		wg.Go(func() { ctx.Done() })
		done := ctx.Done()
		child, cancelChild := context.WithCancel(ctx)
		cancelOuter()
		select {
		case <-done:
		default:
			t.Error("not done")
		}
		require.Error(t, child.Err())
		wg.Wait()
		cancelChild()
		cancel()
	}
}
