//go:build unix

package deadlines_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/stretchr/testify/require"
)

// The stream of wake-ups of a cluster is removed while thousands of deadlines are pending. What comes meanwhile is not
// much later than what had come before, and the workers set all again about as fast as 32 callers have set it.
// HASHEDWHEEL_SOAK makes the test as large as a store in use.
func TestRepairOfMany(t *testing.T) {
	n := 300
	if soak() {
		n = 6000
	}
	t.Parallel()
	dir := t.TempDir()
	c := startCluster(t, dir)
	var log lines
	nc, err := deadlines.Connect(c.urls(0))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	s, err := deadlines.Open(t.Context(), nc, deadlines.Config{Lease: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	c.awaitHealthy(3)
	calls := newLateness()
	b := &bench{t: t}
	b.work(s, calls.handle)

	set := setMany(t, s, "far/", n, 32, func(int) time.Time { return time.Now().Add(time.Hour) })
	due := n / 10 // these come while the workers look, and while they set again
	came, spread := time.Now().Add(time.Second+set/10), 10*time.Second+set
	setMany(t, s, "near/", due, 32, func(i int) time.Time { return came.Add(spread * time.Duration(i) / time.Duration(due)) })
	removed := time.Now()
	require.NoError(t, c.admin.DeleteStream(t.Context(), "deadlines-wakeups"))
	var first time.Time
	eventuallyIn(t, time.Hour, "all are set again", func() error {
		st := s.Stats()
		require.GreaterOrEqual(t, st.Stranded, 0)
		if first.IsZero() && st.Stranded > 0 {
			first = time.Now()
		}
		if first.IsZero() || st.Stranded > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	repair := time.Since(first)
	eventuallyIn(t, 10*time.Minute, "those that have come are handled", func() error {
		if calls.n() < due {
			return errors.New("not yet")
		}
		return nil
	})
	t.Logf("%d pending: most of them set in %v; looked for %v, set again in %v; %d came meanwhile, late by %v",
		n+due, set.Round(time.Millisecond), first.Sub(removed).Round(time.Millisecond), repair.Round(time.Millisecond), due, calls.text())
	require.Less(t, calls.most(), 15*time.Second)
	require.Contains(t, log.String(), "are set again")
	if soak() {
		require.Less(t, repair, 3*set, "32 callers have set it in %v", set)
	}
}
