package hashedwheel

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

const smallest = minBlocks * blockSize // slots of a ring

// mostSlots returns how many slots a ring may have if so many timeouts were pending at once.
func mostSlots(pending int) int { return smallest + pending*8/3 }

// Goroutines that arm timeouts drop canceled ones and keep pending ones. Timeouts are canceled at once or much
// later, with resets in between. The worker, whose tick is an hour, does nothing.
func TestProducersDrop(t *testing.T) {
	for name, lag := range map[string]int{"at once": 0, "later": 256, "much later": 4096} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(time.Hour))
				s := oneStripe(timer)
				r := newRand(t)
				arm := func() *Timeout {
					to, err := timer.AfterFunc(10*time.Hour, nop)
					if err != nil {
						t.Fatal(err) // not by package require, which takes longer than the call
					}
					return to
				}
				pending := []*Timeout{arm()}
				synctest.Wait() // from here the worker waits for the next boundary
				var ring []*Timeout
				first := weak.Make(arm())
				first.Value().Cancel()
				most := 0
				for i := range 40_000 {
					ring = append(ring, arm())
					if i%1000 == 0 {
						pending = append(pending, arm())
					}
					victim := ring[r.IntN(len(ring))]
					if i%3 == 0 {
						if _, err := victim.Reset(time.Duration(1+r.IntN(20)) * time.Hour); err != nil {
							t.Fatal(err)
						}
					}
					if len(ring) > lag {
						if !ring[0].Cancel() {
							t.Fatal("not canceled")
						}
						ring[0] = nil
						ring = ring[1:]
					}
					most = max(most, len(ring)+len(pending))
					if far, near := s.nursery.slots(), s.inbox.slots(); far > mostSlots(most) || near > mostSlots(2*most) {
						t.Fatalf("%d and %d slots for %d", far, near, most)
					}
				}
				require.LessOrEqual(t, timer.Stats().Queued, s.nursery.slots()+s.inbox.slots())
				require.Equal(t, len(ring)+len(pending), timer.Pending())
				runtime.GC()
				require.Nil(t, first.Value(), "it was canceled long ago")
				left := make(map[*Timeout]bool)
				for _, to := range timer.Stop() {
					left[to] = true
				}
				require.Len(t, left, len(ring)+len(pending))
				for _, to := range append(pending, ring...) {
					if !left[to] {
						t.Fatal("pending, but not returned by Stop")
					}
				}
			})
		})
	}
}

// However little the worker does, a ring never has more than 8/3 times as many slots as were pending at once, plus the smallest
// number: whatever is canceled at once or later, beside others that stay, and however often it is brought forward.
func TestTablesAreBounded(t *testing.T) {
	for _, lag := range []int{1, 10, 100, 191, 192, 193, 1000, 5000} {
		for _, long := range []int{0, 150, 190, 3000} {
			for _, forward := range []bool{false, true} {
				timer := newTimer(t, WithTick(time.Hour))
				hold(t, timer)
				s := oneStripe(timer)
				arm := func() *Timeout {
					to, err := timer.AfterFunc(100*time.Hour, nop)
					if err != nil {
						t.Fatal(err)
					}
					if forward {
						to.Reset(50 * time.Hour)
						to.Reset(40 * time.Hour)
					}
					return to
				}
				most := 0
				check := func(pending int) {
					most = max(most, pending)
					if n := max(s.nursery.slots(), s.inbox.slots()); n > mostSlots(most) {
						t.Fatalf("%d slots for %d, lag %d beside %d", n, most, lag, long)
					}
				}
				for i := range long {
					arm()
					check(i + 1)
				}
				ring := make([]*Timeout, lag)
				for i := range sized(6000, 50_000, 200_000) {
					old := &ring[i%lag]
					if *old != nil {
						(*old).Cancel()
					}
					*old = arm()
					check(long + min(i+1, lag))
				}
			}
		}
	}
}

// fill arms and cancels timeouts until the hand of a nursery has tried n slots.
func fill(t *testing.T, timer *Timer, r *ring, n uint64) {
	for r.hand() < n {
		to, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		require.True(t, to.Cancel())
	}
}

