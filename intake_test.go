package hashedwheel

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// churn arms and cancels timeouts of an hour without pause for d, of virtual time: very many in the middle of each tick.
// The last live ones are pending. After each burst it calls each.
func churn(t *testing.T, timer *Timer, live int, d time.Duration, each func(elapsed time.Duration)) {
	ring := make([]*Timeout, live)
	tick := timer.Tick()
	perTick := int(tick / (2 * time.Microsecond))
	time.Sleep(tick / 2)
	start := time.Now()
	for elapsed := time.Duration(0); elapsed < d; elapsed = time.Since(start) {
		for i := range perTick {
			to, err := timer.AfterFunc(time.Hour, nop)
			if old := ring[i%len(ring)]; err != nil || old != nil && !old.Cancel() {
				t.Fatal(err) // not by package require, which takes longer than the two calls
			}
			ring[i%len(ring)] = to
		}
		synctest.Wait()
		each(elapsed)
		time.Sleep(tick)
	}
	for _, to := range ring {
		if to != nil {
			require.True(t, to.Cancel())
		}
	}
}

// The worker takes at once what is near, and leaves what is far in nurseries, until two sweeps have met it. It drops what is
// canceled within two seconds.
func TestFarStaysWithProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		placed := func() (n int) {
			for _, level := range timer.Stats().Levels {
				n += level.Timeouts
			}
			return n
		}
		var near *Timeout
		churn(t, timer, 3000, 2*sweepTime, func(elapsed time.Duration) {
			synctest.Wait()
			if elapsed > sweepTime+5*tick {
				require.LessOrEqual(t, placed(), 1, "those that were left to the worker when the nursery grew have gone")
			}
			require.Greater(t, timer.Stats().Queued, 1000)
			if near == nil {
				var err error
				near, err = timer.AfterFunc(nearTime/2, nop)
				require.NoError(t, err)
			} else {
				require.False(t, onQueue(near.word.Load()), "the worker takes what is near")
			}
		})
		require.Equal(t, expired, int(status(near.word.Load())))
		require.NotZero(t, timer.queue.inUse())
		pass(2 * time.Second)
		require.Zero(t, timer.queue.inUse())
	})
}

// Timeouts that live long go to the wheel although producers do not pause.
func TestLongLivedGoToTheWheel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		const n = 5000
		var all []*Timeout
		timer.queue.init(timer.clock.Tick, 1) // one stripe, whose table has grown, so that growth moves none of these
		timer.queue.seats = nil
		timer.queue.stripes[0].nursery.table.Store(newTable(1 << 15))
		churn(t, timer, 3000, 3*sweepTime, func(elapsed time.Duration) {
			if elapsed == 50*time.Millisecond {
				for range n {
					to, err := timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
					all = append(all, to)
				}
			}
			synctest.Wait()
			onWheel := 0
			for _, to := range all {
				if !onQueue(to.word.Load()) {
					onWheel++
				}
			}
			switch {
			case elapsed < sweepTime:
				require.Zero(t, onWheel)
			case elapsed > 50*time.Millisecond+2*sweepTime:
				require.Equal(t, len(all), onWheel)
			}
		})
		require.Equal(t, n, timer.Pending())
	})
}

// Beside producers that do not pause, timeouts are on time wherever they lie: near or far, reset to a later tick or to an
// earlier one.
func TestOnTimeBesideProducers(t *testing.T) {
	t.Parallel()
	for _, tick := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick))
			r := newRand(t)
			var mu sync.Mutex // because the passing of virtual time does not order memory
			fired := 0
			arm := func(n int, reset bool) {
				for range n {
					delay := time.Duration(r.Int64N(int64(2 * time.Second)))
					first := delay
					if reset {
						first = time.Duration(r.Int64N(int64(3 * time.Second)))
					}
					due := time.Now()
					to, err := timer.AfterFunc(first, func() {
						mu.Lock()
						defer mu.Unlock()
						fired++
						if late := time.Since(due); late < 0 || late >= tick {
							t.Errorf("late by %v", late)
						}
					})
					require.NoError(t, err)
					mu.Lock()
					due = due.Add(first)
					mu.Unlock()
					if reset {
						time.AfterFunc(min(first, 500*time.Millisecond)/2, func() {
							mu.Lock()
							defer mu.Unlock()
							due = time.Now().Add(delay)
							to.Reset(delay)
						})
					}
				}
			}
			armed := 0
			churn(t, timer, 3000, sized(time.Second/2, time.Second, time.Second), func(elapsed time.Duration) {
				if elapsed < 3*tick {
					return
				}
				arm(2, false)
				arm(2, true)
				armed += 4
			})
			pass(10 * time.Second)
			require.Equal(t, armed, fired)
			require.Zero(t, timer.Pending())
		})
	}
}

