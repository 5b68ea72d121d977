// Fleet cancels orders that are not paid in time, on several machines that share their deadlines by package deadlines.
// Each order ends once, paid or canceled, although a worker may be killed at any moment.
//
// Look at shop, here. Its comment says which record is the truth, and what happens after a crash.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	storeName  = "unpaid"        // of the deadlines
	bucketName = "orders"        // of the ends
	lease      = 2 * time.Second // the orders of a worker that was killed are late by this at most
)

// A state is how an order ended, or open. It changes once.
type state string

const (
	open     state = "open"
	paid     state = "paid"
	canceled state = "canceled"
)

// An order is the payload of its deadline, so expire needs nothing else.
type order struct {
	ID       string
	Customer string
	Deadline time.Time
	State    state
}

// A shop takes orders, and cancels an order at its deadline unless it has been paid.
//
// An open order has a deadline, and one that has ended has a record in ends. That record is the truth: only the first
// Create of a key succeeds, so an order ends once. Neither the result of Cancel nor a call of expire could decide,
// because a call that failed may have made the record, and a second call may begin while the first one still runs.
//
// If a process dies
//   - in place, the customer has no answer, and the order is canceled if the servers have its deadline
//   - in pay, between the record and Cancel, expire is called and finds the order paid
//   - in expire, another worker calls expire again when the lease has ended
type shop struct {
	nc        *nats.Conn
	deadlines *deadlines.Store
	ends      jetstream.KeyValue // orders as JSON, by ID
}

// place makes an order. When it returns nil, the order will end, whatever happens to this process.
func (s *shop) place(ctx context.Context, o order) error {
	return s.deadlines.Set(ctx, o.ID, o.Deadline, o.encode())
}

// pay pays an order, and returns how the order has ended: paid, or canceled before. It may be repeated after an error.
func (s *shop) pay(ctx context.Context, o order) (state, error) {
	as, err := s.end(ctx, o, paid)
	if err == nil && as == paid {
		s.deadlines.Cancel(ctx, o.ID) // only saves a call of expire, so an error does not matter
	}
	return as, err
}

// expire is the handler of the deadlines. After an error the store calls it again.
func (s *shop) expire(ctx context.Context, d deadlines.Deadline) error {
	var o order
	if err := json.Unmarshal(d.Payload, &o); err != nil {
		return err
	}
	_, err := s.end(ctx, o, canceled)
	return err
}

// end records that an order has ended, and returns how: as, or how it had ended before.
func (s *shop) end(ctx context.Context, o order, as state) (state, error) {
	o.State = as
	_, err := s.ends.Create(ctx, o.ID, o.encode())
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return as, err
	}
	before, err := s.ends.Get(ctx, o.ID)
	if err != nil {
		return "", err
	}
	err = json.Unmarshal(before.Value(), &o)
	return o.State, err
}

func (o order) encode() []byte {
	b, _ := json.Marshal(o) // cannot fail
	return b
}

// openShop connects to the servers. Each process has a shop of its own, and here each worker.
func openShop(ctx context.Context, urls string) (*shop, error) {
	nc, err := deadlines.Connect(urls, nats.RetryOnFailedConnect(false)) // a wrong address is an error at once
	if err != nil {
		return nil, fmt.Errorf("%s: %w", urls, err)
	}
	s := &shop{nc: nc}
	if err := s.setUp(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *shop) setUp(ctx context.Context) (err error) {
	if s.deadlines, err = deadlines.Open(ctx, s.nc, deadlines.Config{Name: storeName, Lease: lease}); err != nil {
		return err
	}
	js, err := jetstream.New(s.nc)
	if err != nil {
		return err
	}
	s.ends, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: bucketName, Replicas: s.deadlines.Config().Replicas, History: 64, // the history is for audit
	})
	return err
}

func (s *shop) close() {
	if s.deadlines != nil {
		s.deadlines.Close()
	}
	s.nc.Close()
}

// A fleet is the workers of a shop. Here each has a connection of its own, as it has on a machine of its own.
type fleet struct {
	urls    string
	fail    func(error)
	kill    func() // ends the worker that was hired last
	killed  int
	working sync.WaitGroup
}

// hire starts a worker. When ctx is done, it hands its deadlines to the others. When it is killed, its connection is
// closed, and the servers give its deadlines to the others when the lease has ended.
func (f *fleet) hire(ctx context.Context) error {
	s, err := openShop(ctx, f.urls)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	f.kill = func() { s.nc.Close(); cancel(); f.killed++ }
	f.working.Go(func() {
		defer s.close()
		if err := s.deadlines.Work(ctx, s.expire); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			f.fail(err)
		}
	})
	return nil
}

func main() { demo.Main(run) }
