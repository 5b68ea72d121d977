package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	tick    = 10 * time.Millisecond
	horizon = time.Second
)

// A fixture is a manager and its store, and records what the manager reports.
type fixture struct {
	*manager
	t        *testing.T
	step     atomic.Int64 // of the wall clock
	loaded   loaded
	mu       sync.Mutex
	canceled []uint64
}

// told waits until nothing is in progress, and returns the orders that the manager reported as canceled.
func (f *fixture) told() []uint64 {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.canceled)
}

// mustManage opens a store and starts a manager. The present moment becomes a tick boundary.
func mustManage(t *testing.T, file string) *fixture {
	t.Helper()
	f := &fixture{t: t}
	s := mustOpen(t, file)
	s.now = func() time.Time { return time.Now().Add(time.Duration(f.step.Load())) }
	m, err := newManager(s, horizon, tick, func(id uint64) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.canceled = append(f.canceled, id)
	}, func(err error) { t.Errorf("failed: %v", err) })
	require.NoError(t, err)
	f.manager = m
	f.loaded.armed, f.loaded.overdue, err = m.start()
	require.NoError(t, err)
	return f
}

// stop ends the manager and the store, as before a restart.
func (f *fixture) stop() {
	f.t.Helper()
	require.NoError(f.t, f.manager.close())
	require.NoError(f.t, f.store.close())
}

func (f *fixture) mustCreate(timeout time.Duration) order {
	f.t.Helper()
	id, err := f.create(timeout)
	require.NoError(f.t, err)
	o := mustContents(f.t, f.store).orders[id]
	require.Equal(f.t, open, o.state)
	return o
}

// canceledAt returns when an order was canceled, or the zero time if it was not.
func (f *fixture) canceledAt(id uint64) (at time.Time) {
	f.t.Helper()
	synctest.Wait() // file operations take no time of the bubble, but they must be over
	for _, ch := range mustContents(f.t, f.store).trail {
		if ch.id == id && ch.to == canceled {
			at = ch.at
		}
	}
	return at
}

// An order within the horizon is armed at once. A paid order leaves the wheel at once.
func TestNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mustManage(t, newFile(t))
		defer f.stop()
		unpaid, settled := f.mustCreate(400*time.Millisecond), f.mustCreate(400*time.Millisecond)
		require.Equal(t, 2, f.timeouts.Len())
		ok, err := f.pay(settled.id)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, 1, f.timeouts.Len())

		// The deadline is a tick boundary, so it is met to the nanosecond. Then Batch waits.
		time.Sleep(time.Until(unpaid.deadline) + batchDelay - time.Nanosecond)
		require.Empty(t, f.told())
		require.Zero(t, f.canceledAt(unpaid.id))
		time.Sleep(time.Nanosecond)
		require.Equal(t, []uint64{unpaid.id}, f.told())
		require.Equal(t, unpaid.deadline.Add(batchDelay), f.canceledAt(unpaid.id))
		ok, err = f.pay(unpaid.id)
		require.NoError(t, err)
		require.False(t, ok)

		time.Sleep(time.Hour)
		require.Equal(t, []uint64{unpaid.id}, f.told())
		require.Zero(t, f.timeouts.Len())
	})
}

// An order beyond the horizon is not on the wheel until it is read ahead, which happens in time.
func TestBeyondTheHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mustManage(t, newFile(t))
		defer f.stop()
		var orders []order
		for i := range 40 { // one for each quarter of a horizon
			orders = append(orders, f.mustCreate(horizon+time.Duration(i)*horizon/4))
		}
		require.Zero(t, f.timeouts.Len())
		for time.Now().Before(orders[39].deadline.Add(horizon)) {
			time.Sleep(horizon / 20)
			synctest.Wait()
			onWheel := 0
			for _, o := range orders {
				// An order may be armed again if the index is read while it is being canceled.
				if left := time.Until(o.deadline); left > -2*tick && left <= horizon {
					onWheel++
				}
			}
			require.LessOrEqual(t, f.timeouts.Len(), onWheel, "none is on the wheel before the horizon")
		}
		for _, o := range orders {
			require.Equal(t, o.deadline.Add(batchDelay), f.canceledAt(o.id))
		}
		require.Len(t, f.told(), 40)
	})
}

