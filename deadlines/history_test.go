//go:build unix

package deadlines_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
)

// A history is what a test has done with a key, one operation after the other.
type history struct {
	key string
	ops []operation
}

type operation struct {
	kind       string // set, move or cancel
	at         time.Time
	start, end time.Time
	ok         bool  // Set returned nil, or the other returned true
	err        error // if not nil, the operation may have been done or not
}

func (o operation) String() string {
	at, took := "", o.end.Sub(o.start).Round(time.Millisecond)
	if !o.at.IsZero() {
		at = " to " + o.at.Format(stamp)
	}
	return fmt.Sprintf("%s %s%s: %v after %v, err %v", o.start.Format(stamp), o.kind, at, o.ok, took, o.err)
}

const stamp = "04:05.000000000"

// An outcome is what may have become of a key, as far as its operations say. The zero outcome is that it was never set.
type outcome struct {
	at       int64
	canceled bool
}

// verify compares a history with the deadline that the store has now, or with nil if it has none, and with the calls
// of handlers for the key. A deadline before quiet must have ended. It returns what is wrong.
func (h *history) verify(final *deadlines.Deadline, calls []call, quiet time.Time) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	known := make(map[int64]bool)
	maybe := []outcome{{}}
	for _, o := range h.ops {
		was := maybe
		switch done := (outcome{at: o.at.UnixNano()}); {
		case o.kind == "cancel" && (o.ok || o.err != nil):
			maybe = nil
			for _, m := range was {
				maybe = append(maybe, outcome{m.at, m.at != 0})
			}
			if o.err != nil {
				maybe = append(was[:len(was):len(was)], maybe...)
			} else if len(was) == 1 {
				for _, c := range calls {
					if c.kind == "call" && c.at == was[0].at && c.now > o.end.UnixNano() {
						fault("%s calls it %v after Cancel returned true", c.worker, time.Duration(c.now-o.end.UnixNano()))
					}
				}
			}
		case o.ok:
			maybe = []outcome{done}
		case o.err != nil:
			maybe = append(was[:len(was):len(was)], done)
		default: // not pending: it has ended, or runs, so its time has come
			if !slices.ContainsFunc(was, func(m outcome) bool { return m.canceled || m.at <= o.end.UnixNano() }) {
				fault("%s returned false at %s, before its time", o.kind, o.end.Format(stamp))
			}
		}
		if !o.at.IsZero() {
			known[o.at.UnixNano()] = true
		}
	}
	for _, c := range calls {
		if c.now < c.at {
			fault("%s calls it %v early", c.worker, time.Duration(c.at-c.now))
		}
		if !known[c.at] {
			fault("%s calls it for a time that was not set", c.worker)
		}
	}
	var last outcome
	if final != nil {
		last = outcome{final.At.UnixNano(), final.Status == deadlines.Canceled}
	}
	if !slices.Contains(maybe, last) {
		fault("the store has %+v, and not one of %v", final, maybe)
	}
	if final == nil {
		return faults
	}
	switch final.Status {
	case deadlines.Handled:
		if !slices.ContainsFunc(calls, func(c call) bool { return c.kind == "ok" && c.at == last.at }) {
			fault("it is handled, but no call has returned nil")
		}
	case deadlines.Pending, deadlines.Running:
		if final.At.Before(quiet) {
			fault("it is %s %v after its time", final.Status, quiet.Sub(final.At))
		}
	}
	return faults
}

// describe returns the history with the calls, for a test that has failed.
func (h *history) describe(calls []call) string {
	type event struct {
		at   int64
		text string
	}
	var events []event
	for _, o := range h.ops {
		events = append(events, event{o.start.UnixNano(), o.String()})
	}
	for _, c := range calls {
		now := time.Unix(0, c.now)
		events = append(events, event{c.now, fmt.Sprintf("%s %s: %s for %s, attempt %d",
			now.Format(stamp), c.worker, c.kind, time.Unix(0, c.at).Format(stamp), c.attempt)})
	}
	slices.SortFunc(events, func(a, b event) int { return int(a.at - b.at) })
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "  %s\n", e.text)
	}
	return b.String()
}
