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
	errTaken = errors.New("the order is there already, or its deadline came first")
)

// attemptTimeout bounds one attempt at a request. An election of a leader may outlast it.
const attemptTimeout = 2 * time.Second

// A ledger changes the orders in the bucket. Its methods may be called by any goroutine of any
// process. An error says that the outcome is not known, unless it is one of the above: the call
// must be repeated then, and finds out.
type ledger struct {
	kv  jetstream.KeyValue
	now func() time.Time // the wall clock
}

// open makes an order. It returns errTaken if the key is there and was not made by this caller,
// who must use an id once.
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
	by       string    // who asks, once for each delivery
	deadline time.Time // for a cancellation; the order itself may not be there
	delivery int
}

// end ends an open order, and reports whether this request did. The order is returned as it is
// then. A cancellation before the deadline is errEarly. One without an order makes the key, as
// void, so that no order can come later.
//
// The reading may be answered by a replica that is behind. What it says of an order that has ended
// is true for ever. If it says less, the compare-and-set fails.
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
		return o, false, fmt.Errorf("order %s: %w, but will in %v", r.id, errEarly, o.Deadline.Sub(now))
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

// persist repeats an attempt until it succeeds, returns one of the final errors, or ctx ends. It
// is for those who have nothing better to do meanwhile.
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
