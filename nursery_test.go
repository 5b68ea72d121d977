package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// verifyRing checks that the worker looks at a ring no later than at each block with a timeout, unless it has looked, and has put
// the block into worker.near. It notes when it looks at young timeouts.
func verifyRing(t testing.TB, r *ring, looks map[*Timeout]uint64) {
	t.Helper()
	for table := r.table.Load(); table != nil; table = table.older.Load() {
		for i := range table.slots {
			by, to := table.blocks[i/blockSize].by.Load(), table.slots[i].Load()
			switch {
			case r.by.Load() > by && !table.blocks[i/blockSize].inNear: // the next round goes on with what is in near
				t.Fatalf("the worker looks at the ring by %d, later than at a block of it, by %d", r.by.Load(), by)
			case to == closedSlot: // the worker closes a table that has been replaced, some slots in each round
				if i >= table.closed || table == r.table.Load() {
					t.Fatal("a slot of a ring is closed")
				}
			case to == nil:
			case by >= ticks.Never:
				t.Fatal("the worker does not look at a block with a timeout")
			case to.word.Load()&young != 0:
				if before, ok := looks[to]; !ok || by < before {
					looks[to] = by
				}
			}
		}
	}
}

// slots returns how many slots the nurseries have, also those of tables that the worker has yet to take.
func (q *queue) slots() (n int) {
	for i := range q.stripes {
		for t := q.stripes[i].nursery.table.Load(); t != nil; t = t.older.Load() {
			n += len(t.slots)
		}
	}
	return n
}

// hand returns how many slots the hand has gone in all.
func (r *ring) hand() uint64 { return r.filled.Load() + r.skipped.Load() }

// mostSlots returns how many slots a nursery may have, also in tables that it has left to the worker, if so many timeouts were
// pending in it at once.
func mostSlots(pending int) int { return minSlots + 8*pending }

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
				for i := range sized(3000, 12_000, 200_000) {
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
			require.Equal(t, minSlots, timer.queue.slots())
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
	taken := r.swapTables(nil)
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
	for _, table := range r.swapTables(stoppedTable) {
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
			if err != nil {
				t.Fatal(err) // not by package require, which takes longer than the call
			}
			if i%period != 0 {
				to.Cancel()
			} else if ring = append(ring, to); len(ring) > 190/period {
				ring[0].Cancel()
				ring = ring[1:]
			}
			if n := timer.queue.slots(); n > minSlots {
				t.Fatalf("%d slots", n)
			}
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
		if all[i], err = timer.AfterFunc(time.Hour, nop); err != nil {
			t.Fatal(err)
		}
	}
	require.EqualValues(t, n, s.nursery.filled.Load())
	for i := n / 2; i < n; i++ {
		if !all[i].Cancel() {
			t.Fatal("not canceled")
		}
	}
	before := s.nursery.hand()
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	table := s.nursery.table.Load()
	require.Len(t, table.slots, n, "the nursery should not grow")
	require.Greater(t, s.nursery.hand()-before, uint64(n/2+1), "with steps of one, it would fill the first free slot")
	require.Equal(t, n/2+1, timer.Pending())
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
