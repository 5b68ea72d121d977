package crossing

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// The test does random operations on a Timer and on a model, which is a list sorted by deadline. The timeouts are
// made by the timer or are fields of structs, and are armed with delays and with deadlines. Each timeout fires at
// the boundaries that the model gives, and at no other time. The number of pending timeouts agrees at every step.
func TestTimerModel(t *testing.T) {
	for range testkit.NewShare(t).Rounds(1, testkit.Sized(3, 8, 25)) {
		testkit.Virtual(t, func(t *testing.T, levels int) {
			r := testkit.Rand(t)
			tick := []time.Duration{1, 10, 1001, time.Millisecond, 7 * time.Millisecond}[r.IntN(5)]
			size := 1 << r.IntN(8)
			timer := newTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithWheelSize(size), hashedwheel.WithLevels(levels))
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
					run := hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { mt.fired.Note() })
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
						timer.Bind(mt.to, run)
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
					testkit.Pass(time.Duration(r.Int64N(int64(tick) * int64(1+r.IntN(size)))))
					m.expire()
				}
				for _, mt := range []*modelTimeout{any, m.any(r)} {
					if mt != nil {
						mt.check(t)
					}
				}
				require.Equal(t, len(m.sorted), timer.Pending())
			}
			testkit.Pass(time.Duration(4*size+4) * tick)
			m.expire()
			for _, mt := range m.all {
				mt.check(t)
			}
			require.Zero(t, timer.Pending())
			checkStats(t, timer)
			testkit.Pass(time.Second)
			require.Nil(t, timer.Stats().Levels, "the worker has nothing to do")
		})
	}
}

// Tasks of random length run at a fixed rate or with a fixed delay, on all kinds of runners. A run starts when it is
// due or when the previous run has ended, whichever is later.
func TestRepeatingModel(t *testing.T) {
	rnd := testkit.Rand(t)
	for range testkit.NewShare(t).Rounds(1, testkit.Sized(4, 12, 40)) {
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
		for name, opts := range waysToRun() {
			for _, fixedRate := range []bool{true, false} {
				testkit.Virtual(t, func(t *testing.T, levels int) {
					timer := newTimer(t, append(append(levelsOf(levels), opts...), hashedwheel.WithTick(tick))...)
					start := time.Now()
					time.Sleep(phase)
					schedule := timer.ScheduleWithFixedDelay
					if fixedRate {
						schedule = timer.ScheduleAtFixedRate
					}
					done := make(chan struct{})
					n := 0 // the runs of one timeout never overlap
					due := phase + max(initial, 0)
					earliest := testkit.Boundary(due, tick)
					if initial <= 0 {
						earliest = testkit.Boundary(phase+1, tick)
					}
					_, err := schedule(hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) {
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
							earliest = max(end, testkit.Boundary(due, tick))
						} else {
							earliest = testkit.Boundary(end+period, tick)
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

// model is a timer that is so simple that it is obviously right.
type model struct {
	start  time.Time
	tick   time.Duration
	all    []*modelTimeout
	sorted []*modelTimeout // the pending ones, by deadline
}

type modelTimeout struct {
	to       *hashedwheel.Timeout
	own      hashedwheel.Timeout // if to is a field of a struct, it points here
	pending  bool
	canceled bool
	deadline time.Time
	want     []time.Time     // when it should have fired so far
	fired    testkit.Moments // when it has fired
}

func (m *model) any(r *rand.Rand) *modelTimeout {
	if len(m.all) == 0 {
		return nil
	}
	return m.all[r.IntN(len(m.all))]
}

func (m *model) arm(mt *modelTimeout, delay time.Duration) {
	m.remove(mt)
	since := time.Since(m.start) + max(delay, 0)
	n := since / m.tick
	if n*m.tick < since || delay <= 0 {
		n++
	}
	mt.pending, mt.canceled, mt.deadline = true, false, m.start.Add(n*m.tick)
	i, _ := slices.BinarySearchFunc(m.sorted, mt, func(a, b *modelTimeout) int { return a.deadline.Compare(b.deadline) })
	m.sorted = slices.Insert(m.sorted, i, mt)
}

func (m *model) disarm(mt *modelTimeout) {
	if mt.pending {
		mt.canceled = true
		m.remove(mt)
	}
}

func (m *model) remove(mt *modelTimeout) {
	mt.pending = false
	m.sorted = slices.DeleteFunc(m.sorted, func(x *modelTimeout) bool { return x == mt })
}

func (m *model) expire() {
	for len(m.sorted) > 0 && !m.sorted[0].deadline.After(time.Now()) {
		mt := m.sorted[0]
		mt.want = append(mt.want, mt.deadline)
		m.remove(mt)
	}
}

func (mt *modelTimeout) check(t *testing.T) {
	t.Helper()
	require.Equal(t, mt.want, mt.fired.All())
	require.Equal(t, mt.canceled, mt.to.IsCanceled())
	idle := mt.deadline.IsZero()
	require.Equal(t, !mt.canceled && !mt.pending && !idle, mt.to.IsExpired())
	require.True(t, mt.to.Deadline().Equal(mt.deadline))
}
