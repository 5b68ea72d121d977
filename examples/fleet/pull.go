package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// After the server that leads the consumer is lost, the client notices within two heartbeats, and pulls
	// again.
	pullHeartbeat = 500 * time.Millisecond
	pullExpiry    = 5 * time.Second
)

// pull makes the servers deliver near deadlines. If the consumer is deleted, the library stops pulling,
// and the orders would stay open. So the worker then waits until the consumer exists again.
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

// pullAgain replaces a pull that has ended. It does so once for each pull.
func (w *worker) pullAgain(ended jetstream.ConsumeContext) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.consume == ended && !w.ending {
		w.consume = nil
		go persist(w.ctx, w.pull)
	}
}

// endPull returns the present pull, or nil, and prevents another one.
func (w *worker) endPull() jetstream.ConsumeContext {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	return w.consume
}
