package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// paymentConcurrency bounds the payments in progress at a time.
const paymentConcurrency = 64

// A shop takes orders, and payments for some of them. It remembers what it has acknowledged to its
// customers, for the check at the end.
type shop struct {
	opts   options
	client *client
	name   string // no other shop has it
	timer  *hashedwheel.Timer
	next   atomic.Int64 // number of the next order

	placed, paid, refused, late atomic.Int64

	mu       sync.Mutex
	acks     map[string]state // what was acknowledged last, by order
	took     time.Duration    // to place all orders
	far      []time.Duration  // how long it took to withdraw deadlines from the stream
	near     []time.Duration  // the same from the workers
	problems []error
}

func newShop(o options, c *client, name string) (*shop, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(o.tick), hashedwheel.WithMaxConcurrency(paymentConcurrency))
	if err != nil {
		return nil, err
	}
	return &shop{opts: o, client: c, name: name, timer: timer, acks: make(map[string]state)}, nil
}

// serve places the orders. It returns when all are placed, or ctx is canceled. Payments still come.
func (s *shop) serve(ctx context.Context) {
	start := time.Now()
	var pace time.Duration
	if s.opts.rate > 0 {
		pace = time.Duration(float64(time.Second) / s.opts.rate)
	}
	var clients sync.WaitGroup
	for range min(s.opts.clients, s.opts.orders) {
		clients.Go(func() {
			for ctx.Err() == nil {
				n := s.next.Add(1)
				if n > int64(s.opts.orders) {
					return
				}
				if wait := time.Until(start.Add(time.Duration(n) * pace)); wait > 0 {
					s.timer.Sleep(ctx, wait)
				}
				s.order(ctx, fmt.Sprintf("%s-%d", s.name, n))
			}
		})
	}
	clients.Wait()
	s.took = time.Since(start)
}

// order takes an order. It places the deadline first, so that there is no order without a deadline.
func (s *shop) order(ctx context.Context, id string) {
	timeout := s.timeout()
	deadline := time.Now().Add(timeout).Round(0)
	err := persist(ctx, func(ctx context.Context) error { return s.client.deadlines.place(ctx, id, deadline) })
	if err == nil {
		err = persist(ctx, func(ctx context.Context) error { return s.client.ledger.open(ctx, id, s.name, deadline) }, errTaken)
	}
	switch {
	case errors.Is(err, errTaken):
		s.late.Add(1) // the deadline came before the order could be made
		return
	case err != nil:
		return // interrupted, and never acknowledged
	}
	s.placed.Add(1)
	s.acknowledge(id, open)
	if rand.Float64() >= s.opts.pay {
		return
	}
	// Most customers who pay do so soon. Some pay too late.
	r := rand.Float64()
	delay := time.Duration(1.1 * r * r * float64(timeout))
	s.timer.AfterFunc(delay, func() { s.pay(ctx, id, deadline) }) // unless the shop has closed
}

// timeout returns the time that a customer has to pay. Its logarithm is uniform: 1 s to 10 s is as likely
// as 10 s to 100 s.
func (s *shop) timeout() time.Duration {
	least, most := float64(s.opts.least), float64(s.opts.most)
	return time.Duration(least * math.Pow(most/least, rand.Float64()))
}

// pay takes a payment, unless the order was canceled. An order can be paid after its deadline until it is
// canceled: the first compare-and-set decides.
func (s *shop) pay(ctx context.Context, id string, deadline time.Time) {
	var ended bool
	err := persist(ctx, func(ctx context.Context) (err error) {
		_, ended, err = s.client.ledger.end(ctx, request{id: id, to: paid, by: s.name})
		return err
	})
	switch {
	case err != nil:
		return // interrupted, and never acknowledged
	case !ended:
		s.refused.Add(1)
		s.acknowledge(id, canceled)
		return
	}
	s.paid.Add(1)
	s.acknowledge(id, paid)

	start := time.Now()
	near, err := s.client.deadlines.withdraw(ctx, id, deadline)
	took := time.Since(start)
	if err != nil {
		return // a worker will find out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if near {
		s.near = append(s.near, took)
	} else {
		s.far = append(s.far, took)
	}
}

func (s *shop) acknowledge(id string, as state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.acks[id]; was == paid || was == canceled {
		s.problems = append(s.problems, fmt.Errorf("order %s was acknowledged as %s, and then as %s", id, was, as))
	}
	s.acks[id] = as
}

// close ends the payments, and waits for those in progress.
func (s *shop) close() {
	s.timer.Shutdown(context.Background())
}
