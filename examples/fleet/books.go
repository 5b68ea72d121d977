package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A change is a new state of an order, with the time at which the server stored it.
type change struct {
	order
	stored time.Time
}

// books are everything that the servers store about orders.
type books struct {
	orders  map[string][]change // each from its first state to its last
	waiting map[string]bool     // orders whose deadlines are in the stream
}

// silenceLimit is how long the servers may send nothing before the books are read from the start again.
// Servers that elect a leader lose requests.
const silenceLimit = 5 * time.Second

var errSilent = fmt.Errorf("the servers have sent nothing for %v", silenceLimit)

// readBooks reads the books, as often as needed until ctx is done. Other processes may change them
// meanwhile.
func (c *client) readBooks(ctx context.Context) (*books, error) {
	for {
		b, err := c.tryReadBooks(ctx)
		if !errors.Is(err, errSilent) || ctx.Err() != nil {
			return b, err
		}
	}
}

// tryReadBooks reads the books once. The error is errSilent if the servers have stopped sending.
func (c *client) tryReadBooks(ctx context.Context) (b *books, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silenceLimit, func() { cancel(errSilent) })
	defer watchdog.Stop()
	defer func() {
		if err != nil && context.Cause(ctx) == errSilent {
			err = errSilent
		}
	}()

	b = &books{orders: make(map[string][]change), waiting: make(map[string]bool)}
	watcher, err := c.ledger.kv.WatchAll(ctx, jetstream.IncludeHistory())
	if err != nil {
		return nil, fmt.Errorf("read the orders: %w", err)
	}
	defer watcher.Stop()
	for {
		var e jetstream.KeyValueEntry
		var ok bool
		select {
		case e, ok = <-watcher.Updates():
		case <-ctx.Done():
		}
		if !ok {
			return nil, errors.Join(errors.New("the orders could not be read to the end"), ctx.Err())
		}
		if e == nil {
			break
		}
		o, err := parseOrder(e.Value())
		if err != nil {
			return nil, fmt.Errorf("order %s: %w", e.Key(), err)
		}
		b.orders[e.Key()] = append(b.orders[e.Key()], change{o, e.Created()})
		watchdog.Reset(silenceLimit)
	}
	if err := c.readWaiting(ctx, b); err != nil {
		return nil, err
	}
	return b, c.readAgain(ctx, b)
}

// readWaiting finds the orders whose deadlines are in the stream.
func (c *client) readWaiting(ctx context.Context, b *books) error {
	for _, subject := range []string{atSubject, dueSubject} {
		info, err := c.deadlines.stream.Info(ctx, jetstream.WithSubjectFilter(subject+"*"))
		if err != nil {
			return fmt.Errorf("read the deadlines: %w", err)
		}
		for s := range info.State.Subjects {
			b.waiting[s[len(subject):]] = true
		}
	}
	return nil
}

// readAgain reads again the orders that are open but have no deadline in the stream, because they may
// have ended between the two readings. It tries for a second, because a replica may be behind.
func (c *client) readAgain(ctx context.Context, b *books) error {
	patience := time.Now().Add(time.Second)
	for id := range b.orders {
		for b.last(id).State == open && !b.waiting[id] {
			e, err := c.ledger.kv.Get(ctx, id)
			if err != nil {
				return fmt.Errorf("order %s: %w", id, err)
			}
			o, err := parseOrder(e.Value())
			if err != nil {
				return fmt.Errorf("order %s: %w", id, err)
			}
			if o.State != open {
				b.orders[id] = append(b.orders[id], change{o, e.Created()})
			} else if time.Now().After(patience) {
				break
			}
		}
	}
	return nil
}

// last returns an order in its last state, or the zero order if there is none.
func (b *books) last(id string) order {
	if h := b.orders[id]; len(h) > 0 {
		return h[len(h)-1].order
	}
	return order{}
}

func (b *books) count(in state) (n int) {
	for id := range b.orders {
		if b.last(id).State == in {
			n++
		}
	}
	return n
}

// overdue returns how many open orders have a deadline before a time.
func (b *books) overdue(at time.Time) (n int) {
	for id := range b.orders {
		if o := b.last(id); o.State == open && o.Deadline.Before(at) {
			n++
		}
	}
	return n
}

// A verdict collects the checks that fail.
type verdict struct {
	first []error
	n     int
}

func (v *verdict) must(ok bool, format string, args ...any) {
	const shown = 10
	if ok {
		return
	}
	if v.n++; v.n <= shown {
		v.first = append(v.first, fmt.Errorf(format, args...))
	}
}

// verify checks the books, by themselves and against the acknowledgments to customers. The error names
// the checks that fail. No order with a deadline before due may be open.
func (b *books) verify(acks map[string]state, due time.Time) error {
	var v verdict
	for _, id := range slices.Sorted(maps.Keys(b.orders)) {
		h := b.orders[id]
		v.verifyHistory(id, h)
		if o := h[len(h)-1]; o.State == open {
			v.must(!o.Deadline.Before(due), "order %s is open, but was due %v before the end", id, due.Sub(o.Deadline))
			v.must(b.waiting[id], "order %s is open, but its deadline is not in the stream", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(acks)) {
		is := b.last(id).State
		ok := acks[id] == is || acks[id] == open && (is == paid || is == canceled)
		v.must(ok, "order %s was acknowledged as %s, but is %q", id, acks[id], is)
	}
	if v.n > len(v.first) {
		v.first = append(v.first, fmt.Errorf("and %d more", v.n-len(v.first)))
	}
	return errors.Join(v.first...)
}

// verifyHistory checks that an order was opened once, kept its deadline, ended at most once, and was
// not canceled before its deadline, by the clock of the worker that canceled it and by the clock of
// the server.
func (v *verdict) verifyHistory(id string, h []change) {
	var was state
	for _, ch := range h {
		ok := was == "" && (ch.State == open || ch.State == void) || was == open && (ch.State == paid || ch.State == canceled)
		v.must(ok, "order %s became %s after it was %q", id, ch.State, was)
		was = ch.State
		v.must(ch.Deadline.Equal(h[0].Deadline), "order %s got another deadline, %v after the first", id, ch.Deadline.Sub(h[0].Deadline))
		if ch.State == canceled || ch.State == void {
			early := max(ch.Deadline.Sub(ch.Ended), ch.Deadline.Sub(ch.stored))
			v.must(early <= 0, "order %s was ended %v before its deadline", id, early)
		}
	}
}
