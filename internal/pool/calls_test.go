package pool

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Each call is made once. Calls that block or end their goroutine delay others by at most two ticks.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Millisecond
		var c Calls
		c.Init(tick)
		start := time.Now()
		var made moments
		release := make(chan struct{})
		for range 100 {
			c.Call(func() { <-release })
			c.Call(runtime.Goexit)
			c.Call(made.note)
		}
		pass(time.Second)
		all := made.since(start)
		require.Len(t, all, 100)
		require.LessOrEqual(t, all[99], 2*tick)
		require.Equal(t, 100, c.Goroutines())
		idle := c.UntilIdle()
		select {
		case <-idle:
			t.Fatal("idle, although calls block")
		default:
		}
		close(release)
		<-idle
		require.Zero(t, c.Goroutines())
	})
}

// A panic of a call is not hidden: a function that is called recovers its own panics.
func TestCallPanics(t *testing.T) {
	var c Calls
	c.Init(time.Second)
	c.pool.Limit, c.pool.starting = 1, 1 // no runner but that of the test
	c.Call(func() { panic("call") })
	rn := c.pool.enlist()
	require.PanicsWithValue(t, "call", rn.run)
}
