// Package wheeldebug serves a page that says what is pending on timers: which functions, how many of each, when they are
// due, and what is due and waits. It also says which functions run, and for how long. Serve it beside net/http/pprof:
//
//	mux.Handle("/debug/hashedwheel", wheeldebug.Handler(timer))
//
// docs/operations.md says how to read it.
package wheeldebug

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// fresh is how long a page is sent again before the next one is made.
const fresh = time.Second

// Handler returns a handler that serves a page about the timers, as plain text, or as JSON with ?format=json. The page has
// the options of each timer, its Stats, and how much they have changed since the last page. Tables say what is running, and
// what is pending, by function or type. The page never has the fields of a task.
//
// The time to make a page grows with the number of pending timeouts and running tasks. Meanwhile the timers are held up for
// microseconds at a time. Only one page is made at a time. A request that comes meanwhile, or within a second after, gets the
// same page.
//
// Like profiles, the page is for operators only. The handler keeps the timers reachable. Handler panics if a timer is nil, or
// was not made by hashedwheel.New.
func Handler(timers ...*hashedwheel.Timer) http.Handler {
	h := &handler{timers: timers, lastAt: time.Now()}
	for _, t := range timers {
		if t == nil {
			panic("wheeldebug: Handler: nil Timer")
		}
		h.last = append(h.last, t.Stats())
	}
	return h
}

type handler struct {
	timers []*hashedwheel.Timer // immutable

	mu     sync.Mutex // held while a page is made
	page   *page      // the last one; immutable
	madeAt time.Time  // when that was complete

	// The Stats of the last page, or of when the handler was made, and the time when they were read.
	last   []hashedwheel.Stats
	lastAt time.Time
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	write, contentType := writeText, "text/plain; charset=utf-8"
	switch format := r.URL.Query().Get("format"); {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "wheeldebug: only GET and HEAD are allowed", http.StatusMethodNotAllowed)
		return
	case format == "json":
		write, contentType = writeJSON, "application/json"
	case format != "" && format != "text":
		http.Error(w, "wheeldebug: the format must be text or json", http.StatusBadRequest)
		return
	}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if r.Method == http.MethodGet {
		w.Write(write(h.get(), r.Host)) // an error is the client's: it has gone
	}
}

// get returns a page that is not older than fresh.
func (h *handler) get() *page {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.page != nil && time.Since(h.madeAt) < fresh {
		return h.page
	}
	start := time.Now()
	p := &page{At: start, Timers: make([]timerPage, 0, len(h.timers))}
	for i, t := range h.timers {
		tp := timerPageOf(t, start)
		tp.Running = runsOf(t)
		tp.Since = changesOf(h.last[i], tp.Stats, start.Sub(h.lastAt))
		p.Timers = append(p.Timers, tp)
		h.last[i] = tp.Stats
	}
	h.page, h.madeAt, h.lastAt = p, time.Now(), start
	p.Took = h.madeAt.Sub(start)
	return p
}

func writeJSON(p *page, _ string) []byte {
	text, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		panic(err) // a page has nothing that cannot be marshaled
	}
	return append(text, '\n')
}
