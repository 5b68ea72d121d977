package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// A manager cancels the orders of a store that are not paid in time. The wheel holds the orders that are
// due within the horizon. The database holds all orders.
//
// A timeout is only a hint to look at an order. The transaction decides whether the order is canceled. So
// it does no harm to arm a timeout twice, or for an order that has just been paid. Losing all timeouts
// costs only the time to read the index again.
//
// Deadlines are times of the wall clock. They become delays when a timeout is armed. From then on the wheel
// uses the monotonic clock, and does not notice when the wall clock is set. The manager reads the index again
// every half horizon and arms the orders in it anew. So half a horizon after the clock is set, the wheel is
// right again. Until then, if the clock was set forward, orders are canceled late, by about half a horizon at
// most. If the clock was set back, a timeout expires before the deadline. The transaction then refuses to
// cancel, and the order waits for as long as the clock was set back. No order is canceled before the wall
// clock has reached its deadline.
type manager struct {
	store    *store
	timer    *hashedwheel.Timer
	timeouts *keyed.Map[uint64, struct{}] // by order id
	horizon  time.Duration
	canceled func(id uint64)
	failed   func(error)

	// All orders that are due before reach, in nanoseconds since 1970, are armed or are being armed.
	reach atomic.Int64
}

// newManager returns a manager that calls canceled after each cancellation, and failed when the
// database fails. It arms nothing before start.
func newManager(s *store, horizon, tick time.Duration, canceled func(id uint64), failed func(error)) (*manager, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
	if err != nil {
		return nil, err
	}
	m := &manager{store: s, timer: timer, horizon: horizon, canceled: canceled, failed: failed}
	m.timeouts = keyed.New(timer, func(id uint64, _ struct{}) { m.expire(id) })
	return m, nil
}

// start arms the orders that are due within the horizon, and continues to do so until close. It returns how
// many orders it armed at first, and how many of these were overdue.
func (m *manager) start() (armed, overdue int, err error) {
	armed, overdue, err = m.readAhead()
	if err != nil {
		return armed, overdue, err
	}
	// That leaves half a horizon for reading the next part.
	_, err = m.timer.ScheduleWithFixedDelay(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
		if _, _, err := m.readAhead(); err != nil && !errors.Is(err, hashedwheel.ErrStopped) {
			m.failed(err)
		}
	}), m.horizon/2, m.horizon/2)
	return armed, overdue, err
}

// readAhead arms all orders that are due within the horizon. An order that is armed already stays armed. An
// order that could not be canceled, because the database failed, is tried again.
func (m *manager) readAhead() (armed, overdue int, err error) {
	now := m.store.now()
	until := now.Add(m.horizon)
	m.reach.Store(until.UnixNano()) // before reading the index: see armIfNear
	err = m.store.due(until, func(id uint64, deadline time.Time) error {
		armed++
		if deadline.Before(now) {
			overdue++
		}
		return m.arm(id, deadline)
	})
	return armed, overdue, err
}

func (m *manager) arm(id uint64, deadline time.Time) error {
	return m.timeouts.Set(id, struct{}{}, deadline.Sub(m.store.now()))
}

// armIfNear arms an order that has been committed, unless a later readAhead will arm it. It misses no order,
// because readAhead moves the reach before it reads the index, and armIfNear loads the reach after the
// commit. So either the order is within the reach, or the reach moves after the commit. In the second case
// the readAhead that moves the reach also finds the order. If both happen, the order is armed twice, which
// has the same effect as once.
func (m *manager) armIfNear(o order) error {
	if o.deadline.UnixNano() >= m.reach.Load() {
		return nil
	}
	err := m.arm(o.id, o.deadline)
	if errors.Is(err, hashedwheel.ErrStopped) {
		return nil // the next start will find it
	}
	return err
}

// create makes an order that is canceled unless it is paid within the timeout.
func (m *manager) create(timeout time.Duration) (id uint64, err error) {
	o, err := m.store.create(timeout)
	if err != nil {
		return 0, err
	}
	return o.id, m.armIfNear(o)
}

// pay pays the order, and reports whether it did. It does not if the order was canceled or paid before.
func (m *manager) pay(id uint64) (bool, error) {
	_, ok, err := m.store.pay(id)
	if ok {
		m.timeouts.Remove(id)
	}
	return ok, err
}

// expire is the task of a timeout. It blocks until the transaction is on disk. That is allowed: other
// timeouts wait for it for two ticks at most, and orders that are due together share a transaction.
func (m *manager) expire(id uint64) {
	o, ok, err := m.store.cancel(id)
	if ok {
		m.canceled(id)
	} else if err == nil && o.state == open { // the clock was set back
		err = m.armIfNear(o)
	}
	if err != nil {
		m.failed(err)
	}
}

// close stops the timer and waits for the transactions that have begun. The orders stay open in the store.
func (m *manager) close() error {
	_, err := m.timer.Shutdown(context.Background())
	return err
}
