package hashedwheel_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

func TestTimeoutString(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(time.Second))
		to, err := timer.NewTimeout(hashedwheel.TaskFunc(nopTask), 1500*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, "hashedwheel.Timeout(pending, deadline in 2s, task hashedwheel_test.nopTask)", fmt.Sprint(to))
		testkit.Pass(2500 * time.Millisecond)
		require.Equal(t, "hashedwheel.Timeout(expired, deadline 500ms ago, task hashedwheel_test.nopTask)", to.String())
		testkit.Pass(5_263 * time.Millisecond)
		require.Equal(t, "hashedwheel.Timeout(expired, deadline 5.76s ago, task hashedwheel_test.nopTask)", to.String())
		_, err = to.Reset(time.Second)
		require.NoError(t, err)
		require.True(t, to.Cancel())
		require.Equal(t, "hashedwheel.Timeout(canceled, deadline in 1.24s, task hashedwheel_test.nopTask)", to.String())
	})
}

// A caller on the other side of a synctest bubble has no time in common with the timer. So String tells the deadline as the
// time since New.
func TestTimeoutStringOnTheOtherSide(t *testing.T) {
	arm := func(t *testing.T) *hashedwheel.Timeout {
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(time.Hour))
		to, err := timer.NewTimeout(hashedwheel.TaskFunc(nopTask), 90*time.Minute)
		require.NoError(t, err)
		return to
	}
	const want = "hashedwheel.Timeout(pending, deadline 2h0m0s after New, task hashedwheel_test.nopTask)"
	to := arm(t)
	synctest.Test(t, func(t *testing.T) { require.Equal(t, want, to.String()) })
	timeouts, texts := make(chan *hashedwheel.Timeout), make(chan string)
	go func() { texts <- (<-timeouts).String() }()
	synctest.Test(t, func(t *testing.T) {
		timeouts <- arm(t)
		require.Equal(t, want, <-texts)
	})
}

// String names the function that is the task, or else the type of the task, whatever is wrapped around it.
func TestTimeoutStringNamesTheTask(t *testing.T) {
	timer := hashedwheel.NewTestTimer(t)
	check := func(want string) func(*hashedwheel.Timeout, error) {
		return func(to *hashedwheel.Timeout, err error) {
			t.Helper()
			require.NoError(t, err)
			require.Contains(t, to.String(), ", task "+want+")")
			require.True(t, to.Cancel())
			require.Contains(t, to.String(), ", task "+want+")")
		}
	}
	closure := func() {}
	var method testkit.Moments
	check("hashedwheel_test.nop")(timer.AfterFunc(time.Hour, nop))
	check("hashedwheel_test.TestTimeoutStringNamesTheTask.func2")(timer.AfterFunc(time.Hour, closure))
	check("testkit.(*Moments).Note-fm")(timer.AfterFunc(time.Hour, method.Note))
	check("runtime.GC")(timer.AfterFunc(time.Hour, runtime.GC))
	check("synctest.Wait")(timer.AfterFunc(time.Hour, synctest.Wait))
	check("hashedwheel_test.nopTask")(timer.NewTimeout(hashedwheel.TaskFunc(nopTask), time.Hour))
	check("hashedwheel_test.nopTask")(timer.ScheduleAtFixedRate(hashedwheel.TaskFunc(nopTask), time.Hour, time.Hour))
	check("hashedwheel_test.nop")(hashedwheel.NewGroup(timer).AfterFunc(time.Hour, nop))
	check("*hashedwheel_test.logTask")(timer.NewTimeout(new(logTask), time.Hour))
}

