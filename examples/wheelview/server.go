package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"time"
)

//go:embed page
var page embed.FS

const (
	frame      = time.Second / 15 // between two snapshots
	writeLimit = 5 * time.Second  // for one snapshot; a reader that takes longer is dropped
	maxBody    = 1 << 12
)

// newHandler returns the handler of the page and its API.
func newHandler(l *lab) http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the path is a constant
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /events", l.serveEvents)
	mux.HandleFunc("POST /load", func(w http.ResponseWriter, r *http.Request) {
		answerTo(w, l.changeLoad(func(s *loadSettings) error { return decodeBody(w, r, s) }))
	})
	mux.HandleFunc("POST /wheel", func(w http.ResponseWriter, r *http.Request) {
		answerTo(w, l.changeWheel(func(s *wheelSettings) error { return decodeBody(w, r, s) }))
	})
	mux.HandleFunc("POST /block", func(w http.ResponseWriter, r *http.Request) {
		var b blockage
		err := decodeBody(w, r, &b)
		if err == nil {
			err = b.check()
		}
		if err == nil {
			err = l.block(b)
		}
		answerTo(w, err)
	})
	return guard(mux)
}

// guard keeps other sites out. Any site can send requests to 127.0.0.1 through a browser on this
// machine. So:
//
//   - The Host must be ours. If a site makes its name resolve to 127.0.0.1 (DNS rebinding), the browser
//     takes that site and this server for one origin. But the Host is still the name of that site.
//   - A request for a change must come from our origin, by the Origin and Sec-Fetch-Site headers,
//     which a script cannot forge. A client that is not a browser sends neither header and is let in.
//   - No other page may show this page in a frame, where it could lead users to click the buttons.
func guard(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host // without a port, which means port 80
		}
		if host != "127.0.0.1" && host != "localhost" {
			http.Error(w, fmt.Sprintf("Host is %q: allowed is 127.0.0.1 or localhost", r.Host), http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// decodeBody reads the JSON body of a request.
func decodeBody(w http.ResponseWriter, r *http.Request, to any) error {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return &fieldError{Message: "Content-Type must be application/json"}
	}
	return decode(http.MaxBytesReader(w, r.Body, maxBody), to)
}

// answerTo answers a request for a change: with no content, or with err as JSON.
func answerTo(w http.ResponseWriter, err error) {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	code := http.StatusBadRequest
	wrong := new(fieldError)
	if !errors.As(err, &wrong) {
		code, wrong = http.StatusServiceUnavailable, &fieldError{Message: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(wrong)
}

// serveEvents sends snapshots, as server-sent events, until the client goes or the server ends.
func (l *lab) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	ctl := http.NewResponseController(w)
	s := sampler{lab: l}
	ticker := time.NewTicker(frame)
	defer ticker.Stop()
	for {
		data, err := json.Marshal(s.snapshot())
		if err != nil {
			panic(err) // JSON can encode every snapshot
		}
		ctl.SetWriteDeadline(time.Now().Add(writeLimit))
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return
		}
		if err := ctl.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}
