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
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.failures[kind]
	if errors.Is(err, context.Canceled) { // the process ends the request; that says nothing about the servers
		return
	}
	if err == nil {
		if f != nil {
			f.mended = true
		}
		return
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
	if now.Sub(f.since) >= sickAfter && now.Sub(f.logged) >= pause {
		f.logged, f.because = now, r.what
		h.log.Error(fmt.Sprintf("deadlines: requests have failed for %v", now.Sub(f.since).Round(time.Second)),
			"request", kind, "because", err)
	}
}

// over reports whether a failure is over. The lock must be held.
func (h *health) over(f *failure, now time.Time) bool {
	quiet := now.Sub(f.last)
	return f.mended && quiet >= sickAfter || quiet >= h.forget
}

// settle logs which failures are over. It is called now and then.
func (h *health) settle() { h.settleAt(time.Now()) }

func (h *health) settleAt(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for kind, f := range h.failures {
		if !h.over(f, now) {
			continue
		}
		delete(h.failures, kind)
		switch {
		case f.logged.IsZero():
		case f.mended:
			h.log.Info("deadlines: requests succeed again", "request", kind, "after", f.last.Sub(f.since).Round(time.Second))
		default: // such as of a deadline that another worker has got
			h.log.Info("deadlines: requests that failed are not repeated any more", "request", kind, "after", f.last.Sub(f.since).Round(time.Second))
		}
	}
}
