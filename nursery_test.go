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

// mostSlots returns how many slots a nursery may have, also in tables that it has left to the worker, if so many timeouts were
// pending in it at once.
func mostSlots(pending int) int { return minSlots + 8*pending }

// Goroutines that arm timeouts drop canceled ones and keep pending ones. Timeouts are canceled at once or much
// later, with resets in between. The worker, whose tick is an hour, does nothing.
func TestProducersDrop(t *testing.T) {
	for name, lag := range map[string]int{"at once": 0, "later": 256, "much later": 4096} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(time.Hour))
				oneStripe(timer)
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
						if _, err := victim.Reset(time.Duration(3+r.IntN(20)) * time.Hour); err != nil {
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
					if n := timer.queue.slots(); n > mostSlots(2*most) {
						t.Fatalf("%d slots for %d", n, most)
					}
				}
				require.LessOrEqual(t, timer.Stats().Queued, mostSlots(2*most))
				require.Equal(t, len(ring)+len(pending), timer.Pending())
				pass(2 * time.Hour) // the worker takes the tables that are left to it
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

// However little the worker does, a nursery has at most a few times as many slots as timeouts were pending at once, plus the
// smallest number: whatever is canceled at once or later, beside others that stay, and however often it is brought forward.
func TestTablesAreBounded(t *testing.T) {
	for _, lag := range []int{1, 10, 100, 191, 192, 193, 1000, 5000} {
		for _, long := range []int{0, 150, 190, 3000} {
			for _, forward := range []bool{false, true} {
				timer := newTimer(t, WithTick(time.Hour))
				hold(t, timer)
				oneStripe(timer)
				slotsOfEach := 1
				if forward {
					slotsOfEach = 2
				}
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
					if n := timer.queue.slots(); n > mostSlots(slotsOfEach*most) {
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

// A lap that begins with more than half of the slots pending gets an empty table of twice the size, and leaves the other to the
// worker, which takes it at the next sweep at the latest. Otherwise the table stays. A table that has grown is given back when
// little is left in it.
func TestNurseryGrows(t *testing.T) {
	const tick = 10 * time.Millisecond
	for name, c := range map[string]struct {
		stays func(i int) bool // whether the i'th timeout that is armed is not canceled
		grows bool
	}{
		"all":               {func(int) bool { return true }, true},
		"one in three":      {func(i int) bool { return i%3 == 0 }, false},
		"one in four":       {func(i int) bool { return i%4 == 0 }, false},
		"the first quarter": {func(i int) bool { return i < minSlots/4 }, false},
		"the last quarter":  {func(i int) bool { return i >= minSlots*3/4 }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick))
			oneStripe(timer)
			pending := 0
			for i := range minSlots + 1 {
				to, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				if c.stays(i) {
					pending++
				} else {
					require.True(t, to.Cancel())
				}
			}
			slots := minSlots
			if c.grows {
				slots = 3 * minSlots
			}
			require.Equal(t, slots, timer.queue.slots(), name)
			require.Equal(t, pending, timer.Pending())
			pass(sweepTime + tick)
			if c.grows {
				require.Zero(t, timer.queue.slots())
			} else {
				require.Equal(t, minSlots, timer.queue.slots())
			}
			require.Equal(t, pending, timer.Pending())
		})
	}
}

// A timeout goes to the wheel when a second sweep meets it, and not before. What has come into a slot since the last sweep is
// new, whatever was there before.
func TestOldGoToTheWheel(t *testing.T) {
	const tick = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(tick))
		r := &oneStripe(timer).nursery
		arm := func() *Timeout {
			to, err := timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			return to
		}
		first := arm()
		pass(tick) // the first round sweeps
		require.True(t, onQueue(first.word.Load()))
		slot, other, old := r.hand(), arm(), arm()
		pass(sweepTime)
		require.False(t, onQueue(first.word.Load()))
		require.True(t, onQueue(old.word.Load()))
		require.True(t, other.Cancel())
		for r.hand()%minSlots != slot { // the hand comes to the slot of the other one
			arm().Cancel()
		}
		newer := arm()
		pass(sweepTime)
		require.False(t, onQueue(old.word.Load()))
		require.True(t, onQueue(newer.word.Load()))
		pass(sweepTime)
		require.False(t, onQueue(newer.word.Load()))
		require.Zero(t, timer.queue.inUse())
		require.Equal(t, 3, timer.Pending())
	})
}

