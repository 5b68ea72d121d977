package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// far is longer than any test waits, unless something hangs.
const far = 60 * time.Second

// The server leaves two goroutines: one that keeps the time for the whole process, and sometimes one of
// a store that it was opening when it was stopped.
func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(server+"/ats.Register.func1"),
		goleak.IgnoreAnyFunction(server+".(*fileStore).flushStreamStateLoop"))
}

// mustServe starts servers that end with the test.
func mustServe(t *testing.T, n int) *servers {
	t.Helper()
	s, err := startServers(n, t.TempDir(), "127.0.0.1:0", false)
	require.NoError(t, err)
	t.Cleanup(s.stopAll)
	return s
}

// mustParse returns the options that the program has with these arguments.
func mustParse(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parseOptions(args)
	require.NoError(t, err)
	return o
}

// A fixture is a fleet on one server, with the workers that a test starts.
type fixture struct {
	*fleet
	t *testing.T
	s *servers
}

func newFixture(t *testing.T, args ...string) *fixture {
	t.Helper()
	s := mustServe(t, 1)
	f, err := newFleet(t.Context(), mustParse(t, append([]string{"-workers=0", "-nats=" + s.urls()}, args...)...), s.urls(), io.Discard)
	require.NoError(t, err)
	t.Cleanup(func() {
		f.stop()
		f.client.close()
	})
	return &fixture{f, t, s}
}

// mustHire starts a worker, and returns it.
func (f *fixture) mustHire() *worker {
	f.t.Helper()
	require.NoError(f.t, f.hire(f.t.Context()))
	return f.workers[len(f.workers)-1]
}

// mustPlace places an order, deadline first.
func (f *fixture) mustPlace(id string, timeout time.Duration) (deadline time.Time) {
	f.t.Helper()
	deadline = time.Now().Add(timeout).Round(0)
	f.mustPlaceDeadline(id, deadline)
	require.NoError(f.t, f.client.ledger.open(f.t.Context(), id, "test", deadline))
	return deadline
}

func (f *fixture) mustPlaceDeadline(id string, deadline time.Time) {
	f.t.Helper()
	require.NoError(f.t, f.client.deadlines.place(f.t.Context(), id, deadline))
}

// mustEnd asks for the end of an order, and returns what end does.
func (f *fixture) mustEnd(id string, to state) (order, bool) {
	f.t.Helper()
	o, ended, err := f.client.ledger.end(f.t.Context(), request{id: id, to: to, by: "test"})
	require.NoError(f.t, err)
	return o, ended
}

func (f *fixture) mustRead() *books {
	f.t.Helper()
	b, err := f.client.readBooks(f.t.Context())
	require.NoError(f.t, err)
	return b
}

// await returns when a condition holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, far, 5*time.Millisecond, what)
}

// awaitQuiet returns the books when they have n orders, none is open, and no deadline is left.
func (f *fleet) awaitQuiet(t *testing.T, n int) (b *books) {
	t.Helper()
	deadline := time.Now().Add(far)
	for {
		var err error
		b, err = f.client.readBooks(context.Background())
		if err == nil && len(b.orders) == n && b.count(open) == 0 && len(b.waiting) == 0 {
			return b
		}
		if time.Now().After(deadline) {
			require.NoError(t, err)
			require.Len(t, b.orders, n)
			require.Zero(t, b.count(open), "open orders")
			require.Empty(t, b.waiting, "deadlines in the stream")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A testWriter logs what is written to it.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimRight(p, "\n"))
	return len(p), nil
}

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprint(n, " ", of, "s")
}
