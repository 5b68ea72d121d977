package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// How many requests a worker has in progress at a time: enough to keep the servers busy.
	workerConcurrency = 64
	// If a worker cannot end an order, it tries again after a random time, from retryDelay to twice that.
	retryDelay = 100 * time.Millisecond
	// How long a worker takes to stop if the servers do not answer.
	stopLimit = 3 * time.Second
)

// tally counts what the workers of a process have done.
type tally struct {
	taken, canceled, ended, voided, hinted, signs, failed atomic.Int64
}

// A worker takes near deadlines, holds each on its wheel until it comes, and then cancels the order.
// While it holds a deadline, it sends the server signs of life (Msg.InProgress). Without them the server
// would deliver the deadline to another worker.
//
// A deadline is a time of the wall clock, but the wheel has delays. So a timeout on the wheel lasts two
// thirds of a lease at most. Then the worker reads the wall clock again. It also reads the clock before
// it cancels an order. So even if the clock is set, no order is canceled before the clock shows its
// deadline.
type worker struct {
	name   string
	client *client
	lease  time.Duration
	wheel  bool // false: hold nothing, because the server delivers a deadline when it is due
	tally  *tally

	timer  *hashedwheel.Timer
	held   *keyed.Map[string, dueMessage] // by order
	hints  *nats.Subscription
	ctx    context.Context // of its requests
	cancel context.CancelFunc

	mu      sync.Mutex
	consume jetstream.ConsumeContext // nil until the consumer is found
	ending  bool                     // no other pull begins

	slots chan struct{} // without the wheel, has a token for each request in progress
}

// startWorker starts a worker with a connection of its own. No other worker may ever have had its name.
func startWorker(ctx context.Context, o options, urls, name string, t *tally) (*worker, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(o.tick), hashedwheel.WithMaxConcurrency(workerConcurrency))
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, o, urls, name)
	if err != nil {
		return nil, err
	}
	w := &worker{
		name: name, client: c, lease: o.lease, wheel: o.wheel, tally: t,
		timer: timer, slots: make(chan struct{}, workerConcurrency),
	}
	w.held = keyed.New(timer, func(_ string, d dueMessage) { w.look(d) })
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := w.start(ctx); err != nil {
		w.kill()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return w, nil
}

func (w *worker) start(ctx context.Context) (err error) {
	if w.hints, err = w.client.nc.Subscribe(paidSubject, func(m *nats.Msg) { w.forget(string(m.Data)) }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return persist(ctx, w.pull)
}

// take takes what the server delivers, one message after another. It does not wait for an answer. Without the
// wheel it waits while workerConcurrency requests are in progress.
func (w *worker) take(msg jetstream.Msg) {
	d, err := parseDue(msg)
	if err != nil {
		w.tally.failed.Add(1)
		msg.TermWithReason(err.Error()) // another delivery would fail too
		return
	}
	w.tally.taken.Add(1)
	if !w.wheel {
		select {
		case w.slots <- struct{}{}:
			go func() {
				w.settle(d)
				<-w.slots
			}()
		case <-w.ctx.Done(): // the next worker gets it
		}
		return
	}
	// If two messages are for the deadline of one order, the worker keeps the later one and acknowledges the other. It
	// does not acknowledge a message that was delivered again, because that would end both deliveries.
	if old, ok := w.held.Get(d.id); ok && old.sequence != d.sequence {
		old.msg.Ack()
	}
	w.hold(d)
}

// left returns the time until a deadline, by the wall clock.
func (w *worker) left(d dueMessage) time.Duration { return d.deadline.Sub(w.client.ledger.now()) }

// hold puts a deadline on the wheel. If the worker has ended, that fails, and another worker gets it.
func (w *worker) hold(d dueMessage) {
	w.held.Set(d.id, d, min(w.left(d), w.lease*2/3))
}

// look is the task of a timeout. If the deadline has not come, look puts it on the wheel again.
func (w *worker) look(d dueMessage) {
	if w.left(d) > 0 {
		w.tally.signs.Add(1)
		d.msg.InProgress()
		w.hold(d)
		return
	}
	w.settle(d)
}

// settle cancels the order of a deadline that has come, unless the order has ended, and acknowledges
// the deadline. If the acknowledgment is lost, the message is delivered again, and settle finds that the
// order has ended. A request that fails is repeated, by this worker or by the next one.
func (w *worker) settle(d dueMessage) {
	o, ended, err := w.client.ledger.end(w.ctx, request{
		id: d.id, to: canceled, by: w.name, deadline: d.deadline, delivery: d.delivery,
	})
	switch {
	case errors.Is(err, errOrder):
		w.tally.failed.Add(1)
		d.msg.TermWithReason(err.Error()) // the check of the books reports it
		return
	case err != nil:
		w.putOff(d)
		return
	case o.State == void:
		w.tally.voided.Add(1)
	case ended:
		w.tally.canceled.Add(1)
	default:
		w.tally.ended.Add(1)
	}
	d.msg.Ack()
}

// putOff delays a deadline that came early, or whose order could not be ended.
func (w *worker) putOff(d dueMessage) {
	delay := w.left(d)
	if delay <= 0 {
		w.tally.failed.Add(1)
		delay = retryDelay + rand.N(retryDelay)
	}
	if !w.wheel {
		d.msg.NakWithDelay(delay)
		return
	}
	d.msg.InProgress()
	w.held.Set(d.id, d, delay)
}

// forget drops the deadline of an order that was paid, if this worker holds it.
func (w *worker) forget(id string) {
	if d, ok := w.held.Remove(id); ok {
		w.tally.hinted.Add(1)
		d.msg.Ack()
	}
}

// stop ends the worker and hands its deadlines to other workers, which need not wait for the lease. If
// the servers do not answer, it gives up after stopLimit, and the others get the deadlines after the
// lease.
func (w *worker) stop() {
	defer time.AfterFunc(stopLimit, w.cancel).Stop()
	if c := w.endPull(); c != nil {
		c.Drain()
		select {
		case <-c.Closed():
		case <-w.ctx.Done():
		}
	}
	w.timer.Shutdown(context.Background())
	w.fillSlots()
	for _, d := range w.held.All() {
		d.msg.Nak()
	}
	w.cancel()
	w.client.close()
}

// kill ends the worker as a crash does: it sends nothing, and hands no deadline on.
func (w *worker) kill() {
	w.client.kill()
	w.cancel()
	if c := w.endPull(); c != nil {
		c.Stop()
	}
	w.timer.Shutdown(context.Background()) // requests in progress fail
	w.fillSlots()
}

// fillSlots waits for the requests of a worker without the wheel, and prevents others.
func (w *worker) fillSlots() {
	for range cap(w.slots) {
		w.slots <- struct{}{}
	}
}