func TestTimerString(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := hashedwheel.NewTestTimer(t, hashedwheel.WithTick(10*time.Millisecond))
		require.Empty(t, timer.Name())
		require.Equal(t, "hashedwheel.Timer(0 pending, tick 10ms, wheel size 512, levels 1)", timer.String())
		timer = hashedwheel.NewTestTimer(t, hashedwheel.WithName("rpc"), hashedwheel.WithTick(time.Second), hashedwheel.WithWheelSize(60),
			hashedwheel.WithLevels(2), hashedwheel.WithMaxPending(9), hashedwheel.WithMaxConcurrency(2),
			hashedwheel.WithExecutor(func(run func()) error { go run(); return nil }))
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
			option, log := hashedwheel.Logged()
			timer := hashedwheel.NewTestTimer(t, option, hashedwheel.WithName(name), hashedwheel.WithTick(time.Millisecond))
			_, err := timer.AfterFunc(0, func() { panic("on purpose") })
			require.NoError(t, err)
			testkit.Pass(10 * time.Millisecond)
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
		hashedwheel.Virtual(t, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			option := hashedwheel.WithLogger(logger)
			if byDefault {
				defer slog.SetDefault(slog.Default())
				slog.SetDefault(logger)
				option = hashedwheel.WithLogger(nil)
			}
			timer := hashedwheel.NewTestTimer(t, option)
			_, err := timer.AfterFunc(0, func() { panic("boom") })
			require.NoError(t, err)
			testkit.Pass(time.Second)
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
		"panic":  {func() { panicking() }, `hashedwheel_test\.panicking` + file + `\S*\.TestPanicIsLoggedOnOneLine\.func\d` + file},
		"nested": {func() { defer panicking(); panic("first") }, `hashedwheel_test\.panicking` + file + `\S*\.TestPanicIsLoggedOnOneLine\.func\d` + file},
		"index":  {func() { _ = make([]int, 3)[len(t.Name())] }, `hashedwheel_test\.TestPanicIsLoggedOnOneLine\.func\d` + file},
	} {
		synctest.Test(t, func(t *testing.T) {
			option, log := hashedwheel.Logged()
			timer := hashedwheel.NewTestTimer(t, option)
			_, err := timer.AfterFunc(0, c.task)
			require.NoError(t, err)
			testkit.Pass(time.Second)
			require.Regexp(t, `stack="\S*`+c.want+`\S*\.plainFunc\.Run \(timeout.go:\d+\)"\n$`, log.String(), name)
		})
	}
}

func panicking() { panic("on purpose") }

// A host is a type of a user, called as one of the library's.
type host struct{ up map[string]bool }

func (h *host) check() { h.up["a"] = true } // panics, because the map is nil

func (h *host) Run(*hashedwheel.Timeout)      { h.check() }
func (h *host) Canceled(*hashedwheel.Timeout) { h.check() }
func (h *host) submit(func()) error           { h.check(); return nil }
func (h *host) Next(prev time.Time) time.Time {
	if prev.Nanosecond() > 0 { // after the first run
		h.check()
	}
	return prev.Add(time.Millisecond)
}

// An anyHost is a host with a type parameter.
type anyHost[T comparable] struct{ host }

func (h *anyHost[T]) check() { h.host.check() }

// The log has the functions of the user up to those of the library that call him, also if his types are called as those of
// the library.
func TestPanicOfANamesake(t *testing.T) {
	type timeout = func(timer *hashedwheel.Timer) (*hashedwheel.Timeout, error)
	after := func(f func()) timeout {
		return func(timer *hashedwheel.Timer) (*hashedwheel.Timeout, error) { return timer.AfterFunc(0, f) }
	}
	const mine, theirs = "hashedwheel_test.", "hashedwheel."
	for name, c := range map[string]struct {
		arm     timeout
		options []hashedwheel.Option
		want    []string
	}{
		"method":  {after(new(host).check), nil, []string{mine + "(*host).check", theirs + "plainFunc.Run"}},
		"generic": {after(new(anyHost[string]).check), nil, []string{mine + "(*host).check", mine + "(*anyHost[...]).check", theirs + "plainFunc.Run"}},
		"task": {func(timer *hashedwheel.Timer) (*hashedwheel.Timeout, error) {
			return timer.ScheduleAtFixedRate(hashedwheel.TaskFunc(new(host).Run), 0, time.Hour)
		}, nil, []string{mine + "(*host).check", mine + "(*host).Run", theirs + "TaskFunc.Run", theirs + "(*wrap).Run"}},
		"schedule": {func(timer *hashedwheel.Timer) (*hashedwheel.Timeout, error) {
			return timer.Schedule(hashedwheel.TaskFunc(nopTask), new(host))
		}, nil, []string{mine + "(*host).check", mine + "(*host).Next", theirs + "(*repeating).ask", theirs + "(*repeating).next", theirs + "(*repeating).goOn", theirs + "(*repeating).ran"}},
		"canceled": {func(timer *hashedwheel.Timer) (to *hashedwheel.Timeout, err error) {
			to, err = timer.NewTimeout(new(host), time.Hour)
			to.Cancel()
			return to, err
		}, nil, []string{mine + "(*host).check", mine + "(*host).Canceled", theirs + "(*notified).notify", theirs + "(*notified).disarmed.func1"}},
		"executor": {after(nop), []hashedwheel.Option{hashedwheel.WithExecutor(new(host).submit)},
			[]string{mine + "(*host).check", mine + "(*host).submit"}},
		"inside the executor": {after(new(host).check), []hashedwheel.Option{
			hashedwheel.WithExecutor(func(run func()) error { run(); return nil }),
		}, []string{mine + "(*host).check", theirs + "plainFunc.Run"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			option, log := hashedwheel.Logged()
			timer := hashedwheel.NewTestTimer(t, append(c.options, option, hashedwheel.WithTick(time.Millisecond))...)
			_, err := c.arm(timer)
			require.NoError(t, err)
			testkit.Pass(time.Second)
			var got []string
			_, stack, _ := strings.Cut(log.String(), "stack=")
			for _, m := range regexp.MustCompile(`github\.com/hashedwheel/(\S+) \(\w+\.go:\d+\)`).FindAllStringSubmatch(stack, -1) {
				got = append(got, m[1])
			}
			require.Equal(t, c.want, got, "%s: %s", name, log)
		})
	}
}

