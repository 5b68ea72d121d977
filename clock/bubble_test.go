package clock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/clock"
)

const (
	usedOutside = "clock: a Clock, Timer or Ticker made in a testing/synctest bubble is used outside of it"
	usedInside  = "clock: a Timer or Ticker made outside of a testing/synctest bubble is used inside one: make it inside the bubble"
)

// outsideClocks returns Clocks of all kinds, for use in bubbles. The test is outside of bubbles.
func outsideClocks(t *testing.T) map[string]*clock.Clock {
	stopped := newWheel(t)
	require.Empty(t, stopped.Stop())
	return map[string]*clock.Clock{
		"zero":    new(clock.Clock),
		"wheel":   clock.New(newWheel(t)),
		"stopped": clock.New(stopped),
	}
}

// In a bubble, a Clock made outside runs on the bubble's time, exactly. It does so in one bubble after another.
func TestClockFromOutside(t *testing.T) {
	for name, on := range outsideClocks(t) {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				synctest.Test(t, func(t *testing.T) { everyMethod(t, on) })
				on.Sleep(1) // leaves a timer for the next Sleep
				<-on.NewTimer(1).C
			}
		})
	}
}

// everyMethod checks that each method of a Clock takes exactly the bubble's time. It is called inside a bubble.
func everyMethod(t *testing.T, on *clock.Clock) {
	const d = time.Hour + 1
	start := time.Now()
	require.Equal(t, start, on.Now())
	require.Equal(t, -d, on.Until(start.Add(-d)))

	on.Sleep(d)
	require.Equal(t, d, on.Since(start))
	on.Sleep(d) // uses the timer of the first Sleep again, if Sleep keeps it
	require.Equal(t, 2*d, on.Since(start))

	start = time.Now()
	require.Equal(t, start.Add(d), <-on.After(d))
	timer := on.NewTimer(d)
	require.Equal(t, start.Add(2*d), <-timer.C)
	require.False(t, timer.Stop())
	require.False(t, timer.Reset(d))
	require.True(t, timer.Reset(2*d))
	require.Equal(t, start.Add(4*d), <-timer.C)
	require.False(t, timer.Reset(d))
	pass(d - 1)
	require.Empty(t, timer.C)
	pass(1)
	require.Len(t, timer.C, 1)
	require.True(t, timer.Stop(), "the value has not been received")
	require.Empty(t, timer.C)

	start = time.Now()
	ran := make(chan time.Time, 1)
	f := on.AfterFunc(d, func() { ran <- time.Now() })
	require.Nil(t, f.C)
	require.Equal(t, start.Add(d), <-ran)
	require.False(t, f.Reset(d))
	require.True(t, f.Reset(0))
	require.Equal(t, start.Add(d), <-ran)
	require.False(t, f.Reset(d))
	require.True(t, f.Stop())
	pass(2 * d)
	require.Empty(t, ran)

	start = time.Now()
	ticker, beats := on.NewTicker(d), on.Tick(d)
	for n := range time.Duration(100) {
		require.Equal(t, start.Add((n+1)*d), <-ticker.C)
		require.Equal(t, start.Add((n+1)*d), <-beats)
	}
	ticker.Reset(1)
	require.Equal(t, start.Add(100*d+1), <-ticker.C)
	ticker.Stop()
	pass(d)
	require.Empty(t, ticker.C)
}

// A ticker from which nothing receives makes no beats in a bubble, even if it is not stopped. Beats would keep the bubble's time
// going, so that synctest reports no deadlock, and this test would not end.
func TestTickerLeftInABubble(t *testing.T) {
	for name, on := range outsideClocks(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const years = 200 * 365 * 24 * time.Hour
				start := time.Now()
				ticker, reset, beats := on.NewTicker(1), on.NewTicker(time.Hour), on.Tick(1)
				reset.Stop()
				reset.Reset(1)
				pass(years)
				require.Equal(t, start.Add(1), <-ticker.C)
				require.Equal(t, start.Add(1), <-reset.C)
				require.Equal(t, start.Add(1), <-beats)
				require.Equal(t, years, time.Since(start))
			})
		})
	}
}

