package deadlines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A health logs when requests have failed for a while, and when they succeed again. It watches each kind of
// request by itself, because one stream may store what another one does not. A success does not end a failure while
// other requests of the kind fail: on a full disk, a small message is stored and a larger one is not.
type health struct {
	log    *slog.Logger
	forget time.Duration // a failure that is as old says nothing any more

	mu       sync.Mutex
	failures map[string]*failure // by the kind of request
}

// The kinds of requests.
const (
	storeRecords = "store records"
	storeWakeups = "store wake-ups"
	getWakeups   = "get wake-ups"
	readStreams  = "read the state of the streams"
)

// A failure lasts while requests of a kind fail, without a pause of sickAfter after a success.
type failure struct {
	since, last time.Time // the first and the last request that failed
	mended      bool      // a request has succeeded since the last one that failed
	logged      time.Time // the last time that it was logged, or zero
	because     string    // what was logged
}

const (
	sickAfter = 5 * time.Second  // the failures that are logged
	sickEvery = 30 * time.Second // how often they are logged again
)

// report says how a request ended.
func (h *health) report(kind string, err error) { h.reportAt(kind, err, time.Now()) }

func (h *health) reportAt(kind string, err error, now time.Time) {
	if line := h.note(kind, err, now); line != nil {
		line.write(h.log)
	}
}

// note notes how a request ended, and returns what is to be logged, or nil.
func (h *health) note(kind string, err error, now time.Time) *event {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.failures[kind]
	if errors.Is(err, context.Canceled) { // the process ends the request; that says nothing about the servers
		return nil
	}
	if err == nil {
		if f != nil {
			f.mended = true
		}
		return nil
	}
	if f == nil || h.over(f, now) {
		f = &failure{since: now}
		if h.failures == nil {
			h.failures = make(map[string]*failure)
		}
		h.failures[kind] = f
	}
	f.last, f.mended = now, false
	var r reason
	errors.As(err, &r)
	pause := sickEvery
	if r.what != f.because { // such as when servers that did not answer know that they have no leader
		pause = sickAfter
	}
	if now.Sub(f.since) < sickAfter || now.Sub(f.logged) < pause {
		return nil
	}
	f.logged, f.because = now, r.what
	return &event{slog.LevelError, fmt.Sprintf("deadlines: requests have failed for %v", now.Sub(f.since).Round(time.Second)),
		[]any{"request", kind, "because", err}}
}

// over reports whether a failure is over. The lock must be held.
func (h *health) over(f *failure, now time.Time) bool {
	quiet := now.Sub(f.last)
	return f.mended && quiet >= sickAfter || quiet >= h.forget
}

// settle logs which failures are over. It is called now and then.
func (h *health) settle() { h.settleAt(time.Now()) }

func (h *health) settleAt(now time.Time) {
	for _, line := range h.ended(now) {
		line.write(h.log)
	}
}

// ended forgets the failures that are over, and returns what is to be logged.
func (h *health) ended(now time.Time) (lines []event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for kind, f := range h.failures {
		if !h.over(f, now) {
			continue
		}
		delete(h.failures, kind)
		if f.logged.IsZero() {
			continue
		}
		text := "deadlines: requests succeed again"
		if !f.mended { // such as of a deadline that another worker has got
			text = "deadlines: requests that failed are not repeated any more"
		}
		lines = append(lines, event{slog.LevelInfo, text, []any{"request", kind, "after", f.last.Sub(f.since).Round(time.Second)}})
	}
	return lines
}
