package hashedwheel

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// churn arms and cancels timeouts of an hour without pause for d, of virtual time: very many in the middle of each tick,
// so that a round at a boundary finds all of them counted. The last live ones are pending. After each burst it calls
// each.
func churn(t *testing.T, timer *Timer, live int, d time.Duration, each func(elapsed time.Duration)) {
	ring := make([]*Timeout, live)
	tick := timer.Tick()
	perTick := 3 * int(tick/pauseTime)
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

// While producers arm timeouts without pause, the worker takes only what is near. When they pause, it takes all by the
// second boundary.
func TestFarStaysWithProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		var near *Timeout
		churn(t, timer, 3000, nearTime, func(elapsed time.Duration) {
			synctest.Wait()
			if elapsed < 2*tick {
				return // not yet known to be fast
			}
			for _, level := range timer.Stats().Levels {
				require.LessOrEqual(t, level.Timeouts, 1)
			}
			require.Greater(t, timer.Stats().Queued, 1000)
			if near == nil {
				var err error
				near, err = timer.AfterFunc(nearTime/2, nop)
				require.NoError(t, err)
			}
			if elapsed > 5*tick {
				require.Zero(t, near.word.Load()&(young|queued), "the worker takes what is near")
			}
		})
		require.Equal(t, expired, int(status(near.word.Load())))
		pass(2*maxUnwatched + tick)
		require.Zero(t, timer.queue.inUse())

		// A load that is short is noticed to be over by the second boundary.
		churn(t, timer, 3000, tick, func(time.Duration) {})
		pass(2 * tick)
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
		onWheel := 0
		churn(t, timer, 3000, 6*nearTime, func(elapsed time.Duration) {
			if elapsed == 50*time.Millisecond {
				for range n {
					to, err := timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
					all = append(all, to)
				}
			}
			synctest.Wait()
			onWheel = 0
			for _, to := range all {
				if !onQueue(to.word.Load()) {
					onWheel++
				}
			}
			if elapsed < 2*nearTime {
				require.LessOrEqual(t, onWheel, n/100, "only so that no call passes too many")
			}
		})
		require.Greater(t, onWheel, n*9/10)
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
					if elapsed < 4*maxUnwatched {
						return // the worker checks for pauses too often
					}
					// On a stripe that others seldom use.
					to, hour, s := &Timeout{timer: timer, task: plainFunc(fired.Note)}, timer.clock.DueIn(time.Hour), &timer.queue.stripes[200]
					*to.wordPtr() = pendingAt(young|fresh, hour)
					timer.limit.acquire()
					if first, _, _, _ := timer.worker.put(s, &s.nursery, to, timer.queue.nearAt(hour)); first {
						timer.worker.wakeBy(hour)
					}
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

// In a long tick, the worker notices within maxWaiting that producers pause.
func TestPauseInALongTick(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		hold(t, timer)
		w := &timer.worker
		for range maxWaiting/pauseTime + 1 {
			to, err := timer.AfterFunc(100*time.Hour, nop)
			require.NoError(t, err)
			require.True(t, to.Cancel())
		}
		time.Sleep(maxWaiting)
		w.round()
		require.False(t, w.in.pausing)
		time.Sleep(maxWaiting)
		w.round()
		require.True(t, w.in.pausing)
	})
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
	timer.Init(&to, plainFunc(func() { fired <- struct{}{} }))
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

