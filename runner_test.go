package hashedwheel

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever a task does to its goroutine, the other tasks of its batch run at the same tick, and tasks of later
// ticks run on time.
func TestTaskThatDoesNotReturn(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		task   func()
		panics uint64
		value  func(v any) bool
	}{
		{"panic", func() { panic(boom) }, 1, func(v any) bool { return v == any(boom) }},
		{"panic(nil)", func() { panic(nil) }, 1, func(v any) bool { _, ok := v.(*runtime.PanicNilError); return ok }},
		{"runtime error", func() { var none []int; none[len(os.Args)]++ }, 1, func(v any) bool { _, ok := v.(runtime.Error); return ok }},
		{"Goexit", runtime.Goexit, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				var bad *Timeout
				var reported atomic.Int64
				timer := newTimer(t, WithTick(time.Millisecond), WithPanicHandler(func(to *Timeout, value any, stack []byte) {
					reported.Add(1)
					assert.Same(t, bad, to)
					assert.True(t, c.value(value), "%#v", value)
					assert.Contains(t, string(stack), "TestTaskThatDoesNotReturn")
				}))
				start := time.Now()
				var fired moments
				arm := func(delay time.Duration, f func()) *Timeout {
					to, err := timer.AfterFunc(delay, f)
					require.NoError(t, err)
					return to
				}
				arm(time.Millisecond, fired.note)
				bad = arm(time.Millisecond, c.task)
				arm(time.Millisecond, fired.note)
				arm(2*time.Millisecond, fired.note)
				pass(time.Second)
				first := start.Add(time.Millisecond)
				require.Equal(t, []time.Time{first, first, first.Add(time.Millisecond)}, fired.all())
				require.EqualValues(t, c.panics, reported.Load())
				require.True(t, bad.IsExpired())
				require.Equal(t, Stats{Accepted: 4, Expired: 4, Panics: c.panics}, outcomes(timer))
			})
		})
	}
}

// A panic handler that ends its goroutine does not delay other tasks either.
func TestPanicHandlerExits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithPanicHandler(func(*Timeout, any, []byte) { runtime.Goexit() }))
		var ran atomic.Int64
		for i := range 5 {
			_, err := timer.AfterFunc(0, func() {
				ran.Add(1)
				panic(i)
			})
			require.NoError(t, err)
		}
		pass(time.Millisecond)
		require.EqualValues(t, 5, ran.Load())
		require.Equal(t, Stats{Accepted: 5, Expired: 5, Panics: 5}, outcomes(timer))
	})
}

// A panic handler that panics crashes the program, and the output has both values.
func TestPanicHandlerPanics(t *testing.T) {
	var how = map[string][]Option{
		"runner":          nil,
		"executor":        {WithExecutor(func(run func()) error { go run(); return nil })},
		"executor inline": {WithExecutor(func(run func()) error { run(); return nil })},
		"executor fails":  {WithExecutor(func(func()) error { return os.ErrInvalid })},
	}
	if opts, ok := how[os.Getenv("HASHEDWHEEL_CRASH")]; ok {
		timer := newTimer(t, append(opts, WithTick(time.Millisecond), WithPanicHandler(func(*Timeout, any, []byte) { panic("second") }))...)
		_, err := timer.AfterFunc(0, func() { panic("first") })
		require.NoError(t, err)
		time.Sleep(time.Minute) // until the crash
		return
	}
	for name := range how {
		out := runToCrash(t, name)
		require.Contains(t, out, "panic: first [recovered]", name)
		require.Contains(t, out, "panic: second", name)
	}
}

// runToCrash runs the calling test in another process, which must crash, and returns the output of that process.
func runToCrash(t *testing.T, how string) string {
	needsProcesses(t)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "HASHEDWHEEL_CRASH="+how)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("needs to start itself: this system does not know the emulator under which it runs")
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, how)
	require.Equal(t, 2, exit.ExitCode(), how)
	return string(out)
}

// The handler in the documentation of WithPanicHandler crashes the program as a panic in a goroutine does. The
// output has the value and the stack of the task.
func TestPanicHandlerPanicsAgain(t *testing.T) {
	if os.Getenv("HASHEDWHEEL_CRASH") == "again" {
		timer := newTimer(t, WithTick(time.Millisecond), WithPanicHandler(func(_ *Timeout, v any, _ []byte) { panic(v) }))
		_, err := timer.AfterFunc(0, watchdogBites)
		require.NoError(t, err)
		time.Sleep(time.Minute) // until the crash
		return
	}
	out := runToCrash(t, "again")
	require.Contains(t, out, "panic: it hangs")
	require.Contains(t, out, "hashedwheel.watchdogBites(")
}

func watchdogBites() { panic("it hangs") }

