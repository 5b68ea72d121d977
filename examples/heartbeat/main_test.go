package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// far is longer than any test waits, unless something hangs.
const far = 60 * time.Second

// The limit is so long that even a loaded machine does not delay a heartbeat for
// that long.
func TestOverLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	t.Parallel()
	var stdout bytes.Buffer
	o, err := parseOptions(strings.Fields("-conns=300 -interval=50ms -limit=2s -tick=10ms -duration=500ms -traffic=80ms -silent=0.2"))
	require.NoError(t, err)
	r, err := measure(t.Context(), o, &stdout, io.Discard)
	require.NoError(t, err)
	require.NoError(t, r.check())
	require.Contains(t, stdout.String(), "300 connections, opened in ")
	require.EqualValues(t, 300, r.conns)
	require.EqualValues(t, 60, r.fellSilent)
	require.EqualValues(t, 60, r.closedSilent)
	require.Len(t, r.lateness, 60)
	require.Positive(t, r.heartbeats)
	require.Greater(t, r.packets, r.heartbeats)
	require.EqualValues(t, 300, r.timer.Accepted, "one timeout for each connection, however many packets")

	r.print(&stdout)
	for _, want := range []string{"silent ones closed           60\n", "closed early                  0  before the limit; must be 0\n", "p99"} {
		require.Contains(t, stdout.String(), want)
	}
}

// Packets arrive at about the end of the limit, on many connections at once. Each
// connection is closed once, after it has been idle for the limit.
func TestPacketMeetsTimeout(t *testing.T) {
	const conns, limit = 200, 10 * ms
	s, err := newServer(options{limit: limit, tick: ms})
	require.NoError(t, err)
	defer s.timer.Stop()
	var ends sync.WaitGroup
	for range conns {
		near, far := net.Pipe()
		handled := s.start(t, far)
		ends.Go(func() {
			if err := <-handled; err != nil {
				t.Errorf("not closed as idle: %v", err)
			}
		})
		ends.Go(func() {
			for err := error(nil); err == nil; {
				time.Sleep(limit - 2*ms + time.Duration(rand.IntN(int(4*ms))))
				_, err = near.Write(newFrame(data, ""))
			}
		})
	}
	ends.Wait()
	left, err := s.timer.Shutdown(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	require.EqualValues(t, conns, s.limit.Closed())
	require.Len(t, s.lateness, conns)
	for _, late := range s.lateness {
		require.GreaterOrEqual(t, late, time.Duration(0))
	}
	t.Logf("%d packets", s.packets.Load())
}

// The clients notice a server that never closes a connection, and one that closes too many.
func TestClientsWatchTheServer(t *testing.T) {
	faulty := func(o options, handle func(net.Conn), until func(*clients) bool) *clients {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					handle(conn)
					conn.Close()
				}()
			}
		}()
		cs, err := newClients(o, func(context.Context) (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) })
		require.NoError(t, err)
		defer cs.timer.Stop()
		cs.patience = 50 * ms
		require.NoError(t, cs.connect(t.Context()))
		require.NoError(t, cs.short)
		ctx, cancel := context.WithTimeout(t.Context(), far)
		defer cancel()
		go func() {
			for ctx.Err() == nil && !until(cs) {
				time.Sleep(ms)
			}
			cancel()
		}()
		cs.run(ctx)
		cs.end()
		require.Zero(t, cs.timer.Pending())
		require.Empty(t, cs.errs)
		return cs
	}
	o := options{conns: 20, interval: 20 * ms, limit: 100 * ms, tick: ms, duration: 200 * ms, silent: 0.5}
	cs := faulty(o,
		func(conn net.Conn) { io.Copy(io.Discard, conn) },
		func(*clients) bool { return false })
	require.EqualValues(t, 10, cs.forgotten.Load())
	require.Zero(t, cs.closedOthers.Load()+cs.closedSilent.Load())

	o.limit, o.duration, o.silent = time.Hour, time.Hour, 0
	cs = faulty(o,
		func(conn net.Conn) { readFrame(bufio.NewReader(conn)) },
		func(cs *clients) bool { return cs.closedOthers.Load() == 20 })
	require.EqualValues(t, 20, cs.closedOthers.Load())
}