// A ring is doubled only after a lap in which more than three quarters of its slots were passed. The new table has the same
// blocks.
func TestRingDoubles(t *testing.T) {
	for keep, want := range map[int]int{smallest*3/4 - 1: 1, smallest * 3 / 4: 1, smallest*3/4 + 1: 2, smallest * 7 / 8: 2} {
		timer := newTimer(t, WithTick(time.Millisecond))
		hold(t, timer)
		r := &oneStripe(timer).nursery
		for range keep {
			_, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
		}
		fill(t, timer, r, 2*smallest)
		require.Equal(t, smallest, r.slots(), "before the end of the lap")
		require.EqualValues(t, keep, r.passed.Load())
		before := r.table.Load()
		fill(t, timer, r, 2*smallest+1)
		require.Equal(t, want*smallest, r.slots(), "%d passed", keep)
		require.Equal(t, want > 1, r.large())
		for i := range before.blocks {
			require.Same(t, before.blocks[i].Load(), r.table.Load().blocks[i].Load())
		}
		fill(t, timer, r, 3*smallest)
		require.Equal(t, want*smallest, r.slots(), "half a lap is not enough")
		fill(t, timer, r, 20*smallest)
		require.Equal(t, want*smallest, r.slots(), "the larger one is not that full")
		require.Equal(t, keep, timer.Pending())
	}
}

// A table with a block that no goroutine has made yet is not doubled: the goroutine that makes it may know only this table. A
// table that is made after another was given back begins its first lap there.
func TestRingDoesNotDouble(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	hold(t, timer)
	r := &oneStripe(timer).nursery
	fill(t, timer, r, smallest)
	before := r.table.Load()
	last := before.blocks[minBlocks-1].Swap(nil)
	r.passed.Add(smallest)
	timer.worker.lap(r, before)
	require.Same(t, before, r.table.Load())
	before.blocks[minBlocks-1].Store(last)
	r.passed.Add(smallest)
	timer.worker.lap(r, before)
	require.Equal(t, 2*smallest, r.slots())

	r.table.Store(nil)
	fill(t, timer, r, 5*smallest)
	require.Equal(t, smallest, r.slots())
	setStripes(timer, 1)
	timer.queue.stripes[0].canceled.Store(0)
}

// What the hand meets in two laps that are twice nearTime apart goes to the worker, and what comes into its slot is new.
func TestLivesLong(t *testing.T) {
	synctest.Test(t, testLivesLong)
}

func testLivesLong(t *testing.T) {
	const tick = time.Millisecond
	timer := newTimer(t, WithTick(tick))
	w, s := &timer.worker, oneStripe(timer)
	hold(t, timer)
	w.round() // makes the wheel
	to, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	b := s.nursery.table.Load().blocks[0].Load()
	const slot = 0
	require.Same(t, to, b.slots[slot].Load())
	laps := uint64(0)
	lap := func() {
		laps++
		fill(t, timer, &s.nursery, laps*smallest+2)
	}
	lap()
	require.NotZero(t, b.met.Load(), "the first lap that ages")
	time.Sleep(time.Duration(2*w.queue.horizon-1) * tick)
	w.expireDue()
	lap()
	lap()
	require.EqualValues(t, young, to.word.Load()&(young|queued))
	time.Sleep(tick)
	w.expireDue()
	lap()
	require.EqualValues(t, queued, to.word.Load()&(young|queued))
	require.EqualValues(t, 1, s.inbox.hand())
	require.NotSame(t, to, b.slots[slot].Load())
	require.Zero(t, b.met.Load()&(1<<slot))
	require.Equal(t, 1, timer.Pending())

	// After Stop has shut the gate, it stays where it is.
	to, err = timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	s.nursery.table.Load().aging.Store(true)
	b.met.Store(1<<blockSize - 1)
	timer.queue.shut.Store(true)
	require.False(t, w.moveOn(s, to))
	require.EqualValues(t, young, to.word.Load()&(young|queued))
	require.Zero(t, s.inside.Load())
	timer.queue.shut.Store(false)
	require.True(t, w.moveOn(s, to))
}

