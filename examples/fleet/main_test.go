package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// figure returns a number of the report.
func figure(t *testing.T, report, name string) int {
	t.Helper()
	match := regexp.MustCompile(`(?m)^ *` + name + ` +(\d+)`).FindStringSubmatch(report)
	require.NotNil(t, match, "no %q in\n%s", name, report)
	n, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return n
}

var small = []string{"-orders=300", "-rate=200", "-for=2s", "-least=100ms", "-most=5s", "-window=2s", "-lease=1s"}

// A run ends the orders that an earlier run left open, because the servers keep the deadlines.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append(small, "-kills=2", "-dir="+dir), &stdout, &stderr)
	require.Equal(t, exitOK, code, "%s\n%s", &stdout, &stderr)
	report := stdout.String()
	t.Log(report)
	require.Equal(t, 300, figure(t, report, "orders"))
	require.Equal(t, 300, figure(t, report, "paid")+figure(t, report, "canceled")+figure(t, report, "open"))
	require.Positive(t, figure(t, report, "paid"))
	require.Positive(t, figure(t, report, "canceled"))
	require.Positive(t, figure(t, report, "open"))
	require.Equal(t, 2, figure(t, report, "workers killed"))
	require.Equal(t, 2, strings.Count(stderr.String(), "killed a worker"))

	stdout.Reset()
	code = run(t.Context(), []string{"-orders=1", "-kills=0", "-for=5s", "-dir=" + dir, "-window=3s", "-lease=1s"}, &stdout, &stderr)
	require.Equal(t, exitOK, code, "%s\n%s", &stdout, &stderr)
	t.Log(stdout.String())
	require.Equal(t, 301, figure(t, stdout.String(), "orders"))
	require.LessOrEqual(t, figure(t, stdout.String(), "open"), 1)
	require.Equal(t, 0, figure(t, stdout.String(), "workers killed"))
}

// A run without the wheel uses servers that were started before.
func TestRunOnOtherServers(t *testing.T) {
	t.Parallel()
	s := mustServe(t, 1)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append(small, "-wheel=false", "-pay=0", "-most=1s", "-nats="+s.urls()), &stdout, &stderr)
	require.Equal(t, exitOK, code, "%s\n%s", &stdout, &stderr)
	require.Contains(t, stdout.String(), "no wheel")
	require.Zero(t, figure(t, stdout.String(), "paid"))
	require.Positive(t, figure(t, stdout.String(), "canceled"))
}

// An interrupted run prints its report, and the deadlines of open orders stay in the stream.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s := mustServe(t, 1)
	observer, err := dial(s.urls(), "observer")
	require.NoError(t, err)
	defer observer.close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout, stderr bytes.Buffer
	code := make(chan int)
	go func() {
		code <- run(ctx, []string{"-nats=" + s.urls(), "-for=1h", "-orders=100000", "-clients=5", "-least=1m", "-most=1m", "-window=2m", "-pay=0"}, &stdout, &stderr)
	}()
	await(t, "some orders are held", func() bool {
		consumer, err := observer.js.Consumer(ctx, streamName, consumerName)
		// Each client may have placed the deadline of an order that it has not opened yet.
		return err == nil && consumer.CachedInfo().NumAckPending > 10+5
	})
	interrupt()
	require.Equal(t, exitInterrupted, <-code, "%s\n%s", &stdout, &stderr)
	require.Greater(t, figure(t, stdout.String(), "open"), 10)
	require.Zero(t, figure(t, stdout.String(), "canceled"))
}

// If the servers are gone, a run can still be interrupted, even while requests are in progress.
func TestInterruptWithoutServers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "-window=1m")
	var err error
	f.shop, err = newShop(f.opts, f.client, f.name)
	require.NoError(t, err)
	first, second := f.mustHire(), f.mustHire()
	const n = 200 // more orders than requests at a time
	for i := range n {
		f.mustPlaceDeadline(fmt.Sprint(i), time.Now().Add(2*time.Second))
	}
	await(t, "held", func() bool { return first.held.Len()+second.held.Len() == n })
	f.s.stopAll()
	await(t, "requests fail", func() bool { return f.tally.failed.Load() > 0 })
	start := time.Now()
	var stdout bytes.Buffer
	err = f.conclude(t.Context(), time.Time{}, &stdout)
	t.Logf("after %v", time.Since(start))
	require.ErrorContains(t, err, "no report: the servers do not answer")
	require.Less(t, time.Since(start), 3*stopLimit)
	require.Empty(t, stdout.String())
}

