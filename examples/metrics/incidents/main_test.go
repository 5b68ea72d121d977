package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/wheeldebug"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What an operator sees of each incident, half a minute after it has begun, and again half a minute later. Spaces in the page
// are single. A clock that is set cannot be played in a process: TestScheduleFollowsTheWallClock of the library is about that.
func TestWhatAnOperatorSees(t *testing.T) {
	const here = `github.com/hashedwheel/hashedwheel/examples/metrics/incidents[.]`
	for name, want := range map[string]struct {
		page, next string // regular expressions
		log        string // all of the log after the time, or "" if there is nothing in it
		check      func(t *testing.T, st hashedwheel.Stats)
	}{
		"forgotten": {page: `(?m)^ 1000 100.0 % 0 0 1000 0 0 in 9m29s in 9m30s ` + here + `expire$`,
			next: ` in 8m59s in 9m0s `},
		"unit":        {page: ` 1 100.0 % 0 0 0 0 1 in 5787 days in 5787 days `},
		"connections": {page: ` 1000 100.0 % 0 1000 0 0 0 in 30s in 30s \*` + here + `ping \(repeating\)`},
		"tick": {page: `(?m)^hashedwheel.*, tick 100ms,`, check: func(t *testing.T, st hashedwheel.Stats) {
			require.Equal(t, 199*time.Millisecond, time.Duration(longest.Load()))
			require.Zero(t, st.Lateness.Quantile(1).Round(time.Millisecond))
		}},
		"behind": {
			page: `(?m)^ running for at least due task\n 1 0s 20s ago ` + here + `poll \(repeating\)$`,
			next: `(?m)^ 1 0s 40s ago ` + here + `poll \(repeating\)$`,
			check: func(t *testing.T, st hashedwheel.Stats) {
				require.Zero(t, st.Due)
				require.Greater(t, st.Lateness.Quantile(0.5), 10*time.Second)
			}},
		"limit": {
			page: `(?m)^ 2 0s 29.9s ago ` + here + `charge$`, next: `(?m)^ running for at least due task\n 2 30s 59.9s ago ` + here + `charge$`,
			log: `WARN hashedwheel: tasks are due and wait for WithMaxConcurrency\(2\): as many tasks run .* waiting=98 late=1s running=2`},
		"drops": {page: `of these due and not started 5;`, next: `of these due and not started 5;`,
			check: func(t *testing.T, st hashedwheel.Stats) {
				require.InDelta(t, 500*time.Millisecond, st.Lateness.Quantile(0.5), float64(100*time.Millisecond))
			}},
		"drops-at-limit": {page: `of these due and not started [1-9]\d*; running 0,`,
			log:   `WARN hashedwheel: tasks are due and wait for the executor: it has not run 5 functions that it has taken .*`,
			check: func(t *testing.T, st hashedwheel.Stats) { require.Zero(t, st.Expired) }},
		"refuses": {page: ` 300 10.0 not taken by the executor`,
			check: func(t *testing.T, st hashedwheel.Stats) { require.Equal(t, st.Expired, st.Unsubmitted) }},
		"blocks": {page: `of these due and not started 100; running 64,`, next: `(?m)^ 64 [34]\S+s ` + here + `blocks.func1 \(submit\)$`,
			log: `WARN hashedwheel: tasks are due and wait for the executor: its submit blocks .*`},
		"panics": {page: ` 1 0.0 panics\n`,
			log: `ERROR hashedwheel: task panicked .*stack="` + here + `broken \(main.go:\d+\), .*`},
		"full":    {page: ` 2 0.0 rejected: full\n`},
		"stopped": {page: ` 0 0.0 rejected: full\n 1 0.0 rejected: stopped\n`},
		"shutdown": {page: `\(rpc, stopped, `, next: `(?m)^ 1 59.9s 59.9s ago ` + here + `shutdown.func1$`,
			log: `WARN hashedwheel: Shutdown waits for calls that do not return; most are incidents.shutdown.func1 timer=rpc calls=1 most=1 longest=1m\S*s running=1\nERROR Shutdown error="context deadline exceeded"`},
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			log.SetOutput(&logged)
			log.SetFlags(0)
			defer log.SetOutput(os.Stderr)
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				timer := find(name).play()
				page := wheeldebug.Handler(timer)
				look := func() string {
					time.Sleep(30 * time.Second)
					synctest.Wait()
					w := httptest.NewRecorder()
					page.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
					return regexp.MustCompile(` +`).ReplaceAllString(w.Body.String(), " ")
				}
				first, next := look(), look()
				require.Regexp(t, want.page, first)
				require.Regexp(t, want.next, next)
				if want.check != nil {
					want.check(t, timer.Stats())
				}
				timer.Stop()
				close(never)
				time.Sleep(time.Minute) // until all tasks have ended
			})
			require.Regexp(t, `^(`+want.log+`\n?)$`, logged.String())
		})
	}
}