// A call passes no more than maxPassed slots. Then it moves the next timeout on.
func TestPassesNotTooMany(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	hold(t, timer)
	s := oneStripe(timer)
	const n = 2 * maxPassed
	s.nursery.table.Store(newTable(&s.nursery, n/blockSize))
	for range n {
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
	}
	require.Zero(t, s.inbox.hand())
	require.EqualValues(t, n, s.nursery.hand())
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.EqualValues(t, 1, s.inbox.hand())
	require.EqualValues(t, n+maxPassed+1, s.nursery.hand())
	require.Equal(t, n+1, timer.Pending())
}

// On the other side of a synctest bubble, arming moves timeouts on without waking the worker, which comes in time for their
// slots in the nursery.
func TestForeignMovesOn(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	w, s := &timer.worker, oneStripe(timer)
	require.True(t, w.claimRound()) // the test is the worker
	w.round()
	w.expireDue()
	far := timer.clock.DueIn(time.Hour)
	for range smallest {
		_, err := timer.newTimeout(plainFunc(nop), 0, far, false)
		require.NoError(t, err)
	}
	s.nursery.table.Load().aging.Store(true)
	blocks := s.nursery.blocks()
	for i := range blocks {
		blocks[i].Load().met.Store(1<<blockSize - 1)
	}
	require.True(t, w.leave(time.Hour, w.position.Load()>>1+1))
	state := w.state.Load()
	synctest.Test(t, func(t *testing.T) {
		for range smallest {
			_, err := timer.newTimeout(plainFunc(nop), 0, far, true)
			require.NoError(t, err)
		}
	})
	require.NotZero(t, s.inbox.hand())
	require.Equal(t, state, w.state.Load())
	require.Equal(t, 2*smallest, timer.Pending())
}

// The worker has closed the block into which a producer has put a timeout. Then the producer puts it into another one, unless
// it was taken. A block that nobody had made when the table was closed takes nothing.
func TestClosedBlock(t *testing.T) {
	timer := newFakedTimer(t, WithTick(time.Millisecond))
	hold(t, timer)
	w, s := &timer.worker, oneStripe(timer)
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	table := s.nursery.table.Load()
	put := func(bits uint64, want bool) *Timeout {
		t.Helper()
		to := &Timeout{timer: timer, task: plainFunc(nop)}
		to.word.Store(pendingAt(bits|fresh, 10_000))
		_, _, _, ok := w.put(s, &s.nursery, to, 1000)
		require.Equal(t, want, ok)
		require.Equal(t, bits&young != 0 && want, to.word.Load()&young != 0)
		return to
	}
	table.blocks[0].Load().by.Store(closed)
	table.blocks[1].Store(closedBlock)
	to := put(young, true)
	require.EqualValues(t, 2*blockSize+1, s.nursery.hand())
	require.Same(t, to, table.blocks[2].Load().slots[0].Load())
	require.EqualValues(t, 1000, table.blocks[2].Load().by.Load())

	table.blocks[0].Store(new(block))                                  // another that is closed
	s.nursery.passed.Store(4*blockSize + 10 - s.nursery.filled.Load()) // in the first block again
	put(0, true)                                                       // it was taken
	require.EqualValues(t, 4*blockSize+11, s.nursery.hand())

	s.nursery.close(stoppedTable, func(*Timeout) {})
	accepted := s.accepted()
	put(young, false)
	require.Equal(t, accepted, s.accepted())
	put(0, true) // Stop has taken it, so it has been armed
	require.Equal(t, accepted+1, s.accepted())
	for i := range closedBlock.slots {
		require.Nil(t, closedBlock.slots[i].Load())
	}
}

