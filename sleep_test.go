package hashedwheel

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSleep(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxPending(1))
		start := time.Now()
		took := func(want time.Duration) {
			t.Helper()
			require.Equal(t, want, time.Since(start))
			synctest.Wait()
			require.Zero(t, timer.Pending())
			start = time.Now()
		}
		require.NoError(t, timer.Sleep(t.Context(), 15*time.Millisecond))
		took(2 * tick)
		require.NoError(t, timer.Sleep(t.Context(), 0))
		require.NoError(t, timer.Sleep(t.Context(), -1))
		took(0)

		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, timer.Sleep(ctx, time.Hour), context.DeadlineExceeded)
		took(25 * time.Millisecond)
		require.ErrorIs(t, timer.Sleep(ctx, time.Hour), context.DeadlineExceeded)
		require.ErrorIs(t, timer.Sleep(ctx, 0), context.DeadlineExceeded)
		took(0)

		to, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		require.ErrorIs(t, timer.Sleep(t.Context(), 1), ErrTooManyPending)
		require.True(t, to.Cancel())

		time.AfterFunc(tick, func() { timer.Stop() })
		require.ErrorIs(t, timer.Sleep(t.Context(), time.Hour), ErrStopped)
		took(tick)
		require.ErrorIs(t, timer.Sleep(t.Context(), 1), ErrStopped)
	})
}