// Orders that became due while no process ran are canceled at once. The others keep their deadlines.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		f := mustManage(t, file)
		var overdue, near, far []order
		settled := f.mustCreate(time.Minute)
		for range 10 {
			overdue = append(overdue, f.mustCreate(time.Minute))
			near = append(near, f.mustCreate(time.Hour))
			far = append(far, f.mustCreate(time.Hour+5*horizon))
		}
		_, err := f.pay(settled.id)
		require.NoError(t, err)
		f.stop()
		time.Sleep(time.Until(near[0].deadline) - horizon*7/10)

		start := time.Now().Round(0)
		f = mustManage(t, file)
		defer func() { f.stop() }()
		require.Equal(t, loaded{armed: 20, overdue: 10}, f.loaded)
		require.Equal(t, 20, f.timeouts.Len())
		for range 2 { // the second time for the remaining deadlines, on the wheel
			time.Sleep(horizon / 5)
			for _, o := range overdue {
				late := f.canceledAt(o.id).Sub(start)
				require.GreaterOrEqual(t, late, tick+batchDelay)
				require.LessOrEqual(t, late, 3*tick+batchDelay) // two more ticks if other tasks block
			}
			f.stop()
			f = mustManage(t, file)
			require.Equal(t, loaded{armed: 10}, f.loaded)
			require.Empty(t, f.told(), "none is canceled twice")
		}
		time.Sleep(10 * horizon)
		for _, o := range append(near, far...) {
			late := f.canceledAt(o.id).Sub(o.deadline)
			require.GreaterOrEqual(t, late, time.Duration(0))
			require.LessOrEqual(t, late, 3*tick+batchDelay)
		}
		require.Len(t, f.told(), 20)
		require.Zero(t, f.canceledAt(settled.id))
	})
}

// close waits for a cancellation that has begun. An order made after it is not lost.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mustManage(t, newFile(t))
		o := f.mustCreate(horizon / 2)
		time.Sleep(time.Until(o.deadline) + batchDelay/2)
		require.Empty(t, f.told())
		require.NoError(t, f.manager.close())
		require.Equal(t, []uint64{o.id}, f.told())

		id, err := f.create(tick)
		require.NoError(t, err)
		require.Equal(t, open, mustContents(t, f.store).orders[id].state)
		require.NoError(t, f.store.close())
	})
}

// A thousand orders that are due at the same moment do not take a transaction each.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mustManage(t, newFile(t))
		defer f.stop()
		var customers sync.WaitGroup
		for range 1000 {
			customers.Go(func() {
				_, err := f.create(horizon)
				require.NoError(t, err)
			})
		}
		customers.Wait()
		before := commits(t, f.store)
		time.Sleep(2 * horizon)
		require.Len(t, f.told(), 1000)
		t.Logf("%d transactions", commits(t, f.store)-before)
		require.Less(t, commits(t, f.store)-before, 50)
		up, down := mustContents(t, f.store).lateness([]time.Time{time.Now().Add(-time.Hour)})
		require.Empty(t, down)
		require.Len(t, up, 1000)
		require.GreaterOrEqual(t, slices.Min(up), time.Duration(0))
		require.LessOrEqual(t, slices.Max(up), 3*tick+batchDelay)
	})
}