// Beside producers that do not pause, a timeout is on time that was brought forward before, to a later tick, with or without a
// Cancel between the two calls.
func TestForwardedAgain(t *testing.T) {
	const tick = time.Millisecond
	cancel := func(to *Timeout) { to.Cancel(); to.Reset(2 * tick) }
	for name, c := range map[string]struct {
		limit  int
		second func(to *Timeout)
	}{
		"Reset":               {second: func(to *Timeout) { to.Reset(2 * tick) }},
		"Move":                {second: func(to *Timeout) { to.Move(2 * tick) }},
		"Cancel":              {second: cancel},
		"Cancel with a limit": {second: cancel, limit: 1e6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithMaxPending(c.limit))
				setStripes(timer, 256)
				timer.queue.seats = nil
				var due, fired moments
				churn(t, timer, 3000, sized(150*tick, 300*tick, 300*tick), func(elapsed time.Duration) {
					// On a stripe that others seldom use.
					to, hour, s := &Timeout{timer: timer, task: plainFunc(fired.Note)}, timer.clock.DueIn(time.Hour), &timer.queue.stripes[200]
					*to.wordPtr() = pendingAt(young, hour)
					timer.limit.acquire()
					s.nursery.put(to, timer.queue.nearAt(hour), false)
					timer.worker.wakeBy(hour)
					to.Reset(time.Second)
					time.Sleep(tick / 4)
					c.second(to)
					due.Add(time.Now().Add(2 * tick))
				})
				pass(3 * tick)
				require.Len(t, fired.All(), len(due.All()))
				for i, at := range fired.All() {
					require.Less(t, at.Sub(due.All()[i]), tick)
				}
			})
		})
	}
}

// A round that hands over what is due allocates nothing, not even right after two garbage collections, which empty every
// sync.Pool. The test runs on real time, because it counts what the whole process allocates.
func TestRoundsAllocateNothing(t *testing.T) {
	if oneThread {
		t.Skip("on js/wasm, timers of the runtime allocate")
	}
	timer := newTimer(t, WithTick(time.Millisecond))
	fired := make(chan struct{}, 1)
	var to Timeout
	timer.Bind(&to, plainFunc(func() { fired <- struct{}{} }))
	clean := 0
	rounds := sized(20, 60, 60)
	for range rounds {
		runtime.GC()
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := to.Reset(3 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		<-fired
		runtime.ReadMemStats(&after)
		if after.Mallocs == before.Mallocs {
			clean++
		}
	}
	t.Logf("%d of %d rounds allocated nothing", clean, rounds)
	require.Greater(t, clean, rounds/2) // the others met an allocation of the runtime's own
}

// endOfRound brings the worker of a timer to the end of a round after which it would watch: it comes for the next sweep. A far
// timeout is on the queue. It returns the timeout, and a function that does the rest.
func endOfRound(t *testing.T, timer *Timer, task func()) (far *Timeout, leave func()) {
	w := &timer.worker
	require.True(t, w.claimRound()) // the test is the worker
	w.round()
	time.Sleep(timer.Tick())
	far, err := timer.AfterFunc(time.Hour, task)
	require.NoError(t, err)
	until, next := w.round()
	require.Less(t, timer.clock.Now()+1, next)
	require.Less(t, next, uint64(ticks.Never))
	return far, func() {
		if !w.leave(until, next) {
			go w.run()
		}
		synctest.Wait()
	}
}

// A timeout becomes near while a round that does not take it is about to end, or while the worker watches. It is on
// time. So is one that a producer takes for a far one, because the position has not moved for long.
func TestNearWhileWatching(t *testing.T) {
	const tick = time.Millisecond
	for name, use := range map[string]func(t *testing.T, timer *Timer, fired func(), far *Timeout){
		"reset": func(t *testing.T, timer *Timer, fired func(), far *Timeout) {
			_, err := far.Reset(2 * tick)
			require.NoError(t, err)
		},
		"canceled and reset": func(t *testing.T, timer *Timer, fired func(), far *Timeout) {
			require.True(t, far.Cancel())
			_, err := far.Reset(2 * tick)
			require.NoError(t, err)
		},
		"armed": func(t *testing.T, timer *Timer, fired func(), far *Timeout) {
			_, err := timer.AfterFunc(2*tick, fired)
			require.NoError(t, err)
		},
		"old position": func(t *testing.T, timer *Timer, fired func(), far *Timeout) {
			time.Sleep(2 * nearTime)
			_, err := timer.AfterFunc(2*tick, fired)
			require.NoError(t, err)
		},
	} {
		for _, before := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick))
				var fired moments
				far, leave := endOfRound(t, timer, fired.Note)
				if !before {
					leave()
				}
				if name == "old position" && !before {
					return // the worker would not watch for so long
				}
				use(t, timer, fired.Note, far)
				armed := time.Now()
				if before {
					leave()
				}
				pass(10 * tick)
				require.Equal(t, []time.Duration{2 * tick}, fired.Since(armed), "%s, before the end of the round: %v", name, before)
			})
		}
	}
}

