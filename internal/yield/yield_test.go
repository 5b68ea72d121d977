package yield

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goroutines yield to one that is late, for yieldFor. If it has not gone on by then, they pause, each time for twice as
// long as before. Once it has gone on, they yield to the next one without a pause.
func TestYields(t *testing.T) {
	var c Control
	check := func(want, late bool, times ...time.Duration) {
		t.Helper()
		for _, now := range times {
			require.Equal(t, want, c.Yields(now, late), now)
		}
	}
	check(false, false, 0, time.Second-1)
	from, pause := time.Second, minPause
	for range 10 {
		check(true, true, from, from+yieldFor-1)
		check(false, true, from+yieldFor, from+pause-1)
		from, pause = from+pause, min(2*pause, maxPause)
	}
	require.Equal(t, maxPause, pause)
	check(true, true, from)
	check(false, false, from+1) // it has gone on
	from += 2 * yieldFor
	check(true, true, from, from+yieldFor-1)
	check(false, true, from+yieldFor, from+minPause-1)
	check(true, true, from+minPause)
}
