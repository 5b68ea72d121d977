package clock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/clock/testdata/wheel"
)

// The tests of this file are what programs and their tests met that were moved from package time to a Clock by
// a change of imports alone. Each test also runs on package time, which shows that it may rely on what it checks.

// A timeLike is what a program uses of package time or of a Clock.
type timeLike struct {
	newTimer  func(d time.Duration) (timer, <-chan time.Time)
	afterFunc func(d time.Duration, f func()) timer
	newTicker func(d time.Duration) (ticker, <-chan time.Time)
	after     func(d time.Duration) <-chan time.Time
	tick      func(d time.Duration) <-chan time.Time
}

type ticker interface {
	Stop()
	Reset(d time.Duration)
}

var packageTime = timeLike{timeImpl.newTimer, timeImpl.afterFunc, func(d time.Duration) (ticker, <-chan time.Time) {
	t := time.NewTicker(d)
	return t, t.C
}, time.After, time.Tick}

var packageToCopy = timeLike{
	func(d time.Duration) (timer, <-chan time.Time) { t := wheel.NewTimer(d); return t, t.C },
	func(d time.Duration, f func()) timer { return wheel.AfterFunc(d, f) },
	func(d time.Duration) (ticker, <-chan time.Time) { t := wheel.NewTicker(d); return t, t.C },
	wheel.After, wheel.Tick,
}

func onClock(on *clock.Clock) timeLike {
	im := clockImpl(on)
	return timeLike{im.newTimer, im.afterFunc, func(d time.Duration) (ticker, <-chan time.Time) {
		t := on.NewTicker(d)
		return t, t.C
	}, on.After, on.Tick}
}

// moved runs a test in a bubble on package time and on Clocks. The bubble ends when the test returns. No wheel
// is stopped before that.
func moved(t *testing.T, test func(t *testing.T, time timeLike)) {
	outside := clock.New(newWheel(t))
	for name, im := range map[string]func() timeLike{
		"package time":       func() timeLike { return packageTime },
		"package to copy":    func() timeLike { return packageToCopy },
		"Clock made outside": func() timeLike { return onClock(outside) },
		"zero Clock":         func() timeLike { return onClock(new(clock.Clock)) },
		"Clock of a bubble wheel": func() timeLike {
			wheel, err := hashedwheel.New(hashedwheel.WithTick(tick))
			require.NoError(t, err)
			return onClock(clock.New(wheel))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, im()) })
		})
	}
}

// A bubble may end while timers are left, pending or not. If a goroutine were left too, synctest would panic.
func TestBubbleEndsWithTimersLeft(t *testing.T) {
	const d = time.Hour
	var ran atomic.Int32
	for name, leave := range map[string]func(time timeLike){
		"timer, pending":        func(time timeLike) { time.newTimer(d) },
		"timer, stopped":        func(time timeLike) { timer, _ := time.newTimer(d); timer.Stop() },
		"timer, fired":          func(time timeLike) { time.newTimer(d); pass(2 * d) },
		"timer, received":       func(time timeLike) { _, c := time.newTimer(d); <-c },
		"timer, reset":          func(time timeLike) { timer, c := time.newTimer(d); <-c; timer.Reset(d) },
		"function, pending":     func(time timeLike) { time.afterFunc(d, func() { ran.Add(1) }) },
		"function, stopped":     func(time timeLike) { time.afterFunc(d, func() { ran.Add(1) }).Stop() },
		"function, has run":     func(time timeLike) { time.afterFunc(d, nop); pass(2 * d) },
		"ticker":                func(time timeLike) { time.newTicker(d) },
		"ticker, stopped":       func(time timeLike) { ticker, _ := time.newTicker(d); ticker.Stop() },
		"ticker, with a beat":   func(time timeLike) { time.newTicker(d); pass(10 * d) },
		"ticker, received from": func(time timeLike) { _, c := time.newTicker(d); <-c },
		"Tick":                  func(time timeLike) { <-time.tick(d) },
		"After":                 func(time timeLike) { time.after(d) },
		"After, fired":          func(time timeLike) { time.after(d); pass(2 * d) },
		"a thousand of After": func(time timeLike) {
			for range 1000 {
				time.after(d)
				pass(tick)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			moved(t, func(_ *testing.T, time timeLike) { leave(time) })
		})
	}
	require.Zero(t, ran.Load(), "the time of a bubble stands still once it has ended")
}

