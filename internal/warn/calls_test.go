package warn

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fake has the calls in progress: since when each is known, and since when it should be brief.
type fake struct {
	Calls
	calls [][2]time.Duration
}

// look returns what a look says.
func (f *fake) look(elapsed time.Duration) string {
	var found Census
	for _, c := range f.calls {
		f.Count(&found, elapsed, c[0], c[1])
	}
	said := fmt.Sprint(found.Stuck)
	stuck, growing, again := f.Look(elapsed, found)
	if stuck {
		said += " stuck"
	}
	if growing {
		said += " growing"
	}
	if again {
		said += " again"
	}
	return said
}

// Calls that should be brief are told when they are a minute old, once a minute, and when they have become more. A call counts from when
// it should be brief, not from when the run began.
func TestCallsThatShouldBeBrief(t *testing.T) {
	const s = time.Second
	var f fake
	f.calls = [][2]time.Duration{{1 * s, 0}, {1 * s, 2 * s}, {1 * s, 200 * s}}
	require.Equal(t, "0 again", f.look(61*s))
	require.Equal(t, "1 stuck again", f.look(62*s))
	require.Equal(t, "1 again", f.look(200*s))
	f.calls = append(f.calls, [2]time.Duration{70 * s, 70 * s})
	require.Equal(t, "2 stuck again", f.look(201*s))
	f.calls = append(f.calls, [2]time.Duration{141 * s, 141 * s})
	require.Equal(t, "3 again", f.look(202*s), "a minute after the last line")
	require.Equal(t, "4 stuck", f.look(261*s))
	f.calls = append(f.calls, [2]time.Duration{250 * s, 250 * s})
	require.Equal(t, "5 again", f.look(311*s))
	require.Equal(t, "5 stuck", f.look(321*s))
	require.Equal(t, "5", f.look(400*s))
	f.calls = f.calls[:2]
	require.Equal(t, "1", f.look(401*s))
	f.calls = append(f.calls, f.calls[1])
	require.Equal(t, "2", f.look(500*s), "there have been more")
	f.calls = f.calls[:1]
	require.Equal(t, "0", f.look(501*s))
	f.calls = append(f.calls, [2]time.Duration{502 * s, 502 * s})
	require.Equal(t, "1 stuck", f.look(700*s))
}

// Others are told when they grow in five looks that are a minute apart. Looks in between count for nothing.
func TestCallsThatGrow(t *testing.T) {
	var f fake
	for at := time.Minute; at <= 9*time.Minute; at += 10 * time.Second {
		if at%time.Minute == 0 {
			for range 5 {
				f.calls = append(f.calls, [2]time.Duration{at - 30*time.Second, 0})
			}
		}
		want := "0"
		if at%time.Minute == 0 && at >= 6*time.Minute {
			want += " growing"
		}
		require.Equal(t, want, f.look(at), at)
	}
	f.calls = f.calls[:40]
	require.Equal(t, "0", f.look(10*time.Minute))
}

// A look is due a minute after a round in which tasks may have been started, and then once a minute with a round.
func TestLooksAreDue(t *testing.T) {
	var c Calls
	require.False(t, c.Due(time.Second, false))
	require.False(t, c.Due(2*time.Second, true))
	require.False(t, c.Due(61*time.Second, true))
	require.True(t, c.Due(62*time.Second, false))
	require.False(t, c.Due(121*time.Second, true))
	require.True(t, c.Due(300*time.Second, true))
	require.False(t, c.Due(359*time.Second, true))
}
