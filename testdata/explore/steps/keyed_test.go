package hashedwheel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// keyed returns a Keyed with one shard, and a slice that collects the expired values.
func (s *scene) keyed() (k *Keyed[int, int], ends *[]int) {
	ends = new([]int)
	k = NewKeyed(s.timer, func(_, value int) { *ends = append(*ends, value) })
	k.shards = k.shards[:1]
	return k, ends
}

// checkKeyed checks what has become of two values, of which only the first may expire. Each has ended exactly
// once, or is still there and pending.
func (s *scene) checkKeyed(k *Keyed[int, int], ends []int, removed int) {
	pass(10 * tick)
	require.Equal(s, k.Len(), s.timer.Pending())
	require.LessOrEqual(s, len(ends), 1)
	require.NotContains(s, ends, 2, "not due for an hour")
	replaced := 2 - int(s.timer.Stats().Accepted)
	require.Equal(s, 2, len(ends)+removed+replaced+k.Len(), "%v expired, %d removed, %d replaced, %d still there",
		ends, removed, replaced, k.Len())
}

// A key is touched while it expires and is set again. A value that Touch returns does not expire.
func TestStepsKeyedTouch(t *testing.T) {
	search(t, plain.quickly(4), timed, func(s *scene) {
		k, ends := s.keyed()
		require.NoError(s, k.Set(1, 1, 0))
		s.tickAway(0)
		touched := 0
		s.Go(func() { touched, _ = k.Touch(1, hour) })
		s.Go(func() { require.NoError(s, k.Set(1, 2, hour)) })
		s.Race(tick)
		s.checkKeyed(k, *ends, 0)
		require.NotContains(s, *ends, touched)
		value, ok := k.Get(1)
		require.True(s, ok)
		require.Equal(s, 2, value)
	})
}

// The keys are cleared while a key expires and is set again.
func TestStepsKeyedClear(t *testing.T) {
	search(t, plain.quickly(4), timed, func(s *scene) {
		k, ends := s.keyed()
		require.NoError(s, k.Set(1, 1, 0))
		s.tickAway(0)
		removed := 0
		s.Go(func() { removed = k.Clear() })
		s.Go(func() { require.NoError(s, k.Set(1, 2, hour)) })
		s.Race(tick)
		s.checkKeyed(k, *ends, removed)
	})
}
