package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// far is longer than any test waits, unless something hangs.
const far = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBadFlags(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	for _, tt := range []struct {
		args, want string
		code       int
	}{
		{"-port=65536", `invalid value "65536" for flag -port: allowed is 0 to 65535`, exitUsage},
		{"-port=-1", `invalid value "-1" for flag -port: allowed is 0 to 65535`, exitUsage},
		{"-port=http", `invalid value "http" for flag -port: allowed is 0 to 65535`, exitUsage},
		{"-nonsense", "flag provided but not defined: -nonsense", exitUsage},
		{"nonsense", `unexpected argument "nonsense"`, exitUsage},
		{"-port=" + port, "-port 0 takes any free port", exitFailed},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, tt.code, run(t.Context(), strings.Fields(tt.args), &stdout, &stderr), tt.args)
		require.Contains(t, stderr.String(), tt.want)
		require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line")
		require.Empty(t, stdout.String())
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-h"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "(default 8080)")
	require.Empty(t, stderr.String())
}

// TestProgram runs the program as a user does.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot send an interrupt to a process")
	}
	bin := filepath.Join(t.TempDir(), "wheelview")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(bin, "-h").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "-port port")

	cmd := exec.Command(bin, "-port", "0")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	hung := time.AfterFunc(far, func() { cmd.Process.Kill() })
	defer hung.Stop()
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	url, _, _ := strings.Cut(lines.Text(), " ")
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/$`, url)

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	page, err := client.Get(url)
	require.NoError(t, err)
	page.Body.Close()
	require.Equal(t, http.StatusOK, page.StatusCode)
	events, err := client.Get(url + "events") // a page that is open when the program ends
	require.NoError(t, err)
	defer events.Body.Close()
	first, err := bufio.NewReader(events.Body).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, first, `"rate":2000`, "the program starts with a load")

	start := time.Now()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var rest []string
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Less(t, time.Since(start), shutdownLimit, "open pages do not delay the end")
	require.Len(t, rest, 2)
	require.Equal(t, "timers 1, started early 0", rest[0])
	require.Regexp(t, `^expired \d+ \+ canceled \d+ \+ handed back \d+ of scheduled \d+$`, rest[1])
	require.Empty(t, stderr.String())
}

func TestSums(t *testing.T) {
	good := sums{timers: 1, accepted: 6, expired: 1, canceled: 2, returned: 3}
	require.NoError(t, good.check())
	for want, spoil := range map[string]func(*sums){
		"is not scheduled 7":        func(s *sums) { s.accepted++ },
		"1 tasks were started earl": func(s *sums) { s.early++ },
		"EOF":                       func(s *sums) { s.errs = append(s.errs, io.EOF) },
	} {
		bad := good
		spoil(&bad)
		require.ErrorContains(t, bad.check(), want)
	}
}
