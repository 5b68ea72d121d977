package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// far is longer than any test waits, unless something hangs.
const far = 60 * time.Second

// beProgram is set to make the test binary run as the program, because the demonstration starts itself.
const beProgram = "ORDERS_TEST_BE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(beProgram) != "" {
		main()
	}
	os.Setenv(beProgram, "1")
	os.Exit(m.Run())
}

// figure returns a number of the report.
func figure(t *testing.T, report, name string) int {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + name + ` +(\d+)`).FindStringSubmatch(report)
	require.NotNil(t, match, "no %q in\n%s", name, report)
	n, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return n
}

var small = []string{"-kills=4", "-every=300ms", "-timeout=300ms", "-horizon=150ms", "-clients=5"}

func TestDemonstration(t *testing.T) {
	file := newFile(t)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append(small, "-db="+file), nil, &stdout, &stderr)
	require.Equal(t, exitOK, code, "%s\n%s", &stdout, &stderr)
	report := stdout.String()
	t.Log(report)
	require.Equal(t, 4, figure(t, report, "kills"))
	require.Equal(t, 4, strings.Count(stderr.String(), "killed after"))
	require.Equal(t, figure(t, report, "orders"), figure(t, report, "paid")+figure(t, report, "canceled"))
	require.Positive(t, figure(t, report, "paid"))
	require.Positive(t, figure(t, report, "canceled"))

	// The database is kept, and another run continues with it.
	var kept bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-look", "-db=" + file}, nil, &kept, &stderr), stderr.String())
	require.Contains(t, kept.String(), strconv.Itoa(figure(t, report, "orders"))+" orders: 0 open, ")
	stdout.Reset()
	code = run(t.Context(), append(small, "-db="+file, "-kills=0"), nil, &stdout, &stderr)
	require.Equal(t, exitOK, code, "%s\n%s", &stdout, &stderr)
	require.Greater(t, figure(t, stdout.String(), "orders"), figure(t, report, "orders"))
	require.Equal(t, 0, figure(t, stdout.String(), "kills"))
}

// No order is paid, and all orders that a killed process left are overdue when the next one starts.
func TestNobodyPays(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-kills=2", "-every=500ms", "-timeout=1ms", "-pay=0"}, nil, &stdout, &stderr)
	require.Equal(t, exitOK, code, "%s\n%s", &stdout, &stderr)
	require.Zero(t, figure(t, stdout.String(), "paid"))
	require.Positive(t, figure(t, stdout.String(), "canceled"))
}

// build builds the program as a user does, and returns its path.
func build(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "orders.exe")
	out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return exe
}

func TestProgram(t *testing.T) {
	exe := build(t)

	t.Run("help", func(t *testing.T) {
		out, err := exec.Command(exe, "-h").Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "(default 2s)")
	})

	t.Run("interrupt", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("Windows cannot send an interrupt to a process")
		}
		file := newFile(t)
		var stdout, stderr bytes.Buffer
		cmd := exec.Command(exe, "-db="+file, "-kills=1000", "-every=100ms", "-timeout=1m")
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		require.NoError(t, cmd.Start())
		awaitOrders(t, file)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		ended := time.AfterFunc(far, func() { cmd.Process.Kill() })
		defer ended.Stop()
		cmd.Wait()
		require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), "%s\n%s", &stdout, &stderr)
		require.Positive(t, figure(t, stdout.String(), "open"), "the customers have a minute to pay, so orders are still open")
		awaitClosed(t, file)
	})

	// A shop ends when the process that started it ends, in any way.
	t.Run("orphan", func(t *testing.T) {
		file := newFile(t)
		cmd := exec.Command(exe, "-db="+file, "-kills=1", "-every=1h")
		require.NoError(t, cmd.Start())
		awaitOrders(t, file)
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		awaitClosed(t, file)
	})
}

// awaitOrders waits until a process has written to the database.
func awaitOrders(t *testing.T, file string) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := os.Stat(file)
		return err == nil && info.Size() > 64<<10
	}, far, 10*time.Millisecond)
}

// awaitClosed waits until no process has the database open. The database must have orders then.
func awaitClosed(t *testing.T, file string) {
	t.Helper()
	var c *contents
	require.Eventually(t, func() (ok bool) {
		var err error
		c, err = readContents(file)
		return err == nil
	}, far, 10*time.Millisecond)
	require.NoError(t, verify(c, newAcks(), false))
	require.NotEmpty(t, c.orders)
}

