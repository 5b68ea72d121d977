//go:build unix

package deadlines_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What one process has set, another one can cancel at once, although it may ask a server that does not have it yet.
func TestCancelAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := &storm{t: t, dir: dir, cluster: startCluster(t, dir)}
	s.openStores()
	s.cluster.awaitHealthy(3)
	for i := range 900 { // at first only the leader answers
		key := fmt.Sprint(i)
		require.NoError(t, s.stores[i%3].Set(t.Context(), key, time.Now().Add(time.Hour), nil))
		canceled, err := s.stores[i/3%3].Cancel(t.Context(), key)
		require.NoError(t, err)
		require.True(t, canceled, key)
	}
}
