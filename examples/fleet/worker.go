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
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// Requests that a worker has under way at once: enough to keep the servers busy.
	workerConcurrency = 64
	// Time after which a worker that could not end an order tries again, and as much by chance.
	retryDelay = 100 * time.Millisecond
	// Time that a worker takes to stop when the servers do not answer.
	stopLimit = 3 * time.Second
)

// tally counts what the workers of a process have done.
type tally struct {
	taken, canceled, ended, voided, hinted, signs, failed atomic.Int64
}

// A worker takes deadlines that are near, holds each on its wheel until it comes, and cancels the
// order then. While it holds one it gives a sign of life again and again, without which the server
// would give it to another worker.
//
// A deadline is a time of the wall clock, and the wheel knows delays. So one on the wheel lies
// there for two thirds of a lease at most. Then the wall clock is read again, and before an order
// is canceled too: whatever was done to the clock, none is canceled before it shows the deadline.
type worker struct {
	name   string
	client *client
	lease  time.Duration
	wheel  bool // false: hold nothing, and have the server bring a deadline when it comes
	tally  *tally

	timer  *hashedwheel.Timer
	held   *hashedwheel.Keyed[string, dueMessage] // by order
	hints  *nats.Subscription
	ctx    context.Context // of its requests
	cancel context.CancelFunc

	mu      sync.Mutex
	consume jetstream.ConsumeContext // nil until the consumer is found
	ending  bool                     // consume stays as it is

	slots chan struct{} // without the wheel, one for each request under way
}

// startWorker starts a worker with a connection of its own. No other must have had its name.
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
	w.held = hashedwheel.NewKeyed(timer, func(_ string, d dueMessage) { w.look(d) })
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

// take takes what the server delivers, one message after another. It does not wait for an answer.
func (w *worker) take(msg jetstream.Msg) {
	d, err := parseDue(msg)
	if err != nil {
		w.tally.failed.Add(1)
		msg.TermWithReason(err.Error()) // it would be no better the next time
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
	// Of two messages with one deadline, the one that comes last is kept. But if it is the same one
	// that was delivered again, then an acknowledgment would be for both.
	if old, ok := w.held.Get(d.id); ok && old.sequence != d.sequence {
		old.msg.Ack()
	}
	w.hold(d)
}

// left returns the time until a deadline, by the wall clock.
func (w *worker) left(d dueMessage) time.Duration { return d.deadline.Sub(w.client.ledger.now()) }

// hold puts a deadline on the wheel, unless the worker ends. Then another one gets it.
func (w *worker) hold(d dueMessage) {
	w.held.Set(d.id, d, min(w.left(d), w.lease*2/3))
}

// look is the task of a timeout.
func (w *worker) look(d dueMessage) {
	if w.left(d) > 0 {
		w.tally.signs.Add(1)
		d.msg.InProgress()
		w.hold(d)
		return
	}
	w.settle(d)
}

// settle cancels the order of a deadline that has come, unless it has ended, and then acknowledges
// the deadline. If that is lost the message comes again, and finds that the order has ended. A
// request that fails is made again, here or by the next worker.
func (w *worker) settle(d dueMessage) {
	o, ended, err := w.client.ledger.end(w.ctx, request{
		id: d.id, to: canceled, by: w.name, deadline: d.deadline, delivery: d.delivery,
	})
	switch {
	case errors.Is(err, errOrder):
		w.tally.failed.Add(1)
		d.msg.TermWithReason(err.Error()) // the books have it, and say so
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

// putOff has a deadline looked at again: one that came early, or whose order could not be ended.
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

// stop ends the worker and hands what it holds to others, who need not wait for the lease. If the
// servers do not answer, it gives up after stopLimit, and others get the deadlines after the lease.
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

// kill ends the worker as a crash does: nobody is told, and nothing is handed on.
func (w *worker) kill() {
	w.client.kill()
	w.cancel()
	if c := w.endPull(); c != nil {
		c.Stop()
	}
	w.timer.Shutdown(context.Background()) // what is under way fails
	w.fillSlots()
}

// fillSlots waits for the requests of a worker without the wheel, and lets no other begin.
func (w *worker) fillSlots() {
	for range cap(w.slots) {
		w.slots <- struct{}{}
	}
}
