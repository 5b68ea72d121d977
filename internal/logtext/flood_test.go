package logtext

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The first message of a kind is logged at once. Of the next ones the last is, a minute after the line before, with their number. A
// second kind does not wait for the first.
func TestFlood(t *testing.T) {
	var f Flood
	var got []string
	take := func(at time.Duration, all bool) (next time.Duration) {
		before := len(got)
		for _, w := range f.Take(at, all) {
			w()
		}
		slices.Sort(got[before:])
		return f.Next()
	}
	add := func(at time.Duration, kind string, n int) (first bool) {
		if times, now := f.Add(kind, at); now {
			got = append(got, fmt.Sprint(at, " ", kind, n, " ", times))
			return false
		}
		return f.Keep(kind, at, func(times int) { got = append(got, fmt.Sprint("kept ", kind, n, " ", times)) })
	}
	const none = time.Duration(math.MaxInt64)
	require.False(t, add(time.Second, "a", 1))
	require.Equal(t, none, f.Next())
	require.True(t, add(11*time.Second, "a", 2))
	require.Equal(t, 61*time.Second, f.Next())
	require.False(t, add(21*time.Second, "a", 3))
	require.False(t, add(31*time.Second, "b", 1))
	require.True(t, add(41*time.Second, "b", 2))
	require.Equal(t, 61*time.Second, f.Next())
	require.Equal(t, 91*time.Second, take(61*time.Second, false))
	require.Equal(t, none, take(91*time.Second, false))
	require.Equal(t, none, take(92*time.Second, false))
	require.Equal(t, []string{"1s a1 1", "31s b1 1", "kept a3 2", "kept b2 1"}, got)

	got = nil
	require.True(t, add(92*time.Second, "a", 4))
	require.Equal(t, 121*time.Second, f.Next())
	require.False(t, add(121*time.Second, "a", 5), "a minute after the last line, before Take has come")
	require.Equal(t, none, f.Next())
	require.True(t, add(122*time.Second, "a", 6))
	require.Equal(t, none, take(123*time.Second, true))
	require.Equal(t, []string{"2m1s a5 2", "kept a6 1"}, got)
}

// The line of a kind comes a minute after its last one, also if one of another kind was to come before, or later.
func TestFloodWaitsAMinute(t *testing.T) {
	var f Flood
	keep := func(at time.Duration, kind string) {
		if _, now := f.Add(kind, at); !now {
			f.Keep(kind, at, func(int) {})
		}
	}
	keep(time.Second, "early")
	keep(31*time.Second, "late")
	keep(32*time.Second, "late")
	require.Equal(t, 91*time.Second, f.Next())
	keep(33*time.Second, "early")
	require.Equal(t, 61*time.Second, f.Next())
	require.Len(t, f.Take(61*time.Second, false), 1)
	require.Equal(t, 91*time.Second, f.Next())
}

// However many kinds there are, a Flood keeps few, and messages of the others are logged once a minute too. It forgets a kind whose
// last line was a minute ago.
func TestFloodOfKinds(t *testing.T) {
	var f Flood
	lines := 0
	for at := range 3 {
		for i := range 10 * maxKinds {
			if _, now := f.Add(fmt.Sprint(at, i), time.Duration(at)*time.Minute); now {
				lines++
			} else {
				f.Keep(fmt.Sprint(at, i), time.Duration(at)*time.Minute, func(int) {})
			}
		}
		require.LessOrEqual(t, len(f.kinds), maxKinds+1)
	}
	require.Equal(t, 3*(maxKinds+1)-2, lines, "the others have a line in each minute, and from the second on one of the places")
}