// The program lists its incidents. Some crash it, with texts that are in docs/operations.md. The commands there find what is
// behind the others.
func TestCommandsFindIt(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program, and needs seconds for each incident: runs without -short")
	}
	for _, name := range []string{"go", "sh", "curl", "grep"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("there is no command ", name)
		}
	}
	program := filepath.Join(t.TempDir(), "incidents")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).Output()
	require.NoError(t, err)
	require.Len(t, bytes.Split(bytes.TrimSpace(out), []byte("\n")), len(incidents))
	text, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	for _, says := range []string{"a Timeout was overwritten while the timer still used it", "a Timeout has been copied after Timer.Bind",
		"timeout not found at position", "timeouts fired late; machine overloaded or suspended", "tasks are due and wait for",
		"it has not run functions that it has taken", "its submit blocks", "task panicked"} {
		require.Contains(t, string(text), says)
	}
	for name, want := range map[string]struct {
		says         string // what the program prints; these and the next are regular expressions
		command      string // a part of the command of operations.md, in plain text
		finds, omits string
	}{
		"overwritten":      {says: `panic: hashedwheel: a Timeout was overwritten while the timer still used it .*hashedwheelvet.*: its task is now a \*main.call`},
		"copied":           {says: `panic: hashedwheel: a Timeout has been copied after Timer.Bind, .*hashedwheelvet.*`},
		"not-found":        {says: `panic: hashedwheel: timeout not found at position \d+ of \d+: it was copied or overwritten .*hashedwheelvet.*`},
		"suspended":        {says: `(?s)WARN hashedwheel: timeouts fired late; machine overloaded or suspended timer=rpc late=[12].*10 tasks were late|10 tasks were late.*WARN hashedwheel: timeouts fired late; machine overloaded or suspended timer=rpc late=[12]`},
		"unstopped":        {command: "hashedwheel.New$", finds: `(?m) main.perRequest$`},
		"forgotten":        {command: "inuse_objects", finds: `(?m) main.forgotten$`},
		"leak":             {command: "inuse_objects", finds: `(?m) main.remove$`},
		"limit":            {command: "goroutine?debug=1", finds: `(?m)^2 @ .*\n# labels: {"hashedwheel":"rpc", "hashedwheel.role":"runner"}\n(#.*\n)*#.*\smain[.]charge`},
		"blocks":           {command: "goroutine?debug=1", finds: `(?s)main[.]blocks.*submitOne`},
		"storm":            {command: "Timer..newTimeout$|Timeout", finds: `flat% .*\n.* main\.retry\n`},
		"storm, by labels": {command: "tagfocus hashedwheel=rpc", omits: `main\.(retry|storm)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			played, _, _ := strings.Cut(name, ",")
			cmd := exec.Command(program, "-listen", "127.0.0.1:0", "-play", played)
			read, write, err := os.Pipe()
			require.NoError(t, err)
			cmd.Stdout, cmd.Stderr = write, write
			require.NoError(t, cmd.Start())
			write.Close()
			defer func() {
				cmd.Process.Kill()
				cmd.Wait()
				read.Close()
			}()
			if want.says != "" {
				readUntil(t, read, want.says)
				return
			}
			host := readUntil(t, read, `http://([^/]+)/debug/pprof`)
			command := regexp.MustCompile(`(?m)^ {4,6}(\S.*` + regexp.QuoteMeta(want.command) + `.*)$`).FindSubmatch(text)
			require.NotNil(t, command, want.command)
			line := strings.NewReplacer("HOST", host, "seconds=10", "seconds=1").Replace(string(command[1]))
			found, end := false, time.Now().Add(time.Minute)
			var out []byte
			for !found && time.Now().Before(end) { // the incident may have just begun
				shell := exec.Command("sh", "-c", line)
				shell.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
				out, err = shell.CombinedOutput()
				found = err == nil && regexp.MustCompile(want.finds).Match(out)
			}
			t.Logf("%s\n%s", line, out)
			require.True(t, found, want.finds)
			if want.omits != "" {
				require.NotRegexp(t, want.omits, string(out))
			}
		})
	}
}

// readUntil reads what matches a regular expression, and returns its last group.
func readUntil(t *testing.T, r io.Reader, expr string) string {
	t.Helper()
	var all, buf = []byte{}, make([]byte, 1<<16)
	for re := regexp.MustCompile(expr); ; {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if match := re.FindSubmatch(all); match != nil {
			return string(match[len(match)-1])
		}
		require.NoError(t, err, "%s", all)
	}
}

// find returns the incident of a name.
func find(name string) incident {
	for _, i := range incidents {
		if i.name == name {
			return i
		}
	}
	panic("there is no incident " + name)
}

// An unknown name is an error, and Ctrl-C ends an incident.
func TestRun(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"-play", "nothing"}, io.Discard), `no incident "nothing"`)
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	var all sync.WaitGroup
	all.Go(func() { write.CloseWithError(run(ctx, []string{"-listen", "127.0.0.1:0", "-play", "full"}, write)) })
	_, err := read.Read(make([]byte, 1000))
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(read)
	require.NoError(t, err)
	all.Wait()
}
