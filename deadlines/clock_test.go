package deadlines

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock never goes ahead of the server's, and keeps the reading whose answer came fastest.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = time.Hour // the server's clock is ahead of this machine's
		server := func() time.Time { return time.Now().Add(ahead) }
		c := clock{wall: time.Now}
		// read takes a reading: the server looks at its clock some time after the request, and the answer takes some time.
		read := func(there, back time.Duration) (behind time.Duration) {
			sent := time.Now()
			time.Sleep(there)
			s := server()
			time.Sleep(back)
			c.set(s, sent, time.Now())
			return server().Sub(c.now())
		}
		require.Equal(t, 50*time.Millisecond, read(10*time.Millisecond, 50*time.Millisecond))
		time.Sleep(time.Minute)
		require.Equal(t, 50*time.Millisecond, server().Sub(c.now()), "it goes on between readings")
		require.Equal(t, time.Millisecond, read(time.Millisecond, time.Millisecond))
		require.Equal(t, time.Millisecond, read(time.Second, time.Second), "a slow answer says less")
		require.Equal(t, time.Duration(0), read(time.Second, 0))
		require.Equal(t, -ahead, c.skew())
	})
}

// If the server's clock is set, or another server leads, the clock follows it.
func TestClockThatWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock{wall: time.Now}
		for _, ahead := range []time.Duration{0, time.Minute, -time.Minute} {
			now := time.Now()
			c.set(now.Add(ahead), now, now)
			require.Equal(t, ahead, c.now().Sub(now))
			require.Equal(t, -ahead, c.skew())
			time.Sleep(time.Second)
		}
	})
}
