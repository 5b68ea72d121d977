package deadlines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	grace = 2 * time.Second        // for a Set between its wake-up and its record
	again = 100 * time.Millisecond // until a request that failed is repeated, at least
)

// A held is a deadline that the server has delivered to a worker. It is the task of its timeout.
type held struct {
	w        *worker
	timeout  hashedwheel.Timeout
	msg      jetstream.Msg
	wakeup   wakeup
	token    string
	delivery uint64
	taken    time.Time
	signed   time.Time // when the lease began, or the last sign of life was sent
	claimed  time.Time // the last attempt to claim it, which may have been stored although its request failed
	overdue  bool      // it is counted as overdue
	room     bool      // it has a token of room
}

// left returns the time until the deadline, by the clock of the server.
func (h *held) left() time.Duration { return h.wakeup.At.Sub(h.w.clock.now()) }

// hold puts the deadline on the wheel. If the worker has stopped or holds too many, another one gets it.
func (h *held) hold(delay time.Duration) {
	if _, err := h.timeout.Reset(max(delay, 0)); err != nil {
		h.giveBack(max(again, delay/2))
	}
}

// sign prolongs the lease. If that has ended, sign returns false, and Run will drop the deadline.
func (h *held) sign() bool {
	owned := h.w.owns(h.signed) && h.msg.InProgress() == nil // an error: the connection of the message is closed
	if owned {
		h.signed = time.Now()
	}
	return owned
}

// giveBack lets the server deliver the deadline again after a delay.
func (h *held) giveBack(delay time.Duration) {
	h.w.giveBack(h.msg, h.signed, delay)
	h.drop()
}

// done tells the server that the wake-up is no longer needed.
func (h *held) done() {
	h.msg.Ack() // if it is lost, the deadline is delivered again, and its record says that it has ended
	h.drop()
}

// drop ends the hold. It tells the server nothing.
func (h *held) drop() {
	h.w.counts.held.Add(-1)
	if h.overdue {
		h.w.counts.overdue.Add(-1)
	}
	if h.room {
		<-h.w.room
	}
}

// Run is the task of the timeout: the deadline has probably come.
func (h *held) Run(*hashedwheel.Timeout) {
	w := h.w
	if left := h.left(); left > 0 {
		h.hold(left)
		return
	}
	if w.ctx.Err() != nil || w.halted() {
		h.giveBack(0)
		return
	}
	if !w.owns(h.signed) { // the server delivers it again, because a sign of life may come too late
		h.drop()
		return
	}
	if !h.overdue {
		h.overdue = true
		w.counts.overdue.Add(1)
	}
	ctx, cancel := context.WithTimeout(w.last, requestLimit)
	defer cancel()
	r, err := h.claim(ctx)
	switch {
	case err != nil && isConflict(err):
		h.hold(0)
	case err != nil:
		h.retry(w.explain(err))
	case r == nil: // claim has ended the hold, or continues it
	default:
		h.call(*r)
	}
}

// retry tries again soon. Meanwhile the deadline stays with this worker if the server still answers it.
func (h *held) retry(err error) {
	var f final
	if h.w.gone(err) {
		h.drop()
		return
	}
	if errors.As(err, &f) {
		h.w.flood.report("record", slog.LevelError, "deadlines: a record cannot be read or written", "key", h.wakeup.Key, "err", err)
		h.giveBack(h.w.cfg.MaxBackoff)
		return
	}
	h.w.health.report(storeRecords, err)
	h.w.counts.retried.Add(1)
	h.sign()
	h.hold(again + rand.N(again))
}

