package octave

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test checks the durations on both sides of each bound between two classes. The classes follow one another
// without a gap, and a class is at most as wide as a quarter of its durations, or 1,526 ns.
func TestClasses(t *testing.T) {
	require.Zero(t, Class(0))
	require.Equal(t, Classes-1, Class(math.MaxInt64))
	for class := range Classes - 1 {
		bound := UpperBound(class)
		require.Equal(t, class, Class(bound))
		require.Equal(t, class+1, Class(bound+1))
		first := time.Duration(0)
		if class > 0 {
			first = UpperBound(class-1) + 1
		}
		require.LessOrEqual(t, bound-first, max(first/4, 1526), "class %d", class)
	}
	require.Greater(t, UpperBound(Classes-2), 3*time.Hour)
}

// Each Bound is the upper bound of its class, and one of them is fifty milliseconds.
func TestBound(t *testing.T) {
	for doublings := range 32 {
		bound := Bound(doublings)
		require.Equal(t, bound, UpperBound(Class(bound)))
	}
	require.Equal(t, 50*time.Millisecond, Bound(15))
}

// A Recorder that nothing has been recorded in has no array of counts, and is empty.
func TestRecorder(t *testing.T) {
	var r Recorder
	counts, sum := r.Read()
	require.True(t, counts == [Classes]uint64{} && sum == 0)
	r.Record(time.Second, 3)
	r.Record(time.Millisecond, 1)
	var want [Classes]uint64
	want[Class(time.Second)], want[Class(time.Millisecond)] = 3, 1
	counts, sum = r.Read()
	require.Equal(t, want, counts)
	require.Equal(t, 3001*time.Millisecond, sum)
}