// While the worker watches, a deadline that has passed counts as a delay of zero.
func TestPastDeadlineWhileWatching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		_, leave := endOfRound(t, timer, nop)
		leave()
		time.Sleep(5*time.Millisecond + time.Microsecond)
		require.Less(t, timer.clock.Now()<<idleShift, timer.worker.state.Load())
		require.Less(t, timer.worker.state.Load(), resting)
		to, err := timer.NewTimeoutAt(plainFunc(nop), time.Now().Add(-2*time.Millisecond))
		require.NoError(t, err)
		require.Equal(t, 999*time.Microsecond, time.Until(to.Deadline()))
	})
}

// Beside producers that do not pause, also a few canceled timeouts are dropped within two seconds. Before, a Reset finds them on
// the queue.
func TestFewCanceledAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		var all []*Timeout
		churn(t, timer, 2, 2*time.Second, func(elapsed time.Duration) {
			if elapsed == 100*time.Millisecond {
				for range 100 {
					to, err := timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
					require.True(t, to.Move(time.Hour))
					require.True(t, to.Cancel())
					require.True(t, onQueue(to.word.Load()))
					all = append(all, to)
				}
			}
		})
		for _, to := range all {
			require.False(t, onQueue(to.word.Load()))
		}
	})
}

// A Reset to an earlier tick puts a timeout onto the queue again, once until the worker takes it. Other Resets only change its
// word. It is in a nursery once in its life.
func TestResetPutsOnce(t *testing.T) {
	for _, limit := range []int{0, 10} { // with a limit, a Reset takes another way
		timer := newTimer(t, WithTick(10*time.Millisecond), WithMaxPending(limit))
		w := &timer.worker
		oneStripe(timer)
		hold(t, timer)
		w.round() // makes the wheel
		var to *Timeout
		reset := func(delay time.Duration) {
			t.Helper()
			_, err := to.Reset(delay)
			require.NoError(t, err)
		}
		puts := timer.queue.puts()
		in := func(bits uint64, put bool) {
			t.Helper()
			require.Equal(t, bits, to.word.Load()&(young|hurried|queued))
			if put {
				puts++
			}
			require.Equal(t, puts, timer.queue.puts())
		}
		taken := func(inWheel int) {
			t.Helper()
			w.in.drain()
			in(0, false)
			require.Equal(t, inWheel, w.wheel.count)
		}
		arm := func(delay time.Duration) {
			t.Helper()
			var err error
			to, err = timer.AfterFunc(delay, nop)
			require.NoError(t, err)
			in(young, true)
		}
		arm(time.Hour)
		reset(2 * time.Hour)
		reset(3 * time.Hour)
		in(young, false)
		reset(time.Hour)
		in(young|hurried, true)
		reset(time.Minute)
		require.True(t, to.Cancel())
		reset(time.Second)
		reset(time.Hour)
		in(young|hurried, false)
		taken(1)

		reset(2 * time.Hour) // later: the visit of its bucket sees it
		in(0, false)
		reset(time.Minute)
		in(queued, true)
		reset(time.Second)
		require.True(t, to.Cancel())
		reset(time.Minute)
		in(queued, false)
		taken(1)
		require.True(t, to.Cancel())
		in(queued, true)
		taken(0)
		reset(time.Hour) // not the nursery again
		in(queued, true)
		require.True(t, to.Cancel())
		taken(0)

		arm(time.Hour)
		require.True(t, to.Cancel())
		in(0, false)
		reset(2 * time.Hour)
		in(queued, true)
		require.True(t, to.Cancel())
		taken(0)

		arm(time.Hour)
		reset(time.Hour)
		require.True(t, to.Cancel())
		reset(2 * time.Hour) // its slot still leads to it
		in(young, false)
		require.True(t, to.Cancel())
		reset(time.Minute) // another slot
		in(young|hurried, true)
		require.True(t, to.Cancel())
		taken(0)
	}
}

