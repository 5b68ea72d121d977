package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// NewTimer makes one allocation besides the channel, as in package time. After that nothing allocates, except
// the first use of package time.
func TestAllocations(t *testing.T) {
	if testkit.RaceDetector() {
		t.Skip("under the race detector sync.Pool forgets at random")
	}
	channel := testing.AllocsPerRun(100, func() { sink = make(chan time.Time, 1) })
	on := clock.New(newWheel(t, hashedwheel.WithTick(time.Hour)))
	timer, f := on.NewTimer(24*time.Hour), on.AfterFunc(24*time.Hour, nop)
	both := on.NewTimer(1)
	<-both.C
	for name, c := range map[string]struct {
		want float64
		f    func()
	}{
		"NewTimer, Stop":     {1 + channel, func() { on.NewTimer(24 * time.Hour).Stop() }},
		"NewTimer of 0":      {1 + channel, func() { <-on.NewTimer(0).C }},
		"AfterFunc, Stop":    {1, func() { on.AfterFunc(24*time.Hour, nop).Stop() }},
		"Reset":              {0, func() { timer.Reset(24 * time.Hour) }},
		"Stop, Reset":        {0, func() { timer.Stop(); timer.Reset(25 * time.Hour) }},
		"Reset, function":    {0, func() { f.Reset(24 * time.Hour) }},
		"Reset across ticks": {0, func() { both.Reset(time.Minute); both.Reset(24 * time.Hour) }},
		"Sleep":              {0, func() { on.Sleep(1) }},
	} {
		require.Equal(t, c.want, testing.AllocsPerRun(1000, c.f), name)
	}
	timer.Stop()
	f.Stop()
	both.Stop()
}

var sink chan time.Time

// A beat allocates nothing, whether it is received or not.
func TestBeatAllocatesNothing(t *testing.T) {
	if testkit.RaceDetector() {
		t.Skip("under the race detector sync.Pool forgets at random")
	}
	synctest.Test(t, func(t *testing.T) {
		on := clock.New(newWheel(t))
		read, unread := on.NewTicker(tick), on.NewTicker(2*tick)
		beats := func() {
			for range 1000 {
				<-read.C
			}
		}
		beats()
		// On average, because each stripe of the queue makes some blocks when it is used first.
		require.Less(t, testing.AllocsPerRun(10, beats), 10.0)
		read.Stop()
		unread.Stop()
	})
}