// The worker closes each block of a table that it gives back, and puts closedBlock in place of those that nobody has made. It
// takes each timeout once, also one whose producer has not lowered the tick of the block, unless the producer comes later.
func TestClose(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	w, s := &timer.worker, oneStripe(timer)
	hold(t, timer)
	w.round() // makes the wheel
	for _, n := range []int{0, 1, blockSize, 3 * blockSize, 1000} {
		var all []*Timeout
		for range n {
			to, err := timer.AfterFunc(100*time.Hour, nop)
			require.NoError(t, err)
			all = append(all, to)
		}
		nursery, inbox := s.nursery.table.Load(), s.inbox.table.Load()
		before := w.wheel.count
		w.in.giveBack(s)
		require.Equal(t, before+n, w.wheel.count)
		require.Zero(t, s.nursery.slots()+s.inbox.slots())
		for _, table := range []*table{nursery, inbox} {
			if table == nil {
				continue
			}
			for i := range table.blocks {
				b := table.blocks[i].Load()
				require.NotNil(t, b)
				require.EqualValues(t, closed, b.by.Load())
			}
		}
		for _, to := range all {
			require.Zero(t, to.word.Load()&(queued|young))
			require.True(t, to.Cancel())
		}
		w.in.takeInbox(s)
	}
}

// Tables that have grown are given back when producers pause: after their timeouts were canceled, or have become due, near or
// far.
func TestTablesAreGivenBack(t *testing.T) {
	const tick, n = 10 * time.Millisecond, 5000
	beside := sized(60*tick, 100*tick, 100*tick)
	for name, c := range map[string]struct {
		delay  time.Duration
		cancel bool
		beside time.Duration // others are armed without pause for so long
	}{
		"canceled":               {delay: time.Hour, cancel: true},
		"pending":                {delay: time.Hour},
		"near":                   {delay: nearTime / 2},
		"near, canceled":         {delay: nearTime / 2, cancel: true},
		"due beside others":      {delay: nearTime + 10*tick, beside: beside},
		"near beside others":     {delay: nearTime / 2, beside: beside},
		"canceled beside others": {delay: time.Hour, cancel: true, beside: beside},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick))
				s := oneStripe(timer)
				keep, err := timer.AfterFunc(100*time.Hour, nop) // so that the worker does not end
				require.NoError(t, err)
				arm := func() {
					timer.worker.mu.Lock() // a round at the same moment could take some, and give back the table
					defer timer.worker.mu.Unlock()
					var all []*Timeout
					for range n {
						to, err := timer.AfterFunc(c.delay, nop)
						if err != nil {
							t.Fatal(err)
						}
						all = append(all, to)
					}
					require.Greater(t, s.nursery.slots()+s.inbox.slots(), 2*smallest)
					for _, to := range all {
						if c.cancel && !to.Cancel() {
							t.Fatal("not canceled")
						}
					}
				}
				if c.beside == 0 {
					arm()
				} else {
					churn(t, timer, 1, c.beside, func(elapsed time.Duration) {
						if elapsed == 20*tick {
							arm()
						}
						if elapsed > 20*tick {
							require.Greater(t, s.nursery.slots()+s.inbox.slots(), 2*smallest, "producers do not pause")
						}
					})
				}
				pass(nearTime)
				require.Zero(t, s.nursery.slots()+s.inbox.slots())
				require.True(t, keep.Cancel())
			})
		})
	}
}

// A table of an inbox that has grown is given back although nothing is on the queue any more, and although the worker has not
// noticed at once that producers pause.
func TestGrownInboxIsGivenBack(t *testing.T) {
	const tick = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		s := oneStripe(timer)
		keep, err := timer.AfterFunc(100*time.Hour, nop) // so that the worker does not end
		require.NoError(t, err)
		pass(2 * tick)
		grown := false
		for range 200 { // ticks
			var all []*Timeout
			for range 2 * tick / pauseTime {
				to, err := timer.AfterFunc(nearTime/2, nop)
				require.NoError(t, err)
				all = append(all, to)
			}
			for _, to := range all {
				require.True(t, to.Cancel())
			}
			grown = grown || s.inbox.large()
			time.Sleep(tick)
		}
		require.True(t, grown)
		pass(3 * maxUnwatched) // the worker looks each maxUnwatched, and the second look may find the last ones
		require.Zero(t, s.inbox.slots())
		require.EqualValues(t, resting, timer.worker.state.Load())
		require.True(t, keep.Cancel())
	})
}

