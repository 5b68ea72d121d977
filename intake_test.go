package hashedwheel

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// whenItLooksUp calls f whenever the worker of a timer looks up from its work, and not when it begins a round.
func whenItLooksUp(timer *Timer, f func()) {
	timer.worker.lookUp = func(begins bool) {
		if !begins {
			f()
		}
	}
}

// takeInboxes takes what is on the inboxes of a timer. The test is the worker.
func takeInboxes(timer *Timer) {
	w := &timer.worker
	for i := range timer.queue.stripes {
		for stack := timer.queue.stripes[i].inbox.Swap(nil); stack != nil; w.popped.Add(1) {
			w.dequeue(pop(&stack), queued)
		}
	}
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
			w.drain()
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
	w.drain()
	require.Equal(t, 2, w.wheel.count)
	require.Zero(t, timer.Stats().Queued)

	third := arm()
	require.True(t, third.Cancel())
	reset(third)
	w.giveBack() // the slot, before the inbox
	require.EqualValues(t, queued, third.word.Load()&(young|hurried|queued))
	w.drain()
	require.Equal(t, 3, w.wheel.count)
	for _, to := range []*Timeout{first, second, third} {
		require.True(t, to.Cancel())
	}
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
	w.sweepAt = math.MaxInt64
	start := time.Now()
	takeAt := func(tick uint64) {
		time.Sleep(time.Until(start.Add(timer.clock.Boundary(tick))))
		w.drain()
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
		w.drain()
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
	w.sweepAt = 0
	w.round()
	require.Zero(t, w.wheel.count)
	require.InEpsilon(t, n, timer.Stats().Queued, 0.1, "Stats reads a part of a large nursery")
	w.sweepAt = 0
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
					if call > n/checkEvery {
						return
					}
					if call == 3 {
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
				require.Equal(t, []time.Duration{2 * tick}, firedNew.Since(reset), "%s: a new timeout", name)
				require.Equal(t, []time.Duration{2 * tick}, fired.Since(reset), "%s: one that was reset", name)
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
					t.Errorf("a near timeout fired after %v instead of %v", after, 2*tick)
				}
				fired.Add(1)
			})
		}
		manyOld(t, timer, 4*n, nop)
		calls := 0
		whenItLooksUp(timer, func() {
			switch calls++; calls {
			case 3, 15:
				soon()
				arm(n, nearTime/2, nop)
			case 7, 19:
				soon()
			case 30:
				require.Less(t, w.found, 6*n, "the worker is not done")
			}
			if calls <= 30 {
				time.Sleep(tick)
			}
		})
		giveBack()
		pass(time.Second)
		require.Greater(t, calls, 30)
		require.EqualValues(t, 4, fired.Load())
	})
}

// Very many timeouts are near, so the worker needs some ticks to take them. It takes all at once, and they are on time.
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
		calls := 0
		whenItLooksUp(timer, func() {
			if calls++; calls <= n/checkEvery {
				time.Sleep(tick)
			}
		})
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
			if calls++; calls <= n/checkEvery {
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
// what it has taken, for the time lasts. Each is called at every look up.
func overload(t *testing.T, lasts time.Duration, prepare func(timer *Timer), each func(timer *Timer, since time.Duration)) {
	const tick = 10 * time.Millisecond
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
	timer.worker.giveBack() // all are in the wheel
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
	start := time.Now()
	whenItLooksUp(timer, func() {
		if since := time.Since(start); since < lasts {
			time.Sleep(tick)
			push()
			each(timer, since)
		}
	})
	prepare(timer)
	push() // after prepare, because the worker takes an inbox from its top
	goOn()
	pass(lasts + 2*time.Second)
}

// What was pushed first does not wait until the producers pause, nor does what is canceled later in the same round.
func TestOldInboxIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var early, late *Timeout
		var held [2]weak.Pointer[Timeout]
		var last [2]time.Duration
		const lateAt = 2 * time.Second
		overload(t, 4*time.Second, func(timer *Timer) {
			var err error
			early, err = timer.AfterFunc(10*time.Hour, nop)
			require.NoError(t, err)
			late, err = timer.AfterFunc(10*time.Hour, nop)
			require.NoError(t, err)
			timer.worker.giveBack()
			require.True(t, early.Cancel())
			held = [2]weak.Pointer[Timeout]{weak.Make(early), weak.Make(late)}
			early = nil
		}, func(_ *Timer, since time.Duration) {
			if late != nil && since >= lateAt {
				require.True(t, late.Cancel())
				late = nil
			}
			if since%(200*time.Millisecond) < 10*time.Millisecond {
				runtime.GC()
			}
			for i := range held {
				if held[i].Value() != nil {
					last[i] = since
				}
			}
		})
		require.Less(t, last[0], 300*time.Millisecond)
		require.Less(t, last[1], lateAt+300*time.Millisecond)
	})
}