// Two slots of a nursery lead to the same timeout, or a slot and an inbox. The worker reconciles it once, whichever it takes
// first.
func TestInTwoPlaces(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	w := &timer.worker
	oneStripe(timer)
	hold(t, timer)
	w.round() // makes the wheel
	arm := func() *Timeout {
		to, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		return to
	}
	reset := func(to *Timeout) {
		_, err := to.Reset(time.Minute)
		require.NoError(t, err)
	}
	first, second := arm(), arm()
	reset(first) // the two slots are taken at once
	require.True(t, second.Cancel())
	reset(second) // the slot leads to one that is on the inbox
	require.EqualValues(t, queued, second.word.Load()&(young|hurried|queued))
	w.in.drain()
	require.Equal(t, 2, w.wheel.count)
	require.Zero(t, timer.Stats().Queued)

	third := arm()
	require.True(t, third.Cancel())
	reset(third)
	w.in.giveBack() // the slot, before the inbox
	require.EqualValues(t, queued, third.word.Load()&(young|hurried|queued))
	w.in.drain()
	require.Equal(t, 3, w.wheel.count)
	for _, to := range []*Timeout{first, second, third} {
		require.True(t, to.Cancel())
	}
}

// The worker looks up between very many timeouts in an inbox.
func TestManyInAnInbox(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	w := &timer.worker
	oneStripe(timer)
	hold(t, timer)
	w.round() // makes the wheel
	looks := 0
	whenItLooksUp(timer, func() { looks++ })
	const n = 4 * checkEvery
	var all []*Timeout
	for range n {
		to, err := timer.AfterFunc(100*time.Hour, nop)
		require.NoError(t, err)
		all = append(all, to)
	}
	w.in.giveBack()
	for _, to := range all {
		require.True(t, to.Cancel())
	}
	require.Equal(t, n, w.wheel.count)
	w.in.drain()
	require.GreaterOrEqual(t, looks, n/checkEvery)
	require.Zero(t, w.wheel.count)
}

// The worker takes a far timeout at the tick at which it becomes near, and not before. It leaves others in the same block.
func TestTakeFar(t *testing.T) {
	synctest.Test(t, testTakeFar)
}

func testTakeFar(t *testing.T) {
	timer := newTimer(t, WithTick(10*time.Millisecond))
	w := &timer.worker
	oneStripe(timer)
	hold(t, timer)
	w.round() // makes the wheel
	w.in.sweepAt = math.MaxInt64
	start := time.Now()
	takeAt := func(tick uint64) {
		time.Sleep(time.Until(start.Add(timer.clock.Boundary(tick))))
		w.in.drain()
	}
	var all []*Timeout
	for i := range 3 {
		to, err := timer.AfterFunc(time.Duration(3-i)*time.Hour, nop)
		require.NoError(t, err)
		all = append(all, to)
	}
	for i := range 3 {
		to := all[2-i]
		by := timer.queue.nearAt(tickOf(to.word.Load()))
		require.Equal(t, by, timer.queue.needs())
		takeAt(by - 1)
		require.Zero(t, w.wheel.count)
		takeAt(by)
		require.Equal(t, 1, w.wheel.count)
		require.True(t, to.Cancel())
		w.in.drain()
		require.Zero(t, w.wheel.count)
	}
	require.Equal(t, uint64(ticks.Never), timer.queue.needs())
}

// manyOld arms very many far timeouts in one nursery, and sweeps it. The next round takes all that stay there for long. It returns
// the last one, which that round comes to last. The test is the worker.
func manyOld(t *testing.T, timer *Timer, n int, task func()) (last *Timeout) {
	w, s := &timer.worker, oneStripe(timer)
	w.round()                                              // makes the wheel
	s.nursery.table.Store(newTable(2 * ceilPowerOfTwo(n))) // so that it does not grow, which would leave the first to the worker
	for range n - 1 {
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
	}
	last, err := timer.AfterFunc(time.Hour, task)
	require.NoError(t, err)
	w.in.sweepAt = 0
	w.round()
	require.Zero(t, w.wheel.count)
	require.InEpsilon(t, n, timer.Stats().Queued, 0.1, "Stats reads a part of a large nursery")
	w.in.sweepAt = 0
	return last
}

