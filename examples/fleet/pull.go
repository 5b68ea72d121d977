package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// A pull is renewed this soon after the leader that had it was lost.
	pullHeartbeat = 500 * time.Millisecond
	pullExpiry    = 5 * time.Second
)

// pull has the servers deliver what is near. If the consumer is deleted, the worker waits until
// somebody makes it anew: the client would pull no more, and the orders would stay open.
func (w *worker) pull(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	consumer, err := w.client.js.Consumer(ctx, streamName, consumerName)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending {
		return nil
	}
	w.consume, err = consumer.Consume(w.take, jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(of jetstream.ConsumeContext, err error) {
			if errors.Is(err, jetstream.ErrConsumerDeleted) {
				w.pullAgain(of)
			}
		}))
	return err
}

// pullAgain replaces what has ended, once for each.
func (w *worker) pullAgain(ended jetstream.ConsumeContext) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.consume == ended && !w.ending {
		w.consume = nil
		go persist(w.ctx, w.pull)
	}
}

// endPull returns what the worker consumes, or nil, and has nothing take its place.
func (w *worker) endPull() jetstream.ConsumeContext {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	return w.consume
}