// endOfRound brings the worker of a timer to the end of a round after which it would watch, as if producers had armed without
// pause for long. A far timeout is on the queue. It returns the timeout, and a function that does the rest.
func endOfRound(t *testing.T, timer *Timer, task func()) (far *Timeout, leave func()) {
	w := &timer.worker
	require.True(t, w.claimRound()) // the test is the worker
	churn(t, timer, 1, 100*timer.Tick(), func(time.Duration) {
		time.Sleep(timer.Tick() / 2)
		w.round()
		time.Sleep(timer.Tick() / 2)
	})
	time.Sleep(timer.Tick() / 2)
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

// Producers that do not pause drop also a few canceled timeouts, within some ticks.
func TestFewCanceledAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		var all []*Timeout
		churn(t, timer, 2, 300*time.Millisecond, func(elapsed time.Duration) {
			switch elapsed {
			case 100 * time.Millisecond:
				for range 100 {
					to, err := timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
					all = append(all, to)
				}
			case 150 * time.Millisecond:
				for _, to := range all {
					require.True(t, onQueue(to.word.Load()))
					require.True(t, to.Cancel())
				}
			case 200 * time.Millisecond:
				for _, to := range all {
					require.False(t, onQueue(to.word.Load()))
				}
			}
		})
	})
}

// takeInbox takes the inbox of a stripe, as a round does at tick 1.
func (in *intake) takeInbox(s *stripe) {
	in.now, in.taking = max(in.now, 1), takingDue
	in.takeRing(&s.inbox, queued)
}

// takeNursery takes the nursery of a stripe, as a round does when producers pause.
func (in *intake) takeNursery(s *stripe) {
	in.pausing, in.taking = true, takingAll
	in.takeRing(&s.nursery, young)
	in.pausing = false
}

// A Reset to an earlier tick moves a timeout from its nursery to the inbox, once until the worker takes it. Other Resets only
// change its word. It is in a nursery once in its life.
func TestResetMovesToTheInbox(t *testing.T) {
	for _, limit := range []int{0, 10} { // with a limit, a Reset takes another way
		timer := newTimer(t, WithTick(10*time.Millisecond), WithMaxPending(limit))
		w, s := &timer.worker, oneStripe(timer)
		hold(t, timer)
		w.round() // makes the wheel
		var to *Timeout
		reset := func(delay time.Duration) {
			t.Helper()
			_, err := to.Reset(delay)
			require.NoError(t, err)
		}
		puts := uint64(0)
		in := func(bit uint64, moved bool) {
			t.Helper()
			require.Equal(t, bit, to.word.Load()&(young|queued))
			if moved {
				puts++
			}
			require.Equal(t, puts, s.inbox.hand())
		}
		arm := func() {
			var err error
			to, err = timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			in(young, false)
		}
		arm()
		reset(2 * time.Hour)
		reset(3 * time.Hour)
		in(young, false)
		reset(time.Hour)
		in(queued, true)
		reset(time.Minute)
		require.True(t, to.Cancel())
		reset(time.Second)
		in(queued, false)

		w.in.takeInbox(s)
		in(0, false)
		require.Equal(t, 1, w.wheel.count)
		w.in.takeNursery(s)
		require.Equal(t, 1, w.wheel.count)
		reset(time.Minute) // later: the visit of its bucket sees it
		in(0, false)
		reset(time.Millisecond)
		in(queued, true)
		w.in.takeInbox(s)
		require.True(t, to.Cancel())
		in(queued, true)
		w.in.takeInbox(s)
		in(0, false)
		require.Zero(t, w.wheel.count)
		reset(time.Hour)
		in(queued, true)

		arm()
		require.True(t, to.Cancel())
		in(0, false)
		reset(2 * time.Hour)
		in(queued, true)

		arm()
		reset(time.Hour)
		require.True(t, to.Cancel())
		reset(2 * time.Hour) // its slot still leads to it
		in(young, false)
		require.True(t, to.Cancel())
		reset(time.Minute)
		in(queued, true)

		// One that was armed for a near tick is put into the inbox a second time, because the worker may come late to its
		// slot there. But only once.
		var err error
		to, err = timer.AfterFunc(200*time.Millisecond, nop)
		require.NoError(t, err)
		in(queued, true)
		reset(time.Minute)
		reset(100 * time.Millisecond)
		reset(50 * time.Millisecond)
		in(queued, false)
		to, err = timer.AfterFunc(200*time.Millisecond, nop)
		require.NoError(t, err)
		in(queued, true)
		reset(100 * time.Millisecond)
		in(queued, true)
		reset(50 * time.Millisecond)
		in(queued, false)
		require.True(t, to.Cancel())
		reset(10 * time.Millisecond)
		in(queued, false)
	}
}

