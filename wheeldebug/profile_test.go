package wheeldebug

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// commands returns the commands of a page.
func commands(t *testing.T) (heap, goroutine string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(writeText(&page{}, "HOST"))), "\n")
	heap, goroutine = lines[len(lines)-2], lines[len(lines)-1]
	require.True(t, strings.HasPrefix(heap, "go tool pprof "), heap)
	require.True(t, strings.HasPrefix(goroutine, "curl "), goroutine)
	return heap, goroutine
}

// docs/operations.md has the commands of the page.
func TestCommandsInOperations(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	heap, goroutine := commands(t)
	require.Contains(t, string(text), "\n    "+heap+"\n")
	require.Contains(t, string(text), "\n    "+goroutine+"\n")
}

// The command for the heap profile names the functions that have armed what is pending, however they did it, with as many
// objects as they have armed. A function of the library that gets another name is missing here.
func TestHeapProfileNamesWhoArmed(t *testing.T) {
	testkit.NeedsProcesses(t)
	if testing.Short() {
		t.Skip("compiles and runs a program: runs without -short")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command")
	}
	profile := filepath.Join(t.TempDir(), "heap")
	out, err := exec.Command(goCommand, "run", "./testdata/armed", profile).CombinedOutput()
	require.NoError(t, err, "%s", out)
	heap, _ := commands(t)
	var args []string
	for _, arg := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(heap, -1)[1:] {
		args = append(args, strings.Trim(arg, "'"))
	}
	args[len(args)-1] = profile
	out, err = exec.Command(goCommand, args...).Output()
	require.NoError(t, err)
	for name, want := range map[string]float64{"armTimeouts": 6000, "armRepeating": 5000, "armGroup": 4000, "setKeys": 3000,
		"makeTimers": 2000, "limitConns": 1000} {
		row := regexp.MustCompile(`(?m)^ *(\d+) .* main\.` + name + `$`).FindSubmatch(out)
		require.NotNil(t, row, "%s in\n%s", name, out)
		n, err := strconv.ParseFloat(string(row[1]), 64)
		require.NoError(t, err)
		require.InEpsilon(t, want, n, 0.1, "%s in\n%s", name, out) // and a few objects of the library's own
	}
	require.NotContains(t, string(out), "github.com/hashedwheel")
}

func hangs(started, release chan bool) {
	started <- true
	<-release
}

// A goroutine profile has the labels of a task that hangs, and beneath them where it hangs.
func TestGoroutineProfileFindsTasksThatHang(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithName("rpc"), hashedwheel.WithTick(time.Millisecond))
	started, release := make(chan bool), make(chan bool)
	_, err := timer.AfterFunc(0, func() { hangs(started, release) })
	require.NoError(t, err)
	<-started
	var b bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
	close(release)
	_, goroutine := commands(t)
	require.Regexp(t, `(?m)^1 @ .*\n# labels: {"hashedwheel":"rpc", "hashedwheel.role":"runner"}\n(#.*\n)*#.*wheeldebug[.]hangs`, grep(t, goroutine, b.String()))
	_, err = timer.Shutdown(t.Context())
	require.NoError(t, err)
}

// grep returns what the command for the goroutine profile finds in a profile.
func grep(t *testing.T, command, profile string) string {
	t.Helper()
	_, pipe, ok := strings.Cut(command, "debug=1' | ")
	require.True(t, ok, command)
	if _, err := exec.LookPath("grep"); err != nil {
		t.Skip("there is no command grep")
	}
	testkit.NeedsProcesses(t)
	cmd := exec.Command("sh", "-c", pipe)
	cmd.Stdin = strings.NewReader(profile)
	out, err := cmd.Output()
	require.NoError(t, err, "%s", profile)
	return string(out)
}

// The command also finds goroutines without labels that wait for tasks: on an executor, where a task waits for itself, and outside of
// the timer, where one may hold what the tasks wait for.
func TestGoroutineProfileFindsWhatWaits(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithTick(time.Millisecond), hashedwheel.WithExecutor(func(run func()) error { go run(); return nil }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := keyed.New(timer, func(int, int) { <-ctx.Done() })
	require.NoError(t, m.Set(1, 1, 0))
	_, err := timer.NewTimeout(hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) { waitsForItself(ctx, to) }), 0)
	require.NoError(t, err)
	var all sync.WaitGroup
	require.Eventually(t, func() bool { return timer.Stats().Running == 2 }, testkit.Patience, time.Millisecond)
	all.Go(func() { waitsForKeys(ctx, m) })
	all.Go(func() { waitsForAll(ctx, timer) })
	_, goroutine := commands(t)
	require.Eventually(t, func() bool {
		var b bytes.Buffer
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
		found := grep(t, goroutine, b.String())
		return strings.Contains(found, "wheeldebug.waitsForItself") && strings.Contains(found, "wheeldebug.waitsForKeys") &&
			strings.Contains(found, "wheeldebug.waitsForAll")
	}, testkit.Patience, time.Millisecond)
	cancel()
	all.Wait()
	_, err = timer.Shutdown(t.Context())
	require.NoError(t, err)
}

func waitsForItself(ctx context.Context, to *hashedwheel.Timeout) { to.WaitRunning(ctx) }
func waitsForKeys(ctx context.Context, m *keyed.Map[int, int])    { m.WaitRunning(ctx) }
func waitsForAll(ctx context.Context, timer *hashedwheel.Timer)   { timer.Shutdown(ctx) }