func TestPanicIsLogged(t *testing.T) {
	for _, byDefault := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			option := WithLogger(logger)
			if byDefault {
				defer slog.SetDefault(slog.Default())
				slog.SetDefault(logger)
				option = WithLogger(nil)
			}
			timer := newTimer(t, option)
			_, err := timer.AfterFunc(0, func() { panic("boom") })
			require.NoError(t, err)
			pass(time.Second)
			require.Contains(t, log.String(), `level=ERROR msg="hashedwheel: task panicked" panic=boom timeout="hashedwheel.Timeout(expired`)
			require.Contains(t, log.String(), "TestPanicIsLogged")
		})
	}
}

// Methods may be called from inside a task.
func TestMethodsInsideATask(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		runs := 0
		other, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		_, err = timer.NewTimeout(TaskFunc(func(to *Timeout) {
			runs++
			assert.True(t, to.IsExpired())
			assert.False(t, to.IsCanceled())
			assert.False(t, to.Cancel())
			assert.Equal(t, 1, timer.Stats().Running)
			assert.NotEmpty(t, to.String())
			switch runs {
			case 1, 2, 3:
				active, err := to.Reset(0)
				assert.False(t, active)
				assert.NoError(t, err)
				assert.Equal(t, 2, timer.Pending())
			case 4:
				active, err := other.Reset(time.Minute)
				assert.True(t, active)
				assert.NoError(t, err)
				assert.True(t, other.Cancel())
				_, err = timer.AfterFunc(0, func() { runs++ })
				assert.NoError(t, err)
				assert.Len(t, timer.Stop(), 1)
				assert.True(t, timer.IsStopped())
			}
		}), 0)
		require.NoError(t, err)
		pass(time.Second)
		require.Equal(t, 4, runs)
		require.Equal(t, Stats{Accepted: 6, Expired: 4, Canceled: 1, Returned: 1}, outcomes(timer))
	})
}

// Runners take timeouts from a batch one by one or in groups, and Stop takes the rest.
func TestBatch(t *testing.T) {
	a, b, c := new(Timeout), new(Timeout), new(Timeout)
	groups := &batch{due: []*Timeout{a, b, c}}
	require.Equal(t, []*Timeout{a, b}, groups.take(2))
	require.Equal(t, 1, groups.left())
	require.Equal(t, []*Timeout{c}, groups.take(2))
	require.Empty(t, groups.take(2))
	require.Zero(t, groups.left())
	batch := &batch{due: []*Timeout{a, b, c}}
	require.Equal(t, []*Timeout{a}, batch.take(1))
	require.Equal(t, 2, batch.left())
	require.Equal(t, []*Timeout{b, c}, batch.takeRest())
	require.Empty(t, batch.take(1))
	require.Empty(t, batch.takeRest())
	require.Zero(t, batch.left())
}

// After Stop has shut the gate, no runner claims a timeout: neither a new runner, nor one whose task ends
// meanwhile. Stop takes the timeouts that they have.
func TestRunnersAtTheShutGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Second))
		r := &timer.runners
		r.groupsPerBatch = 1
		release := make(chan struct{})
		var ran atomic.Int32
		for range 3 {
			_, err := timer.AfterFunc(0, func() { ran.Add(1); <-release })
			require.NoError(t, err)
		}
		pass(time.Second)
		require.EqualValues(t, 1, ran.Load())
		timer.stopped.Store(true) // as Stop does
		r.shutGate()
		close(release)
		r.mu.Lock()
		r.list(&batch{due: []*Timeout{testTimeout(1)}, tick: 1})
		r.spawn(1)
		r.mu.Unlock()
		synctest.Wait()
		require.EqualValues(t, 1, ran.Load())
		timer.stopped.Store(false)
		r.mu.Lock()
		r.batches = nil // removes the batch with testTimeout
		r.mu.Unlock()
		require.Len(t, timer.Stop(), 2)
		require.EqualValues(t, 1, ran.Load())
	})
}

// Repeating timeouts may be due again just when their run ends. At that time the worker does not check the
// runners. Even so the timeouts do not wait behind a task that blocks.
func TestRequeuedAreTakenOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newFakedTimer(t)
		r := &timer.runners
		release := make(chan struct{})
		defer close(release)
		var ran atomic.Int32
		const n = 256
		for range n {
			to := testTimeout(1)
			to.timer, to.task = timer, plainFunc(func() { ran.Add(1); <-release })
			r.requeue(to, 1)
		}
		r.mu.Lock()
		r.spawn(n)
		r.mu.Unlock()
		synctest.Wait()
		require.EqualValues(t, n, ran.Load())
	})
}

