package hashedwheel

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A task starts exactly at the first boundary at or after the deadline, for each tick, wheel size, moment of
// arming within the tick, and delay.
func TestExpiresAtTheFirstBoundary(t *testing.T) {
	for _, tick := range []time.Duration{1, 7, 999, time.Microsecond, 333 * time.Microsecond, time.Millisecond, 7 * time.Millisecond, 100 * time.Millisecond, time.Hour + 1} {
		for _, size := range []int{1, 2, 3, 8, 60, 64, 512} {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithWheelSize(size))
				start := time.Now()
				turn := tick * time.Duration(ceilPowerOfTwo(size))
				for _, phase := range []time.Duration{0, 1, tick / 2, tick - 1, tick, turn - 1, 3*turn + tick/3} {
					pass(max(0, phase-time.Since(start)))
					for _, delay := range []time.Duration{
						math.MinInt64, -tick, -1, 0, 1,
						tick - 1, tick, tick + 1, 2*tick - 1, 2 * tick,
						turn - tick, turn - 1, turn, turn + 1, turn + tick,
						2*turn - 1, 5 * turn, 5*turn + 1, 7*turn + tick/2,
					} {
						armed := time.Now()
						// The expected boundary, computed in another way than the library does it.
						want := start
						for n := (max(delay, 0) + armed.Sub(start)) / tick; !want.After(armed) || want.Before(armed.Add(delay)); n++ {
							want = start.Add(n * tick)
						}
						to, err := timer.AfterFunc(delay, func() {
							elapsed := time.Since(armed)
							if delay > elapsed || elapsed > max(delay, 0)+tick || !time.Now().Equal(want) {
								t.Errorf("tick %v, size %d, armed at %v: delay %v, elapsed %v, want %v", tick, size, armed.Sub(start), delay, elapsed, want.Sub(armed))
							}
						})
						require.NoError(t, err)
						require.Equal(t, want.Sub(start), to.Deadline().Sub(start))
					}
				}
				pass(8*turn + 2*tick)
				require.Zero(t, timer.Pending())
				require.EqualValues(t, 7*19, timer.Stats().Expired)
			})
		}
	}
}

// A timeout with a delay near the largest Duration never fires, and its tick does not overflow. It can be
// canceled, reset and handed back like any other.
func TestHugeDelayNeverExpires(t *testing.T) {
	for _, tick := range []time.Duration{1, 10 * time.Millisecond, math.MaxInt64} {
		virtual(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick), WithWheelSize(8))
			pass(1)
			var all []*Timeout
			var fired atomic.Int64
			for _, delay := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - tick + 1, math.MaxInt64} {
				to, err := timer.AfterFunc(delay, func() { fired.Add(1) })
				require.NoError(t, err)
				require.Greater(t, time.Until(to.Deadline()), 200*365*24*time.Hour)
				all = append(all, to)
			}
			if tick > 1 {
				pass(4 * 365 * 24 * time.Hour)
			} else { // in many steps: no entry lies more than two seconds ahead
				pass(sized[time.Duration](1, 3, 100) * 24 * time.Hour)
			}
			require.Zero(t, fired.Load())
			require.Equal(t, len(all), timer.Pending())

			require.True(t, all[0].Cancel())
			if tick < time.Hour {
				active, err := all[1].Reset(tick)
				require.True(t, active)
				require.NoError(t, err)
				pass(2 * tick)
				require.EqualValues(t, 1, fired.Load())
				require.Len(t, timer.Stop(), 2)
			} else {
				require.Len(t, timer.Stop(), 3)
			}
		})
	}
}