// A shop that a user starts: it prints what it did, and there are two ways to end it.
func TestShop(t *testing.T) {
	file := newFile(t)
	serve := func(ctx context.Context, stdin io.Reader, args ...string) (*acks, int) {
		t.Helper()
		a := newAcks()
		var stderr bytes.Buffer
		args = append([]string{"-shop", "-db=" + file, "-clients=3"}, args...)
		code := run(ctx, args, stdin, &lineReader{acks: a}, &stderr)
		require.NoError(t, a.wrong)
		require.Empty(t, stderr.String())
		return a, code
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	first, code := serve(ctx, neverEnds(t), "-timeout=1h", "-pay=0")
	require.Equal(t, exitOK, code)
	require.Positive(t, len(first.created))
	require.Empty(t, first.canceled)
	require.Equal(t, loaded{}, first.loaded)

	second, code := serve(t.Context(), strings.NewReader(""), "-timeout=1h", "-pay=0")
	require.Equal(t, exitOK, code, "the end of stdin ends the shop")
	require.Equal(t, loaded{beyond: len(first.created)}, second.loaded)

	c, err := readContents(file)
	require.NoError(t, err)
	for id := range second.created {
		first.created[id]++
	}
	require.NoError(t, verify(c, first, false))
	require.Equal(t, len(c.orders), len(first.created), "a shop that was not killed has acknowledged all")
	require.ErrorContains(t, verify(c, first, true), "are still open at the end")
}

// neverEnds returns a reader that blocks until the test is over.
func neverEnds(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r
}

func TestShopDrains(t *testing.T) {
	file := newFile(t)
	a := newAcks()
	var stderr bytes.Buffer
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		time.Sleep(100 * time.Millisecond)
		io.WriteString(w, drainCommand+"\n")
	}()
	code := run(t.Context(), []string{"-shop", "-db=" + file, "-timeout=200ms", "-pay=0.5"}, r, &lineReader{acks: a}, &stderr)
	require.Equal(t, exitOK, code, stderr.String())
	c, err := readContents(file)
	require.NoError(t, err)
	require.NoError(t, verify(c, a, true))
	require.Len(t, a.created, len(c.orders))
	require.Len(t, a.paid, c.count(paid))
	require.Len(t, a.canceled, c.count(canceled))
}

// A demonstration fails if its second process does not work.
func TestDemonstrationFails(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-every=1m", "-db=" + t.TempDir()}, nil, &stdout, &stderr) // a directory
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr.String(), errEnded.Error())
	require.Empty(t, stdout.String())
}

// When a check fails, the demonstration prints the report, names the check, and fails.
func TestDemonstrationFindsFault(t *testing.T) {
	file := newFile(t)
	s := mustOpen(t, file)
	o, err := s.create(time.Hour)
	require.NoError(t, err)
	_, _, err = s.pay(o.id)
	require.NoError(t, err)
	o.state = canceled
	require.NoError(t, s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(ordersBucket).Put(key(o.id), o.encode())
	}))
	require.NoError(t, s.close())

	const want = "orders: order 1 is canceled, but paid by the audit trail\n"
	for _, args := range [][]string{append(small, "-kills=0", "-db="+file), {"-look", "-db=" + file}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), args, nil, &stdout, &stderr))
		require.Contains(t, stderr.String(), want)
		require.Contains(t, stdout.String(), "orders")
	}
}

func TestBadFlags(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-timeout=0s", "invalid value 0s for flag -timeout: allowed is 1ms to 24h0m0s"},
		{"-timeout=2", `invalid value "2" for flag -timeout`},
		{"-tick=1us", "invalid value 1µs for flag -tick: allowed is 1ms to 1s"},
		{"-horizon=99ms", "invalid value 99ms for flag -horizon: allowed is 100ms to 24h0m0s"},
		{"-every=-1s", "invalid value -1s for flag -every: allowed is 1ms to 1h0m0s"},
		{"-clients=0", "invalid value 0 for flag -clients: allowed is 1 to 1000"},
		{"-pay=NaN", "invalid value NaN for flag -pay: allowed is 0 to 1"},
		{"-pay=1.1", "invalid value 1.1 for flag -pay: allowed is 0 to 1"},
		{"-kills=-1", "invalid value -1 for flag -kills: allowed is 0 to 1000"},
		{"-look -shop", "-look and -shop are both set"},
		{"-look", "need a database: set -db"},
		{"-shop", "need a database: set -db"},
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
