package hashedwheel

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever a task does to its goroutine, the others that are due with it run at the same tick, and tasks of later
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
