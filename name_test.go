package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimerString(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		require.Empty(t, timer.Name())
		require.Equal(t, "hashedwheel.Timer(0 pending, tick 10ms)", timer.String())
		timer = newTimer(t, WithName("rpc"), WithTick(time.Second))
		for range 3 {
			_, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
		}
		require.Equal(t, "hashedwheel.Timer(rpc, 3 pending, tick 1s)", timer.String())
		timer.Stop()
		require.Equal(t, "hashedwheel.Timer(rpc, stopped, 0 pending, tick 1s)", timer.String())
	})
}

// Messages in the log have the name of the timer, if it has one.
func TestNameIsLogged(t *testing.T) {
	for name, want := range map[string]string{"": "", "rpc": " timer=rpc "} {
		synctest.Test(t, func(t *testing.T) {
			option, log := logged()
			timer := newTimer(t, option, WithName(name), WithTick(time.Millisecond))
			_, err := timer.AfterFunc(0, func() { panic("on purpose") })
			require.NoError(t, err)
			pass(10 * time.Millisecond)
			require.Contains(t, log.String(), "task panicked")
			if want == "" {
				require.NotContains(t, log.String(), "timer=")
			} else {
				require.Contains(t, log.String(), want)
			}
		})
	}
}
