package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// far is longer than any test waits, unless something hangs.
const far = 30 * time.Second

// mustMeasure runs the calls that args ask for. The sums are checked.
func mustMeasure(t *testing.T, ctx context.Context, args ...string) *report {
	t.Helper()
	o, err := parseOptions(args)
	require.NoError(t, err)
	r, err := measure(ctx, o, io.Discard)
	require.NoError(t, err)
	require.Equal(t, r.sent, r.answered+r.timedOut+r.abandoned, "each call ends exactly once")
	require.Len(t, r.lateness, int(r.timedOut), "each timeout that fired was timed")
	require.Zero(t, r.pendingCalls)
	require.Zero(t, r.pendingTimeouts)
	if r.timedOut > 0 {
		require.GreaterOrEqual(t, r.lateness[0], time.Duration(0), "no timeout fires early")
	}
	return r
}

// wantDropped returns how many of the first n requests a server drops.
func wantDropped(t *testing.T, n uint64, args ...string) (dropped int64) {
	t.Helper()
	o, err := parseOptions(args)
	require.NoError(t, err)
	for id := uint64(1); id <= n; id++ {
		if _, drop := o.draw(id); drop {
			dropped++
		}
	}
	return dropped
}

func TestCallsAreAnsweredOrTimeOut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	args := []string{"-count=3000", "-conns=3", "-inflight=500", "-timeout=250ms", "-tick=5ms",
		"-median=60ms", "-spread=0.7", "-drop=0.05"}
	r := mustMeasure(t, t.Context(), args...)
	require.NoError(t, r.check())
	require.EqualValues(t, 3000, r.sent)
	require.Positive(t, r.answered)
	require.Positive(t, r.late)
	require.Zero(t, r.abandoned)
	require.Equal(t, wantDropped(t, 3000, args...), r.dropped, "the seed determines which are dropped")
	require.Equal(t, r.timedOut, r.dropped+r.late, "the reply to a call that timed out is dropped or late")
}

// TestReplyMeetsTimeout makes each reply due at about the same time as its timeout,
// so that they race.
func TestReplyMeetsTimeout(t *testing.T) {
	r := mustMeasure(t, t.Context(), "-count=10000", "-inflight=400", "-timeout=20ms", "-tick=1ms",
		"-median=19ms", "-spread=0.1", "-drop=0")
	require.NoError(t, r.check())
	require.EqualValues(t, 10000, r.sent)
	require.Positive(t, r.timedOut)
	t.Logf("answered %d, timed out %d", r.answered, r.timedOut)
	require.Equal(t, r.timedOut, r.late, "each reply either ends its call or is late")
}

func TestNothingIsAnswered(t *testing.T) {
	start := time.Now()
	r := mustMeasure(t, t.Context(), "-count=200", "-timeout=20ms", "-tick=1ms", "-drop=1")
	require.NoError(t, r.check())
	require.EqualValues(t, 200, r.timedOut)
	require.EqualValues(t, 200, r.dropped)
	require.Less(t, time.Since(start), drainLimit, "a server with no reply left to send closes the connection")
}

func TestInterruptionReports(t *testing.T) {
	// No reply and no timeout is due within the test.
	args := []string{"-inflight=50", "-timeout=1h", "-median=10s", "-spread=0", "-drop=0"}
	o, err := parseOptions(args)
	require.NoError(t, err)
	s, err := newServer(o)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.serve(t.Context(), ln)

	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- run(ctx, append(args, "-connect="+ln.Addr().String()), &stdout, &stderr) }()
	require.Eventually(t, func() bool { return s.received.Load() == 50 }, far, time.Millisecond)
	cancel()
	select {
	case got := <-code:
		require.Equal(t, exitInterrupted, got, stderr.String())
	case <-time.After(far):
		require.FailNow(t, "the interruption does not end the run")
	}
	require.Contains(t, stdout.String(), "answered 0 + timed out 0 + abandoned 50 = sent 50, as expected")
	require.Regexp(t, `late replies +0 `, stdout.String())
	require.Empty(t, stderr.String(), "no progress unless on a terminal")
}

func TestReport(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-count=500", "-timeout=100ms", "-tick=5ms", "-drop=0.2"}, &stdout, &stderr)
	require.Equal(t, exitOK, code, stderr.String())
	for _, want := range []string{"requests/s", "late replies", "p99", "500µs to 1ms", "#", "= sent 500, as expected"} {
		require.Contains(t, stdout.String(), want)
	}
}

// TestLostConnections uses a server that closes every connection.
func TestLostConnections(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			readFrame(bufio.NewReader(conn))
			conn.Close()
		}
	}()
	r := mustMeasure(t, t.Context(), "-connect="+ln.Addr().String(), "-conns=2", "-inflight=10", "-timeout=50ms", "-tick=1ms")
	require.Positive(t, r.timedOut, "the calls on a lost connection meet their timeouts")
	require.Equal(t, r.sent, r.timedOut)
	require.ErrorContains(t, r.check(), "2 of 2 connections lost")
}