// A timer at rest, with nothing pending, keeps no tables.
func TestTablesAtRest(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		for range 100 {
			_, err := timer.AfterFunc(time.Millisecond, nop)
			require.NoError(t, err)
			to, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			require.True(t, to.Cancel())
		}
		pass(100 * time.Millisecond)
		slots := 0
		each := func() {
			slots = 0
			for i := range timer.queue.stripes {
				s := &timer.queue.stripes[i]
				slots += s.nursery.slots() + s.inbox.slots()
			}
		}
		each()
		require.NotZero(t, slots, "they may be used again")
		pass(time.Second)
		each()
		require.Zero(t, slots)
	})
}

// Producers also drop a timeout that was dropped, then armed again by Reset, and canceled again.
func TestDroppedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		s := oneStripe(timer)
		_, err := timer.AfterFunc(10*time.Hour, nop)
		require.NoError(t, err)
		synctest.Wait() // from here the worker waits for the next boundary
		var ring []*Timeout
		dropped := 0
		for range 20_000 {
			to, err := timer.AfterFunc(10*time.Hour, nop)
			if err != nil || !to.Cancel() {
				t.Fatal(to, err)
			}
			if ring = append(ring, to); len(ring) == 1000 {
				old := ring[0]
				if !onQueue(old.word.Load()) {
					dropped++
				}
				if active, err := old.Reset(5 * time.Hour); active || err != nil || !old.Cancel() {
					t.Fatal(old, active, err)
				}
				ring = ring[1:]
			}
			if n := s.nursery.slots() + s.inbox.slots(); n > 2*smallest {
				t.Fatalf("%d slots", n)
			}
		}
		require.Greater(t, dropped, 18_000)
		require.Equal(t, 1, timer.Pending())
	})
}

// Producers do not drop a canceled timeout that the worker has had, because it may lie in a bucket.
func TestPlacedIsNotDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Hour
		timer := newTimer(t, WithTick(tick))
		s := oneStripe(timer)
		to, err := timer.AfterFunc(10*tick, nop)
		require.NoError(t, err)
		pass(tick)
		require.Zero(t, to.word.Load()&fresh)
		_, err = timer.AfterFunc(10*tick, nop)
		require.NoError(t, err)
		synctest.Wait() // from here the worker waits for the next boundary
		require.True(t, to.Cancel())
		dropped := 0
		for s.inbox.hand() < 3*smallest {
			other := forwarded10(t, timer)
			require.True(t, other.Cancel())
			dropped++
		}
		require.Greater(t, dropped, 2*smallest)
		require.NotZero(t, to.word.Load()&queued)
		active, err := to.Reset(2 * tick)
		require.NoError(t, err)
		require.False(t, active)
		require.True(t, to.Cancel())
		require.NotZero(t, to.word.Load()&queued)
		pass(tick)
		require.Zero(t, to.word.Load()&queued)
		require.Zero(t, timer.Stats().Queued)
		require.Equal(t, 1, timer.Pending())
	})
}

