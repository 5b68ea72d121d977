package deadlines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Three servers have reached their limit. They then have no leader. The calls, the log and the figures say that there
// is no room. When an operator raises the limit, all goes on.
func TestFullCluster(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	urls, _, raise := serveLimited(t, 3, limit)
	var l log
	cfg := quick()
	cfg.Logger, cfg.Lease, cfg.Timeout = l.logger(), 2*time.Second, 4*time.Second
	s := mustOpen(t, urls, cfg)
	s.mustWork(t, nil)
	const far = 50
	came := time.Now().Add(12 * time.Second)
	for i := range far {
		s.mustSet(t, fmt.Sprint("far/", i), time.Until(came))
	}
	payload := make([]byte, 64<<10)
	n := 0
	var err error
	for ; err == nil; n++ {
		err = s.Set(t.Context(), fmt.Sprint("large/", n), time.Now().Add(time.Hour), payload)
	}
	require.ErrorIs(t, err, ErrNoRoom)
	await(t, "the servers have no leader", func() bool {
		err := s.Set(t.Context(), "large", time.Now().Add(time.Hour), payload)
		require.Error(t, err)
		return strings.Contains(err.Error(), "no room: servers that have reached a limit elect no leader")
	})
	await(t, "it is logged", func() bool { return strings.Contains(l.String(), `because="no room: servers that`) })
	await(t, "all have come", func() bool { return s.Stats().Overdue == far })
	require.True(t, s.Stats().Full)
	time.Sleep(fullFor + time.Second) // since a server has refused something
	require.True(t, s.Stats().Full)
	require.NotContains(t, l.String(), "no leader: too few")
	await(t, "calls do not wait", func() bool {
		_, err := s.Cancel(t.Context(), "far/0")
		require.Error(t, err)
		return errors.Is(err, ErrNoRoom) && !errors.Is(err, context.DeadlineExceeded)
	})

	raise(64 << 20)
	raised := time.Now()
	for i := range far {
		s.awaitStatus(t, fmt.Sprint("far/", i), Handled)
	}
	t.Logf("all were handled %v after the limit was raised", time.Since(raised).Round(time.Millisecond))
	await(t, "the figures say so", func() bool { st := s.Stats(); return st.Overdue == 0 && !st.Full })
	r := s.mustCheck(t)
	require.Equal(t, n-1, r.Pending)
}
