package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stats are the counts while calls are made.
type stats struct {
	sent, answered, timedOut, abandoned, late atomic.Int64

	mu       sync.Mutex
	lateness []time.Duration
	lost     []error
}

func (s *stats) addLateness(d time.Duration) {
	s.mu.Lock()
	s.lateness = append(s.lateness, d)
	s.mu.Unlock()
}

func (s *stats) addLost(err error) {
	s.mu.Lock()
	s.lost = append(s.lost, err)
	s.mu.Unlock()
}

// A report is the result of a run.
type report struct {
	opts                                      options
	elapsed                                   time.Duration // until the last call ended
	sent, answered, timedOut, abandoned, late int64
	dropped                                   int64           // by the server, or -1 if it is another process
	lateness                                  []time.Duration // of each timeout that fired, ascending
	lost                                      []error         // one for each connection lost

	// After all calls have ended, both should be 0.
	pendingCalls, pendingTimeouts int
}

// report returns the result. All calls must have ended.
func (c *client) report(elapsed time.Duration) *report {
	s := &c.stats
	r := &report{
		opts: c.opts, elapsed: elapsed,
		sent: s.sent.Load(), answered: s.answered.Load(), timedOut: s.timedOut.Load(),
		abandoned: s.abandoned.Load(), late: s.late.Load(), dropped: -1,
		lateness: s.lateness, lost: s.lost,
		pendingTimeouts: c.timer.Pending(),
	}
	slices.Sort(r.lateness)
	for _, l := range c.links {
		r.pendingCalls += len(l.pending)
	}
	return r
}

// check returns an error that names each check that fails.
func (r *report) check() error {
	var errs []error
	if r.answered+r.timedOut+r.abandoned != r.sent {
		errs = append(errs, fmt.Errorf("answered %d + timed out %d + abandoned %d is not sent %d",
			r.answered, r.timedOut, r.abandoned, r.sent))
	}
	if len(r.lateness) > 0 && r.lateness[0] < 0 {
		errs = append(errs, fmt.Errorf("a timeout fired %v early", -r.lateness[0]))
	}
	if r.pendingCalls != 0 || r.pendingTimeouts != 0 {
		errs = append(errs, fmt.Errorf("all calls have ended, but %d are pending and the timer holds %d timeouts",
			r.pendingCalls, r.pendingTimeouts))
	}
	if len(r.lost) > 0 {
		errs = append(errs, fmt.Errorf("%d of %d connections lost, the first error: %w", len(r.lost), r.opts.conns, r.lost[0]))
	}
	return errors.Join(errs...)
}

func (r *report) print(w io.Writer) {
	o := r.opts
	fmt.Fprintf(w, "%s requests, %d connections, up to %s in flight, timeout %v, tick %v\n\n",
		commas(int64(o.count)), o.conns, commas(int64(o.inFlight)), o.timeout, o.tick)

	line := func(name string, n int64, note string) {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-14s %12s  %s", name, commas(n), note), " "))
	}
	share := func(n int64) string { return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(max(r.sent, 1))) }
	line("requests/s", int64(float64(r.sent)/r.elapsed.Seconds()), "in "+r.elapsed.Round(time.Millisecond).String())
	line("sent", r.sent, "")
	line("answered", r.answered, share(r.answered))
	line("timed out", r.timedOut, share(r.timedOut))
	if r.abandoned > 0 {
		line("abandoned", r.abandoned, "(interrupted)")
	}
	line("late replies", r.late, "discarded, because their calls had timed out")
	if r.dropped >= 0 {
		line("never replied", r.dropped, "dropped by the server")
	}
	if len(r.lost) > 0 {
		line("lost", int64(len(r.lost)), "connections")
	}

	r.printLateness(w)

	sum := fmt.Sprintf("answered %s + timed out %s", commas(r.answered), commas(r.timedOut))
	if r.abandoned > 0 {
		sum += " + abandoned " + commas(r.abandoned)
	}
	verdict := "= sent " + commas(r.sent) + ", as expected"
	if r.answered+r.timedOut+r.abandoned != r.sent {
		verdict = "is NOT sent " + commas(r.sent)
	}
	fmt.Fprintf(w, "\n%s %s\n", sum, verdict)
}

// printLateness shows how long after its deadline each timeout fired.
func (r *report) printLateness(w io.Writer) {
	if len(r.lateness) == 0 {
		fmt.Fprintf(w, "\nno timeout fired\n")
		return
	}
	tick := r.opts.tick
	fmt.Fprintf(w, "\ntimeouts fired late by  min %s  p50 %s  p99 %s  max %s\n",
		millis(r.lateness[0]), millis(quantile(r.lateness, 0.50)),
		millis(quantile(r.lateness, 0.99)), millis(r.lateness[len(r.lateness)-1]))
	fmt.Fprintf(w, "(a tick of %v allows 0 to %v, plus the latency of the machine)\n\n", tick, tick)

	counts := histogram(r.lateness, tick)
	most := slices.Max(counts)
	for i, n := range counts {
		from, to := tick*time.Duration(i)/tenths, tick*time.Duration(i+1)/tenths
		label := fmt.Sprintf("%v to %v", from, to)
		if i == tenths {
			label = fmt.Sprintf("%v or more", from)
		}
		fmt.Fprintf(w, "%18s %9s  %s\n", label, commas(int64(n)), strings.Repeat("#", (40*n+most-1)/most))
	}
}

// tenths is the number of ranges of the histogram for a tick.
const tenths = 10

// histogram counts the durations in each tenth of a tick. The last count is for
// durations of a tick or more.
func histogram(ds []time.Duration, tick time.Duration) []int {
	counts := make([]int, tenths+1)
	for _, d := range ds {
		counts[max(0, min(int(d*tenths/tick), tenths))]++
	}
	return counts
}

// quantile returns the q-quantile of durations in ascending order.
func quantile(ascending []time.Duration, q float64) time.Duration {
	rank := int(math.Ceil(q * float64(len(ascending))))
	return ascending[max(rank, 1)-1]
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// commas writes n, which is not negative, with a comma before each group of three digits.
func commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