// A worker that could not run for long fires everything overdue at once, and is on time again afterwards. Here
// time passes before the worker starts, as if the machine had been suspended.
func TestStallFiresWhatIsOverdueAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithWheelSize(64))
		start := time.Now()
		var fired moments
		arm := func(delay time.Duration) {
			_, err := timer.AfterFunc(delay, fired.note)
			require.NoError(t, err)
		}
		w := &timer.worker
		w.presence.Store(awake) // so that nobody starts a worker
		for _, d := range []time.Duration{1, time.Second, time.Minute, 59 * time.Minute, 2 * time.Hour} {
			arm(d)
		}
		w.wheel = newWheel(w.wheelSize, w.levels, 0)
		w.drain()
		arm(time.Hour) // still on the queue
		pass(time.Hour + time.Microsecond)
		require.Empty(t, fired.all())

		go w.run()
		arm(time.Millisecond)
		synctest.Wait()
		now := start.Add(time.Hour + time.Microsecond)
		require.Equal(t, []time.Time{now, now, now, now, now}, fired.all())
		pass(2 * time.Hour)
		require.Equal(t, []time.Time{start.Add(time.Hour + 2*time.Millisecond), start.Add(2 * time.Hour)}, fired.all()[5:])
	})
}

// The test does random operations on a Timer and on a model, which is a list sorted by deadline. The timeouts are
// made by the timer or are fields of structs, and are armed with delays and with deadlines. Each timeout fires at
// the boundaries that the model gives, and at no other time. The number of pending timeouts agrees at every step.
func TestTimerModel(t *testing.T) {
	for range sized(3, 8, 25) {
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
			require.Zero(t, timer.worker.presence.Load(), "the worker has not ended")
			st := timer.Stats()
			require.Equal(t, st.Accepted, st.Expired+st.Canceled)
		})
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
	to       *Timeout
	own      Timeout // if to is a field of a struct, it points here
	pending  bool
	canceled bool
	deadline time.Time
	want     []time.Time // when it should have fired so far
	fired    moments     // when it has fired
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
	require.Equal(t, mt.want, mt.fired.all())
	require.Equal(t, mt.canceled, mt.to.IsCanceled())
	idle := mt.deadline.IsZero()
	require.Equal(t, !mt.canceled && !mt.pending && !idle, mt.to.IsExpired())
	require.True(t, mt.to.Deadline().Equal(mt.deadline))
}

// The limit of pending timeouts holds exactly. A slot is free again as soon as its timeout has ended, in
// whichever way.
func TestMaxPending(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxPending(3))
		var all []*Timeout
		fill := func() {
			t.Helper()
			for timer.Pending() < 3 {
				to, err := timer.AfterFunc(time.Second, nop)
				require.NoError(t, err)
				all = append(all, to)
			}
			to, err := timer.AfterFunc(time.Second, nop)
			require.ErrorIs(t, err, ErrTooManyPending)
			require.Nil(t, to)
			require.Equal(t, 3, timer.Pending())
		}
		fill()
		require.True(t, all[0].Cancel())
		fill()

		// A Reset of a pending timeout needs no further slot. A Reset of one that has ended
		// needs a slot; without one it is refused, and changes nothing.
		active, err := all[1].Reset(2 * time.Second)
		require.True(t, active)
		require.NoError(t, err)
		deadline := all[0].Deadline()
		pass(time.Microsecond)
		active, err = all[0].Reset(time.Millisecond)
		require.False(t, active)
		require.ErrorIs(t, err, ErrTooManyPending)
		require.True(t, all[0].IsCanceled())
		require.Equal(t, deadline, all[0].Deadline())

		// Expiry frees the slot before the task runs.
		inside := false
		require.True(t, all[1].Cancel())
		_, err = timer.NewTimeout(TaskFunc(func(to *Timeout) {
			active, err := to.Reset(time.Hour)
			inside = !active && err == nil
		}), time.Millisecond)
		require.NoError(t, err)
		fill()
		pass(2 * time.Millisecond)
		require.True(t, inside)
		fill()

		require.EqualValues(t, 5, timer.Stats().Rejected)
		require.Len(t, timer.Stop(), 3)
		require.Zero(t, timer.slotsInUse())
		_, err = timer.AfterFunc(time.Second, nop)
		require.ErrorIs(t, err, ErrStopped)
		require.Zero(t, timer.slotsInUse())
	})
}

