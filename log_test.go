package hashedwheel

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimeoutString(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Second))
		to, err := timer.NewTimeout(TaskFunc(nopTask), 1500*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, "hashedwheel.Timeout(pending, deadline in 2s, task hashedwheel.nopTask)", fmt.Sprint(to))
		pass(2500 * time.Millisecond)
		require.Equal(t, "hashedwheel.Timeout(expired, deadline 500ms ago, task hashedwheel.nopTask)", to.String())
		pass(5_263 * time.Millisecond)
		require.Equal(t, "hashedwheel.Timeout(expired, deadline 5.76s ago, task hashedwheel.nopTask)", to.String())
		_, err = to.Reset(time.Second)
		require.NoError(t, err)
		require.True(t, to.Cancel())
		require.Equal(t, "hashedwheel.Timeout(canceled, deadline in 1.24s, task hashedwheel.nopTask)", to.String())
	})
}

// String names the function that is the task, or else the type of the task, whatever is wrapped around it.
func TestTimeoutStringNamesTheTask(t *testing.T) {
	timer := newTimer(t)
	check := func(want string) func(*Timeout, error) {
		return func(to *Timeout, err error) {
			t.Helper()
			require.NoError(t, err)
			require.Contains(t, to.String(), ", task "+want+")")
			require.True(t, to.Cancel())
			require.Contains(t, to.String(), ", task "+want+")")
		}
	}
	closure := func() {}
	var method moments
	check("hashedwheel.nop")(timer.AfterFunc(time.Hour, nop))
	check("hashedwheel.TestTimeoutStringNamesTheTask.func2")(timer.AfterFunc(time.Hour, closure))
	check("hashedwheel.(*moments).note-fm")(timer.AfterFunc(time.Hour, method.note))
	check("runtime.GC")(timer.AfterFunc(time.Hour, runtime.GC))
	check("synctest.Wait")(timer.AfterFunc(time.Hour, synctest.Wait))
	check("hashedwheel.nopTask")(timer.NewTimeout(TaskFunc(nopTask), time.Hour))
	check("hashedwheel.nopTask")(timer.ScheduleAtFixedRate(TaskFunc(nopTask), time.Hour, time.Hour))
	check("hashedwheel.nop")(NewGroup(timer).AfterFunc(time.Hour, nop))
	check("*hashedwheel.request")(timer.NewTimeout(new(request), time.Hour))
}

func TestTimerString(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		require.Empty(t, timer.Name())
		require.Equal(t, "hashedwheel.Timer(0 pending, tick 10ms, wheel size 512, levels 1)", timer.String())
		timer = newTimer(t, WithName("rpc"), WithTick(time.Second), WithWheelSize(60), WithLevels(2), WithMaxPending(9),
			WithMaxConcurrency(2), WithExecutor(func(run func()) error { go run(); return nil }))
		for range 3 {
			_, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
		}
		require.Equal(t, "hashedwheel.Timer(rpc, 3 pending, tick 1s, wheel size 64, levels 2, max pending 9, max concurrency 2, executor)", timer.String())
		timer.Stop()
		require.Equal(t, "hashedwheel.Timer(rpc, stopped, 0 pending, tick 1s, wheel size 64, levels 2, max pending 9, max concurrency 2, executor)", timer.String())
	})
}

// Messages in the log have the name of the timer, if it has one.
func TestNameIsLogged(t *testing.T) {
	for name, want := range map[string]string{"": "", "rpc": " timer=rpc "} {
		synctest.Test(t, func(t *testing.T) {
			option, log := logged()
			timer := newTimer(t, option, WithName(name), WithTick(time.Millisecond))
			_, err := timer.AfterFunc(0, func() { panic("on purpose") })
			require.NoError(t, err)
			pass(10 * time.Millisecond)
			require.Contains(t, log.String(), "task panicked")
			if want == "" {
				require.NotContains(t, log.String(), "timer=")
			} else {
				require.Contains(t, log.String(), want)
			}
		})
	}
}

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

// The log has the stack of a panic on one line: the functions of the user, from the one that panicked.
func TestPanicIsLoggedOnOneLine(t *testing.T) {
	const file = ` \(log_test.go:\d+\), `
	for name, c := range map[string]struct {
		task func()
		want string
	}{
		"panic":  {func() { panicking() }, `hashedwheel\.panicking` + file + `\S*\.TestPanicIsLoggedOnOneLine\.func\d` + file},
		"nested": {func() { defer panicking(); panic("first") }, `hashedwheel\.panicking` + file + `\S*\.TestPanicIsLoggedOnOneLine\.func\d` + file},
		"index":  {func() { _ = make([]int, 3)[len(t.Name())] }, `hashedwheel\.TestPanicIsLoggedOnOneLine\.func\d` + file},
	} {
		synctest.Test(t, func(t *testing.T) {
			option, log := logged()
			timer := newTimer(t, option)
			_, err := timer.AfterFunc(0, c.task)
			require.NoError(t, err)
			pass(time.Second)
			require.Regexp(t, `stack="\S*`+c.want+`\S*\.plainFunc\.Run \(timeout.go:\d+\)"\n$`, log.String(), name)
		})
	}
}

func panicking() { panic("on purpose") }
