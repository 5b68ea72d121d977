package deadlines

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The machine of the server has slept for an hour, or its clock was set forward: as the server sees it, wall time has
// passed and monotonic time has not. A deadline was pending that came meanwhile. It is handled soon, and so is a later
// one. If no worker was there before, a worker notices that the schedules have stopped.
func TestServerSlept(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a server with another package time, which takes a minute or two; it runs every night")
	}
	t.Parallel()
	program := buildClockServer(t)
	for name, before := range map[string]bool{"with a worker": true, "without a worker": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, ahead := startClockServer(t, program)
			var l log
			cfg := quick()
			cfg.Logger = l.logger()
			s, shift := openShifted(t, url, cfg)
			if before {
				s.mustWork(t, nil)
			}
			s.mustSet(t, "came", 30*time.Minute)
			time.Sleep(2 * s.cfg.Lease) // the timer of the server is set
			const slept = time.Hour
			ahead(slept)
			shift.Store(int64(slept))
			if !before {
				s.mustWork(t, nil)
			}
			began := time.Now()
			s.awaitStatus(t, "came", Handled)
			t.Logf("it was handled after %v", time.Since(began))
			if before {
				require.NotContains(t, l.String(), "the servers had forgotten")
			} else {
				await(t, "it is logged", func() bool { return strings.Contains(l.String(), "the servers had forgotten, are delivered") })
			}
			s.mustSet(t, "later", slept+2*time.Second)
			s.awaitStatus(t, "later", Handled)
			s.mustCheck(t)
		})
	}
}

// openShifted opens a store whose machine has a wall clock that is ahead.
func openShifted(t *testing.T, url string, cfg Config) (s *Store, shift *atomic.Int64) {
	t.Helper()
	s, shift = mustOpen(t, url, cfg), new(atomic.Int64)
	s.cancel()
	s.watchers.Wait()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.clock.wall = func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
	s.watch()
	return s, shift
}

// buildClockServer builds testdata/clockserver. Package time reads the clock of the kernel without any library, so
// libfaketime has no effect on a Go program.
func buildClockServer(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("needs the go command: ", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	require.NoError(t, err)
	const now = "\tsec, nsec, mono := runtimeNow()\n"
	require.Equal(t, 1, strings.Count(string(text), now))
	changed := strings.Replace(string(text), now, now+"\tsec += Ahead\n", 1) + "\nvar Ahead int64\n"
	replacement, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(replacement, []byte(changed), 0o600))
	files, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, files, 0o600))
	program = filepath.Join(dir, "clockserver")
	out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program, "./testdata/clockserver").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// startClockServer starts a server that ends with the test. ahead sets its wall clock.
func startClockServer(t *testing.T, program string) (url string, ahead func(time.Duration)) {
	t.Helper()
	cmd := exec.Command(program, t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		require.NoError(t, cmd.Wait())
	})
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	url = lines.Text()
	return url, func(d time.Duration) {
		_, err := fmt.Fprintln(in, int64(d.Seconds()))
		require.NoError(t, err)
		require.True(t, lines.Scan())
		var seconds int64
		_, err = fmt.Sscan(lines.Text(), &seconds)
		require.NoError(t, err)
		require.InDelta(t, time.Now().Add(d).Unix(), seconds, 5)
	}
}
