package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

var (
	errEarly = errors.New("the deadline has not come")
	errTaken = errors.New("the order exists already, or its deadline came first")
)

// attemptTimeout bounds one attempt at a request. The election of a leader may take longer.
const attemptTimeout = 2 * time.Second

// A ledger changes the orders in the bucket. Its methods may be called by any goroutine of any
// process. Except for errEarly, errTaken and errOrder, an error means that the outcome is unknown. Then
// the call must be repeated, and finds the outcome.
type ledger struct {
	kv  jetstream.KeyValue
	now func() time.Time // the wall clock
}

// open makes an order. It returns errTaken if another caller has made it, or if it is no longer open. A caller
// must not use an id for two orders.
func (l *ledger) open(ctx context.Context, id, by string, deadline time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	o := order{State: open, Created: l.now().Round(0), Deadline: deadline, By: by}
	_, err := l.kv.Create(ctx, id, o.encode())
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return err
	}
	// It may be the order of an earlier attempt, whose answer was lost.
	e, err := l.kv.Get(ctx, id)
	if err != nil {
		return err
	}
	if o, err = parseOrder(e.Value()); err != nil {
		return err
	}
	if o.State != open || o.By != by {
		return fmt.Errorf("order %s: %w", id, errTaken)
	}
	return nil
}

// A request asks for the end of an order.
type request struct {
	id       string
	to       state
	by       string    // who asks
	deadline time.Time // for a cancellation, because the order may not exist
	delivery int
}

// end ends an open order, and reports whether this request ended it. It returns the order as it is
// afterwards. A cancellation before the deadline returns errEarly. A cancellation of an order that does
// not exist makes the key, in the state void, so that the order cannot be made later.
//
// A replica that is behind may answer the read. If it says that the order has ended, that is true,
// because an ended order does not change. If it does not know of the end, the compare-and-set fails.
func (l *ledger) end(ctx context.Context, r request) (o order, ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	e, err := l.kv.Get(ctx, r.id)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound) && r.to == canceled:
		o = order{Deadline: r.deadline}
		r.to = void
	case err != nil:
		return o, false, fmt.Errorf("order %s: %w", r.id, err)
	default:
		if o, err = parseOrder(e.Value()); err != nil {
			return o, false, fmt.Errorf("order %s: %w", r.id, err)
		}
		if o.State != open {
			mine := o.State == r.to && o.By == r.by && o.Delivery == r.delivery // the answer was lost
			return o, mine, nil
		}
	}
	now := l.now().Round(0)
	if r.to != paid && now.Before(o.Deadline) {
		return o, false, fmt.Errorf("order %s: %w: it is in %v", r.id, errEarly, o.Deadline.Sub(now))
	}
	o.State, o.Ended, o.By, o.Delivery = r.to, now, r.by, r.delivery
	if r.to == void {
		_, err = l.kv.Create(ctx, r.id, o.encode())
	} else {
		_, err = l.kv.Update(ctx, r.id, o.encode(), e.Revision())
	}
	if err != nil {
		return o, false, fmt.Errorf("order %s: %w", r.id, err)
	}
	return o, true, nil
}

// persist repeats an attempt until it succeeds, returns one of the final errors, or ctx is done. The
// caller waits meanwhile.
func persist(ctx context.Context, attempt func(context.Context) error, final ...error) error {
	for delay := 20 * time.Millisecond; ; delay = min(2*delay, 500*time.Millisecond) {
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		for _, f := range final {
			if errors.Is(err, f) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(delay):
		}
	}
}
