package deadlines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Handler is called at or after a deadline, by the clock of the server, and never before. If it returns nil, the
// deadline is handled. If it returns an error or panics, it is called again, by some worker, after a delay that
// grows. To give up, it returns nil.
//
// It may be called more than once for a deadline, and by two machines at a time if the first one lost its lease.
// So what it does must be safe to repeat. ctx is done when the worker stops, and Work then waits for the handler. If
// it returns an error, another worker calls it at once. A handler sets the limits of its own requests.
type Handler func(ctx context.Context, d Deadline) error

const (
	tick      = 10 * time.Millisecond
	maxHeld   = 100_000         // by a worker; others get the rest
	stopLimit = 5 * time.Second // for storing how the last handlers ended

	maxPull     = 256
	maxPullWait = 500 * time.Millisecond // a worker stops that late, or a second more if the server is silent
)

// A worker gets near deadlines from the server, holds each on a wheel until it comes, and calls the handler.
type worker struct {
	*Store
	handle Handler
	ctx    context.Context // of handlers; done when the worker is to stop
	last   context.Context // of requests; done stopLimit later

	wheel *hashedwheel.Timer // near deadlines; its tasks end them
	signs *hashedwheel.Timer // signs of life, which must not wait for tasks
	room  chan struct{}      // a token for each deadline that came late and is not ended
}

// Work calls the handler for deadlines until ctx is done. Any number of processes may call it, and each deadline
// goes to one of them. Before it returns, it waits for its handlers, and hands the other deadlines back to the
// servers. It returns an error if it cannot begin, or if the program has closed the connection or the store.
func (s *Store) Work(ctx context.Context, handle Handler) error {
	if handle == nil {
		return errors.New("deadlines: work: the handler is nil")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := &worker{Store: s, handle: handle, ctx: ctx, room: make(chan struct{}, 2*s.cfg.Concurrency)}
	var err error
	w.wheel, err = hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithMaxConcurrency(s.cfg.Concurrency),
		hashedwheel.WithMaxPending(maxHeld), hashedwheel.WithName(s.cfg.Name), hashedwheel.WithLogger(s.cfg.Logger))
	if err == nil {
		w.signs, err = hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithName(s.cfg.Name+"-signs"))
	}
	if err != nil {
		return fmt.Errorf("deadlines: work: %w", err)
	}
	s.working.Add(1)
	defer func() {
		s.working.Add(-1)
		s.flood.flush()
		s.release()
	}()
	last, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	w.last = last
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, stop)()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopLimit, func() { cancel(errStopped) }) })()

	var closed error
	for ctx.Err() == nil {
		if err := s.explain(w.pull()); s.gone(err) {
			closed = fmt.Errorf("deadlines: work: %w", err)
			stop()
		} else if err != nil && ctx.Err() == nil {
			s.health.report(getWakeups, err)
			s.counts.retried.Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(again + rand.N(again)):
		}
	}
	left, _ := w.wheel.Shutdown(context.Background()) // waits for the handlers
	for _, timeout := range left {
		timeout.Task().(*held).giveBack(0)
	}
	w.signs.Stop()
	s.link().nc.FlushTimeout(requestLimit) // if that fails, the server waits for the lease
	if closed == nil && s.ctx.Err() != nil {
		closed = fmt.Errorf("deadlines: work: %w", ErrClosed)
	}
	return closed
}

var errStopped = fmt.Errorf("the worker has stopped, and tried for %v", stopLimit)

// pull takes deadlines from the server until ctx is done, the worker must not act, or an error occurs.
func (w *worker) pull() error {
	if w.halted() {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, requestLimit)
	defer cancel()
	consumer, err := w.link().wakeups.Consumer(ctx, consumerName)
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // someone has deleted it; the messages are still there
		w.log.Warn("deadlines: the consumer is gone, and is made again")
		consumer, err = w.makeConsumer(ctx, w.link())
	}
	if err != nil {
		return err
	}
	for !w.halted() {
		select { // a worker with nothing but late deadlines leaves the others to other workers
		case w.room <- struct{}{}:
			<-w.room
		case <-w.ctx.Done():
		}
		if w.ctx.Err() != nil {
			return nil
		}
		asked := time.Now() // the leases of all messages of the batch begin later
		batch, err := consumer.Fetch(w.pullMessages(), jetstream.FetchMaxWait(w.pullWait()))
		if err != nil {
			return err
		}
		var late []jetstream.Msg // that came while the worker stops; the open request would get them again
		for msg := range batch.Messages() {
			if w.ctx.Err() != nil {
				late = append(late, msg)
			} else {
				w.take(msg, asked)
			}
		}
		for _, msg := range late {
			w.giveBack(msg, asked, 0)
		}
		if err := batch.Error(); err != nil {
			return err
		}
		w.health.report(getWakeups, nil)
	}
	return nil
}

