package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newRand(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// post sends a body as the page does, except for the headers that are given as "Name: value".
func post(h http.Handler, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "http://127.0.0.1:8080"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestControls(t *testing.T) {
	l := closed(t, startWheel, quiet)
	h := newHandler(l)
	s := sampler{lab: l}

	w := post(h, "/load", `{"rate": 7, "canceled": 1, "minDelayMs": 5, "maxDelayMs": 5}`)
	require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	require.Equal(t, loadSettings{Rate: 7, Canceled: 1, MinDelayMs: 5, MaxDelayMs: 5}, s.snapshot().Load)
	w = post(h, "/load", `{"rate": 0}`)
	require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	require.Equal(t, loadSettings{Rate: 0, Canceled: 1, MinDelayMs: 5, MaxDelayMs: 5}, s.snapshot().Load, "fields that are not named stay")

	w = post(h, "/wheel", `{"tickMs": 1, "levels": 2, "size": 512}`)
	require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	v := s.snapshot()
	require.Equal(t, wheelSettings{TickMs: 1, Levels: 2, Size: 512}, v.Wheel)
	require.Equal(t, loadSettings{Rate: 0, Canceled: 1, MinDelayMs: 5, MaxDelayMs: 5}, v.Load)

	w = post(h, "/block", `{"tasks": 4, "seconds": 30}`)
	require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	require.Eventually(t, func() bool { return s.snapshot().Running == 4 }, far, time.Millisecond)
	require.EqualValues(t, 4, s.snapshot().Blocked)
}

func TestBadControls(t *testing.T) {
	l := closed(t, startWheel, quiet)
	h := newHandler(l)
	for _, tt := range []struct{ path, body, field, want string }{
		{"/load", `{"rate": -1}`, "rate", "rate is -1: allowed is 0 to 200000"},
		{"/load", `{"rate": 200001}`, "rate", "rate is 200001: allowed is 0 to 200000"},
		{"/load", `{"rate": 1.5}`, "rate", "rate must be a whole number, not a JSON number 1.5"},
		{"/load", `{"rate": "many"}`, "rate", "rate must be a whole number, not a JSON string"},
		{"/load", `{"canceled": 1.01}`, "canceled", "canceled is 1.01: allowed is 0 to 1"},
		{"/load", `{"canceled": true}`, "canceled", "canceled must be a number, not a JSON bool"},
		{"/load", `{"minDelayMs": 0}`, "minDelayMs", "minDelayMs is 0: allowed is 1 to 600000"},
		{"/load", `{"maxDelayMs": 600001}`, "maxDelayMs", "maxDelayMs is 600001: allowed is 1 to 600000"},
		{"/load", `{"minDelayMs": 2000}`, "minDelayMs", "minDelayMs is 2000: it must not be more than maxDelayMs, 1000"},
		{"/load", `{"speed": 1}`, "", `unknown field \"speed\"`},
		{"/load", `[]`, "", "one JSON object"},
		{"/load", `{"rate": 1} {}`, "", "with nothing after it"},
		{"/load", `{"rate": 1`, "", "unexpected EOF"},
		{"/load", "", "", "EOF"},
		{"/load", `{"rate": 1` + strings.Repeat(" ", maxBody) + `}`, "", "too large"},
		{"/wheel", `{"tickMs": 0}`, "tickMs", "tickMs is 0: allowed is 1 to 1000"},
		{"/wheel", `{"tickMs": 1001}`, "tickMs", "tickMs is 1001: allowed is 1 to 1000"},
		{"/wheel", `{"levels": 4}`, "levels", "levels is 4: allowed is 1 to 3"},
		{"/wheel", `{"size": 8}`, "size", "size is 8: allowed is 16 to 512"},
		{"/wheel", `{"size": 100}`, "size", "size is 100: it must be a power of two"},
		{"/block", `{"tasks": 0, "seconds": 1}`, "tasks", "tasks is 0: allowed is 1 to 1000"},
		{"/block", `{"seconds": 1}`, "tasks", "tasks is 0: allowed is 1 to 1000"},
		{"/block", `{"tasks": 1, "seconds": 31}`, "seconds", "seconds is 31: allowed is 0.1 to 30"},
	} {
		w := post(h, tt.path, tt.body)
		require.Equal(t, http.StatusBadRequest, w.Code, tt.body)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Contains(t, w.Body.String(), tt.want, tt.body)
		var got fieldError
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Equal(t, tt.field, got.Field, tt.body)
	}
	s := sampler{lab: l}
	v := s.snapshot()
	require.Equal(t, quiet, v.Load)
	require.Equal(t, startWheel, v.Wheel)
	require.Equal(t, 1, v.Timer)
	require.Zero(t, v.Counts.Scheduled)

	require.Equal(t, http.StatusBadRequest, post(h, "/load", `{"rate": 1}`, "Content-Type: text/plain").Code)
	require.Equal(t, quiet, s.snapshot().Load)
}

// TestControlsAtTheEnd sends requests after the lab has been closed.
func TestControlsAtTheEnd(t *testing.T) {
	l, err := newLab(startWheel, quiet)
	require.NoError(t, err)
	l.close()
	h := newHandler(l)
	for path, body := range map[string]string{"/wheel": `{"tickMs": 7}`, "/block": `{"tasks": 2, "seconds": 1}`} {
		w := post(h, path, body)
		require.Equal(t, http.StatusServiceUnavailable, w.Code, path)
		require.Contains(t, w.Body.String(), "timer is stopped")
	}
	require.Zero(t, l.rig.Load().blocked.Load())
}

func TestOthersAreKeptOut(t *testing.T) {
	l := closed(t, startWheel, quiet)
	h := newHandler(l)
	for _, tt := range []struct {
		headers string
		code    int
	}{
		{"", http.StatusNoContent},
		{"Origin: http://127.0.0.1:8080", http.StatusNoContent},
		{"Origin: http://127.0.0.1:8080|Sec-Fetch-Site: same-origin", http.StatusNoContent},
		{"Host: localhost:8080|Origin: http://localhost:8080", http.StatusNoContent},
		{"Host: 127.0.0.1", http.StatusNoContent},
		{"Host: other.example:8080", http.StatusForbidden},
		{"Host: other.example:8080|Origin: http://other.example:8080|Sec-Fetch-Site: same-origin", http.StatusForbidden},
		{"Host: 127.0.0.1.other.example", http.StatusForbidden},
		{"Host: 127.0.0.1:8080.other.example:8080", http.StatusForbidden},
		{"Origin: http://other.example", http.StatusForbidden},
		{"Origin: null", http.StatusForbidden},
		{"Origin: http://127.0.0.1:9999", http.StatusForbidden},
		{"Sec-Fetch-Site: cross-site", http.StatusForbidden},
		{"Sec-Fetch-Site: same-site", http.StatusForbidden},
	} {
		var headers []string
		if tt.headers != "" {
			headers = strings.Split(tt.headers, "|")
		}
		w := post(h, "/load", `{"rate": 0}`, headers...)
		require.Equal(t, tt.code, w.Code, tt.headers)
	}

	for _, path := range []string{"/", "/events"} { // other sites may not read either
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "other.example:8080"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusForbidden, w.Code)
		require.Contains(t, w.Body.String(), `Host is "other.example:8080"`)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:8080/load", nil))
	require.NotEqual(t, http.StatusNoContent, w.Code, "a link changes nothing")
}

func TestPage(t *testing.T) {
	h := newHandler(closed(t, startWheel, quiet))
	for path, kind := range map[string]string{
		"/": "text/html", "/app.js": "text/javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:8080"+path, nil))
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Contains(t, w.Header().Get("Content-Type"), kind)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'self'")
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'")
		require.NotRegexp(t, `(src|href)="(https?:)?//`, w.Body.String(), "nothing from elsewhere")
	}
}