// forwarded arms a timeout for an hour, and resets it to a minute. So it is in an inbox, and a slot of a nursery still leads to
// it.
func forwarded(t *testing.T, timer *Timer) *Timeout {
	to, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	_, err = to.Reset(time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, queued|fresh, to.word.Load()&(queued|young|fresh))
	return to
}

// Slots of a nursery and of an inbox lead to the same timeout. The worker reconciles it once, whichever it takes first.
func TestInTwoSlots(t *testing.T) {
	for _, nurseryFirst := range []bool{false, true} {
		timer := newTimer(t, WithTick(time.Millisecond))
		w, s := &timer.worker, oneStripe(timer)
		hold(t, timer)
		w.round() // makes the wheel
		to := forwarded(t, timer)
		if nurseryFirst {
			w.in.takeNursery(s)
			require.Equal(t, 1, w.wheel.count)
		}
		w.in.takeInbox(s)
		require.Equal(t, 1, w.wheel.count)
		w.in.takeNursery(s)
		require.Equal(t, 1, w.wheel.count)
		require.Equal(t, 2, w.in.emptied, "slots")
		require.Zero(t, to.word.Load()&(queued|young|fresh))
		require.Zero(t, timer.Stats().Queued)
		require.True(t, to.Cancel())
	}
}

// The worker looks up between very many timeouts in an inbox.
func TestManyInAnInbox(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	w, s := &timer.worker, oneStripe(timer)
	hold(t, timer)
	w.round() // makes the wheel
	looks := 0
	whenItLooksUp(timer, func() { looks++ })
	const n = 4 * checkEvery
	for range n {
		forwarded10(t, timer)
	}
	w.in.takeInbox(s)
	require.GreaterOrEqual(t, looks, n/checkEvery)
	require.Equal(t, n, w.wheel.count)
}

// The worker takes a far timeout at the tick at which it becomes near, and not before. It leaves others in the same block.
func TestTakeFar(t *testing.T) {
	synctest.Test(t, testTakeFar)
}

func testTakeFar(t *testing.T) {
	timer := newTimer(t, WithTick(10*time.Millisecond))
	w, s := &timer.worker, oneStripe(timer)
	hold(t, timer)
	w.round() // makes the wheel
	start := time.Now()
	takeAt := func(tick uint64) { // as a round does while producers do not pause
		time.Sleep(time.Until(start.Add(timer.clock.Boundary(tick))))
		w.in.now, _ = w.expireDue()
		w.in.taking = takingDue
		w.in.takeRing(&s.nursery, young)
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
		require.Equal(t, by, s.nursery.by.Load())
		require.Equal(t, by, timer.queue.needs())
		takeAt(by - 1)
		require.Zero(t, w.wheel.count)
		takeAt(by)
		require.Equal(t, 1, w.wheel.count)
		require.True(t, to.Cancel())
		w.in.takeRing(&s.inbox, queued)
		require.Zero(t, w.wheel.count)
	}
	require.Equal(t, uint64(ticks.Never), timer.queue.needs())
}

// A round that takes very many timeouts also places near ones that are armed meanwhile.
func TestNearDuringALongRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		hold(t, timer)
		w := &timer.worker
		w.round() // makes the wheel
		first, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		second, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		near, err := timer.AfterFunc(10*time.Millisecond, nop)
		require.NoError(t, err)
		w.in.emptied = checkEvery - 2
		w.in.take(first)
		require.Zero(t, near.bucket)
		require.NotZero(t, first.bucket)
		w.in.take(second)
		require.NotZero(t, near.bucket)
		require.NotZero(t, second.bucket)
	})
}

