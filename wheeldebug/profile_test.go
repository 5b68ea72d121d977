package wheeldebug

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
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
	match := regexp.MustCompile(`debug=1' \| grep -B1 -A(\d+) '(.*)'$`).FindStringSubmatch(goroutine)
	require.NotNil(t, match, goroutine)
	lines, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	found := strings.Split(b.String(), match[2])[1:] // also the worker, while its round goes on
	i := slices.IndexFunc(found, func(s string) bool { return strings.HasPrefix(s, `"rpc", "hashedwheel.role":"runner"`) })
	require.GreaterOrEqual(t, i, 0, b.String())
	before := strings.Split(strings.Join(strings.Split(b.String(), match[2])[:i+1], ""), "\n")
	require.Regexp(t, `^1 @ `, before[len(before)-2], "the line with the count")
	shown := strings.SplitN(found[i], "\n", lines+1)
	require.Contains(t, strings.Join(shown[:min(len(shown), lines)], "\n"), "wheeldebug.hangs")
	_, err = timer.Shutdown(t.Context())
	require.NoError(t, err)
}
