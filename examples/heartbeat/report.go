package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A report is the result of a run.
type report struct {
	opts options

	conns, packets, heartbeats int64 // as the server saw them
	sent                       int64 // packets, by the clients
	tooSoon                    int64 // heartbeats sent before the interval was over

	// Clients.
	fellSilent, closedSilent, stillOpen int64
	closedOthers, forgotten             int64

	lateness []time.Duration // of each close for silence, from the end of the limit, ascending
	errs     []error         // of connections and timers
	timer    hashedwheel.Stats
	pending  int // timeouts on both timers after the end
}

// newReport returns the result. Server and clients must have ended.
func newReport(o options, s *server, cs *clients) *report {
	slices.Sort(s.lateness)
	stats := s.timer.Stats()
	r := &report{
		opts: o, conns: s.accepted.Load(), packets: s.packets.Load(), heartbeats: s.heartbeats.Load(),
		sent: cs.sent.Load(), tooSoon: cs.tooSoon.Load(),
		fellSilent: cs.fellSilent.Load(), closedSilent: cs.closedSilent.Load(), stillOpen: cs.stillOpen.Load(),
		closedOthers: cs.closedOthers.Load(), forgotten: cs.forgotten.Load(),
		lateness: s.lateness, errs: append(s.broken, cs.errs...),
		timer: stats, pending: stats.Pending + cs.timer.Pending(),
	}
	s.timer.Stop()
	cs.timer.Stop()
	return r
}

// check returns an error that names each check that fails.
func (r *report) check() error {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	early := r.closedEarly()
	must(early == 0, "%d connections closed early, by up to %v", early, -first(r.lateness))
	must(r.closedOthers == 0, "%d connections closed that had not fallen silent", r.closedOthers)
	must(r.forgotten == 0, "%d silent connections forgotten", r.forgotten)
	must(r.closedSilent+r.forgotten+r.stillOpen == r.fellSilent,
		"silent ones closed %d + forgotten %d + open %d is not %d", r.closedSilent, r.forgotten, r.stillOpen, r.fellSilent)
	must(r.tooSoon == 0, "%d heartbeats sent too soon", r.tooSoon)
	must(r.packets == r.sent, "%d packets received of %d sent", r.packets, r.sent)
	must(r.pending == 0, "after the end, the timers hold %d timeouts", r.pending)
	must(len(r.errs) == 0, "%d failures, the first: %w", len(r.errs), first(r.errs))
	return errors.Join(errs...)
}

func (r *report) print(w io.Writer) {
	line := func(name string, n int64, note string, args ...any) {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-20s %10s  %s", name, commas(n), fmt.Sprintf(note, args...)), " "))
	}
	line("connections", r.conns, "")
	line("packets", r.packets, "each restarts the idle limit; the server's timer woke up only %s times", commas(int64(r.timer.Wakeups)))
	line("heartbeats", r.heartbeats, "of these packets; each other packet postponed a heartbeat")
	line("fell silent", r.fellSilent, "")
	line("silent ones closed", r.closedSilent, "")
	if r.stillOpen > 0 {
		line("silent ones open", r.stillOpen, "(interrupted)")
	}
	line("closed early", int64(r.closedEarly()), "before the limit; must be 0")
	line("others closed", r.closedOthers, "not silent; must be 0")
	line("forgotten", r.forgotten, "silent, but never closed; must be 0")
	if n := len(r.lateness); n > 0 {
		fmt.Fprintf(w, "\nclosed late by  p50 %s  p99 %s  max %s, counted from the end of the limit\n",
			millis(quantile(r.lateness, 0.50)), millis(quantile(r.lateness, 0.99)), millis(r.lateness[n-1]))
		fmt.Fprintf(w, "(a tick of %v allows 0 to %v, plus the latency of the machine)\n", r.opts.tick, r.opts.tick)
	}
}

// closedEarly returns the number of connections closed before the limit had
// passed since their last data arrived.
func (r *report) closedEarly() int {
	n, _ := slices.BinarySearch(r.lateness, 0)
	return n
}

// first returns the first element, or the zero value if there is none.
func first[T any](s []T) (v T) {
	if len(s) > 0 {
		v = s[0]
	}
	return v
}

// quantile returns the q-quantile of durations in ascending order.
func quantile(ascending []time.Duration, q float64) time.Duration {
	rank := int(math.Ceil(q * float64(len(ascending))))
	return ascending[max(rank, 1)-1]
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// commas writes a number that is not negative with a comma before each group
// of three digits.
func commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