func TestEvents(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time: runs without -short")
	}
	l := closed(t, wheelSettings{TickMs: 10, Levels: 2, Size: 64},
		loadSettings{Rate: 1000, Canceled: 0.5, MinDelayMs: 20, MaxDelayMs: 2000})
	srv := httptest.NewServer(newHandler(l))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/events", nil)
	require.NoError(t, err)
	stream, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer stream.Body.Close()
	require.Equal(t, "text/event-stream", stream.Header.Get("Content-Type"))

	hung := time.AfterFunc(far, cancel)
	defer hung.Stop()
	lines := bufio.NewReader(stream.Body)
	next := func() (v snapshot) {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		data, ok := strings.CutPrefix(line, "data: ")
		require.True(t, ok, line)
		require.NoError(t, json.Unmarshal([]byte(data), &v))
		blank, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "\n", blank)
		return v
	}
	first, start := next(), time.Now()
	require.Zero(t, first.Rates.Scheduled, "there is nothing to compare with")
	var last snapshot
	for range 20 {
		last = next()
		require.GreaterOrEqual(t, last.Counts.Scheduled, first.Counts.Scheduled)
	}
	require.GreaterOrEqual(t, time.Since(start), 19*frame/2, "snapshots come no faster than they should")
	require.Greater(t, last.Counts.Scheduled, first.Counts.Scheduled)
	require.Positive(t, last.Rates.Scheduled)
	require.Positive(t, last.Pending)
	require.NotEmpty(t, last.Levels)

	cancel() // srv.Close waits for the handler
	_, err = io.ReadAll(stream.Body)
	require.Error(t, err)
}