// A producer that finds its slot closed puts the timeout into the table that the ring has now. If the timer is stopped, nothing
// is put, and nothing counts.
func TestClosedSlot(t *testing.T) {
	timer := newFakedTimer(t, WithTick(time.Millisecond))
	hold(t, timer)
	s := oneStripe(timer)
	r := &s.nursery
	put := func() (to *Timeout, ok bool) {
		to = &Timeout{timer: timer, task: plainFunc(nop)}
		to.word.Store(pendingAt(young, 10_000))
		_, _, ok = r.put(to, 1000, false)
		return to, ok
	}
	first, ok := put()
	require.True(t, ok)
	taken := r.take(nil)
	require.Len(t, taken, 1)
	var found []*Timeout
	require.True(t, taken[0].close(minSlots, func(to *Timeout) { found = append(found, to) }))
	require.Equal(t, []*Timeout{first}, found)
	_, ok = r.fill(taken[0], 0, first, 1000)
	require.False(t, ok)

	second, ok := put()
	require.True(t, ok)
	require.EqualValues(t, 1000, r.by.Load())
	require.Equal(t, 1, timer.queue.inUse())
	found = nil
	for _, table := range r.take(stoppedTable) {
		require.True(t, table.close(minSlots, func(to *Timeout) { found = append(found, to) }))
	}
	require.Equal(t, []*Timeout{second}, found)
	accepted := s.accepted()
	_, ok = put()
	require.False(t, ok)
	require.Equal(t, accepted, s.accepted())
	s.canceled.Store(accepted)
}

// A goroutine has lowered the tick of a block, and is preempted before it lowers that of the ring. Another one that fills a slot of
// the block lowers that of the ring, so the worker comes in time for its timeout.
func TestPreemptedInTheSameBlock(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	hold(t, timer)
	r := &oneStripe(timer).nursery
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	r.table.Load().blocks[0].by.Store(soon) // by the first
	_, err = timer.AfterFunc(time.Millisecond, nop)
	require.NoError(t, err)
	require.EqualValues(t, soon, r.by.Load())
}

// The worker closes each slot of a table that it gives back, some at a time. It takes each timeout once.
func TestGiveBack(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	w, s := &timer.worker, oneStripe(timer)
	hold(t, timer)
	w.round() // makes the wheel
	for _, n := range []int{0, 1, blockSize, 3 * blockSize, 1000, 3 * checkEvery} {
		var all []*Timeout
		for range n {
			to, err := timer.AfterFunc(100*time.Hour, nop)
			require.NoError(t, err)
			all = append(all, to)
		}
		var tables []*table
		for table := s.nursery.table.Load(); table != nil; table = table.older.Load() {
			tables = append(tables, table)
		}
		before := w.wheel.count
		w.in.giveBack()
		require.Equal(t, before+n, w.wheel.count)
		require.Zero(t, timer.queue.slots())
		for _, table := range tables {
			for i := range table.slots {
				require.Same(t, closedSlot, table.slots[i].Load())
			}
			require.Nil(t, table.older.Load())
		}
		for _, to := range all {
			require.False(t, onQueue(to.word.Load()))
			require.True(t, to.Cancel())
		}
		w.in.drain()
		require.Zero(t, w.wheel.count)
	}
}

// A table that has grown is given back within two seconds after its timeouts were canceled, or have left for the wheel, although
// others are armed beside them without pause.
func TestTablesAreGivenBack(t *testing.T) {
	const tick, n = 10 * time.Millisecond, 5000
	for name, c := range map[string]struct {
		delay  time.Duration
		cancel bool
		beside time.Duration // others are armed without pause for so long
	}{
		"canceled":               {delay: time.Hour, cancel: true},
		"pending":                {delay: time.Hour},
		"near":                   {delay: nearTime / 2},
		"near, canceled":         {delay: nearTime / 2, cancel: true},
		"due beside others":      {delay: nearTime + 10*tick, beside: 3 * sweepTime},
		"near beside others":     {delay: nearTime / 2, beside: 3 * sweepTime},
		"canceled beside others": {delay: time.Hour, cancel: true, beside: 3 * sweepTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick))
				oneStripe(timer)
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
					require.Greater(t, timer.queue.slots(), n)
					for _, to := range all {
						if c.cancel && !to.Cancel() {
							t.Fatal("not canceled")
						}
					}
				}
				if c.beside == 0 {
					arm()
					pass(2 * time.Second)
				} else {
					churn(t, timer, 1, c.beside, func(elapsed time.Duration) {
						if elapsed == 20*tick {
							arm()
						}
					})
				}
				require.LessOrEqual(t, timer.queue.slots(), minSlots)
				require.True(t, keep.Cancel())
			})
		})
	}
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
		require.NotZero(t, timer.queue.slots(), "they may be used again")
		pass(time.Second)
		require.Zero(t, timer.queue.slots())
	})
}

