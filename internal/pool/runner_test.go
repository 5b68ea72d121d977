package pool

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ways are ways to run tasks: on runners, and on goroutines of an executor.
var ways = map[string]func(h *fake){
	"runner":   func(*fake) {},
	"executor": func(h *fake) { h.executor(func(run func()) error { go run(); return nil }) },
}

// Whatever a task or a panic handler does to its goroutine, the other tasks run at once, and Ran follows.
func TestTaskEndsItsGoroutine(t *testing.T) {
	for name, f := range map[string]func(){
		"panic":      func() { panic("task") },
		"panic(nil)": func() { panic(nil) },
		"Goexit":     runtime.Goexit,
	} {
		for way, prepare := range ways {
			for _, exits := range []bool{false, true} {
				t.Run(name+"/"+way, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := newFake(t, time.Millisecond)
						prepare(h)
						var values []any
						h.panicked = func(value any, stack []byte) {
							values = append(values, value)
							assert.Contains(t, string(stack), "TestTaskEndsItsGoroutine")
							if exits {
								runtime.Goexit()
							}
						}
						h.pool.Limit = 1
						told := 0
						h.addFunc(20, nil)
						h.add(&task{f: f}, &task{f: f, next: func() bool { told++; return told < 3 }})
						h.addFunc(20, nil)
						synctest.Wait()
						require.Len(t, h.order(), 44)
						require.Equal(t, 3, told)
						switch name {
						case "panic":
							require.Equal(t, []any{"task", "task", "task", "task"}, values)
						case "panic(nil)":
							require.Len(t, values, 4)
							require.IsType(t, new(runtime.PanicNilError), values[0])
						default:
							require.Empty(t, values)
						}
						require.Zero(t, h.runners())
					})
				})
			}
		}
	}
}

// If Ran ends the goroutine, what it would have returned is not known. So the host is asked to requeue the item. A panic
// in Ran is one of the panic handler, and no other follows.
func TestRanExits(t *testing.T) {
	for way, prepare := range ways {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFake(t, time.Millisecond)
				prepare(h)
				n := 0
				w := &task{next: func() bool {
					if n++; n < 3 {
						runtime.Goexit()
					}
					return false
				}}
				h.add(w)
				h.addFunc(10, nil)
				synctest.Wait()
				require.EqualValues(t, 2, h.requeued.Load())
				require.Equal(t, 3, w.runs)
				require.Len(t, h.order(), 13)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		p := &h.pool
		p.Limit = 1
		p.starting.Store(1) // no runner but that of the test
		n := 0
		h.add(&task{next: func() bool {
			if n++; n == 1 {
				panic("handler")
			}
			return false
		}})
		require.PanicsWithValue(t, "handler", p.run)
		synctest.Wait()
		require.Zero(t, h.panics.Load())
		require.Equal(t, 2, n)
	})
}

// A claim may run the user's code too. What panics there is not the task, so the panic is not recovered, and another goroutine
// goes on.
func TestClaimPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		p := &h.pool
		p.Limit = 1
		p.starting.Store(1) // no runner but that of the test
		h.addFunc(3, nil)
		w := &task{inClaim: func() { panic("handler") }, state: canceled}
		h.add(w)
		h.addFunc(3, nil)
		require.PanicsWithValue(t, "handler", p.run)
		synctest.Wait()
		require.Zero(t, h.panics.Load())
		require.Len(t, h.order(), 6)
	})
}

// A panic of the panic handler is not recovered: it crashes the program, unless an executor recovers it. Another goroutine
// goes on: Ran follows, and without an executor the next task.
func TestHandlerPanics(t *testing.T) {
	for _, outside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newFake(t, time.Millisecond)
			p := &h.pool
			p.Limit = 1
			p.starting.Store(1) // no runner but that of the test
			h.panicked = func(any, []byte) { panic("handler") }
			if outside {
				p.want = func() {}
			}
			told := 0
			w := &task{f: func() { panic("task") }, next: func() bool { told++; return false }}
			h.add(w, new(task))
			require.PanicsWithValue(t, "handler", p.run)
			synctest.Wait()
			require.Equal(t, 1, told)
			require.Empty(t, p.runners)
			if outside {
				require.Equal(t, 1, p.Waiting())
			} else {
				require.Len(t, h.order(), 2)
			}
		})
	}
}

// A task that is due again runs at once if nothing else waits. Otherwise the others go first, and it comes again behind them.
func TestRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		h.pool.Limit = 1
		h.fed = true
		again := func(n int) *task { return &task{next: func() bool { n--; return n > 0 }} }
		a, b, c := again(12), new(task), again(2)
		h.add(a, b, c)
		synctest.Wait()
		var want []*task
		for _, run := range []struct {
			n int
			w *task
		}{{1, a}, {1, b}, {1, c}, {1, a}, {1, c}, {12 - 2, a}} {
			for range run.n {
				want = append(want, run.w)
			}
		}
		require.Equal(t, want, h.order())
		require.EqualValues(t, 3, h.requeued.Load())
	})
}

// A task that is removed after Ran has returned true, and before it is claimed again, does not run.
func TestRemovedBeforeItRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		h.pool.Limit = 1
		h.fed = true // so that w does not run before other waits
		w := &task{next: func() bool { return true }}
		other := &task{f: func() { require.True(t, w.move(canceled, waiting)) }}
		h.add(w, other)
		synctest.Wait()
		require.Equal(t, 1, w.runs)
		require.Equal(t, over, other.is())
	})
}