// A leak checker finds nothing while timers are pending, and nothing when they have been stopped.
func TestLeakChecker(t *testing.T) {
	moved(t, func(t *testing.T, at timeLike) {
		before := goleak.IgnoreCurrent()
		timer, _ := at.newTimer(time.Hour)
		f := at.afterFunc(time.Hour, nop)
		ticker, _ := at.newTicker(time.Hour)
		at.after(time.Hour)
		at.tick(time.Hour)
		pass(500 * time.Millisecond)
		require.NoError(t, goleak.Find(before))
		require.True(t, timer.Stop())
		require.True(t, f.Stop())
		ticker.Stop()
		pass(500 * time.Millisecond)
		require.NoError(t, goleak.Find(before))
	})
}

// Programs written before Go 1.23 receive from C when Stop or Reset returns false. Stop and Reset return true,
// and remove the value, if the timer has fired and nothing has received the value. So that receive blocks only if the
// program itself has received the value, or has stopped the timer, which was wrong before Go 1.23 too.
func TestDrain(t *testing.T) {
	moved(t, func(t *testing.T, at timeLike) {
		const d = time.Minute
		nothing := func(c <-chan time.Time) {
			t.Helper()
			require.Empty(t, c)
			requireNothing(t, c)
		}
		timer, c := at.newTimer(d)
		for range 100 { // from a pool, in go-redis and yamux
			pass(2 * d)
			if !timer.Stop() {
				<-c
			}
			nothing(c)
			require.False(t, timer.Stop())
			nothing(c)

			start := time.Now()
			require.False(t, timer.Reset(d))
			pass(2 * d)
			if !timer.Reset(3 * d) {
				<-c
			}
			nothing(c)
			require.Equal(t, start.Add(5*d), <-c)
			require.False(t, timer.Stop())
			nothing(c)
			if !timer.Stop() {
				select {
				case <-c:
				default:
				}
			}
			require.False(t, timer.Reset(d))
			require.Equal(t, start.Add(6*d), <-c)
			require.False(t, timer.Reset(d))
		}
		require.True(t, timer.Stop())

		ticker, c := at.newTicker(d)
		pass(d)
		ticker.Stop()
		nothing(c)
		ticker.Reset(d)
		pass(d)
		start := time.Now()
		ticker.Reset(2 * d)
		nothing(c)
		require.Equal(t, start.Add(2*d), <-c)
		ticker.Stop()
	})
}

// The package that docs/moving.md tells users to copy is testdata/wheel, which the tests above use.
func TestPackageToCopy(t *testing.T) {
	doc, err := os.ReadFile("../docs/moving.md")
	require.NoError(t, err)
	code, err := os.ReadFile("testdata/wheel/wheel.go")
	require.NoError(t, err)
	require.Contains(t, string(doc), "\n```go\n"+string(code)+"```\n")
}

// A fake in a test is a timer made by hand. Its channel can be received from. Stop and Reset panic, as in package time.
func TestFakeTimer(t *testing.T) {
	c := make(chan time.Time, 1)
	inTime, onClock := &time.Timer{C: c}, &clock.Timer{C: c}
	c <- time.Now()
	require.Len(t, inTime.C, 1)
	<-onClock.C
	for name, fake := range map[string]timer{"time": inTime, "clock": onClock} {
		require.PanicsWithValue(t, name+": Stop called on uninitialized Timer", func() { fake.Stop() })
		require.PanicsWithValue(t, name+": Reset called on uninitialized Timer", func() { fake.Reset(1) })
	}
}

