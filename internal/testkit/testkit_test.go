package testkit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A model ends when its share of time is over, but not before it has done the least that it must. At full size, and when
// it repeats a seed, it does all.
func TestRounds(t *testing.T) {
	for _, c := range []struct {
		name, variable, value string
		passed                time.Duration // of the share, before the model begins
		want                  int
	}{
		{"in time", "", "", 0, 10},
		{"late", "", "", time.Hour, 3},
		{"full", "HASHEDWHEEL_FULL", "1", time.Hour, 10},
		{"seed", "HASHEDWHEEL_SEED", "1", time.Hour, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("HASHEDWHEEL_FULL", "")
			t.Setenv("HASHEDWHEEL_SEED", "")
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
			}
			s := NewShare(t)
			if !s.end.IsZero() {
				s.end = s.end.Add(-c.passed)
			}
			n := 0
			for i := range s.Rounds(3, 10) {
				require.Equal(t, n, i)
				n++
			}
			require.Equal(t, c.want, n)
			require.Equal(t, Share{s.end, c.want, 10}, *s)
			for range s.Rounds(3, 10) {
				break
			}
			require.Equal(t, 20, s.most)
		})
	}
}