// Payments come a little before, at and after the expiry. Whichever is first, each order ends once.
func TestPaymentMeetsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mustManage(t, newFile(t))
		defer f.stop()
		const n = 900
		var mu sync.Mutex
		settled := make(map[uint64]bool)
		var customers sync.WaitGroup
		for i := range n {
			customers.Go(func() {
				id, err := f.create(horizon / 2)
				require.NoError(t, err)
				// All orders were created at the same moment. A third of the payments comes before the expiry
				// and a third after it. The third in the middle comes during the three ticks of the cancellations.
				delay := horizon/2 + time.Duration(i*3/n-1)*4*tick
				if third := n / 3; i/third == 1 {
					delay += time.Duration(i%third) * 3 * tick / time.Duration(third)
				}
				time.Sleep(delay)
				ok, err := f.pay(id)
				require.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				settled[id] = ok
			})
		}
		customers.Wait()
		time.Sleep(horizon)

		c := mustContents(t, f.store)
		require.Len(t, c.orders, n)
		require.Len(t, c.trail, 2*n, "each order was opened once and ended once")
		told := make(map[uint64]bool)
		for _, id := range f.told() {
			require.False(t, told[id], "order %d is reported twice", id)
			told[id] = true
		}
		for id, o := range c.orders {
			require.NotEqual(t, open, o.state)
			require.Equal(t, o.state == paid, settled[id])
			require.Equal(t, o.state == canceled, told[id])
		}
		t.Logf("%d paid, %d canceled", c.count(paid), c.count(canceled))
		require.Greater(t, c.count(paid), n/3, "the middle third has ended in both ways")
		require.Greater(t, c.count(canceled), n/3)
		require.Zero(t, f.timeouts.Len())
	})
}

// If an order is made while the index is being read, and too late to be found, create arms it.
func TestCreateMeetsReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mustManage(t, newFile(t))
		defer f.stop()
		var customers sync.WaitGroup
		for range 500 { // so that the file does not grow during the read: bbolt would wait for the reader
			customers.Go(func() {
				_, err := f.create(horizon - 2*tick)
				require.NoError(t, err)
			})
		}
		customers.Wait()
		time.Sleep(horizon / 4)
		require.Equal(t, 500, f.timeouts.Len())

		clock, calls, made := f.store.now, 0, false
		f.store.now = func() time.Time {
			if calls++; calls == 2 { // the first call is for the reach, the second for an order that was found
				_, err := f.create(horizon - 2*tick) // due between the old reach and the new one
				require.NoError(t, err)
				made = true
			}
			return clock()
		}
		armed, _, err := f.readAhead()
		require.NoError(t, err)
		f.store.now = clock
		require.True(t, made)
		require.Equal(t, 500, armed, "readAhead has not found the new order")
		require.Equal(t, 501, f.timeouts.Len())
	})
}

// The next reading finds an order that was never armed, as if its cancellation had failed.
func TestReadingAheadFindsWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mustManage(t, newFile(t))
		defer f.stop()
		o, err := f.store.create(time.Millisecond)
		require.NoError(t, err)
		time.Sleep(horizon/2 - batchDelay)
		require.Zero(t, f.canceledAt(o.id))
		time.Sleep(2*tick + batchDelay)
		require.NotZero(t, f.canceledAt(o.id))
	})
}

// The wall clock is set back, so the timeout expires before the deadline. Then the order waits for the
// remaining time. It waits on the wheel, or in the database if the index has been read since the clock was set.
func TestClockSetBack(t *testing.T) {
	for timeout, onWheel := range map[time.Duration]int{horizon / 4: 1, horizon / 2: 0} {
		synctest.Test(t, func(t *testing.T) {
			f := mustManage(t, newFile(t))
			defer f.stop()
			o := f.mustCreate(timeout)
			f.step.Store(int64(-time.Hour))
			time.Sleep(time.Until(o.deadline) + time.Minute)
			require.Zero(t, f.canceledAt(o.id))
			require.Equal(t, onWheel, f.timeouts.Len())
			time.Sleep(time.Hour)
			require.Equal(t, o.deadline.Add(batchDelay), f.canceledAt(o.id), "by the wall clock")
			require.Equal(t, []uint64{o.id}, f.told())
		})
	}
}

// The wall clock is set forward. The next reading finds the overdue orders, on the wheel or not.
func TestClockSetForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mustManage(t, newFile(t))
		defer f.stop()
		start := time.Now()
		near, far := f.mustCreate(horizon-2*tick), f.mustCreate(time.Minute)
		require.Equal(t, 1, f.timeouts.Len())
		f.step.Store(int64(time.Hour))
		time.Sleep(time.Until(start.Add(horizon/2)) + 3*tick + batchDelay)
		for _, o := range []order{near, far} {
			require.False(t, f.canceledAt(o.id).Before(start.Add(time.Hour+horizon/2+tick+batchDelay)))
		}
	})
}