// beforeMoving has the shapes in which programs and their tests use timers.
const beforeMoving = `package main

import (
	"fmt"
	"sync"
	"time"
)

var (
	newTimer  = time.NewTimer
	newTicker func() *time.Ticker
	afterFunc func(d time.Duration, f func()) *time.Timer = time.AfterFunc

	timers = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}
)

type conn struct {
	idle *time.Timer
	beat *time.Ticker
	last time.Time
}

func fakes(c chan time.Time) (restore func()) {
	newTimer = func(time.Duration) *time.Timer { return &time.Timer{C: c} }
	newTicker = func() *time.Ticker { return &time.Ticker{C: c} }
	afterFunc = func(_ time.Duration, f func()) *time.Timer { return time.AfterFunc(0, f) }
	return func() { newTimer, afterFunc = time.NewTimer, time.AfterFunc }
}

func main() {
	timer := timers.Get().(*time.Timer)
	timer.Stop()
	ignored := []any{time.Timer{}}
	switch any(timer).(type) {
	case *time.Timer:
	default:
		panic("another type")
	}
	c := make(chan time.Time, 2)
	restore := fakes(c)
	c <- time.Now()
	c <- time.Now()
	x := conn{idle: newTimer(time.Hour), beat: newTicker(), last: time.Now()}
	<-x.idle.C
	<-x.beat.C
	x.beat.Stop()
	done := make(chan bool)
	afterFunc(time.Hour, func() { close(done) })
	<-done
	restore()
	x.idle = newTimer(0)
	<-x.idle.C
	time.Sleep(1)
	<-time.After(1)
	<-time.Tick(1)
	fmt.Printf("%T %T", timer, ignored[0])
}
`

// notMoved has what the commands must leave alone: a file that is not formatted, and names that end in time.
const notMoved = `package main

import  "time"

var mtime time.Time

func isLater(t time.Time) bool { return mtime.After(t) && time.Now( ).After(t) }
`

// The commands of docs/moving.md change all files that use timers, and no others. The program compiles and runs before and
// after. In a repository of two modules, the commands run first in the inner one.
func TestCommandsForMoving(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs programs: runs without -short")
	}
	programs := make(map[string]string)
	for _, name := range []string{"go", "gofmt", "git", "sh", "xargs", "mktemp"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("there is no %s", name)
		}
		programs[name] = program
	}
	first, commands := commandsForMoving(t)
	dir, bin := t.TempDir(), t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	// A go command that only notes what it is called for: tests download nothing.
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\necho \"go $*\" >>go.log\n"), 0o700))
	run := func(sub, script string) string {
		t.Helper()
		cmd := exec.Command(programs["sh"], "-c", script)
		cmd.Dir = filepath.Join(dir, sub)
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+bin)
		out, _ := cmd.CombinedOutput() // git grep fails if it finds nothing
		return string(out)
	}
	compiled := func(text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "main.go")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out, err := exec.Command(programs["go"], "run", file).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	require.Equal(t, "*time.Timer time.Timer", compiled(beforeMoving))

	vendored := strings.Replace(beforeMoving, "package main", "package vendored", 1)
	write("main.go", beforeMoving, 0o600)
	write("a file.go", beforeMoving, 0o600)
	write("later.go", notMoved, 0o600)
	write("vendor/v/v.go", vendored, 0o600)
	write("inner/main.go", beforeMoving, 0o600)
	require.NotContains(t, run(".", "git init -q && git add ."), "fatal")
	require.Empty(t, run(".", first))

	require.Empty(t, run("inner", commands))
	const goimports = "go run golang.org/x/tools/cmd/goimports@latest -w "
	require.Equal(t, "go mod download\n"+goimports+"main.go\n", read("inner/go.log"))
	require.Equal(t, beforeMoving, read("main.go"))
	inner := read("inner/main.go")
	require.Empty(t, run(".", commands), "what is left")
	require.Equal(t, "go mod download\n"+goimports+"a file.go main.go\n", read("go.log"), "no file of the inner module, nor later.go")
	require.Equal(t, inner, read("inner/main.go"))
	require.Equal(t, inner, read("main.go"))
	require.Equal(t, inner, read("a file.go"))
	require.Equal(t, notMoved, read("later.go"), "it is not formatted either")
	require.Equal(t, vendored, read("vendor/v/v.go"))

	const own = "github.com/hashedwheel/hashedwheel/clock/testdata/wheel"
	require.Equal(t, "*clock.Timer clock.Timer", compiled(strings.Replace(inner, "\n)", "\n\n\t\""+own+"\"\n)", 1)))

	// A variable that would capture what the commands write.
	write("captured.go", "package main\n\nfunc turn(wheel interface{ Sleep(n int) }) { wheel.Sleep(1) }\n", 0o600)
	run(".", "git add captured.go")
	require.Contains(t, run(".", first), "captured.go:3:")
	// A call that the rules miss is printed.
	write("missed.go", "package main\n\n// later calls time.Sleep\n", 0o600)
	run(".", "git add missed.go")
	require.Contains(t, run(".", commands), "missed.go:3:")
}