// forwarded10 arms a timeout for ten ticks, and resets it to five. So it is in an inbox.
func forwarded10(t *testing.T, timer *Timer) *Timeout {
	to, err := timer.AfterFunc(10*timer.Tick(), nop)
	if err == nil {
		_, err = to.Reset(5 * timer.Tick())
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// Goroutines arm and cancel one after another, each on its own stripe. The worker drops what they have left there, and gives
// back the tables, although another goroutine arms without pause.
func TestIdleStripesAreEmptied(t *testing.T) {
	const tick, users, each = 10 * time.Millisecond, 40, 2000
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		setStripes(timer, 64)
		timer.queue.seats = nil // the others use the first stripe
		var left time.Duration
		var held []weak.Pointer[Timeout]
		churn(t, timer, 1, sized(3*nearTime, 6*nearTime, 6*nearTime), func(elapsed time.Duration) {
			if elapsed == 20*tick {
				left = elapsed
				for i := range users {
					s := &timer.queue.stripes[1+i]
					var all []*Timeout
					for range each {
						to := &Timeout{timer: timer, task: plainFunc(nop)}
						tick := timer.clock.DueIn(time.Hour)
						to.word.Store(pendingAt(young|fresh, tick) | moved) // so that it stays when it is canceled
						timer.worker.put(s, &s.nursery, to, timer.queue.nearAt(tick))
						all = append(all, to)
					}
					for _, to := range all {
						to.Cancel()
					}
					held = append(held, weak.Make(all[0]), weak.Make(all[each-1]))
				}
			}
			if left > 0 && elapsed-left > nearTime+2*tick {
				require.Less(t, timer.Stats().Queued, each)
				for i := range users {
					require.Zero(t, timer.queue.stripes[1+i].nursery.slots())
				}
			} else if left > 0 && elapsed-left < nearTime-2*tick {
				require.Greater(t, timer.Stats().Queued, each*users/2)
			}
		})
		runtime.GC()
		for _, p := range held {
			require.Nil(t, p.Value())
		}
	})
}

// A goroutine has armed and canceled many timeouts on its stripe, and goes on slowly, so its hand needs long to go round.
// Another arms without pause. What the first has canceled is dropped soon, and its table is given back. A hand that keeps up
// with the other keeps what is pending.
func TestSlowStripeIsEmptied(t *testing.T) {
	const tick, many = 10 * time.Millisecond, 9000
	for perTick, keepsUp := range map[int]bool{15: false, 550: true} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick))
			setStripes(timer, 2)
			timer.queue.seats = nil // the other uses the first stripe
			s := &timer.queue.stripes[1]
			arm := func() *Timeout {
				to := &Timeout{timer: timer, task: plainFunc(nop)}
				tick := timer.clock.DueIn(time.Hour)
				to.word.Store(pendingAt(young|fresh, tick))
				timer.worker.put(s, &s.nursery, to, timer.queue.nearAt(tick))
				return to
			}
			var held []weak.Pointer[Timeout]
			var pending *Timeout
			churn(t, timer, 6000, sized(70*tick, 100*tick, 100*tick), func(elapsed time.Duration) {
				switch {
				case elapsed == 10*tick:
					all := make([]*Timeout, many)
					for i := range all {
						all[i] = arm()
					}
					for _, to := range all {
						to.Cancel()
					}
					held = append(held, weak.Make(all[0]), weak.Make(all[many/2]), weak.Make(all[many-1]))
				case elapsed > 10*tick:
					for range perTick {
						arm().Cancel()
					}
				}
				switch elapsed {
				case 30 * tick:
					require.Greater(t, s.nursery.slots(), many)
				case 40 * tick:
					pending = arm()
					require.Equal(t, keepsUp, s.nursery.slots() > many, "%d in a tick", perTick)
				case 60 * tick:
					require.True(t, !keepsUp || onQueue(pending.word.Load()), "%d in a tick", perTick)
				}
			})
			runtime.GC()
			for _, p := range held {
				require.Nil(t, p.Value())
			}
		})
	}
}

// On a stripe with many long-lived timeouts, those that are armed and canceled beside them do not pile up.
func TestChurnBesideLongLived(t *testing.T) {
	timer := newTimer(t, WithTick(100*time.Hour))
	s := oneStripe(timer)
	hold(t, timer)
	const live, window = 100_000, 1000
	arm := func() *Timeout {
		to, err := timer.AfterFunc(1000*time.Hour, nop)
		if err != nil {
			panic(err)
		}
		return to
	}
	for range live {
		arm()
	}
	var ring [window]*Timeout
	for i := range sized(300_000, 3_000_000, 3_000_000) {
		if old := ring[i%window]; old != nil {
			old.Cancel()
		}
		ring[i%window] = arm()
		if n := s.nursery.slots(); n > mostSlots(live+window) {
			t.Fatal(n)
		}
	}
	t.Logf("%d slots, and %d in the inbox", s.nursery.slots(), s.inbox.slots())
	require.LessOrEqual(t, s.inbox.slots(), live/2)
}