func nop() {}

func nopTask(*hashedwheel.Timeout) {}

type logTask struct{}

func (*logTask) Run(*hashedwheel.Timeout) {}

// The log has the first panic of a kind at once, and then one line a minute with the number and the last stack. What is left over when
// nothing is pending comes with the next panic, or with Shutdown. A panic handler gets each.
func TestPanicsDoNotFillTheLog(t *testing.T) {
	for _, handled := range []bool{false, true} {
		hashedwheel.Virtual(t, func(t *testing.T) {
			option, log := hashedwheel.Logged()
			options := []hashedwheel.Option{option, hashedwheel.WithTick(time.Millisecond)}
			calls := 0
			if handled {
				options = append(options, hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) { calls++ }))
			}
			timer := hashedwheel.NewTestTimer(t, options...)
			broken := func() { panic("on purpose") }
			for i := range 6000 { // for a minute and a half
				task := broken
				if i%1000 == 999 {
					task = func() { panic("another") }
				}
				_, err := timer.AfterFunc(time.Duration(i)*15*time.Millisecond, task)
				require.NoError(t, err)
			}
			testkit.Pass(3 * time.Minute)
			if handled {
				require.Equal(t, 6000, calls)
				require.Empty(t, log.String())
				return
			}
			// The line a minute after the first stands for those up to then.
			const often, another = `panic="on purpose" timeout="hashedwheel.Timeout\(expired.*func1.2\)"`, `panic=another timeout="hashedwheel.Timeout\(expired.*func1.3\)"`
			require.Regexp(t, `^.*task panicked" `+often+` stack=.*\n.*task panicked" `+another+` stack=.*\n`+
				`.*task panicked" `+often+` times=399\d stack=".*TestPanicsDoNotFillTheLog.*\n.*task panicked" `+another+` times=\d stack=.*\n$`, log.String())
			log.Reset()
			for range 3 {
				_, err := timer.AfterFunc(0, broken)
				require.NoError(t, err)
			}
			testkit.Pass(time.Second)
			_, err := timer.Shutdown(t.Context())
			require.NoError(t, err)
			lines := log.String()
			require.Equal(t, 3, strings.Count(lines, "\n"), lines)
			require.Regexp(t, often+` times=199\d stack=.*\n`, lines)
			require.Regexp(t, often+` times=3 stack=.*\n`, lines)
			require.Regexp(t, another+`( times=\d)? stack=.*\n`, lines)
			testkit.Pass(time.Hour)
			require.Equal(t, lines, log.String())
		})
	}
}

// While something is pending, a round comes for the panics that are kept, a minute after the last line. After Stop they come within a
// second.
func TestKeptPanicsComeInAMinute(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		option, log := hashedwheel.Logged()
		timer := hashedwheel.NewTestTimer(t, option, hashedwheel.WithTick(time.Millisecond))
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		panics := func(run time.Duration) {
			for range 3 {
				_, err := timer.AfterFunc(0, func() { time.Sleep(run); panic("on purpose") })
				require.NoError(t, err)
			}
		}
		panics(10 * time.Second) // the rounds of these are long over then
		testkit.Pass(69 * time.Second)
		require.Equal(t, 1, strings.Count(log.String(), "panicked"), log)
		testkit.Pass(1002 * time.Millisecond)
		require.Equal(t, 2, strings.Count(log.String(), "panicked"), log)
		require.Contains(t, log.String(), "times=2")
		testkit.Pass(10 * time.Minute)
		log.Reset()
		panics(10 * time.Second)
		testkit.Pass(time.Second)
		timer.Stop()
		testkit.Pass(9002 * time.Millisecond)
		require.Equal(t, 1, strings.Count(log.String(), "panicked"), log)
		testkit.Pass(time.Second)
		require.Equal(t, 2, strings.Count(log.String(), "panicked"), log)
		require.Contains(t, log.String(), "times=2")
	})
}