func TestBadFlags(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-conns=0", "invalid value 0 for flag -conns: allowed is 1 to 1000000"},
		{"-conns=many", `invalid value "many" for flag -conns`},
		{"-interval=500", `invalid value "500" for flag -interval`},
		{"-interval=0", "invalid value 0s for flag -interval: allowed is 1ms to 1h0m0s"},
		{"-limit=-1s", "invalid value -1s for flag -limit: allowed is 1ms to 24h0m0s"},
		{"-limit=1099ms", "invalid value 1.099s for flag -limit: allowed is -interval plus two times -tick (1.1s) or more"},
		{"-tick=1us", "invalid value 1µs for flag -tick: allowed is 1ms to 1m0s"},
		{"-duration=0s", "invalid value 0s for flag -duration"},
		{"-traffic=-1s", "invalid value -1s for flag -traffic: allowed is 0s to 1h0m0s"},
		{"-silent=NaN", "invalid value NaN for flag -silent: allowed is 0 to 1"},
		{"-seed=-1", `invalid value "-1" for flag -seed`},
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

func TestCheck(t *testing.T) {
	good := report{fellSilent: 6, closedSilent: 5, stillOpen: 1, sent: 9, packets: 9, lateness: []time.Duration{0}}
	require.NoError(t, good.check())
	for want, spoil := range map[string]func(*report){
		"2 connections closed early, by up to 2ms":           func(r *report) { r.lateness = []time.Duration{-2 * ms, -1, 0, 0, 1} },
		"3 connections closed that had not":                  func(r *report) { r.closedOthers = 3 },
		"4 silent connections forgotten":                     func(r *report) { r.forgotten, r.closedSilent = 4, 1 },
		"closed 5 + forgotten 0 + open 0 is not 6":           func(r *report) { r.stillOpen = 0 },
		"1 heartbeats sent too soon":                         func(r *report) { r.tooSoon = 1 },
		"8 packets received of 9 sent":                       func(r *report) { r.packets = 8 },
		"the timers hold 7 timeouts":                         func(r *report) { r.pending = 7 },
		"2 failures, the first: " + io.ErrNoProgress.Error(): func(r *report) { r.errs = []error{io.ErrNoProgress, io.EOF} },
	} {
		bad := good
		spoil(&bad)
		require.ErrorContains(t, bad.check(), want)
		require.NotContains(t, bad.check().Error(), "\n", "and nothing else")
	}
}

func TestFrames(t *testing.T) {
	b := append(newFrame(heartbeat, ""), newFrame(data, strings.Repeat("x", 255))...)
	r := bufio.NewReaderSize(bytes.NewReader(b), maxFrame)
	for _, want := range []kind{heartbeat, data} {
		k, err := readFrame(r)
		require.NoError(t, err)
		require.Equal(t, want, k)
	}
	_, err := readFrame(r)
	require.Equal(t, io.EOF, err)
	for _, cut := range []int{1, 2, 256} {
		_, err = readFrame(bufio.NewReader(bytes.NewReader(b[2 : 2+cut])))
		require.Equal(t, io.ErrUnexpectedEOF, err)
	}
}

func TestNumbers(t *testing.T) {
	ds := []time.Duration{1, 2, 3, 4}
	require.Equal(t, time.Duration(2), quantile(ds, 0.5))
	require.Equal(t, time.Duration(4), quantile(ds, 0.99))
	require.Equal(t, "1,234,567", commas(1234567))
	require.Equal(t, "0", commas(0))
}

// The program runs as a user runs it.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	t.Parallel()
	prog := filepath.Join(t.TempDir(), "heartbeat.exe")
	out, err := exec.Command("go", "build", "-o", prog, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(prog, "-h").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "(default 50ms)")

	const args = " -conns=100 -interval=20ms -limit=2s -tick=10ms -duration=100ms -silent=0.2"
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		out, err := exec.Command(prog, strings.Fields(args)...).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "silent ones closed           20\n")
		require.True(t, strings.HasSuffix(string(out), "\nall checks passed\n"), string(out))
	})
	if runtime.GOOS == "windows" {
		t.Skip("no signals, and no limits that a shell could set")
	}
	t.Run("interrupt", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command(prog, strings.Fields("-conns=50 -duration=10m -limit=1h")...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		defer time.AfterFunc(far, func() { cmd.Process.Kill() }).Stop()
		r := bufio.NewReader(stdout)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, "50 connections, opened in ")
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		cmd.Wait()
		require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr.String())
		require.Contains(t, string(rest), "connections                  50\n")
		require.Empty(t, stderr.String(), "no progress unless on a terminal")
	})

	limited := func(name, limit string, check func(t *testing.T, out string, err error)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command("sh", "-c", limit+" && exec "+prog+args).CombinedOutput()
			check(t, string(out), err)
		})
	}
	limited("few files", "ulimit -n 100", func(t *testing.T, out string, err error) {
		require.NoError(t, err, out)
		require.Contains(t, out, "34 connections instead of 100: the limit of 100 open files allows no more\n34 connections, opened")
	})
	limited("soft limit", "ulimit -Sn 100", func(t *testing.T, out string, err error) {
		require.NoError(t, err, out)
		require.True(t, strings.HasPrefix(out, "100 connections, opened"), out)
	})
	limited("no files", "ulimit -n 33", func(t *testing.T, out string, err error) {
		require.Error(t, err)
		require.Equal(t, "heartbeat: a limit of 33 open files leaves no room for connections\n", out)
	})
}