func TestServerAndClientApart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"-listen=127.0.0.1:0", "-drop=0.5"}, write, io.Discard) }()
	out := bufio.NewReader(read)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	addr := strings.TrimSuffix(strings.Fields(line)[2], ",")

	r := mustMeasure(t, t.Context(), "-connect="+addr, "-count=500", "-timeout=100ms")
	require.NoError(t, r.check())
	require.EqualValues(t, 500, r.sent)
	require.Positive(t, r.timedOut)

	cancel()
	line, err = out.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "received 500, ")
	require.Equal(t, exitOK, <-code)
}

func TestBadFlags(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-count=0", `invalid value "0" for flag -count: allowed is 1 to 10000000`},
		{"-conns=many", `invalid value "many" for flag -conns: allowed is 1 to 256`},
		{"-timeout=200", `invalid value "200" for flag -timeout: allowed is 1ms to 1h0m0s`},
		{"-tick=1us", `invalid value "1us" for flag -tick: allowed is 1ms to 1m0s`},
		{"-drop=NaN", `invalid value "NaN" for flag -drop: allowed is 0 to 1`},
		{"-seed=-1", `invalid value "-1" for flag -seed: allowed is 0 to 18446744073709551615`},
		{"-listen=:7070", `invalid value ":7070" for flag -listen: allowed is a loopback address`},
		{"-connect=192.0.2.1:7070", `invalid value "192.0.2.1:7070" for flag -connect: allowed is a loopback address`},
		{"-listen=127.0.0.1:1 -connect=127.0.0.1:1", "only one of them is allowed"},
		{"-nonsense", "flag provided but not defined: -nonsense"},
		{"nonsense", `unexpected argument "nonsense"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, run(t.Context(), strings.Fields(tt.args), &stdout, &stderr))
			require.Contains(t, stderr.String(), tt.want)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line")
			require.Empty(t, stdout.String())
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-h"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "(default 200ms)")
	require.Empty(t, stderr.String())
}

func TestCheck(t *testing.T) {
	good := report{sent: 3, answered: 1, timedOut: 1, abandoned: 1, lateness: []time.Duration{0}}
	require.NoError(t, good.check())
	for want, spoil := range map[string]func(*report){
		"is not sent 3":                 func(r *report) { r.answered++ },
		"fired 1ms early":               func(r *report) { r.lateness = []time.Duration{-time.Millisecond} },
		"2 are pending":                 func(r *report) { r.pendingCalls = 2 },
		"the timer holds 2 timeouts":    func(r *report) { r.pendingTimeouts = 2 },
		"connections lost, the first e": func(r *report) { r.lost = []error{io.EOF} },
	} {
		bad := good
		spoil(&bad)
		require.ErrorContains(t, bad.check(), want)
	}
}

func TestFrames(t *testing.T) {
	const big = uint64(1 << 40)
	b := appendFrame(appendFrame(nil, big, []byte("payload")), 2, nil)
	r := bufio.NewReader(bytes.NewReader(b))
	id, payload, err := readFrame(r)
	require.NoError(t, err)
	require.Equal(t, big, id)
	require.Equal(t, "payload", string(payload))
	id, payload, err = readFrame(r)
	require.NoError(t, err)
	require.EqualValues(t, 2, id)
	require.Empty(t, payload)
	_, _, err = readFrame(r)
	require.Equal(t, io.EOF, err)

	_, _, err = readFrame(bufio.NewReader(bytes.NewReader(b[:headerSize+3])))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, _, err = readFrame(bufio.NewReader(bytes.NewReader(appendFrame(nil, 1, make([]byte, maxPayload+1)))))
	require.ErrorContains(t, err, "more than 65536")
}

func TestOutboxWritesWhatIsLeft(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	for range 20 { // write selects between frames and stop at random
		near, far := net.Pipe()
		out := newOutbox()
		out.send(1, []byte("one"))
		out.send(2, nil)
		go func() {
			out.write(near, stop)
			near.Close()
		}()
		got, err := io.ReadAll(far)
		require.NoError(t, err)
		require.Equal(t, appendFrame(appendFrame(nil, 1, []byte("one")), 2, nil), got)
	}
}

func TestHistogramAndQuantile(t *testing.T) {
	var ds []time.Duration
	for i := range 100 {
		ds = append(ds, time.Duration(i+1)*time.Millisecond)
	}
	require.Equal(t, 50*time.Millisecond, quantile(ds, 0.50))
	require.Equal(t, 99*time.Millisecond, quantile(ds, 0.99))
	require.Equal(t, time.Millisecond, quantile(ds[:1], 0.99))
	require.Equal(t, []int{4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 51}, histogram(ds, 50*time.Millisecond))
	require.Equal(t, "1,234,567", commas(1234567))
	require.Equal(t, "123", commas(123))
}
