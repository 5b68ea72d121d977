package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// All tasks run. A pool of 15 workers that does not block has time for 1,500 tasks of 10 ms in a second.
func TestServe(t *testing.T) {
	for _, c := range []struct {
		workers           int
		blocking, refuses bool
	}{{15, false, true}, {15, true, false}, {2000, false, false}} {
		st, left, err := serve(t.Context(), c.workers, c.blocking)
		require.NoError(t, err)
		assert.Zero(t, left)
		assert.EqualValues(t, tasks, st.Expired)
		assert.Equal(t, c.refuses, st.Unsubmitted > 0, "%+v: %d", c, st.Unsubmitted)
	}
}
