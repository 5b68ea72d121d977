package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// far is longer than any test waits, unless something hangs.
const far = 60 * time.Second

// The program uses real files and virtual time.
func TestFiles(t *testing.T) {
	all := []string{"-files=20", "-files=10 -maxwait=0 -tick=7ms", "-files=3 -interval=1ms -quiet=1ms -tick=1ms"}
	if testing.Short() {
		all = all[:1]
	}
	for _, args := range all {
		t.Run(args, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				code := run(t.Context(), strings.Fields(args), nil, &stdout, &stderr)
				require.Equal(t, exitOK, code, stderr.String())
				require.Contains(t, stdout.String(), " writes in 4s, ")
				require.Regexp(t, `throttle +[1-9][0-9,]+ +[1-9][0-9,]+ +[0-9.]+ % +0 +0\n`, stdout.String())
				require.Regexp(t, `debounce +[1-9][0-9,]+ +[1-9][0-9,]+ +[0-9.]+ % +0 +0\n`, stdout.String())
				require.Empty(t, stderr.String(), "no progress unless on a terminal")
			})
		})
	}
}

// Without trailing, calls are dropped, and the program finds the missed contents.
func TestWithoutTrailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"-files=20", "-trailing=false"}, nil, &stdout, &stderr)
		require.Equal(t, exitFailed, code)
		require.Regexp(t, `throttle: \d+ keys were not called with their last event\n`, stderr.String())
		require.Regexp(t, `throttle: the index has old content for \d+ of 20 files\n`, stderr.String())
		require.NotContains(t, stderr.String(), "debounce")
	})
}

// An interruption ends the writing. The delayed calls are still made.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		var stdout, stderr bytes.Buffer
		code := run(ctx, []string{"-files=20", "-duration=1h"}, nil, &stdout, &stderr)
		require.Equal(t, exitInterrupted, code, stderr.String())
		require.Contains(t, stdout.String(), " writes in 1s, ")
		require.LessOrEqual(t, time.Since(began), 1520*ms, "the maximum wait, a tick of the timer, and a tick of drain")
	})
}

func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := parseOptions(nil)
		require.NoError(t, err)
		r, w := io.Pipe()
		go func() {
			for _, line := range []string{"a 1", "a 2", "", "b", "  a   three  words "} {
				io.WriteString(w, line+"\n")
			}
			time.Sleep(150 * ms)
			io.WriteString(w, "a 4") // without an end of line
			w.Close()
		}()
		var stdout bytes.Buffer
		require.NoError(t, followLines(t.Context(), o, r, &stdout))
		lines, table, _ := strings.Cut(stdout.String(), "\n\n")
		require.ElementsMatch(t, []string{
			"    0.000s  throttle  a 1",
			"    0.000s  throttle  b",
			"    0.250s  throttle  a 4",
			"    0.100s  debounce  a three  words",
			"    0.100s  debounce  b",
			"    0.250s  debounce  a 4",
		}, strings.Split(lines, "\n"))
		require.Regexp(t, `throttle +5 +3 +40.0 % +0 +0\n`, table)
		require.Regexp(t, `debounce +5 +3 +40.0 % +0 +0\n`, table)
	})
	var stdout, stderr bytes.Buffer
	long := strings.NewReader(strings.Repeat("x", bufio.MaxScanTokenSize+1))
	require.Equal(t, exitFailed, run(t.Context(), []string{"-stdin"}, long, &stdout, &stderr))
	require.Contains(t, stderr.String(), "token too long")
}

// An audit finds the errors of a limiter.
func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rule := range []rule{apart(100 * ms), quietOrWaited(100*ms, 250*ms)} {
			a := newAudit("", rule, func(string, event) {})
			pass(time.Second)
			e := a.asked("k", "")
			require.EqualValues(t, 1, a.missed())
			pass(100 * ms)
			a.called("k", e)
			require.Zero(t, a.missed())
			e = a.asked("k", "")
			require.EqualValues(t, 1, a.missed())
			pass(100*ms - 1)
			require.Zero(t, a.tooSoon)
			a.called("k", e)
			require.EqualValues(t, 1, a.tooSoon)
			require.Zero(t, a.twice())
			pass(100 * ms)
			a.called("k", e)
			require.EqualValues(t, 1, a.twice())
			require.EqualValues(t, 1, a.tooSoon)
		}
		// Calls have waited since 0, 50, 100, ...
		a := newAudit("", quietOrWaited(100*ms, 250*ms), func(string, event) {})
		for i := range 6 {
			e := a.asked("k", "")
			if i == 5 {
				a.called("k", e)
			}
			pass(50 * ms)
		}
		require.Zero(t, a.tooSoon)
		e := a.asked("k", "")
		pass(99 * ms)
		a.called("k", e)
		require.EqualValues(t, 1, a.tooSoon)
	})
}

func TestBadFlags(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-interval=0", "invalid value 0s for flag -interval: allowed is 1ms to 1m0s"},
		{"-interval=5", `invalid value "5" for flag -interval`},
		{"-quiet=2m", "invalid value 2m0s for flag -quiet: allowed is 1ms to 1m0s"},
		{"-maxwait=-1s", "invalid value -1s for flag -maxwait: allowed is 0s to 1h0m0s"},
		{"-maxwait=99ms", "invalid value 99ms for flag -maxwait: allowed is 0, or -quiet (100ms) or more"},
		{"-tick=0", "invalid value 0s for flag -tick"},
		{"-files=0", "invalid value 0 for flag -files: allowed is 1 to 10000"},
		{"-duration=0", "invalid value 0s for flag -duration"},
		{"-trailing=perhaps", `invalid boolean value "perhaps" for -trailing`},
		{"-nonsense", "flag provided but not defined: -nonsense"},
		{"nonsense", `unexpected argument "nonsense"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, run(t.Context(), strings.Fields(tt.args), nil, &stdout, &stderr))
			require.Contains(t, stderr.String(), tt.want)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line")
			require.Empty(t, stdout.String())
		})
	}
}

func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	prog := filepath.Join(t.TempDir(), "ratelimit.exe")
	out, err := exec.Command("go", "build", "-o", prog, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(prog, "-h").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "(default 250ms)")

	tmp := t.TempDir()
	cmd := exec.Command(prog, "-files=10", "-duration=300ms")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "TMP="+tmp)
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "10 files (every tenth")
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left in the temporary directory")

	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	cmd = exec.Command(prog, "-stdin", "-quiet=500ms")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer time.AfterFunc(far, func() { cmd.Process.Kill() }).Stop()
	io.WriteString(stdin, "key value\n")
	r := bufio.NewReader(stdout)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "throttle  key value")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	cmd.Wait()
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
	require.Contains(t, string(rest), "debounce  key value\n")
	require.Regexp(t, `debounce +1 +1 +0.0 % +0 +0\n`, string(rest))
}
