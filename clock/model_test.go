package clock_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A pair is two equal timers, tickers or functions: one on a Clock, and one on package time. If all times are
// whole ticks, both must behave the same, because the wheel rounds nothing.
type pair struct {
	stop    func() (got, want bool)
	reset   func(d time.Duration) (got, want bool)
	c, timC <-chan time.Time // nil for functions
	ran     [2]atomic.Int64  // runs of the function
}

func newPair(on *clock.Clock, kind int, d time.Duration) *pair {
	p := &pair{}
	switch kind {
	case 0:
		a, b := on.NewTimer(d), time.NewTimer(d)
		p.c, p.timC = a.C, b.C
		p.stop = func() (bool, bool) { return a.Stop(), b.Stop() }
		p.reset = func(d time.Duration) (bool, bool) { return a.Reset(d), b.Reset(d) }
	case 1:
		a := on.AfterFunc(d, func() { p.ran[0].Add(1) })
		b := time.AfterFunc(d, func() { p.ran[1].Add(1) })
		p.stop = func() (bool, bool) { return a.Stop(), b.Stop() }
		p.reset = func(d time.Duration) (bool, bool) { return a.Reset(d), b.Reset(d) }
	default:
		d = max(d, time.Millisecond)
		a, b := on.NewTicker(d), time.NewTicker(d)
		p.c, p.timC = a.C, b.C
		p.stop = func() (bool, bool) { a.Stop(); b.Stop(); return true, true }
		p.reset = func(d time.Duration) (bool, bool) {
			d = max(d, time.Millisecond)
			a.Reset(d)
			b.Reset(d)
			return true, true
		}
	}
	return p
}

// receive returns the value in each of the two channels, or the zero Time if there is none.
func (p *pair) receive() (got, want time.Time) {
	select {
	case got = <-p.c:
	default:
	}
	select {
	case want = <-p.timC:
	default:
	}
	return got, want
}

// After random operations, timers and tickers look the same as those of package time. They wait on a wheel, on
// a full wheel, on one that is stopped meanwhile, or on none. Or their Clock was made outside of the bubble.
func TestSameAsPackageTime(t *testing.T) {
	rng := testkit.Rand(t)
	delays := []time.Duration{
		-1, 0, 1, time.Microsecond, tick / 2, tick - 1, // these are over at the next check
		tick, tick, 2 * tick, 3 * tick, 7 * tick, 30 * tick, 1000 * tick,
	}
	share := testkit.NewShare(t)
	for _, kind := range []string{"wheel", "full", "stopped", "zero", "outside"} {
		t.Run(kind, func(t *testing.T) {
			wheel := newWheel(t)
			outside := clock.New(wheel)
			for range share.Rounds(3, testkit.Sized(20, 60, 60)) {
				synctest.Test(t, func(t *testing.T) {
					var wheel *hashedwheel.Timer
					switch kind {
					case "wheel", "stopped":
						wheel = newWheel(t, hashedwheel.WithLevels(1+rng.IntN(2)), hashedwheel.WithWheelSize(8))
					case "full":
						wheel = newWheel(t, hashedwheel.WithMaxPending(2))
					}
					on := outside
					if kind == "zero" {
						on = new(clock.Clock)
					} else if kind != "outside" {
						on = clock.New(wheel)
					}
					compare(t, rng, on, wheel, kind == "stopped", delays)
				})
			}
			require.Zero(t, wheel.Stats().Accepted)
		})
	}
}

func compare(t *testing.T, rng *rand.Rand, on *clock.Clock, wheel *hashedwheel.Timer, stop bool, delays []time.Duration) {
	delay := func() time.Duration { return delays[rng.IntN(len(delays))] }
	pairs := make([]*pair, 5)
	for i := range pairs {
		pairs[i] = newPair(on, rng.IntN(3), delay())
	}
	log := ""
	for step := range 60 {
		synctest.Wait()
		if stop && step == 30 {
			require.Empty(t, wheel.Stop())
		}
		i := rng.IntN(len(pairs))
		p := pairs[i]
		var got, want any
		switch d := delay(); rng.IntN(6) {
		case 0:
			got, want = p.stop()
			log += fmt.Sprintf("stop %d; ", i)
		case 1, 2:
			got, want = p.reset(d)
			log += fmt.Sprintf("reset %d to %v; ", i, d)
		case 3:
			got, want = p.receive()
			log += fmt.Sprintf("receive %d; ", i)
		case 4:
			got, want = p.ran[0].Load(), p.ran[1].Load()
		case 5:
			n := time.Duration(1 + rng.IntN(4))
			time.Sleep(n * tick)
			log += fmt.Sprintf("%d ticks; ", n)
		}
		require.Equal(t, want, got, log)
	}
	time.Sleep(2000 * tick)
	synctest.Wait()
	for i, p := range pairs {
		require.Equal(t, p.ran[1].Load(), p.ran[0].Load(), "%d: %s", i, log)
		got, want := p.receive()
		require.Equal(t, want, got, "%d: %s", i, log)
		p.stop()
	}
	if wheel != nil {
		require.Zero(t, wheel.Pending())
	}
}