// The line of a kind comes a minute after the one before it, also if the line of another kind comes first and nothing is due in between.
func TestEachKindOfPanicHasItsLine(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		option, log := hashedwheel.Logged()
		timer := hashedwheel.NewTestTimer(t, option, hashedwheel.WithTick(time.Millisecond))
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		for range 3 {
			_, err := timer.AfterFunc(0, func() { panic("one") })
			require.NoError(t, err)
			_, err = timer.AfterFunc(5*time.Second, func() { panic("another") })
			require.NoError(t, err)
		}
		lines := func(after time.Duration, want ...int) {
			t.Helper()
			testkit.Pass(after)
			require.Equal(t, want, []int{strings.Count(log.String(), "panic=one"), strings.Count(log.String(), "panic=another")})
		}
		lines(59*time.Second, 1, 1)
		lines(2*time.Second, 2, 1)
		lines(5*time.Second, 2, 2)
	})
}

// What is kept is in the log soon after Stop.
func TestKeptPanicsComeWithStop(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		option, log := hashedwheel.Logged()
		timer := hashedwheel.NewTestTimer(t, option)
		for range 3 {
			_, err := timer.AfterFunc(0, func() { panic("on purpose") })
			require.NoError(t, err)
		}
		testkit.Pass(time.Second)
		require.Equal(t, 1, strings.Count(log.String(), "panicked"), log)
		timer.Stop()
		testkit.Pass(0)
		require.Equal(t, 2, strings.Count(log.String(), "panicked"), log)
	})
}

// A panickingHandler is the handler of a logger, and panics.
type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (panickingHandler) Handle(context.Context, slog.Record) error { panic("in the logger") }
func (h panickingHandler) WithAttrs([]slog.Attr) slog.Handler      { return h }

// A logger that panics ends nothing, wherever the timer calls it. Its panics are counted.
func TestLoggerPanics(t *testing.T) {
	hashedwheel.Virtual(t, func(t *testing.T) {
		panics := func(n int, options []hashedwheel.Option, play func(timer *hashedwheel.Timer)) {
			t.Helper()
			options = append(options, hashedwheel.WithLogger(slog.New(panickingHandler{})), hashedwheel.WithName("rpc"))
			timer := hashedwheel.NewTestTimer(t, options...)
			play(timer)
			require.EqualValues(t, n, timer.Stats().Panics)
			ran := false
			_, err := timer.AfterFunc(0, func() { ran = true })
			require.NoError(t, err)
			testkit.Pass(time.Second)
			require.True(t, ran)
		}
		arm := func(timer *hashedwheel.Timer, n int, task func()) {
			for range n {
				_, err := timer.AfterFunc(0, task)
				require.NoError(t, err)
			}
		}
		panics(1, []hashedwheel.Option{hashedwheel.WithTick(time.Microsecond)}, func(*hashedwheel.Timer) {}) // New warns
		panics(5, nil, func(timer *hashedwheel.Timer) {                                                      // three of tasks, one of the first line, and one of that of the others
			arm(timer, 3, func() { panic("on purpose") })
			testkit.Pass(time.Minute)
			arm(timer, 1, func() {})
			testkit.Pass(time.Second)
		})
		panics(2, []hashedwheel.Option{hashedwheel.WithMaxConcurrency(1)}, func(timer *hashedwheel.Timer) { // tasks wait, and no longer
			arm(timer, 2, func() { time.Sleep(2 * time.Second) })
			testkit.Pass(time.Minute)
		})
		panics(1, nil, func(timer *hashedwheel.Timer) { // a Canceled hangs
			to, err := timer.NewTimeout(slowlyCanceled{}, time.Hour)
			require.NoError(t, err)
			to.Cancel()
			testkit.Pass(2 * time.Hour)
		})
	})
}

type slowlyCanceled struct{}

func (slowlyCanceled) Run(*hashedwheel.Timeout)      {}
func (slowlyCanceled) Canceled(*hashedwheel.Timeout) { time.Sleep(time.Hour) }

// The log says what has panicked.
func TestLogSaysWhatPanicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		option, log := hashedwheel.Logged()
		timer := hashedwheel.NewTestTimer(t, option)
		to, err := timer.NewTimeout(new(host), time.Hour)
		require.NoError(t, err)
		to.Cancel()
		_, err = timer.Schedule(hashedwheel.TaskFunc(nopTask), new(host))
		require.NoError(t, err)
		_, err = timer.NewTimeout(hashedwheel.TaskFunc(new(host).Run), 0)
		require.NoError(t, err)
		executing := hashedwheel.NewTestTimer(t, option, hashedwheel.WithExecutor(new(host).submit))
		_, err = executing.AfterFunc(0, nop)
		require.NoError(t, err)
		testkit.Pass(time.Second)
		for _, what := range []string{"Canceled", "Schedule.Next", "task", "executor"} {
			require.Equal(t, 1, strings.Count(log.String(), `msg="hashedwheel: `+what+` panicked"`), log)
		}
	})
}