// pullMessages and pullWait are the most that a request asks for.
func (s *Store) pullMessages() int { return min(maxPull, 4*s.cfg.Concurrency) }

func (s *Store) pullWait() time.Duration { return min(maxPullWait, s.cfg.Lease/8) }

// take takes a message from the server, whose lease began at since or later. If the deadline has come but all handlers
// are busy, take waits for a quarter of a lease, and then leaves the message to another worker.
func (w *worker) take(msg jetstream.Msg, since time.Time) {
	h, err := w.parse(msg, since)
	if err != nil && len(msg.Data()) == 0 && msg.Headers().Get("Nats-Msg-Size") != "" { // headers_only, not noticed yet
		w.giveBack(msg, since, w.cfg.Lease)
		return
	}
	if err != nil {
		w.setAside(msg, since, err)
		return
	}
	if h.delivery > 1 {
		w.counts.redelivered.Add(1)
	}
	left := h.left()
	if left > w.window()+time.Second { // the clock of the process that set it was off
		w.giveBack(msg, since, left-w.window())
		return
	}
	if left <= 0 {
		late := time.NewTimer(time.Until(since.Add(w.cfg.Lease / 4)))
		defer late.Stop()
		select {
		case w.room <- struct{}{}:
			h.room = true
		case <-late.C:
		case <-w.ctx.Done():
		}
		if !h.room {
			w.giveBack(msg, since, 0)
			return
		}
	}
	if left > 0 && time.Since(since) > w.cfg.Lease/8 { // the lease must not end before the deadline
		h.sign()
	}
	w.counts.held.Add(1)
	w.wheel.Bind(&h.timeout, h)
	h.hold(left)
}

// owns reports whether a lease has not ended that began at since, with a margin for the way to the server.
func (w *worker) owns(since time.Time) bool { return time.Since(since) < w.cfg.Lease*3/4 }

// giveBack lets the server deliver a message again after a delay. Without it that happens at the end of the lease. If
// the lease has ended, it does nothing, because the server would take the message away from its new worker.
func (w *worker) giveBack(msg jetstream.Msg, since time.Time, delay time.Duration) {
	switch {
	case !w.owns(since):
	case delay > 0:
		msg.NakWithDelay(delay)
	default:
		msg.Nak()
	}
}

func (w *worker) parse(msg jetstream.Msg, since time.Time) (*held, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, err
	}
	h := &held{w: w, msg: msg, delivery: meta.NumDelivered, token: tokenOf(msg.Subject()), taken: time.Now(), signed: since}
	if h.wakeup, err = parseWakeup(msg.Data()); err != nil {
		return nil, err
	}
	return h, nil
}

// setAside keeps a message that no worker can handle, or in whose handler workers die, under a subject that no worker
// gets. Check reports it.
func (w *worker) setAside(msg jetstream.Msg, since time.Time, because error) {
	token := tokenOf(msg.Subject())
	copied := &nats.Msg{
		Subject: w.subject("aside", token), Header: nats.Header{reasonHeader: {because.Error()}},
		Data: msg.Data()[:min(len(msg.Data()), headroom)],
	}
	ctx, cancel := context.WithTimeout(w.last, requestLimit)
	defer cancel()
	stored, err := w.link().js.PublishMsg(ctx, copied, jetstream.WithMsgID("aside-"+token))
	if err != nil {
		w.health.report(storeWakeups, w.explain(err))
		w.counts.retried.Add(1)
		w.giveBack(msg, since, w.cfg.Lease)
		return
	}
	if !stored.Duplicate { // another worker, or this one, has logged it
		w.flood.report("aside", slog.LevelError, "deadlines: a wake-up that no worker can handle is set aside",
			"subject", copied.Subject, "because", because)
	}
	msg.Ack()
}

// reasonHeader is the header of a message that is set aside. It says why.
const reasonHeader = "Hashedwheel-Reason"

// tokenOf returns the last part of the subject of a wake-up.
func tokenOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
