package hashedwheel

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

func TestAfter(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxPending(1))
		start := time.Now()
		c, err := timer.After(15 * time.Millisecond)
		require.NoError(t, err)
		refused, err := timer.After(tick)
		require.ErrorIs(t, err, ErrTooManyPending)
		at := <-c
		require.Equal(t, 2*tick, at.Sub(start))
		require.Equal(t, 2*tick, time.Since(start))

		// Nobody need be there to receive it.
		c, err = timer.After(0)
		require.NoError(t, err)
		pass(5 * tick)
		require.Equal(t, 3*tick, (<-c).Sub(start))
		require.Zero(t, timer.Stats().Running)

		stopped, err := timer.After(time.Hour)
		require.NoError(t, err)
		timer.Stop()
		late, err := timer.After(0)
		require.ErrorIs(t, err, ErrStopped)
		pass(2 * time.Hour)
		for _, c := range []<-chan time.Time{refused, stopped, late} {
			require.NotNil(t, c)
			require.Empty(t, c)
		}
	})
}

// Beats at whole multiples of the interval, at the first boundary, without drift; a slow reader
// misses some, and holds up nobody.
func TestTicker(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				const ms = time.Millisecond
				const tick = 10 * ms
				timer := newTimer(t, append(opts, WithTick(tick))...)
				start := time.Now()
				time.Sleep(3 * ms)
				k, err := timer.NewTicker(25 * ms)
				require.NoError(t, err)
				for n := range sized(500, 2000, 10_000) {
					want := boundaryAt(3*ms+time.Duration(n+1)*25*ms, tick)
					at := <-k.C
					require.Equal(t, want, at.Sub(start))
					require.Equal(t, want, time.Since(start))
				}
				pass(100 * ms) // four beats, of which one is kept
				require.Len(t, k.C, 1)
				<-k.C
				require.Zero(t, timer.Stats().Running)

				k.Stop()
				pass(time.Second)
				require.Empty(t, k.C)
				require.Zero(t, timer.Pending())
				checkStats(t, timer)
			})
		})
	}
}

// Shorter than the tick, it beats once at each boundary; too long to be represented, never.
func TestTickerExtremes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		fast, err := timer.NewTicker(1)
		require.NoError(t, err)
		slow, err := timer.NewTicker(math.MaxInt64)
		require.NoError(t, err)
		for range 100 {
			time.Sleep(tick)
			synctest.Wait()
			<-fast.C
			require.Empty(t, slow.C)
		}
		fast.Stop()
		require.NoError(t, slow.Reset(math.MaxInt64-1))
		pass(24 * time.Hour)
		require.Empty(t, slow.C)
		require.NoError(t, slow.Reset(tick))
		pass(2 * tick)
		require.NotEmpty(t, slow.C)
	})
}

// Reset begins anew, in every state, and what was due before is not sent any more: neither what
// has not been received, nor what is about to be sent.
func TestTickerReset(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxPending(1))
		start := time.Now()
		k, err := timer.NewTicker(10 * tick)
		require.NoError(t, err)
		pass(25 * tick)
		require.Len(t, k.C, 1)
		require.NoError(t, k.Reset(7*tick))
		require.Empty(t, k.C)
		beats{Ticker: k}.Run(k.to) // as if claimed before the Reset
		require.Empty(t, k.C)
		require.Equal(t, 32*tick, (<-k.C).Sub(start))
		require.Equal(t, 39*tick, (<-k.C).Sub(start))

		pass(7 * tick) // 46
		k.Stop()
		require.Empty(t, k.C)
		beats{Ticker: k}.Run(k.to)
		require.Empty(t, k.C)
		k.Stop()
		pass(100 * tick) // 146
		require.NoError(t, k.Reset(5*tick))
		require.Equal(t, 151*tick, (<-k.C).Sub(start))
		require.ErrorContains(t, k.Reset(0), "Ticker.Reset(0s): the interval must be positive")
		require.Equal(t, 156*tick, (<-k.C).Sub(start))

		k.Stop()
		_, err = timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		require.ErrorIs(t, k.Reset(tick), ErrTooManyPending)
		beats{Ticker: k}.Run(k.to)
		require.Empty(t, k.C)
		timer.Stop()
		require.ErrorIs(t, k.Reset(tick), ErrStopped)
		k.Stop()
	})
}

// A ticker that is refused is there all the same, and silent.
func TestRefusedTicker(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithMaxPending(1))
		zero, err := timer.NewTicker(0)
		require.ErrorContains(t, err, "hashedwheel: NewTicker(0s): the interval must be positive")
		_, err = timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		full, err := timer.NewTicker(1)
		require.ErrorIs(t, err, ErrTooManyPending)
		timer.Stop()
		stopped, err := timer.NewTicker(1)
		require.ErrorIs(t, err, ErrStopped)
		for _, k := range []*Ticker{zero, full, stopped} {
			require.NotNil(t, k.C)
			require.Error(t, k.Reset(time.Second))
			k.Stop()
			pass(time.Hour)
			require.Empty(t, k.C)
		}
	})
}

// A beat allocates nothing, read or not.
func TestBeatAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector sync.Pool forgets at random")
	}
	virtual(t, func(t *testing.T) {
		const tick = time.Millisecond
		timer := newTimer(t, WithTick(tick))
		read, err := timer.NewTicker(tick)
		require.NoError(t, err)
		_, err = timer.NewTicker(2 * tick)
		require.NoError(t, err)
		for range 1000 {
			<-read.C
		}
		require.Less(t, testing.AllocsPerRun(1, func() {
			for range 1000 {
				<-read.C
			}
		}), 10.0)
	})
}

// Stop and Reset of a ticker against its beats, and each other, on real time: after Stop nothing
// comes.
func TestTickerRace(t *testing.T) {
	for name, opts := range executors() {
		t.Run(name, func(t *testing.T) {
			timer := newTimer(t, append(opts, WithTick(20*time.Microsecond))...)
			beats, wait := 0, 100*time.Microsecond
			for deadline := time.Now().Add(stressTime(t) / 3); goesOn(deadline, beats > 0); {
				k, err := timer.NewTicker(30 * time.Microsecond)
				require.NoError(t, err)
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() {
						for n := range 20 {
							if n%7 == 3 {
								k.Stop()
							} else {
								assert.NoError(t, k.Reset(time.Duration(10+n)*time.Microsecond))
							}
						}
					})
				}
				select {
				case <-k.C:
					beats++
				case <-time.After(wait):
					if beats == 0 { // on a starved machine one takes longer
						wait = min(2*wait, time.Second)
					}
				}
				wg.Wait()
				k.Stop()
				for range 3 {
					select {
					case <-k.C:
						t.Fatal("a beat after Stop")
					case <-time.After(20 * time.Microsecond):
					}
				}
			}
			require.Zero(t, timer.Pending())
			t.Logf("%d beats", beats)
			require.NotZero(t, beats)
		})
	}
}