// handOver starts one runner if the batch is the only one. If other batches wait, it starts one more, up to one
// for each processor. With a limit, it starts one for each timeout, or as many as the
// limit allows.
func TestHandOverStartsRunners(t *testing.T) {
	for _, c := range []struct{ limit, live, waiting, want int }{
		{0, 0, 0, 1},
		{0, 9, 0, 1},
		{0, 0, 1, 1},
		{0, 1, 1, 1},
		{0, 2, 1, 0},
		{3, 0, 0, 3},
		{3, 1, 1, 2},
		{3, 3, 1, 0},
		{9, 0, 0, 5},
	} {
		timer := newTimer(t)
		r := &timer.runners
		r.limit, r.eager = c.limit, 2
		for range c.live {
			r.enlistOne()
		}
		r.begun.Store(r.started) // as if all of them were in tasks
		gone := func() *Timeout {
			to := &Timeout{timer: timer}
			to.word.Store(canceled)
			return to
		}
		for range c.waiting {
			r.list(&batch{due: []*Timeout{gone()}, begun: true})
		}
		_, before := r.liveRunners()
		for range 5 {
			r.collect(gone(), 1)
		}
		r.handOver(1)
		_, started := r.liveRunners()
		require.Equal(t, c.want, started-before, "%+v", c)
		require.Eventually(t, func() bool { live, _ := r.liveRunners(); return live == c.live }, patience, time.Millisecond)
		r.live = nil // removes the fake runners
	}
}

// A batch that nothing refers to any more is reused, and keeps no timeouts.
func TestBatchesAreUsedAgain(t *testing.T) {
	timer := newTimer(t)
	r := &timer.runners
	rn := r.enlistOne()
	listed := func() *batch {
		b := &batch{due: []*Timeout{testTimeout(1), testTimeout(1)}}
		r.mu.Lock()
		r.list(b)
		r.mu.Unlock()
		require.Same(t, b, r.next(rn))
		clear(b.takeRest())
		return b
	}
	recycled := func(b *batch) bool { return len(b.due) == 0 }
	b := listed()
	r.mu.Lock()
	r.prune()
	r.mu.Unlock()
	require.Empty(t, r.batches)
	require.False(t, recycled(b), "its runner may still look at it")
	require.Nil(t, r.next(rn))
	require.True(t, recycled(b))
	require.Equal(t, []*Timeout{nil, nil}, b.due[:2])

	rn = r.enlistOne()
	b = listed()
	require.Nil(t, r.next(rn))
	require.True(t, recycled(b))
}

// Calls are made in the order in which they were added, by one goroutine as long as none blocks. Calls that wait
// behind blocked ones are made on other goroutines.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		c := &timer.calls
		release := make(chan struct{})
		var made []int
		for i := range 1000 {
			c.add(func() { made = append(made, i) })
		}
		c.mu.Lock()
		require.LessOrEqual(t, c.live, 1)
		c.mu.Unlock()
		synctest.Wait()
		require.Len(t, made, 1000)
		require.True(t, slices.IsSorted(made))
		require.Nil(t, c.untilIdle())

		var blocked, others atomic.Int64
		for i := range 100 {
			c.add(func() {
				if i%10 == 0 {
					blocked.Add(1)
					<-release
				} else if i%10 == 1 {
					runtime.Goexit()
				}
				others.Add(1)
			})
		}
		pass(2 * maxCheckInterval)
		require.EqualValues(t, 10, blocked.Load())
		require.EqualValues(t, 80, others.Load())
		c.mu.Lock()
		require.Equal(t, 10, c.live)
		c.mu.Unlock()
		idle := c.untilIdle()
		require.NotNil(t, idle)
		close(release)
		<-idle
		require.Nil(t, c.first)
		require.Nil(t, c.last)
		pass(time.Second)
		require.False(t, c.watching)
	})
}

// When timeouts join a waiting batch, its ticks still cover them all. They may come from a runner that has seen
// a later tick than the worker, or from a worker that was delayed.
func TestListInOneBatch(t *testing.T) {
	timer := newFakedTimer(t)
	r := &timer.runners
	for _, tick := range []uint64{5, 7, 6, 4} {
		b := newBatch()
		b.due, b.tick = append(b.due, testTimeout(tick)), tick
		r.list(b)
	}
	require.Len(t, r.batches, 1)
	b := r.batches[0]
	require.Len(t, b.due, 4)
	require.EqualValues(t, 7, b.tick, "none of them was due later")
	require.EqualValues(t, 4, b.since, "one of them has waited since then")
	r.batches = nil
}

// Until a new runner has had a processor, further calls of handOver start no more runners.
func TestHandOverBeforeRunnersHaveRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	timer := newTimer(t)
	r := &timer.runners
	for range 500 {
		gone := &Timeout{timer: timer}
		gone.word.Store(canceled)
		r.collect(gone, 1)
		r.handOver(1)
	}
	_, started := r.liveRunners()
	require.LessOrEqual(t, started, 50, "a few, if the machine has taken the processor away")
}
