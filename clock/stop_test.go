package clock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
)

// Timers and tickers that are pending when the wheel is stopped move to package time. They fire exactly, and as
// often as they should.
func TestStopOfTheWheelLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wheel := newWheel(t)
		on := clock.New(wheel)
		start := time.Now()
		const d = 25 * time.Millisecond
		timer, never, reset := on.NewTimer(d), on.NewTimer(d), on.NewTimer(time.Hour)
		ticker := on.NewTicker(d)
		var ran, slept time.Time
		on.AfterFunc(d, func() { ran = time.Now() })
		go func() {
			on.Sleep(d)
			slept = time.Now()
		}()
		sent := on.NewTimer(tick)
		pass(tick)
		require.Len(t, sent.C, 1)
		require.Equal(t, 6, wheel.Pending())

		require.Empty(t, wheel.Stop())
		require.Zero(t, wheel.Pending())
		require.Len(t, sent.C, 1)
		require.True(t, sent.Stop())
		require.True(t, never.Stop())
		require.True(t, reset.Reset(2*d)) // due at 60 ms
		pass(d - tick)
		require.Equal(t, d, (<-timer.C).Sub(start))
		require.Equal(t, d, (<-ticker.C).Sub(start))
		require.Equal(t, d, ran.Sub(start))
		require.Equal(t, d, slept.Sub(start))
		require.Equal(t, 2*d, (<-ticker.C).Sub(start))
		require.Equal(t, 60*time.Millisecond, (<-reset.C).Sub(start))
		require.Equal(t, 3*d, (<-ticker.C).Sub(start))
		ticker.Stop()
		require.False(t, timer.Reset(d))
		pass(time.Second)
		require.Equal(t, 4*d, (<-timer.C).Sub(start))
		require.Empty(t, never.C)
		require.Empty(t, ticker.C)
		require.Equal(t, start.Add(d), ran)
	})
}

// Timers that the wheel refuses wait on package time. Each later Reset tries the wheel again.
func TestFullWheel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wheel := newWheel(t, hashedwheel.WithMaxPending(1))
		on := clock.New(wheel)
		time.Sleep(time.Millisecond)
		start := time.Now()
		first, refused := on.NewTimer(time.Hour), on.NewTimer(25*time.Millisecond)
		ticker := on.NewTicker(11 * time.Millisecond)
		require.Equal(t, 1, wheel.Pending())
		require.EqualValues(t, 2, wheel.Stats().RejectedFull)
		require.Equal(t, 11*time.Millisecond, (<-ticker.C).Sub(start))
		require.Equal(t, 22*time.Millisecond, (<-ticker.C).Sub(start))
		require.Equal(t, 25*time.Millisecond, (<-refused.C).Sub(start))
		ticker.Stop()

		require.True(t, first.Stop())
		require.False(t, refused.Reset(tick)) // 26 ms after the wheel's start
		require.Equal(t, 1, wheel.Pending())
		require.False(t, first.Reset(tick))
		require.Equal(t, 35*time.Millisecond, (<-first.C).Sub(start))
		require.Equal(t, 39*time.Millisecond, (<-refused.C).Sub(start))
	})
}

// Beat n comes at the first boundary at or after n intervals, without drift. A slow receiver misses beats.
func TestTicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wheel := newWheel(t)
		on := clock.New(wheel)
		const offset, d = 3 * time.Millisecond, 25 * time.Millisecond
		start := time.Now()
		time.Sleep(offset)
		ticker := on.NewTicker(d)
		due := func(n int) time.Duration { return boundary(offset + time.Duration(n)*d) }
		for n := 1; n <= 10_000; n++ {
			if at := (<-ticker.C).Sub(start); at != due(n) || time.Since(start) != due(n) {
				t.Fatalf("beat %d of %v came at %v, and not at %v", n, at, time.Since(start), due(n))
			}
		}
		pass(10 * d) // the first of these beats stays in the channel
		require.Equal(t, due(10_001), (<-ticker.C).Sub(start))
		require.Equal(t, due(10_011), (<-ticker.C).Sub(start))

		// Reset counts from now, also from the wheel to package time, and discards the value sent before.
		begin := time.Since(start)
		ticker.Reset(7 * time.Millisecond)
		require.Zero(t, wheel.Pending())
		for n := range time.Duration(1000) {
			require.Equal(t, begin+(n+1)*7*time.Millisecond, (<-ticker.C).Sub(start), "shorter than a tick: exact")
		}
		pass(7 * time.Millisecond)
		require.Len(t, ticker.C, 1)
		begin = time.Since(start)
		ticker.Reset(tick)
		require.Empty(t, ticker.C)
		require.Equal(t, 1, wheel.Pending())
		for n := range time.Duration(1000) {
			require.Equal(t, boundary(begin+(n+1)*tick), (<-ticker.C).Sub(start))
		}
		pass(tick)
		require.Len(t, ticker.C, 1)
		ticker.Stop()
		require.Empty(t, ticker.C)
		require.Zero(t, wheel.Pending())
		pass(time.Hour)
		require.Empty(t, ticker.C)
		begin = time.Since(start)
		ticker.Reset(d)
		require.Equal(t, boundary(begin+d), (<-ticker.C).Sub(start))
		ticker.Stop()

		first := <-on.Tick(d)
		require.Equal(t, first, time.Now())
	})
}

// The function of a timer may use that timer. Many goroutines may sleep on one Clock repeatedly.
func TestFromInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := clock.New(newWheel(t))
		start := time.Now()
		var at []time.Duration
		made := make(chan *clock.Timer, 1)
		made <- on.AfterFunc(tick, func() {
			timer := <-made
			defer func() { made <- timer }()
			if at = append(at, time.Since(start)); len(at) < 4 {
				timer.Reset(time.Duration(len(at)-1) * tick) // 0, 1 tick, 2 ticks
			}
		})
		pass(time.Second)
		require.Equal(t, []time.Duration{tick, tick, 2 * tick, 4 * tick}, at)
		require.False(t, (<-made).Stop())

		var wg sync.WaitGroup
		for n := range time.Duration(50) {
			wg.Go(func() {
				for range 20 {
					from := time.Now()
					on.Sleep(n * tick)
					if got := time.Since(from); got != n*tick {
						t.Errorf("slept %v instead of %v", got, n*tick)
					}
				}
			})
		}
		wg.Wait()
	})
}
