package explore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A goroutine freezes before each of its steps, and others see what it has done until then.
func TestFreeze(t *testing.T) {
	var seen []int64
	Freeze(t, 1, 0, func(v *Victim) {
		var x Int64
		v.Go(func() {
			for range 3 {
				x.Add(1)
			}
		})
		require.Equal(v, x.Peek() < 3, v.Frozen())
		seen = append(seen, x.Load())
		v.Next()
		require.False(v, v.Frozen())
		require.EqualValues(v, 3, x.Load())
	})
	require.Equal(t, []int64{0, 1, 2, 3}, seen)
}

// It goes on for at least one step.
func TestFreezeTwice(t *testing.T) {
	var seen [][2]int64
	Freeze(t, 2, 0, func(v *Victim) {
		var x Int64
		v.Go(func() { x.Add(1); x.Add(1); x.Add(1) })
		first := x.Peek()
		v.Next()
		seen = append(seen, [2]int64{first, x.Peek()})
	})
	require.Equal(t, [][2]int64{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}, {3, 3}}, seen)
}

// Who needs a lock of the frozen goroutine, or yields until it has done something, waits while time passes.
func TestFreezeHoldsALock(t *testing.T) {
	waited := 0
	Freeze(t, 1, 0, func(v *Victim) {
		var mu Mutex
		var x Int64
		v.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			x.Store(1)
		})
		locked, polled := false, false
		go func() {
			mu.Lock()
			locked = true
			mu.Unlock()
		}()
		go func() {
			for x.Load() == 0 {
				Gosched()
			}
			polled = true
		}()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if v.Frozen() && !locked {
			waited++
		}
		require.Equal(v, !v.Frozen(), polled)
		v.Next()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.True(v, locked && polled)
	})
	require.Equal(t, 1, waited)
}
