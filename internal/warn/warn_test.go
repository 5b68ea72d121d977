package warn

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The log has a warning when a spell begins and once a minute, and a message when it is over if it has a warning of it.
func TestSpell(t *testing.T) {
	var s spell
	var got []string
	at := func(elapsed time.Duration, wrong bool) {
		if wrong {
			if s.lasts(elapsed, time.Second) {
				got = append(got, fmt.Sprint(elapsed, " warn"))
			}
		} else if v := s.end(elapsed); v.Over {
			got = append(got, fmt.Sprint(elapsed, " over after ", v.For))
		}
	}
	at(0, false)
	for elapsed := time.Second; elapsed <= 3*time.Minute; elapsed += time.Second {
		at(elapsed, true)
	}
	at(181*time.Second, false)
	at(182*time.Second, false) // the last warning was at 2m1s
	at(190*time.Second, true)
	at(191*time.Second, false)
	at(200*time.Second, true)
	at(201*time.Second, false)
	at(240*time.Second, true)
	at(250*time.Second, true)
	at(260*time.Second, false)
	require.Equal(t, []string{"1s warn", "1m1s warn", "2m1s warn", "3m1s over after 3m1s",
		"3m10s warn", "3m11s over after 2s", "4m10s warn", "4m20s over after 21s"}, got)
}

// The machine is not to blame if the worker had more to do than it could in a tick.
func TestLateWorkerThatIsBehind(t *testing.T) {
	for _, rounds := range [][2]bool{{false, false}, {true, false}, {false, true}} { // whether a round leaves something to the next
		var l Lateness
		l.Report(0, rounds[0])
		l.Add(3 * time.Second)
		v, hadMore := l.Report(0, rounds[1])
		require.Equal(t, Verdict{Warn: true, For: 3 * time.Second}, v)
		require.Equal(t, rounds[0] || rounds[1], hadMore)
	}
}

// A warning says how late the worker was at most since the warning before, a minute apart.
func TestLateWorkerWarnsNotTooOften(t *testing.T) {
	var l Lateness
	var got []string
	report := func(elapsed time.Duration) {
		if v, _ := l.Report(elapsed, false); v.Warn || v.Over {
			got = append(got, fmt.Sprint(elapsed, " ", v))
		}
	}
	for elapsed := time.Duration(0); elapsed <= 2*time.Minute; elapsed += 100 * time.Millisecond {
		l.Add(3 * time.Second)
		if elapsed == time.Second {
			l.Add(5 * time.Second)
		}
		report(elapsed)
	}
	report(121 * time.Second) // nothing was due
	l.Add(0)
	report(121 * time.Second)
	require.Equal(t, []string{"0s {true false 3s}", "1m0s {true false 5s}", "2m0s {true false 3s}", "2m1s {false true 2m3s}"}, got)
}

// Tasks that wait are checked twice a second, keys ever less often, and what does not wait not at all.
func TestChecksOfWaits(t *testing.T) {
	var w Waits
	require.False(t, w.Due(0, false))
	require.True(t, w.Due(0, true) || w.Any())
	for _, c := range []struct {
		elapsed     time.Duration
		tasks, keys Waiting
		warn        string
		next        time.Duration // from now
	}{
		{500 * time.Millisecond, Waiting{1, 500 * time.Millisecond}, Waiting{}, "", 500 * time.Millisecond},
		{time.Second, Waiting{1, 300 * time.Millisecond}, Waiting{}, "", 500 * time.Millisecond},
		{1500 * time.Millisecond, Waiting{1, 800 * time.Millisecond}, Waiting{}, "", 200 * time.Millisecond},
		{1700 * time.Millisecond, Waiting{1, time.Second}, Waiting{1, time.Second}, "tasks keys", 500 * time.Millisecond},
		{2200 * time.Millisecond, Waiting{}, Waiting{1, 1500 * time.Millisecond}, "", 500 * time.Millisecond},
		{16 * time.Second, Waiting{}, Waiting{1, 16 * time.Second}, "", 500 * time.Millisecond}, // the machine was suspended
	} {
		require.True(t, w.Due(c.elapsed, false))
		tasks, keys, until := w.Check(c.elapsed, c.tasks, c.keys)
		require.Equal(t, c.warn == "tasks keys", tasks.Warn && keys.Warn, c)
		require.Equal(t, c.next, until-c.elapsed, c)
	}
	_, _, until := w.Check(80*time.Second, Waiting{}, Waiting{1, 80 * time.Second})
	require.Equal(t, 8*time.Second, until-80*time.Second, "64 s since the suspension")
	_, _, until = w.Check(81*time.Second, Waiting{}, Waiting{})
	require.Equal(t, time.Duration(math.MaxInt64), until)
	require.False(t, w.Any() || w.Due(82*time.Second, false))
}
