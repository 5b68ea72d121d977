package deadlines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Stats are the figures of a store. The counts are of this process, since Open.
type Stats struct {
	Held    int // deadlines that workers of this process have, with those whose handler runs
	Running int // calls of handlers that have not returned
	// Deadlines that have come and whose handler has not returned nil. Usually only those count that this process has.
	// While a worker finds that the servers store nothing, all count that the servers do not deliver.
	Overdue int
	Full    bool // the servers have refused to store something in the last 10 s or lease, because they have no room

	// Of all processes, as the server said at most a third of a lease ago: near and due deadlines that no worker
	// has got, and deadlines that a worker has or that wait for the next call of their handler.
	Undelivered, Delivered int

	Set, Moved, Canceled uint64
	Handled              uint64 // handlers returned nil, and the servers have stored that
	Failures             uint64 // handlers returned an error or panicked
	Redelivered          uint64 // deadlines that came to this process again, after a lease, a failure or an outage
	Retried              uint64 // requests of workers that failed and were repeated

	Skew time.Duration // by which the wall clock of this machine is ahead of the server's
}

// counts are the figures that the store itself counts.
type counts struct {
	held, running, overdue, undelivered, delivered                atomic.Int64
	stuck                                                         atomic.Int64 // see backlog
	set, moved, canceled, handled, failures, redelivered, retried atomic.Uint64
	returned                                                      atomic.Uint64 // calls of handlers
}

// Stats returns the figures of the store. It sends no request.
func (s *Store) Stats() Stats {
	c := &s.counts
	return Stats{
		Held: int(c.held.Load()), Running: int(c.running.Load()), Overdue: int(c.overdue.Load() + c.stuck.Load()), Full: s.full(),
		Undelivered: int(c.undelivered.Load()), Delivered: int(c.delivered.Load()),
		Set: c.set.Load(), Moved: c.moved.Load(), Canceled: c.canceled.Load(), Handled: c.handled.Load(),
		Failures: c.failures.Load(), Redelivered: c.redelivered.Load(), Retried: c.retried.Load(),
		Skew: s.clock.skew(),
	}
}

// Figures yields the figures of Stats with their names as metrics. Each call yields the same names. The adapters for
// Prometheus and OpenTelemetry use it: see NewStoreCollector of promwheel and RegisterStore of otelwheel.
func (s *Store) Figures(yield func(name, help string, counter bool, value float64)) {
	st := s.Stats()
	gauge := func(name string, v float64, help string) { yield(name, help, false, v) }
	counter := func(name string, v uint64, help string) { yield(name, help, true, float64(v)) }
	gauge("held", float64(st.Held), "Deadlines that workers of this process hold.")
	gauge("handlers_running", float64(st.Running), "Calls of handlers that have not returned.")
	gauge("overdue", float64(st.Overdue), "Deadlines that have come and whose handler has not returned nil, "+
		"of this process or not delivered by full servers.")
	full := 0.0
	if st.Full {
		full = 1
	}
	gauge("full", full, "1 if the servers have refused to store something lately, because they have no room.")
	gauge("undelivered", float64(st.Undelivered), "Near and due deadlines of all processes that no worker has got.")
	gauge("delivered", float64(st.Delivered), "Deadlines of all processes that a worker has, or that wait for their next attempt.")
	gauge("clock_skew_seconds", st.Skew.Seconds(), "How far the clock of this machine is ahead of the server's.")
	counter("set", st.Set, "Deadlines that were set.")
	counter("moved", st.Moved, "Pending deadlines that were moved.")
	counter("canceled", st.Canceled, "Pending deadlines that were canceled.")
	counter("handled", st.Handled, "Deadlines whose handler returned nil.")
	counter("failures", st.Failures, "Calls of handlers that returned an error or panicked.")
	counter("redelivered", st.Redelivered, "Deadlines that came to this process again.")
	counter("retried", st.Retried, "Requests of workers that failed and were repeated.")
}