// commandsForMoving returns two blocks of commands of docs/moving.md that move a program. The one between them downloads the library.
func commandsForMoving(t *testing.T) (first, commands string) {
	t.Helper()
	doc, err := os.ReadFile("../docs/moving.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)\n```sh\n(.*?)```\n").FindAllSubmatch(doc, -1)
	require.Len(t, blocks, 3)
	return string(blocks[0][1]), string(blocks[2][1])
}

// A raised go line changes the settings of GODEBUG and the variables of loops. docs/moving.md says what keeps them.
func TestRaisedGoLine(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs programs: runs without -short")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to run the program")
	}
	doc, err := os.ReadFile("../docs/moving.md")
	require.NoError(t, err)
	keepSettings := regexp.MustCompile("`(godebug default=go1.22)` keeps the GODEBUG settings").FindSubmatch(doc)
	require.NotNil(t, keepSettings)
	keepLoops := regexp.MustCompile("`(//go:build go1.21)` keeps loops").FindSubmatch(doc)
	require.NotNil(t, keepLoops)
	dir := t.TempDir()
	run := func(mod, head string, args ...string) string {
		t.Helper()
		const program = "package main\n\nfunc main() {\n\tvar f func()\n\tfor i := 0; i < 3; i++ {\n" +
			"\t\tif f == nil {\n\t\t\tf = func() { print(i) }\n\t\t}\n\t}\n\tf()\n}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module moved\n\n"+mod+"\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(head+program), 0o600))
		cmd := exec.Command(goCommand, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	settings := []string{"list", "-f", "{{.DefaultGODEBUG}}", "."}
	before := run("go 1.22", "", settings...)
	require.NotEmpty(t, before)
	require.NotEqual(t, before, run("go 1.25", "", settings...))
	require.Equal(t, before, run("go 1.25\n\n"+string(keepSettings[1]), "", settings...))

	require.Equal(t, "3", run("go 1.21", "", "run", "."))
	require.Equal(t, "0", run("go 1.25", "", "run", "."))
	require.Equal(t, "3", run("go 1.25", string(keepLoops[1])+"\n\n", "run", "."))
}

// docs/moving.md says how long a Sleep takes at most, for two ticks.
func TestTickForTestsThatSleep(t *testing.T) {
	doc, err := os.ReadFile("../docs/moving.md")
	require.NoError(t, err)
	says := regexp.MustCompile("With a tick of (.+?) ms, `Sleep\\((.+?) \\* time.Millisecond\\)` takes up to (.+?) ms, and with one of (.+?) ms up to (.+?) ms\\.").
		FindStringSubmatch(strings.Join(strings.Fields(string(doc)), " "))
	require.NotNil(t, says)
	var ms []time.Duration
	for _, s := range says[1:] {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		ms = append(ms, time.Duration(n)*time.Millisecond)
	}
	delay := ms[1]
	for tick, most := range map[time.Duration]time.Duration{ms[0]: ms[2], ms[3]: ms[4]} {
		synctest.Test(t, func(t *testing.T) {
			timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
			require.NoError(t, err)
			on := clock.New(timer)
			longest := time.Duration(0)
			for range 100 {
				pass(tick/100 + 1)
				start := time.Now()
				on.Sleep(delay)
				longest = max(longest, time.Since(start))
			}
			require.LessOrEqual(t, longest, most)
			require.Greater(t, longest, most-tick/50)
			timer.Stop()
		})
	}
}