// Goroutines in several bubbles and outside use one Clock at the same time. The timers that Sleep keeps stay
// outside of the bubbles.
func TestClockOfManyBubblesRace(t *testing.T) {
	on := clock.New(newWheel(t))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				on.Sleep(1)
				<-on.After(1)
			}
		})
		wg.Go(func() {
			for range 10 {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					for n := range time.Duration(10) {
						go func() {
							on.Sleep((n + 1) * time.Hour)
							<-on.After(time.Hour)
						}()
					}
					pass(12 * time.Hour)
					if got := time.Since(start); got != 12*time.Hour {
						t.Errorf("%v passed in the bubble", got)
					}
				})
			}
		})
	}
	wg.Wait()
}

// A Clock made in one bubble keeps no timer of that bubble for another. Its wheel is stopped, so it uses package time.
func TestClockOfAnotherBubble(t *testing.T) {
	var on *clock.Clock
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			if on == nil {
				wheel := newWheel(t)
				on = clock.New(wheel)
				wheel.Stop()
			}
			everyMethod(t, on)
		})
	}
	require.PanicsWithValue(t, usedOutside, func() { on.Sleep(1) })
}

// A timer or ticker made outside of a bubble may be stopped inside, as in package time. Reset panics there and
// changes nothing.
func TestTimerFromOutside(t *testing.T) {
	for name, on := range outsideClocks(t) {
		t.Run(name, func(t *testing.T) {
			timer, f, ticker := on.NewTimer(time.Hour), on.AfterFunc(time.Hour, nop), on.NewTicker(time.Hour)
			sent := on.NewTimer(0)
			time.Sleep(5 * tick) // so the wheel is idle, and Stop inside the bubble wakes it
			synctest.Test(t, func(t *testing.T) {
				require.PanicsWithValue(t, usedInside, func() { timer.Reset(0) })
				require.PanicsWithValue(t, usedInside, func() { f.Reset(0) })
				require.PanicsWithValue(t, usedInside, func() { ticker.Reset(1) })
				require.PanicsWithValue(t, usedInside, func() { sent.Reset(time.Hour) })
				require.Len(t, sent.C, 1)
				require.True(t, timer.Stop())
				require.False(t, timer.Stop())
				require.True(t, sent.Stop())
				require.Empty(t, sent.C)
			})
			require.Empty(t, ticker.C)
			require.True(t, f.Stop(), "the panic left it armed")
			require.False(t, timer.Reset(1))
			<-timer.C
			require.False(t, sent.Reset(1))
			<-sent.C
			ticker.Reset(1)
			<-ticker.C
			ticker.Stop()
		})
	}
}

// A timer or ticker made in a bubble panics when it is used outside, wherever its Clock was made. In package time
// this is a fatal error.
func TestTimerLeavesItsBubble(t *testing.T) {
	for name, on := range outsideClocks(t) {
		t.Run(name, func(t *testing.T) { leavesItsBubble(t, func(*testing.T) *clock.Clock { return on }) })
	}
	t.Run("made inside", func(t *testing.T) {
		var on *clock.Clock
		leavesItsBubble(t, func(t *testing.T) *clock.Clock { on = clock.New(newWheel(t)); return on })
		require.PanicsWithValue(t, usedOutside, func() { on.NewTimer(time.Hour) })
		require.PanicsWithValue(t, usedOutside, func() { on.AfterFunc(0, nop) })
		require.PanicsWithValue(t, usedOutside, func() { on.NewTicker(1) })
		require.PanicsWithValue(t, usedOutside, func() { on.Sleep(1) })
	})
}

func leavesItsBubble(t *testing.T, get func(t *testing.T) *clock.Clock) {
	var timer, sent, f *clock.Timer
	var ticker *clock.Ticker
	synctest.Test(t, func(t *testing.T) {
		on := get(t)
		timer, sent, f, ticker = on.NewTimer(time.Hour), on.NewTimer(0), on.AfterFunc(time.Hour, nop), on.NewTicker(time.Hour)
		timer.Stop()
		f.Stop()
		ticker.Stop()
	})
	for _, timer := range []*clock.Timer{timer, sent, f} {
		require.PanicsWithValue(t, usedOutside, func() { timer.Stop() })
		require.PanicsWithValue(t, usedOutside, func() { timer.Reset(0) })
	}
	require.PanicsWithValue(t, usedOutside, func() { ticker.Stop() })
	require.PanicsWithValue(t, usedOutside, func() { ticker.Reset(1) })
}
