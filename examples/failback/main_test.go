package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// After a server of net/http has closed a connection, it keeps it for half a second, longer than goleak waits.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// far is longer than any test takes unless something hangs.
const far = time.Minute

// slack is how late a busy machine may be in a test on real time.
const slack = "-grace=20s"

func mustParse(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parseOptions(append([]string{slack, "-seed=1"}, args...))
	require.NoError(t, err)
	return o
}

// mustCall runs the first part until its end.
func mustCall(t *testing.T, args ...string) *callsReport {
	t.Helper()
	c, err := newCalls(mustParse(t, args...))
	require.NoError(t, err)
	require.NoError(t, c.run(t.Context()))
	r := c.report(false)
	require.NoError(t, r.check())
	return r
}

func TestCallsOutliveOutages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	t.Parallel()
	r := mustCall(t, "-count=300", "-over=1s", "-outages=2", "-timeout=100ms", "-max=200ms", "-busy=0.1", "-mute=0.05")
	require.Equal(t, 300, r.issued)
	require.Equal(t, 300, r.byOutcome[answered])
	require.Equal(t, 300, r.byAttempt[0])
	require.Greater(t, len(r.byAttempt), 1)
	require.Len(t, r.ledger, 300)
	require.Positive(t, r.failures["refused"])
	require.Positive(t, r.failures["by status 503"])
	for _, o := range r.outages {
		require.GreaterOrEqual(t, o.up.Sub(o.down), o.length)
	}
	var out bytes.Buffer
	r.print(&out)
	require.Contains(t, out.String(), "outage 2  at ")
	require.Contains(t, out.String(), "calls that made attempt  1: 300  2: ")
}

// TestLostAnswers withholds half of the answers, so that many orders are sent again.
func TestLostAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second of real time: runs without -short")
	}
	t.Parallel()
	r := mustCall(t, "-count=100", "-over=100ms", "-outages=0", "-callers=100", "-timeout=50ms", "-mute=0.5", "-busy=0.3", "-max=50ms", "-jitter=equal")
	require.Len(t, r.ledger, 100)
	require.Positive(t, r.repeated)
	require.Positive(t, r.failures["timed out"])
}

func TestLimitsGiveUp(t *testing.T) {
	t.Parallel()
	r := mustCall(t, "-count=100", "-over=100ms", "-outages=0", "-busy=0.9", "-mute=0", "-attempts=2", "-timeout=1m")
	require.Positive(t, r.byOutcome[gaveUp])
	require.Equal(t, 100, r.byOutcome[gaveUp]+r.byOutcome[answered])
	require.Len(t, r.byAttempt, 2)
	require.Len(t, r.ledger, r.byOutcome[answered])

	r = mustCall(t, "-count=100", "-over=100ms", "-outages=0", "-busy=0.9", "-mute=0", "-deadline=200ms")
	require.Positive(t, r.byOutcome[gaveUp])
	require.Equal(t, 100, r.byOutcome[gaveUp]+r.byOutcome[answered])
}

func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	t.Parallel()
	f, err := newFleet(mustParse(t, "-providers=30", "-stop=5", "-ttl=2400ms"))
	require.NoError(t, err)
	require.NoError(t, f.run(t.Context()))
	r := f.report
	require.NoError(t, r.check())
	require.Equal(t, 30, r.lost)
	require.EqualValues(t, 30, r.republished)
	require.EqualValues(t, 60, r.published)
	require.Equal(t, 5, r.verdict.rightly)
	require.Equal(t, 25, r.listed)
	require.Positive(t, r.renewed)
	require.Equal(t, 30, len(r.lives))
}

func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{slack, "-count=100", "-over=500ms", "-outages=1", "-providers=10", "-stop=10", "-ttl=2400ms"}, &stdout, &stderr)
	require.Equal(t, exitOK, code, stderr.String())
	require.Empty(t, stderr.String(), "no progress unless on a terminal")
	require.Regexp(t, `(?s)100 calls over 500ms.*answered +100 .*carried out +100 .*outage 1 .*lost +10 .*published again +10 .*expired rightly +10 .*expired wrongly +0\n\nno call lost`, stdout.String())
}

func TestInterruption(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(300*ms, cancel)
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{slack, "-over=1h", "-count=20000", "-busy=0.9", "-max=1h", "-base=1h", "-ttl=1h"}, &stdout, &stderr)
	require.Equal(t, exitInterrupted, code, stderr.String())
	require.Regexp(t, `(?s)abandoned +\d+ +\(interrupted\).*stopped +0 .*expired wrongly +0\n\(interrupted\)`, stdout.String())
}