// Stop hands back the pending timeouts, wherever they are. After Stop every arming is refused.
func TestStop(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond), WithWheelSize(4))
		var fired atomic.Int64
		arm := func(delay time.Duration) *Timeout {
			to, err := timer.AfterFunc(delay, func() { fired.Add(1) })
			require.NoError(t, err)
			return to
		}
		gone := arm(time.Millisecond)
		near, far, never := arm(20*time.Millisecond), arm(time.Hour), arm(math.MaxInt64)
		late := arm(time.Hour)
		time.Sleep(10 * time.Millisecond) // now these are in buckets
		synctest.Wait()
		fresh := arm(0) // this and the next are on the queue
		moved := arm(time.Hour)
		_, err := late.Reset(2 * time.Hour) // the worker does not know of this
		require.NoError(t, err)
		_, err = far.Reset(15 * time.Millisecond) // nor of this, for which far is on the queue
		require.NoError(t, err)
		canceled := arm(time.Hour)
		require.True(t, canceled.Cancel())

		left := timer.Stop()
		require.ElementsMatch(t, []*Timeout{near, far, never, late, fresh, moved}, left)
		require.True(t, timer.IsStopped())
		require.Zero(t, timer.Pending())
		for _, to := range left {
			assert.True(t, to.IsCanceled())
			assert.False(t, to.IsExpired())
			assert.False(t, to.Cancel())
		}
		require.Nil(t, timer.Stop())

		for _, to := range append(left, gone, canceled) {
			before := to.String()
			active, err := to.Reset(0)
			require.False(t, active)
			require.ErrorIs(t, err, ErrStopped)
			require.Equal(t, before, to.String())
		}
		to, err := timer.AfterFunc(0, nop)
		require.ErrorIs(t, err, ErrStopped)
		require.Nil(t, to)

		pass(3 * time.Hour)
		require.EqualValues(t, 1, fired.Load())
		require.Equal(t, Stats{Accepted: 8, Expired: 1, Canceled: 1, Returned: 6, Rejected: 9}, outcomes(timer))
	})
}

func TestStopOfAFreshTimer(t *testing.T) {
	timer := newTimer(t)
	require.False(t, timer.IsStopped())
	require.Empty(t, timer.Stop())
	require.Nil(t, timer.Stop())
	require.True(t, timer.IsStopped())
}

// Stop does not wait for a task that takes long. On virtual time Stop takes no time, on real time not much.
func TestStopDoesNotWaitForLongTasks(t *testing.T) {
	stop := func(t *testing.T, started chan bool) {
		timer := newTimer(t, WithTick(time.Millisecond))
		release := make(chan bool)
		defer close(release)
		_, err := timer.AfterFunc(0, func() { started <- true; <-release })
		require.NoError(t, err)
		<-started
		before := time.Now()
		timer.Stop()
		require.Less(t, time.Since(before), patience)
		if before.Year() == 2000 { // in a bubble, which starts in 2000
			require.Zero(t, time.Since(before))
		}
	}
	virtual(t, func(t *testing.T) { stop(t, make(chan bool)) })
	stop(t, make(chan bool))
}

// After Stop the timer does not keep the returned timeouts in memory, and no handle keeps another one in memory.
func TestStopReleases(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		var others []weak.Pointer[Timeout]
		arm := func() {
			for range 50 {
				to, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				others = append(others, weak.Make(to))
			}
		}
		arm() // in buckets
		pass(2 * time.Millisecond)
		arm() // on the queue
		kept := timer.Stop()[:0:0]
		for _, p := range others {
			if len(kept) == 0 {
				kept = append(kept, p.Value())
			}
		}
		runtime.GC()
		for i, p := range others[1:] {
			require.Nil(t, p.Value(), "timeout %d", i+1)
		}
		runtime.KeepAlive(kept)
		runtime.KeepAlive(timer)
	})
}

// Stop inside a task also returns the timeouts that come after this task at the same tick.
func TestStopFromInsideATask(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1))
		ran, left := 0, 0
		for range 10 {
			_, err := timer.AfterFunc(time.Millisecond, func() {
				ran++
				left += len(timer.Stop())
			})
			require.NoError(t, err)
		}
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, 1, ran)
		require.Equal(t, 10, left)
	})
}