// A run that is interrupted before it has begun has nothing to report.
func TestInterruptAtTheStart(t *testing.T) {
	s := mustServe(t, 1)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, []string{"-nats=" + s.urls()}, &stdout, &stderr))
	require.Empty(t, stdout.String()+stderr.String())
}

// Without orders to place, the program serves other processes until it is interrupted.
func TestServeOthers(t *testing.T) {
	t.Parallel()
	s := mustServe(t, 1)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	code := make(chan int)
	var out, stdout, stderr bytes.Buffer
	go func() { code <- run(ctx, []string{"-nats=" + s.urls(), "-orders=0"}, &out, &out) }()
	args := append(small, "-nats="+s.urls(), "-workers=0", "-most=1s", "-pay=0.5")
	require.Equal(t, exitOK, run(t.Context(), args, &stdout, &stderr), "%s\n%s", &stdout, &stderr)
	require.Positive(t, figure(t, stdout.String(), "canceled"))
	interrupt()
	require.Equal(t, exitOK, <-code, out.String())
	require.Positive(t, figure(t, out.String(), "to the workers"))
	require.Zero(t, figure(t, stdout.String(), "to the workers"))
}

// A run that finds a fault prints the report, names the fault, and fails.
func TestRunFindsFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	o := order{State: paid, By: "nobody"}
	_, err := f.client.ledger.kv.Put(t.Context(), "bad", o.encode())
	require.NoError(t, err)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-nats=" + f.s.urls(), "-orders=1", "-for=1s", "-kills=0"}, &stdout, &stderr)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr.String(), "fleet: order bad became paid after it was \"\"\n")
	require.Contains(t, stdout.String(), "orders")
}

func TestNoServers(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"-nats=nats://127.0.0.1:1"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "fleet: nats://127.0.0.1:1: ")
	file := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Equal(t, exitFailed, run(t.Context(), []string{"-dir=" + file}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "fleet: server 1: ")
	require.NotContains(t, stderr.String(), "takes no connections")
	t.Log(stderr.String())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	stderr.Reset()
	require.Equal(t, exitFailed, run(t.Context(), []string{"-listen=" + taken.Addr().String()}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "address already in use")
	require.Empty(t, stdout.String())
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-h"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "(default 5s)")
	require.Empty(t, stderr.String())
}

func TestBadFlags(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-orders=-1", "invalid value -1 for flag -orders: allowed is 0 to 10000000"},
		{"-clients=0", "invalid value 0 for flag -clients: allowed is 1 to 1000"},
		{"-workers=-1", "invalid value -1 for flag -workers: allowed is 0 to 1000"},
		{"-workers=0", "-workers=0 with orders needs workers elsewhere: set -nats"},
		{"-kills=1001", "invalid value 1001 for flag -kills: allowed is 0 to 1000"},
		{"-servers=2", "invalid value 2 for flag -servers: a cluster needs 3"},
		{"-servers=10", "invalid value 10 for flag -servers: allowed is 1 to 9"},
		{"-replicas=2", "invalid value 2 for flag -replicas: allowed is 0 to 1, the number of servers"},
		{"-for=0s", "invalid value 0s for flag -for: allowed is 1s to 24h0m0s"},
		{"-least=0s", "invalid value 0s for flag -least: allowed is 1ms to 24h0m0s"},
		{"-most=10ms", "invalid value 10ms for flag -most: allowed is 1s to 24h0m0s"},
		{"-tick=1us", "invalid value 1µs for flag -tick: allowed is 1ms to 1s"},
		{"-lease=1ms", "invalid value 1ms for flag -lease: allowed is 300ms to 1m0s"},
		{"-tick=1s", "invalid value 3s for flag -lease: allowed is 10s to 1m0s"},
		{"-window=99ms", "invalid value 99ms for flag -window: allowed is 100ms to 24h0m0s"},
		{"-window=5", `invalid value "5" for flag -window`},
		{"-rate=-1", "invalid value -1 for flag -rate: allowed is 0 to 1000000"},
		{"-pay=NaN", "invalid value NaN for flag -pay: allowed is 0 to 1"},
		{"-listen=nowhere", `invalid value "nowhere" for flag -listen`},
		{"-nats=nats://a:1 -dir=b", "-servers, -dir, -listen and -fsync are for servers that this program starts"},
		{"-nats=nats://a:1 -listen=:4222", "-servers, -dir, -listen and -fsync are for servers that this program starts"},
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
