package deadlines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are the figures of a store. The counts are of this process, since Open.
type Stats struct {
	// Unsafe is true if a stream of the store is gone, the settings of the servers lose deadlines, or the consumer is paused.
	// The log says why.
	Unsafe  bool
	Held    int // deadlines that workers of this process have, with those whose handler runs
	Running int // calls of handlers that have not returned
	// Longest is the time since the oldest call of a handler that has not returned began.
	Longest time.Duration
	// Deadlines that have come and whose handler has not returned nil. Usually only those count that this process has.
	// While a worker finds that the servers store nothing, or deliver nothing, all count that the servers do not deliver.
	Overdue int
	Full    bool // the servers have refused to store something in the last 10 s or lease, because they have no room

	// Of all processes, as the server said at most a third of a lease ago: near and due deadlines that no worker
	// has got, and deadlines that a worker has or that wait for the next call of their handler.
	Undelivered, Delivered int

	// Stranded counts the deadlines that are pending without a wake-up, so that no worker gets them, and Aside the
	// wake-ups that are set aside. One worker of all processes looks for the former every ten minutes, sets them again,
	// and counts them as Repaired. Stranded then goes down with each. Other processes know it up to a minute and a half later.
	Stranded, Aside int
	Repaired        uint64

	Set, Moved, Canceled uint64
	Handled              uint64 // handlers returned nil, and the servers have stored that
	Failures             uint64 // handlers returned an error or panicked
	Redelivered          uint64 // deadlines that came again: after a lease, a failure, an outage, or because all handlers were busy
	Deaths               uint64 // of them, those whose worker had died in the handler, or had been silent for a lease
	Retried              uint64 // requests of workers that failed and were repeated

	Skew time.Duration // by which the wall clock of this machine is ahead of the server's
}

// counts are the figures that the store itself counts.
type counts struct {
	held, running, overdue, undelivered, delivered                atomic.Int64
	stranded, aside                                               atomic.Int64
	repaired, deaths                                              atomic.Uint64
	stuck                                                         atomic.Int64 // see backlog
	set, moved, canceled, handled, failures, redelivered, retried atomic.Uint64
	returned                                                      atomic.Uint64 // calls of handlers
}