// Very many timeouts are canceled at once, so their inboxes take seconds. What is armed meanwhile is on time, and what is canceled
// meanwhile is not held until the end.
func TestNearBesideABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, delay = 10 * time.Millisecond, 20 * time.Millisecond
		lasts := sized(3*time.Second/2, 3*time.Second, 3*time.Second)
		timer := newTimer(t, WithTick(tick))
		oneStripe(timer)
		goOn := hold(t, timer)
		timer.worker.round() // makes the wheel
		all := make([]*Timeout, int(lasts/tick)*checkEvery)
		for i := range all {
			var err error
			if all[i], err = timer.AfterFunc(10*time.Hour, nop); err != nil {
				t.Fatal(err)
			}
		}
		other, err := timer.AfterFunc(10*time.Hour, nop)
		require.NoError(t, err)
		timer.worker.giveBack() // all are in the wheel
		for _, to := range all {
			if !to.Cancel() {
				t.Fatal("not canceled")
			}
		}
		var late []time.Duration
		held, heldUntil, calls := weak.Make(other), time.Duration(0), 0
		start := time.Now()
		whenItLooksUp(timer, func() {
			if calls++; calls > len(all)/checkEvery {
				return
			}
			since := time.Since(start)
			if calls%25 == 0 {
				runtime.GC()
				armed := time.Now()
				timer.AfterFunc(delay, func() { late = append(late, time.Since(armed)-delay) })
			}
			if other != nil && since > lasts/2 {
				require.True(t, other.Cancel())
				other = nil
			}
			if held.Value() != nil {
				heldUntil = since
			}
			time.Sleep(tick)
		})
		goOn()
		pass(lasts + time.Second)
		require.GreaterOrEqual(t, calls, len(all)/checkEvery)
		require.Len(t, late, len(all)/checkEvery/25)
		for _, l := range late {
			require.LessOrEqual(t, l, 2*tick)
		}
		require.Less(t, heldUntil, lasts/2+lasts/5)
	})
}

// Very many timeouts are due at one tick. The worker visits their bucket in steps, so what is armed meanwhile is on time.
func TestManyAreDueAtOneTick(t *testing.T) {
	const tick, n = time.Millisecond, 20 * visitBudget
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick), WithWheelSize(64)) // a turn takes longer than the visit of the bucket
		var many atomic.Int64
		for range n {
			_, err := timer.AfterFunc(time.Second, func() { many.Add(1) })
			require.NoError(t, err)
		}
		pass(time.Second - tick)
		require.Zero(t, timer.Stats().Queued)
		goOn := hold(t, timer)
		timer.worker.sweepAt = timer.clock.Elapsed() + 10*time.Second // a sweep has steps too
		var mu sync.Mutex                                             // tasks run on several goroutines
		var fired []time.Duration
		steps := 0
		whenItLooksUp(timer, func() {
			if steps++; steps > n/visitBudget/2 {
				return
			}
			armed := time.Now()
			_, err := timer.AfterFunc(2*tick, func() {
				mu.Lock()
				defer mu.Unlock()
				fired = append(fired, time.Since(armed))
			})
			require.NoError(t, err)
			time.Sleep(tick)
		})
		goOn()
		pass(time.Second)
		require.EqualValues(t, n, many.Load())
		require.GreaterOrEqual(t, steps, n/visitBudget/2)
		require.Equal(t, slices.Repeat([]time.Duration{2 * tick}, n/visitBudget/2), fired)
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
		w.look(w.lookedAt)
		require.Len(t, w.near, 1)
	}
	w.dequeueUrgent()
	require.Empty(t, w.near)
	require.Equal(t, 3, w.wheel.count)
}