// A round takes very many timeouts, which lasts for many ticks: old ones, near ones, or those of a table that has grown. Meanwhile
// one that it would take last is reset to a tick that comes during the round. It is on time, as a new one is.
func TestForwardedDuringADrain(t *testing.T) {
	const tick, n = time.Millisecond, 20 * checkEvery
	for _, levels := range []int{1, 3} {
		for _, name := range []string{"old", "near", "grown"} {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithLevels(levels))
				oneStripe(timer)
				giveBack := hold(t, timer)
				time.Sleep(tick)
				var fired, firedNew moments
				var to *Timeout
				switch name {
				case "old":
					to = manyOld(t, timer, n, fired.Note)
				default:
					delay := time.Hour
					if name == "near" {
						delay = nearTime / 2
					}
					for i := range n {
						task := nop
						if i == n-minSlots {
							task = fired.Note
						}
						other, err := timer.AfterFunc(delay, task)
						require.NoError(t, err)
						if i == n-minSlots {
							to = other
						}
					}
				}
				var calls atomic.Int64
				var reset time.Time
				whenItLooksUp(timer, func() {
					call := calls.Add(1)
					if call == 1 || call > n/checkEvery {
						return
					}
					if call == 4 {
						reset = time.Now()
						_, err := to.Reset(2 * tick)
						require.NoError(t, err)
						_, err = timer.AfterFunc(2*tick, firedNew.Note)
						require.NoError(t, err)
					}
					time.Sleep(tick)
				})
				giveBack()
				pass(9 * tick)
				require.Less(t, calls.Load(), int64(n/checkEvery), "the round is not over")
				pass(time.Second)
				require.Equal(t, []time.Duration{2 * tick}, firedNew.Since(reset), name)
				require.Equal(t, []time.Duration{2 * tick}, fired.Since(reset), name)
			})
		}
	}
}

// A round takes very many old timeouts, which lasts for many ticks. Meanwhile producers arm near ones, very many too. What is
// near is on time: armed before the many, or while the worker takes them.
func TestNearDuringADrain(t *testing.T) {
	const tick, n = time.Millisecond, 8 * checkEvery
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		w := &timer.worker
		oneStripe(timer)
		giveBack := hold(t, timer)
		arm := func(n int, delay time.Duration, task func()) {
			for range n {
				_, err := timer.AfterFunc(delay, task)
				require.NoError(t, err)
			}
		}
		var fired atomic.Int64
		soon := func() { // a near timeout
			armed := time.Now()
			arm(1, 2*tick, func() {
				if after := time.Since(armed); after != 2*tick {
					t.Errorf("fired after %v", after)
				}
				fired.Add(1)
			})
		}
		manyOld(t, timer, 4*n, nop)
		calls := 0
		whenItLooksUp(timer, func() {
			switch calls++; calls {
			case 4, 16:
				soon()
				arm(n, nearTime/2, nop)
			case 8, 20:
				soon()
			case 30:
				require.Less(t, w.in.emptied, 6*n, "the round is not over")
			}
			if calls > 1 && calls <= 30 {
				time.Sleep(tick)
			}
		})
		giveBack()
		pass(time.Second)
		require.Greater(t, calls, 30)
		require.EqualValues(t, 4, fired.Load())
	})
}

// Very many timeouts are near, so the worker needs some ticks to take them. It takes all in this round, and those that come due
// meanwhile are on time.
func TestVeryManyAreNear(t *testing.T) {
	const tick, n = time.Millisecond, 8 * checkEvery
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		s := oneStripe(timer)
		giveBack := hold(t, timer)
		timer.worker.round()                   // makes the wheel
		s.nursery.table.Store(newTable(2 * n)) // so that it does not grow
		var fired atomic.Int64
		for range n {
			_, err := timer.AfterFunc(nearTime/2, func() { fired.Add(1) })
			require.NoError(t, err)
		}
		whenItLooksUp(timer, func() { time.Sleep(tick) })
		giveBack()
		pass(nearTime / 4)
		require.Zero(t, timer.Stats().Queued)
		pass(nearTime/4 + tick)
		require.EqualValues(t, n, fired.Load())
	})
}

