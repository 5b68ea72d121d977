package hashedwheel_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// A connection is closed when it has been idle for an hour.
type connection struct {
	idle   hashedwheel.Timeout
	closed time.Time
}

func (c *connection) Run(*hashedwheel.Timeout) { c.closed = time.Now() }

// Code that uses a timer is tested in a bubble of testing/synctest. There an hour takes no time, and times
// are exact. When synctest.Wait returns, the task has run.
func TestWithSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, limit = 100 * time.Millisecond, time.Hour + time.Millisecond
		timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
		require.NoError(t, err)
		defer timer.Stop() // before the bubble ends

		var c connection
		timer.Init(&c.idle, &c)
		_, err = c.idle.Reset(limit)
		require.NoError(t, err)
		time.Sleep(30 * time.Minute)
		last := time.Now() // a packet comes
		require.True(t, c.idle.Move(limit))

		time.Sleep(limit)
		synctest.Wait()
		require.False(t, c.idle.IsExpired(), "never early")
		time.Sleep(tick)
		synctest.Wait()
		require.Equal(t, last.Add(time.Hour+tick), c.closed, "the first boundary after the deadline")
	})
}
