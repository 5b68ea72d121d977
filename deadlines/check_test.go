package deadlines

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Check finds each kind of damage.
func TestCheckFindsFaults(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	ctx := t.Context()
	put := func(key string, records ...record) {
		for _, r := range records {
			_, err := s.link().bucket.Put(ctx, key, r.encode())
			require.NoError(t, err)
		}
	}
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	r := func(status Status, at time.Time, attempts int) record {
		return record{Status: status, At: at, Attempts: attempts, Token: "t"}
	}
	for want, damage := range map[string]func(key string){
		"running 59m":                          func(key string) { put(key, r(Running, future, 1), r(Canceled, future, 1)) },
		"handled 59m":                          func(key string) { put(key, r(Handled, future, 1)) },
		"handled without a call":               func(key string) { put(key, r(Handled, past, 0)) },
		"handled after it was canceled":        func(key string) { put(key, r(Canceled, past, 1), r(Handled, past, 1)) },
		"pending after it was handled":         func(key string) { put(key, r(Handled, past, 1), r(Pending, past, 1), r(Handled, past, 1)) },
		"canceled while a handler was running": func(key string) { put(key, r(Running, past, 1), r(Canceled, past, 1)) },
		"its time has changed by":              func(key string) { put(key, r(Pending, past, 0), r(Canceled, future, 0)) },
		"1 attempts after 2":                   func(key string) { put(key, r(Running, past, 2), r(Handled, past, 1)) },
		"but its wake-up t is not":             func(key string) { put(key, r(Pending, future, 0)) },
		`status "odd"`:                         func(key string) { put(key, r("odd", future, 0)) },
	} {
		damage("key")
		report, err := Check(ctx, s.link().nc, s.cfg.Name)
		require.NoError(t, err)
		require.Contains(t, report.FirstFaults[0], `"key", revision `)
		require.Contains(t, report.FirstFaults[0], want)
		require.NoError(t, s.link().bucket.Purge(ctx, "key"))
	}

	// What looks odd but is right: a deadline is set again, and a claim follows a claim.
	other := r(Pending, future, 0)
	other.Token = "u"
	require.NoError(t, s.wake(ctx, "u", wakeup{Key: "key", At: future}))
	put("key", r(Running, past, 1), r(Running, past, 2), r(Handled, past, 2), other)
	s.mustSet(t, "overdue", -time.Minute)
	report := s.mustCheck(t)
	require.Equal(t, []int{2, 2, 1}, []int{report.Keys, report.Pending, report.Overdue})
	require.Greater(t, report.MostOverdue, 59*time.Second)
	require.Less(t, report.MostOverdue, 2*time.Minute)
	report.MostOverdue = time.Minute
	text := "keys 2: pending 2, running 0, handled 0, canceled 0\nrevisions 5, wake-ups 2, set aside 0\noverdue 1, by up to 1m0s\nfaults 0"
	require.Equal(t, text, fmt.Sprint(report))
	require.Equal(t, text, fmt.Sprintf("%+v", *report), "not the records that it holds")

	_, err := Check(ctx, s.link().nc, "nothing")
	require.ErrorContains(t, err, `deadlines: check "nothing"`)
}

// After the restoration of a backup records may be without wake-ups. Repair sets them again, except those that have
// changed meanwhile.
func TestRepair(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	ctx := t.Context()
	at := s.mustSet(t, "pending", -time.Minute)
	s.mustSet(t, "running", -time.Minute)
	s.mustSet(t, "changed", -time.Minute)
	r, err := s.load(ctx, "running")
	require.NoError(t, err)
	r.Status, r.Attempts = Running, 1
	_, err = s.save(ctx, "running", r)
	require.NoError(t, err)
	require.NoError(t, s.link().wakeups.Purge(ctx))
	report, err := Check(ctx, s.link().nc, s.cfg.Name)
	require.NoError(t, err)
	require.Equal(t, 3, report.Faults, "%q", report.FirstFaults)
	s.mustSet(t, "changed", time.Hour)
	repaired, err := s.Repair(ctx, report)
	require.NoError(t, err)
	require.Equal(t, 2, repaired)
	s.mustCheck(t)
	c := s.mustWork(t, nil)
	s.awaitStatus(t, "pending", Handled)
	s.awaitStatus(t, "running", Handled)
	require.True(t, at.Equal(c.of("pending")[0].At))
	require.Equal(t, "payload of pending", string(c.of("pending")[0].Payload))
	require.Equal(t, Pending, s.mustGet(t, "changed").Status)
}
