package crossing

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A process is stopped for a while, in which 3,000 timeouts of each timer come due. Then each timer has one warning in the log
// that its timeouts fired late, and none that tasks have waited for so long. Other timeouts come due just before, so their tasks
// may be on their way when the process is stopped. TestSuspensionIsNotAStall has the exact times.
//
// On a busy machine, tasks may really wait for a second. Then the warning comes in the second after that.
func TestSuspendedProcess(t *testing.T) {
	const variable = "HASHEDWHEEL_SUSPENDED" // set in the process that is stopped
	if length, err := time.ParseDuration(os.Getenv(variable)); err == nil {
		beSuspended(t, length)
		return
	}
	if testing.Short() && !testkit.Full() {
		t.Skip("takes seconds: runs without -short")
	}
	t.Parallel() // it only waits
	testkit.NeedsProcesses(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	const length = 3 * time.Second // a task that waited for so long would be reported with more than two
	cmd.Env = append(os.Environ(), fmt.Sprint(variable, "=", length))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	if err := cmd.Start(); errors.Is(err, syscall.ENOEXEC) {
		t.Skip("needs to start itself: this system does not know the emulator under which it runs")
	} else {
		require.NoError(t, err)
	}
	warning := regexp.MustCompile(`level=WARN msg="hashedwheel: (timeouts fired late|tasks are due).*" timer=(\w+) .*late=(\S+)`)
	late := make(map[string]int)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			testkit.Suspend(t, cmd.Process, length)
		}
		switch m := warning.FindStringSubmatch(lines.Text()); {
		case m == nil:
		case m[1] == "timeouts fired late":
			late[m[2]]++
		default:
			waited, err := time.ParseDuration(m[3])
			require.NoError(t, err)
			require.Less(t, waited, 2*time.Second, lines.Text())
		}
	}
	require.NoError(t, cmd.Wait())
	for name := range waysToRun() {
		require.Equal(t, 1, late[name], name)
	}
}

// beSuspended is the process that is stopped. It asks for that when its timers are at work.
func beSuspended(t *testing.T, length time.Duration) {
	const tick, n = 10 * time.Millisecond, 3000
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	for name, opts := range waysToRun() {
		timer := newTimer(t, append(opts, hashedwheel.WithTick(tick), hashedwheel.WithName(name), hashedwheel.WithLogger(logger))...)
		for i := range 2 * n { // until long after
			_, err := timer.AfterFunc(time.Duration(i)*length/n, nop)
			require.NoError(t, err)
		}
	}
	time.Sleep(length / 6)
	fmt.Println("ready")
	time.Sleep(length / 2) // it ends during the suspension
	time.Sleep(length / 2)
}
