package deadlines

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Requests that fail for a while are logged once, and then every half minute, and again when they succeed.
func TestHealth(t *testing.T) {
	var l log
	h := health{log: l.logger(), forget: time.Minute}
	now := time.Now()
	bad := errors.New("no room")
	said := func(f func()) string {
		before := len(l.String())
		f()
		return l.String()[before:]
	}
	at := func(after time.Duration, err error) string {
		return said(func() {
			h.reportAt("a", err, now.Add(after))
			h.reportAt("b", nil, now.Add(after)) // another kind, which succeeds
			h.settleAt(now.Add(after))
		})
	}
	require.Empty(t, at(0, nil))
	require.Empty(t, at(time.Second, bad))
	require.Empty(t, at(5*time.Second, bad))
	require.Empty(t, at(5500*time.Millisecond, nil))
	require.Empty(t, at(10500*time.Millisecond, nil))
	require.Empty(t, h.failures, "it was too short")

	require.Empty(t, at(11*time.Second, bad))
	require.Empty(t, at(12*time.Second, nil), "others of the kind may fail")
	require.Empty(t, at(15*time.Second, bad))
	text := at(16*time.Second, bad)
	require.Contains(t, text, "deadlines: requests have failed for 5s")
	require.Contains(t, text, `request=a because="no room"`)
	require.Empty(t, at(17*time.Second, bad))
	require.Empty(t, at(45*time.Second, bad))
	require.Contains(t, at(46*time.Second, bad), "requests have failed for 35s")
	other := reason{what: "no leader", err: bad}
	require.Empty(t, at(50*time.Second, other))
	require.Contains(t, at(51*time.Second, other), `because="no leader: no room"`)
	require.Empty(t, at(57*time.Second, other))
	require.Empty(t, at(60*time.Second, nil))
	text = at(62*time.Second, nil)
	require.Contains(t, text, "requests succeed again")
	require.Contains(t, text, "after=46s")
	require.Empty(t, at(70*time.Second, nil))

	// Nothing follows a failure, because another worker has got the deadline.
	require.Empty(t, at(100*time.Second, bad))
	require.Contains(t, at(110*time.Second, bad), "requests have failed for 10s")
	settle := func(after time.Duration) string { return said(func() { h.settleAt(now.Add(after)) }) }
	require.Empty(t, settle(169*time.Second))
	require.Contains(t, settle(170*time.Second), "requests that failed are not repeated any more")
	require.Empty(t, at(200*time.Second, bad), "it is a new failure")

	// A process that ends cancels its requests.
	require.Empty(t, at(206*time.Second, fmt.Errorf("get: %w", context.Canceled)))
	require.Contains(t, at(207*time.Second, bad), "requests have failed for 7s")
}