// Canceled timeouts do not pile up in an inbox during a long tick, nor do timeouts that are reset to earlier and earlier ticks.
func TestForwardedDoNotPileUp(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	giveBack := hold(t, timer)
	s := oneStripe(timer)
	const live = 1000
	var pending []*Timeout
	for range live {
		pending = append(pending, forwarded10(t, timer))
	}
	for i := range 20 * live {
		if !pending[i%live].Cancel() {
			t.Fatal("not canceled")
		}
		pending[i%live] = forwarded10(t, timer)
	}
	t.Logf("%d slots in the inbox, %d in the nursery", s.inbox.slots(), s.nursery.slots())
	require.LessOrEqual(t, s.inbox.slots(), mostSlots(live))
	require.LessOrEqual(t, s.nursery.slots(), mostSlots(live))
	require.Equal(t, live, timer.Pending())

	before := s.inbox.hand()
	for hours := 4; hours > 1; hours-- {
		for _, to := range pending {
			_, err := to.Reset(time.Duration(hours) * time.Hour)
			require.NoError(t, err)
		}
	}
	require.Equal(t, before, s.inbox.hand(), "they are there")

	near := make([]*Timeout, live)
	for i := range near {
		var err error
		near[i], err = timer.AfterFunc(2*time.Hour, nop)
		require.NoError(t, err)
	}
	for range 100 {
		for _, to := range near {
			if _, err := to.Reset(time.Hour); err != nil || !to.Cancel() {
				t.Fatal(to, err)
			}
			if _, err := to.Reset(2 * time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	require.LessOrEqual(t, s.inbox.slots(), mostSlots(3*live), "at most two slots each")
	require.Len(t, stopHeld(timer, giveBack), 2*live)
}

// Timeouts in structs that are armed for the first time, or again after producers have dropped them, are dropped like new
// ones. The worker, whose tick is an hour, does nothing.
func TestEmbeddedAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		s := oneStripe(timer)
		keep, err := timer.AfterFunc(10*time.Hour, nop)
		require.NoError(t, err)
		synctest.Wait() // from here the worker waits for the next boundary
		calls := make([]request, 5000)
		for i := range calls {
			timer.Init(&calls[i].timeout, &calls[i])
		}
		for round := range 4 {
			for i := range calls {
				to := &calls[i].timeout
				active, err := to.Reset(10 * time.Hour)
				if n := timer.Pending(); active || err != nil || n != 2 || !to.Cancel() {
					t.Fatal(to, active, err, n)
				}
				if _, err = to.Reset(10 * time.Hour); err != nil || !to.Cancel() { // while it has a slot
					t.Fatal(to, err)
				}
				if n := s.nursery.slots() + s.inbox.slots(); n > 2*smallest {
					t.Fatalf("%d slots in round %d", n, round)
				}
			}
			require.LessOrEqual(t, timer.Stats().Queued, 2*smallest)
		}
		require.True(t, keep.Cancel())
	})
}

// In the end each of some structs that are armed and canceled in turn has a slot, and arming one is only a change of its word.
func TestKeptInTurnNeedNoPush(t *testing.T) {
	const n, turns = smallest + 50, 1_000_000
	timer := newTimer(t, WithTick(time.Hour))
	oneStripe(timer)
	hold(t, timer)
	ring := make([]Timeout, n)
	for i := range ring {
		timer.Init(&ring[i], plainFunc(nop))
	}
	before := uint64(0)
	for i := range turns {
		if i == turns*3/4 {
			before = timer.queue.tried()
		}
		to := &ring[i%n]
		if _, err := to.Reset(10 * time.Hour); err != nil || !to.Cancel() {
			t.Fatal(err)
		}
	}
	t.Logf("%d slots tried, then %d", before, timer.queue.tried()-before)
	require.Less(t, timer.queue.tried()-before, uint64(turns/4/100))
}