// claim makes the record Running. It returns nil if there is nothing to do now.
func (h *held) claim(ctx context.Context) (*record, error) {
	w := h.w
	r, err := w.load(ctx, h.wakeup.Key)
	if err != nil {
		return nil, err
	}
	switch mine := r.Token == h.token; {
	case r.rev <= h.wakeup.Prior && time.Since(h.taken) < grace: // Set has not written the record yet
		h.sign()
		h.hold(2 * tick)
		return nil, nil
	case r.rev == h.wakeup.Prior || r.rev == 0: // see the rules of set.go; or the record has been removed since
		if r.rev == 0 {
			r.Status = void
		}
		r.Op = w.id
		if _, err := w.save(ctx, h.wakeup.Key, r); err != nil {
			return nil, err
		}
		h.done()
		return nil, nil
	case r.rev < h.wakeup.Prior && time.Since(h.taken) < grace: // a leader that has been replaced has answered
		h.sign()
		h.hold(again)
		return nil, nil
	case r.rev < h.wakeup.Prior: // perhaps the bucket was restored from a backup, and the worker must not wait for ever
		w.flood.report("older", slog.LevelError, "deadlines: a record is older than its wake-up",
			"key", h.wakeup.Key, "revision", r.rev, "wake-up", h.wakeup.Prior)
		h.giveBack(w.cfg.Lease)
		return nil, nil
	case !mine || r.ended():
		h.done()
		return nil, nil
	case r.Status == Running && r.By == w.by && r.Delivery == h.delivery && time.Since(h.claimed) < w.cfg.Lease:
		return &r, nil // the answer to the claim was lost
	case r.Status == Running && r.Delivery >= h.delivery: // this lease has ended, and another worker goes on
		h.drop()
		return nil, nil
	}
	if !h.sign() {
		h.drop()
		return nil, nil
	}
	dead := r
	alive := false
	if r.Status == Running { // its worker has died, or has lost its lease
		if r.By == w.by && w.calls.has(h.token) {
			h.lost(r)
			h.giveBack(w.cfg.Lease)
			return nil, nil
		}
		if r.By != w.by {
			if alive, err = w.alive(ctx, r.By); err != nil { // that is no death
				if !errors.Is(err, errAsking) {
					w.health.report(readStreams, w.explain(err))
					w.counts.retried.Add(1)
				}
				h.sign()
				h.hold(again + rand.N(again))
				return nil, nil
			}
			if !h.sign() { // the answer has taken longer than the lease
				h.drop()
				return nil, nil
			}
		}
		if !alive {
			r.Deaths++
		}
		if r.Deaths >= calmDeaths && !alive {
			return nil, h.putOff(ctx, r)
		}
	}
	h.claimed = time.Now()
	r.Status, r.Delivery, r.By, r.Op = Running, h.delivery, w.by, w.id
	r.Attempts++
	r, err = w.save(ctx, h.wakeup.Key, r)
	if err != nil {
		return nil, err
	}
	w.health.report(storeRecords, nil)
	switch {
	case alive:
		h.lost(dead)
	case dead.Status == Running:
		h.died(dead, r.Deaths)
	}
	if time.Since(h.claimed) >= w.cfg.Lease {
		// Another worker may have called the handler since, and then Cancel may have returned true.
		h.drop()
		return nil, nil
	}
	return &r, nil
}

const (
	calmDeaths  = 3  // from this one on, a deadline waits before its handler is called again
	asideDeaths = 10 // after so many it is set aside
)

// died reports that the worker that called the handler before has died or lost its lease. A worker that dies leaves many
// deadlines, but mostly one that kills workers has two deaths in a row: each of these has its own line.
func (h *held) died(r record, deaths int) {
	h.w.counts.deaths.Add(1)
	kind := "death"
	if deaths > 1 {
		kind += h.wakeup.Key
	}
	h.w.flood.report(kind, slog.LevelWarn, "deadlines: a worker has died in a handler, or has lost its lease",
		"key", h.wakeup.Key, "attempt", r.Attempts, "deaths", deaths, "worker", r.By)
}

// lost reports that the worker that called the handler before is alive, and has lost its lease. The handler may run.
func (h *held) lost(r record) {
	h.w.flood.report("lost", slog.LevelWarn, "deadlines: a worker that is alive has lost its lease while a handler ran",
		"key", h.wakeup.Key, "attempt", r.Attempts, "worker", r.By)
}

// putOff makes a deadline in which workers have died several times Pending, until a delay is over that grows. In the end
// it sets its wake-up aside. A deadline that is set aside becomes due again by Set or Move.
func (h *held) putOff(ctx context.Context, r record) error {
	w, dead := h.w, r
	r.Status, r.Delivery, r.By, r.Op = Pending, h.delivery, w.by, w.id // so the other worker knows that this is not its own failure
	r.Error = fmt.Sprintf("%d workers in a row have died in the handler, or have lost their lease", r.Deaths)
	if _, err := w.save(ctx, h.wakeup.Key, r); err != nil {
		return err
	}
	h.died(dead, r.Deaths)
	if r.Deaths < asideDeaths {
		h.giveBack(w.backoff(r.Deaths - calmDeaths + 1))
		return nil
	}
	w.setAside(h.msg, h.signed, fmt.Errorf("%s: %s", quote(h.wakeup.Key), r.Error))
	h.drop()
	return nil
}