// A timeout that was dropped, then armed again by Reset, and canceled again, goes when the worker looks next, also in a long
// tick. The same is true of one that the worker has placed.
func TestDroppedAgain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		keep, err := timer.AfterFunc(100*time.Hour, nop)
		require.NoError(t, err)
		var held []weak.Pointer[Timeout]
		use := func(wait time.Duration) {
			for range 1000 {
				to, err := timer.AfterFunc(10*time.Hour, nop)
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, weak.Make(to))
				if wait > 0 {
					time.AfterFunc(wait, func() { to.Cancel() })
					continue
				}
				for range 2 {
					if !to.Cancel() {
						t.Fatal("not canceled")
					}
					if active, err := to.Reset(5 * time.Hour); active || err != nil {
						t.Fatal(active, err)
					}
				}
				if !to.Cancel() {
					t.Fatal("not canceled")
				}
			}
		}
		use(0)
		use(2 * time.Second)
		pass(2 * time.Hour)
		require.Zero(t, timer.Stats().Queued)
		runtime.GC()
		for _, p := range held {
			if p.Value() != nil {
				t.Fatal("held")
			}
		}
		require.Equal(t, 1, timer.Pending())
		require.True(t, keep.Cancel())
	})
}

// One timeout in five lives longer than the others, which are canceled at once. That is also the distance of some slots in a
// table. The nursery does not take the few for the many.
func TestPatternDoesNotMislead(t *testing.T) {
	for _, period := range []int{5, 8, 9} {
		timer := newTimer(t, WithTick(time.Hour))
		hold(t, timer)
		oneStripe(timer)
		var ring []*Timeout
		for i := range 20_000 {
			to, err := timer.AfterFunc(100*time.Hour, nop)
			require.NoError(t, err)
			if i%period != 0 {
				require.True(t, to.Cancel())
			} else if ring = append(ring, to); len(ring) > 190/period {
				require.True(t, ring[0].Cancel())
				ring = ring[1:]
			}
			require.LessOrEqual(t, timer.queue.slots(), minSlots)
		}
	}
}

// The hand makes longer steps where many slots in a row lead to pending timeouts, so a call does not look at all of them.
func TestLongRunsAreSkipped(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond))
	hold(t, timer)
	s := oneStripe(timer)
	const n = 1 << 17
	s.nursery.table.Store(newTable(n))
	all := make([]*Timeout, n)
	for i := range all {
		var err error
		all[i], err = timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
	}
	require.EqualValues(t, n, s.nursery.filled.Load())
	for i := n / 2; i < n; i++ {
		require.True(t, all[i].Cancel())
	}
	before := s.nursery.hand()
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	table := s.nursery.table.Load()
	require.Len(t, table.slots, n, "it has not grown")
	require.Greater(t, s.nursery.hand()-before, uint64(n/2+1), "with steps of one, it would fill the first free slot")
	require.Equal(t, n/2+1, timer.Pending())
}

// forwarded10 arms a timeout for ten ticks, and resets it to five. So it has two slots.
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
// back the tables, although another goroutine arms without pause, and although they go on slowly.
func TestIdleStripesAreEmptied(t *testing.T) {
	const tick, users, each = 10 * time.Millisecond, 40, 2000
	for _, slowly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimer(t, WithTick(tick))
			setStripes(timer, 64)
			timer.queue.seats = nil // the others use the first stripe
			arm := func(i int) *Timeout {
				to := &Timeout{timer: timer, task: plainFunc(nop)}
				tick := timer.clock.DueIn(time.Hour)
				to.word.Store(pendingAt(young, tick))
				timer.queue.stripes[1+i].nursery.put(to, timer.queue.nearAt(tick), false)
				return to
			}
			var left time.Duration
			var held []weak.Pointer[Timeout]
			churn(t, timer, 1, 20*tick+3*sweepTime, func(elapsed time.Duration) {
				if left == 0 && elapsed >= 20*tick {
					left = elapsed
					for i := range users {
						var all []*Timeout
						for range each {
							to := arm(i)
							to.word.Or(moved) // so that it stays young when it is canceled
							all = append(all, to)
						}
						for _, to := range all {
							to.Cancel()
						}
						held = append(held, weak.Make(all[0]), weak.Make(all[each-1]))
					}
				}
				if slowly && left > 0 {
					for i := range users {
						arm(i).Cancel()
					}
				}
			})
			require.LessOrEqual(t, timer.Stats().Queued, users)
			require.LessOrEqual(t, timer.queue.slots(), (users+1)*minSlots)
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
	oneStripe(timer)
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
		if n := timer.queue.slots(); n > mostSlots(live+window) {
			t.Fatal(n)
		}
	}
}