// A round sweeps a nursery of very many old timeouts, which lasts for many ticks. Meanwhile timeouts that it would come to last
// become near, and due. They are on time.
func TestBecomesNearDuringADrain(t *testing.T) {
	const tick, n = time.Millisecond, 8 * checkEvery
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		giveBack := hold(t, timer)
		manyOld(t, timer, n, nop)
		var fired moments
		start := time.Now()
		const delay = nearTime + 100*tick
		_, err := timer.AfterFunc(delay, fired.Note)
		require.NoError(t, err)
		calls := 0
		whenItLooksUp(timer, func() {
			if calls++; calls > 1 && calls <= n/checkEvery {
				time.Sleep(nearTime / 4)
			}
		})
		giveBack()
		pass(2 * time.Second)
		require.Len(t, fired.All(), 1)
		require.Less(t, fired.Since(start)[0], delay+nearTime/4, "at the next look up")
	})
}

// overload has the worker take timeouts off inboxes without an end: at each of its looks up a tick passes, and producers push again
// what it has taken. Each is called at every look up.
func overload(t *testing.T, prepare func(timer *Timer), each func(timer *Timer, since time.Duration)) {
	const tick, lasts = 10 * time.Millisecond, 4 * time.Second
	timer := newFakedTimer(t, WithTick(tick))
	oneStripe(timer)
	goOn := hold(t, timer)
	timer.worker.round()
	all := make([]*Timeout, 2*checkEvery)
	for i := range all {
		var err error
		all[i], err = timer.AfterFunc(10*time.Hour, nop)
		require.NoError(t, err)
	}
	timer.worker.in.giveBack() // all are in the wheel
	push := func() {
		for _, to := range all {
			if !onQueue(to.word.Load()) {
				to.Reset(8 * time.Hour) // a push, because it is earlier
				to.Reset(10 * time.Hour)
			}
			if to.Reset(9 * time.Hour); !onQueue(to.word.Load()) {
				t.Fatal("not on the queue")
			}
			to.Reset(10 * time.Hour)
		}
	}
	prepare(timer)
	push()
	start := time.Now()
	whenItLooksUp(timer, func() {
		if since := time.Since(start); since < lasts {
			time.Sleep(tick)
			push()
			each(timer, since)
		}
	})
	goOn()
	pass(lasts + 2*time.Second)
}

// What was pushed first does not wait until the producers pause.
func TestOldInboxIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held weak.Pointer[Timeout]
		var last time.Duration
		overload(t, func(timer *Timer) {
			to, err := timer.AfterFunc(10*time.Hour, nop)
			require.NoError(t, err)
			timer.worker.in.giveBack()
			require.True(t, to.Cancel())
			held = weak.Make(to)
		}, func(_ *Timer, since time.Duration) {
			if since%(200*time.Millisecond) < 10*time.Millisecond {
				runtime.GC()
			}
			if held.Value() != nil {
				last = since
			}
		})
		require.Less(t, last, 300*time.Millisecond)
	})
}

// Near timeouts do not wait until the inboxes are empty.
func TestNearBesideInboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed time.Time
		var late time.Duration
		fired := false
		overload(t, func(*Timer) {}, func(timer *Timer, since time.Duration) {
			if armed.IsZero() {
				armed = time.Now()
				timer.AfterFunc(20*time.Millisecond, func() { fired, late = true, time.Since(armed)-20*time.Millisecond })
			}
			for range blockSize {
				to, err := timer.AfterFunc(100*time.Millisecond, nop)
				if err != nil || !to.Cancel() {
					t.Fatal(err)
				}
			}
		})
		require.True(t, fired)
		require.LessOrEqual(t, late, 20*time.Millisecond)
	})
}

// A block that the worker has yet to take is not listed again when it gets more near timeouts.
func TestBlockIsListedOnce(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	oneStripe(timer)
	hold(t, timer)
	w := &timer.worker
	w.round() // makes the wheel
	for range 3 {
		_, err := timer.AfterFunc(50*time.Millisecond, nop)
		require.NoError(t, err)
		w.in.look(w.in.now)
		require.Len(t, w.in.near, 1)
	}
	w.in.takeUrgent()
	require.Empty(t, w.in.near)
	require.Equal(t, 3, w.wheel.count)
}

// A round ends, although producers push as fast as the worker takes.
func TestRoundEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := make(map[uint64]bool)
		overload(t, func(*Timer) {}, func(timer *Timer, _ time.Duration) { rounds[timer.worker.rounds] = true })
		require.GreaterOrEqual(t, len(rounds), 4)
	})
}
