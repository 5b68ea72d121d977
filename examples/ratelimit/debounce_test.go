package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
	"github.com/stretchr/testify/require"
)

func TestDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord()
		d := NewDebounce(newTimer(t), 95*ms, 0, r.call)
		for i := range 100 { // without a maximum, steady traffic delays the call forever
			require.NoError(t, d.Call("a", i))
			pass(50 * ms)
		}
		require.Empty(t, r.of("a"))
		require.Equal(t, 1, d.Waiting())
		require.NoError(t, d.Call("b", 7))
		pass(time.Second)
		require.Equal(t, []made{{99, 5050 * ms}}, r.of("a")) // 4950 and 95 ms, at a boundary
		require.Equal(t, []made{{7, 5100 * ms}}, r.of("b"))
		require.Zero(t, d.Waiting())
	})
}

func TestDebounceMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord()
		d := NewDebounce(newTimer(t), 100*ms, 245*ms, r.call)
		for i := range 10 {
			require.NoError(t, d.Call("a", i))
			pass(60 * ms)
		}
		pass(time.Second)
		// The calls are due 245 ms after 0 and after 300 ms.
		require.Equal(t, []made{{4, 250 * ms}, {9, 550 * ms}}, r.of("a"))
	})
}

// A call comes after the wait has expired, and before expired has the lock. It
// begins another burst. The previous burst is called without the new value.
func TestDebounceMeetsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord()
		timer := newTimer(t)
		d := NewDebounce(timer, 100*ms, 250*ms, r.call)
		var ended []*burst[int]
		// The test calls expired itself.
		d.waiting = keyed.New(timer, func(_ string, b *burst[int]) { ended = append(ended, b) })
		require.NoError(t, d.Call("a", 1))
		pass(110 * ms)
		require.NoError(t, d.Call("a", 2))
		require.Len(t, ended, 1)
		d.expired("a", ended[0])
		require.Equal(t, []made{{1, 110 * ms}}, r.of("a"))
		require.Equal(t, 1, d.Waiting())
		require.NoError(t, d.Call("a", 3))
		pass(100 * ms)
		require.Len(t, ended, 2)
		d.expired("a", ended[1])
		require.Equal(t, []made{{1, 110 * ms}, {3, 210 * ms}}, r.of("a"))
		require.Zero(t, d.Waiting())
	})
}

func TestDebounceRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord()
		timer := newTimer(t, hashedwheel.WithMaxPending(1))
		d := NewDebounce(timer, 100*ms, 0, r.call)
		require.NoError(t, d.Call("a", 1))
		require.ErrorIs(t, d.Call("b", 2), hashedwheel.ErrTooManyPending)
		require.NoError(t, d.Call("a", 3))
		require.Equal(t, 1, d.Waiting())
		pass(100 * ms)
		require.Equal(t, []made{{3, 100 * ms}}, r.of("a"))
		require.Empty(t, r.of("b"))

		require.NoError(t, d.Call("a", 4))
		timer.Stop()
		require.ErrorIs(t, d.Call("a", 5), hashedwheel.ErrStopped)
		require.ErrorIs(t, d.Call("b", 5), hashedwheel.ErrStopped)
		pass(time.Second)
		require.Len(t, r.of("a"), 1)
		require.Equal(t, 1, d.Waiting(), "it counts the call that was not made")
	})
}
