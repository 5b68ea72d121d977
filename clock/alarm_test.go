package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// After a stall a ticker drops all beats that it has missed except one. Later beats are still due at multiples of its
// interval.
func TestStalledTicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wheel, err := hashedwheel.New()
		require.NoError(t, err)
		for _, on := range []*Clock{New(wheel), newClock()} {
			time.Sleep(time.Hour)
			const interval = time.Second
			ticker := on.NewTicker(interval)
			a := &ticker.alarm
			for stall, left := range map[time.Duration]time.Duration{
				0:                           interval, // no stall
				1:                           interval - 1,
				interval - 1:                1,
				interval:                    interval,
				1000*interval + interval/10: interval - interval/10,
			} {
				a.mu.Lock()
				now := time.Now()
				a.when = now.Sub(on.start) - stall
				a.ring(now)
				require.Equal(t, left, a.when-now.Sub(on.start), stall)
				a.mu.Unlock()
			}
			ticker.Stop()
		}
		require.Empty(t, wheel.Stop())
	})
}

// A wake may be stale, because the wheel had claimed the timeout before the alarm was armed anew. It rings
// neither early nor twice.
func TestStaleWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wheel, err := hashedwheel.New()
		require.NoError(t, err)
		timer := New(wheel).NewTimer(time.Second)
		timer.alarm.wake()
		require.Empty(t, timer.C)
		time.Sleep(time.Second)
		require.True(t, timer.Reset(time.Second))
		timer.alarm.wake() // as if claimed just before the Reset
		require.Empty(t, timer.C)
		require.True(t, timer.Stop())
		time.Sleep(time.Second)
		timer.alarm.wake() // as if claimed just before the Stop
		require.Empty(t, timer.C)
		require.False(t, timer.Reset(0))
		<-timer.C
		timer.alarm.wake()
		require.Empty(t, timer.C)
		require.Empty(t, wheel.Stop())
	})
}