// call calls the handler, with signs of life, and stores how it ended.
func (h *held) call(r record) {
	w := h.w
	sign, err := w.signs.ScheduleAtFixedRate(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { h.msg.InProgress() }),
		w.cfg.Lease/3, w.cfg.Lease/3)
	if err == nil {
		defer sign.Cancel()
	}
	w.counts.running.Add(1)
	w.calls.add(h)
	failure := w.protect(r.deadline(h.wakeup.Key))
	if ran := w.calls.remove(h); ran >= w.hungAfter() {
		w.flood.report("returned", slog.LevelInfo, "deadlines: a handler that had run for long has returned", "key", h.wakeup.Key,
			"after", ran.Round(time.Second))
	}
	w.counts.running.Add(-1)
	w.counts.returned.Add(1)
	if failure != nil {
		w.counts.failures.Add(1)
	}
	var mine bool
	err = w.persist(w.last, func(ctx context.Context) (err error) {
		mine, err = h.conclude(ctx, &r, failure)
		if err != nil && !isConflict(err) {
			err = w.explain(err)
			w.health.report(storeRecords, err)
			w.counts.retried.Add(1)
		} else {
			w.health.report(storeRecords, nil)
		}
		return err
	})
	h.signed = time.Now() // the signs of life have kept the lease, or mine is false
	switch {
	case err != nil: // the server delivers it again after the lease, and the handler is called again
		w.flood.report("outcome", slog.LevelError, "deadlines: it could not be stored how a handler ended", "key", h.wakeup.Key, "err", err)
		h.drop()
	case failure == nil:
		w.counts.handled.Add(1)
		h.done()
	case !mine:
		h.drop()
	case w.ctx.Err() != nil:
		h.giveBack(0)
	default:
		w.flood.report("failure", slog.LevelWarn, "deadlines: a handler failed",
			"key", h.wakeup.Key, "attempt", r.Attempts, "err", failure)
		h.giveBack(w.backoff(r.Attempts))
	}
}

// protect calls the handler, and makes an error of a panic.
func (w *worker) protect(d Deadline) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			w.flood.report("panic", slog.LevelError, "deadlines: a handler panicked",
				"key", d.Key, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	d.Changed = time.Time{}
	return w.handle(w.ctx, d)
}

// conclude makes the record Handled or, after a failure, Pending. r is the record as this worker knows it. Another
// worker may have claimed the deadline meanwhile, because the lease of this one has ended. Then a success counts
// nevertheless, and a failure is left to the other one: mine is false.
func (h *held) conclude(ctx context.Context, r *record, failure error) (mine bool, err error) {
	next := *r
	next.Op, next.By, next.Deaths = h.w.id, h.w.by, 0
	if next.Status = Handled; failure != nil {
		next.Status, next.Error = Pending, strings.ToValidUTF8(failure.Error()[:min(len(failure.Error()), maxError)], "")
	} else {
		next.Payload = nil
	}
	if _, err = h.w.save(ctx, h.wakeup.Key, next); err == nil {
		return true, nil
	}
	now, loadErr := h.w.load(ctx, h.wakeup.Key)
	mine = now.Delivery == h.delivery && now.Token == h.token
	switch {
	case loadErr != nil || now.rev != 0 && now.rev <= r.rev: // as far as is known, nothing is stored
		return true, err
	case now.Token != h.token || now.ended() || mine && now.Status == Pending || failure != nil && !mine:
		return mine, nil // replaced, or stored although the answer was lost, or another worker's
	}
	*r = now
	return true, err
}

// backoff returns the delay after a number of failures.
func (s *Store) backoff(failures int) time.Duration {
	d := s.cfg.MaxBackoff
	if n := failures - 1; s.cfg.MinBackoff <= d>>n { // so the shift does not overflow
		d = s.cfg.MinBackoff << n
	}
	return d/2 + rand.N(d+1)
}