// A wrong option is an error that names it, its value and what is allowed.
func TestWrongOptions(t *testing.T) {
	for _, c := range []struct {
		opt  Option
		want string
	}{
		{WithTick(0), "hashedwheel: WithTick(0s): the tick must be positive"},
		{WithTick(-time.Second), "hashedwheel: WithTick(-1s): the tick must be positive"},
		{WithWheelSize(0), "hashedwheel: WithWheelSize(0): the size must be 1 to 1048576"},
		{WithWheelSize(1<<20 + 1), "hashedwheel: WithWheelSize(1048577): the size must be 1 to 1048576"},
		{WithLevels(0), "hashedwheel: WithLevels(0): the number must be 1 to 8"},
		{WithLevels(9), "hashedwheel: WithLevels(9): the number must be 1 to 8"},
		{WithMaxConcurrency(-1), "hashedwheel: WithMaxConcurrency(-1): the limit must be positive, or 0 for none"},
		{WithMaxPending(-1), "hashedwheel: WithMaxPending(-1): the limit must be positive, or 0 for none"},
	} {
		timer, err := New(c.opt)
		require.EqualError(t, err, c.want)
		require.Nil(t, timer)
	}
}

func TestOptions(t *testing.T) {
	c, err := newConfig(nil)
	require.NoError(t, err)
	require.Equal(t, config{tick: 100 * time.Millisecond, wheelSize: 512, levels: 1}, c)

	for n, want := range map[int]int{1: 1, 2: 2, 3: 4, 511: 512, 512: 512, 513: 1024, 1 << 20: 1 << 20} {
		c, err := newConfig([]Option{WithWheelSize(n), nil})
		require.NoError(t, err)
		require.Equal(t, want, c.wheelSize)
	}
}

// Each option for a number or a name arrives at the part that it configures.
func TestOptionsAreApplied(t *testing.T) {
	timer := newTimer(t, WithTick(3*time.Second), WithWheelSize(100), WithLevels(3), WithMaxPending(9), WithMaxConcurrency(8),
		WithName("some"))
	require.Equal(t, 3*time.Second, timer.clock.tick)
	require.Equal(t, 128, timer.worker.wheelSize)
	require.Equal(t, 3, timer.worker.levels)
	require.EqualValues(t, 9, timer.limit.max)
	require.Equal(t, 8, timer.tasks.limit)
	require.Equal(t, "some", timer.Name())
}

// A new timer takes at most 1 KiB more memory than the documentation of New says, on machines with few processors
// and with many. A timer that has been used, and has nothing pending, takes at most 1 KB more.
func TestEmptyTimerIsSmall(t *testing.T) {
	for procs, most := range map[int]int{1: 5 << 10, 2: 5 << 10, 8: 6 << 10, 256: 37 << 10} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			const n = 200
			timers := make([]*Timer, n)
			before := heapInUse()
			for i := range timers {
				timers[i] = newTimer(t)
			}
			size := int(heapInUse()-before) / n
			t.Logf("%d processors: %d bytes", procs, size)
			require.LessOrEqual(t, size, most)
			for _, timer := range timers {
				to, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				require.True(t, to.Cancel())
			}
			for _, timer := range timers {
				require.Eventually(t, func() bool { return timer.worker.presence.Load() == absent }, patience, time.Millisecond)
			}
			require.LessOrEqual(t, int(heapInUse()-before)/n, most+1<<10)
			runtime.KeepAlive(timers)
		}()
	}
}

// A nil task gives an error at once, not a panic later.
func TestNilTask(t *testing.T) {
	timer := newTimer(t)
	for _, task := range []Task{nil, TaskFunc(nil)} {
		to, err := timer.NewTimeout(task, 0)
		require.ErrorIs(t, err, ErrNilTask)
		require.Nil(t, to)
	}
	to, err := timer.AfterFunc(0, nil)
	require.ErrorIs(t, err, ErrNilTask)
	require.Nil(t, to)
	require.Zero(t, timer.Stats())
}
