package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A callsReport is the result of the first part.
type callsReport struct {
	opts        options
	interrupted bool
	start       time.Time
	outages     []outage

	records   []record
	issued    int
	byOutcome [outcomes]int
	first     int // calls that were answered at the first attempt
	byAttempt []int
	failures  map[string]int

	ledger   []string
	repeated int

	timer hashedwheel.Stats
}

// report returns the result, of the calls that have ended by now.
func (c *calls) report(interrupted bool) *callsReport {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	c.service.mu.Lock()
	defer c.service.mu.Unlock()
	r := &callsReport{
		opts: c.opts, interrupted: interrupted, start: c.start, outages: c.plan,
		records: slices.Clone(c.tally.records), issued: c.tally.issued,
		byAttempt: slices.Clone(c.tally.byAttempt), failures: maps.Clone(c.tally.failures),
		ledger: slices.Clone(c.service.ledger), repeated: c.service.repeated,
		timer: c.timer.Stats(),
	}
	for _, rec := range r.records {
		if rec.ends > 0 {
			r.byOutcome[rec.outcome]++
		}
		if rec.ends > 0 && rec.outcome == answered && rec.attempts == 1 {
			r.first++
		}
	}
	return r
}

// check returns an error that names each check that fails.
func (r *callsReport) check() error {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	times := make(map[string]int)
	for _, key := range r.ledger {
		times[key]++
	}
	var lost, twice, undone, garbled, strange int
	known := make(map[string]bool)
	for i, rec := range r.records {
		key := keyOf(uint64(i + 1))
		known[key] = rec.issued
		switch {
		case rec.issued && rec.ends == 0:
			lost++
		case rec.ends > 1:
			twice++
		case rec.ends == 1 && rec.outcome == answered && times[key] != 1:
			undone++
		case rec.ends == 1 && rec.outcome == answered && !r.answers(rec.answer, key):
			garbled++
		}
	}
	for key, n := range times {
		if n > 1 || !known[key] {
			strange++
		}
	}
	limited := r.opts.deadline > 0 || r.opts.attempts > 0
	must(r.interrupted || r.issued == r.opts.count, "%d calls were made, not %d", r.issued, r.opts.count)
	must(lost == 0, "%d calls have never ended", lost)
	must(twice == 0, "%d calls have ended twice", twice)
	must(undone == 0, "%d calls were answered, but not carried out exactly once", undone)
	must(garbled == 0, "%d calls got the answer to another call", garbled)
	must(strange == 0, "%d orders were carried out more than once, or were never placed", strange)
	must(limited || r.byOutcome[gaveUp] == 0, "%d calls were given up, though neither -attempts nor -deadline limits them", r.byOutcome[gaveUp])
	must(r.byOutcome[canceled] == 0, "%d calls were canceled, but nobody canceled one", r.byOutcome[canceled])
	must(r.byOutcome[failed] == 0, "%d calls failed permanently", r.byOutcome[failed])
	must(r.interrupted || r.byOutcome[abandoned] == 0, "%d calls were abandoned", r.byOutcome[abandoned])
	must(r.timer.Pending == 0 && r.timer.Running == 0, "the timer has been shut down, but holds %d timeouts, and %d tasks are running", r.timer.Pending, r.timer.Running)
	must(r.timer.Panics == 0, "%d tasks panicked", r.timer.Panics)
	return errors.Join(errs...)
}

// answers reports whether answer is the one for the order with that key: its place in the ledger.
func (r *callsReport) answers(answer uint64, key string) bool {
	return answer >= 1 && answer <= uint64(len(r.ledger)) && r.ledger[answer-1] == key
}

// rush returns how many of the answered calls waited for a retry when the service came up again, and how long
// it took until the last of them was answered.
func (r *callsReport) rush(up time.Time) (waited int, last time.Duration) {
	for _, rec := range r.records {
		if rec.firstFailed.IsZero() || rec.firstFailed.After(up) || !rec.ended.After(up) || rec.outcome != answered {
			continue
		}
		waited++
		last = max(last, rec.ended.Sub(up))
	}
	return waited, last
}

func (r *callsReport) print(w io.Writer) {
	attempts := 0
	for _, n := range r.byAttempt {
		attempts += n
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(r.failures)) {
		kinds = append(kinds, commas(r.failures[kind])+" "+kind)
	}
	note := "none failed"
	if len(kinds) > 0 {
		note = "of these failed: " + strings.Join(kinds, ", ")
	}
	count(w, "calls", r.issued, "")
	count(w, "answered", r.byOutcome[answered], commas(r.first)+" of them by the first attempt")
	count(w, "given up", r.byOutcome[gaveUp], "")
	if r.interrupted {
		count(w, "abandoned", r.byOutcome[abandoned], "(interrupted)")
	}
	count(w, "attempts", attempts, note)
	count(w, "carried out", len(r.ledger), fmt.Sprintf("orders; %s more requests repeated one after a lost answer", commas(r.repeated)))
	fmt.Fprintf(w, "\n%s\n", attemptsLine(r.byAttempt))
	for i, o := range r.outages {
		if o.up.IsZero() {
			continue
		}
		waited, last := r.rush(o.up)
		fmt.Fprintf(w, "outage %d  at %v for %v: %s calls waited for a retry, the last was answered %v after the outage\n",
			i+1, millis(o.down.Sub(r.start)), millis(o.up.Sub(o.down)), commas(waited), millis(last))
	}
}

// attemptsLine says how many calls made a first attempt, a second attempt and so on.
func attemptsLine(byAttempt []int) string {
	const most = 12
	var b strings.Builder
	b.WriteString("calls that made attempt")
	rest := 0
	for i, n := range byAttempt {
		if i >= most {
			rest += n
			continue
		}
		fmt.Fprintf(&b, "  %d: %s", i+1, commas(n))
	}
	if rest > 0 {
		fmt.Fprintf(&b, "  later attempts: %s", commas(rest))
	}
	return b.String()
}
