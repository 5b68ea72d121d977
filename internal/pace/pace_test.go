package pace

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPause(t *testing.T) {
	const tick = time.Millisecond
	count := uint64(math.MaxUint64 - 1000)
	p := Pace{Count: count}
	now := time.Duration(0)
	step := func(d time.Duration, n uint64) bool {
		now += d
		count += n
		return p.Pause(now, count, tick)
	}
	fast := uint64(tick/PauseTime) + 1
	require.True(t, step(tick, fast-1))
	require.False(t, step(tick, fast))
	require.False(t, step(tick*3/4-1, 0), "too early to tell")
	require.True(t, step(tick, 0))
	require.False(t, step(tick, fast))
	for range 300 {
		require.False(t, step(tick, fast))
	}
	require.Equal(t, MaxUnwatched, p.Interval(tick))
	p.At, p.Count = now, count
	require.False(t, step(MaxUnwatched*3/4-1, 0), "too short to count after so long")
	require.True(t, step(1, 0))
	require.Equal(t, 100*time.Millisecond, p.Interval(100*time.Millisecond))
}