// Canceled timeouts do not pile up in a nursery during a long tick, nor do timeouts that are reset to earlier and earlier ticks.
func TestForwardedDoNotPileUp(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour))
	giveBack := hold(t, timer)
	oneStripe(timer)
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
	require.LessOrEqual(t, timer.queue.slots(), mostSlots(2*live))
	require.Equal(t, live, timer.Pending())

	before := timer.queue.puts()
	for hours := 4; hours > 1; hours-- {
		for _, to := range pending {
			_, err := to.Reset(time.Duration(hours) * time.Hour)
			require.NoError(t, err)
		}
	}
	require.Equal(t, before, timer.queue.puts(), "the worker looks at them next")

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
	require.LessOrEqual(t, timer.queue.slots(), mostSlots(4*live), "at most two slots each")
	require.Len(t, stopHeld(timer, giveBack), 2*live)
}

// Timeouts in structs that are armed and canceled in turn, and again, leave nothing on the queue, whether or not the worker comes
// in between.
func TestEmbeddedAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Hour))
		oneStripe(timer)
		keep, err := timer.AfterFunc(10*time.Hour, nop)
		require.NoError(t, err)
		synctest.Wait() // from here the worker waits for the next boundary
		calls := make([]request, 5000)
		for i := range calls {
			timer.Bind(&calls[i].timeout, &calls[i])
		}
		for range 4 {
			for i := range calls {
				to := &calls[i].timeout
				active, err := to.Reset(10 * time.Hour)
				if n := timer.Pending(); active || err != nil || n != 2 || !to.Cancel() {
					t.Fatal(to, active, err, n)
				}
				if _, err = to.Reset(10 * time.Hour); err != nil || !to.Cancel() {
					t.Fatal(to, err)
				}
			}
			require.LessOrEqual(t, timer.queue.slots(), minSlots)
			require.LessOrEqual(t, timer.Stats().Queued, len(calls)+minSlots, "each once")
		}
		pass(2 * time.Hour)
		require.Zero(t, timer.Stats().Queued)
		require.True(t, keep.Cancel())
	})
}

// In the end each of some structs that are armed and canceled in turn is on the queue, and arming one is only a change of its word.
func TestKeptInTurnNeedNoPush(t *testing.T) {
	const n, turns = minSlots + 50, 1_000_000
	timer := newTimer(t, WithTick(time.Hour))
	oneStripe(timer)
	hold(t, timer)
	ring := make([]Timeout, n)
	for i := range ring {
		timer.Bind(&ring[i], plainFunc(nop))
	}
	before := uint64(0)
	for i := range turns {
		if i == turns*3/4 {
			before = timer.queue.puts()
		}
		to := &ring[i%n]
		if _, err := to.Reset(10 * time.Hour); err != nil || !to.Cancel() {
			t.Fatal(err)
		}
	}
	t.Logf("%d puts, then %d", before, timer.queue.puts()-before)
	require.Less(t, timer.queue.puts()-before, uint64(turns/4/100))
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
		churn(t, timer, 6000, 2*sweepTime, func(elapsed time.Duration) {
			switch elapsed {
			case 10 * tick:
				var err error
				to, err = timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				held = weak.Make(to)
			case 15 * tick:
				require.True(t, onQueue(to.word.Load()))
				_, err := to.Reset(time.Minute)
				require.NoError(t, err)
			case 15*tick + sweepTime:
				require.False(t, onQueue(to.word.Load()), "the worker has taken it")
				require.True(t, to.Cancel())
			case 17*tick + sweepTime:
				require.False(t, onQueue(to.word.Load()))
				to = nil
			}
		})
		runtime.GC()
		require.Nil(t, held.Value())
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
					w.in.giveBack()
					w.handOver()
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
			if to.Cancel(); !to.IsCanceled() {
				t.Fatalf("neither canceled nor returned: %v", to)
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
				timer.Bind(to, task)
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
