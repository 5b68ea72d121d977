package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A manager cancels the orders of a store that are not paid in time. The wheel has those that are
// due within the horizon, the database has all.
//
// A timeout is no more than a hint to look at an order: whether that is canceled is up to the
// transaction. So it does no harm if one is armed twice, or for an order that has just been paid,
// and to lose them all costs nothing but the time to read the index again.
//
// Deadlines are times of the wall clock, and become delays when a timeout is armed; from there on
// the wheel counts them by the monotonic clock, and does not notice if somebody sets the wall
// clock. The index is read again each half of the horizon, and what is in it is armed anew, so
// that after half a horizon the wheel is right again. Until then, if the clock was set forward,
// orders are canceled late, by less than that. If it was set back, a timeout comes before the
// deadline; then the transaction refuses, and the order has to wait for as long as the clock was
// set back. None is canceled before the wall clock has reached its deadline.
type manager struct {
	store    *store
	timer    *hashedwheel.Timer
	timeouts *hashedwheel.Keyed[uint64, struct{}] // by order id
	horizon  time.Duration
	canceled func(id uint64)
	failed   func(error)

	// Orders that are due before it, in nanoseconds since 1970, are armed, or are just being.
	reach atomic.Int64
}

// newManager returns a manager that calls canceled after each cancellation, and failed when the
// database fails. Nothing is armed before start.
func newManager(s *store, horizon, tick time.Duration, canceled func(id uint64), failed func(error)) (*manager, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
	if err != nil {
		return nil, err
	}
	m := &manager{store: s, timer: timer, horizon: horizon, canceled: canceled, failed: failed}
	m.timeouts = hashedwheel.NewKeyed(timer, func(id uint64, _ struct{}) { m.expire(id) })
	return m, nil
}

// start arms what is due within the horizon, and goes on to do so until close. It returns how many
// orders that was, and how many of them were overdue.
func (m *manager) start() (armed, overdue int, err error) {
	armed, overdue, err = m.readAhead()
	if err != nil {
		return armed, overdue, err
	}
	// Half a horizon is left to read the next part in.
	_, err = m.timer.ScheduleWithFixedDelay(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
		if _, _, err := m.readAhead(); err != nil && !errors.Is(err, hashedwheel.ErrStopped) {
			m.failed(err)
		}
	}), m.horizon/2, m.horizon/2)
	return armed, overdue, err
}

// readAhead arms all that is due within the horizon. What is armed already stays so, and what
// could not be canceled, since the database had failed, has another chance.
func (m *manager) readAhead() (armed, overdue int, err error) {
	now := m.store.now()
	until := now.Add(m.horizon)
	m.reach.Store(until.UnixNano()) // before the reading: see armIfNear
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

// armIfNear arms an order that has been committed, unless a later reading will. It misses none:
// the reach is moved before the index is read, and looked at here after the commit. So either the
// order is found to be within the reach, or the reach is moved after the commit, and who reads then
// finds the order. If both are so it is armed twice, which is once.
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

// pay reports whether the order is paid now. If it was canceled before, or paid, it is not.
func (m *manager) pay(id uint64) (bool, error) {
	_, ok, err := m.store.pay(id)
	if ok {
		m.timeouts.Remove(id)
	}
	return ok, err
}

// expire is the timeout. It blocks until the transaction is on disk, and may: other timeouts do
// not wait for it, and those that are due together so share a transaction.
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

// close ends the timeouts and waits for the transactions that have begun. The orders stay open in
// the store.
func (m *manager) close() error {
	_, err := m.timer.Shutdown(context.Background())
	return err
}
