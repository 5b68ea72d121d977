package idle

import (
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// SetSilence sets a limit for one connection, which begins at the call. It holds from then on, also after activity.
func TestSetSilence(t *testing.T) {
	const old = 100 * ms
	for name, d := range map[string]time.Duration{
		"shorter": 35 * ms, "longer": 777 * ms, "the same": old, "less than a tick": 1, "much longer": 10 * 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			for _, active := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					l := newLimit(t, old)
					start := time.Now()
					var closed [2]atomic.Int64
					var conns [2]*Conn
					for i := range conns {
						var err error
						conns[i], err = l.Conn(&fake{close: func() error { closed[i].Store(int64(time.Since(start))); return nil }})
						require.NoError(t, err)
					}
					time.Sleep(57 * ms)
					begins := 57 * ms
					require.NoError(t, conns[0].SetSilence(d))
					if active {
						pause := min(d, 23*ms) // at the deadline it may be over
						time.Sleep(pause)
						_, err := conns[0].Read(make([]byte, 1))
						require.NoError(t, err)
						begins += pause
					}
					pass(boundary(begins+d) - 1 - time.Since(start))
					require.Zero(t, closed[0].Load())
					pass(1)
					require.EqualValues(t, boundary(begins+d), closed[0].Load())
					pass(old)
					require.EqualValues(t, old, closed[1].Load(), "the other connection keeps the old limit")
				})
			}
		})
	}
}

// A connection without a limit is not closed, and may get a limit again. Activity does not bring the old one back.
func TestNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms)
		c, err := l.Conn(&fake{})
		require.NoError(t, err)
		require.NoError(t, c.SetSilence(math.MaxInt64))
		for range 10 {
			time.Sleep(10 * 365 * 24 * time.Hour)
			_, err = c.Write(make([]byte, 1))
			require.NoError(t, err)
		}
		require.Zero(t, l.NumClosed())
		require.NoError(t, c.SetSilence(ms))
		pass(tick)
		require.EqualValues(t, 1, l.NumClosed())
	})
}

// Activity in the tick in which the limit was started anew needs no Move, however long the limit is. A deadline that is too far
// away saturates, and could cover nothing: then each Read would move it.
func TestCoveredWhateverTheSilence(t *testing.T) {
	const far = 5 * 365 * 24 * time.Hour
	for _, d := range []time.Duration{
		1, tick, time.Hour, math.MaxInt64 / 2, math.MaxInt64 - 2*far, math.MaxInt64 - far - 1, math.MaxInt64 - far,
		math.MaxInt64 - tick, math.MaxInt64 - 1, math.MaxInt64,
	} {
		for _, by := range []string{"New", "SetSilence"} {
			t.Run(fmt.Sprint(by, " ", d), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					timer := newLimit(t, time.Hour).timer
					time.Sleep(far/2 + 3*ms) // the Limit is younger than its timer
					silence := time.Second
					if by == "New" {
						silence = d
					}
					l, err := New(timer, silence)
					require.NoError(t, err)
					c, err := l.Conn(&fake{})
					require.NoError(t, err)
					if by == "SetSilence" {
						require.NoError(t, c.SetSilence(d))
						require.GreaterOrEqual(t, c.covered.Load(), int64(time.Since(l.start)))
					}
					for range 10 {
						time.Sleep(min(d, far/5))
						if d <= tick {
							break // the limit may have ended
						}
						_, err := c.Read(make([]byte, 1))
						require.NoError(t, err)
						require.GreaterOrEqual(t, c.covered.Load(), int64(time.Since(l.start)))
					}
				})
			})
		}
	}
}

// An error leaves the limit as it is, or says why there is none.
func TestSetSilenceErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(t, 100*ms)
		idle, _ := newPipe(t, l)
		for d, text := range map[time.Duration]string{0: "0s", -ms: "-1ms", math.MinInt64: "-2562047h47m16.854775808s"} {
			require.EqualError(t, idle.SetSilence(d), "idle: Conn.SetSilence: silence "+text+": it must be positive")
		}
		pass(100*ms - 1)
		require.Zero(t, l.NumClosed())
		pass(1)
		require.EqualValues(t, 1, l.NumClosed())
		check := func(c *Conn, want error) {
			t.Helper()
			err := c.SetSilence(time.Second)
			require.ErrorIs(t, err, want)
			var op *net.OpError
			require.True(t, errors.As(err, &op))
			require.Equal(t, "set", op.Op)
			require.Equal(t, "pipe", op.Net)
			pass(2 * time.Second)
		}
		check(idle, ErrIdle)
		closed, _ := newPipe(t, l)
		require.NoError(t, closed.Close())
		check(closed, net.ErrClosed)
		require.Zero(t, l.timer.Pending(), "a limit that has ended is not armed again")

		stopped, _ := newPipe(t, l)
		l.timer.Stop()
		check(stopped, hashedwheel.ErrStopped)
		check(idle, ErrIdle)
		require.EqualValues(t, 1, l.NumClosed())
	})
}

// With WithReadsOnly, what is written does not start a limit of SetSilence anew either.
func TestSetSilenceReadsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newLimit(t, time.Second).timer
		l, err := New(timer, time.Second, WithReadsOnly())
		require.NoError(t, err)
		c, err := l.Conn(&fake{})
		require.NoError(t, err)
		require.NoError(t, c.SetSilence(50*ms))
		pass(49 * ms)
		_, err = c.Write(make([]byte, 1))
		require.NoError(t, err)
		pass(ms)
		require.EqualValues(t, 1, l.NumClosed())
	})
}

// SetSilence takes covered back before it moves the timeout. Here it gets no further, because Move panics in a bubble.
func TestCoveredIsTakenBackFirst(t *testing.T) {
	l := newLimit(t, time.Hour)
	c, err := l.Conn(&fake{})
	require.NoError(t, err)
	require.NoError(t, c.SetSilence(time.Minute))
	require.GreaterOrEqual(t, c.covered.Load(), int64(0))
	synctest.Test(t, func(t *testing.T) {
		require.Panics(t, func() { c.SetSilence(time.Second) })
	})
	require.Negative(t, c.covered.Load())
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err, "the lock is free")
	require.GreaterOrEqual(t, c.covered.Load(), int64(0))
}

// Covered never promises more than the deadline, while SetSilence changes both. Otherwise activity at that moment would not
// move a deadline that comes too early for it.
func TestSetSilenceMeetsActivityRace(t *testing.T) {
	const short, most = time.Minute + 300*time.Microsecond, 900_000 // so no two limits have the same remainder
	l := newLimit(t, time.Hour, hashedwheel.WithTick(ms))
	c, err := l.Conn(&fake{})
	require.NoError(t, err)
	var users sync.WaitGroup
	done := make(chan struct{})
	users.Go(func() {
		defer close(done)
		end := time.Now().Add(testkit.StressTime(t))
		for i := time.Duration(0); i < most && time.Now().Before(end); i += 2 {
			for _, d := range []time.Duration{time.Hour + i, short + i} {
				if err := c.SetSilence(d); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	users.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			covered := c.covered.Load()
			deadline := c.timeout.Deadline().Sub(l.start)
			if covered >= 0 && covered == c.covered.Load() && deadline-time.Duration(covered) < short {
				t.Errorf("covered until %v, and the deadline is %v", time.Duration(covered), deadline)
				return
			}
			runtime.Gosched()
		}
	})
	users.Wait()
}