// TestProgram runs the program as a user does.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "failback.exe")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, string(out))

	out, err = exec.Command(bin, "-h").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "Exit codes: 0 all checks passed")
	require.Contains(t, string(out), "(default 150ms)")
	require.Contains(t, string(out), "(default full)")

	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot send an interrupt to a process")
	}
	cmd := exec.Command(bin, slack, "-ttl=1h")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	stdout := bufio.NewReader(pipe)
	line, err := stdout.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "2,000 calls over 5s, 3 outages; 200 providers, leases of 1h0m0s; ticks of 10ms; -seed ")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	ended := make(chan []byte, 1)
	go func() {
		rest, _ := io.ReadAll(stdout)
		ended <- rest
	}()
	select {
	case out = <-ended:
	case <-time.After(far):
		require.FailNow(t, "the interruption does not end the program")
	}
	cmd.Wait()
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr.String())
	require.Contains(t, string(out), "(interrupted)")
	require.Empty(t, stderr.String())
}

func TestExitCode(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	require.Equal(t, exitOK, exitCode(t.Context(), nil, &stderr))
	require.Equal(t, exitInterrupted, exitCode(interrupted, nil, &stderr))
	require.Empty(t, stderr.String())
	require.Equal(t, exitFailed, exitCode(t.Context(), errDown, &stderr))
	require.Equal(t, exitFailed, exitCode(interrupted, errDown, &stderr), "the checks count also after an interruption")
	require.Equal(t, "failback: down\nfailback: down\n", stderr.String())
}

func TestBadFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-count=0":                      `invalid value "0" for flag -count: allowed is 1 to 1000000`,
		"-callers=many":                 `invalid value "many" for flag -callers: allowed is 1 to 10000`,
		"-over=1":                       `invalid value "1" for flag -over: allowed is 10ms to 1h0m0s`,
		"-busy=NaN":                     `invalid value "NaN" for flag -busy: allowed is 0 to 0.9`,
		"-mute=1":                       `invalid value "1" for flag -mute: allowed is 0 to 0.9`,
		"-jitter=none":                  `invalid value "none" for flag -jitter: allowed are full and equal`,
		"-tick=1us":                     `invalid value "1us" for flag -tick: allowed is 1ms to 1s`,
		"-seed=-1":                      `invalid value "-1" for flag -seed: allowed is 0 to 18446744073709551615`,
		"-base=2s -max=1s":              "-base 2s is more than -max 1s",
		"-providers=3 -stop=4":          "-stop 4 is more than -providers 3",
		"-ttl=100ms -tick=20ms -stop=0": "-ttl 100ms is less than 10 ticks, with -tick 20ms",
		"-nonsense":                     "flag provided but not defined: -nonsense",
		"nonsense":                      `unexpected argument "nonsense"`,
	} {
		t.Run(args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, run(t.Context(), strings.Fields(args), &stdout, &stderr))
			require.Contains(t, stderr.String(), want)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line")
			require.Empty(t, stdout.String())
		})
	}
}

func TestEndpoint(t *testing.T) {
	var e endpoint
	c := serviceClient{endpoint: &e}
	c.http.Transport = &http.Transport{}
	defer c.http.CloseIdleConnections()
	s := newService(0, 0)
	require.NoError(t, e.up(s))
	defer e.down()
	for range 3 { // the same answer each time
		answer, err := c.try(t.Context(), 5)
		require.NoError(t, err)
		require.EqualValues(t, 1, answer)
	}
	same := 0
	for range 3 {
		url := e.url("/orders")
		e.down()
		e.down()
		_, err := c.try(t.Context(), 5)
		require.Equal(t, "refused", kindOf(err), "%v", err)
		require.NoError(t, e.up(s))
		if e.url("/orders") == url {
			same++
		}
		answer, err := c.try(t.Context(), 6)
		require.NoError(t, err)
		require.EqualValues(t, 2, answer)
	}
	require.Positive(t, same, "it comes up at the same port, unless that has been taken")
	require.Equal(t, []string{"order-5", "order-6"}, s.ledger)
	require.Equal(t, 4, s.repeated)

	url := e.url("")
	e.down()
	taken, err := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer taken.Close()
	require.NoError(t, e.up(s))
	require.NotEqual(t, url, e.url(""))
	_, err = c.try(t.Context(), 7)
	require.NoError(t, err)
}

func TestKindsOfFailure(t *testing.T) {
	var e endpoint
	c := serviceClient{endpoint: &e}
	c.http.Transport = &http.Transport{}
	defer c.http.CloseIdleConnections()
	begun := make(chan struct{}, 1)
	var status atomic.Int64 // 0: no answer
	require.NoError(t, e.up(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := status.Load(); code != 0 {
			w.WriteHeader(int(code))
			return
		}
		begun <- struct{}{}
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})))
	kind := func(ctx context.Context) string {
		_, err := c.try(ctx, 1)
		require.Error(t, err)
		return kindOf(err)
	}
	status.Store(http.StatusServiceUnavailable)
	require.Equal(t, "by status 503", kind(t.Context()))
	status.Store(http.StatusBadRequest)
	require.Equal(t, "permanently", kind(t.Context()))
	status.Store(http.StatusOK) // but the body is not a number
	require.Equal(t, "permanently", kind(t.Context()))
	status.Store(0)
	ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
	defer cancel()
	require.Equal(t, "timed out", kind(ctx))
	<-begun
	go func() {
		<-begun
		e.down()
	}()
	require.Equal(t, "cut off", kind(t.Context()))
	require.Equal(t, "refused", kind(t.Context()))
}

