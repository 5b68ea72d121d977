package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The test does random operations on a Timer and on a model, which is a list sorted by deadline. The timeouts are
// made by the timer or are fields of structs, and are armed with delays and with deadlines. Each timeout fires at
// the boundaries that the model gives, and at no other time. The number of pending timeouts agrees at every step.
func TestTimerModel(t *testing.T) {
	for range newShare(t).Rounds(1, sized(3, 8, 25)) {
		virtual(t, func(t *testing.T) {
			r := newRand(t)
			tick := []time.Duration{1, 10, 1001, time.Millisecond, 7 * time.Millisecond}[r.IntN(5)]
			size := 1 << r.IntN(8)
			timer := newTimer(t, WithTick(tick), WithWheelSize(size))
			m := model{start: time.Now(), tick: tick}

			delay := func() time.Duration {
				switch r.IntN(4) {
				case 0:
					return time.Duration(r.Int64N(5)-3) * tick
				case 1:
					return time.Duration(r.Int64N(int64(4 * tick)))
				}
				return time.Duration(r.Int64N(int64(tick) * int64(3*size)))
			}
			for range 1500 {
				var any *modelTimeout
				if len(m.all) > 0 {
					any = m.all[len(m.all)-1-min(r.IntN(len(m.all)), r.IntN(200))]
				}
				switch op := r.IntN(10); {
				case op < 3 || any == nil:
					mt := &modelTimeout{}
					run := TaskFunc(func(*Timeout) { mt.fired.note() })
					m.all = append(m.all, mt)
					d := delay()
					var err error
					switch r.IntN(3) {
					case 0:
						mt.to, err = timer.NewTimeout(run, d)
						m.arm(mt, d)
					case 1:
						mt.to, err = timer.NewTimeoutAt(run, time.Now().Add(d))
						m.arm(mt, d)
					default: // idle until a Reset arms it
						mt.to = &mt.own
						timer.Init(mt.to, run)
					}
					require.NoError(t, err)
				case op < 5:
					require.Equal(t, any.pending, any.to.Cancel())
					m.disarm(any)
				case op < 8:
					d := delay()
					var active bool
					var err error
					switch r.IntN(5) {
					case 0, 1:
						active, err = any.to.Reset(d)
					case 2, 3:
						active, err = any.to.ResetAt(time.Now().Add(d))
					default:
						if active = any.to.Move(d); !active {
							require.False(t, any.pending)
							continue
						}
					}
					require.NoError(t, err)
					require.Equal(t, any.pending, active)
					m.arm(any, d)
				default:
					pass(time.Duration(r.Int64N(int64(tick) * int64(1+r.IntN(size)))))
					m.expire()
				}
				for _, mt := range []*modelTimeout{any, m.any(r)} {
					if mt != nil {
						mt.check(t)
					}
				}
				require.Equal(t, len(m.sorted), timer.Pending())
			}
			pass(time.Duration(4*size+4) * tick)
			m.expire()
			for _, mt := range m.all {
				mt.check(t)
			}
			require.Zero(t, timer.Pending())
			require.EqualValues(t, resting, timer.worker.state.Load())
			st := timer.Stats()
			require.Equal(t, st.Accepted, st.Expired+st.Canceled)
		})
	}
}

// Tasks of random length run at a fixed rate or with a fixed delay, on all kinds of runners. A run starts when it is
// due or when the previous run has ended, whichever is later.
func TestRepeatingModel(t *testing.T) {
	rnd := newRand(t)
	for range newShare(t).Rounds(1, sized(4, 12, 40)) {
		const us = time.Microsecond
		tick := time.Duration(1+rnd.IntN(1000)) * us
		initial := time.Duration(rnd.IntN(3000)-200) * us
		period := time.Duration(1+rnd.IntN(3000)) * us
		phase := time.Duration(rnd.IntN(2000)) * us
		takes := make([]time.Duration, 100)
		for i := range takes {
			if rnd.IntN(3) == 0 {
				takes[i] = time.Duration(rnd.IntN(5000)) * us
			}
		}
		for name, opts := range executors() {
			for _, fixedRate := range []bool{true, false} {
				virtual(t, func(t *testing.T) {
					timer := newTimer(t, append(opts, WithTick(tick))...)
					start := time.Now()
					time.Sleep(phase)
					schedule := timer.ScheduleWithFixedDelay
					if fixedRate {
						schedule = timer.ScheduleAtFixedRate
					}
					done := make(chan struct{})
					n := 0 // the runs of one timeout never overlap
					due := phase + max(initial, 0)
					earliest := boundaryAt(due, tick)
					if initial <= 0 {
						earliest = boundaryAt(phase+1, tick)
					}
					_, err := schedule(TaskFunc(func(to *Timeout) {
						now := time.Since(start)
						assert.Equal(t, earliest, now, "%v: run %d", name, n)
						assert.False(t, to.IsExpired())
						assert.False(t, to.IsCanceled())
						if n == len(takes) {
							assert.True(t, to.Cancel())
							close(done)
							return
						}
						time.Sleep(takes[n])
						n++
						due += period
						if end := time.Since(start); fixedRate {
							earliest = max(end, boundaryAt(due, tick))
						} else {
							earliest = boundaryAt(end+period, tick)
						}
					}), initial, period)
					require.NoError(t, err)
					<-done
					synctest.Wait()
					checkStats(t, timer)
				})
			}
		}
	}
}
