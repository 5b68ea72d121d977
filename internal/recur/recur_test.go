package recur

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Jitter of a schedule with jitter keeps the exact one apart, and does not change the schedule that it was made from.
func TestWithJitter(t *testing.T) {
	one := WithJitter(Every(time.Second), 0.5)
	two, three := WithJitter(one, 0.25), WithJitter(one, 1)
	require.Equal(t, &Jittered{Every(time.Second), Jitter{0.5}}, one)
	require.Equal(t, &Jittered{Every(time.Second), Jitter{0.5, 0.25}}, two)
	require.Equal(t, &Jittered{Every(time.Second), Jitter{0.5, 1}}, three)
	require.NoError(t, Check(two))
	require.Error(t, Check(WithJitter(nil, 0.5)))
	require.Error(t, Check(WithJitter(Every(0), 0.5)))
	require.Error(t, Check(WithJitter(one, 1.5)))
	prev := time.Unix(0, 0)
	for range 1000 {
		next := two.Next(prev).Sub(prev)
		require.True(t, next >= time.Second && next <= 1875*time.Millisecond, next)
	}
}