func TestRegistryOverHTTP(t *testing.T) {
	r, err := newRegistry(10*ms, time.Hour, func(string, string) {})
	require.NoError(t, err)
	var e endpoint
	require.NoError(t, e.up(r.handler()))
	defer e.down()
	c := registryClient{endpoint: &e}
	c.http.Transport = &http.Transport{}
	defer c.http.CloseIdleConnections()
	ctx := t.Context()
	require.ErrorIs(t, c.renew(ctx, "a"), errUnknown)
	require.NoError(t, c.register(ctx, "b", "127.0.0.1:2"))
	require.NoError(t, c.register(ctx, "a", "127.0.0.1:1"))
	require.NoError(t, c.renew(ctx, "a"))
	names, err := c.names(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, names)
	for name, addr := range r.leases.All() {
		require.Equal(t, map[string]string{"a": "127.0.0.1:1", "b": "127.0.0.1:2"}[name], addr)
	}
	require.NoError(t, c.remove(ctx, "a"))
	require.ErrorIs(t, c.remove(ctx, "a"), errUnknown)
	require.EqualError(t, c.register(ctx, "c", strings.Repeat("x", maxAddr+1)), "status 400 Bad Request")
	require.Equal(t, 1, r.crash())
	require.EqualError(t, c.register(ctx, "a", ""), "status 503 Service Unavailable")
	require.ErrorIs(t, c.renew(ctx, "b"), errUnknown)
}

func TestPlannedOutages(t *testing.T) {
	const n, over = 5, 10 * time.Second
	plan := planOutages(newRand(3), n, over)
	require.Equal(t, plan, planOutages(newRand(3), n, over), "the seed determines them")
	require.NotEqual(t, plan, planOutages(newRand(4), n, over))
	for i, o := range plan {
		part := over / n
		require.GreaterOrEqual(t, o.at, time.Duration(i)*part)
		require.GreaterOrEqual(t, o.length, part/10)
		require.LessOrEqual(t, o.at+o.length, time.Duration(i+1)*part-part/20)
	}
	require.Empty(t, planOutages(newRand(3), 0, over))
}

// TestConcurrency makes all retries due at the same time, and each takes long.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newCalls(mustParse(t, "-count=10", "-concurrency=3", "-base=20ms", "-timeout=1m"))
		require.NoError(t, err)
		var underWay, most atomic.Int64
		c.failback.backoff.uint64n = func(n uint64) uint64 { return n - 1 }
		c.failback.try = func(context.Context, uint64) (uint64, error) {
			if time.Since(c.start) == 0 {
				return 0, errDown
			}
			n := underWay.Add(1)
			time.Sleep(50 * ms) // so that all attempts that begin together are counted
			most.Store(max(n, underWay.Load(), most.Load()))
			time.Sleep(50 * ms)
			underWay.Add(-1)
			return 1, nil
		}
		c.start = time.Now()
		for id := range uint64(10) {
			c.tally.issue(id + 1)
			c.failback.do(t.Context(), id+1, c.tally.end)
		}
		c.awaitEnds(t.Context())
		require.NoError(t, c.failback.shutdown(t.Context()))
		require.EqualValues(t, 3, most.Load())
		var last time.Duration
		for _, r := range c.tally.records {
			require.Equal(t, 1, r.ends)
			last = max(last, r.ended.Sub(c.start))
		}
		require.Equal(t, 420*ms, last, "from 20 ms on, in four rounds")
	})
}

// TestLostCallIsNoticed counts a call as issued that was never made.
func TestLostCallIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newCalls(mustParse(t, "-count=1", "-max=1s", "-timeout=1s", "-grace=1s"))
		require.NoError(t, err)
		c.tally.issue(1)
		start := time.Now()
		c.awaitEnds(t.Context())
		waited := time.Since(start)
		require.Greater(t, waited, 3010*ms, "as long as a call may wait and be tried")
		require.LessOrEqual(t, waited, 3030*ms)
		require.NoError(t, c.failback.shutdown(t.Context()))
		require.ErrorContains(t, c.report(false).check(), "1 calls have never ended")
		for range 2 {
			c.tally.end(&call{id: 1})
		}
		require.ErrorContains(t, c.report(false).check(), "1 calls have ended twice")
	})
}
