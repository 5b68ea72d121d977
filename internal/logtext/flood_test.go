package logtext

import (
	"fmt"
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
	take := func(at time.Duration, all bool) (wait time.Duration) {
		write, wait := f.Take(at, all)
		before := len(got)
		for _, w := range write {
			w()
		}
		slices.Sort(got[before:])
		return wait
	}
	add := func(at time.Duration, kind string, n int) (wait time.Duration) {
		if times, now := f.Add(kind, at); now {
			got = append(got, fmt.Sprint(at, " ", kind, n, " ", times))
			return 0
		}
		return f.Keep(kind, at, func(times int) { got = append(got, fmt.Sprint("kept ", kind, n, " ", times)) })
	}
	require.Zero(t, add(time.Second, "a", 1))
	require.Equal(t, 50*time.Second, add(11*time.Second, "a", 2))
	require.Zero(t, add(21*time.Second, "a", 3))
	require.Zero(t, add(31*time.Second, "b", 1))
	require.Zero(t, add(41*time.Second, "b", 2), "a Take comes, at 61 s")
	require.Equal(t, 30*time.Second, take(61*time.Second, false))
	require.Zero(t, take(91*time.Second, false))
	require.Zero(t, take(92*time.Second, false))
	require.Equal(t, []string{"1s a1 1", "31s b1 1", "kept a3 2", "kept b2 1"}, got)

	got = nil
	require.Equal(t, 29*time.Second, add(92*time.Second, "a", 4))
	require.Zero(t, add(121*time.Second, "a", 5), "a minute after the last line, before Take has come")
	require.Zero(t, add(122*time.Second, "a", 6))
	require.Zero(t, take(123*time.Second, true))
	require.Equal(t, []string{"2m1s a5 2", "kept a6 1"}, got)
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