// lastOf returns the timeout that the worker comes to last when it takes a ring.
func lastOf(r *ring) (last *Timeout) {
	blocks := r.blocks()
	for i := range blocks {
		if b := blocks[i].Load(); b != nil {
			for j := range b.slots {
				if to := b.slots[j].Load(); to != nil {
					last = to
				}
			}
		}
	}
	return last
}

// A round takes very many timeouts, which lasts for many ticks. Meanwhile one of them, which it would take last, is reset to
// a tick that comes during the round. It is on time, as a new one is.
func TestForwardedDuringADrain(t *testing.T) {
	const tick, n = time.Millisecond, 20 * checkEvery
	for _, levels := range []int{1, 3} {
		for name, delay := range map[string]time.Duration{"far": time.Hour, "near": nearTime / 2} {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithLevels(levels))
				w, s := &timer.worker, oneStripe(timer)
				giveBack := hold(t, timer)
				time.Sleep(tick)
				w.round() // producers pause
				var fired, firedNew moments
				arm := func(task func()) *Timeout {
					to, err := timer.AfterFunc(delay, task)
					require.NoError(t, err)
					return to
				}
				for range n {
					arm(nop)
				}
				to := arm(fired.Note)
				for range 2 * blockSize {
					arm(nop)
				}
				if name == "far" {
					to = lastOf(&s.nursery)
					to.task = plainFunc(fired.Note)
				}
				var calls atomic.Int64
				var reset time.Time
				whenItLooksUp(timer, func() {
					call := calls.Add(1)
					if call == 1 || call > n/checkEvery {
						return
					}
					if call == 4 {
						require.NotZero(t, to.word.Load()&(young|queued))
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

// A round takes very many far timeouts, which lasts for many ticks. Meanwhile producers arm near ones, very many too. What is
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
		arm(2*n, time.Hour, nop)
		calls := 0
		whenItLooksUp(timer, func() { // producers pause, so the first round takes all
			switch calls++; calls {
			case 4, 16:
				soon()
				arm(n, nearTime/2, nop)
			case 8, 20:
				soon()
			case 30:
				require.Less(t, w.in.emptied, 4*n, "the round is not over")
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

// A round takes a whole nursery, which lasts for many ticks. Meanwhile timeouts in it that it would take last become near, and
// due. They are on time.
func TestBecomesNearDuringADrain(t *testing.T) {
	const tick, n = time.Millisecond, 8 * checkEvery
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		s := oneStripe(timer)
		giveBack := hold(t, timer)
		s.nursery.table.Store(newTable(&s.nursery, 2*n/blockSize))
		for range n {
			_, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
		}
		var fired moments
		start := time.Now()
		const delay = nearTime + 100*tick
		to, err := timer.AfterFunc(delay, fired.Note)
		require.NoError(t, err)
		require.Same(t, to, lastOf(&s.nursery))
		calls := 0
		whenItLooksUp(timer, func() { // producers pause, so the first round takes all
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

func TestPace(t *testing.T) {
	const tick = time.Millisecond
	count := uint64(math.MaxUint64 - 1000)
	p := pace{count: count}
	now := time.Duration(0)
	step := func(d time.Duration, n uint64) bool {
		now += d
		count += n
		return p.pause(now, count, tick)
	}
	fast := uint64(tick/pauseTime) + 1
	require.True(t, step(tick, fast-1))
	require.False(t, step(tick, fast))
	require.False(t, step(tick*3/4-1, 0), "too early to tell")
	require.True(t, step(tick, 0))
	require.False(t, step(tick, fast))
	for range 300 {
		require.False(t, step(tick, fast))
	}
	require.Equal(t, maxUnwatched, p.interval(tick))
	p.at, p.count = now, count
	require.False(t, step(maxUnwatched*3/4-1, 0), "too short to count after so long")
	require.True(t, step(1, 0))
	require.Equal(t, 100*time.Millisecond, p.interval(100*time.Millisecond))
}