// Stats returns the figures of the store. It sends no request.
func (s *Store) Stats() Stats {
	c := &s.counts
	_, longest := s.calls.longest(time.Now(), 0)
	return Stats{
		Held: int(c.held.Load()), Running: int(c.running.Load()), Overdue: int(c.overdue.Load() + c.stuck.Load()), Full: s.full(),
		Deaths: c.deaths.Load(), Unsafe: s.danger() != nil, Stranded: int(c.stranded.Load()), Aside: int(c.aside.Load()), Repaired: c.repaired.Load(),
		Undelivered: int(c.undelivered.Load()), Delivered: int(c.delivered.Load()),
		Set: c.set.Load(), Moved: c.moved.Load(), Canceled: c.canceled.Load(), Handled: c.handled.Load(),
		Failures: c.failures.Load(), Redelivered: c.redelivered.Load(), Retried: c.retried.Load(),
		Skew: s.clock.skew(), Longest: longest,
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
	gauge("longest_run_seconds", st.Longest.Seconds(), "How long the handler has run that has run longest, of those that have not returned.")
	gauge("overdue", float64(st.Overdue), "Deadlines that have come and whose handler has not returned nil, "+
		"of this process, or not delivered by the servers.")
	gauge("full", oneIf(st.Full), "1 if the servers have refused to store something lately, because they have no room.")
	gauge("undelivered", float64(st.Undelivered), "Near and due deadlines of all processes that no worker has got.")
	gauge("delivered", float64(st.Delivered), "Deadlines of all processes that a worker has, or that wait for their next attempt.")
	gauge("unsafe", oneIf(st.Unsafe), "1 if a stream of the store is gone, the settings of the servers lose deadlines, or the consumer is paused.")
	gauge("stranded", float64(st.Stranded), "Deadlines of all processes that are pending without a wake-up, so that no worker gets them.")
	gauge("aside", float64(st.Aside), "Wake-ups of all processes that are set aside.")
	gauge("clock_skew_seconds", st.Skew.Seconds(), "How far the clock of this machine is ahead of the server's.")
	counter("set", st.Set, "Deadlines that were set.")
	counter("moved", st.Moved, "Pending deadlines that were moved.")
	counter("canceled", st.Canceled, "Pending deadlines that were canceled.")
	counter("handled", st.Handled, "Deadlines whose handler returned nil.")
	counter("failures", st.Failures, "Calls of handlers that returned an error or panicked.")
	counter("redelivered", st.Redelivered, "Deadlines that came to this process again.")
	counter("deaths", st.Deaths, "Deadlines that came again because a worker had died in the handler, or had been silent for a lease.")
	counter("repaired", st.Repaired, "Deadlines without a wake-up that this process has set again.")
	counter("retried", st.Retried, "Requests of workers that failed and were repeated.")
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// watch starts the goroutines that run until Close: one reads the server's clock, and one follows the connection.
func (s *Store) watch() {
	s.watchers.Go(s.watchLink)
	s.watchers.Go(func() {
		tick := time.NewTicker(s.cfg.Lease / 3)
		defer tick.Stop()
		var b busy
		var h hung
		var waiting backlog
		var audits auditor
		var probes prober
		for off := false; ; {
			select {
			case <-tick.C:
			case <-s.ctx.Done():
				return
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
			err := s.explain(s.look(ctx))
			s.health.report(readStreams, err)
			if err == nil {
				s.flood.forget(refusedKind)
			}
			if r := (reason{}); s.working.Load() > 0 && (err == nil || errors.As(err, &r) && r.leaderless) {
				err = s.explain(probes.probe(ctx, s, time.Now()))
				s.health.report(storeWakeups, err)
			} else {
				probes.good = time.Now()
			}
			if p := s.peers.Load(); err != nil || p == nil || p.at.Before(began) { // the leader did not say that all are up
				s.count(s.ctx)
			}
			waiting.check(s, err != nil, time.Now())
			cancel()
			s.health.settle()
			s.flood.settleAt(time.Now())
			b.check(s, time.Now())
			h.check(s, time.Now())
			if err == nil && s.danger() == nil {
				audits.check(s, time.Now())
			}
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

// Calls are the handlers that run.
type calls struct {
	mu    sync.Mutex
	began map[*held]time.Time
}

func (c *calls) add(h *held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began == nil {
		c.began = make(map[*held]time.Time)
	}
	c.began[h] = time.Now()
}

// remove returns how long the handler has run.
func (c *calls) remove(h *held) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := c.began[h]
	delete(c.began, h)
	return time.Since(began)
}

// has reports whether a handler runs for the wake-up with a token.
func (c *calls) has(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for h := range c.began {
		if h.token == token {
			return true
		}
	}
	return false
}

// longest returns the keys of the handlers that have run for the longest time, and at least for a limit. It also returns
// how long the first of all has run.
func (c *calls) longest(now time.Time, limit time.Duration) (keys []string, first time.Duration) {
	const most = 5
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*held
	for h, began := range c.began {
		first = max(first, now.Sub(began))
		if now.Sub(began) >= limit {
			all = append(all, h)
		}
	}
	if limit == 0 { // only the time is asked for
		return nil, first
	}
	slices.SortFunc(all, func(a, b *held) int { return c.began[a].Compare(c.began[b]) })
	for _, h := range all[:min(len(all), most)] {
		keys = append(keys, h.wakeup.Key)
	}
	return keys, first
}

// A hung logs which handlers have run for very long.
type hung struct{ logged time.Time }

const (
	hungAfter = time.Minute // and after hangsAfter leases
	hungEvery = time.Minute
)

func (h *hung) check(s *Store, now time.Time) {
	keys, first := s.calls.longest(now, s.hungAfter())
	if len(keys) == 0 || now.Sub(h.logged) < hungEvery {
		return
	}
	h.logged = now
	s.log.Warn(fmt.Sprintf("deadlines: a handler has not returned for %v", first.Round(time.Second)), "key", keys[0], "longest", keys)
}

func (s *Store) hungAfter() time.Duration { return max(hungAfter, hangsAfter*s.cfg.Lease) }

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
		keys, first := s.calls.longest(now, 1)
		s.log.Warn(fmt.Sprintf("deadlines: no handler has returned for %v, and others cannot begin", now.Sub(b.since).Round(time.Second)),
			"running", running, "waiting", waiting, "longest", keys, "for", first.Round(time.Second))
	}
}

// hangsAfter is the number of leases for which no handler returns before that is logged.
const hangsAfter = 3

// clockOff reports whether the clock of this machine and that of the server differ by more than a lease. A handler
// that reads the clock would be misled, so the workers do not act.
func (s *Store) clockOff() bool {
	return s.clock.skew().Abs() > s.cfg.Lease
}