// watch starts the goroutines that run until Close: one reads the server's clock, and one follows the connection.
func (s *Store) watch() {
	s.watchers.Go(s.watchLink)
	s.watchers.Go(func() {
		tick := time.NewTicker(s.cfg.Lease / 3)
		defer tick.Stop()
		var b busy
		var waiting backlog
		for off, full := false, false; ; {
			select {
			case <-tick.C:
			case <-s.ctx.Done():
				return
			}
			ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
			err := s.explain(s.readClock(ctx))
			s.health.report(readStreams, err)
			if r := (reason{}); s.working.Load() > 0 && (err == nil || errors.As(err, &r) && r.leaderless) {
				err = s.explain(s.probe(ctx))
				s.health.report(storeWakeups, err)
				if errors.Is(err, ErrNoRoom) {
					full = true
				} else if err == nil && full {
					full = false
					s.watchers.Go(s.rearm)
				}
			}
			waiting.check(s, err != nil, time.Now())
			cancel()
			s.health.settle()
			s.flood.settleAt(time.Now())
			b.check(s, time.Now())
			was := off
			if off = s.clockOff(); off && !was {
				s.log.Error("deadlines: the clocks differ by more than a lease, so the workers here have stopped acting",
					"ahead", s.clock.skew(), "lease", s.cfg.Lease)
			} else if was && !off {
				s.log.Info("deadlines: the clocks agree again, and the workers act")
			}
		}
	})
}

// A busy logs when all handlers run, and none has returned for a while.
type busy struct {
	since    time.Time // a handler was free, or one returned
	returned uint64    // by then
	logged   time.Time // the last time that it was logged, or zero
}

func (b *busy) check(s *Store, now time.Time) {
	running, handlers := s.counts.running.Load(), s.working.Load()*int64(s.cfg.Concurrency)
	waiting := s.counts.held.Load() - running + s.counts.undelivered.Load()
	if returned := s.counts.returned.Load(); running < handlers || handlers == 0 || waiting <= 0 || returned != b.returned {
		if !b.logged.IsZero() {
			s.log.Info("deadlines: handlers return again", "after", now.Sub(b.since).Round(time.Second))
		}
		*b = busy{since: now, returned: returned}
		return
	}
	if now.Sub(b.since) >= hangsAfter*s.cfg.Lease && now.Sub(b.logged) >= sickEvery {
		b.logged = now
		s.log.Warn(fmt.Sprintf("deadlines: no handler has returned for %v, and others cannot begin", now.Sub(b.since).Round(time.Second)),
			"running", running, "waiting", waiting)
	}
}

// hangsAfter is the number of leases for which no handler returns before that is logged.
const hangsAfter = 3

// readClock asks the leaders of the two streams for the time and the backlog. The leader of the bucket stamps the
// records, so its clock counts.
func (s *Store) readClock(ctx context.Context) error {
	l := s.link()
	sent := time.Now()
	info, err := l.records.Info(ctx)
	if err != nil {
		return err
	}
	s.clock.set(info.TimeStamp, sent, time.Now())
	s.see(info)
	consumer, err := l.wakeups.Consumer(ctx, consumerName)
	if err != nil {
		return err
	}
	s.counts.undelivered.Store(int64(consumer.CachedInfo().NumPending))
	s.counts.delivered.Store(int64(consumer.CachedInfo().NumAckPending))
	return nil
}

// probe stores a message that nobody reads. If the disk is full, schedules do not become messages, and a worker
// that waits for them would not notice.
func (s *Store) probe(ctx context.Context) error {
	_, err := s.link().js.Publish(ctx, s.subject("probe", s.id), nil, jetstream.WithMsgTTL(time.Minute))
	return err
}

// rearm delivers the schedules that the server has forgotten. When a schedule comes while the store is full, nats-server
// 2.15 marks it as being delivered, and does not look at it again before a restart or another leader. One request for
// each far deadline is much, but a full store is rare.
func (s *Store) rearm() {
	var n int
	s.persist(s.ctx, func(ctx context.Context) error { // until Close
		info, err := s.link().wakeups.Info(ctx, jetstream.WithSubjectFilter(s.subject("at", "*")))
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
			rearmed, err := s.rearmOne(ctx, subject)
			cancel()
			if err != nil {
				return err
			}
			if rearmed {
				n++
			}
		}
		return nil
	})
	if n > 0 {
		s.log.Info("deadlines: deadlines that came while the servers had no room are delivered", "deadlines", n)
	}
}

func (s *Store) rearmOne(ctx context.Context, subject string) (bool, error) {
	msg, err := s.link().wakeups.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w, err := parseWakeup(msg.Data)
	if err != nil || s.clock.now().Before(w.At.Add(forgotten-s.window())) {
		return false, nil
	}
	due := s.subject("due", subject[strings.LastIndexByte(subject, '.')+1:])
	if _, err = s.link().js.Publish(ctx, due, msg.Data); err == nil {
		err = s.link().wakeups.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	return err == nil, err
}

// forgotten is how late a schedule is that the server has forgotten. It looks four times a second.
const forgotten = 2 * time.Second

// clockOff reports whether the clock of this machine and that of the server differ by more than a lease. A handler
// that reads the clock would be misled, so the workers do not act.
func (s *Store) clockOff() bool {
	return s.clock.skew().Abs() > s.cfg.Lease
}