// A round ends, although producers push as fast as the worker takes.
func TestRoundEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var rounds moments
		overload(t, stacksTime+2*time.Second, func(timer *Timer) {
			f := timer.worker.lookUp
			timer.worker.lookUp = func(begins bool) {
				if begins {
					rounds.Note()
				}
				f(begins)
			}
		}, func(*Timer, time.Duration) {})
		begun := rounds.Since(start)
		require.GreaterOrEqual(t, len(begun), 2)
		require.Less(t, len(begun), 10)
		require.InDelta(t, stacksTime, begun[1]-begun[0], float64(time.Second/2))
	})
}

// Stop halts the worker in the middle of a drain, at each look up, whatever the worker takes: inboxes, what is near, a nursery
// that has grown, or what is old. No timeout is lost, and the worker leaves the rest to Stop.
func TestStopInTheMiddleOfADrain(t *testing.T) {
	const n = 3*checkEvery + checkEvery/2
	for name, prepare := range map[string]func(t *testing.T, timer *Timer, arm func(delay time.Duration) []*Timeout) []*Timeout{
		"near": func(_ *testing.T, _ *Timer, arm func(time.Duration) []*Timeout) []*Timeout { return arm(time.Hour) },
		"grown": func(_ *testing.T, timer *Timer, arm func(time.Duration) []*Timeout) []*Timeout {
			all := arm(100 * time.Hour)
			timer.worker.sweepAt = 0 // which takes the older tables
			return all
		},
		"old": func(_ *testing.T, timer *Timer, arm func(time.Duration) []*Timeout) []*Timeout {
			w := &timer.worker
			timer.queue.stripes[0].nursery.table.Store(newTable(2 * ceilPowerOfTwo(n)))
			all := arm(100 * time.Hour)
			w.sweepAt = 0
			w.drain()
			w.sweepAt = 0
			return all
		},
		"inbox": func(t *testing.T, timer *Timer, arm func(time.Duration) []*Timeout) []*Timeout {
			all := arm(100 * time.Hour)
			for _, to := range all {
				to.Cancel()
			}
			timer.queue.stripes[0].nursery.swapTables(nil) // so that no slot leads to them
			for _, to := range all {
				if _, err := to.Reset(50 * time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			return all
		},
	} {
		for at := 1; ; at++ {
			timer := newTimer(t, WithTick(time.Hour))
			oneStripe(timer)
			w := &timer.worker
			giveBack := hold(t, timer)
			w.round() // makes the wheel
			all := prepare(t, timer, func(delay time.Duration) (all []*Timeout) {
				for range n {
					to, err := timer.AfterFunc(delay, nop)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, to)
				}
				return all
			})
			var left []*Timeout
			stopped := make(chan bool)
			looks, found := 0, 0
			whenItLooksUp(timer, func() {
				if looks++; looks == at {
					go func() {
						left = timer.Stop()
						close(stopped)
					}()
					for w.state.Load() != halted {
						runtime.Gosched()
					}
					found = w.found
				}
			})
			w.drain()
			if looks < at {
				require.Greater(t, at, 3, name)
				require.Len(t, stopHeld(timer, giveBack), n, name)
				break
			}
			require.Equal(t, found, w.found, name)
			giveBack()
			<-stopped
			require.Len(t, left, n, name)
			for _, to := range all {
				if onQueue(to.word.Load()) {
					t.Fatalf("on the queue: %v", to)
				}
				if _, err := to.Reset(time.Hour); !errors.Is(err, ErrStopped) {
					t.Fatal(err)
				}
			}
		}
	}
}

// A timeout is canceled while the worker has collected it for its pool, and has not handed it over. The pool does not
// keep it.
func TestCanceledWhileCollected(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		timer.tasks.Limit = -1 // so that no runner starts
		hold(t, timer)
		w := &timer.worker
		w.round() // makes the wheel
		to, err := timer.AfterFunc(0, nop)
		require.NoError(t, err)
		time.Sleep(3 * time.Millisecond)
		w.expireDue()
		w.dequeue(to, young)
		require.Equal(t, to.pos+1, w.due.Position())
		require.Zero(t, timer.tasks.Waiting())
		require.True(t, to.Cancel())
		takeInboxes(timer)
		w.handOver()
		require.Zero(t, to.bucket)
		require.Zero(t, timer.tasks.Waiting())
	})
}