// Beside producers that do not pause, a timeout that was brought forward, and has ended, is soon not held any more, although
// the others in its nursery stay.
func TestForwardedIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		oneStripe(timer) // whichever a call from another depth of the stack would use
		var to *Timeout
		var held weak.Pointer[Timeout]
		churn(t, timer, 6000, nearTime, func(elapsed time.Duration) {
			switch elapsed {
			case 10 * tick:
				var err error
				to, err = timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				held = weak.Make(to)
			case 15 * tick:
				require.EqualValues(t, young, to.word.Load()&(young|queued))
				_, err := to.Reset(time.Minute)
				require.NoError(t, err)
			case 16 * tick:
				require.False(t, onQueue(to.word.Load()), "the worker has taken it")
				require.True(t, to.Cancel())
			case 18 * tick:
				require.Zero(t, to.word.Load()&queued)
				to = nil
			}
		})
		runtime.GC()
		require.Nil(t, held.Value(), "the hand of the nursery has come by")
	})
}

// While producers arm, cancel and reset, rings grow, and the worker takes tables and gives them back. No timeout is lost. The
// test runs on real time, because it tests races.
func TestRingsRace(t *testing.T) {
	for end := time.Now().Add(2 * stressTime(t)); time.Now().Before(end); {
		timer := newTimer(t, WithTick(time.Millisecond))
		if rand.IntN(2) == 0 {
			oneStripe(timer)
		}
		w := &timer.worker
		var over atomic.Bool
		var worker, users sync.WaitGroup
		worker.Go(func() {
			for !over.Load() {
				time.Sleep(100 * time.Microsecond)
				w.mu.Lock()
				if w.wheel != nil {
					for i := range w.queue.stripes {
						w.in.giveBack(&w.queue.stripes[i])
					}
				}
				w.mu.Unlock()
			}
		})
		made := make([][]*Timeout, 4)
		for i := range made {
			r := rand.New(rand.NewPCG(rand.Uint64(), 0))
			users.Go(func() {
				for range 3000 {
					to, err := timer.AfterFunc(time.Hour+time.Duration(r.IntN(1000))*time.Millisecond, nop)
					if err != nil {
						panic(err)
					}
					made[i] = append(made[i], to)
					switch old := made[i][r.IntN(len(made[i]))]; r.IntN(8) {
					case 0, 1, 2:
						old.Cancel()
					case 3:
						_, _ = old.Reset(time.Hour / 2)
					}
					spin()
				}
			})
		}
		users.Wait()
		over.Store(true)
		worker.Wait()
		verify(t, timer, slices.Concat(made...)...)
		pending := timer.Pending()
		require.Len(t, timer.Stop(), pending)
		for _, to := range slices.Concat(made...) {
			if !to.IsCanceled() {
				t.Fatalf("not canceled: %v", to)
			}
		}
	}
}

// The worker rests, although a tick of a nursery says that it must come: a caller from the other side of a bubble has lowered
// the tick, and could not wake the worker. The next timeout that is armed there wakes it, although it is due later.
func TestArmingWakesTheWorker(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		s := oneStripe(timer)
		for name, arm := range map[string]func(task Task) error{
			"NewTimeout": func(task Task) error { _, err := timer.NewTimeout(task, time.Hour); return err },
			"Reset": func(task Task) error {
				to := new(Timeout)
				timer.Init(to, task)
				_, err := to.Reset(time.Hour)
				return err
			},
		} {
			time.Sleep(time.Second)
			require.EqualValues(t, resting, timer.worker.state.Load(), name)
			s.nursery.by.Store(timer.clock.DueIn(time.Minute))
			start, fired := time.Now(), make(chan time.Duration, 1)
			require.NoError(t, arm(TaskFunc(func(*Timeout) { fired <- time.Since(start) })))
			require.Equal(t, time.Hour, (<-fired).Truncate(time.Second), name)
		}
	})
}
