package clock_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// The races run on real time, on a wheel whose tick is about as long as the delays. So expiry on the wheel, expiry
// on package time, Stop, Reset, receives, and Stop of the wheel all race.
const raceTick = 50 * time.Microsecond

func raceDelay() time.Duration { return rand.N(2 * raceTick) }

// spin lets a short random time pass, perhaps none, without sleeping.
func spin() {
	for start, d := time.Now(), rand.N(3*raceTick); time.Since(start) < d; {
		runtime.Gosched()
	}
}

// rounds calls round again and again for the stress time, each time with a new wheel. It stops half of the
// wheels while round runs.
func rounds(t *testing.T, round func(on *clock.Clock)) {
	for n, end := 0, time.Now().Add(testkit.StressTime(t)); n < testkit.Sized(2, 4, 4) || time.Now().Before(end); n++ {
		wheel, err := hashedwheel.New(hashedwheel.WithTick(raceTick), hashedwheel.WithWheelSize(16))
		require.NoError(t, err)
		var wg sync.WaitGroup
		if n%2 == 0 {
			wg.Go(func() {
				spin()
				time.Sleep(rand.N(time.Millisecond))
				assert.Empty(t, wheel.Stop())
			})
		}
		round(clock.New(wheel))
		wg.Wait()
		assert.Empty(t, wheel.Stop())
	}
}

// In all races, each arming of a timer ends exactly once: its value is received, its function runs, or one Stop or
// Reset reports that it was active.
func TestEachArmingEndsOnceRace(t *testing.T) {
	for _, kind := range []string{"chan", "func"} {
		t.Run(kind, func(t *testing.T) {
			var total, active int64
			rounds(t, func(on *clock.Clock) {
				var ended, wasActive atomic.Int64
				var timer *clock.Timer
				done := make(chan struct{})
				var receivers, others sync.WaitGroup
				if kind == "func" {
					timer = on.AfterFunc(raceDelay(), func() { ended.Add(1) })
				} else {
					timer = on.NewTimer(raceDelay())
					for range 2 {
						receivers.Go(func() {
							for {
								select {
								case <-timer.C:
									ended.Add(1)
								case <-done:
									return
								}
							}
						})
					}
				}
				const each, goroutines = 50, 3
				var armed atomic.Int64
				armed.Add(1)
				for range goroutines {
					others.Go(func() {
						for range each {
							spin()
							was := false
							if rand.N(3) == 0 {
								was = timer.Stop()
							} else {
								armed.Add(1)
								was = timer.Reset(raceDelay())
							}
							if was {
								wasActive.Add(1)
							}
						}
					})
				}
				others.Wait()
				if timer.Stop() {
					wasActive.Add(1)
				}
				for end := time.Now().Add(10 * time.Second); ended.Load()+wasActive.Load() < armed.Load() && time.Now().Before(end); {
					time.Sleep(raceTick) // the function, or the receiver, has yet to run
				}
				close(done)
				receivers.Wait()
				require.Equal(t, armed.Load(), ended.Load()+wasActive.Load())
				total += armed.Load()
				active += wasActive.Load()
			})
			require.NotZero(t, active)
			require.Less(t, active, total)
			t.Logf("%d armings, %d ended by Stop and Reset", total, active)
		})
	}
}

// After Stop no value is received. After Reset no value is received that was due before: neither one that was
// already sent, nor one that is just being sent.
func TestNoStaleValueRace(t *testing.T) {
	values, stopped := 0, 0
	rounds(t, func(on *clock.Clock) {
		timer := on.NewTimer(raceDelay())
		for range 100 {
			spin()
			d := raceDelay()
			earliest := time.Now().Add(d)
			timer.Reset(d)
			spin()
			select {
			case at := <-timer.C:
				values++
				require.False(t, at.Before(earliest), "%v too early", earliest.Sub(at))
				require.False(t, timer.Stop(), "the value has been received")
			default:
				require.True(t, timer.Stop(), "nothing has been received")
				stopped++
				spin()
				requireNothing(t, timer.C)
			}
		}
	})
	require.NotZero(t, values)
	require.NotZero(t, stopped)
	t.Logf("%d values received, %d times stopped before", values, stopped)
}

// The same holds for tickers, whose beats go on meanwhile.
func TestTickerRace(t *testing.T) {
	beats := 0
	rounds(t, func(on *clock.Clock) {
		ticker := on.NewTicker(1 + raceDelay())
		for range 50 {
			spin()
			d := 1 + raceDelay()
			earliest := time.Now().Add(d)
			ticker.Reset(d)
			at := <-ticker.C
			beats++
			require.False(t, at.Before(earliest), "%v too early", earliest.Sub(at))
			if rand.N(2) == 0 {
				ticker.Stop()
				spin()
				requireNothing(t, ticker.C)
			}
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for n := range 30 {
					if spin(); n%7 == 3 {
						ticker.Stop()
					} else {
						ticker.Reset(1 + raceDelay())
					}
				}
			})
		}
		wg.Wait()
		ticker.Reset(raceTick)
		<-ticker.C // it still works after all these operations
		<-ticker.C
		ticker.Stop()
		spin()
		requireNothing(t, ticker.C)
	})
	t.Logf("%d beats", beats)
}

func requireNothing(t *testing.T, c <-chan time.Time) {
	t.Helper()
	select {
	case <-c:
		require.Fail(t, "a stale value")
	default:
	}
}

// No timer is lost when the wheel is stopped while timers are made and reset, and while goroutines sleep.
func TestStopOfTheWheelRace(t *testing.T) {
	waited := 0
	rounds(t, func(on *clock.Clock) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				timer, done := on.NewTimer(time.Hour), make(chan struct{}, 1)
				f := on.AfterFunc(time.Hour, func() { done <- struct{}{} })
				for range 10 {
					on.Sleep(raceDelay())
					<-on.After(raceDelay())
					timer.Reset(raceDelay())
					<-timer.C
					f.Reset(raceDelay())
					<-done
				}
			})
		}
		wg.Wait()
		waited += 8 * 10 * 4
	})
	t.Logf("waited %d times", waited)
}
